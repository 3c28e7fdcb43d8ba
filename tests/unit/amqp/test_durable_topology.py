"""What a client is told of its declares, when their definitions become durable or are lost."""

from __future__ import annotations

import pytest

from hareline.wire.methods import commands, encode_method
from tests.support.stores import FakeDefinitions

from .peer import Peer, SteppedBroker, publish_octets

LOSS = "definitions.sqlite: database or disk is full"


@pytest.fixture
def definitions() -> FakeDefinitions:
    definitions = FakeDefinitions()
    definitions.gathers = True
    return definitions


@pytest.fixture
def broker(definitions: FakeDefinitions) -> SteppedBroker:
    broker = SteppedBroker(definitions=definitions)

    def write_pending() -> bool:
        definitions.commit()
        return broker.store.write_pending()

    definitions.ask_for_turn = broker.turn.arm
    broker.turn.write_pending = write_pending
    return broker


@pytest.fixture
def peer(broker: SteppedBroker) -> Peer:
    return broker.connect()


def write(broker: SteppedBroker) -> None:
    """The disk is not busy any more, and takes what has gathered."""
    definitions = broker.definitions
    assert isinstance(definitions, FakeDefinitions)
    definitions.is_busy = False
    broker.turn.arm()


def burst(peer: Peer, count: int = 3) -> None:
    """Declares and bindings in one piece; no turn ends."""
    octets = [
        encode_method(
            1, commands.Exchange.Declare, exchange="e", exchange_type="topic", durable=True
        )
    ]
    for number in range(count):
        octets += [
            encode_method(1, commands.Queue.Declare, queue=f"q{number}", durable=True),
            encode_method(1, commands.Queue.Bind, queue=f"q{number}", exchange="e"),
        ]
    peer.send_octets(b"".join(octets))


def names(peer: Peer) -> list[str]:
    return [one.name for one in peer.receive()]


OKS = ["exchange.declare-ok", *["queue.declare-ok", "queue.bind-ok"] * 3]


def test_all_of_a_turn_is_committed_once_and_then_told(
    peer: Peer, definitions: FakeDefinitions
) -> None:
    burst(peer)
    assert definitions.commits == 0
    assert peer.transport.written == b""
    assert names(peer) == OKS
    assert definitions.commits == 1


def test_while_the_disk_is_busy_a_client_is_neither_answered_nor_read(
    peer: Peer, broker: SteppedBroker, definitions: FakeDefinitions
) -> None:
    bystander = broker.connect()
    definitions.is_busy = True
    burst(peer)
    broker.run_turns()
    peer.send(1, commands.Queue.Declare, queue="later", durable=True)
    bystander.send(1, commands.Basic.Qos, prefetch_count=5)
    assert names(bystander) == ["basic.qos-ok"]
    assert (peer.transport.written, peer.transport.is_reading) == (b"", False)
    write(broker)
    assert names(peer) == [*OKS, "queue.declare-ok"]
    assert peer.transport.is_reading
    assert "later" in broker.vhost.queues


def test_a_publish_behind_the_declare_waits_for_it_and_is_routed(
    peer: Peer, broker: SteppedBroker, definitions: FakeDefinitions
) -> None:
    peer.call(1, commands.Confirm.Select)
    peer.publish(1, "amq.nowhere")  # the lane is open from now on
    assert names(peer) == ["basic.ack"]
    definitions.is_busy = True
    peer.send(1, commands.Queue.Declare, queue="q", durable=True)
    peer.publish(1, "q", b"behind it")
    broker.run_turns()
    assert broker.vhost.queues["q"].ready_count == 0
    write(broker)
    assert names(peer) == ["queue.declare-ok", "basic.ack"]
    assert broker.vhost.queues["q"].ready_count == 1
    for _ in range(3):
        peer.publish(1, "q", b"more")
    assert broker.vhost.queues["q"].ready_count == 4


def test_a_publish_that_was_half_there_opens_no_lane_for_the_next_one(
    peer: Peer, broker: SteppedBroker, definitions: FakeDefinitions
) -> None:
    peer.call(2, commands.Channel.Open)
    publish = publish_octets(2, "k", b"x", exchange="amq.fanout", frame_max=peer.frame_max)
    peer.send_octets(publish * 2)  # its route is known from now on
    half = len(encode_method(2, commands.Basic.Publish, exchange="amq.fanout", routing_key="k"))
    peer.send_octets(publish[:half])
    definitions.is_busy = True
    peer.send(1, commands.Queue.Declare, queue="q", durable=True)
    peer.send(1, commands.Queue.Bind, queue="q", exchange="amq.fanout")
    peer.send_octets(publish[half:] + publish)
    broker.run_turns()
    write(broker)
    assert names(peer) == ["queue.declare-ok", "queue.bind-ok"]
    assert broker.vhost.queues["q"].ready_count == 1


def test_no_route_leads_to_a_queue_that_a_crash_would_take_along(
    peer: Peer, broker: SteppedBroker, definitions: FakeDefinitions
) -> None:
    other = broker.connect()
    definitions.is_busy = True
    peer.send(1, commands.Queue.Declare, queue="q", durable=True)
    peer.send(1, commands.Queue.Bind, queue="q", exchange="amq.fanout")
    for exchange in ("", "amq.fanout"):
        other.publish(1, "q", b"too early", exchange=exchange, mandatory=True)
    assert names(other) == ["basic.return"] * 2
    write(broker)
    assert names(peer) == ["queue.declare-ok", "queue.bind-ok"]
    for exchange in ("", "amq.fanout"):
        other.publish(1, "q", b"in time", exchange=exchange, mandatory=True)
    assert names(other) == []
    assert broker.vhost.queues["q"].ready_count == 2


def test_who_declares_something_else_does_not_wait(
    peer: Peer, broker: SteppedBroker, definitions: FakeDefinitions
) -> None:
    other = broker.connect()
    definitions.is_busy = True
    burst(peer)
    other.send(1, commands.Queue.Declare, queue="reply", exclusive=True)
    other.send(1, commands.Queue.Bind, queue="reply", exchange="amq.direct")
    assert names(other) == ["queue.declare-ok", "queue.bind-ok"]
    other.send(1, commands.Queue.Bind, queue="reply", exchange="e")
    assert names(other) == []
    definitions.is_busy = False
    definitions.loss = LOSS
    broker.turn.arm()
    assert other.refusal().code == 506


def test_a_connection_that_is_closed_while_its_goodbye_waits_is_answered_all_the_same(
    peer: Peer, broker: SteppedBroker, definitions: FakeDefinitions
) -> None:
    definitions.is_busy = True
    burst(peer)
    peer.send(0, commands.Connection.Close, reply_code=200)
    peer.connection.force_close("the broker stops")
    broker.run_turns()
    assert (peer.transport.written, peer.transport.state) == (b"", "open")
    write(broker)
    assert names(peer) == [*OKS, "connection.close-ok"]


def test_while_the_disk_is_busy_a_goodbye_waits(
    peer: Peer, broker: SteppedBroker, definitions: FakeDefinitions
) -> None:
    definitions.is_busy = True
    burst(peer)
    peer.send(0, commands.Connection.Close, reply_code=200)
    broker.run_turns()
    assert (peer.transport.written, peer.transport.state) == (b"", "open")
    write(broker)
    assert names(peer) == [*OKS, "connection.close-ok"]
    assert peer.transport.state == "closed"


def test_a_client_whose_changes_are_lost_is_told_that_and_nothing_else(
    peer: Peer, broker: SteppedBroker, definitions: FakeDefinitions
) -> None:
    definitions.loss = LOSS
    burst(peer)
    refusal = peer.refusal()
    assert (refusal.scope, refusal.code) == ("connection", 506)
    assert LOSS in refusal.text
    assert broker.vhost.queues == {}
    assert "e" not in broker.vhost.exchanges


def test_without_replies_it_is_told_as_well(peer: Peer, definitions: FakeDefinitions) -> None:
    definitions.loss = LOSS
    peer.send(1, commands.Queue.Declare, queue="q", durable=True, nowait=True)
    assert peer.refusal().code == 506


def test_one_that_relied_on_another_s_declare_is_told_too(
    peer: Peer, broker: SteppedBroker, definitions: FakeDefinitions
) -> None:
    other, bystander = broker.connect(), broker.connect()
    definitions.loss = LOSS
    peer.send(1, commands.Queue.Declare, queue="q", durable=True)
    other.send(1, commands.Queue.Declare, queue="q", durable=True)
    bystander.send(1, commands.Basic.Qos, prefetch_count=5)
    assert peer.refusal().code == 506
    assert other.refusal().code == 506
    assert names(bystander) == ["basic.qos-ok"]


def test_an_error_that_came_behind_the_declare_does_not_hide_the_loss(
    peer: Peer, definitions: FakeDefinitions
) -> None:
    definitions.loss = LOSS
    peer.send(1, commands.Queue.Declare, queue="q", durable=True)
    peer.send_octets(b"no frame at all")
    refusal = peer.refusal()
    assert refusal.code == 506


def test_a_channel_that_closes_in_between_does_not_hide_it_either(
    peer: Peer, definitions: FakeDefinitions
) -> None:
    definitions.loss = LOSS
    peer.send(1, commands.Queue.Declare, queue="q", durable=True)
    peer.send(1, commands.Queue.Declare, queue="missing", passive=True)
    assert peer.refusal().code == 506


def test_a_client_that_says_goodbye_at_once_is_answered_when_it_is_durable(
    peer: Peer, definitions: FakeDefinitions
) -> None:
    burst(peer)
    peer.send(0, commands.Connection.Close, reply_code=200)
    assert peer.transport.written == b""
    assert names(peer) == [*OKS, "connection.close-ok"]
    assert peer.transport.state == "closed"


def test_a_client_that_says_goodbye_at_once_is_not_told_what_is_not_so(
    peer: Peer, broker: SteppedBroker, definitions: FakeDefinitions
) -> None:
    definitions.loss = LOSS
    burst(peer)
    peer.send(0, commands.Connection.Close, reply_code=200)
    broker.run_turns()
    assert peer.transport.written == b""
    assert peer.transport.state == "closed"
    assert broker.vhost.queues == {}


def test_one_that_is_gone_is_no_trouble(
    peer: Peer, broker: SteppedBroker, definitions: FakeDefinitions
) -> None:
    definitions.loss = LOSS
    burst(peer)
    peer.connection.on_transport_lost("")
    broker.run_turns()
    assert broker.vhost.queues == {}


def test_what_went_before_is_not_taken_back(peer: Peer, definitions: FakeDefinitions) -> None:
    burst(peer)
    assert names(peer) == OKS
    definitions.loss = LOSS
    peer.send(1, commands.Basic.Qos, prefetch_count=5)
    assert names(peer) == ["basic.qos-ok"]
