"""The client at the other end of a connection: what it said of itself, and what it may do.

The handshake fills a ``Client`` step by step, ``amqp.connection`` renews its rights when users are
reloaded. Channels and their parts read it. It also stands for the connection as the owner of its
exclusive queues (``queues.core.ownership``).

Invariant: ``vhost`` and ``access`` are set before the first channel exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern

from hareline.amqp.dialect import QPID, RABBITMQ, Dialect, dialect_of
from hareline.auth.permissions import AccessChecker
from hareline.auth.users import INTERNAL, User, UserRegistry
from hareline.broker.vhost import VirtualHost
from hareline.message import Publisher
from hareline.wire.table import Table


class Client:
    """``user`` is None until the login, ``vhost`` and ``access`` have no value before open.

    ``mechanism``: of its login. ``is_open``: connection.open was granted, so it counts as one.
    ``publisher`` stands for the connection in its messages. ``takes_channel_flow``: it holds its
    publishes back at channel.flow. ``takes_consumer_cancel``: it takes a basic.cancel.
    """

    __slots__ = (
        "access",
        "dialect",
        "is_open",
        "mechanism",
        "properties",
        "publisher",
        "takes_channel_flow",
        "takes_consumer_cancel",
        "user",
        "vhost",
    )

    def __init__(self) -> None:
        self.properties = Table()
        self.mechanism = ""
        self.is_open = False
        self.dialect: Dialect = RABBITMQ
        self.publisher = Publisher()
        self.takes_channel_flow = False
        self.takes_consumer_cancel = False
        self.user: User | None = None
        self.vhost: VirtualHost
        self.access: AccessChecker

    def set_properties(self, properties: Table) -> None:
        """Take over the client-properties of start-ok, and what follows from them."""
        self.properties = properties = _sharing_texts(properties)
        self.takes_channel_flow = blocks_on_channel_flow(properties)
        self.takes_consumer_cancel = self.has_capability("consumer_cancel_notify")
        self.dialect = dialect_of(properties)
        if self.dialect.keeps_durable_exclusive:
            client_id = properties.get("instance")
            self.publisher = Publisher(client_id if isinstance(client_id, str) else "")

    def has_capability(self, name: str) -> bool:
        """Whether the client-properties list this capability."""
        capabilities = self.properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(name) is True

    @property
    def expires(self) -> bool:
        """Whether the login ends by itself."""
        return self.user is not None and self.user.expires_ms is not None

    def renew(self, users: UserRegistry) -> bool:
        """Take over what the user may do now; False if there is no such user any more.

        A user of another backend keeps its rights. Raises NotAllowed if it may not use the virtual
        host any more.
        """
        assert self.user is not None
        user: User | None = self.user
        if self.user.backend == INTERNAL:
            user = users.lookup(self.user.name)
        if user is None:
            return False
        if user != self.user or users.rules is not self.access.rules:
            self.user = user
            self.access = users.checker(user, self.vhost.name, self.access.host)
        return True


def _sharing_texts(properties: Table) -> Table:
    """These properties with each name and text only once in memory, for all connections.

    The connections of a client library say the same of themselves, in some 700 octets each.
    """
    shared = Table()
    for name, value in properties.items():
        if isinstance(value, Table):
            shared[intern(name)] = _sharing_texts(value)
        else:
            shared[intern(name)] = intern(value) if isinstance(value, str) else value
    return shared


def blocks_on_channel_flow(properties: Mapping[str, object]) -> bool:
    """Whether this client is known to hold its publishes back at channel.flow(active=false).

    Others ignore it, or close the channel over it (amqplib), since RabbitMQ never sends it.
    """
    if properties.get("product") == "RabbitMQ":
        return properties.get("platform") == "Java"
    return dialect_of(properties) is QPID
