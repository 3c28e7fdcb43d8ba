"""When positions are written, that a loss is made good, and that they go with their stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from hareline import events
from hareline.errors import StoreError
from hareline.storage.interface import DefinitionStore, ReaderStore, StoredReader
from tests.support.timers import ManualTimers
from tests.support.turns import ManualTurn
from tests.support.vhosts import ME, VhostStand, declare, make_vhost

BROKEN = StoreError("definitions.sqlite: disk I/O error")


class RecordingStore(ReaderStore):
    """``writes``: what each call wrote; ``failure``: what the next one raises."""

    def __init__(self) -> None:
        self.writes: list[dict[str, int | None]] = []
        self.failure: StoreError | None = None
        self.lose: Callable[[StoreError], None] = lambda error: None

    def write_readers(
        self,
        changed: Mapping[tuple[int, str], StoredReader | None],
        on_lost: Callable[[StoreError], None],
    ) -> None:
        if self.failure is not None:
            raise self.failure
        self.writes.append(
            {name: None if each is None else each.offset for (_, name), each in changed.items()}
        )
        self.lose = on_lost


class Definitions(DefinitionStore):
    def __init__(self, store: ReaderStore) -> None:
        super().__init__()
        self._store = store

    @property
    def reader_store(self) -> ReaderStore:
        return self._store


class Stand(VhostStand):
    def __init__(self) -> None:
        self.store = RecordingStore()
        super().__init__(definitions=Definitions(self.store))
        self.readers = self.vhost.readers
        self.stream = self.declare("s", {"x-queue-type": "stream"})

    def put(self, name: str, offset: int) -> None:
        self.readers.put(self.stream, name, offset, is_pinned=False)

    def offsets(self) -> dict[str, int]:
        return {name: each.offset for name, each in self.readers.positions(self.stream).items()}


@pytest.fixture
def stand() -> Stand:
    return Stand()


def test_many_reports_of_a_second_are_one_write(stand: Stand) -> None:
    for offset in range(100):
        stand.put("a", offset)
        stand.put("b", 2 * offset)
    stand.timers.advance(999)
    assert stand.store.writes == []
    stand.timers.advance(1)
    assert stand.store.writes == [{"a": 99, "b": 198}]
    stand.timers.advance(10_000)
    assert len(stand.store.writes) == 1
    stand.put("b", 200)
    stand.timers.advance(1_000)
    assert stand.store.writes[1:] == [{"b": 200}]


def test_the_end_writes_at_once_and_nothing_twice(stand: Stand) -> None:
    stand.put("a", 1)
    stand.readers.write()
    assert stand.store.writes == [{"a": 1}]
    stand.readers.write()
    stand.timers.advance(1_000)
    assert stand.store.writes == [{"a": 1}]


def test_a_reader_that_is_removed_is_deleted_there(stand: Stand) -> None:
    stand.put("a", 1)
    assert stand.readers.remove(stand.stream, "a")
    assert not stand.readers.remove(stand.stream, "a")
    stand.timers.advance(1_000)
    assert stand.store.writes == [{"a": None}]
    assert stand.offsets() == {}


def test_what_could_not_be_written_is_reported_and_written_later(stand: Stand) -> None:
    stand.store.failure = BROKEN
    stand.put("a", 1)
    stand.timers.advance(1_000)
    assert stand.reports == [
        (events.READERS_NOT_WRITTEN, {"vhost": "/", "readers": 1, "problem": str(BROKEN)})
    ]
    stand.put("b", 2)
    stand.store.failure = None
    stand.timers.advance(1_000)
    assert stand.store.writes == [{"b": 2, "a": 1}]


def test_what_was_lost_with_its_turn_is_written_again_as_it_is_now(stand: Stand) -> None:
    stand.put("a", 1)
    stand.put("b", 1)
    stand.timers.advance(1_000)
    stand.put("a", 2)
    stand.store.lose(BROKEN)
    stand.timers.advance(1_000)
    assert stand.store.writes[1:] == [{"a": 2, "b": 1}]


def test_a_stream_that_is_deleted_takes_its_readers_along(stand: Stand) -> None:
    stand.put("a", 1)
    stand.timers.advance(1_000)
    stand.put("a", 2)
    stand.vhost.delete_queue("s", ME)
    stand.store.lose(BROKEN)
    stand.timers.advance(2_000)
    assert stand.store.writes == [{"a": 1}]
    stream = declare(stand.vhost, "s", is_durable=True, arguments={"x-queue-type": "stream"})
    assert stand.readers.positions(stream) == {}


def test_without_a_store_positions_last_as_long_as_the_broker() -> None:
    timers = ManualTimers()
    vhost = make_vhost(ManualTurn(), timers=timers)
    stream = declare(vhost, "s", is_durable=True, arguments={"x-queue-type": "stream"})
    vhost.readers.put(stream, "a", 0, is_pinned=True)
    assert vhost.readers.positions(stream)["a"].is_pinned
    assert timers.pending == []


def test_positions_of_an_earlier_life_are_there_and_pin(stand: Stand) -> None:
    now_ms = stand.timers.clock.now_ms
    stand.readers.restore(stand.stream, [StoredReader(1, "a", 7, True, now_ms - 5)])
    (position,) = stand.readers.positions(stand.stream).values()
    assert (position.offset, position.put_ms) == (7, now_ms - 5)
    assert stand.readers.is_pinned(stand.stream, position)
    stand.timers.advance(1_000)
    assert stand.store.writes == []
