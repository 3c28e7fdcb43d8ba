"""Publishers to a full queue: how each kind of client is stopped, and when it goes on."""

from __future__ import annotations

import pytest

from hareline.amqp.flow_control import ENFORCEMENT_S
from hareline.wire.methods import commands, encode_method
from hareline.wire.properties import Properties

from .peer import Peer, SteppedBroker, publish_octets

BASIC, QUEUE = commands.Basic, commands.Queue
BLOCKED, UNBLOCKED = commands.Connection.Blocked, commands.Connection.Unblocked
FLOW = commands.Channel.Flow
JAVA = {"product": "RabbitMQ", "platform": "Java"}
QPID = {"product": "Qpid JMS", "qpid.client_pid": 5}
REASON = "queue 'q' in vhost '/' is full"


def connect(broker: SteppedBroker, *channels: int, **properties: object) -> Peer:
    """A client with these client properties; it takes connection.blocked."""
    peer = broker.accept()
    peer.send_octets(b"AMQP\x00\x00\x09\x01")
    peer.expect(commands.Connection.Start)
    peer.send(
        0,
        commands.Connection.StartOk,
        client_properties={"capabilities": {"connection.blocked": True}, **properties},
        mechanism="PLAIN",
        response="\0guest\0guest",
        locale="en_US",
    )
    peer.expect(commands.Connection.Tune)
    peer.frame_max = 131_072
    peer.send(0, commands.Connection.TuneOk, frame_max=131_072, channel_max=2047, heartbeat=0)
    peer.call(0, commands.Connection.Open, virtual_host="/")
    for number in channels or (1,):
        peer.open(number)
    return peer


@pytest.fixture
def reader(broker: SteppedBroker) -> Peer:
    """Has declared q and p, which stop publishers above 4 messages until there are only 2."""
    peer = broker.connect()
    for name in ("q", "p"):
        peer.declare(
            name,
            arguments={
                "x-max-length": 4,
                "x-overflow": "flow-control",
                "x-flow-resume-limit": 50,
            },
        )
    return peer


def overfill(peer: Peer, queue: str = "q", number: int = 1) -> None:
    for body in (b"1", b"2", b"3", b"4", b"5"):
        peer.publish(number, queue, body)


# --------------------------------------------------------------------- sockets that are not read


@pytest.mark.row("A23")
def test_a_publisher_is_told_and_not_read_from_until_there_is_room(
    broker: SteppedBroker, reader: Peer
) -> None:
    peer = broker.connect()
    peer.fill("q", b"1", b"2", b"3", b"4")
    peer.expect_nothing()
    assert peer.is_read_from()
    peer.fill("q", b"5")
    assert peer.expect(BLOCKED).reason == REASON
    assert not peer.is_read_from()
    for body in (b"1", b"2"):
        received = reader.get("q", no_ack=True)
        assert received is not None
        assert received.body == body
        peer.expect_nothing()
    reader.get("q", no_ack=True)
    peer.expect(UNBLOCKED)
    assert peer.is_read_from()


@pytest.mark.row("A23")
def test_every_publish_is_accepted_and_confirmed(broker: SteppedBroker, reader: Peer) -> None:
    peer = broker.connect()
    peer.call(1, commands.Confirm.Select)
    peer.send_octets(publish_octets(1, "q", b"x") * 20)
    received = peer.receive()
    assert [one.name for one in received] == ["connection.blocked", "basic.ack"]
    assert received[1].method.delivery_tag == 20
    assert broker.queue("q").ready_count == 20


def test_a_client_that_does_not_know_connection_blocked_is_only_not_read_from(
    broker: SteppedBroker, reader: Peer
) -> None:
    peer = broker.connect(capabilities={})
    overfill(peer)
    peer.expect_nothing()
    assert not peer.is_read_from()
    reader.call(1, QUEUE.Purge, queue="q")
    peer.expect_nothing()
    assert peer.is_read_from()


@pytest.mark.row("A23")
def test_only_who_publishes_to_the_full_queue_is_stopped(
    broker: SteppedBroker, reader: Peer
) -> None:
    reader.declare("free")
    first, second, third = (broker.connect() for _ in range(3))
    overfill(first)
    first.expect(BLOCKED)
    third.fill("free", b"x")
    third.expect_nothing()
    second.fill("q", b"x")
    second.expect(BLOCKED)
    assert [peer.is_read_from() for peer in (first, second, third, reader)] == [
        False,
        False,
        True,
        True,
    ]
    reader.call(1, QUEUE.Purge, queue="q")
    first.expect(UNBLOCKED)
    second.expect(UNBLOCKED)


@pytest.mark.parametrize("properties", [Properties(expiration="60000"), Properties(type="t")])
def test_no_kind_of_publish_gets_round_it(
    broker: SteppedBroker, reader: Peer, properties: Properties
) -> None:
    reader.bind("q", "amq.headers", arguments={"x-match": "all"})
    peer = broker.connect()
    for _ in range(5):
        peer.publish(1, "", b"x", exchange="amq.headers", properties=properties)
    peer.expect(BLOCKED)


def test_a_commit_into_a_full_queue_stops_its_publisher(
    broker: SteppedBroker, reader: Peer
) -> None:
    peer = broker.connect()
    peer.call(1, commands.Tx.Select)
    overfill(peer)
    peer.expect_nothing()
    assert peer.is_read_from()
    peer.send(1, commands.Tx.Commit)
    assert [one.name for one in peer.receive()] == ["connection.blocked", "tx.commit-ok"]
    assert not peer.is_read_from()


def test_it_goes_on_when_the_last_of_its_full_queues_has_room(
    broker: SteppedBroker, reader: Peer
) -> None:
    peer = broker.connect(channels=[1, 2])
    peer.send_octets(publish_octets(1, "q", b"x") * 5 + publish_octets(2, "p", b"x") * 5)
    assert peer.expect(BLOCKED).reason == REASON
    reader.call(1, QUEUE.Purge, queue="q")
    peer.expect_nothing()
    assert not peer.is_read_from()
    reader.call(1, QUEUE.Delete, queue="p")
    peer.expect(UNBLOCKED)
    assert peer.is_read_from()


@pytest.mark.row("A23")
def test_the_end_of_the_queue_lets_publishers_go_on(broker: SteppedBroker, reader: Peer) -> None:
    peer = broker.connect()
    overfill(peer)
    peer.expect(BLOCKED)
    reader.call(1, QUEUE.Delete, queue="q")
    peer.expect(UNBLOCKED)
    assert peer.is_read_from()


def test_a_long_name_makes_a_reason_that_fits(broker: SteppedBroker, reader: Peer) -> None:
    name = "n" * 255
    reader.declare(name, arguments={"x-max-length": 0, "x-overflow": "flow-control"})
    peer = broker.connect()
    peer.fill(name, b"x")
    reason = peer.expect(BLOCKED).reason
    assert len(reason) == 255
    assert reason.startswith("queue 'nnn")
    assert reason.endswith("...")


# ------------------------------------------------------------------------ who must still be read


@pytest.mark.row("A23")
def test_a_publisher_that_also_consumes_is_told_but_read_from(
    broker: SteppedBroker, reader: Peer
) -> None:
    peer = broker.connect(channels=[1, 2])
    peer.call(2, BASIC.Qos, prefetch_count=1)
    peer.subscribe("q", "t", number=2)
    peer.send_octets(publish_octets(1, "q", b"x") * 6)
    assert [one.name for one in peer.receive()] == ["basic.deliver", "connection.blocked"]
    assert peer.is_read_from()
    for tag in (1, 2):
        peer.ack(tag, number=2)
        assert peer.bodies() == [b"x"]
    peer.ack(3, number=2)
    received = peer.receive()
    assert sorted(one.name for one in received) == ["basic.deliver", "connection.unblocked"]


def test_a_publisher_that_holds_messages_is_read_from(broker: SteppedBroker, reader: Peer) -> None:
    peer = broker.connect()
    peer.fill("q", b"0")
    assert peer.get("q") is not None
    overfill(peer)
    peer.expect(BLOCKED)
    assert peer.is_read_from()
    peer.ack(1)
    peer.fill("q", b"6")  # nothing is left that it could settle
    peer.expect_nothing()
    assert not peer.is_read_from()


# --------------------------------------------------------------------------- the end of a stop


def test_a_stopped_connection_that_is_lost_waits_no_more(
    broker: SteppedBroker, reader: Peer
) -> None:
    peer = broker.connect()
    overfill(peer)
    peer.expect(BLOCKED)
    peer.lose("gone")
    reader.call(1, QUEUE.Purge, queue="q")
    overflow = broker.queue("q").overflow
    assert overflow is not None
    assert not overflow.is_overfull
    assert peer.transport.written == b""


def test_a_stopped_channel_that_ends_frees_its_connection(
    broker: SteppedBroker, reader: Peer
) -> None:
    peer = broker.connect(channels=[1, 2])
    peer.send_octets(publish_octets(1, "q", b"x") * 5 + encode_method(1, commands.Channel.Close))
    names = [one.name for one in peer.receive()]
    assert names == ["connection.blocked", "connection.unblocked", "channel.close-ok"]
    assert peer.is_read_from()
    reader.call(1, QUEUE.Purge, queue="q")
    peer.expect_nothing()


def test_a_connection_that_we_close_is_read_for_its_close_ok(
    broker: SteppedBroker, reader: Peer
) -> None:
    peer = broker.connect()
    overfill(peer)
    peer.expect(BLOCKED)
    peer.connection.force_close("enough")
    peer.expect(commands.Connection.Close)
    assert peer.is_read_from()
    peer.send(0, commands.Connection.CloseOk)
    assert peer.transport.state == "closed"


# ------------------------------------------------------------------------------- besides alarms


def test_an_alarm_and_a_full_queue_make_one_blocked_and_one_unblocked(
    broker: SteppedBroker, reader: Peer
) -> None:
    peer = broker.connect()
    overfill(peer)
    peer.expect(BLOCKED)
    broker.context.alarms.set("memory")
    peer.fill("q", b"6")
    peer.expect_nothing()
    reader.call(1, QUEUE.Purge, queue="q")
    peer.expect_nothing()
    assert not peer.is_read_from()
    broker.context.alarms.clear("memory")
    peer.expect(UNBLOCKED)
    assert peer.is_read_from()


def test_the_end_of_an_alarm_does_not_unblock_who_waits_for_a_queue(
    broker: SteppedBroker, reader: Peer
) -> None:
    peer = broker.connect()
    broker.context.alarms.set("memory")
    overfill(peer)
    assert peer.expect(BLOCKED).reason == "low on memory"
    broker.context.alarms.clear("memory")
    assert [one.name for one in peer.receive()] == ["connection.unblocked", "connection.blocked"]
    assert not peer.is_read_from()
    reader.call(1, QUEUE.Purge, queue="q")
    peer.expect(UNBLOCKED)
    assert peer.is_read_from()


# --------------------------------------------------------------------------------- channel.flow


@pytest.mark.row("A23")
@pytest.mark.parametrize("properties", [JAVA, QPID])
def test_a_client_that_takes_channel_flow_is_read_from(
    broker: SteppedBroker, reader: Peer, properties: dict[str, object]
) -> None:
    peer = connect(broker, 1, 2, **properties)
    overfill(peer, number=2)
    (received,) = peer.receive()
    assert (received.channel, received.name) == (2, "channel.flow")
    assert received.method.active is False
    peer.send(2, commands.Channel.FlowOk, active=False)
    peer.expect_nothing()
    assert peer.is_read_from()
    reader.get("q", no_ack=True)
    reader.get("q", no_ack=True)
    peer.expect_nothing()
    reader.get("q", no_ack=True)
    (received,) = peer.receive()
    assert (received.channel, received.name, received.method.active) == (2, "channel.flow", True)


def test_what_was_on_its_way_at_channel_flow_is_taken_without_another_word(
    broker: SteppedBroker, reader: Peer
) -> None:
    peer = connect(broker, **JAVA)
    overfill(peer)
    assert peer.expect(FLOW).active is False
    peer.fill("q", b"6", b"7")
    broker.advance(ENFORCEMENT_S - 0.001)
    peer.fill("q", b"8")
    peer.expect_nothing()
    assert peer.is_read_from()
    assert broker.queue("q").ready_count == 8


def test_who_does_not_heed_channel_flow_is_not_read_from(
    broker: SteppedBroker, reader: Peer
) -> None:
    peer = connect(broker, **JAVA)
    overfill(peer)
    assert peer.expect(FLOW).active is False
    broker.advance(ENFORCEMENT_S)
    peer.fill("q", b"6")
    peer.expect(BLOCKED)
    assert not peer.is_read_from()
    reader.call(1, QUEUE.Purge, queue="q")
    assert [one.name for one in peer.receive()] == ["channel.flow", "connection.unblocked"]
    assert peer.is_read_from()


def test_each_channel_has_a_flow_of_its_own(broker: SteppedBroker, reader: Peer) -> None:
    peer = connect(broker, 1, 2, **QPID)
    overfill(peer, "q", 1)
    overfill(peer, "p", 2)
    assert [(one.channel, one.method.active) for one in peer.receive()] == [(1, False), (2, False)]
    reader.call(1, QUEUE.Purge, queue="p")
    assert [(one.channel, one.method.active) for one in peer.receive()] == [(2, True)]


def test_a_channel_that_ends_is_sent_no_flow(broker: SteppedBroker, reader: Peer) -> None:
    peer = connect(broker, **QPID)
    overfill(peer)
    peer.expect(FLOW)
    peer.call(1, commands.Channel.Close)
    reader.call(1, QUEUE.Purge, queue="q")
    peer.expect_nothing()
