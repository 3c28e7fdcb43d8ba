"""Starts and stops the brokers under test, each in its own directory and on its own ports.

Used by the runner, and by scenarios that restart or end a broker. A `Broker` is stopped by the
process ids it started, whatever happens in between, and `renew` gives it a new process where a
scenario wants one.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, ClassVar, Final

from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.machine import PROJECT_ROOT, data_directory, rss_bytes
from benchmarks.macro.turn_watch import TurnWatch

START_TIMEOUT_S: Final = 90.0
STOP_TIMEOUT_S: Final = 30.0
KILL_TIMEOUT_S: Final = 10.0
RABBITMQ_SERVER: Final = (
    "/usr/lib/rabbitmq/bin/rabbitmq-server",  # the script itself: the one on PATH changes user
    "rabbitmq-server",
)
#: whose file says whether a build is compiled
COMPILED_MODULE: Final = "hareline.wire.decoder"
POLICY_RC_D: Final = Path("/usr/sbin/policy-rc.d")  # Debian policy manual, section 9.3.3

_URL_IN_OUTPUT: Final = re.compile(r"amqp://([\w.\-\[\]:]+?):(\d+)")
_MANAGEMENT_URL_IN_OUTPUT: Final = re.compile(r"http://[\w.\-\[\]:]+?:\d+")
_POLL_S: Final = 0.05


@dataclass(frozen=True)
class Ending:
    """How a broker's process ended after SIGTERM; `killed_because` is None if it went by itself."""

    seconds: float
    peak_rss_bytes: int
    killed_because: str | None


class Broker(ABC):
    """A broker that scenarios run against. Use it in a ``with`` statement."""

    is_renewable: ClassVar[bool] = False
    is_restartable: ClassVar[bool] = False
    #: another build of the subject, and so no peer to compare it with
    is_compiled: ClassVar[bool] = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.version = ""

    @property
    @abstractmethod
    def url(self) -> str: ...

    @property
    @abstractmethod
    def pid(self) -> int | None:
        """The process whose memory and processor time count; None if it is not known."""

    @abstractmethod
    def start(self) -> None:
        """Return when clients can connect. :raises BenchmarkError: they cannot."""

    @abstractmethod
    def stop(self) -> None: ...

    def renew(self) -> None:
        """Restart, so that the process has done nothing yet, if this run started the broker."""
        if self.is_renewable:
            self.stop()
            self.start()

    def end(self, limit_s: float, rss_limit_bytes: int) -> Ending:
        """Stop in the same orderly way as `stop`, and measure it.

        The process is killed when it takes longer than `limit_s` or when its resident memory passes
        `rss_limit_bytes`.

        :raises BenchmarkError: this run did not start it, or it was gone before, or ended with
            an error.
        """
        raise BenchmarkError(f"{self.name} cannot be stopped from here")

    def halt(self, *, is_killed: bool) -> None:
        """End the process, by SIGKILL or orderly, and leave its data for `resume`.

        :raises BenchmarkError: this run did not start it.
        """
        raise BenchmarkError(f"{self.name} cannot be started again on its data from here")

    def resume(self) -> float:
        """Start on the data that `halt` left; the seconds until clients can connect.

        `url` and `pid` change. :raises BenchmarkError: clients cannot connect.
        """
        raise BenchmarkError(f"{self.name} cannot be started again on its data from here")

    @property
    def data_dir(self) -> Path | None:
        """Where it keeps its messages; None if that is not known."""
        return None

    @property
    def management_url(self) -> str:
        """The address of its HTTP API. :raises BenchmarkError: it is not known."""
        raise BenchmarkError(f"the HTTP address of {self.name} is not known")

    def is_alive(self) -> bool:
        return True

    def __enter__(self) -> Broker:
        try:
            self.start()
            with Client(self.url) as client:
                self.version = _version_of(client.server_properties)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class RemoteBroker(Broker):
    """A broker that this run did not start, known by URL and perhaps by process id."""

    def __init__(self, name: str, url: str, pid: int | None = None) -> None:
        super().__init__(name)
        self._url = url
        self._pid = pid

    @property
    def url(self) -> str:
        return self._url

    @property
    def pid(self) -> int | None:
        return self._pid

    def start(self) -> None:
        try:
            Client(self._url).close()
        except OSError as error:
            raise BenchmarkError(f"{self.name} at {self._url} is not reachable: {error}") from error

    def stop(self) -> None:
        """Does nothing: this run did not start the broker."""


class OwnBroker(Broker):
    """A broker that is a child of this process, with a temporary directory for all it writes."""

    is_renewable: ClassVar[bool] = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._url = ""
        self._pid: int | None = None
        self._children: list[subprocess.Popen[bytes]] = []
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._log: IO[bytes] | None = None

    @property
    def url(self) -> str:
        return self._url

    @property
    def pid(self) -> int | None:
        return self._pid

    def start(self) -> None:
        self._directory = tempfile.TemporaryDirectory(
            prefix=f"bench-{self.name}-", dir=data_directory()
        )
        self._launch_logged(Path(self._directory.name))

    @abstractmethod
    def launch(self, directory: Path) -> None:
        """Start the process and set `_url` and `_pid` once clients can connect.

        Where `is_restartable` it may be called again for a directory that was used before.
        """

    def halt(self, *, is_killed: bool) -> None:
        if not self.is_restartable:
            super().halt(is_killed=is_killed)
        with _interrupts_later():
            while self._children:
                child = self._children.pop()
                if is_killed:
                    child.kill()
                _end(child)
        self._close_log()
        self._url, self._pid = "", None

    def resume(self) -> float:
        if self._directory is None or self._children:
            raise BenchmarkError(f"{self.name} was not halted, so it cannot be resumed")
        started = time.monotonic()
        self._launch_logged(Path(self._directory.name))
        Client(self.url).close()
        return time.monotonic() - started

    def _launch_logged(self, directory: Path) -> None:
        self._log = (directory / "output.log").open("wb")
        self.launch(directory)

    def _close_log(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def stop(self) -> None:
        """End what was started, the latest first; it may be called at any time, also twice."""
        with _interrupts_later():
            while self._children:
                _end(self._children.pop())
        self._close_log()
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None
        self._url, self._pid = "", None

    def end(self, limit_s: float, rss_limit_bytes: int) -> Ending:
        if self._pid is None or not self.is_alive():
            raise self.failure("was gone before it was asked to stop")
        child = self._children[-1]
        process = os.pidfd_open(self._pid)
        try:
            started = time.monotonic()
            child.terminate()
            peak, killed_because = _watch_end(process, self._pid, limit_s, rss_limit_bytes)
            if killed_because is not None:
                os.killpg(child.pid, signal.SIGKILL)  # a group of its own, see `spawn`
                if not _is_gone(process, KILL_TIMEOUT_S):
                    raise self.failure(f"was still there {KILL_TIMEOUT_S:.0f} s after SIGKILL")
            seconds = time.monotonic() - started
            if killed_because is None and child.wait(KILL_TIMEOUT_S):
                raise self.failure(f"ended with status {child.returncode} when asked to stop")
        finally:
            os.close(process)
        self.stop()
        return Ending(seconds, peak, killed_because)

    def is_alive(self) -> bool:
        return bool(self._children) and self._children[-1].poll() is None

    def spawn(
        self, command: list[str], environment: Mapping[str, str], directory: Path
    ) -> subprocess.Popen[bytes]:
        """Start a process in a session of its own, so that Ctrl-C reaches it only through us."""
        child = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._children.append(child)
        return child

    def output(self) -> str:
        """What the broker has printed so far."""
        assert self._directory is not None
        log = Path(self._directory.name) / "output.log"
        return log.read_text(encoding="utf-8", errors="replace")

    def failure(self, what: str) -> BenchmarkError:
        last_lines = "\n".join(self.output().splitlines()[-15:])
        return BenchmarkError(f"{self.name} {what}; its last output:\n{last_lines}")


class Hareline(OwnBroker):
    """This tree's broker, run by the interpreter that runs the benchmark."""

    is_restartable: ClassVar[bool] = True

    def __init__(self, name: str = "hareline") -> None:
        super().__init__(name)
        self._watch: TurnWatch | None = None

    @property
    def data_dir(self) -> Path | None:
        return Path(self._directory.name) / "data" if self._directory else None

    @property
    def management_url(self) -> str:
        found = _MANAGEMENT_URL_IN_OUTPUT.search(self.output())
        if found is None:
            raise self.failure("printed no http:// address")
        return found[0]

    @property
    def python(self) -> str:
        """The interpreter that runs it."""
        return sys.executable

    @property
    def python_path(self) -> str:
        """Where that interpreter looks for the broker first."""
        own = str(PROJECT_ROOT / "src")
        return os.pathsep.join(filter(None, [own, os.environ.get("PYTHONPATH")]))

    def watch_turns(self) -> TurnWatch:
        """Start it again as a process that counts its long turns and garbage collections."""
        self.stop()
        self._watch = TurnWatch()
        try:
            self.start()
            return self._watch
        finally:
            self._watch = None  # the process after this one counts nothing

    def launch(self, directory: Path) -> None:
        data = directory / "data"
        program = ["-m", "hareline"] if self._watch is None else self._watch.program(directory)
        command = [self.python, *program, "serve", "--bind", "127.0.0.1"]
        command += ["--port", "0", "--management-port", "0", "--data-dir", str(data)]
        environment = {"PYTHONPATH": self.python_path, "PYTHONUNBUFFERED": "1"}
        child = self.spawn(command, environment, directory)
        deadline = time.monotonic() + START_TIMEOUT_S
        while (found := _URL_IN_OUTPUT.search(self.output())) is None:
            if child.poll() is not None:
                raise self.failure(f"ended with status {child.returncode} before it was ready")
            if time.monotonic() > deadline:
                raise self.failure(f"printed no amqp:// address within {START_TIMEOUT_S:.0f} s")
            time.sleep(_POLL_S)
        self._url = f"amqp://guest:guest@{found[1]}:{found[2]}/"
        self._pid = child.pid


class CompiledHareline(Hareline):
    """The compiled build: what `hareline` is for another interpreter, beside this tree's."""

    is_compiled: ClassVar[bool] = True

    def __init__(self, python: str) -> None:
        super().__init__("hareline-compiled")
        self._python = python

    @property
    def python(self) -> str:
        return self._python

    @property
    def python_path(self) -> str:
        return ""  # nothing before what is installed there

    def start(self) -> None:
        self._expect_compiled()
        super().start()

    def _expect_compiled(self) -> None:
        """:raises BenchmarkError: that interpreter has no Hareline, or one that is not compiled."""
        try:
            done = subprocess.run(
                [self._python, "-P", "-c", f"import {COMPILED_MODULE} as m; print(m.__file__)"],
                env={**os.environ, "PYTHONPATH": ""},
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            raise BenchmarkError(f"{self._python} cannot be run: {error}") from error
        if done.returncode:
            last_line = (done.stderr.splitlines() or ["no reason given"])[-1]
            raise BenchmarkError(f"{self._python} cannot import hareline: {last_line}")
        if not done.stdout.strip().endswith(".so"):
            raise BenchmarkError(
                f"the hareline of {self._python} is not compiled: {COMPILED_MODULE} is "
                f"{done.stdout.strip()}; install a compiled wheel there"
            )


class RabbitMQ(OwnBroker):
    """Debian's rabbitmq-server with its defaults, as a node of its own.

    Node directory, ports, cookie and name service are its own too, all on loopback, so that a
    RabbitMQ that already runs on the machine neither notices nor disturbs it. It has no plugins;
    tests name some, with lines of rabbitmq.conf in which ``{http_port}`` stands for a free port.
    """

    def __init__(self, program: str, plugins: Sequence[str] = (), configuration: str = "") -> None:
        super().__init__("rabbitmq")
        self._program = program
        self._plugins = plugins
        self._configuration = configuration
        self._environment: dict[str, str] = {}
        self.http_port = 0

    def launch(self, directory: Path) -> None:
        port, distribution_port, epmd_port, self.http_port = _free_ports(4)
        (directory / "enabled_plugins").write_text(f"[{','.join(self._plugins)}].\n")
        (directory / "advanced.config").write_text("[].\n")
        (directory / "rabbitmq.conf").write_text(
            self._configuration.replace("{http_port}", str(self.http_port))
        )
        (directory / "home").mkdir()
        pid_file = directory / "pid"
        environment = {
            "HOME": str(directory / "home"),
            "ERL_EPMD_PORT": str(epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bench{os.getpid()}p{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(distribution_port),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_PID_FILE": str(pid_file),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(directory / "rabbitmq-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(directory / "advanced.config"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ("-kernel inet_dist_use_interface {127,0,0,1}"),
        }
        self._environment = environment
        epmd = _epmd_program()
        if epmd is not None:  # else the node starts one, which outlives it
            command = [epmd, "-port", str(epmd_port), "-address", "127.0.0.1"]
            self.spawn(command, environment, directory)
            _wait_for_listener(epmd_port)
        node = self.spawn([self._program], environment, directory)
        self._url = f"amqp://guest:guest@127.0.0.1:{port}/"
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _accepts_clients(self._url):
            if node.poll() is not None:
                raise self.failure(f"ended with status {node.returncode} before it was ready")
            if time.monotonic() > deadline:
                raise self.failure(f"accepted no client within {START_TIMEOUT_S:.0f} s")
            time.sleep(_POLL_S)
        self._pid = int(pid_file.read_text())

    def control(self, *arguments: str) -> str:
        """What ``rabbitmqctl`` prints for these arguments."""
        assert self._directory is not None
        program = Path(self._program).with_name("rabbitmqctl")
        return subprocess.run(
            [str(program), "--quiet", *arguments],
            env={**os.environ, **self._environment},
            cwd=self._directory.name,
            check=True,
            capture_output=True,
            text=True,
        ).stdout


def find_rabbitmq(*, may_install: bool = True) -> str | None:
    """The rabbitmq-server program; installs Debian's where it is missing and that is possible."""
    found = _rabbitmq_program()
    if found is None and may_install and os.geteuid() == 0 and shutil.which("apt-get"):
        _install_rabbitmq()
        found = _rabbitmq_program()
    return found


def _rabbitmq_program() -> str | None:
    return next((path for name in RABBITMQ_SERVER if (path := shutil.which(name))), None)


def _install_rabbitmq() -> None:
    """Install the package without starting its service; apt reports a failure."""
    print("no rabbitmq-server here: installing Debian's", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "--no-install-recommends", "rabbitmq-server"]
    with no_services_started():
        for command in (["apt-get", "update"], install):
            subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def no_services_started(policy: Path = POLICY_RC_D) -> Iterator[None]:
    """Forbid service starts while packages are installed, in the way Debian documents."""
    if policy.exists():
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()


def _epmd_program() -> str | None:
    bundled = sorted(Path("/usr/lib/erlang").glob("erts-*/bin/epmd"))
    return shutil.which("epmd") or (str(bundled[-1]) if bundled else None)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _version_of(properties: Mapping[str, object]) -> str:
    """Name and version from the broker; `brand` is for brokers that give another product name."""
    product = f"{properties.get('product', 'unknown product')} {properties.get('version', '')}"
    return str(properties.get("brand") or product.strip())


def _wait_for_listener(port: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)


def _accepts_clients(url: str) -> bool:
    try:
        Client(url).close()
    except (OSError, BenchmarkError):
        return False
    return True


@contextlib.contextmanager
def _interrupts_later() -> Iterator[None]:
    """Put Ctrl-C off: a second one must not leave a process behind that is being stopped."""
    signals = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _watch_end(
    process: int, pid: int, limit_s: float, rss_limit_bytes: int
) -> tuple[int, str | None]:
    """Wait for the end of a process that was asked to; `process` is from pidfd_open(2).

    Returns its peak resident memory, and why it has to be killed, or None if it is gone.
    """
    peak = 0
    deadline = time.monotonic() + limit_s
    while not _is_gone(process, _POLL_S):
        with contextlib.suppress(OSError):  # it has gone since
            peak = max(peak, rss_bytes(pid))
        if peak > rss_limit_bytes:
            return peak, f"its memory passed {rss_limit_bytes / 1e9:g} GB while it stopped"
        if time.monotonic() > deadline:
            return peak, f"it was not gone {limit_s:g} s after SIGTERM"
    return peak, None


def _is_gone(process: int, timeout_s: float) -> bool:
    """Wait until a process of pidfd_open(2) has ended, at most `timeout_s`."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            # its own session, so its own group: nothing that we did not start is in it
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
