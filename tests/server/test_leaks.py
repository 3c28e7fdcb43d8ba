"""Connections that have ended leave nothing: no object, no queue, no consumer, no timer.

Everything is held to be freed by its reference counts: the broker keeps the garbage collector away
while it works, and what the collector has frozen it never looks at again.
"""

from __future__ import annotations

import gc
import itertools
import logging
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from pamqp import commands

from hareline.amqp.channel import Channel
from hareline.amqp.connection import Connection
from hareline.amqp.consuming import ChannelConsumer
from hareline.amqp.handshake import Handshake
from hareline.amqp.publishing import Publishing
from hareline.amqp.settling import Settling
from hareline.broker import registry as registry_module
from hareline.broker import routing as routing_module
from hareline.message import Message
from hareline.net.shell import ConnectionShell
from hareline.queues.queue import Queue
from hareline.wire.decoder import Decoder
from tests.support.broker_thread import BrokerThread
from tests.support.churn import Churn
from tests.support.raw_client import PROTOCOL_HEADER, RawClient

CONNECTIONS = 500
BATCH = 50

CHURN_WARM_UP = 300
CHURN_CONNECTIONS = 1000
#: A single object kept for each connection would be more.
CHURN_BYTES_EACH = 40
#: What is kept for each connection grows every time, a module that is imported late only once.
CHURN_ROUNDS = 3

#: Whatever belongs to a connection.
KINDS = (
    Channel,
    ChannelConsumer,
    Connection,
    ConnectionShell,
    Decoder,
    Handshake,
    Message,
    Publishing,
    Queue,
    Settling,
)


@pytest.fixture(autouse=True)
def no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive() -> Counter[str]:
    """How many objects of these kinds there are, seen by the collector or not yet freed."""
    return Counter(type(thing).__name__ for thing in gc.get_objects() if isinstance(thing, KINDS))


# ------------------------------------------------------------- ways to come to an end


def close_in_order(raw: RawClient) -> None:
    raw.open().close()


def drop(raw: RawClient) -> None:
    raw.open().drop()


def drop_before_the_header(raw: RawClient) -> None:
    raw.drop()


def drop_in_the_handshake(raw: RawClient) -> None:
    raw.log_in()
    raw.drop()


def speak_another_protocol(raw: RawClient) -> None:
    raw.send_octets(b"GET / HTTP/1.1\r\n\r\n")
    assert raw.read_until_closed() == PROTOCOL_HEADER
    raw.drop()


def commit_a_connection_error(raw: RawClient) -> None:
    raw.open()
    raw.send(commands.Basic.RecoverOk())
    raw.expect(commands.Connection.Close)
    raw.agree_to_close()


def commit_an_error_and_drop(raw: RawClient) -> None:
    raw.open()
    raw.send_octets(b"\xff" * 100)
    raw.expect(commands.Connection.Close)
    raw.drop()


def commit_channel_errors(raw: RawClient) -> None:
    raw.open()
    for _ in range(3):
        raw.send(commands.Basic.Ack(delivery_tag=99))
        raw.expect(commands.Channel.Close)
        raw.send(commands.Channel.CloseOk())
        raw.call(commands.Channel.Open(), commands.Channel.OpenOk)
    raw.send(commands.Basic.Ack(delivery_tag=99))
    raw.expect(commands.Channel.Close)
    raw.drop()


def use_everything(raw: RawClient) -> None:
    """Exclusive and auto-delete queues, bindings, consumers, unacked deliveries, a blocked one."""
    raw.open(channels=(1, 2, 3), heartbeat_s=60)
    queue = raw.declare("", exclusive=True)
    raw.call(
        commands.Queue.Bind(queue=queue, exchange="amq.topic", routing_key="#"),
        commands.Queue.BindOk,
    )
    raw.call(commands.Basic.Qos(prefetch_count=2), commands.Basic.QosOk)
    raw.call(commands.Basic.Qos(prefetch_count=3, global_=True), commands.Basic.QosOk)
    raw.consume(queue, tag="one", no_ack=False)
    raw.consume(queue, tag="two", no_ack=False)
    raw.consume("amq.rabbitmq.reply-to", tag="replies")
    raw.publish("a.b", *[b"x"] * 5, exchange="amq.topic")
    raw.read_bodies(3)
    temporary = raw.declare("", auto_delete=True)
    raw.consume(temporary, tag="three")
    raw.select_confirms()
    raw.call(commands.Tx.Select(), commands.Tx.SelectOk, 2)
    raw.send(commands.Basic.Publish(routing_key=queue), 2)


def use_everything_and_close(raw: RawClient) -> None:
    use_everything(raw)
    goodbye = commands.Connection.Close(reply_code=200, reply_text="", class_id=0, method_id=0)
    raw.send(goodbye, 0)
    raw.read_until_closed()
    raw.drop()


def use_everything_and_drop(raw: RawClient) -> None:
    use_everything(raw)
    raw.drop()


@pytest.mark.parametrize(
    "story",
    [
        close_in_order,
        drop,
        drop_before_the_header,
        drop_in_the_handshake,
        speak_another_protocol,
        commit_a_connection_error,
        commit_an_error_and_drop,
        commit_channel_errors,
        use_everything_and_close,
        use_everything_and_drop,
    ],
    ids=lambda story: story.__name__,
)
def test_an_ended_connection_is_freed_by_its_reference_counts(
    broker: BrokerThread, story: Callable[[RawClient], None]
) -> None:
    before = alive()
    for _ in range(3):
        story(broker.client())
    broker.wait_until(lambda inside: not inside.context.connections, "the connections to end")
    broker.ask(lambda inside: None)  # one more turn of the loop
    assert alive() - before == Counter()


@pytest.mark.acceptance
def test_hundreds_of_connections_leave_the_broker_as_it_was(broker: BrokerThread) -> None:
    before = alive()
    for _ in range(CONNECTIONS // BATCH):
        clients = [broker.client() for _ in range(BATCH)]
        for number, raw in enumerate(clients):
            raw.open()
            queue = raw.declare("", exclusive=True)
            raw.consume(queue)
            raw.publish(queue, b"x")
            assert raw.read_bodies(1) == [b"x"]
            if number % 2:
                raw.close()
            else:
                raw.drop()
        broker.wait_until(lambda inside: not inside.context.connections, "the connections to end")
    broker.ask(lambda inside: None)
    assert alive() - before == Counter()
    vhost = broker.broker.context.vhosts["/"]
    assert not vhost.queues
    assert not vhost.queue_arguments
    assert not vhost.reply_queues
    assert len(vhost.bindings) == 0


@pytest.mark.acceptance
def test_thousands_of_connections_with_names_of_their_own_leave_no_memory(
    broker: BrokerThread, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that may outlive a connection is in a few caches; here these are full after the first."""
    monkeypatch.setattr(routing_module, "ADDRESSES_MAX", 64)
    caplog.set_level(logging.CRITICAL, "hareline")  # or pytest keeps what is logged of each
    churn = Churn(broker.address)

    def traced_bytes(count: int) -> int:
        """What is allocated after so many more connections."""
        churn.run(count)
        broker.wait_until(lambda inside: not inside.context.connections, "the connections to end")
        broker.ask(lambda inside: None)
        return tracemalloc.get_traced_memory()[0]

    gc.collect()  # what the tests before have left in cycles
    before = alive()  # which remembers the classes it has seen, so not between the two measures
    tracemalloc.start()
    try:
        traced = [traced_bytes(CHURN_WARM_UP)]
        traced += [traced_bytes(CHURN_CONNECTIONS) for _ in range(CHURN_ROUNDS)]
    finally:
        tracemalloc.stop()
    assert alive() - before == Counter()
    grown = [after - before for before, after in itertools.pairwise(traced)]
    assert min(grown) < CHURN_CONNECTIONS * CHURN_BYTES_EACH, grown
    vhost = broker.broker.context.vhosts["/"]
    assert not vhost.queues
    assert len(vhost.bindings) == 0
    assert set(vhost.exchanges) == {"", *(name for name, _, _ in registry_module.PREDECLARED)}


@pytest.mark.acceptance
def test_channels_that_come_and_go_leave_nothing(broker: BrokerThread) -> None:
    raw = broker.client().open()
    before = alive()
    for _ in range(200):
        raw.call(commands.Channel.Open(), commands.Channel.OpenOk, 2)
        raw.call(
            commands.Channel.Close(reply_code=200, reply_text="", class_id=0, method_id=0),
            commands.Channel.CloseOk,
            2,
        )
    broker.ask(lambda inside: None)
    assert alive() - before == Counter()


@pytest.mark.acceptance
def test_consumers_that_come_and_go_leave_nothing(broker: BrokerThread) -> None:
    raw = broker.client().open()
    queue = raw.declare("", exclusive=True)
    raw.call(commands.Basic.Qos(prefetch_count=1, global_=True), commands.Basic.QosOk)
    raw.publish(queue, b"1", b"2")
    raw.consume(queue, tag="first", no_ack=False)
    raw.read_bodies(1)
    before = alive()
    for _ in range(200):
        raw.consume(queue, no_ack=False)
        raw.call(commands.Basic.Cancel(consumer_tag="raw"), commands.Basic.CancelOk)
    broker.ask(lambda inside: None)
    assert alive() - before == Counter()
