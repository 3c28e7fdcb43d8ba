"""Limits of queues, as a user of pika sees them: what is dropped, refused, returned or held up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.exceptions import ChannelClosedByBroker, NackError

from tests.support.pika_calls import declare, get_all, publish, ready_count, serve_until
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

    from tests.support.broker_process import BrokerUnderTest

    from .conftest import PikaConnect, StartBroker


DEADLINE_S = 60.0
#: Messages of 64 KiB that one read of a socket may bring in when it is the last one.
ON_ITS_WAY = 64


# -------------------------------------------------------------------------------------- drop-head


@pytest.mark.row("A20", "A22")
@pytest.mark.row("E5")
@pytest.mark.row("E6")
def test_the_oldest_are_dropped_and_dead_lettered(
    channel: BlockingChannel, queue: str, name: str
) -> None:
    declare(
        channel,
        name,
        x_max_length=3,
        x_dead_letter_exchange="",
        x_dead_letter_routing_key=queue,
    )
    publish(channel, name, *(b"%d" % number for number in range(10)))
    assert get_all(channel, name) == [b"7", b"8", b"9"]
    assert get_all(channel, queue) == [b"%d" % number for number in range(7)]


@pytest.mark.row("A20")
@pytest.mark.row("E5")
@pytest.mark.row("E16")
def test_octets_are_a_limit_too(channel: BlockingChannel, name: str) -> None:
    declare(channel, name, x_max_length_bytes=10)
    publish(channel, name, b"aaaa", b"bbbb", b"cccc", b"x" * 11)
    assert get_all(channel, name) == []
    publish(channel, name, b"aaaa", b"bbbb", b"cccc")
    assert get_all(channel, name) == [b"bbbb", b"cccc"]


@pytest.mark.row("A22")
def test_qpid_s_ring_drops_the_lowest_priority_first(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(
        name,
        exclusive=True,
        arguments={"qpid.policy_type": "ring", "qpid.max_count": 3, "x-qpid-priorities": 10},
    )
    for number, priority in enumerate([1, 9, 1, 5, 9]):
        properties = pika.BasicProperties(priority=priority)
        channel.basic_publish("", name, b"%d" % number, properties)
    assert get_all(channel, name) == [b"1", b"4", b"3"]


@pytest.mark.row("A21")
def test_a_limit_without_a_policy_by_qpid_s_name_drops_nothing(
    channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, exclusive=True, arguments={"qpid.max_count": 2})
    publish(channel, name, *[b"x"] * 5)
    assert ready_count(channel, name) == 5


# ----------------------------------------------------------------------------------------- reject


@pytest.mark.row("A25")
@pytest.mark.row("E6")
def test_a_refused_publish_is_nacked_and_the_next_one_may_be_taken(
    channel: BlockingChannel, name: str
) -> None:
    declare(channel, name, x_max_length=2, x_overflow="reject-publish")
    channel.confirm_delivery()
    publish(channel, name, b"1", b"2")
    with pytest.raises(NackError):
        publish(channel, name, b"3")
    assert channel.basic_get(name, auto_ack=True)[2] == b"1"
    publish(channel, name, b"4")
    assert get_all(channel, name) == [b"2", b"4"]


@pytest.mark.row("A25")
def test_of_many_in_one_breath_exactly_the_refused_ones_are_nacked(
    broker: BrokerUnderTest, channel: BlockingChannel, queue: str, name: str
) -> None:
    """The frames themselves, since a blocking publisher waits for each confirm."""
    declare(channel, name, x_max_length=5, x_overflow="reject-publish")
    channel.queue_bind(queue, "amq.direct", "free")
    answered: list[tuple[str, int, bool]] = []
    done = threading.Event()

    def on_answer(frame: Any) -> None:
        method = frame.method
        answered.append((method.NAME, method.delivery_tag, method.multiple))
        if method.delivery_tag == 20:
            done.set()

    def on_open(publishing: Any) -> None:
        publishing.confirm_delivery(on_answer, callback=lambda _: publish_all(publishing))

    def publish_all(publishing: Any) -> None:
        for number in range(10):
            publishing.basic_publish("", name, b"%d" % number)
            publishing.basic_publish("amq.direct", "free", b"%d" % number)

    parameters = pika.ConnectionParameters(
        broker.host,
        broker.port,
        broker.vhost,
        pika.PlainCredentials(broker.username, broker.password),
    )
    opened = pika.SelectConnection(
        parameters,
        on_open_callback=lambda connection: connection.channel(on_open_callback=on_open),
    )
    loop = threading.Thread(target=opened.ioloop.start)
    loop.start()
    try:
        assert done.wait(DEADLINE_S), answered
    finally:
        opened.ioloop.add_callback_threadsafe(opened.close)
        opened.ioloop.add_callback_threadsafe(opened.ioloop.stop)
        loop.join(DEADLINE_S)
    verdicts: dict[int, str] = {}
    for method_name, tag, is_multiple in answered:
        for number in range(len(verdicts) + 1 if is_multiple else tag, tag + 1):
            assert number not in verdicts
            verdicts[number] = method_name
    refused = {number for number, verdict in verdicts.items() if verdict == "Basic.Nack"}
    assert sorted(verdicts) == list(range(1, 21))
    assert refused == {11, 13, 15, 17, 19}
    assert ready_count(channel, name) == 5
    assert ready_count(channel, queue) == 10


@pytest.mark.row("A25")
def test_a_mandatory_publish_without_confirms_that_is_refused_is_returned_with_506(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    declare(channel, name, x_max_length=1, x_overflow="reject-publish")
    returned: list[tuple[int, str, bytes]] = []
    channel.add_on_return_callback(
        lambda _channel, method, _properties, body: returned.append(
            (method.reply_code, method.reply_text, body)
        )
    )
    for body in (b"1", b"2"):
        channel.basic_publish("", name, body, mandatory=True)
    serve_until(connection, lambda: returned, "basic.return")
    ((code, text, body),) = returned
    assert (code, body) == (506, b"2")
    assert f"Maximum depth exceeded on '{name}'" in text


def test_a_mandatory_publish_under_confirms_that_is_refused_is_nacked_and_not_returned(
    channel: BlockingChannel, name: str
) -> None:
    declare(channel, name, x_max_length=1, x_overflow="reject-publish")
    channel.confirm_delivery()
    channel.basic_publish("", name, b"1", mandatory=True)
    with pytest.raises(NackError) as caught:
        channel.basic_publish("", name, b"2", mandatory=True)
    assert caught.value.messages == []


@pytest.mark.row("A25")
@pytest.mark.row("E6")
def test_refused_messages_are_dead_lettered(
    channel: BlockingChannel, queue: str, name: str
) -> None:
    declare(
        channel,
        name,
        x_max_length=1,
        x_overflow="reject-publish-dlx",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key=queue,
    )
    publish(channel, name, b"1", b"2")
    assert get_all(channel, name) == [b"1"]
    _, properties, body = channel.basic_get(queue, auto_ack=True)
    assert body == b"2"
    assert properties is not None
    assert properties.headers["x-death"][0]["reason"] == "maxlen"


@pytest.mark.row("A25")
def test_a_commit_with_a_refused_publish_is_partial(
    channel: BlockingChannel, queue: str, name: str
) -> None:
    declare(channel, name, x_max_length=1, x_overflow="reject-publish")
    transacting = channel.connection.channel()
    transacting.tx_select()
    publish(transacting, name, b"1", b"2")
    publish(transacting, queue, b"3")
    with pytest.raises(ChannelClosedByBroker) as refusal:
        transacting.tx_commit()
    assert refusal.value.reply_code == 406
    assert refusal.value.reply_text == "PRECONDITION_FAILED - partial tx completion"
    assert get_all(channel, name) == [b"1"]
    assert get_all(channel, queue) == [b"3"]


# ----------------------------------------------------------------------------------- flow control


@pytest.mark.row("A23")
@pytest.mark.row("E6")
def test_a_publisher_is_blocked_and_unblocked(
    broker: BrokerUnderTest, connect: PikaConnect, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(
        name, auto_delete=True, arguments={"x-max-length": 100, "x-overflow": "flow-control"}
    )
    publisher = connect()
    heard: list[str] = []
    publisher.add_on_connection_blocked_callback(lambda _, frame: heard.append(frame.method.reason))
    publisher.add_on_connection_unblocked_callback(lambda *_: heard.append("unblocked"))
    publish(publisher.channel(), name, *[b"x"] * 101)
    serve_until(publisher, lambda: heard, "connection.blocked")
    assert heard == [f"queue '{name}' in vhost '{broker.vhost}' is full"]
    for _ in range(20):
        channel.basic_get(name, auto_ack=True)
    ready_count(channel, name)  # what the broker had to say to others is on its way
    publisher.process_data_events(0)
    assert len(heard) == 1
    channel.basic_get(name, auto_ack=True)
    serve_until(publisher, lambda: len(heard) > 1, "connection.unblocked")
    assert heard[1] == "unblocked"
    channel.queue_delete(name)


@pytest.mark.acceptance
@pytest.mark.row("A23")
def test_a_flood_is_held_back_at_its_socket_and_nothing_is_lost(
    connect: PikaConnect, channel: BlockingChannel, name: str
) -> None:
    """64 MiB go through a queue that is limited to 1 MiB and a little more, which is on its way."""
    count, size, limit = 1024, 65_536, 16
    channel.queue_declare(
        name,
        arguments={"x-max-length-bytes": limit * size, "x-overflow": "flow-control"},
    )
    publishing = connect().channel()
    failures: list[BaseException] = []

    def flood() -> None:
        try:
            for number in range(count):
                publishing.basic_publish("", name, number.to_bytes(size, "big"))
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=flood)
    thread.start()
    wait_for(lambda: ready_count(channel, name) > limit, DEADLINE_S, "a queue above its limit")
    received: list[int] = []
    most = 0

    def receive_all() -> bool:
        nonlocal most
        while (got := channel.basic_get(name, auto_ack=True))[0] is not None:
            received.append(int.from_bytes(got[2], "big"))
            most = max(most, got[0].message_count)
        return len(received) == count

    wait_for(receive_all, DEADLINE_S, "all messages to come through")
    thread.join(DEADLINE_S)
    assert failures == []
    assert received == list(range(count))
    assert most < limit + ON_ITS_WAY, "the socket was read from all the time"
    channel.queue_delete(name)


@pytest.mark.acceptance
@pytest.mark.row("A23")
def test_a_worker_that_answers_into_a_full_queue_is_not_stuck(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    """It has one connection for both, and its acknowledgements are what makes room."""
    channel.queue_declare(
        name,
        exclusive=True,
        arguments={"qpid.policy_type": "producer_flow_control", "qpid.max_count": 5},
    )
    handled: list[bytes] = []

    def work(consuming: BlockingChannel, method: Any, _properties: Any, body: bytes) -> None:
        handled.append(body)
        if len(handled) < 200:
            publish(consuming, name, b"%d" % len(handled))
        consuming.basic_ack(method.delivery_tag)

    channel.basic_qos(prefetch_count=3)
    channel.basic_consume(name, work)
    publish(channel, name, *[b"first"] * 20)
    serve_until(connection, lambda: len(handled) >= 219, "the work to be done")
    assert ready_count(channel, name) == 0


# ------------------------------------------------------------------------------------ the log


@pytest.mark.acceptance
@pytest.mark.row("A26")
def test_the_log_says_when_a_queue_is_full_and_when_it_is_not(
    start_broker: StartBroker, name: str
) -> None:
    daemon = start_broker()
    connection = pika.BlockingConnection(pika.URLParameters(daemon.url))
    channel = connection.channel()
    declare(channel, name, x_max_length=10)
    publish(channel, name, *[b"x"] * 1000)
    channel.queue_purge(name)
    wait_for(lambda: "QUE-1004" in daemon.log_tail(), DEADLINE_S, "QUE-1004 in the log")
    log = daemon.log_tail()
    assert log.count("QUE-1003") == 1
    assert log.count("QUE-1004") == 1
    assert name in log
    connection.close()
    # the queue goes with its connection, and what it has not reported yet is reported
    wait_for(lambda: "QUE-1005" in daemon.log_tail(), DEADLINE_S, "QUE-1005 in the log")
    assert "990 messages dropped" in daemon.log_tail()
