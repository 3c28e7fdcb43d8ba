"""A consumer that writes down what it is given, with an output that a test fills and drains.

Stands for ``amqp.consuming.ChannelConsumer`` in tests of the model; it keeps the same contract: a
hand-over takes at least one entry unless ``suspend_if_full`` has said otherwise, and a suspended
consumer activates itself again.
"""

from __future__ import annotations

from hareline.queues.core.consumer import Consumer
from hareline.queues.core.credit import UNLIMITED, CreditWindow
from hareline.queues.core.entry import QueueEntry
from hareline.queues.queue import Queue
from hareline.selectors.selector import Selector


class RecordingConsumer(Consumer):
    """``room`` is what its output still takes, in octets of content; below 0 it is full.

    ``batches`` holds each hand-over, ``bodies`` everything it was ever given, ``unacked`` what was
    delivered and is not settled yet. Consumers of one ``channel`` share a port: it takes down what
    all of them were given, in order.
    """

    def __init__(
        self,
        queue: Queue,
        tag: str = "c",
        *,
        acknowledges: bool = True,
        is_exclusive: bool = False,
        priority: int = 0,
        prefetch_count: int = 0,
        refill_percent: int = 100,
        windows: tuple[CreditWindow, ...] = (),
        selector: Selector | None = None,
    ) -> None:
        super().__init__(
            tag,
            queue,
            acknowledges=acknowledges,
            is_exclusive=is_exclusive,
            priority=priority,
            prefetch_count=prefetch_count,
            refill_percent=refill_percent,
            windows=windows,
            selector=selector,
        )
        self.batches: list[list[QueueEntry]] = []
        self.bodies: list[bytes] = []
        self.redelivered: list[bool] = []
        self.unacked: list[QueueEntry] = []
        self.room = UNLIMITED
        self.channel: list[bytes] | None = None
        self.is_suspended = False
        self.is_told_of_end = False

    # ------------------------------------------------------- the dispatcher's side

    @property
    def delivery_port(self) -> object:
        return self if self.channel is None else id(self.channel)

    def deliver(self, entries: list[QueueEntry]) -> int:
        assert entries, "an empty hand-over"
        assert self.room >= 0, "handed over to a consumer that is full"
        count = 0
        while count < len(entries) and self.room >= 0:
            self.room -= len(entries[count].message.content)
            count += 1
        taken = entries[:count]
        self.batches.append(taken)
        self.bodies += [entry.message.body for entry in taken]  # now: later they may be gone
        if self.channel is not None:
            self.channel += self.bodies[-count:]
        self.redelivered += [entry.delivery_count > 0 for entry in taken]
        if self.acknowledges:
            for entry in taken:
                entry.consumer = self
            self.unacked += taken
        return count

    @property
    def room_bytes(self) -> int:
        return self.room

    def suspend_if_full(self) -> bool:
        if self.room < 0:
            assert not self.is_suspended, "asked again while it waits for its resumption"
            self.is_suspended = True
            return True
        return False

    def on_queue_deleted(self) -> None:
        self.is_told_of_end = True

    def on_finished(self) -> None:
        self.is_told_of_end = True

    # -------------------------------------------------------------- the test's side

    @property
    def batch_sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]

    def fill(self) -> None:
        """Its output takes nothing more until ``drain``."""
        self.room = -1

    def drain(self, room: int = UNLIMITED) -> None:
        """Its output has room again; the entry that uses up the last of it is still taken."""
        self.room = room
        if self.is_suspended:
            self.is_suspended = False
            self.queue.activate(self)

    def ack(self, count: int | None = None) -> None:
        """Settle the ``count`` oldest unacked entries (all by default), as a client's acks do."""
        for entry in self.take_unacked(count):
            entry.queue.settle(entry)
            self.restore_credit(entry.message.size)

    def release(self, count: int | None = None) -> None:
        """Give the ``count`` oldest unacked entries back to the queue, as a nack does."""
        entries = self.take_unacked(count)
        for entry in entries:
            self.restore_credit(entry.message.size)
        if entries:
            entries[0].queue.release(entries)

    def take_unacked(self, count: int | None = None) -> list[QueueEntry]:
        if count is None:
            count = len(self.unacked)
        taken, self.unacked = self.unacked[:count], self.unacked[count:]
        return taken
