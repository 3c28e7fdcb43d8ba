"""Starting, watching and stopping a child process, with small programs in place of a broker."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.macro import brokers
from benchmarks.macro.brokers import OwnBroker, RemoteBroker
from benchmarks.macro.errors import BenchmarkError

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="pidfd_open and /proc")


class Program(OwnBroker):
    """Runs some Python in place of a broker; ready when it has printed "ready"."""

    def __init__(self, source: str) -> None:
        super().__init__("program")
        self._source = source
        self.directory: Path | None = None

    def launch(self, directory: Path) -> None:
        self.directory = directory
        child = self.spawn([sys.executable, "-u", "-c", self._source], {}, directory)
        while "ready" not in self.output():
            if child.poll() is not None:
                raise self.failure("ended")
        self._pid = child.pid


WAITS = "import signal; print('ready'); signal.pause()"


@pytest.fixture
def program() -> Iterator[Program]:
    started = Program(WAITS)
    started.start()
    yield started
    started.stop()


@contextlib.contextmanager
def started(source: str) -> Iterator[Program]:
    program = Program(source)
    program.start()
    try:
        yield program
    finally:
        program.stop()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_stopped_broker_leaves_no_process_and_no_directory(program: Program) -> None:
    pid, directory = program.pid, program.directory
    assert pid is not None
    assert directory is not None
    assert is_running(pid)
    program.stop()
    assert not is_running(pid)
    assert not directory.exists()
    assert not program.is_alive()


def test_stopping_twice_is_allowed(program: Program) -> None:
    program.stop()
    program.stop()
    assert program.pid is None


def test_a_renewed_broker_is_another_process(program: Program) -> None:
    before = program.pid
    program.renew()
    assert before is not None
    assert not is_running(before)
    assert program.pid not in (None, before)
    assert program.is_alive()


class Restartable(Program):
    """Counts its starts in its directory, as a broker counts on its data."""

    is_restartable = True

    def __init__(self) -> None:
        source = """if True:
            import signal
            with open("starts", "a") as file:
                file.write("x")
            print("ready")
            signal.pause()
        """
        super().__init__(source)


@pytest.fixture
def restartable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Restartable]:
    class Connection:
        def __init__(self, url: str) -> None: ...
        def close(self) -> None: ...

    monkeypatch.setattr(brokers, "Client", Connection)
    started = Restartable()
    started.start()
    yield started
    started.stop()


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_resumed_broker_is_another_process_on_the_same_directory(
    restartable: Restartable, is_killed: bool
) -> None:
    pid, directory = restartable.pid, restartable.directory
    assert pid is not None
    assert directory is not None
    restartable.halt(is_killed=is_killed)
    assert not is_running(pid)
    assert not restartable.is_alive()
    assert restartable.resume() > 0
    assert restartable.pid not in (None, pid)
    assert restartable.is_alive()
    assert restartable.directory == directory
    assert (directory / "starts").read_text() == "xx"


def test_what_was_printed_before_a_halt_is_not_taken_for_being_ready(
    restartable: Restartable,
) -> None:
    restartable.halt(is_killed=True)
    restartable.resume()
    assert restartable.output() == "ready\n"


def test_a_broker_that_was_not_halted_is_not_resumed(restartable: Restartable) -> None:
    with pytest.raises(BenchmarkError, match="was not halted"):
        restartable.resume()


def test_a_halted_broker_leaves_nothing_when_it_is_stopped(restartable: Restartable) -> None:
    directory = restartable.directory
    restartable.halt(is_killed=True)
    restartable.stop()
    assert directory is not None
    assert not directory.exists()
    with pytest.raises(BenchmarkError, match="was not halted"):
        restartable.resume()


def test_a_broker_that_cannot_go_on_with_its_data_is_not_halted(program: Program) -> None:
    with pytest.raises(BenchmarkError, match="cannot be started again on its data"):
        program.halt(is_killed=True)
    assert program.is_alive()


ENDS_WITH = """if True:
    import signal, sys
    signal.signal(signal.SIGTERM, lambda *_: sys.exit({status}))
    print("ready")
    signal.pause()
"""
IGNORES = """if True:
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready")
    signal.pause()
"""
NO_LIMIT = 1 << 62


@linux_only
class TestEnd:
    def test_an_orderly_end_is_timed_and_leaves_nothing(self) -> None:
        with started(ENDS_WITH.format(status=0)) as program:
            pid, directory = program.pid, program.directory
            assert pid is not None
            assert directory is not None
            ending = program.end(60.0, NO_LIMIT)
            assert 0 < ending.seconds < 60
            assert ending.killed_because is None
            assert not is_running(pid)
            assert not directory.exists()
            assert not program.is_alive()

    @pytest.mark.parametrize(
        ("limit_s", "rss_limit", "reason"),
        [
            (0.1, NO_LIMIT, "it was not gone 0.1 s after SIGTERM"),
            (60.0, 1_000, "its memory passed 1e-06 GB while it stopped"),
        ],
    )
    def test_what_does_not_end_within_its_limits_is_killed(
        self, limit_s: float, rss_limit: int, reason: str
    ) -> None:
        with started(IGNORES) as program:
            pid = program.pid
            assert pid is not None
            ending = program.end(limit_s, rss_limit)
            assert ending.killed_because == reason
            assert ending.peak_rss_bytes > 1_000_000
            assert not is_running(pid)

    def test_an_end_with_an_error_is_no_orderly_one(self) -> None:
        with (
            started(ENDS_WITH.format(status=3)) as program,
            pytest.raises(BenchmarkError, match="ended with status 3 when asked to stop"),
        ):
            program.end(30.0, NO_LIMIT)

    def test_a_process_that_was_gone_before_was_not_stopped(self) -> None:
        with started(WAITS) as program:
            assert program.pid is not None
            os.kill(program.pid, signal.SIGKILL)
            os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
            with pytest.raises(BenchmarkError, match="was gone before it was asked to stop"):
                program.end(30.0, NO_LIMIT)

    def test_a_broker_that_is_not_ours_is_not_ended(self) -> None:
        remote = RemoteBroker("elsewhere", "amqp://127.0.0.1:1/", pid=os.getpid())
        with pytest.raises(BenchmarkError, match="elsewhere cannot be stopped from here"):
            remote.end(0.0, 0)


def test_a_broker_that_ends_at_once_is_told_with_its_last_words() -> None:
    program = Program("import sys; sys.exit('cannot bind')")
    with pytest.raises(BenchmarkError, match="cannot bind"), program:
        raise AssertionError("it must not be entered")
    assert not program.is_alive()


def test_no_service_starts_while_a_package_is_installed(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    with brokers.no_services_started(policy):
        assert "exit 101" in policy.read_text()
        assert os.access(policy, os.X_OK)
    assert not policy.exists()


def test_a_policy_that_is_there_already_stays_as_it_is(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text("mine")
    with brokers.no_services_started(policy):
        assert policy.read_text() == "mine"
    assert policy.read_text() == "mine"


def test_nothing_is_installed_when_the_program_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "RABBITMQ_SERVER", (sys.executable,))
    assert brokers.find_rabbitmq() == sys.executable


def test_without_leave_to_install_a_missing_program_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(brokers, "RABBITMQ_SERVER", ("no-such-program-anywhere",))
    assert brokers.find_rabbitmq(may_install=False) is None
