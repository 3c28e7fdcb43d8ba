"""Message groups: which consumer a group's messages go to, and which of them are parked.

A group has an *owner* while its messages may go to one consumer only:

=========  =========================================================================================
standard   from its first delivery until the owner leaves (and its unacked messages are settled or
           released), or until the group is closed; a message without a group may go anywhere
shared     while any of its messages is acquired; a message without a group belongs to the default
           group, a group like any other
=========  =========================================================================================

Called by ``selective``, ``placing`` and ``parking``; ``GroupKeys`` reads the headers.
Semantics: Broker-J's message groups, each with an owner of its own unless the queue asks for
buckets; closing and reassigning by JMSXGroupSeq is ActiveMQ's; buckets, rebalancing and the header
of a first message are Artemis's.                                                              [hot]

Invariant: a group with outstanding or parked entries stands in ``Groups``; of the others the older
half is forgotten when there are too many.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from hareline.compiled import mypyc_attr
from hareline.queues.core.entry import SETTLED, QueueEntry

if TYPE_CHECKING:
    from hareline.message import Message

GroupType = Literal["standard", "shared"]
Rebalance = Literal["off", "on", "pause"]

DEFAULT_GROUP: Final = "qpid.no-group"  # Broker-J: QPID_DEFAULT_SHARED_MESSAGE_GROUP
# Broker-J: its code reads the first, its documentation has the second
KEY_HEADERS: Final = ("JMSXGroupID", "JMSXGroupId")
SEQUENCE_HEADER: Final = "JMSXGroupSeq"

# With that many groups the idle ones are looked for; a forgotten one goes to the next consumer.
IDLE_GROUPS_MAX: Final = 100_000
RUN_HEAP_MAX: Final = 32  # entries of a run that has no line yet, which small groups never need

Ranked = tuple[Any, QueueEntry]


class Unplaced:
    """An owner that is no consumer: no consumer may have the group, and nothing is placed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name}>"


GETTER: Final = Unplaced("basic.get")
LEAVER: Final = Unplaced("a consumer that has left")
NEXT_OWNER: Final = Unplaced("the next consumer")


class GroupTag(NamedTuple):
    """The group of a message; ``key`` None: it has none. ``sequence`` 0: not said."""

    key: Any
    sequence: int


@mypyc_attr(allow_interpreted_subclasses=True)
class Group:
    """``outstanding``: acquired entries. ``runs``: its parked entries, by what they match."""

    __slots__ = ("key", "outstanding", "owner", "runs")

    def __init__(self, key: Any) -> None:
        self.key = key
        self.owner: object | None = None
        self.outstanding = 0
        self.runs: dict[int, ParkedRun] = {}

    @property
    def is_idle(self) -> bool:
        if self.outstanding:
            return False
        return all(run.is_empty for run in self.runs.values())

    def __repr__(self) -> str:
        return f"<Group {self.key!r} of {self.owner!r}, {self.outstanding} outstanding>"


class ParkedRun:
    """Parked entries of one group (None: of no group) that match the same selectors, by rank.

    A few stand in a heap. An entry that comes after many others and belongs behind them all, as
    nearly every one does in FIFO, stands in a line: its end costs the same at any depth.
    """

    __slots__ = ("_heap", "_line", "group", "mask")

    def __init__(self, mask: int, group: Group | None) -> None:
        self.mask = mask
        self.group = group
        self._heap: list[Ranked] = []
        self._line: deque[Ranked] | None = None

    def add(self, rank: Any, entry: QueueEntry) -> None:
        line = self._line
        if line is None:
            if len(self._heap) < RUN_HEAP_MAX:
                heappush(self._heap, (rank, entry))
                return
            line = self._line = deque()
        if not line or rank > line[-1][0]:
            line.append((rank, entry))
        else:
            heappush(self._heap, (rank, entry))

    def head(self) -> Ranked | None:
        """Rank and entry of the first that is still there."""
        heap, line = self._heap, self._line
        while heap and heap[0][1].state == SETTLED:
            heappop(heap)
        if not line:
            return heap[0] if heap else None
        while line and line[0][1].state == SETTLED:
            line.popleft()
        if heap and (not line or heap[0][0] < line[0][0]):
            return heap[0]
        return line[0] if line else None

    def take(self) -> QueueEntry:
        """Remove what ``head`` has just shown."""
        heap, line = self._heap, self._line
        if line and not (heap and heap[0][0] < line[0][0]):
            return line.popleft()[1]
        return heappop(heap)[1]

    @property
    def is_empty(self) -> bool:
        return self.head() is None

    def entries(self) -> list[QueueEntry]:
        """Those that are still there, in no order."""
        return [entry for _, entry in self.ranked() if entry.state != SETTLED]

    def ranked(self) -> list[Ranked]:
        """Rank and entry of all, in no order, settled ones too: a copy, for operators."""
        return [*self._heap, *(self._line or ())]

    def sweep(self) -> None:
        """Let go of settled entries."""
        self._heap = [pair for pair in self._heap if pair[1].state != SETTLED]
        heapify(self._heap)
        if self._line is not None:
            self._line = deque([pair for pair in self._line if pair[1].state != SETTLED])

    def clear(self) -> None:
        self._heap.clear()
        self._line = None

    def __hash__(self) -> int:
        return id(self)  # a compiled class that has an order has no hash unless it says so

    def __lt__(self, other: ParkedRun) -> bool:
        """For heads of the same rank, all but one of which are old; so any order will do."""
        return id(self) < id(other)


class GroupKeys:
    """Reads the group of a message: ``header`` names the header, None is JMSXGroupID.

    ``buckets``: so many groups, each of all values with the same hash; 0: a group for each value.
    """

    __slots__ = ("_buckets", "_default", "_headers")

    def __init__(self, header: str | None, default: str | None, buckets: int = 0) -> None:
        self._headers = KEY_HEADERS if header is None else (header,)
        self._default = default
        self._buckets = buckets

    def __call__(self, message: Message) -> GroupTag:
        key: Any = None
        for name in self._headers:
            value = message.header(name)
            if isinstance(value, str | int | float | bytes):
                key = value if isinstance(value, str) else (type(value).__name__, value)
                break
        if key is None:
            key = self._default
        if self._buckets and key is not None:
            key = ("int", hash(key) % self._buckets)
        sequence = message.header(SEQUENCE_HEADER)
        return GroupTag(key, sequence if isinstance(sequence, int) else 0)


class Groups:
    """All groups of one queue; read ``by_key``, do not change it.

    ``rebalance``: "on": when a consumer comes, groups without unacked messages are free; "pause":
    the others too, as soon as these are settled, and get nothing until then. ``first_key``: header
    of the first message of a group that a consumer gets; None: it has none.
    """

    __slots__ = ("_sweep_at", "by_key", "first_key", "is_shared", "keys", "rebalance")

    def __init__(
        self,
        group_type: GroupType,
        *,
        header: str | None = None,
        default: str | None = None,
        buckets: int = 0,
        rebalance: Rebalance = "off",
        first_key: str | None = None,
    ) -> None:
        self.is_shared = group_type == "shared"
        default = (default or DEFAULT_GROUP) if self.is_shared else None
        self.keys = GroupKeys(header, default, buckets)
        self.rebalance = rebalance
        self.first_key = first_key
        self.by_key: dict[Any, Group] = {}
        self._sweep_at = IDLE_GROUPS_MAX

    def get(self, key: Any) -> Group:
        """The group of this key, a new one if there is none."""
        group = self.by_key.get(key)
        if group is None:
            if len(self.by_key) >= self._sweep_at:
                self._forget_idle()
            group = self.by_key[key] = Group(key)
        return group

    def owned_by(self, owner: object) -> list[Group]:
        """The groups that this consumer has; it goes over all groups, for consumers that leave."""
        return [group for group in self.by_key.values() if group.owner is owner]

    def _forget_idle(self) -> None:
        """Drop the older half of the groups without entries; some of them may have an owner."""
        idle = [group for group in self.by_key.values() if group.is_idle]
        for group in idle[: len(idle) // 2 + 1]:
            group.owner = None
            del self.by_key[group.key]
        self._sweep_at = max(IDLE_GROUPS_MAX, 2 * len(self.by_key))

    def __len__(self) -> int:
        return len(self.by_key)
