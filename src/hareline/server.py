"""The composition root: settings to a running broker, in order, and back down again.

``Broker`` is what the CLI runs as a daemon and ``hareline.testing`` runs in a thread. Start: parts,
virtual hosts and users, management port, AMQP listener last. Stop: listeners first, then
connection.close 320 to everybody, until all are gone or the deadline has passed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from hareline import __version__, events
from hareline.amqp.context import Context, Identity, Limits
from hareline.auth.mechanisms import MechanismRegistry
from hareline.auth.passwords import hash_password
from hareline.auth.permissions import Permissions
from hareline.auth.users import User, UserRegistry
from hareline.broker.vhost import VirtualHost
from hareline.clock import Clock
from hareline.errors import ConfigurationError
from hareline.logs import get_logger, set_level
from hareline.net.allocator import keep_freed_memory
from hareline.net.collector import IdleCollector
from hareline.net.listener import Listener
from hareline.net.memory import MemoryWatch, available_bytes
from hareline.net.timers import LoopTimers
from hareline.settings import Settings, changed_options, restart_options
from hareline.settings import User as UserSettings
from hareline.turn import Turn

if TYPE_CHECKING:
    from hareline.management.listener import ManagementListener

SHUTDOWN_REASON: Final = "broker forced connection closure with reason 'shutdown'"
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
    events.HANDSHAKE_TIMED_OUT: "warning",
    events.HEARTBEAT_MISSED: "warning",
    events.MEMORY_ALARM_SET: "warning",
    events.PEER_SPEAKS_OTHERWISE: "warning",
    events.QUEUE_DROPPED: "warning",
    events.QUEUE_OVERFULL: "warning",
}


def report(event: events.Event, **fields: object) -> None:
    """An operational event of any layer becomes a log message."""
    getattr(_LOG, _SEVERITIES.get(event, "info"))(event, **fields)


class Broker:
    """One broker; ``start`` needs a running event loop, and ``stop`` ends it for good.

    ``context`` holds its parts; ``url`` and ``management_url`` are known once it has started.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._started_with = settings
        loop = asyncio.get_running_loop()
        clock = Clock()
        self._timers = LoopTimers(loop, clock)
        self.context = Context(
            clock=clock,
            turn=Turn(loop.call_soon),
            users=UserRegistry(_users(settings.users), settings.auth.loopback_users),
            mechanisms=MechanismRegistry(settings.auth.mechanisms),
            identity=_identity(settings),
            limits=_limits(settings),
            report=report,
        )
        self._add_vhosts(settings)
        self._listener = Listener(self.context)
        self._memory_watch = MemoryWatch(
            self.context.alarms,
            report,
            settings.memory.watermark_bytes(available_bytes()),
            settings.memory.check_interval_s,
        )
        self._management: ManagementListener | None = None
        self.is_stopping = False
        self.url = ""
        self.management_url = ""

    async def start(self) -> None:
        """Raises OSError when an address cannot be bound; nothing is left running then."""
        settings = self.settings
        if settings.management.enabled:
            await self._start_management()
        self._memory_watch.start()
        listener = settings.listener
        try:
            host, port = await self._listener.start(
                listener.bind,
                listener.port,
                backlog=listener.backlog,
                write_high_bytes=settings.limits.write_buffer_high_bytes,
            )
        except OSError:
            self._memory_watch.stop()
            await self._close_management()
            raise
        self.url = _url("amqp", host, port)

    async def _start_management(self) -> None:
        from hareline.management.app import Health, create_app
        from hareline.management.listener import ManagementListener

        def read_health() -> Health:
            return Health(
                status="stopping" if self.is_stopping else "ok",
                alarms=self.context.alarms.resources,
            )

        listener = ManagementListener(create_app(read_health))
        management = self.settings.management
        host, port = await listener.start(management.bind, management.port)
        self.management_url = _url("http", host, port)
        self._management = listener

    async def _close_management(self) -> None:
        if self._management is not None:
            await self._management.stop()
            self._management = None

    async def stop(self, deadline_s: float) -> None:
        """Close listeners, tell every connection (320), and wait for them within the deadline."""
        self.is_stopping = True
        await self._listener.stop()
        self._memory_watch.stop()
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
                    connection.link.abort()
                await are_gone.wait()
        await self._close_management()

    def reload(self, settings: Settings) -> None:
        """Take over what can be changed while running, and say what cannot."""
        changed = changed_options(self.settings, settings)
        context = self.context
        waiting = restart_options(self._started_with, settings)  # named until it is restarted
        needs_restart = dict.fromkeys(waiting + restart_options(self.settings, settings))
        users = _users(settings.users)
        for name in context.users.replace(users, settings.auth.loopback_users):
            for connection in list(context.connections):
                user = getattr(connection, "user", None)  # None until it has logged in
                if user is not None and user.name == name:
                    connection.force_close(f"user '{name}' is deleted")
        for connection in list(context.connections):
            connection.renew_access()
        self._add_vhosts(settings)
        context.limits = _limits(settings)
        self._listener.write_high_bytes = settings.limits.write_buffer_high_bytes
        self._memory_watch.watermark_bytes = settings.memory.watermark_bytes(available_bytes())
        self._memory_watch.interval_s = settings.memory.check_interval_s
        set_level(settings.log.level)
        self.settings = settings
        report(events.CONFIGURATION_RELOADED, changed=changed)
        if needs_restart:
            report(events.CONFIGURATION_NEEDS_RESTART, options=", ".join(needs_restart))

    def _add_vhosts(self, settings: Settings) -> None:
        for vhost in settings.vhosts:
            existing = self.context.vhosts.get(vhost.name)
            if existing is None:
                existing = VirtualHost(
                    vhost.name,
                    self.context.turn,
                    clock=self.context.clock,
                    timers=self._timers,
                    report=report,
                )
                self.context.vhosts[vhost.name] = existing
            existing.max_queues = vhost.max_queues
            existing.set_default_dead_letter_exchange(vhost.default_dead_letter_exchange or None)
            existing.default_prefetch = vhost.default_prefetch
            existing.prefetch_profile = vhost.prefetch_profile
            existing.prefetch_max = vhost.prefetch_max
            self.context.vhost_connection_limits[vhost.name] = vhost.max_connections


def serve(settings: Settings, load: Callable[[], Settings]) -> int:
    """Run a broker until SIGTERM or SIGINT; returns the exit status.

    ``load`` reads the settings again for SIGHUP. Raises OSError when the data directory cannot be
    made or an address cannot be bound.
    """
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(settings, load))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed; plain asyncio is some 25 % slower and otherwise the same."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(settings: Settings, load: Callable[[], Settings]) -> int:
    started = time.monotonic()
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    report(
        events.BROKER_STARTING,
        version=__version__,
        pid=os.getpid(),
        data_dir=str(settings.data_dir),
    )
    keep_freed_memory()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_report_failure)
    broker = Broker(settings)
    stopping: asyncio.Future[str] = loop.create_future()
    _install_signal_handlers(broker, load, stopping)
    await broker.start()
    collector = IdleCollector(broker.context.count_entries)
    collector.start()
    report(events.BROKER_LISTENING, url=broker.url)
    if broker.management_url:
        report(events.BROKER_LISTENING, url=broker.management_url)
    report(events.BROKER_READY, startup_ms=round((time.monotonic() - started) * 1000))
    reason = await stopping
    report(events.BROKER_STOPPING, reason=reason)
    await broker.stop(broker.settings.shutdown.deadline_s)
    collector.stop()
    report(events.BROKER_STOPPED)
    return 0


def _report_failure(loop: asyncio.AbstractEventLoop, problem: dict[str, Any]) -> None:
    """An exception that nobody caught, in a callback or a task: a bug, told like any other."""
    where = str(problem.get("message", "event loop"))
    report(events.BROKER_FAILED, where=where, exc_info=problem.get("exception"))


def _install_signal_handlers(
    broker: Broker, load: Callable[[], Settings], stopping: asyncio.Future[str]
) -> None:
    loop = asyncio.get_running_loop()

    def stop(name: str) -> None:
        if not stopping.done():
            stopping.set_result(name)

    def reload() -> None:
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


def _identity(settings: Settings) -> Identity:
    return Identity(
        product=settings.identity.product,
        version=settings.identity.version,
        cluster_name=settings.identity.cluster_name,
        platform=f"{platform.python_implementation()} {platform.python_version()}",
        brand=f"Hareline {__version__}",
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
        max_connections=limits.max_connections,
        max_consumers_per_channel=limits.max_consumers_per_channel,
    )


def _users(users: tuple[UserSettings, ...]) -> list[User]:
    return [
        User(
            name=user.name,
            password_hash=user.password_hash
            or hash_password(user.password.get_secret_value() if user.password else ""),
            hashing=user.hashing if user.password_hash else "sha256",
            tags=frozenset(user.tags),
            permissions={
                permission.vhost: Permissions(
                    permission.configure, permission.write, permission.read
                )
                for permission in user.permissions
            },
        )
        for user in users
    ]
