"""What a queue does to a new message, by the parts that it has."""

from __future__ import annotations

import pytest

from hareline.errors import StoreError
from hareline.message import ContentSource, StoredMessage, Table
from hareline.queues.admission import showing_count
from hareline.queues.core.entry import HELD, READY, QueueEntry, RankedEntry
from hareline.queues.core.kinds import DISCARDED, REFUSED, TAKEN
from hareline.queues.declare.table import OverflowPolicy
from hareline.queues.policies.overflow import Overflow
from tests.support.messages import make_message
from tests.support.timed_queue import TimedQueue


def limit(place: TimedQueue, policy: OverflowPolicy) -> None:
    overflow = Overflow(
        place.queue, place.environment, max_length=1, max_length_bytes=None, policy=policy
    )
    place.queue.install(overflow=overflow)


def test_a_queue_that_needs_no_admission_puts_a_message_as_it_enqueues_it(
    place: TimedQueue,
) -> None:
    assert place.queue.put(make_message(b"m"))
    (entry,) = place.queue.acquire(1)
    assert type(entry) is QueueEntry
    assert place.queue.expiry is None


def test_the_first_message_that_can_expire_makes_the_queue_look_at_times(
    place: TimedQueue,
) -> None:
    message = make_message(b"m").expiring_at(place.clock.now_ms + 10)
    assert place.queue.put(message)
    assert place.queue.expiry is not None
    place.pass_time(20)
    assert place.queue.ready_count == 0
    assert place.deaths.reasons == ["expired"]


def test_in_a_timeless_queue_nothing_expires(place: TimedQueue) -> None:
    place.queue.is_timeless = True
    assert place.queue.put(make_message(b"m").expiring_at(place.clock.now_ms + 10))
    place.pass_time(20)
    assert (place.queue.expiry, place.queue.ready_count) == (None, 1)


@pytest.mark.parametrize(
    ("policy", "outcome", "left"),
    [
        ("reject-publish", REFUSED, [b"one"]),
        ("discard", DISCARDED, [b"one"]),
        ("drop-head", TAKEN, [b"two"]),
    ],
)
def test_a_full_queue_answers_by_its_policy(
    place: TimedQueue, policy: OverflowPolicy, outcome: int, left: list[bytes]
) -> None:
    limit(place, policy)
    assert place.queue.put(make_message(b"one")) == TAKEN
    assert place.queue.put(make_message(b"two")) == outcome
    assert [entry.message.body for entry in place.queue.acquire(9)] == left


def test_what_is_not_valid_yet_is_held_and_takes_its_place_later(place: TimedQueue) -> None:
    place.hold()
    soon = make_message(b"held", headers=Table({"x-delay": 1000}))
    soon.arrival_ms = place.clock.now_ms
    assert place.queue.put(soon)
    assert place.queue.put(make_message(b"ready"))
    assert (place.queue.held_count, place.queue.ready_count) == (1, 1)
    place.pass_time(2000)
    entries = place.queue.acquire(9)
    assert [entry.message.body for entry in entries] == [b"held", b"ready"]
    assert HELD not in {entry.state for entry in entries}


def test_a_revived_entry_counts_its_time_from_its_arrival_and_shows_its_returns(
    place: TimedQueue,
) -> None:
    queue = place.queue
    queue.shows_delivery_count = True
    old = make_message(b"old").expiring_at(place.clock.now_ms + 1000)
    entry = queue.revive(7, 2, old)
    assert (type(entry), entry.state, entry.offset, queue.next_offset) == (RankedEntry, READY, 7, 8)
    assert entry.message.header("x-delivery-count") == 2
    place.pass_time(2000)
    assert queue.ready_count == 0


class BrokenDisk(ContentSource):
    def content(self, position: int) -> bytes:
        raise StoreError(f"nothing to read at {position}")

    def drop_spooled(self, position: int) -> None:
        raise AssertionError


def test_a_message_that_cannot_be_read_is_left_as_it_is() -> None:
    stored = StoredMessage(make_message(b"m"), BrokenDisk(), 5)
    assert showing_count(stored, 3) is stored
