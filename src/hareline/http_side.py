"""The HTTP side of a broker: from its parts to the application on the management port, and back.

``server`` imports this only where the management port is switched on, so that a broker without it
has none of FastAPI in memory. ``HttpSide`` starts when the journal has been read, and stops when
the connections are gone.

Invariant: it is given parts and makes none that the broker works without.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hareline.administration import Administration
from hareline.amqp.context import Context
from hareline.events import Report
from hareline.management.api import ROUTERS
from hareline.management.api.site import ListenerFacts, NodeFacts, ResourceFacts, Site
from hareline.management.app import create_app
from hareline.management.authentication import Authenticator
from hareline.management.health import Health
from hareline.management.listener import ManagementListener
from hareline.management.login_limits import LoginLimits
from hareline.management.reader_process import ReaderProcess
from hareline.management.readers import ReaderService
from hareline.management.replay import ReplayService
from hareline.management.stream_access import StreamAccess
from hareline.management.streams import StreamService
from hareline.net.binding import Address, listen_error
from hareline.net.disk import disk_space
from hareline.net.memory import MemoryWatch, used_bytes
from hareline.net.sampling import Statistics
from hareline.settings import Settings
from hareline.storage.interface import MessageStore
from hareline.storage.opening import DiskStorage


@dataclass(frozen=True, slots=True)
class BrokerParts:
    """What the HTTP side is given. ``storage`` None: nothing is kept on disk.

    What may change while the broker runs is a function. ``listening``: host and port of each AMQP
    listener.
    """

    context: Context
    storage: DiskStorage | None
    store: MessageStore
    memory_watch: MemoryWatch
    statistics: Statistics
    administration: Administration
    settings: Callable[[], Settings]
    is_stopping: Callable[[], bool]
    listening: Callable[[], Sequence[tuple[str, int]]]
    report: Report


class HttpSide:
    """``address`` and ``sockets``: where it listens. ``site``: what the API's routes are given."""

    def __init__(self, parts: BrokerParts, address: Address) -> None:
        self._parts = parts
        self._address = address
        self._bound: tuple[str, int] = (address.host, address.port)
        context = parts.context
        authenticator = Authenticator(
            context.users,
            lambda: context.limits.authentication_failure_delay_s,
            parts.report,
            LoginLimits(lambda: parts.settings().management.login_failures_max, time.monotonic),
        )
        sampler = parts.statistics.sampler
        self.site = Site(context, authenticator, parts.settings, self._node(), sampler)
        self.site.administration = parts.administration
        access = StreamAccess(authenticator, context.vhosts)
        self._streams = self._stream_service(access)
        routers = [router(self.site) for router in ROUTERS]
        routers += [
            self._replay_service(authenticator).router(),
            self._streams.router(),
            ReaderService(access).router(),
        ]
        self._listener = ManagementListener(create_app(self.health, routers))

    def start(self, sockets: Sequence[socket.socket]) -> tuple[str, int]:
        """Listen; returns host and port. Raises ListenError."""
        try:
            self._bound = self._listener.start(sockets)
        except OSError as error:
            raise listen_error(self._address, error) from error
        return self._bound

    async def stop(self) -> None:
        """End what is under way, and close the port."""
        await self._streams.stop()
        await self._listener.stop()

    def health(self) -> Health:
        """How the broker is now."""
        alarms, store = self._parts.context.alarms, self._parts.store
        reasons = [alarms.reason if alarms.is_on else "", store.refusal]
        is_stopping = self._parts.is_stopping()
        return Health(
            status="stopping" if is_stopping else "failed" if store.failure else "ok",
            alarms=alarms.resources,
            publishers_blocked=alarms.is_on,
            store="failed" if store.failure else "refusing" if store.refusal else "ok",
            reason="; ".join(filter(None, reasons)),
        )

    def _node(self) -> NodeFacts:
        storage = self._parts.storage
        return NodeFacts(
            name=self._parts.context.identity.node,
            data_dir=None if storage is None else storage.directory.path,
            listeners=self._listeners,
            health=self.health,
            memory=self._memory,
            disk=self._disk,
            numbers=self._parts.statistics.node,
        )

    def _listeners(self) -> list[ListenerFacts]:
        amqp = [ListenerFacts("amqp", *each) for each in self._parts.listening()]
        return [*amqp, ListenerFacts("http", *self._bound)]

    def _memory(self) -> ResourceFacts:
        return ResourceFacts(used_bytes(), self._parts.memory_watch.watermark_bytes)

    def _disk(self) -> ResourceFacts:
        storage, disk = self._parts.storage, self._parts.settings().disk
        try:
            space = disk_space(Path("/") if storage is None else storage.directory.path)
        except OSError:  # unmounted, or removed: the store has failed by then, and says so
            return ResourceFacts(0, 0)
        return ResourceFacts(space.free_bytes, disk.watermark_bytes(space.total_bytes))

    def _stream_service(self, access: StreamAccess) -> StreamService:
        places = reader = None
        if self._parts.storage is not None:
            places = self._parts.storage.ranges()
            reader = ReaderProcess(places.directory, places.large_directory, self._parts.report)
        return StreamService(access, places, reader)

    def _replay_service(self, authenticator: Authenticator) -> ReplayService:
        parts, context = self._parts, self._parts.context
        return ReplayService(
            authenticator,
            context.vhosts,
            None if parts.storage is None else parts.storage.replays(),
            lambda: context.alarms.is_on or context.turn.is_behind,
            parts.report,
        )
