"""Resource alarms: who is blocked, who is told, and that consumers go on."""

from __future__ import annotations

import pytest

from hareline import events
from hareline.amqp.alarms import Alarms, Resource
from hareline.wire.methods import commands, encode_method

from .peer import Peer, SteppedBroker, publish_octets

BLOCKED, UNBLOCKED = commands.Connection.Blocked, commands.Connection.Unblocked


class Listener:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_alarm(self) -> None:
        self.heard.append("on")

    def on_alarm_cleared(self) -> None:
        self.heard.append("off")


@pytest.fixture
def alarms(broker: SteppedBroker) -> Alarms:
    return broker.context.alarms


# -------------------------------------------------------------------------------------- the alarms


def test_connections_hear_of_the_first_alarm_and_of_the_end_of_the_last() -> None:
    listener = Listener()
    alarms = Alarms([listener])
    steps: list[tuple[str, Resource, bool]] = [
        ("set", "memory", True),
        ("set", "memory", True),
        ("set", "disk", True),
        ("clear", "memory", True),
        ("clear", "disk", False),
        ("clear", "disk", False),
    ]
    for step, resource, is_on in steps:
        (alarms.set if step == "set" else alarms.clear)(resource)
        assert alarms.is_on == is_on
    assert listener.heard == ["on", "off"]


@pytest.mark.parametrize(
    ("resources", "reason"),
    [
        (["memory"], "low on memory"),
        (["disk"], "low on disk"),
        (["disk", "memory"], "low on memory & disk"),
    ],
)
def test_the_reason_names_what_is_low(resources: list[Resource], reason: str) -> None:
    alarms = Alarms([])
    for resource in resources:
        alarms.set(resource)
    assert alarms.reason == reason
    assert alarms.resources == sorted(resources)


# ------------------------------------------------------------------------------------- connections


def test_the_first_publish_blocks_and_the_client_is_told_once(
    broker: SteppedBroker, peer: Peer, alarms: Alarms
) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2")
    alarms.set("memory")
    peer.expect_nothing()
    assert peer.is_read_from()
    peer.send_octets(publish_octets(1, "q", b"3") * 3)
    assert peer.expect(BLOCKED).reason == "low on memory"
    assert not peer.is_read_from()
    alarms.set("disk")
    peer.expect_nothing()
    assert broker.queue("q").ready_count == 2
    assert broker.reported(events.CONNECTION_BLOCKED) == [
        {"peer": "127.0.0.1:40000", "reason": "low on memory"}
    ]
    alarms.clear("memory")
    peer.expect_nothing()
    assert broker.queue("q").ready_count == 2
    alarms.clear("disk")
    peer.expect(UNBLOCKED)
    assert broker.queue("q").ready_count == 5  # what was read before is not thrown away
    assert peer.is_read_from()


def test_what_several_channels_sent_keeps_its_order_over_an_alarm(
    broker: SteppedBroker, peer: Peer, alarms: Alarms
) -> None:
    peer.declare("q")
    peer.open(2)
    peer.send_octets(publish_octets(1, "q", b"1") + publish_octets(2, "q", b"2"))
    alarms.set("memory")
    octets = b"".join(publish_octets(1 + number % 2, "q", b"%d" % number) for number in range(3, 9))
    cut = len(octets) // 2 + 5
    peer.send_octets(octets[:cut])
    peer.expect(BLOCKED)
    peer.send_octets(octets[cut:])  # it was on its way before reading was paused
    assert broker.queue("q").ready_count == 2
    alarms.clear("memory")
    peer.expect(UNBLOCKED)
    assert peer.drain("q") == [b"%d" % number for number in range(1, 9)]


def test_an_alarm_that_begins_again_stops_what_was_kept(
    broker: SteppedBroker, peer: Peer, alarms: Alarms
) -> None:
    peer.declare("q")
    alarms.set("memory")
    peer.send_octets(publish_octets(1, "q", b"1") * 3)
    alarms.clear("memory")
    alarms.set("disk")
    assert [one.name for one in peer.receive()] == [
        "connection.blocked",
        "connection.unblocked",
        "connection.blocked",
    ]
    assert broker.queue("q").ready_count <= 1  # its method had been read
    alarms.clear("disk")
    peer.expect(UNBLOCKED)
    assert broker.queue("q").ready_count == 3


def test_a_blocked_connection_that_is_closed_by_the_broker_reads_close_ok(
    broker: SteppedBroker, peer: Peer, alarms: Alarms
) -> None:
    peer.declare("q")
    alarms.set("memory")
    peer.send_octets(publish_octets(1, "q", b"1") * 3)
    peer.expect(BLOCKED)
    peer.connection.force_close("shutdown")
    assert [one.name for one in peer.receive()] == ["connection.close"]
    assert peer.is_read_from()
    peer.send(0, commands.Connection.CloseOk)
    assert peer.transport.state == "closed"
    assert broker.queue("q").ready_count == 0


def test_a_connection_that_only_consumes_goes_on(
    broker: SteppedBroker, peer: Peer, alarms: Alarms
) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2")
    reader = broker.connect()
    alarms.set("memory")
    reader.call(1, commands.Basic.Qos, prefetch_count=1)
    reader.consume("q", "t")
    assert [one.name for one in reader.receive()] == ["basic.consume-ok", "basic.deliver"]
    reader.ack(1)
    assert reader.bodies() == [b"2"]
    assert reader.is_read_from()


def test_the_end_of_the_last_alarm_unblocks(peer: Peer, alarms: Alarms) -> None:
    peer.declare("q")
    alarms.set("memory")
    alarms.set("disk")
    peer.fill("q", b"1")
    assert peer.expect(BLOCKED).reason == "low on memory & disk"
    alarms.clear("memory")
    peer.expect_nothing()
    assert not peer.is_read_from()
    alarms.clear("disk")
    peer.expect(UNBLOCKED)
    assert peer.is_read_from()
    peer.fill("q", b"2")
    assert peer.drain("q") == [b"1", b"2"]


def test_a_second_alarm_blocks_again(peer: Peer, alarms: Alarms) -> None:
    peer.declare("q")
    for _ in range(3):
        alarms.set("memory")
        peer.fill("q", b"x")
        peer.expect(BLOCKED)
        alarms.clear("memory")
        peer.expect(UNBLOCKED)


def test_who_did_not_publish_hears_nothing(peer: Peer, alarms: Alarms) -> None:
    alarms.set("memory")
    peer.declare("q")
    alarms.clear("memory")
    peer.expect_nothing()


def test_a_client_without_the_capability_is_blocked_untold(
    broker: SteppedBroker, alarms: Alarms
) -> None:
    peer = broker.connect(capabilities={})
    peer.declare("q")
    alarms.set("memory")
    peer.fill("q", b"1")
    peer.expect_nothing()
    assert not peer.is_read_from()
    alarms.clear("memory")
    peer.expect_nothing()
    assert peer.is_read_from()


def test_a_connection_and_a_channel_made_during_an_alarm_are_blocked_too(
    broker: SteppedBroker, peer: Peer, alarms: Alarms
) -> None:
    peer.declare("q")
    alarms.set("memory")
    late = broker.connect()
    late.open(2)
    publish = publish_octets(2, "q", b"1")
    late.send_octets(publish * 3)
    late.expect(BLOCKED)
    assert peer.drain("q") == []
    alarms.clear("memory")
    late.expect(UNBLOCKED)
    assert peer.drain("q") == [b"1"] * 3


def test_a_content_half_received_when_the_alarm_comes_is_finished(
    peer: Peer, alarms: Alarms
) -> None:
    peer.declare("q")
    octets = publish_octets(1, "q", b"body")
    peer.send_octets(octets[:-7])
    alarms.set("memory")
    peer.send_octets(octets[-7:])
    peer.expect_nothing()  # this publish began before the alarm
    peer.send_octets(octets)
    peer.expect(BLOCKED)
    alarms.clear("memory")
    peer.expect(UNBLOCKED)
    assert peer.drain("q") == [b"body"] * 2


def test_a_content_half_received_when_the_alarm_ends_is_finished(
    peer: Peer, alarms: Alarms
) -> None:
    peer.declare("q")
    octets = publish_octets(1, "q", b"body")
    alarms.set("memory")
    peer.send_octets(octets[:-7])
    peer.expect(BLOCKED)
    alarms.clear("memory")
    peer.expect(UNBLOCKED)
    peer.send_octets(octets[-7:] + octets * 2)
    assert peer.drain("q") == [b"body"] * 3


def test_a_transactional_channel_is_blocked_and_stays_transactional(
    broker: SteppedBroker, peer: Peer, alarms: Alarms
) -> None:
    peer.declare("q")
    peer.call(1, commands.Tx.Select)
    alarms.set("memory")
    peer.fill("q", b"1")
    peer.expect(BLOCKED)
    alarms.clear("memory")
    peer.expect(UNBLOCKED)
    peer.send_octets(publish_octets(1, "q", b"2") * 3)
    assert broker.queue("q").ready_count == 0
    peer.call(1, commands.Tx.Commit)
    assert broker.queue("q").ready_count == 4


def test_a_blocked_connection_closes_when_the_alarm_is_over(
    broker: SteppedBroker, peer: Peer, alarms: Alarms
) -> None:
    """Its close is behind a publish that has to wait; RabbitMQ reads no further either."""
    peer.declare("q")
    alarms.set("memory")
    close = encode_method(0, commands.Connection.Close)
    peer.send_octets(publish_octets(1, "q", b"1") + close)
    assert [one.name for one in peer.receive()] == ["connection.blocked"]
    alarms.clear("memory")
    names = [one.name for one in peer.receive()]
    assert names == ["connection.unblocked", "connection.close-ok"]
    assert broker.queue("q").ready_count == 1
