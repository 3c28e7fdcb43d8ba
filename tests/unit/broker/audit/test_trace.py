"""The events of one queue, and which of its messages are in the sample."""

from __future__ import annotations

import pytest

from hareline.broker.audit.trace import QueueTrace
from tests.support.audits import AuditStand
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message

TENTH = 0.1


def sample(stand: AuditStand, queue: str, count: int) -> list[int]:
    """Offsets below ``count`` that are recorded."""
    trace = QueueTrace(stand.log.recorder, queue)
    return [offset for offset in range(count) if trace.takes(offset)]


@pytest.mark.parametrize("share", [0.01, TENTH, 0.5])
@pytest.mark.parametrize("queue", ["q", "orders", "another name"])
def test_a_sample_has_its_share_of_each_queue(share: float, queue: str) -> None:
    taken = sample(AuditStand(share=share), queue, 100_000)
    assert 0.98 * share < len(taken) / 100_000 < 1.02 * share
    for period in (2, 7, 10):
        of_first = sum(offset % period == 0 for offset in taken)
        assert 0.8 < of_first * period / len(taken) < 1.2


def test_a_sample_is_the_same_after_a_restart_and_another_in_another_queue() -> None:
    first = sample(AuditStand(share=TENTH), "q", 1_000)
    assert sample(AuditStand(share=TENTH), "q", 1_000) == first
    assert sample(AuditStand(share=TENTH), "p", 1_000) != first


def test_a_sampled_message_has_all_of_its_events() -> None:
    stand = AuditStand(share=TENTH)
    queue = stand.queue()
    consumer = RecordingConsumer(queue, prefetch_count=500)
    queue.add_consumer(consumer)
    stand.put(queue, *[b"x"] * 400)
    stand.turn.run()
    for number, entry in enumerate(list(consumer.unacked)):
        if number % 2:
            queue.settle(entry)
        else:
            queue.reject([entry])
    by_offset: dict[int, list[str]] = {}
    for each in stand.events():
        by_offset.setdefault(each["offset"], []).append(each["event"])
    assert sorted(by_offset) == sample(AuditStand(share=TENTH), "q", 400)
    for offset, words in by_offset.items():
        assert words == ["routed", "acked" if offset % 2 else "rejected"]


def test_a_larger_sample_has_the_smaller_one_in_it() -> None:
    few = sample(AuditStand(share=0.01), "q", 5_000)
    assert set(few) < set(sample(AuditStand(share=TENTH), "q", 5_000))


def test_a_share_too_small_to_count_takes_a_message_now_and_then() -> None:
    assert QueueTrace(AuditStand(share=1e-12).log.recorder, "q").limit == 1


def test_many_that_leave_at_once_are_told_whatever_the_sample() -> None:
    stand = AuditStand(share=0.000001)
    queue = stand.queue()
    stand.put(queue, b"1", b"2")
    queue.purge()
    assert [each["count"] for each in stand.events()] == [2]


def test_names_are_escaped() -> None:
    stand = AuditStand()
    name = 'a"\\\n\u20ac\U0001f600'
    QueueTrace(stand.log.recorder, name).routed(0, make_message(routing_key=name))
    (event,) = stand.events()
    assert event["queue"] == event["routing_key"] == name
