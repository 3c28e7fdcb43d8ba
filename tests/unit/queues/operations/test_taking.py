"""Messages taken for an operator: acquired, and ended in four ways."""

from __future__ import annotations

import pytest

from hareline.broker.operations.taking import AckMode, acknowledge, give_back, take
from hareline.queues.paused import pause
from tests.support.consumers import RecordingConsumer
from tests.support.vhosts import bodies, declare
from tests.unit.queues.operations.test_moving import Stand

DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.mark.parametrize("is_paused", [False, True])
@pytest.mark.parametrize(
    ("mode", "left", "dead", "returns"),
    [
        ("ack_requeue_true", 5, 0, 0),
        ("reject_requeue_true", 5, 0, 1),
        ("ack_requeue_false", 3, 0, 0),
        ("reject_requeue_false", 3, 2, 0),
    ],
)
def test_each_mode(mode: AckMode, left: int, dead: int, returns: int, is_paused: bool) -> None:
    stand = Stand()
    dead_queue = declare(stand.vhost, "dead")
    queue = declare(stand.vhost, "q", arguments=DEAD)
    stand.fill(queue, 5)
    if is_paused:
        pause(queue)
    entries = list(take(queue, 2))
    assert [entry.message.body for entry in entries] == [b"000", b"001"]
    assert queue.unacked_count == 2
    acknowledge(queue, entries, mode)
    assert (queue.ready_count, queue.unacked_count, dead_queue.ready_count) == (left, 0, dead)
    first = queue.lane.ready_entries()[0]
    assert first.returns == returns
    assert (first.delivery_count > 0) == (left == 5)
    if left == 5:
        assert bodies(queue)[:2] == [b"000", b"001"]


def test_octets_bound_what_is_taken_but_one_comes_in_any_case() -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q")
    stand.fill(queue, 5)
    entries = list(take(queue, 5, 7))
    assert len(entries) == 2
    assert queue.ready_count == 3
    acknowledge(queue, entries, "ack_requeue_false")
    assert queue.lane.ready_entries()[0].delivery_count == 0
    assert len(list(take(queue, 5, 0))) == 1


def test_what_is_due_to_consumers_is_theirs_and_an_expired_message_nobodys() -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q", arguments={"x-message-ttl": 50})
    stand.fill(queue, 2)
    pause(queue)
    stand.timers.clock.advance(100)
    assert list(take(queue, 5)) == []
    assert queue.ready_count == 0
    other = declare(stand.vhost, "other")
    consumer = RecordingConsumer(other, acknowledges=False)
    other.add_consumer(consumer)
    stand.fill(other, 1)
    assert list(take(other, 1)) == []
    assert consumer.bodies == [b"000"]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_what_nobody_was_shown_goes_back_as_if_it_had_not_been_taken(is_deleted: bool) -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q")
    stand.fill(queue, 3)
    taking = take(queue, 3)
    taken = [next(taking), next(taking)]
    if is_deleted:
        stand.vhost.delete_queue("q", None)
        assert list(taking) == []
        give_back(queue, taken)
        assert queue.unacked_count == 0
        return
    give_back(queue, taken)
    assert bodies(queue) == [b"000", b"001", b"002"]
    assert queue.unacked_count == 0
    assert not any(entry.delivery_count for entry in queue.lane.ready_entries())
