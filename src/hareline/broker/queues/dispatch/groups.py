"""Message groups: whose the messages of a group are, and what of them waits.

A group has an *owner* while its messages may go to one consumer only:

=========  =========================================================================================
standard   from its first delivery until the owner leaves (and what it has unacked is settled or
           released), or until the group is closed; a message without a group may go anywhere
shared     while any of its messages is acquired; a message without a group belongs to the default
           group, a group like any other
=========  =========================================================================================

``queues.dispatch.selective`` asks and tells; what a header says is read by ``GroupKeys``.
Semantics: Broker-J's message groups without its hash buckets, so two groups never share a fate;
closing and reassigning by JMSXGroupSeq is ActiveMQ's.                                         [hot]

Invariant: a group with outstanding or parked entries stands in ``Groups``; of the others the older
half is forgotten when there are too many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from hareline.broker.queues.dispatch.parking import ParkedRun
    from hareline.message import Message

GroupType = Literal["standard", "shared"]

DEFAULT_GROUP: Final = "qpid.no-group"  # Broker-J: QPID_DEFAULT_SHARED_MESSAGE_GROUP
KEY_HEADERS: Final = ("JMSXGroupID", "JMSXGroupId")  # its code reads the first, its book the second
SEQUENCE_HEADER: Final = "JMSXGroupSeq"

# Groups at which the idle ones are looked for; a forgotten one is given to whoever is next.
IDLE_GROUPS_MAX: Final = 100_000


class Unplaced:
    """An owner that is no consumer: nobody else may have the group, and it can take nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name}>"


GETTER: Final = Unplaced("basic.get")
LEAVER: Final = Unplaced("a consumer that has left")


class GroupTag(NamedTuple):
    """What a message says of its group; ``key`` None: none. ``sequence`` 0: nothing."""

    key: Any
    sequence: int


class Group:
    """``outstanding``: acquired entries. ``runs``: its parked entries, by what they match."""

    __sruns__ = ("key", "outstanding", "owner", "runs")

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


class GroupKeys:
    """Reads the group of a message: ``header`` names the header, None is JMSXGroupID."""

    __sruns__ = ("_default", "_headers")

    def __init__(self, header: str | None, default: str | None) -> None:
        self._headers = KEY_HEADERS if header is None else (header,)
        self._default = default

    def __call__(self, message: Message) -> GroupTag:
        key: Any = None
        for name in self._headers:
            value = message.header(name)
            if isinstance(value, str | int | float | bytes):
                key = value if isinstance(value, str) else (type(value).__name__, value)
                break
        if key is None:
            key = self._default
        sequence = message.header(SEQUENCE_HEADER)
        return GroupTag(key, sequence if isinstance(sequence, int) else 0)


class Groups:
    """All groups of one queue; ``by_key`` is for looking into, not for changing."""

    __sruns__ = ("_sweep_at", "by_key", "is_shared", "keys")

    def __init__(
        self, group_type: GroupType, *, header: str | None = None, default: str | None = None
    ) -> None:
        self.is_shared = group_type == "shared"
        self.keys = GroupKeys(header, (default or DEFAULT_GROUP) if self.is_shared else None)
        self.by_key: dict[Any, Group] = {}
        self._sweep_at = IDLE_GROUPS_MAX

    def get(self, key: Any) -> Group:
        """The group of this key, a new one where there is none."""
        group = self.by_key.get(key)
        if group is None:
            if len(self.by_key) >= self._sweep_at:
                self._forget_idle()
            group = self.by_key[key] = Group(key)
        return group

    def owned_by(self, owner: object) -> list[Group]:
        """For consumers that leave: it goes over all groups."""
        return [group for group in self.by_key.values() if group.owner is owner]

    def _forget_idle(self) -> None:
        """Drop the older half of the groups that have nothing but, perhaps, an owner."""
        idle = [group for group in self.by_key.values() if group.is_idle]
        for group in idle[: len(idle) // 2 + 1]:
            group.owner = None
            del self.by_key[group.key]
        self._sweep_at = max(IDLE_GROUPS_MAX, 2 * len(self.by_key))

    def __len__(self) -> int:
        return len(self.by_key)
