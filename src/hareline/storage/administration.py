"""Records of what is administered at run time, and the interface of the store that keeps them.

A record is a value; its key is its first fields (``KEY_FIELDS``), and a later record with the same
key takes the place of the earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from hareline.errors import StoreError


class UserRecord(NamedTuple):
    """A user. ``is_own``: the user exists because of this record, and not of the settings.

    ``password_hash``, ``hashing``: see ``auth.passwords``; an empty hash accepts no password.
    ``scram``: keys for SCRAM as text, or empty. ``limits``: ``max-connections``, ``max-channels``.
    """

    name: str
    password_hash: str
    hashing: str
    scram: str
    tags: tuple[str, ...]
    limits: Mapping[str, int]
    is_own: bool


class VhostRecord(NamedTuple):
    """A virtual host. ``is_own``: it exists because of this record, and not of the settings.

    ``default_queue_type``: empty for the broker's. ``is_traced``: its firehose is on.
    ``is_protected``: it cannot be deleted. ``limits``: ``max-connections``, ``max-queues``.
    """

    name: str
    description: str
    tags: tuple[str, ...]
    default_queue_type: str
    is_traced: bool
    is_protected: bool
    limits: Mapping[str, int]
    is_own: bool


class PermissionRecord(NamedTuple):
    """Rights of a user in a virtual host, as patterns."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermissionRecord(NamedTuple):
    """Routing keys that a user may use with a topic exchange, as patterns."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class PolicyRecord(NamedTuple):
    """A policy, or an operator policy. ``definition``: keys and values as JSON has them."""

    vhost: str
    is_operator: bool
    name: str
    pattern: str
    apply_to: str
    priority: int
    definition: Mapping[str, Any]


class ParameterRecord(NamedTuple):
    """A value that a component of the broker, or of a client, keeps in a virtual host."""

    component: str
    vhost: str
    name: str
    value: Any


class GlobalParameterRecord(NamedTuple):
    """A value that belongs to no virtual host."""

    name: str
    value: Any


class RemovedDefault(NamedTuple):
    """Default of a broker without settings that was removed: ``kind`` "user" or "vhost"."""

    kind: str
    name: str


Record = (
    UserRecord
    | VhostRecord
    | PermissionRecord
    | TopicPermissionRecord
    | PolicyRecord
    | ParameterRecord
    | GlobalParameterRecord
    | RemovedDefault
)
R = TypeVar("R", bound=Record)

#: Kind of record -> how many of its fields are its key.
KEY_FIELDS: Final[Mapping[type, int]] = {
    UserRecord: 1,
    VhostRecord: 1,
    PermissionRecord: 2,
    TopicPermissionRecord: 3,
    PolicyRecord: 3,
    ParameterRecord: 3,
    GlobalParameterRecord: 1,
    RemovedDefault: 2,
}


def key_of(record: Record) -> tuple[Any, ...]:
    """The fields that tell a record from others of its kind."""
    return tuple(record[: KEY_FIELDS[type(record)]])


class AdministrationStore:
    """Store of records. Raises StoreError, which names the file.

    A change is made as a whole or not at all. A store may write later, as ``when_settled`` tells.
    This class keeps nothing, for brokers without a disk.
    """

    __slots__ = ()

    def put(self, *records: Record) -> None:
        """Write these as one change, in place of those with the same keys."""

    def delete(self, *records: Record) -> None:
        """Delete those with the keys of these, as one change; a missing one is no error."""

    def records(self, kind: type[R]) -> list[R]:
        """All records of a kind, by key."""
        return []

    def delete_vhost(self, name: str, *, is_repeated: bool = False) -> None:
        """Delete a virtual host with all records and all definitions that belong to it.

        ``is_repeated``: with the next change if it is lost.
        """

    def has_definitions(self, vhost: str) -> bool:
        """True if there are exchanges or queues of this virtual host."""
        return False

    def when_settled(self, callback: Callable[[StoreError | None], None]) -> bool:
        """Call this when what was changed is durable, or with the error if it is lost.

        Returns False, and does not call it, if all that was changed is durable.
        """
        return False
