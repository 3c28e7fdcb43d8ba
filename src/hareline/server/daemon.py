"""A broker as a process of its own: from start to SIGTERM, with a reload at each SIGHUP.

``cli`` calls ``serve``. What only a process of its own may set is set here: signals, the event
loop's exception handler, the allocator, the garbage collector, the switch interval. A broker inside
another program (``hareline.testing``) does without. Invariant: a second signal to stop changes
nothing.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from hareline import __version__, compiled, events
from hareline.errors import ConfigurationError
from hareline.net.allocator import keep_freed_memory
from hareline.net.collector import IdleCollector
from hareline.reporting import report
from hareline.server.broker import Broker, loop_factory
from hareline.server.recovery import ShowProgress
from hareline.settings import Settings
from hareline.storage.disk.directory import DIRECTORY_MODE

# How long a thread that comes back from a system call waits for the interpreter while another one
# computes. The default of 5 ms would go on top of each sync of the journal, and so of each confirm.
SWITCH_INTERVAL_S: Final = 0.0002
RELOAD_RETRY_S: Final = 0.5  # for a SIGHUP that comes before the broker has started
PEER_GONE: Final = {
    errno.ECONNABORTED,
    errno.ECONNRESET,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.ENOTCONN,
    errno.EPIPE,
    errno.ETIMEDOUT,
}


def serve(
    settings: Settings, load: Callable[[], Settings], show_progress: ShowProgress | None = None
) -> int:
    """Run a broker until SIGTERM or SIGINT; returns the exit status.

    ``load`` reads the settings again for SIGHUP; ``show_progress``: see ``Broker``. Raises OSError
    if the data directory cannot be made, ListenError if an address cannot be listened on, and
    StoreError if what is on disk cannot be used.
    """
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(settings, load, show_progress))


async def _serve(
    settings: Settings, load: Callable[[], Settings], show_progress: ShowProgress | None
) -> int:
    started = time.monotonic()
    settings.data_dir.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    report(
        events.BROKER_STARTING,
        version=__version__,
        build=compiled.build(),
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
    collector = IdleCollector(broker.context.count_entries, broker.context.count_octets)
    collector.start()
    for url in (*broker.urls, *broker.http_urls):
        report(events.BROKER_LISTENING, url=url)
    report(events.BROKER_READY, startup_ms=round((time.monotonic() - started) * 1000))
    reason = await stopping
    report(events.BROKER_STOPPING, reason=reason)
    await broker.stop(broker.settings.shutdown.deadline_s)
    collector.stop()
    report(events.BROKER_STOPPED)
    return 0


async def _has_started(broker: Broker, stopping: asyncio.Future[str]) -> bool:
    """Start the broker; False if a signal stops it before it has read what is on disk."""
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
    """Report an exception that no callback or task caught: a bug like any other.

    An error of a socket whose peer is gone is left out: the end of that connection is reported
    where it is noticed.
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
