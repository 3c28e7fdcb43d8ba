"""Queues without consumers: deleted later, or emptied, by their arguments and policies."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hareline.broker.live_arguments import LiveArguments
from hareline.errors import PreconditionFailed
from hareline.queues.policies.lease import EMPTY_CHECK_S
from hareline.wire.methods import commands
from hareline.wire.table import Table
from tests.support.stores import FakeDefinitions, FakeStore

from .peer import Peer, SteppedBroker

BASIC = commands.Basic
DELAY_S = 5
DELAYED = Table({"x-auto-delete-delay": DELAY_S * 1000})
PURGING = Table({"x-purge-on-no-consumers": True})


@pytest.fixture
def broker() -> SteppedBroker:
    return SteppedBroker(store=FakeStore(), definitions=FakeDefinitions())


@pytest.fixture
def peer(broker: SteppedBroker) -> Peer:
    return broker.connect()


def live(broker: SteppedBroker) -> LiveArguments:
    return broker.vhost.live_arguments


def use_once(peer: Peer, queue: str) -> None:
    peer.subscribe(queue, "once")
    peer.call(1, BASIC.Cancel, consumer_tag="once")


def restarted(broker: SteppedBroker, arguments: Mapping[str, object]) -> SteppedBroker:
    """Another broker with the queue "q", as recovery makes it."""
    definitions = FakeDefinitions()
    definitions.queues["q"] = 1
    after = SteppedBroker(store=FakeStore(), definitions=definitions)
    after.vhost.restore_queue(1, "q", is_auto_delete=True, arguments=arguments)
    return after


def test_a_queue_goes_so_long_after_its_last_consumer(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q", auto_delete=True, durable=True, arguments=DELAYED)
    broker.advance(2 * DELAY_S)  # it has had no consumer yet
    use_once(peer, "q")
    broker.advance(DELAY_S - 1)
    peer.subscribe("q", "again")
    broker.advance(2 * DELAY_S)
    peer.call(1, BASIC.Cancel, consumer_tag="again")
    peer.fill("q", b"m")  # keeps it no more than it keeps a plain auto-delete queue
    broker.advance(DELAY_S - 0.001)
    assert broker.queue("q").ready_count == 1
    broker.advance(0.001)
    assert "q" not in broker.vhost.queues
    assert broker.timers == []


def test_a_deleted_queue_leaves_no_timer_behind(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q", auto_delete=True, arguments=DELAYED)
    use_once(peer, "q")
    peer.call(1, commands.Queue.Delete, queue="q")
    peer.declare("q")
    broker.advance(2 * DELAY_S)
    assert "q" in broker.vhost.queues


def test_with_more_messages_than_the_count_it_stays_until_they_are_gone(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q", auto_delete=True, arguments=Table({"x-auto-delete-message-count": 1}))
    use_once(peer, "q")
    assert "q" not in broker.vhost.queues  # at once, as without a delay
    peer.declare("q", auto_delete=True, arguments=Table({"x-auto-delete-message-count": 1}))
    peer.fill("q", b"1", b"2")
    peer.send(1, BASIC.Consume, queue="q", consumer_tag="c")
    first, second = (each.method.delivery_tag for each in peer.receive()[1:])
    peer.call(1, BASIC.Cancel, consumer_tag="c")
    broker.advance(EMPTY_CHECK_S)
    assert broker.queue("q").unacked_count == 2
    peer.send(1, BASIC.Nack, delivery_tag=second, requeue=True)
    peer.send(1, BASIC.Ack, delivery_tag=first)
    broker.advance(EMPTY_CHECK_S)
    assert "q" not in broker.vhost.queues


def test_rules_change_while_the_time_runs(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q", auto_delete=True, arguments=DELAYED)
    use_once(peer, "q")
    live(broker).change(broker.queue("q"), {"x-auto-delete-delay": 2 * DELAY_S * 1000})
    broker.advance(DELAY_S)
    assert "q" in broker.vhost.queues
    live(broker).change(broker.queue("q"), {"x-auto-delete-delay": None})
    assert "q" in broker.vhost.queues  # the change is still to be answered
    broker.advance(0)
    assert "q" not in broker.vhost.queues


def test_after_a_restart_the_delay_begins_again(broker: SteppedBroker, peer: Peer) -> None:
    after = restarted(broker, DELAYED)
    queue = after.queue("q")
    assert queue.unused is not None
    queue.unused.on_restored(queue)
    after.advance(DELAY_S)
    assert "q" not in after.vhost.queues


def test_the_rules_are_refused_for_a_queue_that_never_deletes_itself(
    broker: SteppedBroker, peer: Peer
) -> None:
    text = (
        "invalid arg 'x-auto-delete-delay' for queue 'q' in vhost '/': the queue is not auto-delete"
    )
    assert peer.refused(1, commands.Queue.Declare, queue="q", arguments=DELAYED) == (
        406,
        f"PRECONDITION_FAILED - {text}",
    )
    peer.open(1)
    peer.declare("q")
    with pytest.raises(PreconditionFailed) as refused:
        live(broker).change(broker.queue("q"), {"x-auto-delete-delay": 1})
    assert refused.value.explanation == text
    live(broker).overlay = lambda _queue, own: {**own, "x-auto-delete-delay": 1}  # a policy
    live(broker).refresh(broker.queue("q"))
    use_once(peer, "q")
    broker.advance(1)
    assert "q" in broker.vhost.queues


def test_nothing_is_kept_while_there_are_no_consumers(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q", durable=True, arguments=PURGING)
    peer.call(1, commands.Confirm.Select)
    peer.publish(1, "q", b"before", mandatory=True)
    assert [each.name for each in peer.receive()] == ["basic.ack"]
    queue = broker.queue("q")
    assert queue.ready_count == 0
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.subscribe("q", "c")
    peer.fill("q", b"1", b"2")
    assert b"1" in [each.body for each in peer.receive()]
    assert (queue.ready_count, queue.unacked_count) == (1, 1)
    peer.call(1, BASIC.Cancel, consumer_tag="c")
    assert (queue.ready_count, queue.unacked_count) == (0, 1)
    peer.lose()  # what the client held comes back to a queue without consumers
    assert (queue.ready_count, queue.ready_bytes, queue.unacked_count) == (0, 0, 0)


def test_what_is_dropped_is_neither_dead_lettered_nor_archived(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("dead")
    peer.declare("kept", durable=True, arguments=Table({"x-queue-type": "stream"}))
    further = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    arguments = Table({**PURGING, **further, "x-archive-to": "kept"})
    peer.declare("q", arguments=arguments)
    peer.fill("q", b"1")
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.subscribe("q", "c")
    peer.fill("q", b"2", b"3")
    peer.lose()
    broker.run_turns()
    assert broker.queue("dead").ready_count == 0
    assert broker.queue("kept").next_offset == 2


def test_a_live_change_drops_from_then_on(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1")
    queue = broker.queue("q")
    live(broker).change(queue, {"x-purge-on-no-consumers": True})
    peer.fill("q", b"2")
    assert queue.ready_count == 1  # what was there is there until the last consumer leaves
    live(broker).change(queue, {"x-purge-on-no-consumers": None})
    peer.fill("q", b"3")
    assert (queue.ready_count, queue.needs_admission) == (2, False)


def test_rules_go_together(broker: SteppedBroker, peer: Peer) -> None:
    further = {"x-auto-delete-message-count": 0, "x-max-length": 1, "x-message-ttl": 1000}
    peer.declare("q", auto_delete=True, arguments=Table({**PURGING, **further}))
    peer.subscribe("q", "c")
    peer.call(1, commands.Channel.Flow, active=False)
    peer.fill("q", b"1", b"2")
    assert broker.queue("q").ready_count == 1
    peer.send(1, BASIC.Cancel, consumer_tag="c")
    peer.receive()
    assert "q" not in broker.vhost.queues  # it was emptied first
