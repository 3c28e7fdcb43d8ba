"""Measured times and live objects with their labels: everything that a scrape reads.

``hareline.server.http_side`` makes one ``MetricsSource``; ``metrics.rendering`` goes through it for
each scrape. Nothing is changed by reading, and iterating may stop at any object and go on later,
whatever has come and gone meanwhile.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from hareline.amqp.connection import Connection
from hareline.amqp.context import Context
from hareline.metrics.exposition import label
from hareline.statistics.facts import TlsFacts
from hareline.statistics.readings import channel_facts, connection_facts, queue_facts
from hareline.statistics.sampler import Sampler
from hareline.statistics.sources import consumer_capacity
from hareline.statistics.timings import Timings
from hareline.statistics.unacked import Deliveries
from hareline.storage.interface import MessageStore


class JournalMeter:
    """Durations of the journal's batches. ``octets``: of all of them."""

    __slots__ = ("octets", "syncs", "writes")

    def __init__(self) -> None:
        self.writes = Timings()
        self.syncs = Timings()
        self.octets = 0

    def on_batch(self, octets: int, write_s: float, sync_s: float | None) -> None:
        """A batch is on the disk; ``sync_s`` None: it was written and not synced."""
        self.octets += octets
        self.writes.add(write_s)
        if sync_s is not None:
            self.syncs.add(sync_s)


@dataclass(frozen=True, slots=True)
class Meters:
    """``loop_lag``: how late the event loop is; ``collections``: of the garbage collector."""

    loop_lag: Timings = field(default_factory=Timings)
    turns: Timings = field(default_factory=Timings)
    collections: Timings = field(default_factory=Timings)
    journal: JournalMeter = field(default_factory=JournalMeter)


# --------------------------------------------------------------------------- the source of a scrape


Kind = Literal["queue", "channel", "connection", "exchange"]

_DESCRIPTORS: Final = Path("/proc/self/fd")


class Found(NamedTuple):
    """A live object: its labels as text, its virtual host ("" for none), and what is known of it.

    ``kind_of_queue``: "classic", "quorum" or "stream", empty for anything else.
    """

    labels: str
    vhost: str
    facts: Any
    kind_of_queue: str = ""


@dataclass(frozen=True, slots=True)
class MetricsSource:
    """``memory`` and ``disk``: octets in use or free, and the watermark. ``sampler`` None: nothing
    is sampled. ``tls`` returns None where no port has TLS."""

    context: Context
    store: MessageStore
    memory: Callable[[], tuple[int, int]]
    disk: Callable[[], tuple[int, int]]
    meters: Meters
    sampler: Sampler | None = None
    tls: Callable[[], TlsFacts | None] = lambda: None
    started_s: float = field(default_factory=time.monotonic)

    def objects(self, kind: Kind) -> Iterator[Found | None]:
        """The live objects of a kind; None where an object has ended meanwhile."""
        if kind == "queue":
            return self._queues()
        if kind == "exchange":
            return self._exchanges()
        return self._connections() if kind == "connection" else self._channels()

    def _queues(self) -> Iterator[Found | None]:
        deliveries = Deliveries()
        for vhost in list(self.context.vhosts.values()):
            of_vhost = label("vhost", vhost.name)
            for queue in list(vhost.queues.values()):
                arguments = vhost.queue_arguments.get(queue.name)
                if queue.is_deleted or arguments is None:
                    yield None
                    continue
                labels = f"{of_vhost},{label('queue', queue.name)}"
                kind = arguments.queue_type or "classic"
                capacity = consumer_capacity(self.sampler, vhost.name, queue)
                yield Found(labels, vhost.name, queue_facts(queue, capacity, deliveries), kind)

    def _exchanges(self) -> Iterator[Found | None]:
        for vhost in list(self.context.vhosts.values()):
            of_vhost = label("vhost", vhost.name)
            for exchange in list(vhost.exchanges.values()):
                labels = f"{of_vhost},{label('exchange', exchange.name)}"
                yield Found(labels, vhost.name, exchange.counts)

    def _running(self) -> Iterator[Connection]:
        for connection in list(self.context.connections):
            if isinstance(connection, Connection) and connection.is_running:
                yield connection

    def _connections(self) -> Iterator[Found | None]:
        for connection in self._running():
            facts = connection_facts(connection)
            yield Found(label("connection", facts.name), facts.vhost, facts)

    def _channels(self) -> Iterator[Found | None]:
        for connection in self._running():
            for channel in list(connection.channels.by_number.values()):
                facts = channel_facts(channel)
                yield Found(label("channel", facts.name), facts.vhost, facts)

    # ----------------------------------------------------------------------- the process

    @property
    def uptime_s(self) -> float:
        """Seconds since the start of the broker."""
        return round(time.monotonic() - self.started_s, 3)

    @property
    def cpu_s(self) -> float:
        """Processor time of this process, in user and system mode."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    @property
    def used_memory(self) -> int:
        """Octets in use."""
        return self.memory()[0]

    @property
    def memory_watermark(self) -> int:
        """Octets above which the memory alarm is set."""
        return self.memory()[1]

    @property
    def free_disk(self) -> int:
        """Octets free on the disk."""
        return self.disk()[0]

    @property
    def disk_watermark(self) -> int:
        """Octets below which the disk alarm is set."""
        return self.disk()[1]

    @property
    def open_descriptors(self) -> int:
        """Number of file descriptors that this process has open; 0 if not known."""
        try:
            size = _DESCRIPTORS.stat().st_size  # Linux 6.2 and later say it here
            return size or len(os.listdir(_DESCRIPTORS))  # noqa: PTH208 - half the time
        except OSError:
            return 0

    @property
    def descriptors_max(self) -> int:
        """Limit of open file descriptors."""
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    @property
    def sockets(self) -> int:
        """Number of connections."""
        return len(self.context.connections)

    @property
    def sockets_max(self) -> int:
        """Limit of connections, of the settings or else of descriptors."""
        return self.context.limits.max_connections or self.descriptors_max

    @property
    def succeeded_logins(self) -> int:
        """Number of logins that did not fail."""
        return self.context.counts.auth_attempts - self.context.counts.auth_attempts_failed
