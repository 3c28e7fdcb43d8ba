"""A stream as readers of ranges see it: what is durable, what is there, and when that changes."""

from __future__ import annotations

import re
from typing import Any

from hareline.broker.stream_queue import Stream, stream_of
from tests.support.messages import ARRIVAL_MS, make_message
from tests.support.stores import FakeDefinitions, FakeStore
from tests.support.vhosts import VhostStand

STREAM = {"x-queue-type": "stream"}


class Stand(VhostStand):
    """``stream`` is queue ``q`` of a virtual host; ``store`` None keeps nothing."""

    def __init__(self, store: FakeStore | None, **arguments: object) -> None:
        super().__init__(store, FakeDefinitions())
        self.queue = self.declare("q", {**STREAM, **arguments})
        stream = stream_of(self.queue)
        assert stream is not None
        self.stream: Stream = stream
        self.calls: list[int] = []

    def fill(self, count: int, **properties: Any) -> None:
        for _ in range(count):
            message = make_message(b"body", **properties)
            message.arrival_ms = ARRIVAL_MS + self.queue.next_offset
            assert self.queue.put(message)
        self.turn.run()

    def watch(self) -> None:
        self.stream.when_moved(lambda: self.calls.append(self.stream.next))

    def first_arrival_ms(self) -> int | None:
        return self.stream.first_arrival_ms

    def waits(self) -> bool:
        return self.stream.waits_for_disk

    def ends(self) -> tuple[int, int]:
        return self.stream.first, self.stream.next


def durable() -> tuple[Stand, FakeStore]:
    store = FakeStore()
    return Stand(store), store


def test_what_is_not_durable_is_beyond_the_end() -> None:
    stand, store = durable()
    assert stand.ends() == (0, 0)
    stand.fill(3)
    assert stand.ends() == (0, 0)
    assert stand.waits()
    store.sync_all()
    assert stand.ends() == (0, 3)
    assert not stand.waits()
    assert stand.stream.size_bytes == 12
    assert stand.stream.is_journaled


def test_without_a_store_all_that_is_there_counts() -> None:
    stand = Stand(None)
    stand.fill(3)
    assert stand.ends() == (0, 3)
    assert not stand.stream.is_journaled
    assert [entry.offset for entry in stand.stream.entries(1, 9)] == [1, 2]


def test_an_emptied_stream_begins_where_it_ends() -> None:
    stand, store = durable()
    stand.fill(3)
    store.sync_all()
    assert stand.first_arrival_ms() == ARRIVAL_MS
    stand.queue.purge()
    assert stand.ends() == (3, 3)
    assert stand.first_arrival_ms() is None
    stand.fill(1)
    assert stand.ends() == (3, 3)
    store.sync_all()
    assert stand.ends() == (3, 4)


def test_the_beginning_is_never_beyond_the_end() -> None:
    """Retention may drop what is durable while what stays is not."""
    stand = Stand(FakeStore(), **{"x-max-length-bytes": 4})
    stand.fill(3)
    assert stand.ends() == (0, 0)
    assert stand.queue.ready_count == 1


def test_an_instant_leads_to_an_offset_and_to_the_end_at_most() -> None:
    stand, store = durable()
    stand.fill(3)
    store.sync_all()
    stand.fill(2)
    found = [stand.stream.offset_since(ARRIVAL_MS + after) for after in (-5, 0, 2, 3, 99)]
    assert found == [0, 0, 2, 3, 3]


def test_each_declaration_is_another_incarnation() -> None:
    stand, _ = durable()
    first = stand.stream.incarnation
    assert re.fullmatch("[0-9a-f]{16}", first)
    assert stand.declare("q", STREAM) is stand.queue
    stand.vhost.delete_queue("q", None)
    again = stream_of(stand.declare("q", STREAM))
    assert again is not None
    assert again.incarnation != first


def test_only_streams_are_streams() -> None:
    stand, _ = durable()
    assert stream_of(stand.declare("classic")) is None
    assert stream_of(stand.declare("log", {"x-non-destructive": True})) is None
    stand.vhost.delete_queue("q", None)
    assert stream_of(stand.queue) is None


def test_messages_with_an_expiration_leave_no_hole() -> None:
    stand, store = durable()
    stand.fill(1)
    stand.fill(1, expiration="1")
    stand.fill(1)
    store.sync_all()
    stand.vhost.environment.clock.now_ms += 60_000
    stand.fill(1)
    store.sync_all()
    assert list(stand.stream.positions(0, 9)[0]) == [0, 1, 2, 3]


# ------------------------------------------------------------------- when it moves


def test_who_waits_is_called_once_when_messages_are_durable() -> None:
    stand, store = durable()
    stand.watch()
    stand.turn.run()
    assert stand.calls == []
    stand.fill(2)
    assert stand.calls == []
    store.sync_all()
    assert stand.calls == [2]
    stand.fill(1)
    store.sync_all()
    assert stand.calls == [2]


def test_who_waits_while_messages_are_on_their_way_is_called_with_them() -> None:
    stand, store = durable()
    stand.fill(2)
    stand.watch()
    store.sync_all()
    assert stand.calls == [2]


def test_a_turn_without_messages_wakes_nobody() -> None:
    stand, store = durable()
    stand.watch()
    stand.queue.mark()
    stand.turn.run()
    assert stand.calls == []
    assert store.waiting == []
    stand.fill(1)
    store.sync_all()
    assert stand.calls == [1]


def test_without_a_store_the_end_of_the_turn_calls() -> None:
    stand = Stand(None)
    stand.watch()
    stand.fill(2)
    assert stand.calls == [2]


def test_who_no_longer_waits_is_not_called() -> None:
    stand = Stand(None)
    stand.stream.when_moved(lambda: stand.calls.append(1))()
    stand.fill(2)
    assert stand.calls == []


def test_the_end_of_the_queue_calls() -> None:
    stand, _ = durable()
    stand.stream.when_moved(lambda: stand.calls.append(-1))
    stand.vhost.delete_queue("q", None)
    assert stand.calls == [-1]


def test_with_a_store_that_has_failed_nothing_moves_and_nobody_is_called_for_it() -> None:
    stand, store = durable()
    stand.fill(1)
    store.fail("no disk")
    stand.watch()
    stand.fill(1)
    assert stand.calls == []
    assert store.waiting == []
