"""Cost of a queue and its ordering: in, out, back, gone; without consumers.

python -m benchmarks.micro.bench_queue [--json FILE] [--repetitions N]
"""

from __future__ import annotations

import random

from benchmarks.micro.stand import message
from benchmarks.micro.timing import finish, measure
from hareline.queues.core.entry import QueueEntry
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from hareline.turn import Turn

ENTRIES = 50_000
BATCH = 512


class Subject:
    """A queue that is filled and emptied outside of the measured time."""

    def __init__(self) -> None:
        self.message = message(bytes(100))
        self.held: list[QueueEntry] = []
        self.queue = Queue("q", FifoOrder(), Turn(lambda finish: None))

    def empty(self) -> None:
        self.held = []
        self.queue = Queue("q", FifoOrder(), Turn(lambda finish: None))

    def fill(self) -> None:
        self.empty()
        self.enqueue()

    def hold(self) -> None:
        """Everything is acquired."""
        self.fill()
        self.held = self.queue.acquire(ENTRIES)

    def hold_shuffled(self) -> None:
        self.hold()
        random.Random(7).shuffle(self.held)

    # ------------------------------------------------------------- what is measured

    def enqueue(self) -> None:
        enqueue = self.queue.enqueue
        one = self.message
        for _ in range(ENTRIES):
            enqueue(one)

    def acquire_one_by_one(self) -> None:
        acquire = self.queue.acquire
        for _ in range(ENTRIES):
            acquire(1)

    def acquire_in_batches(self) -> None:
        acquire = self.queue.acquire
        for _ in range(0, ENTRIES, BATCH):
            acquire(BATCH)

    def settle(self) -> None:
        settle = self.queue.settle
        for entry in self.held:
            settle(entry)

    def release_one_by_one(self) -> None:
        release = self.queue.release
        for entry in self.held:
            release([entry])

    def release_at_once(self) -> None:
        self.queue.release(self.held)

    def acquire_what_was_released(self) -> None:
        self.queue.acquire(ENTRIES)

    def release_all(self) -> None:
        self.hold()
        self.queue.release(self.held)

    def purge(self) -> None:
        self.queue.purge()


def main() -> None:
    subject = Subject()
    for name, function, prepare in (
        ("enqueue", subject.enqueue, subject.empty),
        ("acquire one by one", subject.acquire_one_by_one, subject.fill),
        (f"acquire {BATCH} at once", subject.acquire_in_batches, subject.fill),
        ("settle", subject.settle, subject.hold),
        ("release all at once", subject.release_at_once, subject.hold),
        ("release one by one, in order", subject.release_one_by_one, subject.hold),
        ("release one by one, in any order", subject.release_one_by_one, subject.hold_shuffled),
        ("acquire what was released", subject.acquire_what_was_released, subject.release_all),
        ("purge", subject.purge, subject.fill),
    ):
        measure(name, function, ENTRIES, "entry", prepare=prepare)
    finish()


if __name__ == "__main__":
    main()
