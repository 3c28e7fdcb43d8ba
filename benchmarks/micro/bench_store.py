"""Cost of the durable store for the loop: adding, settling, building a batch, reading back.

The disk is left out: work is done by hand outside of the measured time, and nothing is synced.

python -m benchmarks.micro.bench_store [--json FILE] [--repetitions N]
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

from benchmarks.micro.stand import message
from benchmarks.micro.timing import finish, measure
from hareline.message import UNWRITTEN, Message
from hareline.queues.core.entry import ACQUIRED, SETTLED, QueueEntry
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from hareline.storage.journal.files import Files
from hareline.storage.journal.syncer import InlineSyncer
from hareline.storage.store.durable import DurableStore
from hareline.storage.store.state import RecoveredState
from hareline.turn import Turn

ENTRIES = 20_000
RUN = 256


class Subject:
    """A store with one durable queue, and entries in whatever state is measured next."""

    def __init__(self, directory: Path, body_bytes: int) -> None:
        self.directory = directory
        self.message = message(bytes(body_bytes))
        self.queue = Queue("q", FifoOrder(), Turn(lambda finish: None))
        self.entries: list[QueueEntry] = []
        self.store: DurableStore | None = None

    def renew(self) -> None:
        """A new journal, and entries that are not in it."""
        if self.store is not None:
            self.store.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        self.syncer = InlineSyncer()
        self.store = DurableStore(
            str(self.directory / "journal"),
            str(self.directory / "spool"),
            files=Files(),
            syncer=self.syncer,
            sync="never",
        )
        self.store.start(RecoveredState())
        self.syncer.drain()
        self.ledger = self.store.open_queue(1, "q")
        one = self.message
        self.entries = [
            QueueEntry(
                self.queue,
                Message(
                    one.address,
                    one.content,
                    one.header_size,
                    one.size,
                    one.channel,
                    one.arrival_ms,
                    UNWRITTEN,
                ),
                offset,
            )
            for offset in range(ENTRIES)
        ]

    def fill(self) -> None:
        self.renew()
        self.add()

    def write(self) -> None:
        """Everything is on disk."""
        self.fill()
        self.build()
        self.syncer.drain()

    def deliver(self) -> None:
        self.write()
        for entry in self.entries:
            entry.state = ACQUIRED

    def deliver_shuffled(self) -> None:
        self.deliver()
        random.Random(7).shuffle(self.entries)

    def settle_gathered(self) -> None:
        self.deliver()
        self.settle()

    def settle_shuffled_gathered(self) -> None:
        self.deliver_shuffled()
        self.settle()

    # ------------------------------------------------------------- what is measured

    def add(self) -> None:
        add = self.ledger.add
        for entry in self.entries:
            add(entry)

    def build(self) -> None:
        assert self.store is not None
        self.store.write_pending()

    def settle(self) -> None:
        settle = self.ledger.settle
        for entry in self.entries:
            entry.state = SETTLED
            settle(entry)

    def acquire(self) -> None:
        on_acquired = self.ledger.on_acquired
        for start in range(0, ENTRIES, RUN):
            on_acquired(self.entries[start : start + RUN])

    def read(self) -> None:
        assert self.store is not None
        content_store = self.store.content_store
        assert content_store is not None
        for start in range(0, ENTRIES, RUN):
            content_store.read_run(
                [entry.message.position for entry in self.entries[start : start + RUN]]
            )


def main() -> None:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        for body_bytes in (100, 1024):
            subject = Subject(Path(directory), body_bytes)
            for name, function, prepare in (
                ("add", subject.add, subject.renew),
                ("build a batch of messages", subject.build, subject.fill),
                ("settle in order", subject.settle, subject.deliver),
                ("settle in any order", subject.settle, subject.deliver_shuffled),
                ("build a batch of settles", subject.build, subject.settle_gathered),
                (
                    "build a batch of settles in any order",
                    subject.build,
                    subject.settle_shuffled_gathered,
                ),
                (f"acquire a backlog, {RUN} at once", subject.acquire, subject.write),
                (f"read back, {RUN} at once", subject.read, subject.write),
            ):
                measure(f"{name}, {body_bytes} octets", function, ENTRIES, "entry", prepare=prepare)
    finish()


if __name__ == "__main__":
    main()
