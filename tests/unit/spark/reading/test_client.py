"""A client gives exactly the messages that were asked for, or says what is missing."""

from __future__ import annotations

import os
import pickle
from array import array
from dataclasses import replace
from typing import Any

import pytest

from hareline.spark.errors import (
    BrokerRefused,
    BrokerUnreachable,
    IncarnationChanged,
    InvalidOption,
    LoginRefused,
    MessagesMissing,
    MessageTooLarge,
    NotAStream,
    OffsetGone,
    QueueGone,
    SparkSideError,
    TailRegressed,
)
from hareline.spark.reading import client as client_module
from hareline.spark.reading.access import StreamState
from hareline.spark.reading.client import Http, StreamClient
from hareline.spark.shared.options import Connection
from hareline.wire.stream_chunks import HEADER_SIZE, encode_chunk
from tests.support import stream_server
from tests.support.consumer_server import consumer_server
from tests.support.sink_broker import connection_at
from tests.support.stream_server import StreamServer


def client(server: StreamServer, *, retries: int = 3, timeout_s: float = 60) -> StreamClient:
    connection = Connection("h", 1, False, "/", server.url, "guest", "guest")
    return StreamClient(connection, timeout_s, retries)


def offsets(asking: StreamClient, start: int, end: int, incarnation: str = "") -> list[int]:
    """The offsets of what was read, after a look at the bodies."""
    found = []
    incarnation = incarnation or asking.tail("q").incarnation
    for header, columns in asking.chunks("q", start, end, incarnation):
        assert len(columns) == header.columns_size
        for at in range(header.first_offset, header.first_offset + header.count):
            assert b"q:%d;" % at in columns
            found.append(at)
    return found


def test_a_stream_is_described(server: StreamServer) -> None:
    server.fill("q", 10).truncate(4)
    server.declare("empty")
    assert client(server).tail("q") == StreamState("q", f"{1:016x}", 4, 10, 120)
    assert [each.queue for each in client(server).streams()] == ["empty", "q"]
    assert client(server).tail("q").octets_of(3) == 60
    assert client(server).tail("empty").octets_of(3) == 0


def test_a_time_is_found(server: StreamServer) -> None:
    server.fill("q", 10)  # one a second, from 1 s on
    asking = client(server)
    assert [asking.offset_at("q", at) for at in (0, 3000, 3001, 99_000)] == [0, 2, 3, 10]


def test_a_tail_is_waited_for(server: StreamServer) -> None:
    server.fill("q", 10)
    assert client(server).tail("q", after=9, wait_ms=20_000).next == 10
    assert client(server).tail("q", after=10, wait_ms=5).next == 10


@pytest.mark.parametrize(("start", "end"), [(0, 0), (0, 1), (9, 10), (0, 10), (3, 7), (2, 4)])
@pytest.mark.parametrize("chunk_rows", [1, 3, 100])
def test_a_range_is_read_exactly(
    server: StreamServer, start: int, end: int, chunk_rows: int
) -> None:
    server.fill("q", 10)
    server.chunk_rows = chunk_rows
    assert offsets(client(server), start, end) == [*range(start, end)]


def test_an_answer_that_ends_early_is_gone_on_with(server: StreamServer) -> None:
    server.fill("q", 10)
    server.chunk_rows, server.max_octets = 2, 1
    assert offsets(client(server), 1, 10) == [*range(1, 10)]
    assert sum("range" in path for path in server.seen.paths) == 5


@pytest.mark.parametrize("fault", ["unavailable", "drops", "damaged", "empty", "stopping"])
def test_what_passes_is_repeated(server: StreamServer, fault: str) -> None:
    server.fill("q", 10)
    server.chunk_rows = 3
    setattr(server.faults, fault, 2)
    assert offsets(client(server), 0, 10) == [*range(10)]
    assert getattr(server.faults, fault) == 0


@pytest.mark.parametrize(
    ("fault", "error", "text"),
    [
        ("unavailable", BrokerUnreachable, "the broker is starting"),
        ("drops", BrokerUnreachable, "IncompleteRead|broke off"),
        ("hang_ups", BrokerUnreachable, "did not answer"),
        ("damaged", MessagesMissing, "from offset 0: .* checksum of its columns is wrong"),
        ("empty", MessagesMissing, "none of the messages 0 to 9"),
    ],
)
def test_what_does_not_pass_is_an_error(
    server: StreamServer, fault: str, error: type[SparkSideError], text: str
) -> None:
    incarnation = server.fill("q", 10).incarnation
    setattr(server.faults, fault, 1 << 30)
    with pytest.raises(error, match=text):
        offsets(client(server, retries=1, timeout_s=2.0), 0, 10, incarnation)


def test_slow_answers_end_in_an_error(server: StreamServer) -> None:
    incarnation = server.fill("q", 10).incarnation
    server.faults.slow, server.faults.slow_s = 1 << 30, 0.3
    with pytest.raises(BrokerUnreachable, match="timed out"):
        offsets(client(server, retries=0, timeout_s=0.05), 0, 10, incarnation)


def test_a_hole_is_named(server: StreamServer) -> None:
    server.fill("q", 10)
    server.faults.hole_at = 4
    with pytest.raises(MessagesMissing, match="messages 4 to 4 are missing"):
        offsets(client(server), 0, 10)


def test_an_unreadable_message_is_named(server: StreamServer) -> None:
    server.fill("q", 10)
    server.faults.missing_at = 4
    with pytest.raises(MessagesMissing, match="message 4: its record cannot be read"):
        offsets(client(server), 0, 10)
    assert sum("range" in path for path in server.seen.paths) == 1


def test_what_was_not_asked_for_is_refused(
    server: StreamServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.fill("q", 10)

    def one_before(first: int, *columns: Any) -> list[Any]:
        return encode_chunk(first - 1, *columns)

    monkeypatch.setattr(stream_server, "encode_chunk", one_before)
    with pytest.raises(BrokerRefused, match="sent messages 1 to 4 and was asked for 2 to 5"):
        offsets(client(server), 2, 6)


def test_sizes_that_do_not_add_up_are_refused(
    server: StreamServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.fill("q", 2)

    def odd(first: int, arrivals: array[int], metas: list[bytes], bodies: list[bytes]) -> Any:
        octets = bytearray(b"".join(encode_chunk(first, arrivals, metas, bodies)))
        octets[HEADER_SIZE + 12 * len(metas)] += 1
        return [bytes(octets)]

    monkeypatch.setattr(stream_server, "encode_chunk", odd)
    with pytest.raises(MessagesMissing, match="sizes that do not add up"):
        offsets(client(server, retries=1), 0, 2)


def test_a_message_too_large_for_a_row_is_refused(
    server: StreamServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.fill("q", 10)
    server.fill("q", 1, size=200)
    monkeypatch.setattr(client_module, "MESSAGE_MAX", 199)
    with pytest.raises(MessageTooLarge, match=r"message 10: its body has 200 octets .* 199"):
        offsets(client(server), 0, 11)
    monkeypatch.setattr(client_module, "MESSAGE_MAX", 200)
    assert len(offsets(client(server), 0, 11)) == 11


def test_a_truncated_stream_says_where_it_begins(server: StreamServer) -> None:
    server.fill("q", 10).truncate(6)
    with pytest.raises(OffsetGone, match=r"messages 2 to 5 were dropped.*begins at 6") as gone:
        offsets(client(server), 2, 10)
    assert gone.value.first == 6


def test_a_stream_that_is_truncated_while_it_is_read(server: StreamServer) -> None:
    stream = server.fill("q", 10)
    server.chunk_rows, server.max_octets = 2, 1
    found = []
    chunks = client(server).chunks("q", 0, 10, stream.incarnation)
    found.append(next(chunks).header.first_offset)
    stream.truncate(8)
    with pytest.raises(OffsetGone, match="messages 2 to 7"):
        next(chunks)


def test_a_lost_tail_is_an_error(server: StreamServer) -> None:
    server.fill("q", 10).regress(6)
    with pytest.raises(TailRegressed, match=r"up to 9 were promised, .* ends before 6"):
        offsets(client(server), 0, 10)


def test_another_life_of_the_stream_is_an_error(server: StreamServer) -> None:
    old = server.fill("q", 10).incarnation
    server.declare("q")
    server.fill("q", 10)
    with pytest.raises(IncarnationChanged, match="its messages 0 to 9 are gone"):
        offsets(client(server), 0, 10, old)


def test_refusals_say_what_to_do(server: StreamServer) -> None:
    asking = client(server)
    with pytest.raises(QueueGone, match=f"no stream 'none' in virtual host '/' at {server.url}:"):
        asking.tail("none")
    with pytest.raises(NotAStream, match=r"'classic' cannot be read again: .*x-archive-to"):
        asking.tail("classic")
    server.fill("secret", 1)
    server.forbidden.add("secret")
    with pytest.raises(LoginRefused, match=r"'guest' may not read 'secret'.*read right"):
        asking.tail("secret")
    assert asking.streams() == []
    server.authorization = "another"
    with pytest.raises(LoginRefused, match=r"refuses user 'guest': .*options user and password"):
        asking.streams()


def test_a_hint_is_added_where_a_broker_gives_none(
    server: StreamServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_server, "CLASSIC_REASON", "it is classic")
    with pytest.raises(NotAStream, match=r"it is classic; declare it .* x-archive-to"):
        client(server).tail("classic")


def test_the_two_ports_are_of_one_broker(server: StreamServer) -> None:
    server.fill("q", 1)
    server.broker_id = "one"
    with consumer_server("hareline") as consumers:
        at = replace(consumers.connection(), http_url=server.url)
        consumers.broker_id = "another"
        for queue in ("q", "none"):
            with pytest.raises(
                InvalidOption, match=f"{consumers.port}.* and httpUrl .*{server.url}.*two brokers"
            ):
                StreamClient(at, 5, 0).tail(queue)
        consumers.broker_id = "one"
        for _ in range(2):
            StreamClient(at, 5, 0).tail("q")
        assert consumers.connections == 2 * 2 + 1
        port = consumers.port
    # Nothing is read from the AMQP port, so it need not be there.
    StreamClient(replace(connection_at(port), host="localhost", http_url=server.url), 5, 0).tail(
        "q"
    )


def test_ids_of_before_and_after_a_restart_are_not_compared(
    server: StreamServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.fill("q", 1)
    server.broker_id = "before"
    compared = []

    def restart(*_: object) -> str:
        compared.append(server.broker_id)
        server.broker_id = "after"
        return "after"

    monkeypatch.setattr(client_module, "broker_id_at", restart)
    assert client(server).tail("q").next == 1
    assert compared == ["before", "after"]


def test_the_id_in_a_passing_answer_is_not_compared(
    server: StreamServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = server.fill("q", 1)
    server.broker_id = "before"
    monkeypatch.setattr(client_module, "broker_id_at", lambda *_: "after")

    def start(_: str) -> dict[str, object]:
        if len(server.seen.paths) == 3:
            server.streams["q"] = stream
            server.broker_id = "after"
        raise stream_server._Refusal(503, "stopping", "the broker is starting")

    server.streams["q"] = type("Starting", (), {"next": 0, "state": staticmethod(start)})()
    assert client(server).tail("q").next == 1


def test_a_virtual_host_that_is_not_there(server: StreamServer) -> None:
    connection = Connection("h", 1, False, "shop", server.url, "guest", "guest")
    with pytest.raises(QueueGone, match="there is no 'shop'"):
        StreamClient(connection, 5, 0).streams()


def test_another_server_is_noticed(server: StreamServer) -> None:
    connection = Connection("h", 1, False, "/", server.url, "guest", "guest")
    asking = StreamClient(connection, 5, 0)
    server.streams["q"] = type("Odd", (), {"state": lambda *_: {"queue": "q"}})()
    with pytest.raises(BrokerRefused, match="is httpUrl the address of its management port"):
        asking.streams()


def test_names_are_encoded(server: StreamServer) -> None:
    server.fill("a/b c%?", 1)
    assert client(server).tail("a/b c%?").next == 1


def test_a_position_is_reported(server: StreamServer) -> None:
    server.fill("q", 3)
    client(server).report("q", "my reader", 2, "i", pins=True)
    assert server.seen.readers == {
        ("q", "my reader"): {"offset": 2, "incarnation": "i", "pin": True}
    }


def test_a_client_can_be_sent_to_a_task(server: StreamServer) -> None:
    server.fill("q", 3)
    asking = client(server)
    asking.tail("q")
    assert pickle.loads(pickle.dumps(asking)).tail("q").next == 3


def http(server: StreamServer, *, token: str | None = None, path: str = "") -> Http:
    return Http(Connection("h", 1, False, "/", server.url + path, "guest", "guest", token=token))


def ask(asking: Http, path: str = "") -> tuple[int, bytes]:
    with asking.request("GET", path, None, 5) as response:
        return response.status, response.read()


def test_a_connection_is_used_again(server: StreamServer) -> None:
    assert ask(http(server)) == (200, b"[]")
    assert ask(http(server)) == (200, b"[]")
    assert ask(http(server), "/none/tail")[0] == 404
    assert ask(http(server)) == (200, b"[]")
    assert server.seen.connections == 1
    assert server.seen.paths[0] == "GET /api/stream/%2F"


def test_a_connection_that_the_broker_closed_is_replaced(server: StreamServer) -> None:
    ask(http(server))
    server.faults.hang_ups = 1
    assert ask(http(server)) == (200, b"[]")
    assert server.seen.connections == 2


def test_a_new_connection_that_is_closed_is_an_error(server: StreamServer) -> None:
    server.faults.hang_ups = 1
    with pytest.raises(ConnectionError):
        ask(http(server))


def test_an_answer_that_is_not_read_closes_its_connection(server: StreamServer) -> None:
    server.fill("q", 5)
    with http(server).request("GET", "/q/tail", None, 5) as response:
        assert response.status == 200
    assert client_module._kept == {}
    assert ask(http(server), "/q/tail")[0] == 200


def test_of_two_connections_at_a_time_one_is_kept_and_the_other_closed(
    server: StreamServer,
) -> None:
    asking = http(server)
    with asking.request("GET", "", None, 5) as response:
        assert ask(asking) == (200, b"[]")
        [kept] = client_module._kept.values()
        assert response.read() == b"[]"
    assert [*client_module._kept.values()] == [kept]
    assert server.seen.connections == 2
    assert ask(asking) == (200, b"[]")
    assert server.seen.connections == 2


def test_a_forked_process_does_not_use_its_parent_s_connection(
    server: StreamServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(http(server))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    ask(http(server))
    assert server.seen.connections == 2


def test_another_user_has_another_connection(server: StreamServer) -> None:
    server.authorization = "Bearer t"
    assert ask(http(server))[0] == 401
    assert ask(http(server, token="t")) == (200, b"[]")
    assert server.seen.connections == 2


def test_a_slow_answer_is_a_timeout(server: StreamServer) -> None:
    server.faults.slow, server.faults.slow_s = 1, 0.5
    with (
        pytest.raises(TimeoutError),
        http(server).request("GET", "", None, 0.05) as response,
    ):
        response.read()
    assert client_module._kept == {}


def test_a_proxy_may_have_a_path_of_its_own(server: StreamServer) -> None:
    ask(http(server, path="/broker/"))
    assert server.seen.paths == ["GET /broker/api/stream/%2F"]
