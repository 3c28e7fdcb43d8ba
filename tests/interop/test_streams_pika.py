"""Non-destructive queues, streams and browsers, as pika sees them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pamqp import commands, frame

from tests.support.broker_process import BrokerUnderTest
from tests.support.pika_calls import publish_octets, raw_to, ready_count
from tests.support.waiting import wait_for

pika = pytest.importorskip("pika", reason="pika (PyPI) is not installed")

DEADLINE_S = 60.0
NON_DESTRUCTIVE = {"x-non-destructive": True}
STREAM = {"x-queue-type": "stream"}

Declare = Callable[[dict[str, Any]], str]


@pytest.fixture(autouse=True)
def only_here(broker: BrokerUnderTest) -> None:
    # differs: additions
    if broker.is_foreign:
        pytest.skip("arguments that RabbitMQ does not have")


@pytest.fixture
def declare(connect: Any, channel: Any, name: str) -> Iterator[Declare]:
    """``declare(arguments)`` makes a durable queue and gives its name; it is deleted after."""

    def declare_one(arguments: dict[str, Any]) -> str:
        channel.queue_declare(name, durable=True, arguments=arguments)
        return name

    yield declare_one
    connect().channel().queue_delete(name)


class Inbox:
    """What one consumer is given; acknowledges each message when told to."""

    def __init__(self, channel: Any, queue: str, arguments: dict[str, Any], **options: Any) -> None:
        self.channel = channel
        self.messages: list[tuple[Any, Any, bytes]] = []
        self.is_cancelled = False
        self.acknowledges = False
        channel.add_on_cancel_callback(self._on_cancel)
        self.tag = channel.basic_consume(queue, self._on_message, arguments=arguments, **options)

    def _on_message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.messages.append((method, properties, body))
        if self.acknowledges:
            channel.basic_ack(method.delivery_tag)

    def _on_cancel(self, frame: Any) -> None:
        self.is_cancelled = self.is_cancelled or frame.method.consumer_tag == self.tag

    def wait(self, count: int) -> list[bytes]:
        """Wait until it has so many, and make sure that no more are on the way."""

        def has_enough() -> bool:
            self.channel.connection.process_data_events(0)
            return len(self.messages) >= count

        wait_for(has_enough, DEADLINE_S, f"{count} messages, got {len(self.messages)}")
        self.channel.basic_qos(prefetch_count=0)  # its answer comes behind what is on the way
        self.channel.connection.process_data_events(0)
        return self.bodies

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.messages]

    @property
    def offsets(self) -> list[int]:
        return [properties.headers["x-stream-offset"] for _, properties, _ in self.messages]


def publish(channel: Any, queue: str, *bodies: bytes, **properties: Any) -> None:
    for body in bodies:
        channel.basic_publish("", queue, body, pika.BasicProperties(**properties))


def numbered(start: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, stop)]


# ------------------------------------------------------------------------ non-destructive


@pytest.mark.row("A15")
def test_two_consumers_see_everything_and_it_stays(
    connect: Any, channel: Any, declare: Declare
) -> None:
    queue = declare(NON_DESTRUCTIVE)
    publish(channel, queue, *numbered(0, 20))
    first = Inbox(channel, queue, {}, auto_ack=True)
    second = Inbox(connect().channel(), queue, {})
    second.acknowledges = True
    assert first.wait(20) == second.wait(20) == numbered(0, 20)
    assert first.offsets == second.offsets == list(range(20))
    assert ready_count(channel, queue) == 20


def test_a_nack_with_requeue_is_not_redelivered(channel: Any, declare: Declare) -> None:
    queue = declare(NON_DESTRUCTIVE)
    publish(channel, queue, *numbered(0, 4))
    channel.basic_qos(prefetch_count=2)
    inbox = Inbox(channel, queue, {})
    wait_for(lambda: channel.connection.process_data_events(0) or len(inbox.messages) == 2, 60, "2")
    for method, _, _ in list(inbox.messages):
        channel.basic_nack(method.delivery_tag, requeue=True)
    assert inbox.wait(4) == numbered(0, 4)
    assert not any(method.redelivered for method, _, _ in inbox.messages)
    assert ready_count(channel, queue) == 4


@pytest.mark.row("A15")
def test_get_shows_the_first_again_and_again(channel: Any, declare: Declare) -> None:
    queue = declare(NON_DESTRUCTIVE)
    publish(channel, queue, b"one", b"two")
    for auto_ack in (True, False, True):
        method, properties, body = channel.basic_get(queue, auto_ack=auto_ack)
        assert body == b"one"
        assert properties.headers == {"x-stream-offset": 0}
        if not auto_ack:
            channel.basic_ack(method.delivery_tag)
    assert ready_count(channel, queue) == 2


@pytest.mark.row("A15")
def test_a_last_value_queue_that_is_only_read_is_a_snapshot(
    connect: Any, channel: Any, declare: Declare
) -> None:
    queue = declare({**NON_DESTRUCTIVE, "x-last-value-key": "symbol"})
    for number in range(30):
        publish(channel, queue, b"%d" % number, headers={"symbol": "abc"[number % 3]})
    early = Inbox(channel, queue, {})
    assert early.wait(3) == numbered(27, 30)
    publish(channel, queue, b"30", headers={"symbol": "a"})
    assert early.wait(4) == numbered(27, 31)
    late = Inbox(connect().channel(), queue, {})
    assert late.wait(3) == numbered(28, 31)


@pytest.mark.row("A28")
def test_expired_messages_leave_a_queue_that_is_only_read(channel: Any, declare: Declare) -> None:
    queue = declare(NON_DESTRUCTIVE)
    inbox = Inbox(channel, queue, {})
    publish(channel, queue, b"stays")
    publish(channel, queue, b"goes", expiration="50")
    assert inbox.wait(2) == [b"stays", b"goes"]
    wait_for(lambda: ready_count(channel, queue) == 1, DEADLINE_S, "the message to expire")
    assert channel.basic_get(queue, auto_ack=True)[2] == b"stays"


@pytest.mark.row("A17")
@pytest.mark.parametrize(
    ("start", "first"), [("first", 0), ("last", 9), ("next", 10), (4, 4), (1000, 10), ("1h", 0)]
)
def test_a_consumer_begins_where_it_asks(
    channel: Any, declare: Declare, start: object, first: int
) -> None:
    queue = declare(NON_DESTRUCTIVE)
    publish(channel, queue, *numbered(0, 10))
    inbox = Inbox(channel, queue, {"x-stream-offset": start})
    publish(channel, queue, *numbered(10, 12))
    assert inbox.wait(12 - first) == numbered(first, 12)


@pytest.mark.row("A17")
def test_a_consumer_begins_at_a_timestamp(channel: Any, declare: Declare) -> None:
    queue = declare(NON_DESTRUCTIVE)
    publish(channel, queue, *numbered(0, 3))
    assert ready_count(channel, queue) == 3
    past = Inbox(channel, queue, {"x-stream-offset": datetime(2020, 1, 1, tzinfo=UTC)})
    assert past.wait(3) == numbered(0, 3)
    future = datetime.fromtimestamp(time.time() + 3600, UTC)
    ahead = Inbox(channel, queue, {"x-stream-offset": future})
    publish(channel, queue, b"3")
    assert ahead.wait(1) == [b"3"]


@pytest.mark.acceptance
@pytest.mark.row("A17")
def test_a_negative_replay_period_begins_in_the_future(
    broker: BrokerUnderTest, channel: Any, declare: Declare
) -> None:
    queue = declare(NON_DESTRUCTIVE)
    with raw_to(broker) as raw:
        consume = commands.Basic.Consume(
            queue=queue, no_ack=True, arguments={"x-qpid-replay-period": "-1"}
        )
        raw.send_octets(frame.marshal(consume, 1) + publish_octets("", queue, b"too early"))
        raw.expect(commands.Basic.ConsumeOk)
        assert raw.ready_count(queue) == 1
        started = time.time()
        wait_for(lambda: time.time() - started > 1.1, DEADLINE_S, "the second to pass")
        publish(channel, queue, b"in time")
        assert raw.read_content()[1] == b"in time"


@pytest.mark.row("A17")
@pytest.mark.parametrize(("period", "first"), [(0, 5), ("0", 5), (3600, 0), ("3600", 0)])
def test_a_replay_period_begins_so_long_ago(
    channel: Any, declare: Declare, period: object, first: int
) -> None:
    queue = declare(NON_DESTRUCTIVE)
    publish(channel, queue, *numbered(0, 5))
    inbox = Inbox(channel, queue, {"x-qpid-replay-period": period})
    publish(channel, queue, b"5")
    assert inbox.wait(6 - first) == numbered(first, 6)


@pytest.mark.row("A18")
def test_a_default_filter_gives_the_replay_period(
    connect: Any, channel: Any, declare: Declare
) -> None:
    filters = {"x-qpid-replay-period": {"x-qpid-replay-period": ["0"]}}
    queue = declare({**NON_DESTRUCTIVE, "x-default-filters": filters})
    publish(channel, queue, *numbered(0, 5))
    inherits = Inbox(channel, queue, {})
    own = Inbox(connect().channel(), queue, {"x-qpid-replay-period": 3600})
    publish(channel, queue, b"5")
    assert inherits.wait(1) == [b"5"]
    assert own.wait(6) == numbered(0, 6)


@pytest.mark.row("A18")
def test_a_default_selector_holds_for_readers(channel: Any, declare: Declare) -> None:
    filters = {"even": {"x-filter-jms-selector": ["even = TRUE"]}}
    queue = declare({**NON_DESTRUCTIVE, "x-default-filters": filters})
    for number in range(10):
        publish(channel, queue, b"%d" % number, headers={"even": number % 2 == 0})
    assert Inbox(channel, queue, {}).wait(5) == numbered(0, 10)[::2]


@pytest.mark.row("A18")
def test_default_filters_hold_for_get(channel: Any, declare: Declare) -> None:
    filters = {
        "even": {"x-filter-jms-selector": ["even = TRUE"]},
        "recent": {"x-qpid-replay-period": ["3600"]},
    }
    queue = declare({**NON_DESTRUCTIVE, "x-default-filters": filters})
    for number in (1, 3, 4, 5, 6):
        publish(channel, queue, b"%d" % number, headers={"even": number % 2 == 0})
    assert [channel.basic_get(queue, auto_ack=True)[2] for _ in range(2)] == [b"4", b"4"]
    assert ready_count(channel, queue) == 5


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-stream-offset": "soon"}, '{invalid_offset_arg,"soon"}'),
        ({"x-qpid-replay-period": "soon"}, "\"expected seconds, got 'soon'\""),
        ({"x-filter-no-consume": "yes"}, "{unacceptable_type,longstr}"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(
    channel: Any, declare: Declare, arguments: dict[str, Any], text: str
) -> None:
    queue = declare(NON_DESTRUCTIVE)
    (name,) = arguments
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        Inbox(channel, queue, arguments)
    assert caught.value.reply_code == 406
    assert caught.value.reply_text == (
        f"PRECONDITION_FAILED - invalid arg '{name}' for queue '{queue}' in vhost '/': {text}"
    )


def test_two_starts_are_refused_naming_both(channel: Any, declare: Declare) -> None:
    queue = declare(NON_DESTRUCTIVE)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        Inbox(channel, queue, {"x-stream-offset": "first", "x-qpid-replay-period": 0})
    assert caught.value.reply_code == 406
    assert "'x-stream-offset' and 'x-qpid-replay-period'" in caught.value.reply_text


def test_a_stream_offset_is_refused_on_a_plain_queue(channel: Any, declare: Declare) -> None:
    queue = declare({})
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        Inbox(channel, queue, {"x-stream-offset": "first"})
    assert caught.value.reply_code == 406


@pytest.mark.row("A17")
def test_a_consumer_that_takes_leaves_what_is_older_than_its_replay_period(
    connect: Any, channel: Any, declare: Declare
) -> None:
    queue = declare({})
    publish(channel, queue, b"old")
    assert ready_count(channel, queue) == 1
    time_of_old = time.time()
    wait_for(lambda: time.time() - time_of_old > 0.05, DEADLINE_S, "time to pass")
    inbox = Inbox(channel, queue, {"x-qpid-replay-period": 0}, auto_ack=True)
    publish(channel, queue, b"new")
    assert inbox.wait(1) == [b"new"]
    assert Inbox(connect().channel(), queue, {}, auto_ack=True).wait(1) == [b"old"]


# --------------------------------------------------------------------------------- streams


@pytest.mark.acceptance
def test_a_stream_is_read_from_its_end_unless_told_otherwise(
    connect: Any, channel: Any, declare: Declare
) -> None:
    queue = declare(STREAM)
    publish(channel, queue, *numbered(0, 5))
    assert ready_count(channel, queue) == 5
    channel.basic_qos(prefetch_count=100)
    end = Inbox(channel, queue, {})
    other = connect().channel()
    other.basic_qos(prefetch_count=100)
    start = Inbox(other, queue, {"x-stream-offset": "first"})
    publish(channel, queue, b"5")
    assert end.wait(1) == [b"5"]
    assert end.offsets == [5]
    assert start.wait(6) == numbered(0, 6)


@pytest.mark.acceptance
def test_credit_of_a_stream_s_consumer_comes_back_with_acks(channel: Any, declare: Declare) -> None:
    queue = declare(STREAM)
    publish(channel, queue, *numbered(0, 500))
    channel.basic_qos(prefetch_count=7)
    inbox = Inbox(channel, queue, {"x-stream-offset": 0})
    inbox.acknowledges = True
    assert inbox.wait(500) == numbered(0, 500)


@pytest.mark.parametrize(
    ("arguments", "bodies"),
    [
        ({"x-stream-filter": "eu"}, [b"eu"]),
        ({"x-stream-filter": ["eu", "us"]}, [b"eu", b"us"]),
        ({"x-stream-filter": "eu", "x-stream-match-unfiltered": True}, [b"eu", b"none"]),
        ({"x-stream-match-unfiltered": True}, [b"eu", b"us", b"none"]),
    ],
)
def test_a_stream_filter_lets_only_its_values_through(
    channel: Any, declare: Declare, arguments: dict[str, Any], bodies: list[bytes]
) -> None:
    queue = declare(STREAM)
    # differs: stream-filter
    publish(channel, queue, b"eu", headers={"x-stream-filter-value": "eu"})
    publish(channel, queue, b"us", headers={"x-stream-filter-value": "us"})
    publish(channel, queue, b"none")
    channel.basic_qos(prefetch_count=10)
    inbox = Inbox(channel, queue, {"x-stream-offset": "first", **arguments})
    assert inbox.wait(len(bodies)) == bodies


def test_a_stream_filter_is_text(channel: Any, declare: Declare) -> None:
    queue = declare(STREAM)
    channel.basic_qos(prefetch_count=10)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        Inbox(channel, queue, {"x-stream-filter": ["eu", True]})
    assert (caught.value.reply_code, caught.value.reply_text) == (
        406,
        f"PRECONDITION_FAILED - invalid arg 'x-stream-filter' for queue '{queue}' in vhost '/': "
        "{unacceptable_type,bool}",
    )


def test_a_stream_wants_a_prefetch_count(channel: Any, declare: Declare) -> None:
    queue = declare(STREAM)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        Inbox(channel, queue, {})
    assert (caught.value.reply_code, caught.value.reply_text) == (
        406,
        "PRECONDITION_FAILED - consumer prefetch count is not set for stream "
        f"queue '{queue}' in vhost '/'",
    )


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (
            lambda channel, queue: channel.basic_get(queue),
            "basic.get not supported by stream queues queue '{}' in vhost '/'",
        ),
        (
            lambda channel, queue: channel.queue_purge(queue),
            "queue.purge not supported by stream queues queue '{}' in vhost '/'",
        ),
        (
            lambda channel, queue: Inbox(channel, queue, {}, auto_ack=True),
            "automatic acknowledgement not supported by stream queues queue '{}' in vhost '/'",
        ),
    ],
    ids=["get", "purge", "no-ack"],
)
def test_what_streams_do_not_do_is_refused(
    channel: Any, declare: Declare, ask: Callable[[Any, str], object], text: str
) -> None:
    queue = declare(STREAM)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        ask(channel, queue)
    assert (caught.value.reply_code, caught.value.reply_text) == (
        540,
        f"NOT_IMPLEMENTED - {text.format(queue)}",
    )


@pytest.mark.acceptance
def test_a_stream_drops_what_is_too_old(
    broker: BrokerUnderTest, channel: Any, declare: Declare
) -> None:
    queue = declare({**STREAM, "x-max-age": "1s"})
    with raw_to(broker) as raw:
        look = frame.marshal(commands.Queue.Declare(queue=queue, passive=True), 1)
        published = [publish_octets("", queue, body) for body in numbered(0, 5)]
        raw.send_octets(b"".join(published) + look)
        assert raw.expect(commands.Queue.DeclareOk).message_count == 5
    wait_for(lambda: ready_count(channel, queue) == 0, DEADLINE_S, "the messages to get too old")


def test_a_stream_keeps_no_more_octets_than_it_may(channel: Any, declare: Declare) -> None:
    queue = declare({**STREAM, "x-max-length-bytes": 1000})
    publish(channel, queue, *[b"x" * 100] * 50)
    assert ready_count(channel, queue) == 10
    channel.basic_qos(prefetch_count=100)
    inbox = Inbox(channel, queue, {"x-stream-offset": "first"})
    inbox.wait(10)
    assert inbox.offsets == list(range(40, 50))


# -------------------------------------------------------------------------------- browsers


@pytest.mark.row("A14")
@pytest.mark.parametrize("argument", ["x-filter-no-consume", "x-browse"])
def test_a_browser_shows_all_and_takes_nothing(
    channel: Any, declare: Declare, argument: str
) -> None:
    queue = declare({})
    publish(channel, queue, *numbered(0, 5))
    browser = Inbox(channel, queue, {argument: True})
    browser.acknowledges = True
    publish(channel, queue, b"5")
    assert browser.wait(6) == numbered(0, 6)
    assert ready_count(channel, queue) == 6
    assert all("x-stream-offset" not in (p.headers or {}) for _, p, _ in browser.messages)


@pytest.mark.acceptance
@pytest.mark.row("A14")
def test_a_browser_is_cancelled_at_the_end(channel: Any, declare: Declare) -> None:
    queue = declare({})
    publish(channel, queue, *numbered(0, 300))
    browser = Inbox(
        channel, queue, {"x-filter-no-consume": True, "x-filter-auto-close": True}, auto_ack=True
    )

    def is_cancelled() -> bool:
        channel.connection.process_data_events(0)
        return browser.is_cancelled

    wait_for(is_cancelled, DEADLINE_S, "basic.cancel")
    assert browser.bodies == numbered(0, 300)
    assert ready_count(channel, queue) == 300


def test_a_consumer_is_cancelled_when_its_queue_is_empty(channel: Any, declare: Declare) -> None:
    queue = declare({})
    publish(channel, queue, *numbered(0, 300))
    inbox = Inbox(channel, queue, {"x-filter-auto-close": True})
    inbox.acknowledges = True

    def is_cancelled() -> bool:
        channel.connection.process_data_events(0)
        return inbox.is_cancelled

    wait_for(is_cancelled, DEADLINE_S, "basic.cancel")
    assert inbox.bodies == numbered(0, 300)
    assert ready_count(channel, queue) == 0


@pytest.mark.row("A14")
def test_a_browser_blocks_no_consumer(connect: Any, channel: Any, declare: Declare) -> None:
    queue = declare({})
    publish(channel, queue, *numbered(0, 50))
    other = connect().channel()
    other.basic_qos(prefetch_count=1)
    Inbox(other, queue, {"x-browse": True})
    consumer = Inbox(channel, queue, {}, auto_ack=True)
    assert consumer.wait(50) == numbered(0, 50)
    assert ready_count(channel, queue) == 0


@pytest.mark.acceptance
@pytest.mark.row("A11")
def test_groups_do_not_concern_browsers(channel: Any, declare: Declare) -> None:
    queue = declare({"x-message-group-type": "standard"})
    for number in range(6):
        publish(channel, queue, b"%d" % number, headers={"JMSXGroupID": "one"})
    browser = Inbox(channel, queue, {"x-browse": True})
    assert browser.wait(6) == numbered(0, 6)
