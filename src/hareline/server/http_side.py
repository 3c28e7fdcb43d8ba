"""The HTTP side of a broker: from its parts to the application on the management port, and back.

``server`` imports this only where the management port is switched on, so that a broker without it
has none of Starlette in memory. ``HttpSide`` starts when the journal has been read, and stops when
the connections are gone.

Invariant: it is given parts and makes none that the broker works without.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hareline.administration import Administration
from hareline.amqp.context import Context
from hareline.auth.peer import Networks, Peer
from hareline.events import Report
from hareline.management import web_ui
from hareline.management.api import metrics, routes_of
from hareline.management.api.app import create_app
from hareline.management.api.site import Health, ListenerFacts, NodeFacts, ResourceFacts, Site
from hareline.management.authentication import Authenticator
from hareline.management.change_log import ChangeKeeper, ChangeLog
from hareline.management.listener import Ends, ManagementListener, UpgradeRequest, WebSocketDoor
from hareline.management.range_answers import ReaderProcess
from hareline.management.replay import ReplayService
from hareline.management.streams import ReaderService, StreamAccess, StreamService
from hareline.metrics.source import JournalMeter, Meters, MetricsSource
from hareline.net.accepting import HttpSockets
from hareline.net.addresses import ProxyTls, Relayed
from hareline.net.binding import Address, listen_error
from hareline.net.disk import disk_space
from hareline.net.listener import Listeners
from hareline.net.memory import MemoryWatch, used_bytes
from hareline.net.proxy_front import ProxyDoor
from hareline.net.sampling import Statistics, descriptors
from hareline.net.tls.service import TlsService
from hareline.net.websocket import WebSocketFront
from hareline.settings import Settings
from hareline.statistics.facts import TlsFacts
from hareline.storage.disk.opening import DiskStorage
from hareline.storage.interface import MessageStore


@dataclass(frozen=True, slots=True)
class BrokerParts:
    """Parts of the broker given to the HTTP side. ``storage`` None: nothing is kept on disk.

    What may change while the broker runs is a function. ``listening``: the AMQP listeners, with the
    ports that they have, and ``listeners`` what listens there. ``statistics``: what is sampled and
    timed. ``journal_meter``: what batches of the journal take. ``tls`` None: no port has it.
    """

    context: Context
    storage: DiskStorage | None
    store: MessageStore
    memory_watch: MemoryWatch
    statistics: Statistics
    administration: Administration
    settings: Callable[[], Settings]
    is_stopping: Callable[[], bool]
    listening: Callable[[], Sequence[Address]]
    listeners: Listeners
    report: Report
    journal_meter: JournalMeter
    tls: TlsService | None = None


class HttpSide:
    """``addresses``: those of HTTP: the management ports, and a port for metrics alone.

    ``site``: what the API's routes are given.
    """

    def __init__(self, parts: BrokerParts, addresses: Sequence[Address]) -> None:
        self._parts = parts
        self._listening = list(addresses)
        context = parts.context
        authenticator = Authenticator(
            context.logins,
            lambda: context.limits.authentication_failure_delay_s,
            parts.report,
            self._takes_passwords,
        )
        self.site = Site(context, authenticator, parts.settings, self._node(), parts.administration)
        self.site.sampler = parts.statistics.sampler
        self.site.metrics = self._metrics()
        access = StreamAccess(
            authenticator, context.users, context.vhosts, context.identity.broker_id
        )
        self._streams = self._stream_service(access)
        routes = [
            *routes_of(self.site),
            *self._replay_service(authenticator).routes(),
            *self._streams.routes(),
            *ReaderService(access).routes(),
            *web_ui.routes(),
        ]
        forwarded_by = Networks(parts.settings().management.forwarded_by)
        door = self._websocket_door(forwarded_by)
        if door is not None:
            routes.append(door.route())
        asks_for_rights = any(each.asks_for_rights for each in context.logins.backends)
        apps = {
            "http": create_app(
                self.health,
                routes,
                forwarded_by,
                report=parts.report,
                asks_for_rights=asks_for_rights,
            )
        }
        if any(each.serves == "metrics" for each in addresses):
            routes_of_metrics = [row.bound_to(self.site) for row in metrics.routes.rows]
            apps["metrics"] = create_app(self.health, routes_of_metrics, forwarded_by)
            apps["metrics"].state.pace = apps["http"].state.pace

        def timeout_s() -> float:
            return context.limits.handshake_timeout_s

        proxies = Networks(parts.settings().management.proxy_protocol_from)
        self._proxy_door = ProxyDoor(proxies, timeout_s, parts.report)
        sockets = HttpSockets(context, proxies, forwarded_by)
        front = self._front if self._proxy_door.proxies else None
        wrap = None if parts.tls is None else parts.tls.for_http
        self._listeners = [
            ManagementListener(
                apps[each.serves],
                timeout_s,
                admit=sockets.admit,
                release=sockets.release,
                wrap=wrap if each.has_tls else None,
                front=front if each.serves == "http" else None,
                door=door if each.serves == "http" else None,
            )
            for each in addresses
        ]
        self._changes: ChangeKeeper | None = None

    def _takes_passwords(self, peer: Peer) -> bool:
        return self._parts.context.mechanisms.takes_passwords(peer)  # a reload replaces them

    def start(self, bound: Sequence[Sequence[socket.socket]]) -> list[Address]:
        """Listen; returns each address with the port that it has. Raises ListenError."""
        for index, (listener, sockets) in enumerate(zip(self._listeners, bound, strict=True)):
            address = self._listening[index]
            try:
                host, port = listener.start(sockets)
            except OSError as error:
                raise listen_error(address, error) from error
            self._listening[index] = address._replace(host=host, port=port)
        self._changes = self._make_changes()
        return self._listening

    async def stop(self) -> None:
        """End what is under way, and close the port."""
        await self._streams.stop()
        self._proxy_door.close()
        for listener in self._listeners:
            await listener.stop()
        if self._changes is not None:
            await self._changes.stop()

    def _front(self, make: Callable[[Ends | None], asyncio.BaseProtocol]) -> asyncio.BaseProtocol:
        """The first protocol of a connection to a port whose settings name proxies."""

        def behind(relayed: Relayed | None) -> asyncio.BaseProtocol:
            if relayed is None:
                return make(None)
            return make(Ends(relayed.peer, relayed.local, relayed.tls is not None))

        return self._proxy_door.front(behind)

    def _websocket_door(self, proxies: Networks) -> WebSocketDoor | None:
        """Door for clients by WebSocket; None if that is switched off."""
        parts = self._parts
        if not parts.settings().websocket.enabled:
            return None

        def answer(request: UpgradeRequest) -> None:
            tls = ProxyTls() if request.is_tls else None
            relayed = Relayed(request.client, request.local, tls, not request.is_forwarded)
            shell = parts.listeners.make_shell(relayed=relayed)
            front = WebSocketFront(shell, parts.report)
            front.upgrade(request.transport, request.headers, request.target)

        return WebSocketDoor(
            answer,
            lambda: parts.listeners.is_open,
            lambda: parts.settings().websocket.origins,
            proxies,
        )

    def _make_changes(self) -> ChangeKeeper:
        """Record of the changes from now on, beside what earlier runs have kept."""
        parts, context = self._parts, self._parts.context
        storage = parts.storage
        log = ChangeLog(lambda: int(time.time() * 1000), context.vhosts, parts.report)
        directory = None if storage is None else storage.directory.path
        keeper = ChangeKeeper(log, directory, parts.settings, parts.report)
        keeper.start()
        log.note("broker.started", {"version": context.identity.version})
        self.site.changes = context.recorder = log
        parts.administration.on_event.append(log.on_administered)
        context.alarms.on_changed.append(log.on_alarm)
        for vhost in context.vhosts.values():
            context.listen_to(vhost)
        return keeper

    def health(self) -> Health:
        """State of the broker now."""
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
            listeners=self._listener_facts,
            health=self.health,
            memory=self._memory,
            disk=self._disk,
            numbers=self._parts.statistics.node,
            descriptors=descriptors,
            tls=self._tls_facts,
        )

    def _metrics(self) -> MetricsSource | None:
        parts = self._parts
        if not parts.settings().metrics.enabled:
            return None
        watch = parts.statistics.watch
        meters = Meters(watch.lag, watch.turns, watch.collections, parts.journal_meter)
        sampler = parts.statistics.sampler
        return MetricsSource(
            parts.context, parts.store, self._memory, self._disk, meters, sampler, self._tls_facts
        )

    def _listener_facts(self) -> list[ListenerFacts]:
        return [
            ListenerFacts(protocol_of(each), each.host, each.port, each.has_tls)
            for each in (*self._parts.listening(), *self._listening)
        ]

    def _tls_facts(self) -> TlsFacts | None:
        tls = self._parts.tls
        if tls is None:
            return None
        handshakes = tls.handshakes
        certificates = tuple(each.described() for each in tls.certificates)
        return TlsFacts(handshakes.done_count, handshakes.failed_count, certificates)

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


def protocol_of(address: Address) -> str:
    """RabbitMQ's name for what a port speaks."""
    if address.serves == "amqp":
        return "amqp/ssl" if address.has_tls else "amqp"
    scheme = "https" if address.has_tls else "http"
    return scheme if address.serves == "http" else f"{scheme}/prometheus"
