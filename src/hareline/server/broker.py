"""The composition root: settings to a running broker, in order, and back down again.

``daemon`` runs a ``Broker`` as a process, ``hareline.testing`` runs one in a thread. What each part
is given of the settings is in ``assemble``.

Start: addresses are bound, users, what is on disk, virtual hosts, management port, watches, and the
AMQP ports last. Stop: ports first, connection.close 320 to all clients until they or the deadline
are gone; the management port; timers; turns, with the waiting dead letters; then the store.

Invariant: clients can connect only while everything else runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from hareline import events
from hareline.administration import Administration, AdministrationError
from hareline.administration.definitions_import import (
    Import,
    definition_files,
    read_definitions,
    report_import,
)
from hareline.administration.users import PasswordUpgrades
from hareline.amqp.context import Context
from hareline.amqp.unacked_watch import UnackedWatch
from hareline.auth.backends import AuthChain, InternalBackend
from hareline.auth.login_limits import LoginLimits
from hareline.auth.users import UserRegistry
from hareline.authorities.opening import Authorities
from hareline.broker.event_exchange import EventExchange
from hareline.clock import Clock
from hareline.errors import StoreError
from hareline.logs import set_level
from hareline.management.settling import settled
from hareline.metrics.source import JournalMeter
from hareline.net.binding import Address, bind_all, close_all
from hareline.net.collector import collection_off
from hareline.net.disk import DiskWatch, disk_space
from hareline.net.listener import Listeners
from hareline.net.login_workers import THREADS, KeyMaker, LoginWorkers
from hareline.net.memory import MemoryWatch, available_bytes
from hareline.net.timers import LoopTimers
from hareline.net.tls.service import TlsService
from hareline.queues.orders.window import set_spooling
from hareline.reporting import (
    report,
    report_administered,
    report_decision,
    report_lockout,
    report_trouble,
)
from hareline.server import assemble
from hareline.server.known_queues import known_queues
from hareline.server.recovery import RecoveryLog, ShowProgress, in_shares
from hareline.server.restore import VhostRecovery
from hareline.server.vhost_factory import VhostFactory, set_up
from hareline.settings import Settings, changed_options, restart_options
from hareline.settings import VirtualHost as VhostSettings
from hareline.storage.administration import AdministrationStore
from hareline.storage.disk.opening import DiskStorage, StorageCallbacks
from hareline.storage.interface import DefinitionStore, MessageStore
from hareline.storage.memory import MemoryStore
from hareline.storage.recovery.reports import RecoveryListener
from hareline.turn import Turn

if TYPE_CHECKING:
    from hareline.net.sampling import Statistics
    from hareline.server.http_side import HttpSide

# How long the disk has to end in order, even if connections have used up the deadline.
STORAGE_CLOSE_MIN_S: Final = 2.0
#: How long a client that has taken what was sent may take to answer connection.close at the stop.
CLOSE_OK_S: Final = 3.0
SHUTDOWN_REASON: Final = "broker forced connection closure with reason 'shutdown'"


class Broker:
    """One broker; ``start`` needs a running event loop, and ``stop`` ends it for good.

    ``context`` holds its parts; ``urls`` (of each listener) and those of HTTP are known once
    it has started. ``show_progress`` is told how far the recovery is; without it, the log is.
    """

    def __init__(self, settings: Settings, show_progress: ShowProgress | None = None) -> None:
        self.settings = settings
        self._started_with = settings
        clock = Clock()
        self._timers = timers = LoopTimers(asyncio.get_running_loop(), clock)
        self._journal_meter = JournalMeter()
        turn = Turn(timers.call_soon, time.monotonic)
        identity = assemble.identity(settings)
        events_exchange = None
        if settings.events.vhost:
            events_exchange = EventExchange(turn, clock, timers, report, node=identity.node)
        users = UserRegistry(assemble.users(settings, settings), settings.auth.loopback_users)
        self._all_workers: list[LoginWorkers] = []
        self._login_workers = self._workers()
        self._internal_users = InternalBackend(users, self._login_workers)
        self.context = Context(
            clock=clock,
            turn=turn,
            users=users,
            logins=AuthChain([self._internal_users], users, self._login_limits()),
            mechanisms=assemble.mechanisms(settings, settings),
            identity=identity,
            limits=assemble.limits(settings),
            report=report,
            events=events_exchange,
        )
        assemble.set_capacity(self.context.capacity, settings)
        self.context.users.rules = assemble.access_rules(settings, report_decision)
        self._key_maker = KeyMaker(self.context.users)
        self._show_progress = show_progress
        self._storage: DiskStorage | None = None
        self._store: MessageStore = MemoryStore()
        # virtual hosts that are on disk and not served, and how many queues each has
        self._unserved: dict[str, int] = {}
        self._administration: Administration | None = None
        self._vhost_factory = VhostFactory(
            self.context, timers, report, self._store, DefinitionStore(), settings.events.vhost
        )
        self._listeners = Listeners(self.context)
        total_bytes = available_bytes()
        self._memory_watch = MemoryWatch(
            self.context.alarms,
            report,
            settings.memory.watermark_bytes(total_bytes),
            settings.memory.check_interval_s,
            spool_share=settings.memory.spool_share,
            on_pressure=self._on_memory_pressure,
            total_bytes=total_bytes,
            on_critical=self.context.capacity.on_critical,
        )
        self._unacked_watch = UnackedWatch(self.context, timers)
        self._disk_watch: DiskWatch | None = None
        self._management: HttpSide | None = None
        self._authorities: Authorities | None = None
        self._listening: list[Address] = []
        self._tls: TlsService | None = None
        self.statistics: Statistics | None = None  # while management is on
        self.has_started = False
        self.is_stopping = False
        self.urls: list[str] = []
        self.management_url = ""  # without TLS where there is such a port
        self.http_urls: list[str] = []

    def _login_limits(self) -> LoginLimits:
        return LoginLimits(
            lambda: self.settings.auth.login_failures_max, time.monotonic, report_lockout
        )

    async def start(self) -> None:
        """Returns when clients can connect.

        Raises ListenError if an address cannot be listened on or a certificate cannot be used,
        StoreError if what is on disk cannot be used, ConfigurationError if an authority cannot be
        asked. Nothing is left running then, nor when it is cancelled.
        """
        settings = self.settings
        self._tls = assemble.tls_service(
            settings, report, lambda: self.context.limits.handshake_timeout_s
        )
        addresses = assemble.addresses(settings)
        bound = await bind_all(addresses)
        try:
            self._authorities = Authorities(
                settings, self.context.users, self._internal_users, report, self._workers
            )
            self.context.logins.backends = tuple(self._authorities.backends)
            self._key_maker.start()
            if settings.storage.kind == "journal":
                await self._open_storage()
            else:
                self._administration = self._make_administration(AdministrationStore())
                self._add_vhosts(settings)
                await self._start_administration()
            if settings.management.enabled:
                pairs = zip(addresses, bound, strict=True)
                self._start_management([pair for pair in pairs if pair[0].serves != "amqp"])
            if self._tls is not None:
                self._tls.start()
            self._memory_watch.start()
            self._unacked_watch.start()
            if self._disk_watch is not None:
                self._disk_watch.start()
            if self.statistics is not None:
                self.statistics.start()
            self._listening = await self._listeners.start(
                assemble.endpoints(settings, addresses, bound, self._tls),
                write_high_bytes=settings.limits.write_buffer_high_bytes,
            )
        except BaseException:
            # those that came before the next port failed
            for connection in list(self.context.connections):
                connection.transport.abort()
            self._stop_watches()
            await self._close_management()
            self._close_storage()
            close_all(bound)
            raise
        self.urls = [each.url for each in self._listening]
        self.has_started = True

    @property
    def url(self) -> str:
        """The URL of the first listener; empty before the broker has started."""
        return self.urls[0] if self.urls else ""

    async def _open_storage(self) -> None:
        """Restore what is on disk, before clients can connect."""
        settings, context, started = self.settings, self.context, time.monotonic()
        listener = RecoveryLog(self._show_progress)
        storage = self._storage = DiskStorage(
            assemble.storage_options(settings),
            StorageCallbacks(
                hand_back=asyncio.get_running_loop().call_soon_threadsafe,
                on_disk_full=self._on_disk_full,
                on_failure=self._on_store_failure,
                on_trouble=report_trouble,
                known_queues=known_queues,
                on_measured=self._journal_meter.on_batch,
            ),
            context.clock,
            listener,
        )
        directory = storage.directory.path
        disk = settings.disk
        watermark_bytes = disk.watermark_bytes(disk_space(directory).total_bytes)
        self._disk_watch = DiskWatch(
            context.alarms,
            report,
            directory,
            watermark_bytes,
            disk.check_interval_s,
            disk.free_watermark,
            settings.journal.segment_bytes,
        )
        report(events.RECOVERY_STARTED, directory=str(directory))
        with collection_off():
            await in_shares(storage.recover())
            store = self._store = storage.store
            self._vhost_factory.keep_in(store, storage.definitions)
            context.products.keep_in(storage.definitions.host_store)
            context.large_bodies = storage.bodies
            context.turn.write_pending = storage.write_pending
            storage.follow_turns(context.turn.arm)
            administration = self._make_administration(storage.definitions.administration)
            self._administration = administration
            vhosts = [
                *(
                    each
                    for each in settings.vhosts
                    if not administration.vhosts.is_removed(each.name)
                ),
                *(
                    VhostSettings(name=name)
                    for name in administration.vhosts.own_names()
                    if all(name != each.name for each in settings.vhosts)
                ),
            ]
            self._unserved = storage.unserved({vhost.name for vhost in vhosts})
            restored = [await self._restore(vhost, storage, listener) for vhost in vhosts]
            storage.progress.finish()
        await self._start_administration()
        for vhost in context.vhosts.values():  # what was restored is no news
            context.listen_to(vhost)
        for name, queues in self._unserved.items():
            report(events.VHOST_NOT_SERVED, vhost=name, queues=queues)
        report(
            events.RECOVERY_FINISHED,
            messages=sum(each.message_count for each in restored),
            queues=sum(len(each.queues) for each in restored),
            exchanges=sum(each.exchange_count for each in restored),
            bindings=sum(each.binding_count for each in restored),
            duration_ms=round((time.monotonic() - started) * 1000),
        )

    async def _start_administration(self) -> None:
        """Put in force what is administered, and take over ``load_definitions``.

        Raises StoreError for a file that cannot be read.
        """
        self.administration.start()
        path = self.settings.load_definitions
        for file in definition_files(path):
            try:
                importing = Import(self.context, self.administration, read_definitions(file))
            except AdministrationError as error:
                raise StoreError(f"{file}: {error.reason} (load_definitions)") from None
            for _ in importing.steps():
                await settled(self.administration.changes.when_settled)
                await asyncio.sleep(0)
            report_import(report, importing, str(file))

    @property
    def administration(self) -> Administration:
        """Administration at run time; there once the broker has started."""
        assert self._administration is not None, "start first"
        return self._administration

    def _workers(self, threads: int = THREADS, what: str = "a password hash") -> LoginWorkers:
        workers = LoginWorkers(
            report, lambda: self.context.limits.handshake_timeout_s, threads, what
        )
        self._all_workers.append(workers)
        return workers

    def _make_administration(self, store: AdministrationStore) -> Administration:
        administration = Administration(
            self.context,
            store,
            assemble.origins(self.settings, self._started_with),
            self._vhost_factory.add_own,
        )
        if not self.settings.management.enabled:  # else the log of changes does, which knows more
            administration.on_event.append(report_administered)
        upgrades = PasswordUpgrades(
            administration.users,
            self._login_workers,
            lambda: self.settings.auth.password_hashing,
            report,
        )
        self._internal_users.on_proven = upgrades.on_proven
        if self.context.events is not None:
            administration.on_event.append(self.context.events.emit)
        return administration

    async def _restore(
        self, settings: VhostSettings, storage: DiskStorage, listener: RecoveryListener
    ) -> VhostRecovery:
        """Make a virtual host of the settings, with what the disk has of it."""
        self.context.clock.refresh()
        vhost = self._vhost_factory.make(settings)
        self.administration.policies.attach(vhost)  # what queues are decides how they are filled
        recovery = VhostRecovery(
            vhost,
            storage.definitions,
            storage.next_offsets,
            storage.contents,
            storage.content_store,
            listener,
            storage.progress,
        )
        recovery.restore_exchanges()
        # before queues, which it concerns, and bindings, which may be to the exchange it makes
        set_up(vhost, settings)
        recovery.restore_queues()
        recovery.restore_bindings()
        await in_shares(recovery.restore_messages())
        vhost.open_audit()
        return recovery

    def _on_memory_pressure(self, is_high: bool) -> None:
        for vhost in self.context.vhosts.values():
            set_spooling(vhost.environment, vhost.queues.values(), is_high)
        if is_high:
            self._unacked_watch.look()

    def _on_disk_full(self, is_full: bool) -> None:
        if self._disk_watch is not None:
            self._disk_watch.on_store_full(is_full)

    def _on_store_failure(self, reason: str) -> None:
        report(events.STORE_FAILED, reason=reason, directory=str(self.settings.data_dir))

    def _start_management(self, ports: Sequence[tuple[Address, Sequence[socket.socket]]]) -> None:
        from hareline.net.sampling import Statistics
        from hareline.server.http_side import BrokerParts, HttpSide

        self.statistics = Statistics(
            self.context,
            lambda: self.settings.management.sample_interval_s,
            None if self._storage is None else self._storage.directory.path,
        )
        parts = BrokerParts(
            self.context,
            self._storage,
            self._store,
            self._memory_watch,
            self.statistics,
            self.administration,
            settings=lambda: self.settings,
            is_stopping=lambda: self.is_stopping,
            listening=lambda: self._listening,
            listeners=self._listeners,
            report=report,
            journal_meter=self._journal_meter,
            tls=self._tls,
        )
        self._management = HttpSide(parts, [address for address, _ in ports])
        listening = self._management.start([sockets for _, sockets in ports])
        self.http_urls = [each.url for each in listening]
        self.management_url = self.http_urls[0]

    async def _close_management(self) -> None:
        """Stop the HTTP side, and with it whom it and AMQP ask about logins."""
        if self._management is not None:
            await self._management.stop()
            self._management = None
        for workers in self._all_workers:
            workers.stop()
        if self._tls is not None:
            self._tls.stop()
        if self._authorities is not None:
            await self._authorities.close()
            self._authorities = None

    async def stop(self, deadline_s: float, close_ok_s: float = CLOSE_OK_S) -> None:
        """Close listeners, tell every connection (320), and wait for them within the deadline;
        for those that have taken what was sent to them ``close_ok_s``.

        When it returns, all that was confirmed or is to be kept is on disk.
        """
        self.is_stopping = True
        due_s = time.monotonic() + deadline_s
        await self._listeners.stop()
        self._stop_watches()
        connections = self.context.connections
        if connections:
            are_gone = asyncio.Event()
            self.context.on_last_connection_gone = are_gone.set
            for connection in list(connections):
                connection.force_close(SHUTDOWN_REASON)
            for until_s in sorted({min(time.monotonic() + close_ok_s, due_s), due_s}):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(are_gone.wait(), until_s - time.monotonic())
                late = [
                    each
                    for each in connections
                    if until_s == due_s or not each.transport.socket_facts().unsent_bytes
                ]
                if late:
                    report(events.BROKER_DEADLINE_PASSED, connections=len(late))
                for connection in late:
                    connection.transport.abort()
            await are_gone.wait()
        self.context.shares.finish()
        await self._close_management()
        for vhost in self.context.vhosts.values():
            vhost.readers.write()
        await self._post_dead_letters(due_s)
        for vhost in self.context.vhosts.values():
            vhost.close_audit()
        self._close_storage(max(due_s - time.monotonic(), STORAGE_CLOSE_MIN_S))

    async def _post_dead_letters(self, due_s: float) -> None:
        """Publish the dead letters that still wait, until ``due_s`` of the monotonic clock.

        After an orderly end nothing would say that their messages had been delivered.
        """
        self._timers.stop_timers()  # or messages that expire meanwhile would be added without end
        loop = asyncio.get_running_loop()
        environments = [vhost.environment for vhost in self.context.vhosts.values()]
        while time.monotonic() < due_s:
            waiting = [each for each in environments if each.dead_letter_scheduler]
            if not waiting:
                break
            for environment in waiting:  # by the loop: a bug there must not keep the store open
                loop.call_soon(environment.dead_letter_scheduler.go_on)
            await asyncio.sleep(0)  # turns go on as well

    def _stop_watches(self) -> None:
        self._key_maker.stop()
        self._memory_watch.stop()
        if self._disk_watch is not None:
            self._disk_watch.stop()
        if self.statistics is not None:
            self.statistics.stop()

    def _close_storage(self, timeout_s: float = math.inf) -> None:
        """Stop timers and turns, then close the store, which has all that they did before."""
        self._timers.stop()
        storage, self._storage = self._storage, None
        if storage is not None:
            storage.close(timeout_s)

    def reload(self, settings: Settings) -> None:
        """Take over what can be changed while running, and report what cannot."""
        if self.administration.changes.when_settled(lambda _error: self.reload(settings)):
            return  # what is under way rests upon the settings in force
        changed = changed_options(self.settings, settings)
        context = self.context
        waiting = restart_options(self._started_with, settings)  # reported until the restart
        needs_restart = dict.fromkeys(waiting + restart_options(self.settings, settings))
        context.users.set_loopback_users(settings.auth.loopback_users)
        rules = assemble.access_rules(settings, report_decision)
        if rules != context.users.rules:
            context.users.rules = rules
            self.administration.users.renew_connections()
        needs_restart |= dict.fromkeys(self._add_vhosts(settings))
        self.administration.reload(assemble.origins(settings, self._started_with))
        self._key_maker.start()
        context.set_limits(assemble.limits(settings))
        assemble.set_capacity(context.capacity, settings)
        context.mechanisms = assemble.mechanisms(settings, self._started_with)
        self._listeners.write_high_bytes = settings.limits.write_buffer_high_bytes
        self._memory_watch.watermark_bytes = settings.memory.watermark_bytes(available_bytes())
        self._memory_watch.interval_s = settings.memory.check_interval_s
        self._memory_watch.spool_share = settings.memory.spool_share
        if self._disk_watch is not None:
            total_bytes = disk_space(self.settings.data_dir).total_bytes
            self._disk_watch.watermark_bytes = settings.disk.watermark_bytes(total_bytes)
            self._disk_watch.watermark = settings.disk.free_watermark
            self._disk_watch.interval_s = settings.disk.check_interval_s
        if self._tls is not None and settings.tls.is_on:
            self._tls.check_interval_s = settings.tls.check_interval_s
            self._tls.warning_days = settings.tls.expiry_warning_days
            self._tls.reload(assemble.tls_options(settings))
        elif settings.tls.is_on != self._started_with.tls.is_on:
            needs_restart["tls.certificate"] = None  # its ports are opened at the start
        set_level(settings.log.level)
        self.settings = settings
        report(events.CONFIGURATION_RELOADED, changed=changed)
        if needs_restart:
            report(events.CONFIGURATION_NEEDS_RESTART, options=", ".join(needs_restart))

    def _add_vhosts(self, settings: Settings) -> list[str]:
        """Add the missing virtual hosts and set all options; returns what needs a restart."""
        return self._vhost_factory.take_over(
            settings.vhosts, self._unserved, self.administration.vhosts.is_removed
        )


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed; plain asyncio is some 25 % slower and otherwise the same."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
