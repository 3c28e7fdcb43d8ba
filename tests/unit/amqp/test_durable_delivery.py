"""Deliveries that the store must know of first: all output of the connection is held until then."""

from __future__ import annotations

import pytest

from hareline.amqp.output import OUTPUT_TURN_MAX_BYTES
from hareline.wire.methods import commands, encode_method
from hareline.wire.properties import Properties
from tests.support.stores import FakeLedger, FakeStore

from .peer import Peer, SteppedBroker, publish_octets

PERSISTENT = Properties(delivery_mode=2)


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


def backlog(
    broker: SteppedBroker, store: FakeStore, *bodies: bytes, covers: int | None = 0
) -> FakeLedger:
    """A durable queue d with these, written; deliveries from ``covers`` on must be logged first."""
    publisher = broker.connect()
    publisher.declare("d", durable=True)
    for body in bodies:
        publisher.publish(1, "d", body, properties=PERSISTENT)
    publisher.expect_nothing()
    store.sync_all()
    ledger = store.ledgers["d"]
    ledger.covers = covers
    return ledger


@pytest.fixture
def peer(broker: SteppedBroker) -> Peer:
    return broker.connect(channels=(1, 2))


def names(peer: Peer) -> list[str]:
    return [one.name for one in peer.receive()]


def close_channel(number: int) -> bytes:
    return encode_method(
        number, commands.Channel.Close, reply_code=200, reply_text="", class_id=0, method_id=0
    )


@pytest.mark.parametrize("no_ack", [True, False])
def test_a_delivery_is_held_until_the_store_knows_of_it(
    broker: SteppedBroker, store: FakeStore, peer: Peer, no_ack: bool
) -> None:
    backlog(broker, store, b"1", b"2")
    peer.consume("d", "c", no_ack=no_ack)
    peer.expect_nothing()
    store.sync()
    received = peer.receive()
    assert [one.name for one in received] == ["basic.consume-ok", *["basic.deliver"] * 2]
    assert not any(one.method.redelivered for one in received[1:])


def test_what_is_covered_already_goes_out_at_once(
    broker: SteppedBroker, store: FakeStore, peer: Peer
) -> None:
    ledger = backlog(broker, store, b"1", b"2", b"3", covers=2)
    peer.send(1, commands.Basic.Qos, prefetch_count=2)
    peer.consume("d", "c")
    assert names(peer) == ["basic.qos-ok", "basic.consume-ok", *["basic.deliver"] * 2]
    peer.ack(1)
    peer.expect_nothing()
    ledger.covers = 100
    store.sync()
    assert names(peer) == ["basic.deliver"]


def test_what_was_never_written_goes_out_at_once(
    broker: SteppedBroker, store: FakeStore, peer: Peer
) -> None:
    backlog(broker, store, covers=None)
    peer.subscribe("d", "c")
    peer.publish(2, "d", b"x", properties=PERSISTENT)
    assert peer.bodies() == [b"x"]


def test_everything_else_waits_behind_it_in_order(
    broker: SteppedBroker, store: FakeStore, peer: Peer
) -> None:
    backlog(broker, store, b"1")
    peer.consume("d", "c")
    peer.expect_nothing()
    peer.send(2, commands.Queue.Declare, queue="t")
    peer.publish(2, "nowhere", b"", mandatory=True)
    peer.expect_nothing()
    store.sync()
    assert names(peer) == [
        "basic.consume-ok",
        "basic.deliver",
        "queue.declare-ok",
        "basic.return",
    ]


def test_other_connections_do_not_wait(broker: SteppedBroker, store: FakeStore, peer: Peer) -> None:
    backlog(broker, store, b"1")
    other = broker.connect()
    peer.consume("d", "c")
    peer.expect_nothing()
    other.declare("t")
    other.fill("t", b"x")
    assert other.get("t") is not None
    store.sync()
    assert names(peer) == ["basic.consume-ok", "basic.deliver"]


def test_a_later_ticket_keeps_holding(broker: SteppedBroker, store: FakeStore, peer: Peer) -> None:
    backlog(broker, store, b"1", b"2")
    peer.send(1, commands.Basic.Get, queue="d")
    peer.expect_nothing()
    peer.send(1, commands.Basic.Get, queue="d")
    peer.expect_nothing()
    store.sync()
    peer.expect_nothing()
    store.sync()
    assert names(peer) == ["basic.get-ok"] * 2


def test_gets_in_one_breath_are_answered_together_and_in_order(
    broker: SteppedBroker, store: FakeStore, peer: Peer
) -> None:
    backlog(broker, store, b"1", b"2")
    get = encode_method(1, commands.Basic.Get, queue="d")
    peer.send_octets(get * 3)
    peer.expect_nothing()
    store.sync()
    received = peer.receive()
    assert [one.name for one in received] == ["basic.get-ok", "basic.get-ok", "basic.get-empty"]
    assert [one.body for one in received] == [b"1", b"2", b""]


def test_gets_without_end_are_held_in_the_decoder(
    broker: SteppedBroker, store: FakeStore, peer: Peer
) -> None:
    """Held output is bounded: what is asked for beyond its room waits."""
    size = 100_000
    count = 3 * OUTPUT_TURN_MAX_BYTES // size
    backlog(broker, store, *[b"x" * size] * count)
    peer.send_octets(encode_method(1, commands.Basic.Get, queue="d", no_ack=True) * count)
    peer.expect_nothing()
    assert not peer.is_read_from()
    taken = count - broker.queue("d").ready_count
    assert size * taken < 2 * OUTPUT_TURN_MAX_BYTES
    seen = 0
    while store.is_writing:
        store.sync()
        seen += len(peer.receive())
    assert seen == count
    assert peer.is_read_from()


def test_a_consumer_takes_no_more_than_a_turn_of_it(
    broker: SteppedBroker, store: FakeStore, peer: Peer
) -> None:
    size = 100_000
    count = 3 * OUTPUT_TURN_MAX_BYTES // size
    backlog(broker, store, *[b"x" * size] * count)
    peer.consume("d", "c", no_ack=True)
    peer.expect_nothing()
    peer.expect_nothing()
    queue = broker.queue("d")
    assert size * (count - queue.ready_count) < 2 * OUTPUT_TURN_MAX_BYTES
    seen = 0
    while store.is_writing:
        store.sync()
        seen += sum(one.name == "basic.deliver" for one in peer.receive())
    assert seen == count


def test_credit_is_used_once(broker: SteppedBroker, store: FakeStore, peer: Peer) -> None:
    ledger = backlog(broker, store, *[b"x"] * 5)
    peer.call(1, commands.Basic.Qos, prefetch_count=2)
    peer.consume("d", "c")
    peer.expect_nothing()
    broker.turn.arm()
    peer.expect_nothing()
    assert ledger.acquired == [0, 1]
    store.sync()
    received = peer.receive()
    assert [one.method.delivery_tag for one in received[1:]] == [1, 2]
    ledger.covers = None
    peer.ack(2, multiple=True)
    assert [one.method.delivery_tag for one in peer.receive()] == [3, 4]


def test_a_channel_that_is_stopped_gets_nothing_more(
    broker: SteppedBroker, store: FakeStore, peer: Peer
) -> None:
    ledger = backlog(broker, store, b"1")
    peer.consume("d", "c")
    peer.expect_nothing()
    peer.send(1, commands.Channel.Flow, active=False)
    store.sync()
    assert names(peer) == ["basic.consume-ok", "basic.deliver", "channel.flow-ok"]
    ledger.covers = None
    peer.publish(2, "d", b"2", properties=PERSISTENT)
    peer.expect_nothing()
    peer.send(1, commands.Channel.Flow, active=True)
    assert names(peer) == ["channel.flow-ok", "basic.deliver"]


def test_a_socket_that_drains_writes_nothing_that_is_held(
    broker: SteppedBroker, store: FakeStore, peer: Peer
) -> None:
    backlog(broker, store, b"1")
    peer.consume("d", "c")
    peer.expect_nothing()
    peer.connection.on_socket_full()
    peer.expect_nothing()
    peer.connection.on_socket_drained()
    peer.expect_nothing()
    store.sync_all()
    assert names(peer) == ["basic.consume-ok", "basic.deliver"]


def test_heartbeats_go_out_while_output_is_held(store: FakeStore) -> None:
    broker = SteppedBroker(store=store)
    backlog(broker, store, b"1")
    peer = broker.connect(heartbeat_s=10)
    peer.consume("d", "c")
    peer.expect_nothing()
    broker.advance(11)
    assert "heartbeat" in names(peer)
    store.sync()
    assert names(peer) == ["basic.consume-ok", "basic.deliver"]


# --------------------------------------------------------------------------- failure


def test_what_is_held_goes_out_when_the_store_fails(
    broker: SteppedBroker, store: FakeStore, peer: Peer
) -> None:
    backlog(broker, store, b"1", b"2")
    peer.send(1, commands.Basic.Get, queue="d")
    peer.expect_nothing()
    store.fail("broken")
    assert names(peer) == ["basic.get-ok"]
    assert peer.get("d") is not None  # its ledger still names a ticket that never comes


def test_consumers_go_on_while_the_disk_has_no_room(
    broker: SteppedBroker, store: FakeStore, peer: Peer
) -> None:
    """What they settle is what makes room; see ``Connection.hold_output``."""
    backlog(broker, store, b"1", b"2", b"3")
    peer.send(1, commands.Basic.Get, queue="d")
    peer.expect_nothing()
    store.refuse("no space left on device")
    assert names(peer) == ["basic.get-ok"]
    assert peer.get("d") is not None
    store.refuse("")
    peer.send(1, commands.Basic.Get, queue="d")
    peer.expect_nothing()
    store.sync_all()
    assert names(peer) == ["basic.get-ok"]
    assert len(store.on_refusal_changed) == 1  # the virtual host's


# --------------------------------------------------------------------------- the end


def test_a_channel_closes_while_output_is_held(
    broker: SteppedBroker, store: FakeStore, peer: Peer
) -> None:
    backlog(broker, store, b"1")
    peer.consume("d", "c")
    peer.expect_nothing()
    peer.send_octets(close_channel(1))
    peer.expect_nothing()
    store.sync()
    assert names(peer) == ["basic.consume-ok", "basic.deliver", "channel.close-ok"]
    assert broker.queue("d").ready_count == 1
    peer.open(1)
    assert store.ledgers["d"].released == [(0, 1)]


def test_a_channel_error_while_output_is_held(
    broker: SteppedBroker, store: FakeStore, peer: Peer
) -> None:
    backlog(broker, store, b"1")
    peer.consume("d", "c")
    peer.expect_nothing()
    peer.send(1, commands.Queue.Declare, queue="missing", passive=True)
    peer.expect_nothing()
    store.sync()
    assert names(peer) == ["basic.consume-ok", "basic.deliver", "channel.close"]


def test_a_client_that_closes_its_connection_is_answered_at_once(
    broker: SteppedBroker, store: FakeStore, peer: Peer
) -> None:
    backlog(broker, store, b"1")
    peer.consume("d", "c")
    peer.expect_nothing()
    peer.send(0, commands.Connection.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    assert names(peer)[-1] == "connection.close-ok"
    assert peer.transport.state == "closed"
    writes = peer.transport.writes
    store.sync()
    broker.run_turns()
    assert peer.transport.writes == writes
    assert broker.queue("d").ready_count == 1


def test_a_forced_close_waits_for_the_store_and_then_for_the_client(
    broker: SteppedBroker, store: FakeStore, peer: Peer
) -> None:
    backlog(broker, store, b"1")
    peer.consume("d", "c")
    peer.expect_nothing()
    peer.connection.force_close("shutdown")
    peer.expect_nothing()
    store.sync_all()
    assert names(peer)[-1] == "connection.close"
    peer.send(0, commands.Connection.CloseOk)
    assert peer.transport.state == "closed"


def test_a_forced_close_ends_although_the_disk_says_nothing(
    broker: SteppedBroker, store: FakeStore, peer: Peer
) -> None:
    backlog(broker, store, b"1")
    peer.consume("d", "c")
    peer.expect_nothing()
    peer.connection.force_close("shutdown")
    broker.advance(11)
    assert peer.transport.state == "dropped"


@pytest.mark.parametrize("is_full", [True, False])
def test_a_lost_connection_is_not_written_to(
    broker: SteppedBroker, store: FakeStore, peer: Peer, is_full: bool
) -> None:
    backlog(broker, store, *[b"x" * 700_000] * 4)
    peer.consume("d", "c")
    peer.expect_nothing()
    if is_full:
        peer.connection.on_socket_full()
    peer.lose()
    writes = peer.transport.writes
    store.sync_all()
    broker.run_turns()
    assert peer.transport.writes == writes
    assert peer.connection.output.frames == []
    assert broker.queue("d").ready_count == 4


def test_a_publisher_and_consumer_on_one_connection(
    broker: SteppedBroker, store: FakeStore, peer: Peer
) -> None:
    """Confirms wait behind held deliveries, and nothing is confirmed twice."""
    backlog(broker, store, b"1")
    peer.call(2, commands.Confirm.Select)
    peer.consume("d", "c")
    peer.send_octets(publish_octets(2, "d", b"2", PERSISTENT) * 3)
    peer.expect_nothing()
    store.ledgers["d"].covers = None
    store.sync_all()
    received = peer.receive()
    assert [one.name for one in received] == [
        "basic.consume-ok",
        *["basic.deliver"] * 4,
        "basic.ack",
    ]
    assert received[-1].method.delivery_tag == 3
