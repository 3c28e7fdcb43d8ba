"""Results of a recovery, as the durable store needs them to go on.

``DurableStore.start`` takes over the containers. Every live entry is counted once, in the segment
of its newest MESSAGE record; entries of queues without a definition are not counted.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from dataclasses import dataclass, field

from hareline.storage.interface import ProducerSequence


@dataclass(slots=True)
class RecoveredSegment:
    """A segment file that stays. ``end``: the offset at which its last valid batch ends.

    ``size_bytes`` is what the file takes on disk; ``total``: how many entries its MESSAGE records
    list, dead ones included (a share of liveness, nothing depends on its being exact).
    ``created_ms``: from its header.
    """

    number: int
    end: int
    size_bytes: int
    total: int
    created_ms: int


@dataclass(slots=True)
class RecoveredQueue:
    """One queue of the definitions. ``live``: segment number to the number of its live entries.

    ``next_offset``: above every offset that a CHECKPOINT or a MESSAGE record names.
    ``returns``: offset of a live entry to (delivery count, number of the segment where the RETURN
    record stands). Segment 0: no record has this count, which was inferred from a COVER or a
    delivered flag. The store writes those with its first batch, after which all older covers and
    flags are void. A count that its MESSAGE record has is not repeated here.
    ``large``: offset of a live entry to the id of its body, which ``LargeBodies`` keeps for it.
    ``undone``: runs (segment, first offset, end) of entries whose transaction did not come to its
    end; ``live`` and ``large`` still count them. The store settles them in its first batch.
    """

    next_offset: int = 0
    live: dict[int, int] = field(default_factory=dict)
    returns: dict[int, tuple[int, int]] = field(default_factory=dict)
    large: dict[int, int] = field(default_factory=dict)
    undone: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass(slots=True)
class RecoveredState:
    """``next_segment``: a number above all that ever were, of the segment that is to be begun.

    ``segments``: ascending by number, the tail too; files and manifest agree with it. ``queues``:
    by id, every durable one. ``settled``: number T of the segment an entry stands in -> number S of
    the segment where the SETTLE record stands -> triples (queue id, first offset, count) in one
    flat ``array("Q")``; only for T in ``segments``; a run without entries of T has no effect.

    ``interrupted``: segments some of whose entries stand in a newer segment too, since a crash
    interrupted a compaction. The older copies count as settled, by runs under S = 0, and a queue
    gets the position of the newest. The store compacts these segments to the end before it frees
    any other, so that no record about such an entry is lost while two copies exist.

    ``producers``: by virtual host and producer id, the least recently used first.

    ``is_durable``: all of ``segments`` has been synced; after a kill of the broker what was read
    may have been only in the memory of the system. ``leftovers``: paths with the octets of each
    that stay (0: the file goes), of what the operator had cut off. That may hold the FREE records
    of segments that are gone, so it is cut only when the header of the new segment is durable,
    whose manifest does not have those.
    """

    next_segment: int = 1
    segments: list[RecoveredSegment] = field(default_factory=list)
    queues: dict[int, RecoveredQueue] = field(default_factory=dict)
    settled: dict[int, dict[int, array[int]]] = field(default_factory=dict)
    interrupted: list[int] = field(default_factory=list)
    is_durable: bool = False
    producers: dict[str, OrderedDict[bytes, ProducerSequence]] = field(default_factory=dict)
    leftovers: list[tuple[str, int]] = field(default_factory=list)
