"""``POST /api/replay`` of a broker that runs here, by real HTTP, and what it does to the queues."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import threading
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from hareline.broker.vhost import VirtualHost
from hareline.errors import StoreError
from hareline.message import UNWRITTEN, Message, large_message
from hareline.queues.queue import Queue
from hareline.server.broker import Broker
from hareline.settings import Auth, Journal, Settings, User
from hareline.storage.replaying import range as replay_range
from hareline.storage.replaying import source as replay_source
from hareline.storage.replaying.range import ReplayRange
from tests.support.http_api import HttpApi
from tests.support.messages import make_message
from tests.support.vhosts import declare as declare_queue
from tests.support.waiting import until

DEADLINE_S = 60.0
EVER = {"from": 0, "to": "4000000000000"}

Answer = tuple[int, dict[str, Any]]


@pytest.fixture
def settings(durable: Settings) -> Settings:
    changes = {
        "journal": Journal(segment_bytes=1 << 20, retention_bytes=1 << 30),
        "auth": Auth(failure_delay_s=0),
        "users": (
            User(name="root", password=SecretStr("r"), tags=("administrator",)),
            User(name="ann", password=SecretStr("a")),
        ),
    }
    return durable.model_copy(update=changes)


def vhost_of(broker: Broker) -> VirtualHost:
    return broker.context.vhosts["/"]


def declare(broker: Broker, name: str, owner: object = None, **arguments: object) -> Queue:
    return vhost_of(broker).declare_queue(
        name,
        is_durable=owner is None,
        is_auto_delete=False,
        owner=owner,
        arguments={each.replace("_", "-"): value for each, value in arguments.items()},
    )


def message(body: bytes, arrival_ms: int = 1000, **properties: Any) -> Message:
    made = make_message(body, delivery_mode=2, **properties)
    made.arrival_ms = arrival_ms
    made.position = UNWRITTEN
    return made


async def is_durable(broker: Broker) -> None:
    store = vhost_of(broker).environment.store
    done = asyncio.Event()
    store.when_durable(store.ticket, done.set)
    await done.wait()


async def give_and_take(broker: Broker, name: str, *messages: Message) -> Queue:
    """A queue that has got these, and whose consumers have settled all of them."""
    queue = vhost_of(broker).queues.get(name) or declare(broker, name)
    for each in messages:
        queue.put(each)
    await is_durable(broker)
    taken = 0
    while (entry := queue.get()) is not None:
        queue.settle(entry)
        taken += 1
    assert taken == len(messages)
    await is_durable(broker)
    return queue


def bodies(queue: Queue) -> list[bytes]:
    found = []
    while (entry := queue.get()) is not None:
        found.append(entry.message.body)
        queue.settle(entry)
    return found


async def replay(
    broker: Broker, login: str | None = "root:r", since: object = 0, **fields: object
) -> Answer:
    """``since``: the field "from"."""
    wanted = {"queue": "q", "to_queue": "t", **EVER, "from": since, **fields}
    given = {name: value for name, value in wanted.items() if value is not None}
    user, _, password = (login or "").partition(":")
    api = HttpApi(broker.management_url, user or None, password)
    return await asyncio.to_thread(api.call, "POST", "/api/replay", given)


# ----------------------------------------------------------------------------- what it does


@pytest.mark.acceptance
async def test_it_answers_how_many_and_from_when_to_when(broker: Broker) -> None:
    await give_and_take(broker, "q", *(message(b"%d" % n, 1000 + n) for n in range(5)))
    target = declare(broker, "t")
    status, answer = await replay(broker, since=1001, to=1004)
    assert status == 200
    since = answer.pop("kept_since")
    (problem,) = answer.pop("problems")
    assert problem == f"what arrived before {since} may not all be kept any more"
    assert answer == {
        "replayed": 3,
        "first": "1970-01-01T00:00:01.001Z",
        "last": "1970-01-01T00:00:01.003Z",
        "unreadable": 0,
    }
    assert bodies(target) == [b"1", b"2", b"3"]


@pytest.mark.acceptance
async def test_nothing_found_is_no_error(broker: Broker) -> None:
    await give_and_take(broker, "q", message(b"x"))
    target = declare(broker, "t")
    status, answer = await replay(broker, since=5, to=6)
    assert (status, answer["replayed"], answer["first"], answer["last"]) == (200, 0, None, None)
    assert bodies(target) == []


@pytest.mark.acceptance
async def test_a_queue_may_be_replayed_into_itself_and_this_ends(broker: Broker) -> None:
    queue = await give_and_take(broker, "q", message(b"1"), message(b"2"))
    for count in (2, 4, 8):
        _, answer = await replay(broker, to_queue="q")
        assert answer["replayed"] == count  # what was replayed before is there, too
        assert len(bodies(queue)) == count
        await is_durable(broker)


@pytest.mark.acceptance
async def test_many_messages_come_in_pieces_and_in_order(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [b"%05d" % number for number in range(1000)]
    await give_and_take(broker, "q", *map(message, sent))
    target = declare(broker, "t")
    depths: list[int] = []
    real = ReplayRange.read

    def watched(self: ReplayRange) -> Any:
        assert threading.current_thread() is not threading.main_thread()
        depths.append(target.ready_count)
        return real(self)

    monkeypatch.setattr(ReplayRange, "read", watched)
    _, answer = await replay(broker, limit=900)
    assert answer["replayed"] == 900
    assert depths[:3] == [0, replay_range.CHUNK_MESSAGES, 2 * replay_range.CHUNK_MESSAGES]
    assert bodies(target) == sent[:900]


@pytest.mark.acceptance
async def test_a_queue_with_priorities_or_a_stream_takes_them_as_any_publish(
    broker: Broker,
) -> None:
    await give_and_take(broker, "q", *(message(b"%d" % n, priority=n) for n in range(3)))
    target = declare(broker, "t", x_max_priority=5)
    stream = declare(broker, "s", x_queue_type="stream")
    assert (await replay(broker))[1]["replayed"] == 3
    assert (await replay(broker, to_queue="s"))[1]["replayed"] == 3
    assert bodies(target) == [b"2", b"1", b"0"]
    assert stream.ready_count == 3


@pytest.mark.acceptance
async def test_a_transient_queue_gets_them_and_nothing_is_written(broker: Broker) -> None:
    await give_and_take(broker, "q", message(b"x"))
    target = declare_queue(vhost_of(broker), "t")
    assert (await replay(broker))[1]["replayed"] == 1
    assert bodies(target) == [b"x"]


@pytest.mark.acceptance
async def test_a_large_message_whose_body_is_gone_is_counted_and_the_others_come(
    broker: Broker,
) -> None:
    assert broker.context.large_bodies is not None
    draft = broker.context.large_bodies.begin(3)
    draft.add(b"big")
    small = message(bytes(3))
    large = large_message(
        small.address, small.content[: small.header_size], draft.finish(), 1000, UNWRITTEN
    )
    queue = declare(broker, "q")
    for each in (message(b"1"), large, message(b"2")):
        queue.put(each)
    await is_durable(broker)
    target = declare(broker, "t")
    assert (await replay(broker))[1]["replayed"] == 3  # while it is in its queue
    assert bodies(target) == [b"1", b"big", b"2"]
    (path,) = await asyncio.to_thread(lambda: list((broker.settings.data_dir / "large").iterdir()))
    await asyncio.to_thread(path.unlink)
    _, answer = await replay(broker)
    assert (answer["replayed"], answer["unreadable"]) == (2, 1)
    assert "the body of a large message is gone" in answer["problems"][1]
    assert bodies(target) == [b"1", b"2"]


# ------------------------------------------------------------------------ what is refused


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("login", "fields", "status", "error", "reason"),
    [
        (None, {}, 401, "not_authorized", "log in with"),
        ("root:wrong", {}, 401, "not_authorized", "wrong user or password"),
        ("ann:a", {}, 403, "access_refused", "user 'ann' has no tag 'administrator'"),
        ("root:r", {"to": None}, 400, "bad_request", "to: Field required"),
        ("root:r", {"since": 5, "to": 5}, 400, "bad_request", "from: not before to"),
        ("root:r", {"selector": "a ="}, 400, "bad_request", "selector: invalid selector"),
        ("root:r", {"selector": "x" * 70_000}, 400, "bad_request", "body: longer than 65536"),
        ("root:r", {"vhost": "v"}, 404, "not_found", "no vhost 'v'"),
        ("root:r", {"to_queue": "n"}, 404, "not_found", "to_queue: no queue 'n' in vhost '/'"),
        ("root:r", {"to_queue": ""}, 404, "not_found", "to_queue: no queue ''"),
        ("root:r", {"queue": "n"}, 404, "not_found", "queue: no durable queue 'n' is or was in"),
        ("root:r", {"queue": "caf\udce9"}, 404, "not_found", "queue: no durable queue 'caf?'"),
        ("root:r", {"to_queue": "mine"}, 400, "bad_request", "to_queue: cannot obtain exclusive"),
    ],
)
async def test_what_is_wrong_is_named(
    broker: Broker,
    login: str | None,
    fields: dict[str, object],
    status: int,
    error: str,
    reason: str,
) -> None:
    await give_and_take(broker, "q", message(b"x"))
    target = declare(broker, "t")
    declare(broker, "mine", owner=object())
    got_status, answer = await replay(broker, login, **fields)
    assert (got_status, answer["error"]) == (status, error)
    assert answer["reason"].startswith(reason)
    assert target.ready_count == 0


@pytest.mark.acceptance
async def test_one_replay_at_a_time(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    await give_and_take(broker, "q", message(b"x"))
    declare(broker, "t")
    is_looking, may_go_on = threading.Event(), threading.Event()
    real = ReplayRange.look

    def waiting(self: ReplayRange) -> bool:
        is_looking.set()
        assert may_go_on.wait(DEADLINE_S)
        return real(self)

    monkeypatch.setattr(ReplayRange, "look", waiting)
    first = asyncio.ensure_future(replay(broker))
    await asyncio.to_thread(is_looking.wait)
    status, answer = await replay(broker)
    assert (status, answer["error"]) == (409, "busy")
    may_go_on.set()
    assert (await first)[0] == 200
    assert (await replay(broker))[0] == 200


@pytest.mark.acceptance
@pytest.mark.parametrize("policy", ["reject-publish", "discard"])
async def test_a_full_queue_ends_it_and_the_answer_says_how_far_it_came(
    broker: Broker, policy: str
) -> None:
    await give_and_take(broker, "q", *(message(b"%d" % n, 1000 + n) for n in range(5)))
    target = declare(broker, "t", x_max_length=2, x_overflow=policy)
    status, answer = await replay(broker)
    assert (status, answer["error"], answer["replayed"]) == (409, "refused", 2)
    assert answer["reason"] == (
        "stopped before the message that arrived at 1970-01-01T00:00:01.002Z: "
        "queue 't' is at its limit"
    )
    assert answer["last"] == "1970-01-01T00:00:01.001Z"
    assert bodies(target) == [b"0", b"1"]


@pytest.mark.acceptance
async def test_it_waits_for_a_queue_that_stops_its_publishers(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_range, "CHUNK_MESSAGES", 2)
    sent = [b"%d" % number for number in range(6)]
    await give_and_take(broker, "q", *map(message, sent))
    target = declare(broker, "t", x_max_length=1, x_overflow="flow-control")
    asked = asyncio.ensure_future(replay(broker))
    found: list[bytes] = []
    while len(found) < 6:
        await until(lambda: target.ready_count == 2, "two messages")
        found += bodies(target)
    assert found == sent
    assert (await asked)[1]["replayed"] == 6


@pytest.mark.acceptance
async def test_it_waits_while_an_alarm_is_on(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_range, "CHUNK_MESSAGES", 1)
    await give_and_take(broker, "q", message(b"1"), message(b"2"))
    target = declare(broker, "t")
    broker.context.alarms.set("disk")
    asked = asyncio.ensure_future(replay(broker))
    await until(lambda: target.ready_count == 1, "a message")
    assert not asked.done()
    broker.context.alarms.clear("disk")
    assert (await asked)[1]["replayed"] == 2


@pytest.mark.acceptance
async def test_a_client_that_has_gone_is_not_waited_for(broker: Broker) -> None:
    await give_and_take(broker, "q", message(b"1"), message(b"2"))
    declare(broker, "t", x_max_length=1, x_overflow="flow-control")
    host, port = broker.management_url.removeprefix("http://").rsplit(":", 1)
    login = base64.b64encode(b"root:r").decode()
    body = json.dumps({"queue": "q", "to_queue": "t", **EVER})
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"POST /api/replay HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {login}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    target = vhost_of(broker).queues["t"]
    await until(lambda: target.ready_count == 2, "two messages")
    assert (await replay(broker))[1]["error"] == "busy"
    writer.close()

    status = 409
    async with asyncio.timeout(DEADLINE_S):
        while status == 409:
            bodies(target)
            status, _ = await replay(broker, limit=1)
    assert status == 200


@pytest.mark.acceptance
async def test_a_queue_that_is_deleted_meanwhile_ends_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await give_and_take(broker, "q", message(b"1"))
    declare(broker, "t")
    real = ReplayRange.read

    def deleting(self: ReplayRange) -> Any:
        deleted = threading.Event()

        def delete() -> None:
            vhost_of(broker).delete_queue("t", None)
            deleted.set()

        loop.call_soon_threadsafe(delete)
        assert deleted.wait(DEADLINE_S)
        return real(self)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(ReplayRange, "read", deleting)
    status, answer = await replay(broker)
    assert (status, answer["error"], answer["replayed"]) == (404, "not_found", 0)
    assert answer["reason"].endswith("queue 't' is gone")


@pytest.mark.acceptance
async def test_a_store_that_refuses_ends_it_but_for_transient_queues(broker: Broker) -> None:
    await give_and_take(broker, "q", message(b"1"))
    target = declare(broker, "t")
    store = vhost_of(broker).environment.store
    store.refuse("no room on disk")
    status, answer = await replay(broker)
    assert (status, answer["error"]) == (503, "not_stored")
    assert answer["reason"].endswith("it cannot be stored: no room on disk")
    assert target.ready_count == 0
    store.refuse("")
    assert (await replay(broker))[0] == 200


@pytest.mark.acceptance
async def test_a_journal_that_cannot_be_read_is_500_and_says_why(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await give_and_take(broker, "q", message(b"1"))
    declare(broker, "t")

    def failing(self: ReplayRange) -> bool:
        raise StoreError("journal: Input/output error")

    monkeypatch.setattr(ReplayRange, "look", failing)
    status, answer = await replay(broker)
    assert (status, answer["error"]) == (500, "journal_unreadable")
    assert answer["reason"] == "journal: Input/output error"
    assert answer["replayed"] == 0


@pytest.mark.acceptance
async def test_more_than_one_replay_takes_is_400(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await give_and_take(broker, "q", message(b"1"), message(b"2"))
    declare(broker, "t")
    monkeypatch.setattr(replay_range, "MATCHES_MAX", 1)
    status, answer = await replay(broker)
    assert (status, answer["error"]) == (400, "bad_request")
    assert answer["reason"].startswith("more than 1 messages came in that time")


@pytest.mark.acceptance
async def test_properties_that_cannot_be_decoded_cost_that_message_alone(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await give_and_take(broker, "q", message(b"1"), message(b"2"))
    target = declare(broker, "t")
    real = replay_source.ReplaySource.message_of

    def odd(self: replay_source.ReplaySource, record: Any) -> Message:
        made = real(self, record)
        if made.body == b"1":
            return made.replace(properties=b"\xff\xff")
        return made

    monkeypatch.setattr(replay_source.ReplaySource, "message_of", odd)
    _, answer = await replay(broker)
    assert (answer["replayed"], answer["unreadable"]) == (1, 1)
    assert "cannot decode basic properties" in answer["problems"][1]
    assert bodies(target) == [b"2"]


@pytest.mark.acceptance
async def test_the_api_describes_itself(broker: Broker) -> None:
    paths = (await asyncio.to_thread(HttpApi(broker.management_url).get, "/openapi.json"))["paths"]
    described = paths["/api/replay"]["post"]
    schema = described["requestBody"]["content"]["application/json"]["schema"]
    assert schema["required"] == ["queue", "from", "to", "to_queue"]


@pytest.mark.acceptance
async def test_a_broker_that_stops_does_not_wait_for_a_replay(broker: Broker) -> None:
    await give_and_take(broker, "q", message(b"1"), message(b"2"))
    target = declare(broker, "t", x_max_length=1, x_overflow="flow-control")
    asked = asyncio.ensure_future(replay(broker))
    await until(lambda: target.ready_count == 2, "two messages")
    async with asyncio.timeout(DEADLINE_S):
        await broker.stop(0)
    with contextlib.suppress(httpx.TransportError, ValueError):  # cut off, or half an answer
        assert (await asked)[0] >= 400
