"""basic.recover without requeue: the same consumers, the order of delivery, before all else."""

from __future__ import annotations

from pathlib import Path

import pytest

from hareline.amqp.settling import ENTRIES_PER_TURN
from hareline.wire.methods import Frame, commands
from hareline.wire.properties import Properties
from hareline.wire.table import Table

from .large import BODY, LargeBroker
from .peer import Peer, SteppedBroker

BASIC, CHANNEL, QUEUE, TX = commands.Basic, commands.Channel, commands.Queue, commands.Tx
Delivery = tuple[str, int, bytes, bool]


@pytest.fixture
def qpid(broker: SteppedBroker) -> Peer:
    peer = broker.connect(qpid="client-1", channels=(1, 2))
    peer.declare("q")
    return peer


def deliveries(peer: Peer) -> list[Delivery]:
    """Consumer tag, delivery tag, body and redelivered flag of all that came, and nothing else."""
    received = peer.receive()
    assert all(one.name == "basic.deliver" for one in received), received
    return [
        (one.method.consumer_tag, one.method.delivery_tag, one.body, one.method.redelivered)
        for one in received
    ]


def recover(peer: Peer, number: int = 1) -> list[Delivery]:
    """What comes after recover-ok."""
    peer.send(number, BASIC.Recover, requeue=False)
    received = peer.receive()
    assert received[0].name == "basic.recover-ok"
    return [
        (one.method.consumer_tag, one.method.delivery_tag, one.body, one.method.redelivered)
        for one in received[1:]
    ]


def prioritised(peer: Peer, queue: str, body: bytes, priority: int) -> None:
    properties = Properties(priority=priority, headers=Table({"key": f"{9 - priority}"}))
    peer.publish(1, queue, body, properties=properties)


@pytest.mark.parametrize("arguments", [{"x-max-priority": 9}, {"x-sort-key": "key"}])
def test_the_oldest_delivery_comes_first_whatever_the_queue_has_before_it(
    qpid: Peer, arguments: dict[str, object]
) -> None:
    qpid.declare("p", arguments=arguments)
    qpid.call(1, BASIC.Qos, prefetch_count=2)
    qpid.subscribe("p", "t")
    prioritised(qpid, "p", b"low", 1)
    prioritised(qpid, "p", b"middle", 5)
    assert [body for _, _, body, _ in deliveries(qpid)] == [b"middle", b"low"]
    prioritised(qpid, "p", b"high", 9)
    assert recover(qpid) == [("t", 3, b"middle", True), ("t", 4, b"low", True)]
    qpid.ack(3)
    assert deliveries(qpid) == [("t", 5, b"high", False)]
    assert recover(qpid) == [("t", 6, b"low", True), ("t", 7, b"high", True)]


def test_each_consumer_gets_its_own_again(qpid: Peer) -> None:
    qpid.declare("p")
    for queue, tag in (("q", "1"), ("p", "2"), ("q", "3")):
        qpid.subscribe(queue, tag)
    for queue, body in (("q", b"a"), ("p", b"b"), ("q", b"c"), ("p", b"d")):
        qpid.publish(1, queue, body)
        qpid.broker.run_turns()
    first = deliveries(qpid)
    assert [body for _, _, body, _ in first] == [b"a", b"b", b"c", b"d"]
    again = recover(qpid)
    assert again == [(tag, number + 4, body, True) for tag, number, body, _ in first]


def test_a_stopped_channel_gets_nothing_until_it_flows_and_then_the_oldest_first(
    broker: SteppedBroker, qpid: Peer
) -> None:
    qpid.declare("p", arguments={"x-max-priority": 9})
    qpid.subscribe("p", "t")
    prioritised(qpid, "p", b"low", 1)
    assert len(deliveries(qpid)) == 1
    qpid.call(1, CHANNEL.Flow, active=False)
    prioritised(qpid, "p", b"high", 9)
    assert recover(qpid) == []
    assert (broker.queue("p").ready_count, broker.queue("p").unacked_count) == (1, 1)
    assert recover(qpid) == []  # once more, while nothing was sent again
    qpid.send(1, CHANNEL.Flow, active=True)
    received = qpid.receive()
    assert [one.name for one in received] == ["channel.flow-ok", "basic.deliver", "basic.deliver"]
    assert [one.body for one in received[1:]] == [b"low", b"high"]


def test_what_the_client_gives_back_before_is_not_sent_again(qpid: Peer) -> None:
    """Qpid's client rejects what it had prefetched and not handed on, and then recovers."""
    qpid.subscribe("q", "t")
    qpid.fill("q", b"1", b"2", b"3")
    assert len(deliveries(qpid)) == 3
    qpid.call(1, CHANNEL.Flow, active=False)
    for tag in (2, 3):
        qpid.send(1, BASIC.Reject, delivery_tag=tag, requeue=True)
    assert recover(qpid) == []
    qpid.send(1, CHANNEL.Flow, active=True)
    assert [one.body for one in qpid.receive()[1:]] == [b"1", b"2", b"3"]


def test_the_limit_stays_used_up(qpid: Peer) -> None:
    qpid.call(1, BASIC.Qos, prefetch_count=2)
    qpid.subscribe("q", "t")
    qpid.fill("q", b"1", b"2", b"3")
    assert len(deliveries(qpid)) == 2
    for _ in range(3):
        assert [body for _, _, body, _ in recover(qpid)] == [b"1", b"2"]
    qpid.call(1, CHANNEL.Flow, active=False)
    assert recover(qpid) == []
    qpid.call(1, BASIC.Qos, prefetch_count=0)
    qpid.call(1, BASIC.Qos, prefetch_count=2)  # set anew, it counts what waits to be sent again
    qpid.send(1, CHANNEL.Flow, active=True)
    assert [one.body for one in qpid.receive()[1:]] == [b"1", b"2"]
    qpid.ack(9)
    assert [body for _, _, body, _ in deliveries(qpid)] == [b"3"]


def test_what_nobody_can_be_sent_again_goes_back_to_its_queue(
    broker: SteppedBroker, qpid: Peer, peer: Peer
) -> None:
    qpid.subscribe("q", "gone")
    qpid.fill("q", b"1", b"2")
    assert len(deliveries(qpid)) == 2
    qpid.call(1, BASIC.Cancel, consumer_tag="gone")
    qpid.fill("q", b"3")
    assert qpid.get("q") is not None
    assert recover(qpid) == []
    assert (broker.queue("q").ready_count, broker.queue("q").unacked_count) == (3, 0)
    peer.consume("q", "other")
    assert [(one.body, one.method.redelivered) for one in peer.receive()[1:]] == [
        (b"1", True),
        (b"2", True),
        (b"3", True),
    ]


def test_a_consumer_that_is_cancelled_before_it_is_sent_again_loses_it(
    broker: SteppedBroker, qpid: Peer, peer: Peer
) -> None:
    qpid.subscribe("q", "t")
    qpid.fill("q", b"1")
    assert len(deliveries(qpid)) == 1
    qpid.call(1, CHANNEL.Flow, active=False)
    recover(qpid)
    qpid.call(1, BASIC.Cancel, consumer_tag="t")
    peer.subscribe("q", "other")
    qpid.call(1, CHANNEL.Flow, active=True)
    assert [body for _, _, body, _ in deliveries(peer)] == [b"1"]


def test_a_channel_that_ends_gives_back_what_was_not_sent_again(
    broker: SteppedBroker, qpid: Peer, peer: Peer
) -> None:
    qpid.subscribe("q", "t", number=2)
    qpid.fill("q", b"1", b"2")
    assert len(deliveries(qpid)) == 2
    qpid.call(2, CHANNEL.Flow, active=False)
    recover(qpid, 2)
    qpid.call(2, CHANNEL.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    assert broker.queue("q").unacked_count == 0
    assert peer.drain("q") == [b"1", b"2"]


def test_a_rollback_gives_back_what_was_not_sent_again(broker: SteppedBroker, qpid: Peer) -> None:
    qpid.fill("q", b"1")
    qpid.call(1, TX.Select)
    qpid.consume("q", "t")
    assert len(qpid.receive()) == 2
    qpid.call(1, CHANNEL.Flow, active=False)
    recover(qpid)
    qpid.call(1, TX.Rollback)
    assert (broker.queue("q").ready_count, broker.queue("q").unacked_count) == (1, 0)
    qpid.send(1, CHANNEL.Flow, active=True)
    assert [one.name for one in qpid.receive()] == ["channel.flow-ok", "basic.deliver"]


def test_what_a_transaction_has_acknowledged_is_not_sent_again(qpid: Peer) -> None:
    qpid.fill("q", b"1", b"2")
    qpid.call(1, TX.Select)
    qpid.consume("q", "t")
    assert len(qpid.receive()) == 3
    qpid.ack(1)
    assert recover(qpid) == [("t", 3, b"2", True)]
    qpid.call(1, TX.Commit)
    qpid.expect_nothing()


def test_it_counts_for_no_delivery_limit(broker: SteppedBroker, qpid: Peer) -> None:
    qpid.declare("limited", arguments={"x-delivery-limit": 1})
    qpid.subscribe("limited", "t")
    qpid.fill("limited", b"1")
    assert len(deliveries(qpid)) == 1
    for _ in range(5):
        assert [body for _, _, body, _ in recover(qpid)] == [b"1"]
    assert broker.queue("limited").unacked_count == 1


def test_readers_of_a_queue_that_keeps_all_are_not_sent_anything_again(qpid: Peer) -> None:
    qpid.declare("log", durable=True, arguments={"x-queue-type": "stream"})
    qpid.call(1, BASIC.Qos, prefetch_count=2)
    qpid.subscribe("log", "t", arguments={"x-stream-offset": "first"})
    qpid.fill("log", b"1", b"2", b"3")
    assert len(deliveries(qpid)) == 2
    assert [body for _, _, body, _ in recover(qpid)] == [b"3"]


def test_many_are_sent_in_shares_of_turns_and_nothing_comes_in_between(
    broker: SteppedBroker, qpid: Peer, peer: Peer
) -> None:
    count = 3 * ENTRIES_PER_TURN + 7
    bodies = [b"%d" % number for number in range(count)]
    qpid.subscribe("q", "t")
    qpid.fill("q", *bodies)
    assert len(deliveries(qpid)) == count
    qpid.transport.writes = 0
    qpid.send(1, BASIC.Recover, requeue=False)
    qpid.publish(1, "q", b"new")
    peer.call(1, QUEUE.Declare, queue="q", passive=True)  # others are served meanwhile
    received = qpid.receive()
    assert [one.body for one in received[1:]] == [*bodies, b"new"]
    assert qpid.transport.writes >= 4


def test_a_full_socket_puts_the_rest_off(broker: SteppedBroker, qpid: Peer) -> None:
    qpid.subscribe("q", "t")
    qpid.fill("q", b"1", b"2")
    assert len(deliveries(qpid)) == 2
    qpid.connection.on_socket_full()
    assert recover(qpid) == []
    qpid.connection.on_socket_drained()
    assert [body for _, _, body, _ in deliveries(qpid)] == [b"1", b"2"]


def test_large_contents_go_out_again_one_after_the_other(tmp_path: Path) -> None:
    broker = LargeBroker(tmp_path / "large")
    qpid = broker.connect(qpid="client-1")
    qpid.declare("q")
    qpid.subscribe("q", "t")
    bodies = [b"1" + BODY, b"2", b"3" + BODY]
    qpid.fill("q", *bodies)
    assert [body for _, _, body, _ in deliveries(qpid)] == bodies
    assert recover(qpid) == [("t", number, body, True) for number, body in enumerate(bodies, 4)]


def test_with_requeue_everything_goes_back_to_its_place(qpid: Peer) -> None:
    qpid.declare("p", arguments={"x-max-priority": 9})
    qpid.call(1, BASIC.Qos, prefetch_count=1)
    qpid.subscribe("p", "t")
    prioritised(qpid, "p", b"low", 1)
    assert len(deliveries(qpid)) == 1
    prioritised(qpid, "p", b"high", 9)
    qpid.send(1, BASIC.Recover, requeue=True)
    assert [one.body for one in qpid.receive()[1:]] == [b"high"]


@pytest.mark.parametrize("method", [BASIC.Recover, BASIC.RecoverAsync])
def test_what_only_goes_back_leaves_room_for_other_deliveries(method: type[Frame]) -> None:
    broker = SteppedBroker()
    peer = broker.connect(qpid="c1", channels=(1, 2))
    peer.declare("q")
    peer.declare("other")
    peer.subscribe("q", "gone")
    peer.fill("q", *[b"x"] * (3 * ENTRIES_PER_TURN))
    peer.receive()
    peer.call(1, BASIC.Cancel, consumer_tag="gone")
    peer.subscribe("other", "stays")
    peer.send(1, method, requeue=False)
    peer.receive()
    assert broker.queue("q").ready_count == 3 * ENTRIES_PER_TURN
    broker.connect().publish(1, "other", b"new")
    assert peer.bodies() == [b"new"]


def test_recovers_that_wait_for_room_wait_once() -> None:
    broker = SteppedBroker()
    peer = broker.connect(qpid="c1", channels=(1,))
    peer.declare("q")
    peer.subscribe("q", "t")
    peer.fill("q", b"1", b"2")
    assert peer.bodies() == [b"1", b"2"]
    peer.connection.on_socket_full()
    for _ in range(100):
        peer.send(1, BASIC.RecoverAsync, requeue=False)
    assert len(peer.connection.output._waiters) <= 2
    peer.connection.on_socket_drained()
    assert peer.bodies() == [b"1", b"2"]
