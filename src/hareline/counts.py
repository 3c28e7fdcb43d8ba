"""Counts of messages, connections and objects: records of integers that only grow.

The objects themselves count as little as possible while messages pass: mostly one number per run
or batch (``amqp.delivery_port``, ``queues.books``). ``Queue.counts``, ``Channel.counts`` and
``LiveConnection.counts`` work a record out when it is asked for. Those that are kept are
``Exchange.counts``, and ``BrokerCounts`` with churn and what objects had counted that are gone.

Names are those of RabbitMQ's management API. Invariant: no number of an object falls while the
object exists, and no total falls at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self


class Counts:
    """A record of counters; each field is one."""

    __slots__ = ()

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The counters, in the order of ``values``."""
        return tuple(cls.__slots__)

    def values(self) -> tuple[int, ...]:
        """The numbers, in the order of ``names``."""
        return tuple([getattr(self, name) for name in self.names()])

    def add(self, other: Self) -> None:
        """Add the numbers of another record of this kind."""
        for name in self.names():
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def as_dict(self) -> dict[str, int]:
        """The numbers by their names in RabbitMQ's JSON."""
        return {name: getattr(self, name) for name in self.names()}


class Deliveries(Counts):
    """Counters with RabbitMQ's sum of the four kinds of deliveries, ``deliver_get``."""

    __slots__ = ()

    deliver: int
    deliver_no_ack: int
    get: int
    get_no_ack: int

    @property
    def deliver_get(self) -> int:
        """Deliveries of all kinds."""
        return self.deliver + self.deliver_no_ack + self.get + self.get_no_ack

    def as_dict(self) -> dict[str, int]:
        return {**Counts.as_dict(self), "deliver_get": self.deliver_get}


@dataclass(slots=True)
class QueueCounts(Deliveries):
    """Of one queue, since the broker has started or the queue was declared.

    ``publish``: messages that it took. ``deliver`` and ``get`` are those to be acknowledged.
    ``redeliver``: of all deliveries, those with the redelivered flag. ``disk_writes``: messages
    that it gave to the store; ``disk_reads``: contents that it read back.
    """

    publish: int = 0
    deliver: int = 0
    deliver_no_ack: int = 0
    get: int = 0
    get_no_ack: int = 0
    get_empty: int = 0
    ack: int = 0
    redeliver: int = 0
    disk_reads: int = 0
    disk_writes: int = 0


@dataclass(slots=True)
class ChannelCounts(Deliveries):
    """Of one channel. ``confirm``: publishes answered by basic.ack, not those refused by a nack.

    ``publish`` includes what no queue took: ``return_unroutable`` went back to the client,
    ``drop_unroutable`` was dropped. In a transaction all of it counts at the commit.
    """

    publish: int = 0
    confirm: int = 0
    return_unroutable: int = 0
    drop_unroutable: int = 0
    deliver: int = 0
    deliver_no_ack: int = 0
    get: int = 0
    get_no_ack: int = 0
    get_empty: int = 0
    ack: int = 0
    redeliver: int = 0


@dataclass(slots=True)
class ConnectionCounts(Counts):
    """Octets of a connection, and how often its socket was read and written ("packets")."""

    recv_oct: int = 0
    recv_cnt: int = 0
    send_oct: int = 0
    send_cnt: int = 0


@dataclass(slots=True)
class ExchangeCounts(Counts):
    """Messages published to an exchange, and how many queues took them, summed up."""

    publish_in: int = 0
    publish_out: int = 0


@dataclass(slots=True)
class ChurnCounts(Counts):
    """Counts of what came and went. ``queue_declared``: each queue.declare that was answered."""

    connection_created: int = 0
    connection_closed: int = 0
    channel_created: int = 0
    channel_closed: int = 0
    queue_declared: int = 0
    queue_created: int = 0
    queue_deleted: int = 0


class EndedObjects:
    """Keys and groups of objects that have ended, for the sampler; see ``Source.take_ended``."""

    __slots__ = ("by_kind",)

    def __init__(self) -> None:
        self.by_kind: dict[str, list[tuple[tuple[str, ...], str]]] = {}

    def add(self, kind: str, key: tuple[str, ...], group: str) -> None:
        """An object of this kind has ended."""
        self.by_kind.setdefault(kind, []).append((key, group))

    def take(self, kind: str) -> list[tuple[tuple[str, ...], str]]:
        """Those of this kind since the last call."""
        return self.by_kind.pop(kind, [])


@dataclass(slots=True)
class GoneCounts:
    """Counts made by channels, queues and connections that are gone."""

    channels: ChannelCounts = field(default_factory=ChannelCounts)
    queues: QueueCounts = field(default_factory=QueueCounts)
    connections: ConnectionCounts = field(default_factory=ConnectionCounts)


class ReachedLimits:
    """Count for each limit of what it refused, or made wait; docs/limits.md names them."""

    __slots__ = ("by_limit",)

    def __init__(self) -> None:
        self.by_limit: dict[str, int] = {}

    def count(self, limit: str) -> None:
        """This limit was reached once more."""
        self.by_limit[limit] = self.by_limit.get(limit, 0) + 1


@dataclass(slots=True)
class BrokerCounts:
    """Kept by the context: churn, logins, and what is to be added to the sums over live objects.

    ``slow_consumers``: by rule and action. ``ended`` is None while nothing samples.
    """

    churn: ChurnCounts = field(default_factory=ChurnCounts)
    consumers_created: int = 0
    consumers_closed: int = 0
    auth_attempts: int = 0
    auth_attempts_failed: int = 0
    limits_reached: ReachedLimits = field(default_factory=ReachedLimits)
    slow_consumers: dict[tuple[str, str], int] = field(default_factory=dict)
    gone: GoneCounts = field(default_factory=GoneCounts)
    ended: EndedObjects | None = None


class VhostCounts:
    """Counts of what is gone of one virtual host; each number counts for its ``broker`` too."""

    __slots__ = ("broker", "gone")

    def __init__(self, broker: BrokerCounts | None = None) -> None:
        self.broker = BrokerCounts() if broker is None else broker
        self.gone = GoneCounts()

    def on_channel_ended(self, vhost: str, name: str, counts: ChannelCounts) -> None:
        """A channel with this name and these counts is closed."""
        self.gone.channels.add(counts)
        self.broker.gone.channels.add(counts)
        self.broker.churn.channel_closed += 1
        self._note("channel", (name,), vhost)

    def on_connection_ended(self, vhost: str, name: str, counts: ConnectionCounts) -> None:
        """A connection that was open is closed."""
        self.gone.connections.add(counts)
        self.broker.gone.connections.add(counts)
        self.broker.churn.connection_closed += 1
        self._note("connection", (name,), vhost)

    def on_queue_ended(self, vhost: str, name: str, counts: QueueCounts) -> None:
        """A queue is deleted."""
        self.gone.queues.add(counts)
        self.broker.gone.queues.add(counts)
        self._note("queue", (vhost, name), vhost)

    def on_exchange_ended(self, vhost: str, name: str) -> None:
        """An exchange is deleted."""
        self._note("exchange", (vhost, name), vhost)

    def _note(self, kind: str, key: tuple[str, ...], group: str) -> None:
        if self.broker.ended is not None:
            self.broker.ended.add(kind, key, group)
