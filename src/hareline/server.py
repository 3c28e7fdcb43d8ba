"""The composition root: settings to a running broker, in order, and back down again.

``Broker`` is what the CLI runs as a daemon and ``hareline.testing`` runs in a thread. Start:
addresses bound, users, what is on disk, virtual hosts, watches, management port, AMQP ports last.
Stop: ports first, then connection.close 320 to everybody, until all are gone or the deadline has
passed; the management port; timers; when the dead letters that wait are published, turns; then the
store.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import math
import os
import platform
import signal
import socket
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from hareline import __version__, events
from hareline.amqp.context import Context, Identity, Limits
from hareline.auth.mechanisms import MechanismRegistry
from hareline.auth.passwords import hash_password
from hareline.auth.permissions import Permissions
from hareline.auth.scram import MECHANISM as SCRAM
from hareline.auth.scram import PasswordKeys, ScramKeys, salt_of
from hareline.auth.users import User, UserRegistry
from hareline.broker.queues.paging.window import set_spooling
from hareline.broker.vhost import VirtualHost
from hareline.clock import Clock
from hareline.errors import ConfigurationError
from hareline.logs import get_logger, set_level
from hareline.net.allocator import keep_freed_memory
from hareline.net.binding import Address, bind_all, close_all, listen_error
from hareline.net.collector import IdleCollector
from hareline.net.disk import DiskWatch, disk_space
from hareline.net.key_maker import KeyMaker
from hareline.net.listener import Endpoint, Listeners
from hareline.net.memory import MemoryWatch, available_bytes
from hareline.net.timers import LoopTimers
from hareline.settings import Settings, changed_options, restart_options
from hareline.settings import User as UserSettings
from hareline.settings import VirtualHost as VhostSettings
from hareline.storage.directory import DIRECTORY_MODE
from hareline.storage.interface import DefinitionStore, MessageStore
from hareline.storage.journal.damage import Decision
from hareline.storage.memory import MemoryDefinitions, MemoryStore
from hareline.storage.opening import DiskStorage, StorageCallbacks, StorageOptions
from hareline.storage.recovery.reports import RecoveryListener
from hareline.storage.recovery.restore import VhostRecovery
from hareline.turn import Turn

if TYPE_CHECKING:
    from hareline.management.app import Health
    from hareline.management.listener import ManagementListener
    from hareline.management.replay import ReplayService

#: What the disk has to end in order, though connections have used up the deadline.
STORAGE_CLOSE_MIN_S: Final = 2.0
SHUTDOWN_REASON: Final = "broker forced connection closure with reason 'shutdown'"
# How long a thread that comes back from a system call waits for the interpreter while another one
# computes. The default of 5 ms would go on top of each sync of the journal, and so of each confirm.
SWITCH_INTERVAL_S: Final = 0.0002
# A recovery yields often, and others are to have their turn, but not after each of its steps.
RECOVERY_SHARE_S: Final = 0.02
RELOAD_RETRY_S: Final = 0.5  # for a SIGHUP that comes before the broker has started
PROGRESS_STEP_PERCENT: Final = 10
PROGRESS_MIN_WORK: Final = 128 << 20  # less is done before a percentage or a bar is seen
_PERCENT: Final = 100
PEER_GONE: Final = {
    errno.ECONNABORTED,
    errno.ECONNRESET,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.ENOTCONN,
    errno.EPIPE,
    errno.ETIMEDOUT,
}
_LOG: Final = get_logger(__name__)
_SEVERITIES: Final = {
    events.BROKER_FAILED: "error",
    events.CONFIGURATION_REFUSED: "error",
    events.BROKER_DEADLINE_PASSED: "warning",
    events.CHANNEL_ERROR: "warning",
    events.CONFIGURATION_NEEDS_RESTART: "warning",
    events.CONNECTION_ERROR: "warning",
    events.CONNECTION_LOST: "warning",
    events.CONNECTION_REFUSED: "warning",
    events.CONNECTION_UNUSED: "debug",  # port scans and health probes, every few seconds
    events.DEFINITION_IMPOSSIBLE: "warning",
    events.DISK_ALARM_SET: "warning",
    events.HOST_NOT_KEPT: "warning",
    events.HANDSHAKE_TIMED_OUT: "warning",
    events.HEARTBEAT_MISSED: "warning",
    events.JOURNAL_DAMAGED: "error",
    events.JOURNAL_TROUBLE: "warning",
    events.MEMORY_ALARM_SET: "warning",
    events.PEER_SPEAKS_OTHERWISE: "warning",
    events.QUEUE_DROPPED: "warning",
    events.QUEUE_OVERFULL: "warning",
    events.STORE_FAILED: "error",
    events.VHOST_NOT_SERVED: "warning",
}
ShowProgress = Callable[[int, int], None]


def report(event: events.Event, **fields: object) -> None:
    """An operational event of any layer becomes a log message."""
    getattr(_LOG, _SEVERITIES.get(event, "info"))(event, **fields)


class Broker:
    """One broker; ``start`` needs a running event loop, and ``stop`` ends it for good.

    ``context`` holds its parts; ``urls`` (of each listener) and ``management_url`` are known once
    it has started.
    ``show_progress`` is told how much is done and how much there is while what is on disk is
    restored (``RecoveryProgress``); without it, the log is.
    """

    def __init__(self, settings: Settings, show_progress: ShowProgress | None = None) -> None:
        self.settings = settings
        self._started_with = settings
        loop = asyncio.get_running_loop()
        clock = Clock()
        self._timers = LoopTimers(loop, clock)
        self.context = Context(
            clock=clock,
            turn=Turn(self._timers.call_soon, time.monotonic),
            users=UserRegistry(_users(settings, settings), settings.auth.loopback_users),
            mechanisms=MechanismRegistry(settings.auth.mechanisms),
            identity=_identity(settings),
            limits=_limits(settings),
            report=report,
        )
        self._key_maker = KeyMaker(self.context.users)
        self._show_progress = show_progress
        self._storage: DiskStorage | None = None
        self._store: MessageStore = MemoryStore()
        self._definitions: DefinitionStore = MemoryDefinitions()
        self._unserved: dict[str, int] = {}  # virtual hosts that are on disk and not in use
        self._listeners = Listeners(self.context)
        self._memory_watch = MemoryWatch(
            self.context.alarms,
            report,
            settings.memory.watermark_bytes(available_bytes()),
            settings.memory.check_interval_s,
            spool_share=settings.memory.spool_share,
            on_pressure=self._on_memory_pressure,
        )
        self._disk_watch: DiskWatch | None = None
        self._management: ManagementListener | None = None
        self.has_started = False
        self.is_stopping = False
        self.urls: list[str] = []
        self.management_url = ""

    async def start(self) -> None:
        """Raises ListenError when an address cannot be listened on, StoreError when what is on disk
        cannot be used; nothing is left running then, nor when it is cancelled.
        """
        settings = self.settings
        addresses = _addresses(settings)
        bound = await bind_all(addresses)
        try:
            self._key_maker.start()
            if settings.storage.kind == "journal":
                await self._open_storage()
            else:
                self._add_vhosts(settings)
            if settings.management.enabled:
                self._start_management(addresses[-1], bound[-1])
            self._memory_watch.start()
            if self._disk_watch is not None:
                self._disk_watch.start()
            listening = await self._listeners.start(
                _endpoints(settings, addresses, bound),
                write_high_bytes=settings.limits.write_buffer_high_bytes,
            )
        except BaseException:
            for connection in list(self.context.connections):  # quicker than the next port
                connection.transport.abort()
            self._stop_watches()
            await self._close_management()
            self._close_storage()
            close_all(bound)
            raise
        self.urls = [_url("amqp", host, port) for host, port in listening]
        self.has_started = True

    @property
    def url(self) -> str:
        """Of the first listener; empty before the broker has started."""
        return self.urls[0] if self.urls else ""

    async def _open_storage(self) -> None:
        """What is on disk becomes the model; nobody can connect yet."""
        settings, context, started = self.settings, self.context, time.monotonic()
        listener = _RecoveryLog(self._show_progress)
        storage = self._storage = DiskStorage(
            _storage_options(settings),
            StorageCallbacks(
                hand_back=asyncio.get_running_loop().call_soon_threadsafe,
                on_disk_full=self._on_disk_full,
                on_failure=self._on_store_failure,
                on_trouble=_report_trouble,
            ),
            context.clock,
            listener,
        )
        directory = storage.directory.path
        disk = settings.disk
        watermark_bytes = disk.watermark_bytes(disk_space(directory).total_bytes)
        self._disk_watch = DiskWatch(
            context.alarms, report, directory, watermark_bytes, disk.check_interval_s
        )
        report(events.RECOVERY_STARTED, directory=str(directory))
        with _collection_off():
            await _in_shares(storage.recover())
            store = self._store = storage.store
            self._definitions = storage.definitions
            context.products.keep_in(storage.definitions.host_store)
            context.large_bodies = storage.bodies
            context.turn.write_pending = storage.write_pending
            context.commit_definitions = storage.definitions.commit
            storage.definitions.gather(context.turn.arm)
            store.ask_for_turn = context.turn.arm
            self._unserved = storage.unserved({vhost.name for vhost in settings.vhosts})
            restored = [await self._restore(vhost, storage, listener) for vhost in settings.vhosts]
            storage.progress.finish()
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

    async def _restore(
        self, settings: VhostSettings, storage: DiskStorage, listener: RecoveryListener
    ) -> VhostRecovery:
        """A virtual host of the settings, with what the disk has of it."""
        self.context.clock.refresh()
        vhost = self._make_vhost(settings.name)
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
        # before queues, which go by it, and bindings, which may be to the exchange it makes
        self._set_up(vhost, settings)
        recovery.restore_queues()
        recovery.restore_bindings()
        await _in_shares(recovery.restore_messages())
        return recovery

    def _on_memory_pressure(self, is_high: bool) -> None:
        for vhost in self.context.vhosts.values():
            set_spooling(vhost.environment, vhost.queues.values(), is_high)

    def _on_disk_full(self, is_full: bool) -> None:
        if self._disk_watch is not None:
            self._disk_watch.on_store_full(is_full)

    def _on_store_failure(self, reason: str) -> None:
        report(events.STORE_FAILED, reason=reason, directory=str(self.settings.data_dir))

    def _start_management(self, address: Address, sockets: Sequence[socket.socket]) -> None:
        from hareline.management.app import create_app
        from hareline.management.listener import ManagementListener

        listener = ManagementListener(create_app(self._health, [self._replay_service().router()]))
        try:
            host, port = listener.start(sockets)
        except OSError as error:
            raise listen_error(address, error) from error
        self.management_url = _url("http", host, port)
        self._management = listener

    def _health(self) -> Health:
        from hareline.management.app import Health

        alarms, store = self.context.alarms, self._store
        reasons = [alarms.reason if alarms.is_on else "", store.refusal]
        return Health(
            status="stopping" if self.is_stopping else "failed" if store.failure else "ok",
            alarms=alarms.resources,
            publishers_blocked=alarms.is_on,
            store="failed" if store.failure else "refusing" if store.refusal else "ok",
            reason="; ".join(filter(None, reasons)),
        )

    def _replay_service(self) -> ReplayService:
        from hareline.management.authentication import Authenticator
        from hareline.management.replay import ReplayService

        context = self.context
        return ReplayService(
            Authenticator(
                context.users, lambda: context.limits.authentication_failure_delay_s, report
            ),
            context.vhosts,
            None if self._storage is None else self._storage.replays(),
            lambda: context.alarms.is_on or context.turn.is_behind,
            report,
        )

    async def _close_management(self) -> None:
        if self._management is not None:
            await self._management.stop()
            self._management = None

    async def stop(self, deadline_s: float) -> None:
        """Close listeners, tell every connection (320), and wait for them within the deadline.

        Then everything that was confirmed, or is to be kept, is on disk.
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
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(are_gone.wait(), deadline_s)
            if connections:
                report(events.BROKER_DEADLINE_PASSED, connections=len(connections))
                for connection in list(connections):
                    connection.transport.abort()
                await are_gone.wait()
        self.context.shares.finish()
        await self._close_management()
        await self._post_dead_letters(due_s)
        self._close_storage(max(due_s - time.monotonic(), STORAGE_CLOSE_MIN_S))

    async def _post_dead_letters(self, due_s: float) -> None:
        """Those that still wait: after an orderly end nobody would know that they were delivered.

        ``due_s``: when it ends at the latest, on the monotonic clock.
        """
        self._timers.stop_timers()  # else what expires meanwhile would die too, and have no end
        loop = asyncio.get_running_loop()
        environments = [vhost.environment for vhost in self.context.vhosts.values()]
        while time.monotonic() < due_s:
            waiting = [each for each in environments if each.dead_letter_post]
            if not waiting:
                break
            for environment in waiting:  # by the loop, so that a bug there does not keep us from
                loop.call_soon(environment.dead_letter_post.go_on, environment)  # the store's end
            await asyncio.sleep(0)  # turns go on as well

    def _stop_watches(self) -> None:
        self._key_maker.stop()
        self._memory_watch.stop()
        if self._disk_watch is not None:
            self._disk_watch.stop()

    def _close_storage(self, timeout_s: float = math.inf) -> None:
        """Nothing in the broker happens by itself from here on; the store has what did before."""
        self._timers.stop()
        storage, self._storage = self._storage, None
        if storage is not None:
            storage.close(timeout_s)

    def reload(self, settings: Settings) -> None:
        """Take over what can be changed while running, and say what cannot."""
        changed = changed_options(self.settings, settings)
        context = self.context
        waiting = restart_options(self._started_with, settings)  # named until it is restarted
        needs_restart = dict.fromkeys(waiting + restart_options(self.settings, settings))
        users = _users(settings, self._started_with)
        gone = context.users.replace(users, settings.auth.loopback_users)
        self._key_maker.start()
        for name in gone:
            for connection in list(context.connections):
                user = connection.client.user  # None until it has logged in
                if user is not None and user.name == name:
                    connection.force_close(f"user '{name}' is deleted")
        for connection in list(context.connections):
            connection.renew_access()
        needs_restart |= dict.fromkeys(self._add_vhosts(settings))
        context.limits = _limits(settings)
        self._listeners.write_high_bytes = settings.limits.write_buffer_high_bytes
        self._memory_watch.watermark_bytes = settings.memory.watermark_bytes(available_bytes())
        self._memory_watch.interval_s = settings.memory.check_interval_s
        self._memory_watch.spool_share = settings.memory.spool_share
        if self._disk_watch is not None:
            total_bytes = disk_space(self.settings.data_dir).total_bytes
            self._disk_watch.watermark_bytes = settings.disk.watermark_bytes(total_bytes)
            self._disk_watch.interval_s = settings.disk.check_interval_s
        set_level(settings.log.level)
        self.settings = settings
        report(events.CONFIGURATION_RELOADED, changed=changed)
        if needs_restart:
            report(events.CONFIGURATION_NEEDS_RESTART, options=", ".join(needs_restart))

    def _add_vhosts(self, settings: Settings) -> list[str]:
        """Those there are get their options; returns what has to wait for a restart."""
        waiting = []
        for vhost in settings.vhosts:
            existing = self.context.vhosts.get(vhost.name)
            if existing is None:
                if vhost.name in self._unserved:  # what is on disk is read at the start alone
                    waiting.append(f"vhosts: {vhost.name}")
                    continue
                existing = self._make_vhost(vhost.name)
            self._set_up(existing, vhost)
        return waiting

    def _make_vhost(self, name: str) -> VirtualHost:
        vhost = self.context.vhosts[name] = VirtualHost(
            name,
            self.context.turn,
            clock=self.context.clock,
            timers=self._timers,
            report=report,
            store=self._store,
            definitions=self._definitions,
        )
        return vhost

    def _set_up(self, vhost: VirtualHost, settings: VhostSettings) -> None:
        vhost.max_queues = settings.max_queues
        vhost.set_default_dead_letter_exchange(settings.default_dead_letter_exchange or None)
        vhost.default_prefetch = settings.default_prefetch
        vhost.prefetch_profile = settings.prefetch_profile
        vhost.prefetch_max = settings.prefetch_max
        self.context.vhost_connection_limits[vhost.name] = settings.max_connections


class _RecoveryLog(RecoveryListener):
    """Progress to whoever shows it, or as percentages to the log; all else to the log."""

    def __init__(self, show_progress: ShowProgress | None) -> None:
        self._show_progress = show_progress
        self._percent = 0

    def on_progress(self, done: int, all_work: int) -> None:
        if all_work < PROGRESS_MIN_WORK:
            return
        if self._show_progress is not None:
            self._show_progress(done, all_work)
        else:
            percent = done * _PERCENT // all_work
            percent -= percent % PROGRESS_STEP_PERCENT
            if percent > self._percent:
                self._percent = percent
                report(events.RECOVERY_PROGRESS, percent=percent)

    def on_damage(self, problem: str, action: str) -> None:
        report(events.JOURNAL_DAMAGED, problem=problem, action=action)

    def on_impossible(self, vhost: str, what: str, problem: str) -> None:
        report(events.DEFINITION_IMPOSSIBLE, what=what, problem=problem, vhost=vhost)


def _report_trouble(problem: str) -> None:
    report(events.JOURNAL_TROUBLE, problem=problem)


@contextlib.contextmanager
def _collection_off() -> Iterator[None]:
    """Millions of objects come into being, and none is garbage: looking for some costs as much."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


async def _in_shares(steps: Generator[None, None, None]) -> None:
    """Take all steps, but let signals and the loop have their turn in between."""
    try:
        due = time.monotonic() + RECOVERY_SHARE_S
        for _ in steps:
            if time.monotonic() >= due:
                await asyncio.sleep(0)
                due = time.monotonic() + RECOVERY_SHARE_S
    finally:
        steps.close()


def serve(
    settings: Settings, load: Callable[[], Settings], show_progress: ShowProgress | None = None
) -> int:
    """Run a broker until SIGTERM or SIGINT; returns the exit status.

    ``load`` reads the settings again for SIGHUP; ``show_progress``: see ``Broker``. Raises OSError
    when the data directory cannot be made, ListenError when an address cannot be listened on, and
    StoreError when what is on disk cannot be used.
    """
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(settings, load, show_progress))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed; plain asyncio is some 25 % slower and otherwise the same."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(
    settings: Settings, load: Callable[[], Settings], show_progress: ShowProgress | None
) -> int:
    started = time.monotonic()
    settings.data_dir.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    report(
        events.BROKER_STARTING,
        version=__version__,
        pid=os.getpid(),
        data_dir=str(settings.data_dir),
    )
    keep_freed_memory()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_report_failure)
    broker = Broker(settings, show_progress)
    stopping: asyncio.Future[str] = loop.create_future()
    _install_signal_handlers(broker, load, stopping)
    if not await _has_started(broker, stopping):
        report(events.BROKER_STOPPING, reason=stopping.result())
        report(events.BROKER_STOPPED)
        return 0
    collector = IdleCollector(broker.context.count_entries)
    collector.start()
    for url in filter(None, [*broker.urls, broker.management_url]):
        report(events.BROKER_LISTENING, url=url)
    report(events.BROKER_READY, startup_ms=round((time.monotonic() - started) * 1000))
    reason = await stopping
    report(events.BROKER_STOPPING, reason=reason)
    await broker.stop(broker.settings.shutdown.deadline_s)
    collector.stop()
    report(events.BROKER_STOPPED)
    return 0


async def _has_started(broker: Broker, stopping: asyncio.Future[str]) -> bool:
    """False when it was told to stop before it had read what is on disk."""
    starting = asyncio.ensure_future(broker.start())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
    try:
        await starting
    except asyncio.CancelledError:
        return False
    return True


def _report_failure(loop: asyncio.AbstractEventLoop, problem: dict[str, Any]) -> None:
    """An exception that nobody caught, in a callback or a task: a bug, told like any other.

    But for a socket whose peer is gone: the end of that connection is told where it is noticed.
    """
    error = problem.get("exception")
    if isinstance(error, OSError) and error.errno in PEER_GONE:
        return
    where = str(problem.get("message", "event loop"))
    report(events.BROKER_FAILED, where=where, exc_info=error)


def _install_signal_handlers(
    broker: Broker, load: Callable[[], Settings], stopping: asyncio.Future[str]
) -> None:
    loop = asyncio.get_running_loop()

    def stop(name: str) -> None:
        if not stopping.done():
            stopping.set_result(name)

    def reload() -> None:
        if not broker.has_started:
            loop.call_later(RELOAD_RETRY_S, reload)
            return
        try:
            broker.reload(load())
        except ConfigurationError as error:
            for problem in error.problems:
                report(events.CONFIGURATION_REFUSED, problem=problem)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number.name)
    loop.add_signal_handler(signal.SIGHUP, reload)


def _url(scheme: str, host: str, port: int) -> str:
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _addresses(settings: Settings) -> list[Address]:
    """Of the AMQP listeners, in their order, and then of the management port."""
    first, management = settings.listener, settings.management
    addresses = [Address("listener", first.bind, first.port)]
    addresses += [
        Address(f"listeners[{index}]", further.bind, further.port)
        for index, further in enumerate(settings.listeners)
    ]
    if management.enabled:
        addresses.append(Address("management", management.bind, management.port))
    return addresses


def _endpoints(
    settings: Settings,
    addresses: Sequence[Address],
    bound: Sequence[Sequence[socket.socket]],
) -> list[Endpoint]:
    """``addresses`` and ``bound`` may go on with the management port."""
    products = ["", *(further.product for further in settings.listeners)]
    backlog = settings.listener.backlog
    return [
        Endpoint(address, sockets, backlog, product)
        for product, address, sockets in zip(products, addresses, bound, strict=False)
    ]


def _identity(settings: Settings) -> Identity:
    return Identity(
        product=settings.identity.product,
        version=settings.identity.version,
        cluster_name=settings.identity.cluster_name,
        platform=f"{platform.python_implementation()} {platform.python_version()}",
        brand=f"Hareline {__version__}",
        qpid_product=settings.identity.qpid_product,
    )


def _limits(settings: Settings) -> Limits:
    limits = settings.limits
    return Limits(
        frame_max_bytes=limits.frame_max_bytes,
        channel_max=limits.channel_max,
        heartbeat_s=limits.heartbeat_s,
        handshake_timeout_s=limits.handshake_timeout_s,
        authentication_failure_delay_s=settings.auth.failure_delay_s,
        max_message_bytes=limits.max_message_bytes,
        large_message_bytes=limits.large_message_bytes,
        max_connections=limits.max_connections,
        max_consumers_per_channel=limits.max_consumers_per_channel,
        max_selectors_per_queue=limits.max_selectors_per_queue,
    )


def _storage_options(settings: Settings) -> StorageOptions:
    journal = settings.journal
    return StorageOptions(
        data_dir=settings.data_dir,
        segment_bytes=journal.segment_bytes,
        sync=journal.sync,
        sync_interval_ms=journal.sync_interval_ms,
        on_corruption=Decision(journal.on_corruption),
        retention_age_s=journal.retention_age_s,
        retention_bytes=journal.retention_bytes,
    )


def _users(settings: Settings, started_with: Settings) -> list[User]:
    """``started_with``: what decided which mechanisms are on until the broker is restarted."""
    has_scram = SCRAM in started_with.auth.mechanisms
    return [
        User(
            name=user.name,
            password_hash=user.password_hash
            or (hash_password(user.password.get_secret_value()) if user.password else ""),
            hashing=user.hashing if user.password_hash else "sha256",
            tags=frozenset(user.tags),
            permissions={
                permission.vhost: Permissions(
                    permission.configure, permission.write, permission.read
                )
                for permission in user.permissions
            },
            scram=_scram(user) if has_scram else None,
        )
        for user in settings.users
    ]


def _scram(user: UserSettings) -> ScramKeys | PasswordKeys | None:
    if user.scram is not None:
        return ScramKeys.parse(user.scram)
    if user.password is None:
        return None
    try:
        return PasswordKeys(user.password.get_secret_value(), salt_of(user.name))
    except ValueError:  # one that SASLprep prohibits: good for the other mechanisms all the same
        return None
