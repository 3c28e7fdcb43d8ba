"""Transaction of a channel: publishes and settlements are kept until commit.

Publishes are checked and routed as they come, as in RabbitMQ. A small commit is carried out at
once; for more it takes several turns, in which others see a part of it, but a crash keeps or loses
it as a whole. A rollback puts acknowledged deliveries back among the unacked ones; they are not
redelivered (RabbitMQ's rule).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from hareline.amqp.unacked import UnackedDeliveries, release_entries
from hareline.clock import Clock
from hareline.errors import ContentTooLarge, NotKept
from hareline.later import Job, Shares
from hareline.queues.core.entry import QueueEntry
from hareline.storage.interface import COMMIT_BYTES_MAX, MessageStore, StoreTransaction

#: Entries that are added or settled between two looks at the clock, some 200 us; a commit with no
#: more than this is carried out at once, and needs no transaction of the store.
ENTRIES_PER_LOOK: Final = 128

#: Shares of a commit while one batch of the store is written. They are the next batch, which is
#: made at one go: with some ten thousand entries others would have to wait for that too.
SHARES_PER_BATCH: Final = 2

Delivery = tuple[int, QueueEntry]


class Settlement(NamedTuple):
    """``apply`` is to be done with the entries at commit; no more than ``ENTRIES_PER_LOOK``."""

    deliveries: list[Delivery]
    apply: Callable[[list[QueueEntry]], None]


class KeptPublish(NamedTuple):
    """``enqueue`` says whether every queue took it. ``entries``: how many queues there are."""

    enqueue: Callable[[], bool]
    entries: int


class Transaction:
    """One open transaction; after each commit or rollback it is empty and open again."""

    def __init__(self) -> None:
        self._publishes: deque[KeptPublish] = deque()
        self._settlements: deque[Settlement] = deque()
        self._entries = 0
        self._kept_bytes = 0
        self._concerns_store = False
        self._given_back = 0  # of the settlements, those that are no acknowledgements
        self._rollback: Rollback | None = None

    @property
    def publish_count(self) -> int:
        return len(self._publishes)

    @property
    def kept_count(self) -> int:
        """Deliveries that the next commit settles, or that a rollback has yet to put back."""
        kept = sum([len(settlement.deliveries) for settlement in self._settlements])
        return kept if self._rollback is None else kept + self._rollback.kept_count

    def publish(
        self,
        enqueue: Callable[[], bool],
        *,
        entries: int,
        kept_bytes: int,
        is_numbered: bool = False,
    ) -> None:
        """Keep a publish, which ``enqueue`` carries out; see ``KeptPublish``.

        ``kept_bytes``: of a message that a queue gives to the store, 0 for others. ``is_numbered``:
        it may be a duplicate of one that is not durable yet.
        """
        self._publishes.append(KeptPublish(enqueue, entries))
        self._entries += entries + 1
        self._kept_bytes += kept_bytes
        self._concerns_store = self._concerns_store or is_numbered

    def settle(
        self, deliveries: list[Delivery], apply: Callable[[list[QueueEntry]], None], *, is_ack: bool
    ) -> None:
        """Keep deliveries for ``apply`` at commit, in pieces that are freed one by one."""
        if not is_ack:
            self._given_back += len(deliveries)
        self._entries += len(deliveries) + 1
        if not self._concerns_store:
            self._concerns_store = any(entry.message.position for _, entry in deliveries)
        for start in range(0, len(deliveries), ENTRIES_PER_LOOK):
            piece = deliveries[start : start + ENTRIES_PER_LOOK]
            self._settlements.append(Settlement(piece, apply))

    def settled_entries(self) -> list[QueueEntry]:
        """Entries whose settlement waits for the commit."""
        return [entry for settlement in self._settlements for _, entry in settlement.deliveries]

    def commit(self, store: MessageStore, clock: Clock, unacked: UnackedDeliveries) -> Commit:
        """Work that the transaction is to carry out; it is empty then.

        ``unacked`` counts what is settled otherwise than by an acknowledgement.

        Raises NotKept while the store refuses what this has for it, and ContentTooLarge for more
        than a transaction may have; nothing has changed then.
        """
        if store.refusal and self._kept_bytes:
            raise NotKept(f"transaction not committed, it cannot be stored: {store.refusal}")
        if self._kept_bytes > COMMIT_BYTES_MAX:
            raise ContentTooLarge(
                f"transaction not committed, it has {self._kept_bytes} octets to be stored, "
                f"the limit is {COMMIT_BYTES_MAX}"
            )
        commit = Commit(
            self._publishes,
            self._settlements,
            store,
            clock,
            concerns_store=(self._kept_bytes > 0 or self._concerns_store) and not store.failure,
            is_small=self._entries <= ENTRIES_PER_LOOK,
        )
        unacked.given_back += self._given_back
        self._clear()
        return commit

    def rollback(self, unacked: UnackedDeliveries, clock: Clock) -> Rollback:
        """Job that puts deliveries back and drops publishes; the transaction is empty then."""
        self._rollback = Rollback(self._publishes, self._settlements, unacked, clock)
        self._clear()
        return self._rollback

    def end(self, unacked: UnackedDeliveries, shares: Shares, clock: Clock) -> None:
        """The channel ends: all deliveries are put back now, the publishes are dropped later."""
        if self._rollback is not None:
            self._rollback.put_back_all()
        rollback = self.rollback(unacked, clock)
        rollback.put_back_all()
        if not rollback.run(-math.inf):
            shares.add(rollback)

    def _clear(self) -> None:
        self._publishes = deque()
        self._settlements = deque()
        self._entries = self._kept_bytes = self._given_back = 0
        self._concerns_store = False


class Commit(Job):
    """Carries out a transaction, publishes first; ``is_partial``: a queue has refused some.

    ``concerns_store``: anything in it is for the store, so the answer has to wait for the disk.
    After a failure of the store nothing is; acknowledgements go on in memory.
    """

    __slots__ = (
        "_clock",
        "_is_small",
        "_kept",
        "_publishes",
        "_settlements",
        "_shares",
        "_store",
        "_ticket",
        "concerns_store",
        "is_partial",
    )

    def __init__(
        self,
        publishes: deque[KeptPublish],
        settlements: deque[Settlement],
        store: MessageStore,
        clock: Clock,
        *,
        concerns_store: bool,
        is_small: bool,
    ) -> None:
        self._publishes = publishes
        self._settlements = settlements
        self._store = store
        self._clock = clock
        self._is_small = is_small
        self._kept = StoreTransaction() if is_small else store.begin_transaction()
        self._ticket = 0
        self._shares = 0  # that are in the batch with this ticket
        self.concerns_store = concerns_store
        self.is_partial = False

    def run(self, until_s: float) -> bool:
        kept, clock = self._kept, self._clock
        kept.enter()
        try:
            while self._publishes or self._settlements:
                if self._publishes:
                    self._publish_some()
                else:
                    for settlement in _some(self._settlements):
                        settlement.apply([entry for _, entry in settlement.deliveries])
                if not self._is_small and clock.running_s() >= until_s:
                    break
        finally:
            kept.leave()
        if self._publishes or self._settlements:
            return False
        kept.finish()
        return True

    def _publish_some(self) -> None:
        publishes = self._publishes
        left = ENTRIES_PER_LOOK
        while publishes and left > 0:
            enqueue, entries = publishes.popleft()
            left -= entries + 1
            if not enqueue():
                self.is_partial = True

    def waits(self, go_on: Callable[[], None]) -> bool:
        if not self.concerns_store:
            return False
        store = self._store
        ticket = store.ticket
        if ticket != self._ticket:
            self._ticket = ticket
            self._shares = 0
        self._shares += 1
        is_writing = store.durable_ticket < ticket - 1
        if self._shares < SHARES_PER_BATCH or not is_writing or store.failure:
            return False
        store.when_durable(ticket - 1, go_on)
        return True


class Rollback(Job):
    """Puts back the deliveries of a transaction, and drops its publishes."""

    __slots__ = ("_clock", "_publishes", "_settlements", "_unacked")

    def __init__(
        self,
        publishes: deque[KeptPublish],
        settlements: deque[Settlement],
        unacked: UnackedDeliveries,
        clock: Clock,
    ) -> None:
        self._publishes = publishes
        self._settlements = settlements
        self._unacked = unacked
        self._clock = clock

    @property
    def kept_count(self) -> int:
        """Deliveries that are still to be put back."""
        return sum([len(settlement.deliveries) for settlement in self._settlements])

    def run(self, until_s: float) -> bool:
        while self._settlements or self._publishes:
            if self._settlements:
                for settlement in _some(self._settlements):
                    self._unacked.put_back(settlement.deliveries)
            else:
                for _ in range(min(ENTRIES_PER_LOOK, len(self._publishes))):
                    self._publishes.popleft()
            if self._clock.running_s() >= until_s:
                break
        return not (self._settlements or self._publishes)

    def put_back_all(self) -> None:
        settlements, self._settlements = self._settlements, deque()
        for settlement in settlements:
            self._unacked.put_back(settlement.deliveries)


class Release(Job):
    """Gives back what a channel had, as ``Settling.release_all``, but in shares of time."""

    __slots__ = ("_clock", "_entries", "_is_counted")

    def __init__(self, entries: list[QueueEntry], clock: Clock, *, is_counted: bool) -> None:
        self._entries = entries[::-1]
        self._clock = clock
        self._is_counted = is_counted

    def run(self, until_s: float) -> bool:
        entries = self._entries
        while entries:
            some = entries[: -ENTRIES_PER_LOOK - 1 : -1]
            del entries[-len(some) :]
            release_entries(some, is_counted=self._is_counted)
            if self._clock.running_s() >= until_s:
                break
        return not entries


def _some(settlements: deque[Settlement]) -> list[Settlement]:
    """Take the next ones, of ``ENTRIES_PER_LOOK`` deliveries or a few more."""
    taken: list[Settlement] = []
    left = ENTRIES_PER_LOOK
    while settlements and left > 0:
        settlement = settlements.popleft()
        left -= len(settlement.deliveries) + 1
        taken.append(settlement)
    return taken
