"""Client at the other end of a connection: its dialect, its properties, and its rights.

The handshake fills a ``Client`` step by step; it also stands for the connection as the owner of its
exclusive queues (``queues.core.ownership``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from sys import intern
from typing import Final

from hareline.auth.permissions import AccessChecker
from hareline.auth.users import INTERNAL, User, UserRegistry
from hareline.broker.vhost import VirtualHost
from hareline.message import Publisher
from hareline.wire.table import Table


@dataclass(frozen=True, slots=True)
class Dialect:
    """Named switches; each is about one method, or one moment in a connection's life.

    AMQP 0-9-1 leaves room, and RabbitMQ and Qpid Broker-J have filled it differently. A connection
    is given one of two dialects at start-ok, and code that behaves differently asks for a switch:
    nothing else in the broker knows of products. docs/jms.md says what each means for a client.
    """

    name: str
    #: basic.qos is for the channel, and in force at once, whatever its bit ``global`` says
    has_live_qos: bool = False
    #: basic.recover with requeue=0 is served: the same consumers get everything unacknowledged
    #: again, in the order of delivery
    recovers_without_requeue: bool = False
    #: basic.reject with requeue=0 gives the message back, and the delivery limit counts that, and
    #: no other way of coming back
    counts_rejects_only: bool = False
    #: basic.reject and nack do not wait for tx.commit
    rejects_at_once: bool = False
    #: tx.rollback makes ready again what is unacked, with what was acknowledged in the transaction
    releases_at_rollback: bool = False
    #: settling a delivery tag that is not outstanding does nothing
    ignores_unknown_tags: bool = False
    #: a durable exclusive queue is the client id's, and stays
    keeps_durable_exclusive: bool = False
    #: a binding takes the place of one with the same queue and key
    replaces_bindings: bool = False
    #: a queue that is declared again is held to exclusivity and auto-delete only, not to durability
    #: and arguments; an exchange to its type only
    redeclares_leniently: bool = False
    #: exchange.declare of "" is no error
    declares_default_exchange: bool = False
    #: basic.publish with immediate=1 is served
    takes_immediate: bool = False
    #: what is returned is not confirmed but refused, by basic.nack; a mandatory message that no
    #: queue takes ends a connection that publishes it in a transaction, unless its client opts out
    refuses_returned: bool = False
    #: a mandatory publish under confirms that a full queue or the store refuses is returned with
    #: 506, in front of its nack
    returns_what_is_nacked: bool = False
    #: a consumer that closes at the end of its queue gets a cancel-ok; no consumer is told of a
    #: deleted queue
    is_end_reported: bool = False
    #: wrong credentials are answered by connection.close
    is_refused_by_close: bool = False
    #: the bit no-local of basic.consume counts; its messages carry who has published them
    has_no_local: bool = False
    #: a consumer's x-priority, which may also be numeric text, puts it behind those without one:
    #: they are of the highest there is
    ranks_below_default: bool = False
    #: a selector that is not valid closes the channel with 409, not 406
    is_invalid_selector_argument: bool = False
    #: a consumer that is refused with 403 loses the connection (Qpid's client in Java waits for
    #: itself when only the channel of a durable subscriber is closed)
    refuses_consume_by_connection: bool = False


RABBITMQ: Final = Dialect("rabbitmq")
QPID: Final = Dialect("qpid", *[True] * (len(fields(Dialect)) - 1))


def dialect_of(client_properties: Mapping[str, object]) -> Dialect:
    """The dialect of a client that calls itself this in start-ok.

    Qpid's clients are ``qpid`` by product, and name their process and its id in properties that
    begin with ``qpid.`` (qpid-jms-amqp-0-x, ``ConnectionStartProperties``).
    """
    if "qpid" in str(client_properties.get("product", "")).lower():
        return QPID
    return QPID if any(name.startswith("qpid.") for name in client_properties) else RABBITMQ


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
        """True if the client-properties list this capability."""
        capabilities = self.properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(name) is True

    @property
    def expires(self) -> bool:
        """True if the login ends by itself."""
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
    """True if this client is known to hold its publishes back at channel.flow(active=false).

    Others ignore it, or close the channel over it (amqplib), since RabbitMQ never sends it.
    """
    if properties.get("product") == "RabbitMQ":
        return properties.get("platform") == "Java"
    return dialect_of(properties) is QPID
