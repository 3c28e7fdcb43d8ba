"""Over AMQP, too, a read gives exactly the messages it was asked for, or says what is missing."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator

import pytest

from hareline.spark.errors import (
    BrokerRefused,
    BrokerUnreachable,
    InvalidOption,
    LoginRefused,
    MessagesMissing,
    MessageTooLarge,
    NotAStream,
    OffsetGone,
    QueueGone,
    TailRegressed,
)
from hareline.spark.reading import amqp_client as module
from hareline.spark.reading import amqp_session
from hareline.spark.reading.access import StreamState
from hareline.spark.reading.amqp_client import AmqpStreamClient, ChunkRows
from hareline.spark.reading.amqp_session import Delivery
from hareline.wire.properties import Properties, encode_properties
from hareline.wire.table import Table
from tests.support.consumer_server import (
    ConsumerServer,
    Scripted,
    consumer_server,
    offsets_in,
    wait_until_closed,
)

KINDS = ("hareline", "rabbitmq", "other")


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[ConsumerServer]:
    """A broker of each kind."""
    with consumer_server(request.param) as running:
        yield running


@pytest.fixture
def rabbitmq() -> Iterator[ConsumerServer]:
    with consumer_server("rabbitmq") as running:
        yield running


@pytest.fixture
def hareline() -> Iterator[ConsumerServer]:
    with consumer_server("hareline") as running:
        yield running


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EMPTY_S", 1.0)  # also on a machine that has much else to do
    monkeypatch.setattr(module, "SILENCE_S", 0.1)


@pytest.fixture
def asking() -> Iterator[Callable[..., AmqpStreamClient]]:
    """Makes clients, which are closed at the end."""
    made: list[AmqpStreamClient] = []

    def make(
        server: ConsumerServer, *, retries: int = 1, timeout_s: float = 60, password: str = "guest"
    ) -> AmqpStreamClient:
        made.append(AmqpStreamClient(server.connection(password), timeout_s, retries))
        return made[-1]

    yield make
    for each in made:
        each.close()


Asking = Callable[..., AmqpStreamClient]


def offsets(client: AmqpStreamClient, start: int, end: int) -> list[int]:
    return [at for chunk in client.chunks("q", start, end, "") for at in offsets_in(*chunk)]


@pytest.mark.parametrize(("start", "end"), [(0, 0), (0, 1), (9, 10), (3, 7)])
@pytest.mark.parametrize("prefetch", [1, 3, 100])
def test_a_range_is_read_exactly(
    server: ConsumerServer,
    asking: Asking,
    monkeypatch: pytest.MonkeyPatch,
    start: int,
    end: int,
    prefetch: int,
) -> None:
    monkeypatch.setattr(module, "PREFETCH", prefetch)
    server.streams["q"] = Scripted().fill(0, 20)
    assert offsets(asking(server), start, end) == [*range(start, end)]
    wait_until_closed(server)


def test_what_comes_before_in_the_same_chunk_is_skipped(
    rabbitmq: ConsumerServer, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PREFETCH", 2)
    rabbitmq.streams["q"] = Scripted(chunks=[0, 7, 14]).fill(0, 20)
    assert offsets(asking(rabbitmq), 10, 16) == [*range(10, 16)]


def test_chunks_are_given_out_when_they_are_full(
    hareline: ConsumerServer, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hareline.spark.reading.amqp_client.ROWS_MAX", 4)
    hareline.streams["q"] = Scripted().fill(0, 10)
    counts = [each.header.count for each in asking(hareline).chunks("q", 0, 10, "")]
    assert counts == [4, 4, 2]


def test_offsets_that_rabbitmq_uses_itself_are_left_out(
    rabbitmq: ConsumerServer, asking: Asking
) -> None:
    rabbitmq.streams["q"] = Scripted().fill(0, 5).fill(6, 9).fill(11, 20)
    assert offsets(asking(rabbitmq), 0, 15) == [0, 1, 2, 3, 4, 6, 7, 8, 11, 12, 13, 14]
    assert offsets(asking(rabbitmq), 9, 11) == []
    assert offsets(asking(rabbitmq), 5, 6) == []
    assert offsets(asking(rabbitmq), 4, 10) == [4, 6, 7, 8]


@pytest.mark.parametrize("kind", ["hareline", "other"])
def test_a_gap_is_an_error_of_all_others(kind: str, asking: Asking) -> None:
    with consumer_server(kind) as server:
        server.streams["q"] = Scripted().fill(0, 5).fill(8, 20)
        with pytest.raises(MessagesMissing, match=r"stream 'q': messages 5 to 7 are m") as missing:
            offsets(asking(server), 0, 15)
        assert missing.value.first == 8
        with pytest.raises(MessagesMissing, match="messages 6 to 6"):
            offsets(asking(server), 6, 7)


def test_retention_took_the_begin(server: ConsumerServer, asking: Asking) -> None:
    server.streams["q"] = Scripted().fill(10, 20)
    with pytest.raises(OffsetGone, match=r"messages 4 to 9 were dropped .* begins at 10") as gone:
        offsets(asking(server), 4, 15)
    assert gone.value.first == 10


def test_retention_overtakes_a_read(server: ConsumerServer, asking: Asking) -> None:
    stream = server.streams["q"] = Scripted().fill(0, 20)

    def truncate() -> None:
        for at in range(12):
            del stream.messages[at]

    server.drop_at, server.drops, server.when_dropped = 5, 1, truncate
    with pytest.raises(OffsetGone, match="begins at 12"):
        offsets(asking(server), 0, 20)


def test_a_stream_that_lost_its_end(server: ConsumerServer, asking: Asking) -> None:
    server.streams["q"] = Scripted().fill(0, 6)
    with pytest.raises(TailRegressed, match="up to 9 were promised, and now it ends before 6"):
        offsets(asking(server), 0, 10)
    with pytest.raises(TailRegressed, match="ends before 6"):
        offsets(asking(server), 8, 10)


def test_a_stream_that_has_nothing_left(server: ConsumerServer, asking: Asking) -> None:
    server.streams["q"] = Scripted()
    with pytest.raises(OffsetGone) as gone:
        offsets(asking(server), 5, 10)
    assert gone.value.first == 10


def test_a_broken_connection_is_replaced(server: ConsumerServer, asking: Asking) -> None:
    server.streams["q"] = Scripted().fill(0, 10)
    server.drop_at, server.drops = 5, 2
    assert offsets(asking(server), 0, 10) == [*range(10)]
    assert server.drops == 0


def test_connections_that_break_on_end_in_an_error(server: ConsumerServer, asking: Asking) -> None:
    server.streams["q"] = Scripted().fill(0, 10)
    server.drop_at, server.drops = 5, 1 << 30
    with pytest.raises(BrokerUnreachable, match=r"did not answer in \d+ .* check .* url is right"):
        offsets(asking(server, timeout_s=0.3), 0, 10)


def test_a_broker_that_delivers_nothing_is_an_error(server: ConsumerServer, asking: Asking) -> None:
    server.streams["q"] = Scripted(is_mute=True).fill(0, 10)
    server.counts_late = False
    with pytest.raises(BrokerUnreachable, match="delivered nothing for 2 s"):
        offsets(asking(server, retries=0, timeout_s=2.0), 0, 10)


def test_a_stream_that_is_deleted_while_it_is_read(server: ConsumerServer, asking: Asking) -> None:
    server.streams["q"] = Scripted().fill(0, 10)
    server.cancel_at = 5
    with pytest.raises(QueueGone, match=r"'q' in virtual host '/' at amqp://.* was deleted while"):
        offsets(asking(server), 0, 10)


def test_a_stream_is_described(server: ConsumerServer, asking: Asking) -> None:
    server.streams["q"] = Scripted().fill(4, 10, size=8)
    server.streams["r"] = Scripted().fill(0, 1)
    client = asking(server)
    assert client.tail("q") == StreamState("q", "", 4, 10, 60)
    assert list(client.described(["q", "r"])) == ["q", "r"]
    assert server.connections == 1


@pytest.mark.parametrize("prefetch", [2, 3, 5, 100])
def test_the_last_chunk_is_read_to_its_end(
    rabbitmq: ConsumerServer, asking: Asking, monkeypatch: pytest.MonkeyPatch, prefetch: int
) -> None:
    monkeypatch.setattr(module, "PREFETCH", prefetch)
    rabbitmq.streams["q"] = Scripted(chunks=[0, 7]).fill(0, 30)
    assert asking(rabbitmq).tail("q").next == 30


def test_an_empty_stream_does_not_say_where_it_ends(server: ConsumerServer, asking: Asking) -> None:
    server.streams["q"] = Scripted()
    state = asking(server).tail("q")
    assert (state.first, state.next, state.is_end_known) == (0, 0, False)


def test_a_stream_that_is_counted_is_waited_for(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EMPTY_S", 0.1)
    with consumer_server("other") as server:
        stream = server.streams["q"] = Scripted(is_mute=True).fill(0, 3)

        counted = amqp_session.AmqpSession.count

        def count_and_speak(session: amqp_session.AmqpSession) -> int:
            count = counted(session)  # it has waited as long as for an empty stream
            stream.is_mute = False
            return count

        monkeypatch.setattr(amqp_session.AmqpSession, "count", count_and_speak)
        assert asking(server).tail("q").next == 3


def test_news_are_waited_for(server: ConsumerServer, asking: Asking) -> None:
    stream = server.streams["q"] = Scripted().fill(0, 10)
    client = asking(server)
    assert client.tail("q", after=10, wait_ms=5).next == 10
    later = threading.Timer(0.05, stream.fill, (10, 12))
    later.start()
    assert client.tail("q", after=10, wait_ms=20_000).next >= 11
    later.join()


def test_news_of_an_empty_stream_are_waited_for(server: ConsumerServer, asking: Asking) -> None:
    stream = server.streams["q"] = Scripted()
    later = threading.Timer(0.3, stream.fill, (1000, 1002))
    later.start()
    assert asking(server).tail("q", after=1000, wait_ms=20_000).first == 1000
    later.join()


def test_an_idle_stream_is_only_waited_for_and_looked_at_now_and_then(
    server: ConsumerServer, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = server.streams["q"] = Scripted().fill(0, 10)
    client = asking(server)
    client.tail("q")
    server.consumes.clear()
    assert client.tail("q", after=10, wait_ms=1).next == 10
    assert server.consumes == [10]
    # Declared again: nobody tells, but it ends earlier.
    stream.messages.clear()
    stream.fill(0, 3)
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 0)
    assert client.tail("q", after=10, wait_ms=1).next == 3


def test_a_time_is_found(server: ConsumerServer, asking: Asking) -> None:
    server.streams["q"] = Scripted(by_time={3: 6}).fill(0, 10)
    client = asking(server)
    assert client.offset_at("q", 3000) == 6
    assert client.offset_at("q", 9000) == 10


def test_a_login_is_refused(server: ConsumerServer, asking: Asking) -> None:
    with pytest.raises(LoginRefused, match="refuses user 'guest': 403 ACCESS_REFUSED") as refused:
        asking(server, password="s3cret").tail("q")
    assert "s3cret" not in str(refused.value)
    server.vhost_refusal = "NOT_ALLOWED - vhost / not found"
    with pytest.raises(BrokerRefused, match=r"530 NOT_ALLOWED .* check the virtual host"):
        asking(server).tail("q")


@pytest.mark.parametrize(
    ("refusal", "error", "text"),
    [
        (
            None,
            QueueGone,
            "no stream 'q' in virtual host '/' at amqp://127.0.0.1:[0-9]+: NOT",
        ),
        ((403, "ACCESS_REFUSED - no"), LoginRefused, "may not read 'q' .* read right"),
        (
            (406, "PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue 'q'"),
            NotAStream,
            "queue 'q' cannot be read again: .*declare it with the argument x-archive-to",
        ),
        ((405, "RESOURCE_LOCKED - it is"), BrokerRefused, "about stream 'q': 405 RESOURCE_LOCKED"),
    ],
)
def test_refusals_say_what_to_do(
    server: ConsumerServer,
    asking: Asking,
    refusal: tuple[int, str] | None,
    error: type[Exception],
    text: str,
) -> None:
    if refusal is not None:
        server.refusals["q"] = refusal
    with pytest.raises(error, match=text):
        asking(server).tail("q")
    with pytest.raises(error, match=text):
        offsets(asking(server), 0, 10)


def test_deliveries_without_an_offset_are_not_of_a_stream(
    server: ConsumerServer, asking: Asking
) -> None:
    server.streams["q"] = Scripted(is_plain=True).fill(0, 3)
    with pytest.raises(NotAStream, match="no x-stream-offset"):
        asking(server).tail("q")


def test_a_message_too_large_for_a_row_is_refused_and_does_not_hide_the_end(
    server: ConsumerServer, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amqp_session, "MESSAGE_MAX", 20)
    server.streams["q"] = Scripted().fill(0, 5).fill(5, 6, size=30)
    assert asking(server).tail("q").next == 6
    with pytest.raises(MessageTooLarge, match="message 5: its body has 32 octets and a row may"):
        offsets(asking(server), 0, 6)
    assert offsets(asking(server), 0, 5) == [*range(5)]


def test_a_range_of_the_other_transport_is_refused(server: ConsumerServer, asking: Asking) -> None:
    with pytest.raises(InvalidOption, match="planned to be read with transport=http"):
        next(asking(server).chunks("q", 0, 1, "abcd"))


def test_no_broker_is_an_error(asking: Asking) -> None:
    with consumer_server("other") as server:
        client = asking(server, retries=0)
    with pytest.raises(BrokerUnreachable, match=r"amqp://127.0.0.1:\d+ did not answer in 1 at"):
        client.tail("q")


def test_a_client_is_sent_without_its_connection(server: ConsumerServer, asking: Asking) -> None:
    server.streams["q"] = Scripted().fill(0, 3)
    client = asking(server)
    client.tail("q")
    copy = pickle.loads(pickle.dumps(client))
    client.close()
    wait_until_closed(server)
    with copy:
        assert offsets(copy, 0, 3) == [0, 1, 2]
    wait_until_closed(server)


def test_a_read_that_is_given_up_leaves_no_connection(
    server: ConsumerServer, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hareline.spark.reading.amqp_client.ROWS_MAX", 2)
    server.streams["q"] = Scripted().fill(0, 10)
    chunks = asking(server).chunks("q", 0, 10, "")
    next(chunks)
    chunks.close()  # type: ignore[attr-defined]
    wait_until_closed(server)


def test_a_message_is_the_same_octets_as_in_a_range(server: ConsumerServer, asking: Asking) -> None:
    properties = encode_properties(Properties(headers=Table(a=1, b="x"), message_id="m"))
    server.streams["q"] = Scripted(properties=properties).fill(0, 1)
    ((header, columns),) = asking(server).chunks("q", 0, 1, "")
    meta = bytes(columns[16 : 16 + header.metas_size])
    assert meta == b"\x02ex\x05key.0" + properties


def test_chunks_are_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_MAX", 2)
    rows = ChunkRows(5)
    assert len(rows) == 0
    rows.add(Delivery(1, 5, b"meta", 3, b"one"))
    was_full = rows.is_full
    rows.add(Delivery(2, 6, b"m", 0, b""))
    assert (was_full, rows.is_full) == (False, True)
    header, columns = rows.take(9)
    assert (header.first_offset, header.count) == (5, 2)
    assert (header.metas_size, header.bodies_size) == (5, 3)
    assert len(columns) == header.columns_size
    sizes = b"\4\0\0\0\1\0\0\0" + b"\3\0\0\0\0\0\0\0"
    assert bytes(columns) == bytes(16) + sizes + b"metam" + b"one"
    assert len(rows) == 0
    rows.add(Delivery(3, 9, b"", 1, b"x"))
    assert rows.take(10).header.first_offset == 9


def test_a_chunk_is_full_by_octets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OCTETS_MAX", 10)
    rows = ChunkRows(0)
    rows.add(Delivery(1, 0, b"meta", 5, b"12345"))
    was_full = rows.is_full
    rows.add(Delivery(2, 1, b"", 1, b"1"))
    assert (was_full, rows.is_full) == (False, True)
