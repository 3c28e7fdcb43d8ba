"""Daemons of the tests' own, and brokers in a thread for those that look inside.

``daemon`` is shared by the tests of a file, ``start_daemon`` gives a test its own, ``start_broker``
gives one in a thread. What they wrote is searched for tracebacks at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp

import pytest

from hareline.settings import Settings, Storage
from hareline.storage.journal.files import Files
from tests.support.broker_process import BrokerProcess
from tests.support.broker_thread import BrokerThread, broker_in_thread

StartDaemon = Callable[..., BrokerProcess]
StartBroker = Callable[..., BrokerThread]


@pytest.fixture
def start_daemon(tmp_path: Path) -> Iterator[StartDaemon]:
    """``start_daemon(config_toml="", *flags)``; those still running at the end are stopped.

    ``launcher``: a command that runs the daemon's in its place.
    """
    with ExitStack() as running:

        def start(
            config_toml: str | None = "", *flags: str, launcher: Sequence[str] = ()
        ) -> BrokerProcess:
            directory = Path(mkdtemp(prefix="daemon-", dir=tmp_path))
            daemon = BrokerProcess(directory, config_toml, flags)
            daemon.launcher = launcher
            return running.enter_context(daemon)

        yield start


@pytest.fixture
def start_broker() -> Iterator[StartBroker]:
    """``start_broker(settings=None)`` gives a broker in a thread of this process."""
    with ExitStack() as stack:

        def start(settings: Settings | None = None) -> BrokerThread:
            return stack.enter_context(broker_in_thread(settings))

        yield start


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerThread:
    """A broker in a thread, with default settings."""
    return start_broker()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """While it is not set, the disk takes its time."""
    gate = threading.Event()
    gate.set()
    sync = Files.sync

    def do_sync(files: Files, fd: int) -> None:
        assert gate.wait(60), "the disk never came back"
        sync(files, fd)

    monkeypatch.setattr(Files, "sync", do_sync)
    yield gate
    gate.set()


@pytest.fixture
def gated_broker(gate: threading.Event, tmp_path: Path) -> Iterator[BrokerThread]:
    """A durable broker in a thread, whose disk is ``gate``."""
    settings = Settings(data_dir=tmp_path / "data", storage=Storage(kind="journal"))
    with broker_in_thread(settings) as thread:
        yield thread
        gate.set()
