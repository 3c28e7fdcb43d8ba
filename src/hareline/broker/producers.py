"""The producers of a virtual host that number their messages, and how far each has come.

``amqp.publishing`` asks ``find`` before it enqueues a numbered message, and calls ``accept`` when a
queue has taken it. A number that is not above the highest one accepted from its producer makes the
message a duplicate. Which are kept over a restart is up to the store (``SequenceLedger``).    [hot]

Invariant: at most ``max_count`` producers are known; the one that was used least recently is
forgotten for a new one, and so are those that were not used for ``max_age_ms``.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from hareline import events
from hareline.clock import Clock
from hareline.events import Report, Tally
from hareline.storage.interface import MessageStore, ProducerSequence

MAX_COUNT: Final = 10_000
MAX_AGE_S: Final = 7 * 24 * 3600
#: Looked at for each new producer, so that none waits while many are forgotten.
FORGOTTEN_AT_ONCE: Final = 16


class PublishNumber(NamedTuple):
    """Number that a publisher gives a message: its name, and the place in its sequence."""

    producer_id: bytes
    sequence: int


class Producers:
    """``max_count``, ``max_age_ms``: the bounds, which may change while the broker runs.

    ``duplicate_count``, ``forgotten_count``: since the start.
    """

    __slots__ = (
        "_by_id",
        "_clock",
        "_duplicates",
        "_forgotten",
        "_ledger",
        "_report",
        "_store",
        "_vhost_name",
        "max_age_ms",
        "max_count",
    )

    def __init__(self, vhost_name: str, store: MessageStore, clock: Clock, report: Report) -> None:
        self._vhost_name = vhost_name
        self._store = store
        self._clock = clock
        self._report = report
        self._ledger = store.open_sequences(vhost_name)
        self._by_id: OrderedDict[bytes, ProducerSequence] = (
            OrderedDict() if self._ledger is None else self._ledger.by_id
        )
        self._duplicates = Tally()
        self._forgotten = Tally()
        self.max_count = MAX_COUNT
        self.max_age_ms = MAX_AGE_S * 1000

    def forget_all(self) -> None:
        """Forget every producer: the virtual host is deleted."""
        self._by_id.clear()

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def duplicate_count(self) -> int:
        return self._duplicates.count

    @property
    def forgotten_count(self) -> int:
        return self._forgotten.count

    def find(self, number: PublishNumber) -> ProducerSequence | None:
        """Return the producer's sequence if this is a duplicate, else None; counts duplicates."""
        known = self._by_id.get(number.producer_id)
        if known is None:
            return None
        now_ms = self._clock.now_ms
        if known.used_ms < now_ms - self.max_age_ms:
            del self._by_id[number.producer_id]
            self._count_forgotten(now_ms)
            return None
        known.used_ms = now_ms
        self._by_id.move_to_end(number.producer_id)
        if number.sequence > known.highest:
            return None
        if self._duplicates.add(now_ms):
            self._report(
                events.PRODUCER_DUPLICATES,
                vhost=self._vhost_name,
                producer=_text(number.producer_id),
                count=self._duplicates.take(now_ms),
            )
        return known

    def is_safe(self, sequence: ProducerSequence) -> bool:
        """True if a duplicate may be confirmed once ``sequence.ticket`` is durable.

        False: its original is in a transaction that is still being carried out, or the store has
        failed before it was durable.
        """
        if self._ledger is not None and self._ledger.is_undecided(sequence):
            return False
        store = self._store
        return not store.failure or sequence.ticket <= store.durable_ticket

    def accept(self, number: PublishNumber, *, is_kept: bool) -> None:
        """Note that a queue has taken a message; ``is_kept``: and one gives it to the store."""
        producer_id = number.producer_id
        known = self._by_id.get(producer_id)
        if known is None:
            known = ProducerSequence(producer_id)
            known.used_ms = self._clock.now_ms
            self._make_room(known.used_ms)
            self._by_id[producer_id] = known
        known.highest = number.sequence
        if is_kept and self._ledger is not None:
            self._ledger.note(known)

    def _make_room(self, now_ms: int) -> None:
        """Forget what is too old, and what is too much with one more."""
        by_id = self._by_id
        for _ in range(FORGOTTEN_AT_ONCE):
            oldest = next(iter(by_id.values()), None)
            if oldest is None or (
                len(by_id) < self.max_count and oldest.used_ms >= now_ms - self.max_age_ms
            ):
                return
            by_id.popitem(last=False)
            self._count_forgotten(now_ms)

    def _count_forgotten(self, now_ms: int) -> None:
        if self._forgotten.add(now_ms):
            self._report(
                events.PRODUCERS_FORGOTTEN,
                vhost=self._vhost_name,
                count=self._forgotten.take(now_ms),
                known=len(self._by_id),
                max_producers=self.max_count,
            )


def _text(producer_id: bytes) -> str:
    return producer_id.decode("utf-8", "backslashreplace")
