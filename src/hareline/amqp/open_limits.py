"""Whether one connection or one channel more may be opened, by every limit that there is.

``amqp.handshake`` asks for a connection, ``amqp.channels`` for a channel; both note here what was
opened and what has ended. Texts are RabbitMQ's where it has the limit.

Invariant: what is counted as open is counted as ended once, in the names that it was opened in.
"""

from __future__ import annotations

from hareline.amqp.client import Client
from hareline.amqp.context import Context
from hareline.auth.peer import network_of
from hareline.auth.users import User
from hareline.broker.capacity import LOW_ON_MEMORY
from hareline.errors import NotAllowed, ResourceError


def check_connection(context: Context, vhost_name: str, user: User, host: str) -> None:
    """Raise NotAllowed if a limit on connections is reached, ResourceError if memory is short.

    ``host``: the client's address.
    """
    open_now, limits, refused = context.open_counts, context.limits, context.counts.limits_reached
    limit = context.vhost_connection_limits.get(vhost_name)
    if limit is not None and open_now.by_vhost.get(vhost_name, 0) >= limit:
        refused.count("vhost.max-connections")
        raise NotAllowed(
            f"access to vhost '{vhost_name}' refused for user '{user.name}': "
            f"connection limit ({limit}) is reached"
        )
    limit = _of_user(user.max_connections, limits.max_connections_per_user)
    if limit is not None and open_now.by_user.get(user.identity, 0) >= limit:
        refused.count("user.max-connections")
        raise NotAllowed(
            f"connection refused for user '{user.name}': user connection limit ({limit}) is reached"
        )
    limit = limits.max_connections_per_address
    if limit and open_now.by_address.get(network_of(host), 0) >= limit:
        refused.count("max_connections_per_address")
        raise NotAllowed(
            f"connection refused for address '{network_of(host)}': address connection limit "
            f"({limit}) is reached"
        )
    limit = limits.max_connections
    if limit and open_now.connections >= limit:
        refused.count("max_connections")
        raise NotAllowed(f"connection refused: node connection limit ({limit}) is reached")
    if context.capacity.is_critical:
        refused.count("memory")
        raise ResourceError(f"connection refused: {LOW_ON_MEMORY}")


def check_channel(context: Context, user: User | None) -> None:
    """Raise NotAllowed if a limit on channels is reached, ResourceError if memory is short.

    How many one connection may have is for its own ``Channels``.
    """
    open_now, limits, refused = context.open_counts, context.limits, context.counts.limits_reached
    if user is not None:
        limit = _of_user(user.max_channels, limits.max_channels_per_user)
        if limit is not None and open_now.channels_by_user.get(user.identity, 0) >= limit:
            refused.count("user.max-channels")
            raise NotAllowed(
                f"number of channels opened for user '{user.name}' has reached the maximum "
                f"allowed user limit of ({limit})",
                class_id=0,
                method_id=0,
            )
    if limits.max_channels and open_now.channels >= limits.max_channels:
        refused.count("max_channels")
        raise NotAllowed(
            f"number of channels opened on node '{context.identity.node}' has reached the maximum "
            f"allowed limit of ({limits.max_channels})",
            class_id=0,
            method_id=0,
        )
    if context.capacity.is_critical:
        refused.count("memory")
        raise ResourceError(f"channel refused: {LOW_ON_MEMORY}", class_id=0, method_id=0)


def _of_user(own: int | None, for_all: int) -> int | None:
    """The limit that holds for a user: its own, or else that of all users, where 0 means none."""
    return own if own is not None else for_all or None


def count_connection(context: Context, by: int, client: Client, host: str) -> None:
    """A connection that was granted is open (1), or no longer is (-1)."""
    if client.user is not None:
        context.open_counts.count_connection(by, client.vhost.name, client.user.identity, host)


def count_channel(context: Context, by: int, client: Client) -> None:
    """A channel is open (1), or both sides have closed it (-1)."""
    if client.user is not None:
        context.open_counts.count_channel(by, client.user.identity)
