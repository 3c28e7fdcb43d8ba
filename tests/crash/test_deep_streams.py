"""Streams that stand in pages, over a real journal: restarts, power loss, and their offsets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hareline.message import UNWRITTEN
from hareline.queues.core.start_position import FIRST, STREAM_OFFSET, StartPosition
from hareline.queues.orders.log_order import LogOrder
from hareline.queues.queue import Queue
from hareline.storage.definitions.sqlite import SqliteDefinitions
from hareline.storage.store.content_store import JournalContentStore
from tests.crash.forgetful_files import ForgetfulFiles
from tests.crash.machine import Machine, Options
from tests.crash.small_windows import use_small_windows
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message

COUNT = 300
STREAM = {"x_queue_type": "stream"}
READ_ONLY = {"x_non_destructive": True}


class Lives:
    """One broker after another on the same disk."""

    def __init__(self, definitions: SqliteDefinitions, **arguments: Any) -> None:
        self.files = ForgetfulFiles()
        self._definitions = definitions
        self._now_ms = 1_700_000_000_000
        self.machine = self._start()
        self.machine.declare("q", **arguments)

    def _start(self) -> Machine:
        return Machine(self.files, self._definitions, Options(segment_bytes=8192), self._now_ms)

    @property
    def queue(self) -> Queue:
        return self.machine.vhost.queues["q"]

    @property
    def log(self) -> LogOrder:
        order = self.queue.order
        assert isinstance(order, LogOrder)
        return order

    @property
    def offsets(self) -> list[int]:
        return list(self.log.positions(0, 1 << 40)[0])

    def publish(self, count: int, ttl_ms: int = 0) -> None:
        """One message a second; bodies are the offsets."""
        for _ in range(count):
            message = make_message(b"%d" % self.queue.next_offset)
            message.position = UNWRITTEN
            message.arrival_ms = self.machine.timers.clock.now_ms
            if ttl_ms:
                message = message.expiring_at(message.arrival_ms + ttl_ms)
            assert self.queue.put(message)
            self.machine.timers.advance(1000)
            if self.queue.next_offset % 10 == 0:
                self.machine.settle_down()
        self.machine.settle_down()

    def read(self, start: StartPosition) -> list[tuple[int, bytes]]:
        """What a new reader gets: by header and body."""
        reader = RecordingConsumer(self.queue)
        reader.start_position = start
        self.queue.add_consumer(reader)
        self.machine.settle_down()
        self.queue.remove_consumer(reader)
        shown = [entry.message for batch in reader.batches for entry in batch]
        reader.ack()
        found = []
        for message in shown:
            offset = message.header(STREAM_OFFSET)
            assert isinstance(offset, int)
            found.append((offset, message.body))
        return found

    def restart(self) -> None:
        self._now_ms = self.machine.timers.clock.now_ms
        self.machine.stop()
        self.machine = self._start()

    def lose_power(self, keep: Random | None = None) -> None:
        self._now_ms = self.machine.timers.clock.now_ms
        self.files.crash(keep)
        self.machine = self._start()


@pytest.fixture
def definitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteDefinitions]:
    use_small_windows(monkeypatch)
    made = SqliteDefinitions(tmp_path / "definitions.sqlite")
    yield made
    made.close()


def rows(*offsets: int) -> list[tuple[int, bytes]]:
    return [(offset, b"%d" % offset) for offset in offsets]


@pytest.mark.row("A15", "A17")
@pytest.mark.parametrize("arguments", [STREAM, READ_ONLY], ids=["stream", "non-destructive"])
def test_a_start_reads_no_message_and_readers_get_all(
    definitions: SqliteDefinitions, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = Lives(definitions, **arguments)
    lives.publish(COUNT)
    assert lives.log.paged_count > COUNT - 20
    assert lives.read(FIRST) == rows(*range(COUNT))
    with monkeypatch.context() as patch:
        patch.setattr(JournalContentStore, "read_run", None)
        patch.setattr(JournalContentStore, "read", None)
        lives.restart()
    assert lives.log.paged_count == COUNT
    assert (lives.queue.ready_count, lives.queue.next_offset) == (COUNT, COUNT)
    assert lives.queue.ready_bytes == sum(len(body) for _, body in rows(*range(COUNT)))
    lives.publish(20)
    assert lives.read(FIRST) == rows(*range(COUNT + 20))
    assert lives.read(StartPosition("offset", 290)) == rows(*range(290, COUNT + 20))


def test_an_instant_is_found_before_and_after_a_restart(definitions: SqliteDefinitions) -> None:
    lives = Lives(definitions, **STREAM)
    start_ms = lives.machine.timers.clock.now_ms
    lives.publish(COUNT)
    for _ in range(2):
        for seconds in (0, 1, 77, 150, COUNT - 1):
            assert lives.log.offset_since(start_ms + 1000 * seconds) == seconds
            assert lives.log.offset_since(start_ms + 1000 * seconds - 999) == seconds
        assert lives.log.offset_since(start_ms + 1000 * COUNT) is None
        lives.restart()


@pytest.mark.parametrize("is_crash", [False, True], ids=["restart", "power loss"])
@pytest.mark.row("A17")
def test_offsets_go_on_after_a_purge_and_a_restart(
    definitions: SqliteDefinitions, is_crash: bool
) -> None:
    lives = Lives(definitions, **READ_ONLY)
    lives.publish(COUNT)
    assert lives.queue.purge() == COUNT
    for _ in range(3):  # segments go in later turns
        lives.machine.turn.arm()
        lives.machine.settle_down()
    if is_crash:
        lives.lose_power()
    else:
        lives.restart()
    assert (lives.offsets, lives.queue.next_offset) == ([], COUNT)
    lives.publish(30)
    assert lives.read(FIRST) == rows(*range(COUNT, COUNT + 30))


@pytest.mark.row("A17")
def test_offsets_go_on_after_a_truncation_and_restarts(definitions: SqliteDefinitions) -> None:
    lives = Lives(definitions, **STREAM, x_max_length_bytes=300)
    end = 0
    for _ in range(4):
        lives.publish(150)
        end += 150
        before = lives.offsets
        assert before == list(range(before[0], end))
        assert before[0] > end - 150
        lives.restart()
        assert lives.offsets == before
        assert lives.read(FIRST) == rows(*before)
    assert lives.log.first_offset == lives.offsets[0]
    assert lives.queue.next_offset == 600


def test_what_got_too_old_while_the_broker_was_down_is_gone(definitions: SqliteDefinitions) -> None:
    lives = Lives(definitions, **STREAM, x_max_age="10m")
    lives.publish(COUNT)
    lives.machine.timers.clock.advance(450_000)
    lives.restart()
    lives.machine.settle_down()
    assert lives.offsets == list(range(151, COUNT))
    assert lives.queue.next_offset == COUNT


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.row("A17")
def test_offsets_are_dense_after_the_power_has_gone(
    definitions: SqliteDefinitions, seed: int
) -> None:
    """Batches are lost from the end only, so what is left has no hole."""
    random = Random(seed)
    lives = Lives(definitions, **STREAM)
    for _ in range(5):
        lives.publish(random.randrange(5, 40))
        for _ in range(random.randrange(0, 40)):  # these may be lost
            lives.machine.publish("", "q", b"%d" % lives.queue.next_offset)
            if not random.randrange(6):
                lives.machine.finish_turn()
        lives.lose_power(random if random.randrange(2) else None)
        assert lives.offsets == list(range(lives.queue.next_offset))
        assert lives.read(FIRST) == rows(*lives.offsets)


def test_those_that_expire_come_back_in_their_places(definitions: SqliteDefinitions) -> None:
    lives = Lives(definitions, **READ_ONLY)
    for number in range(100):
        lives.publish(1, ttl_ms=0 if number % 4 else 300_000)
    lives.restart()
    assert [entry.offset for entry in lives.log.kept_entries()] == list(range(0, 100, 4))
    assert lives.read(FIRST) == rows(*range(100))
    lives.machine.timers.advance(301_000)
    lives.machine.settle_down()
    assert lives.offsets == [each for each in range(100) if each % 4]
