"""The highest sequences of producers, as the next batch and the next segment need them.

A sequence is written in the batch that makes the messages count which moved it, and in none before;
what a transaction of several turns has moved is held until it is finished.                    [hot]
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hareline.storage.interface import MessageStore, ProducerSequence, SequenceLedger
from hareline.storage.journal.format.frame import RECORD_OVERHEAD
from hareline.storage.journal.format.records import SEQUENCE, producers_head


class HeldSequences:
    """Sequences that an unfinished transaction has moved, not written so far."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[ProducerSequence, DurableSequences] = {}

    def __contains__(self, sequence: ProducerSequence) -> bool:
        return sequence in self._held

    def add(self, ledger: DurableSequences, sequence: ProducerSequence) -> None:
        """Hold it until ``release``; once for each producer."""
        if sequence not in self._held:
            self._held[sequence] = ledger
            sequence.hold_count += 1

    def release(self) -> None:
        """Gather all for the batch that commits the transaction."""
        held, self._held = self._held, {}
        for sequence, ledger in held.items():
            sequence.hold_count -= 1
            # one that was forgotten meanwhile may have begun again as another object
            if not sequence.hold_count and ledger.by_id.get(sequence.producer_id) is sequence:
                ledger.gather(sequence)


class GatheredSequences:
    """Those of all virtual hosts. ``holder``: of the transaction at work, if there is one."""

    __slots__ = ("_by_vhost", "_changed", "holder", "store")

    def __init__(self, store: MessageStore) -> None:
        self.store = store
        self.holder: HeldSequences | None = None
        self._by_vhost: dict[str, DurableSequences] = {}
        self._changed: list[DurableSequences] = []

    def __bool__(self) -> bool:
        """True if something has gathered."""
        return bool(self._changed)

    def open(self, vhost: str) -> DurableSequences:
        """Return the ledger of a virtual host, with what recovery found of it."""
        ledger = self._by_vhost.get(vhost)
        if ledger is None:
            ledger = self._by_vhost[vhost] = DurableSequences(vhost, self)
        return ledger

    def restore(self, found: Mapping[str, OrderedDict[bytes, ProducerSequence]]) -> None:
        """Take over what recovery found, also of virtual hosts that are not served."""
        for vhost, by_id in found.items():
            self.open(vhost).by_id = by_id

    def changed(self, ledger: DurableSequences) -> None:
        """Note that a ledger has something for the next batch."""
        self._changed.append(ledger)

    def take(self) -> list[MovedSequences]:
        """Return what has gathered, which is going to be written now."""
        taken = []
        for ledger in self._changed:
            moved, ledger.moved = ledger.moved, {}
            for sequence, highest in moved.items():
                sequence.written = highest
            taken.append(MovedSequences(ledger, moved))
        self._changed = []
        return taken

    def clear(self) -> None:
        """Forget what has gathered: the store has failed."""
        for ledger in self._changed:
            ledger.moved = {}
        self._changed = []

    def whole_bound(self) -> int:
        """Return how many octets ``whole_lists`` takes at most, with what makes it records."""
        return sum(_bound(ledger, ledger.by_id.values()) for ledger in self._by_vhost.values())

    def whole_lists(self) -> list[bytes]:
        """Return payloads with all that is written of each virtual host."""
        payloads = []
        for ledger in self._by_vhost.values():
            pack = SEQUENCE.pack
            items = [
                pack(each.written, each.used_ms, len(each.producer_id)) + each.producer_id
                for each in ledger.by_id.values()
                if each.written >= 0
            ]
            if items:
                payloads.append(b"".join((producers_head(ledger.vhost_octets, True), *items)))
        return payloads


class DurableSequences(SequenceLedger):
    """The producers of one virtual host. ``moved``: for the next batch, with their sequences."""

    __slots__ = ("_gathered", "moved", "vhost_octets")

    def __init__(self, vhost: str, gathered: GatheredSequences) -> None:
        super().__init__()
        self.vhost_octets = vhost.encode()
        self._gathered = gathered
        self.moved: dict[ProducerSequence, int] = {}

    def note(self, sequence: ProducerSequence) -> None:
        holder = self._gathered.holder
        if holder is not None:
            holder.add(self, sequence)
        elif not sequence.hold_count:  # or else whichever transaction ends last gathers it
            self.gather(sequence)

    def gather(self, sequence: ProducerSequence) -> None:
        """Have this sequence written with the next batch."""
        if not self.moved:
            self._gathered.changed(self)
        self.moved[sequence] = sequence.highest
        sequence.ticket = self._gathered.store.ticket

    def is_undecided(self, sequence: ProducerSequence) -> bool:
        holder = self._gathered.holder
        own = 1 if holder is not None and sequence in holder else 0
        return sequence.hold_count > own


class MovedSequences(NamedTuple):
    """Sequences of one virtual host in one batch, by producer."""

    ledger: DurableSequences
    moved: dict[ProducerSequence, int]


def moved_bound(taken: list[MovedSequences]) -> int:
    """Return how many octets the records of these take."""
    return sum(_bound(ledger, moved) for ledger, moved in taken)


def moved_payload(taken: MovedSequences) -> bytes:
    """Return the payload of the record that says what has changed."""
    pack = SEQUENCE.pack
    items = [
        pack(highest, each.used_ms, len(each.producer_id)) + each.producer_id
        for each, highest in taken.moved.items()
    ]
    return b"".join((producers_head(taken.ledger.vhost_octets, False), *items))


def _bound(ledger: DurableSequences, sequences: Iterable[ProducerSequence]) -> int:
    size = RECORD_OVERHEAD + 2 + len(ledger.vhost_octets)
    return size + sum([SEQUENCE.size + len(each.producer_id) for each in sequences])
