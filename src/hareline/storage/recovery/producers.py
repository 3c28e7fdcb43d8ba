"""The highest sequences of producers, found in one pass over the journal.

Called by ``recovery.live_entries`` for each PRODUCERS record. The latest record of a producer
counts, not the highest sequence: one that was forgotten may have begun again.

Invariant: producers stand in the order in which they were last accepted from, and there are no more
than ``PRODUCERS_MAX`` of a virtual host.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from hareline.storage.interface import ProducerSequence
from hareline.storage.journal.format.producers import decode_producers

#: The most that ``max_producers`` of a virtual host may be; what is less is enforced by the broker.
PRODUCERS_MAX: Final = 100_000


class ProducerScan:
    """``found``: by virtual host and producer id."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: dict[str, OrderedDict[bytes, ProducerSequence]] = {}

    def take(self, _position: int, payload: memoryview) -> None:
        """Take the next record. Raises MalformedRecord."""
        producers = decode_producers(payload)
        vhost = producers.vhost.decode("utf-8", "surrogateescape")
        by_id = self.found.get(vhost)
        if by_id is None or producers.is_whole:
            by_id = self.found[vhost] = OrderedDict()
        for producer_id, sequence, used_ms in producers.sequences:
            known = by_id.get(producer_id)
            if known is None:
                known = by_id[producer_id] = ProducerSequence(producer_id)
                if len(by_id) > PRODUCERS_MAX:
                    by_id.popitem(last=False)
            else:
                by_id.move_to_end(producer_id)
            known.highest = known.written = sequence
            known.used_ms = used_ms
