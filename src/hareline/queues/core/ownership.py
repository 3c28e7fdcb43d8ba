"""Owners of exclusive queues: the declaring connection, or all connections of a client id.

The first is AMQP 0-9-1's rule; the owner is the connection's ``amqp.client.Client``. The second
is what JMS makes of a durable subscription: its queue outlives the connection and is there for the
next one with the same client id, and for no other (Qpid Broker-J, exclusivity policy CONTAINER).
Called by ``broker.registry`` and ``broker.declarations``.

Invariant: an owner that is a ``ClientOwner`` is kept in the definitions, any other never.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hareline.message import Publisher


@dataclass(frozen=True, slots=True)
class ClientOwner:
    """The connections of one client id, in the past and in the future."""

    client_id: str


@runtime_checkable
class Peer(Protocol):
    """A connection, as far as ownership goes."""

    publisher: Publisher


def may_use(owner: object, requester: object) -> bool:
    """True if ``requester``, a connection or None, may use a queue of this owner.

    A queue whose owner is None is for all.
    """
    if owner is None or owner is requester:
        return True
    return isinstance(owner, ClientOwner) and owner == client_owner(requester)


def client_owner(requester: object) -> ClientOwner | None:
    """The owner for all connections of this one's client id; None if it has given none."""
    client_id = requester.publisher.client_id if isinstance(requester, Peer) else ""
    return ClientOwner(client_id) if client_id else None


def is_own(owner: object, publisher: Publisher) -> bool:
    """True if a queue of this owner is exclusively that of a message's publisher."""
    if isinstance(owner, ClientOwner):
        return owner.client_id == publisher.client_id
    return isinstance(owner, Peer) and owner.publisher is publisher
