"""Streams over HTTP, of a broker that runs here: what is answered, refused, and how reads end."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import os
import signal
import socket
from array import array
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from hareline.management import range_answers, streams
from hareline.management.range_answers import ReaderProcess
from hareline.management.streams import StreamService
from hareline.message import UNWRITTEN, large_message
from hareline.octets import readable
from hareline.queues.queue import Queue
from hareline.server.broker import Broker
from hareline.settings import Auth, Journal, Settings, Storage, User
from hareline.spark.reading.amqp_session import broker_id_at
from hareline.storage.store.pinned import Pinned, PinnedPlaces
from hareline.wire.stream_chunks import (
    BROKER_HEADER,
    ERROR_HEAD_SIZE,
    HEADER_SIZE,
    ChunkError,
    check_columns,
    decode_error,
    decode_header,
    error_size,
)
from tests.support.broker_thread import broker_in_loop
from tests.support.http_api import HttpApi, segment
from tests.support.messages import ARRIVAL_MS, make_message
from tests.support.sink_broker import connection_at
from tests.support.vhosts import declare as declare_queue
from tests.support.waiting import until

DEADLINE_S = 60.0
BODY = bytes(1000)


#: Name -> the queues that the user may read; "" for one who may not enter.
READERS = {"ann": "^(s|big|classic)$", "root": ".*", "eve": ""}


@pytest.fixture
def settings(durable: Settings) -> Settings:
    """Users whose passwords are the first letters of their names."""
    users = [
        {
            "name": name,
            "password": name[0],
            "permissions": [{"vhost": "/", "configure": "", "write": "", "read": read}]
            if read
            else [],
        }
        for name, read in READERS.items()
    ]
    changes = {
        "journal": Journal(segment_bytes=1 << 20),
        "auth": Auth(failure_delay_s=0),
        "users": tuple(map(User.model_validate, users)),
    }
    return durable.model_copy(update=changes)


@pytest.fixture(params=["journal", "memory"])
async def any_broker(settings: Settings, request: pytest.FixtureRequest) -> AsyncIterator[Broker]:
    storage = Storage.model_validate({"kind": request.param})
    async with broker_in_loop(settings.model_copy(update={"storage": storage})) as broker:
        yield broker


def service(broker: Broker) -> StreamService:
    assert broker._management is not None
    return broker._management._streams


def reader(broker: Broker) -> ReaderProcess:
    found = service(broker)._reader
    assert found is not None
    return found


def declare(broker: Broker, name: str = "s", **arguments: object) -> Queue:
    given = {"x-queue-type": "stream", **arguments}
    return declare_queue(broker.context.vhosts["/"], name, is_durable=True, arguments=given)


async def fill(broker: Broker, queue: Queue, count: int, body: bytes = b"") -> None:
    """Messages ``<offset>:<body>``, a millisecond apart, which are durable then."""
    for _ in range(count):
        offset = queue.next_offset
        message = make_message(b"%d:" % offset + body, routing_key="k", delivery_mode=2)
        message.position = UNWRITTEN
        message.arrival_ms = ARRIVAL_MS + offset
        assert queue.put(message)
    await is_durable(broker)


async def is_durable(broker: Broker) -> None:
    if broker._storage is not None:
        store = broker._store
        done = asyncio.Event()
        store.when_durable(store.ticket, done.set)
        await done.wait()


class Answer:
    """``status`` and what came: JSON, or messages and perhaps an error."""

    def __init__(self, status: int, headers: Mapping[str, str], octets: bytes) -> None:
        self.status = status
        self.headers = headers
        self.octets = octets

    @property
    def json(self) -> Any:
        return json.loads(self.octets)

    def messages(self) -> tuple[list[tuple[int, int, bytes]], ChunkError | None]:
        """Offset, arrival in microseconds and body of each, and the error at the end."""
        rows: list[tuple[int, int, bytes]] = []
        octets = memoryview(self.octets)
        while octets:
            size = error_size(bytes(octets[:ERROR_HEAD_SIZE]))
            if size is not None:
                return rows, decode_error(bytes(octets[ERROR_HEAD_SIZE:]))
            header = decode_header(bytes(octets[:HEADER_SIZE]))
            end = HEADER_SIZE + header.columns_size
            check_columns(header, octets[HEADER_SIZE:end])
            count, at = header.count, HEADER_SIZE
            arrivals, sizes = array("Q", bytes(octets[at : at + 8 * count])), array("I")
            sizes.frombytes(octets[at + 12 * count : at + 16 * count])
            at += 16 * count + header.metas_size
            for index in range(count):
                body = bytes(octets[at : at + sizes[index]])
                rows.append((header.first_offset + index, arrivals[index], body))
                at += sizes[index]
            octets = octets[end:]
        return rows, None


async def get(broker: Broker, path: str, login: str | None = "ann:a") -> Answer:
    """``path``: behind ``/api/stream/%2F``."""
    user, _, password = (login or "").partition(":")
    api = HttpApi(broker.management_url, user or None, password)
    answer = await asyncio.to_thread(api.ask, "GET", f"/api/stream/%2F{path}")
    return Answer(answer.status_code, answer.headers, answer.content)


async def read(broker: Broker, start: int, end: int, name: str = "s", more: str = "") -> Answer:
    return await get(broker, f"/{name}/range?start={start}&end={end}{more}")


def bodies(answer: Answer) -> list[bytes]:
    """The bodies; the answer has no error, and its offsets no gap."""
    rows, error = answer.messages()
    assert error is None
    assert answer.status == 200
    assert [row[0] for row in rows] == list(range(rows[0][0], rows[0][0] + len(rows)))
    return [row[2] for row in rows]


class SlowClient:
    """A client that has asked for a range, and reads when it is told to."""

    def __init__(self, broker: Broker, start: int, end: int, name: str = "s") -> None:
        parts = urlsplit(broker.management_url)
        self.sock = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.sock.connect((parts.hostname, parts.port))
        self.sock.settimeout(DEADLINE_S)
        login = base64.b64encode(b"ann:a").decode()
        self.sock.sendall(
            f"GET /api/stream/%2F/{name}/range?start={start}&end={end} HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Basic {login}\r\n\r\n".encode()
        )

    async def read_on(self, size: int) -> bytes:
        return await asyncio.to_thread(self.sock.recv, size)

    async def rest(self) -> bytes:
        octets = b""
        while part := await self.read_on(1 << 20):
            octets += part
        return octets


# -------------------------------------------------------------------------- what is answered


async def test_answers_say_which_broker_gives_them_as_a_connection_is_told(broker: Broker) -> None:
    declare(broker)
    port = urlsplit(broker.url).port
    assert port is not None
    told = await asyncio.to_thread(broker_id_at, connection_at(port), DEADLINE_S)
    assert len(told) == 16
    for path, status in (("/s/tail", 200), ("", 200), ("/classic/tail", 404), ("/other/tail", 403)):
        answer = await get(broker, path)
        assert (answer.status, answer.headers[BROKER_HEADER]) == (status, told)


@pytest.mark.acceptance
async def test_the_streams_of_a_virtual_host_are_those_the_user_may_read(
    any_broker: Broker,
) -> None:
    stream = declare(any_broker)
    declare(any_broker, "secret")
    declare(any_broker, "classic", **{"x-queue-type": "classic"})
    await fill(any_broker, stream, 3)
    answer = await get(any_broker, "")
    assert answer.status == 200
    assert answer.json == [
        {"queue": "s", "incarnation": stream.incarnation, "first": 0, "next": 3, "bytes": 6}
    ]


@pytest.mark.acceptance
async def test_the_tail_says_where_a_stream_begins_and_ends(any_broker: Broker) -> None:
    stream = declare(any_broker)
    ends = {"queue": "s", "incarnation": stream.incarnation, "first": 0, "next": 0, "bytes": 0}
    assert (await get(any_broker, "/s/tail")).json == {**ends, "first_timestamp_ms": None}
    await fill(any_broker, stream, 3)
    ends |= {"next": 3, "bytes": 6, "first_timestamp_ms": ARRIVAL_MS}
    assert (await get(any_broker, "/s/tail")).json == ends
    stream.purge()
    ends |= {"first": 3, "bytes": 0, "first_timestamp_ms": None}
    assert (await get(any_broker, "/s/tail")).json == ends


@pytest.mark.acceptance
async def test_an_instant_has_an_offset(any_broker: Broker) -> None:
    stream = declare(any_broker)
    await fill(any_broker, stream, 3)
    for after, offset in ((-9, 0), (1, 1), (2, 2), (3, 3)):
        path = f"/s/offset-for-timestamp?timestamp_ms={ARRIVAL_MS + after}"
        found = (await get(any_broker, path)).json
        assert found == {"offset": offset, "incarnation": stream.incarnation}


@pytest.mark.acceptance
@pytest.mark.parametrize(("start", "end"), [(0, 600), (0, 1), (599, 600), (17, 400), (5, 5)])
async def test_a_range_has_its_messages_and_no_other(
    any_broker: Broker, start: int, end: int
) -> None:
    await fill(any_broker, declare(any_broker), 600)
    answer = await read(any_broker, start, end)
    rows, error = answer.messages()
    assert (answer.status, error) == (200, None)
    assert answer.headers["content-type"] == "application/x-hareline-chunks"
    assert rows == [
        (offset, (ARRIVAL_MS + offset) * 1000, b"%d:" % offset) for offset in range(start, end)
    ]


@pytest.mark.acceptance
async def test_a_range_ends_at_a_chunk_once_enough_octets_were_sent(
    any_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_answers, "COUNT_MAX", 100)
    monkeypatch.setattr(range_answers, "MEMORY_COUNT", 100)
    await fill(any_broker, declare(any_broker), 500, BODY)
    found: list[bytes] = []
    lengths = []
    while len(found) < 500:
        some = bodies(await read(any_broker, len(found), 500, more="&max_bytes=150000"))
        lengths.append(len(some))
        found += some
    assert [body.partition(b":")[0] for body in found] == [b"%d" % n for n in range(500)]
    assert lengths == [200, 200, 100]


@pytest.mark.acceptance
async def test_a_connection_is_used_again_after_a_range(broker: Broker) -> None:
    await fill(broker, declare(broker), 10)
    parts = urlsplit(broker.management_url)
    login = {"Authorization": "Basic " + base64.b64encode(b"ann:a").decode()}

    def ask() -> list[int]:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        sizes = []
        with contextlib.closing(connection):
            for path in ("range?start=0&end=10", "tail", "range?start=2&end=3", "range"):
                connection.request("GET", f"/api/stream/%2F/s/{path}", headers=login)
                sizes.append(len(connection.getresponse().read()))
                first = connection.sock
                assert first is not None
        return sizes

    first, tail, second, refused = await asyncio.to_thread(ask)
    assert first > second > 0
    assert min(tail, refused) > 0


@pytest.mark.acceptance
@pytest.mark.parametrize("name", ["a/b", "größe", "caf\udce9", "%2F", "range", "tail"])
async def test_names_are_percent_encoded(any_broker: Broker, name: str) -> None:
    await fill(any_broker, declare(any_broker, name), 1)
    encoded = segment(name)
    answer = await get(any_broker, f"/{encoded}/tail", "root:r")
    assert (answer.status, answer.json["next"]) == (200, 1)
    assert answer.json["queue"] == readable(name)
    assert bodies(await get(any_broker, f"/{encoded}/range?start=0&end=1", "root:r")) == [b"0:"]


@pytest.mark.acceptance
async def test_a_large_message_comes_out_of_its_file(broker: Broker) -> None:
    body = os.urandom(3_000_000)
    assert broker.context.large_bodies is not None
    draft = broker.context.large_bodies.begin(len(body))
    draft.add(body)
    small = make_message(bytes(len(body)))
    message = large_message(
        small.address, small.content[: small.header_size], draft.finish(), ARRIVAL_MS, UNWRITTEN
    )
    stream = declare(broker, "big")
    await fill(broker, stream, 1)
    assert stream.put(message)
    await fill(broker, stream, 1)
    assert bodies(await read(broker, 0, 3, "big")) == [b"0:", body, b"2:"]


@pytest.mark.acceptance
async def test_what_a_restart_brings_back_is_read_as_before(settings: Settings) -> None:
    async with broker_in_loop(settings) as broker:
        incarnation = declare(broker).incarnation
        await fill(broker, declare(broker), 300, BODY)
        before = await read(broker, 0, 300)
    async with broker_in_loop(settings) as broker:
        assert declare(broker).incarnation == incarnation
        assert (await read(broker, 0, 300)).octets == before.octets
        assert (await get(broker, "/s/tail")).json["next"] == 300


# ------------------------------------------------------------------------------ long polls


@pytest.mark.acceptance
async def test_a_poll_is_answered_when_the_stream_has_grown(any_broker: Broker) -> None:
    stream = declare(any_broker)
    await fill(any_broker, stream, 2)
    poll = asyncio.create_task(get(any_broker, "/s/tail?after=2&wait_ms=30000"))
    await until(lambda: service(any_broker)._polls, "a poll")
    await fill(any_broker, stream, 1)
    assert (await poll).json["next"] == 3
    assert service(any_broker)._polls == set()
    assert stream.lane.watchers == []  # type: ignore[attr-defined]
    assert (await get(any_broker, "/s/tail?after=1&wait_ms=30000")).json["next"] == 3


@pytest.mark.acceptance
async def test_a_poll_ends_with_its_time_with_the_queue_and_with_the_client(
    any_broker: Broker,
) -> None:
    stream = declare(any_broker)
    assert (await get(any_broker, "/s/tail?after=0&wait_ms=1")).json["next"] == 0
    poll = asyncio.create_task(get(any_broker, "/s/tail?after=0&wait_ms=30000"))
    await until(lambda: service(any_broker)._polls, "a poll")
    any_broker.context.vhosts["/"].delete_queue("s", None)
    assert (await poll).status == 404
    stream = declare(any_broker)
    parts = urlsplit(any_broker.management_url)
    with socket.create_connection((parts.hostname, parts.port)) as client:
        login = base64.b64encode(b"ann:a").decode()
        client.sendall(
            b"GET /api/stream/%2F/s/tail?after=0&wait_ms=30000 HTTP/1.1\r\nHost: x\r\n"
            + f"Authorization: Basic {login}\r\n\r\n".encode()
        )
        await until(lambda: service(any_broker)._polls, "a poll")
    await until(lambda: not service(any_broker)._polls, "its end")
    assert stream.lane.watchers == []  # type: ignore[attr-defined]


@pytest.mark.acceptance
async def test_a_stop_ends_polls_at_once(settings: Settings) -> None:
    async with broker_in_loop(settings) as broker:
        declare(broker)
        poll = asyncio.create_task(get(broker, "/s/tail?after=0&wait_ms=30000"))
        await until(lambda: service(broker)._polls, "a poll")
        await broker.stop(0)
        assert (await poll).json["next"] == 0


# ------------------------------------------------------------------------- what is refused


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("path", "login", "status", "error", "reason"),
    [
        ("", None, 401, "not_authorized", "log in with"),
        ("/s/tail", "ann:wrong", 401, "not_authorized", "wrong user or password"),
        ("", "eve:e", 403, "access_refused", "access to vhost '/' refused for user 'eve'"),
        ("/x/tail", "ann:a", 403, "access_refused", "read access to queue 'x' in vhost '/'"),
        ("2/s/tail", "ann:a", 404, "not_found", "no vhost '/2'"),
        ("/big/tail", "ann:a", 404, "not_found", "no queue 'big' in vhost '/'"),
        ("/classic/tail", "ann:a", 409, "not_a_stream", "x-archive-to"),
        ("/s/readers", None, 401, "not_authorized", "log in with"),
        ("/s/readers", "eve:e", 403, "access_refused", "access to vhost '/' refused"),
        ("/x/readers", "ann:a", 403, "access_refused", "read access to queue 'x' in vhost '/'"),
        ("2/s/readers", "ann:a", 404, "not_found", "no vhost '/2'"),
        ("/big/readers", "ann:a", 404, "not_found", "no queue 'big' in vhost '/'"),
        ("/classic/readers", "ann:a", 409, "not_a_stream", "x-archive-to"),
        ("/s/tail?after=x", "ann:a", 400, "bad_request", "after: 'x' is not a natural number"),
        ("/s/tail?after=-1", "ann:a", 400, "bad_request", "after: '-1' is not a natural"),
        ("/s/tail?after=1&after=2", "ann:a", 400, "bad_request", "after: given twice"),
        ("/s/tail?wait_ms=5", "ann:a", 400, "bad_request", "wait_ms: needs after"),
        ("/s/tail?after=1&wait_ms=30001", "ann:a", 400, "bad_request", "30001 is above 30000"),
        ("/s/tail?wait=5", "ann:a", 400, "bad_request", "no argument 'wait'; known are: after"),
        ("/s/offset-for-timestamp", "ann:a", 400, "bad_request", "timestamp_ms: missing"),
        ("/s/range?end=1", "ann:a", 400, "bad_request", "start: missing"),
        ("/s/range?start=2&end=1", "ann:a", 400, "bad_request", "end: 1 is below start, 2"),
        ("/s/range?start=0&end=1&max_bytes=0", "ann:a", 400, "bad_request", "at least 1"),
        ("/s/range?start=0&end=1", "ann:a", 410, "truncated", "the stream begins at 3"),
        ("/s/range?start=4&end=6", "ann:a", 416, "beyond_tail", "end: 6 is beyond the end"),
        ("/s/range?start=9&end=9", "ann:a", 416, "beyond_tail", "end: 9 is beyond the end"),
        ("/s/range?start=4&end=5&incarnation=0", "ann:a", 409, "incarnation_changed", "again"),
        ("/s/nothing", "ann:a", 404, "not_found", "there is no /api/stream/%2F/s/nothing"),
    ],
)
async def test_what_is_refused_says_why(
    any_broker: Broker, path: str, login: str | None, status: int, error: str, reason: str
) -> None:
    stream = declare(any_broker)
    declare(any_broker, "classic", **{"x-queue-type": "classic"})
    await fill(any_broker, stream, 3)
    stream.purge()
    await fill(any_broker, stream, 2)
    answer = await get(any_broker, path, login)
    assert (answer.status, answer.json["error"]) == (status, error)
    assert reason in answer.json["reason"]
    details = {
        "truncated": {"first": 3},
        "beyond_tail": {"next": 5},
        "incarnation_changed": {"incarnation": stream.incarnation},
    }
    assert {
        name: value for name, value in answer.json.items() if name not in ("error", "reason")
    } == details.get(error, {})
    if error == "not_authorized":
        assert answer.headers["www-authenticate"].startswith("Basic")


@pytest.mark.acceptance
async def test_an_empty_range_before_the_beginning_is_empty(any_broker: Broker) -> None:
    stream = declare(any_broker)
    await fill(any_broker, stream, 3)
    stream.purge()
    answer = await read(any_broker, 1, 1)
    assert (answer.status, answer.octets) == (200, b"")


@pytest.mark.acceptance
async def test_what_is_not_durable_is_beyond_the_end(broker: Broker) -> None:
    stream = declare(broker)
    await fill(broker, stream, 2)
    assert broker._storage is not None
    broker.context.turn.write_pending = lambda: False  # the disk hangs
    message = make_message(b"2:", delivery_mode=2)
    message.position = UNWRITTEN
    assert stream.put(message)
    answer = await read(broker, 0, 3)
    assert (answer.status, answer.json["next"]) == (416, 2)
    broker.context.turn.write_pending = broker._storage.write_pending
    await is_durable(broker)
    assert len(bodies(await read(broker, 0, 3))) == 3


@pytest.mark.acceptance
async def test_http_of_an_older_version_is_refused(broker: Broker) -> None:
    await fill(broker, declare(broker), 1)
    parts = urlsplit(broker.management_url)
    login = base64.b64encode(b"ann:a").decode()

    def ask() -> bytes:
        with socket.create_connection((parts.hostname, parts.port)) as client:
            client.sendall(
                b"GET /api/stream/%2F/s/range?start=0&end=1 HTTP/1.0\r\n"
                + f"Authorization: Basic {login}\r\n\r\n".encode()
            )
            octets = b""
            while part := client.recv(1000):
                octets += part
        return octets

    answer = await asyncio.to_thread(ask)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"HTTP/1.1; ask with that version" in answer


# ------------------------------------------------------------------- what happens meanwhile


@pytest.mark.acceptance
async def test_a_redeclared_stream_is_another_one(any_broker: Broker) -> None:
    first = declare(any_broker)
    await fill(any_broker, first, 5)
    any_broker.context.vhosts["/"].delete_queue("s", None)
    second = declare(any_broker)
    await fill(any_broker, second, 5)
    answer = await read(any_broker, 0, 5, more=f"&incarnation={first.incarnation}")
    assert answer.status == 409
    assert answer.json["incarnation"] == second.incarnation != first.incarnation
    assert len(bodies(await read(any_broker, 0, 5, more=f"&incarnation={second.incarnation}"))) == 5


async def started_slowly(broker: Broker, count: int) -> SlowClient:
    """A client that has got the first octets of a range and waits, its answer not at its end."""
    client = SlowClient(broker, 0, count)
    assert (await client.read_on(100)).startswith(b"HTTP/1.1 200")
    liveness = broker._store._liveness  # type: ignore[attr-defined]
    await until(lambda: not liveness.pinned, "segments to be free")
    return client


@pytest.mark.acceptance
async def test_a_slow_client_pins_nothing_and_makes_no_other_wait(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_answers, "COUNT_MAX", 200)
    await fill(broker, declare(broker), 6000, BODY)
    client = await started_slowly(broker, 6000)
    with client.sock:
        assert len(bodies(await read(broker, 0, 1000))) == 1000
        await until(lambda: reader(broker).answers == 1, "the answer")
        rest = await client.read_on(1 << 16)
        while not rest.endswith(b"\r\n0\r\n\r\n"):
            rest = rest[-10:] + await client.read_on(1 << 20)
        await until(lambda: reader(broker).answers == 0, "its end")


@pytest.mark.acceptance
async def test_a_client_that_goes_away_leaves_nothing_behind(broker: Broker) -> None:
    await fill(broker, declare(broker), 6000, BODY)
    client = await started_slowly(broker, 6000)
    client.sock.close()
    await until(lambda: reader(broker).answers == 0, "its end")
    assert len(bodies(await read(broker, 5000, 6000))) == 1000


@pytest.mark.acceptance
@pytest.mark.parametrize("how", ["purge", "delete", "damage"])
async def test_what_goes_during_a_read_ends_it_with_an_error(
    broker: Broker, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_answers, "COUNT_MAX", 200)
    stream = declare(broker)
    await fill(broker, stream, 8000, BODY)
    client = await started_slowly(broker, 8000)
    with client.sock:
        if how == "purge":
            stream.purge()
        elif how == "delete":
            broker.context.vhosts["/"].delete_queue("s", None)
        else:
            stream.order.entries[7000].message.position += 1  # type: ignore[attr-defined]
        raw = b""
        while not raw.endswith(b"\r\n0\r\n\r\n"):
            raw += await client.read_on(1 << 20)
    rows, error = Answer(200, {}, _dechunked(raw)).messages()
    assert error is not None
    assert [row[0] for row in rows] == list(range(error.offset or -1))
    word = "missing" if how == "damage" else "truncated"
    assert error.error == word
    assert 0 < len(rows) < 8000
    if how == "damage":
        assert error.offset == 7000
    reason = {"purge": "begins at 8000", "delete": "was deleted", "damage": "journal"}[how]
    assert reason in error.reason


@pytest.mark.acceptance
async def test_what_was_looked_up_before_a_purge_still_comes(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_answers, "LOOKUP_COUNT", 10)
    stream = declare(broker)
    await fill(broker, stream, 100, BODY)
    pin = PinnedPlaces.pin
    pinned: list[Pinned] = []

    def pin_and_purge(self: PinnedPlaces, positions: array[int]) -> Pinned:
        pinned.append(pin(self, positions))
        if len(pinned) == 3:
            stream.purge()
        return pinned[-1]

    monkeypatch.setattr(PinnedPlaces, "pin", pin_and_purge)
    rows, error = (await read(broker, 0, 100)).messages()
    assert [row[0] for row in rows] == list(range(30))
    assert error is not None
    assert (error.error, error.offset) == ("truncated", 30)
    assert not broker._store._liveness.pinned  # type: ignore[attr-defined]


def _dechunked(raw: bytes) -> bytes:
    octets, at = b"", raw.index(b"\r\n\r\n") + 4 if b"\r\n\r\n" in raw[:400] else 0
    if at == 0:
        raise AssertionError(raw[:100])
    while True:
        line = raw.index(b"\r\n", at)
        size = int(raw[at:line], 16)
        if not size:
            return octets
        octets += raw[line + 2 : line + 2 + size]
        at = line + 2 + size + 2


@pytest.mark.acceptance
async def test_segments_that_are_read_are_not_freed_and_go_afterwards(
    broker: Broker,
) -> None:
    stream = declare(broker)
    for _ in range(10):  # a batch is never divided
        await fill(broker, stream, 500, BODY)
    liveness = broker._store._liveness  # type: ignore[attr-defined]
    count = len(liveness.segments)
    assert count > 3
    pid = await _reader_pid(broker)
    os.kill(pid, signal.SIGSTOP)
    try:
        answer = asyncio.create_task(read(broker, 0, 5000))
        # looked up in shares, as far ahead as the reader may be
        await until(lambda: len(liveness.pinned) >= count - 1, "the look-up")
        stream.purge()
        await is_durable(broker)
        await is_durable(broker)
        pinned = set(liveness.pinned)
        assert pinned <= set(liveness.segments)
        assert len(pinned) > 3
    finally:
        os.kill(pid, signal.SIGCONT)
    rows, error = (await answer).messages()
    assert [row[0] for row in rows] == list(range(len(rows)))
    assert len(rows) > 3000  # what was pinned
    assert error is not None
    assert (error.error, error.offset) == ("truncated", len(rows))
    await until(lambda: len(liveness.segments) <= 2, "room")


async def _reader_pid(broker: Broker) -> int:
    await read(broker, 0, 1)
    pid = reader(broker).pid
    assert pid is not None
    return pid


@pytest.mark.acceptance
async def test_records_that_compaction_moves_are_read_where_they_are(settings: Settings) -> None:
    async with broker_in_loop(settings) as broker:
        stream = declare(broker)
        classic = declare(broker, "classic", **{"x-queue-type": "classic"})
        before: list[bytes] = []
        for _ in range(60):
            await fill(broker, stream, 2, BODY)
            await fill(broker, classic, 10, 40 * BODY)
            before = bodies(await read(broker, 0, stream.next_offset))
            while (entry := classic.get()) is not None:
                classic.settle(entry)
            await is_durable(broker)
        assert broker._store._compactor.moved_bytes > 0  # type: ignore[attr-defined]
        assert bodies(await read(broker, 0, len(before))) == before
        assert len(before) == 120


@pytest.mark.acceptance
async def test_a_stop_ends_reads_with_an_error_or_an_end_that_is_seen(settings: Settings) -> None:
    async with broker_in_loop(settings) as broker:
        await fill(broker, declare(broker), 6000, BODY)
        client = await started_slowly(broker, 6000)
        pid = reader(broker).pid
        assert pid is not None
        with client.sock:
            await broker.stop(0)
            raw = await client.rest()
        assert not raw.endswith(b"0\r\n\r\n") or b'"stopping"' in raw
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.acceptance
async def test_a_read_between_two_chunks_is_told_of_the_stop(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_answers, "COUNT_MAX", 10)
    await fill(broker, declare(broker), 500)
    served = service(broker)
    real = ReaderProcess.begin

    async def begin(self: ReaderProcess, descriptor: int) -> Any:
        answer = await real(self, descriptor)
        served._is_stopping = True
        return answer

    monkeypatch.setattr(ReaderProcess, "begin", begin)
    rows, error = (await read(broker, 0, 500)).messages()
    assert rows == []
    assert error is not None
    assert (error.error, error.offset) == ("stopping", 0)
    served._is_stopping = False


@pytest.mark.acceptance
async def test_a_reader_that_dies_ends_the_answer_and_the_next_one_has_another(
    broker: Broker,
) -> None:
    await fill(broker, declare(broker), 6000, BODY)
    client = await started_slowly(broker, 6000)
    pid = await _reader_pid(broker)
    os.kill(pid, signal.SIGKILL)
    with client.sock:
        assert not (await client.rest()).endswith(b"0\r\n\r\n")
    assert len(bodies(await read(broker, 0, 10))) == 10
    assert reader(broker).pid != pid


@pytest.mark.acceptance
async def test_a_reader_that_cannot_be_started_is_told(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(broker, declare(broker), 1)

    async def begin(self: ReaderProcess, descriptor: int) -> Any:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(ReaderProcess, "begin", begin)
    answer = await read(broker, 0, 1)
    assert (answer.status, answer.json["error"]) == (503, "unavailable")
    assert "cannot be started: Resource temporarily" in answer.json["reason"]


async def test_a_head_that_its_client_does_not_take_is_looked_after_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)

    class Transport(asyncio.Transport):
        def get_write_buffer_size(self) -> int:
            return 1 if sum(pauses) < 60 else 0

    class Read:
        has_begun = False

        async def run(self) -> None:
            self.has_begun = True

    monkeypatch.setattr("hareline.management.range_answers.asyncio.sleep", sleep)
    begun = Read()
    response = range_answers.RangeResponse(begun, Transport())  # type: ignore[arg-type]
    await response._work()
    assert begun.has_begun
    assert pauses[0] < 0.01
    assert max(pauses) < 0.5
    assert len(pauses) < 1000


class SlowStart(ReaderProcess):
    """A reader process that is this test, and is not there before it says so."""

    def __init__(self) -> None:
        super().__init__("journal", "large", lambda *_, **__: None)
        self.may_start = asyncio.Event()
        self.there, self.here = socket.socketpair()

    async def _start(self) -> None:
        await self.may_start.wait()
        self.there.setblocking(False)
        self._control = self.there


async def test_a_client_that_goes_while_the_reader_starts_is_not_taken_for_the_next_one() -> None:
    process = SlowStart()
    ours, theirs = socket.socketpair()
    inode = os.fstat(ours.fileno()).st_ino
    begun = asyncio.create_task(process.begin(ours.fileno()))
    await asyncio.sleep(0)
    number = ours.detach()
    next_ours, next_theirs = socket.socketpair()
    os.dup2(next_ours.fileno(), number)  # as the system does for a client that comes next
    process.may_start.set()
    await begun
    _, handed_over, _, _ = socket.recv_fds(process.here, 100, 2)
    assert [os.fstat(each).st_ino for each in handed_over] == [inode]
    for each in (number, *handed_over):
        os.close(each)
    for sock in (theirs, next_ours, next_theirs, process.here):
        sock.close()
    await process.stop()


async def test_a_client_that_has_gone_before_leaves_no_answer() -> None:
    process = SlowStart()
    process.may_start.set()
    with pytest.raises(OSError, match="descriptor"):
        await process.begin(-1)
    assert process.answers == 0
    assert process.is_idle.is_set()
    process.here.close()
    process.there.close()
    await process.stop()


@pytest.mark.acceptance
async def test_chunks_are_smaller_when_there_are_many_answers(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = service(broker)
    sizes = []
    for count in (0, 1, 16, 64, 1000):
        monkeypatch.setattr(ReaderProcess, "answers", count)
        sizes.append(stand._limit_bytes())
    assert sizes == [4 << 20, 4 << 20, 4 << 20, 1 << 20, streams.CHUNK_BYTES_MIN]
