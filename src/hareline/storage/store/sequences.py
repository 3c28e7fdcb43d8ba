"""The highest sequences of producers, as the next batch and the next segment need them.

A sequence is written in the batch that makes the messages count which moved it, and in none before;
what a transaction of several turns has moved is held until it is finished.                    [hot]
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from hareline.storage.interface import MessageStore, ProducerSequence, SequenceLedger
from hareline.storage.journal.format.frame import RECORD_OVERHEAD
from hareline.storage.journal.format.records import SEQUENCE, producers_head

#: Sequences that an unfinished transaction has moved, not written so far, with their ledgers.
HeldSequences = dict[ProducerSequence, "DurableSequences"]


class GatheredSequences:
    """Those of all virtual hosts.

    ``changed``: ledgers with something for the next batch. ``held``: of the transaction at work, if
    there is one.
    """

    __slots__ = ("_by_vhost", "changed", "held", "store")

    def __init__(self, store: MessageStore) -> None:
        self.store = store
        self.held: HeldSequences | None = None
        self.changed: list[DurableSequences] = []
        self._by_vhost: dict[str, DurableSequences] = {}

    def __bool__(self) -> bool:
        """True if something has gathered."""
        return bool(self.changed)

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

    def take(self) -> list[bytes]:
        """Return the payloads of records that say what has changed, which is written now."""
        payloads = []
        for ledger in self.changed:
            moved, ledger.moved = ledger.moved, {}
            for sequence, highest in moved.items():
                sequence.written = highest
            payloads.append(_payload(ledger, moved, is_whole=False))
        self.changed = []
        return payloads

    def clear(self) -> None:
        """Forget what has gathered: the store has failed."""
        for ledger in self.changed:
            ledger.moved = {}
        self.changed = []

    def whole_bound(self) -> int:
        """Return how many octets ``whole_lists`` takes at most, with what makes it records."""
        bound = 0
        for ledger in self._by_vhost.values():
            bound += RECORD_OVERHEAD + len(producers_head(ledger.vhost_octets, True))
            bound += sum([SEQUENCE.size + len(each) for each in ledger.by_id])
        return bound

    def whole_lists(self) -> list[bytes]:
        """Return payloads with all that is written of each virtual host."""
        payloads = []
        for ledger in self._by_vhost.values():
            written = {each: each.written for each in ledger.by_id.values() if each.written >= 0}
            if written:
                payloads.append(_payload(ledger, written, is_whole=True))
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
        held = self._gathered.held
        if held is None:
            if not sequence.hold_count:  # or else whichever transaction ends last gathers it
                self._gather(sequence)
        elif sequence not in held:
            held[sequence] = self
            sequence.hold_count += 1

    def release(self, sequence: ProducerSequence) -> None:
        """Gather it for the batch that commits the transaction that held it, if none else does."""
        sequence.hold_count -= 1
        # one that was forgotten meanwhile may have begun again as another object
        if not sequence.hold_count and self.by_id.get(sequence.producer_id) is sequence:
            self._gather(sequence)

    def is_undecided(self, sequence: ProducerSequence) -> bool:
        held = self._gathered.held
        own = 1 if held is not None and sequence in held else 0
        return sequence.hold_count > own

    def _gather(self, sequence: ProducerSequence) -> None:
        if not self.moved:
            self._gathered.changed.append(self)
        self.moved[sequence] = sequence.highest
        sequence.ticket = self._gathered.store.ticket


def _payload(
    ledger: DurableSequences, sequences: Mapping[ProducerSequence, int], *, is_whole: bool
) -> bytes:
    pack = SEQUENCE.pack
    items = [
        pack(number, each.used_ms, len(each.producer_id)) + each.producer_id
        for each, number in sequences.items()
    ]
    return b"".join((producers_head(ledger.vhost_octets, is_whole), *items))
