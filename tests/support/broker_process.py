"""The broker that clients in tests talk to: the real daemon in a process of its own.

``BrokerProcess`` starts ``python -m hareline serve`` on a port that the system chooses, reads the
port from the ready line, and stops it with SIGTERM. ``ForeignBroker`` stands for a broker that
runs already (environment ``AMQP_URL_UNDER_TEST``), so that the same suite can be held against
RabbitMQ. Made by the fixtures of interop/ and server/; interop tests see only ``BrokerUnderTest``.

Invariant: a daemon that was started here is ended here, by its own process object, and it ended
well: exit status 0 and no traceback in what it wrote.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest

from .waiting import wait_for

READY_LINE = re.compile(r"listening on amqps?://[^\s\"]*:(\d+)")
TLS_LINE = re.compile(r"listening on amqps://[^\s\"]*:(\d+)")
HTTPS_LINE = re.compile(r"https://[^\s\"/]*:(\d+)")
MANAGEMENT_LINE = re.compile(r"http://[^\s\"/]*:(\d+)")
#: What an error nobody caught leaves in a log, as text and as structlog's JSON.
TRACEBACK = re.compile(r'Traceback \(most recent call last\)|"exc_type"|Fatal Python error')

START_DEADLINE_S = 120.0
STOP_DEADLINE_S = 60.0
LOG_TAIL_CHARACTERS = 6000


class BrokerFailed(AssertionError):
    """The daemon did not start, did not stop well, or logged a traceback."""


class BrokerUnderTest(ABC):
    """Where a broker listens and how to log in; what every client test needs.

    ``process``, ``log_path`` and ``management_port`` are None for a broker that we did not start.
    """

    #: True for a broker that is not Hareline: tests then accept RabbitMQ 3.10's older answers too.
    is_foreign = False

    def __init__(
        self,
        host: str,
        port: int,
        *,
        username: str = "guest",
        password: str = "guest",
        vhost: str = "/",
    ) -> None:
        self.host = host
        self.port = port
        self.username = username
        self.password = password
        self.vhost = vhost
        self.process: subprocess.Popen[bytes] | None = None
        self.log_path: Path | None = None

    @property
    def url(self) -> str:
        """``amqp://user:password@host:port/vhost`` with the virtual host percent-encoded."""
        return self.url_for()

    def url_for(
        self,
        *,
        username: str | None = None,
        password: str | None = None,
        vhost: str | None = None,
    ) -> str:
        """The broker's URL with another login or virtual host."""
        user = quote(self.username if username is None else username, safe="")
        secret = quote(self.password if password is None else password, safe="")
        name = quote(self.vhost if vhost is None else vhost, safe="")
        return f"amqp://{user}:{secret}@{self.host}:{self.port}/{name}"

    @property
    @abstractmethod
    def management_port(self) -> int | None: ...

    @abstractmethod
    def restart(self) -> None:
        """Stop the daemon with SIGTERM and start it again on the same port."""


class ForeignBroker(BrokerUnderTest):
    """A broker that runs already; it cannot be restarted, so such tests are skipped."""

    is_foreign = True

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        super().__init__(
            parts.hostname or "127.0.0.1",
            parts.port or 5672,
            username=unquote(parts.username or "guest"),
            password=unquote(parts.password or "guest"),
            vhost=unquote(parts.path[1:]) or "/",
        )

    @property
    def management_port(self) -> int | None:
        return None

    def restart(self) -> None:
        pytest.skip("needs to restart the daemon, and AMQP_URL_UNDER_TEST names one that runs")


class BrokerProcess(BrokerUnderTest):
    """``python -m hareline serve`` with its own data directory, configuration and log file.

    ``config_toml`` None starts it without a file; ``flags`` are further flags of the command.
    """

    def __init__(
        self, directory: Path, config_toml: str | None = "", flags: Sequence[str] = ()
    ) -> None:
        super().__init__("127.0.0.1", 0)
        self.launcher: Sequence[str] = ()  # a command that runs the one behind it, in its place
        self._flags = list(flags)
        self.data_dir = directory / "data"
        self.config_path = directory / "hareline.toml"
        self.log_path: Path = directory / "broker.log"
        if config_toml is not None:
            self.config_path.write_text(config_toml, encoding="utf-8")
            self._flags += ["--config", str(self.config_path)]
        self._management_port = 0
        self._started_at_offset = 0
        self._checked_to_offset = 0

    def start(self) -> None:
        """Start the daemon and return when it accepts connections; raises `BrokerFailed`."""
        command = [*self.launcher, sys.executable, "-m", "hareline", "serve", "--bind", self.host]
        command += ["--port", str(self.port), "--management-port", str(self._management_port)]
        command += ["--data-dir", str(self.data_dir), *self._flags]
        with self.log_path.open("ab") as log:
            self._started_at_offset = log.tell()
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_daemon_environment(),
            )
        ready = wait_for(self._find_ready_line, START_DEADLINE_S, "the broker's ready line")
        self.port = int(ready[1])

    def __enter__(self) -> BrokerProcess:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """`stop`; `kill` after a failure, or if the end was none."""
        try:
            if kind is None:
                self.stop()
        finally:
            self.kill()

    def stop(self) -> None:
        """SIGTERM, wait, and hold the daemon to a clean end; raises `BrokerFailed`."""
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerFailed(
                f"no exit within {STOP_DEADLINE_S:.0f} s of SIGTERM\n{self.log_tail()}"
            ) from None
        if status != 0:
            raise BrokerFailed(f"exit status {status} after SIGTERM\n{self.log_tail()}")
        self.check_log()

    def kill(self) -> None:
        """End the daemon as a crash would: SIGKILL, no farewell to its clients."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()

    def restart(self) -> None:
        # The management port is read first, so that both ports stay what clients know.
        self._management_port = self.management_port or 0
        self.stop()
        self.start()

    def restart_by_kill(self) -> None:
        """`kill`, and start it again on its data and its ports."""
        self._management_port = self.management_port or 0
        self.kill()
        self.start()

    def reload(self, config_toml: str) -> None:
        """Replace the configuration file and have the daemon read it again (SIGHUP)."""
        assert self.process is not None
        self.config_path.write_text(config_toml, encoding="utf-8")
        self.process.send_signal(signal.SIGHUP)

    @property
    def management_port(self) -> int | None:
        """The port of the HTTP API, as the daemon printed it."""
        return self._port_in(MANAGEMENT_LINE, "a log line that names the management port")

    @property
    def tls_port(self) -> int:
        """The port for AMQP with TLS."""
        return self._port_in(TLS_LINE, "a log line that names the port with TLS")

    @property
    def https_port(self) -> int:
        """The port of the HTTP API with TLS."""
        return self._port_in(HTTPS_LINE, "a log line that names the port for HTTPS")

    def _port_in(self, line: re.Pattern[str], what: str) -> int:
        def found() -> re.Match[str] | None:
            return line.search(self._log_since(self._started_at_offset))

        return int(wait_for(found, START_DEADLINE_S, what)[1])

    @property
    def management_url(self) -> str:
        """``http://host:port`` of the HTTP API."""
        return f"http://{self.host}:{self.management_port}"

    @property
    def resident_bytes(self) -> int:
        """Memory of the daemon that is in use, by Linux's /proc."""
        assert self.process is not None
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def check_log(self) -> None:
        """Raise `BrokerFailed` if a traceback was logged since the last look."""
        text = self._log_since(self._checked_to_offset)
        self._checked_to_offset += len(text.encode("utf-8", "surrogateescape"))
        if TRACEBACK.search(text):
            raise BrokerFailed(f"the broker logged a traceback\n{text[-LOG_TAIL_CHARACTERS:]}")

    def log_tail(self) -> str:
        return self._log_since(0)[-LOG_TAIL_CHARACTERS:]

    def _find_ready_line(self) -> re.Match[str] | None:
        ready = READY_LINE.search(self._log_since(self._started_at_offset))
        if ready is None and self.process is not None and self.process.poll() is not None:
            raise BrokerFailed(
                f"exit status {self.process.returncode} before the ready line\n{self.log_tail()}"
            )
        return ready

    def _log_since(self, offset: int) -> str:
        with self.log_path.open("rb") as log:
            log.seek(offset)
            return log.read().decode("utf-8", "surrogateescape")


#: Of the fixture ``start_daemon``.
StartDaemon = Callable[..., BrokerProcess]


@contextmanager
def restarting(broker: BrokerProcess) -> Iterator[None]:
    """Restart the daemon while the block runs, and leave when it listens again.

    A client whose test waits inside ``broker.restart()`` cannot answer the daemon's farewell, and
    the daemon would wait for it; so the restart has a thread of its own.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        restarted = pool.submit(broker.restart)
        yield
        restarted.result()


def _daemon_environment() -> dict[str, str]:
    """Our environment with the package under test first, and no settings of the caller's own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HARELINE_")}
    environment["PYTHONUNBUFFERED"] = "1"
    spec = importlib.util.find_spec("hareline")
    if spec is not None and spec.submodule_search_locations:
        source = str(Path(next(iter(spec.submodule_search_locations))).parent)
        paths = [source, *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment
