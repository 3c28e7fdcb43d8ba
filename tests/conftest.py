"""Options and hooks of the whole suite: how long property tests search, ``--row``, what compiled
code cannot run, a quick collector, and results by group; and brokers: ``daemon`` is one process for
a module, ``start_daemon`` and ``start_broker`` give a test its own, in a process and in a thread.

Property tests look at the same examples in every run, under the profile "short"; `make acceptance`
draws new ones, under "random", and `make fuzz` many, under "fuzz". A test whose examples are long,
or cheap, takes a share of what the profile says: tests/support/examples.py. `make test` divides the
tests among processes as tests/support/side_by_side.py says; tests/support/results.py reports.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from hareline.compiled import build
from tests.support import results

if TYPE_CHECKING:
    import threading

    from xdist.remote import Producer

    from hareline.settings import Settings
    from tests.support.broker_process import BrokerProcess, StartDaemon
    from tests.support.broker_thread import BrokerThread, StartBroker
    from tests.support.side_by_side import DivisionScheduling

# No deadline: on a shared machine it measures the neighbours.
settings.register_profile(
    "short", deadline=None, max_examples=24, print_blob=True, derandomize=True
)
settings.register_profile("random", deadline=None, max_examples=60, print_blob=True)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=20_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("short")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--row``, which may be given several times, and the options of the results."""
    parser.addoption(
        "--row",
        action="append",
        default=[],
        metavar="ID",
        help="run only tests of this row of docs/features.md",
    )
    results.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Have the results of all processes counted, and brokers end by the signals that they get."""
    results.register(config)
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            # As in a job in the background. A child inherits "ignored", but not a handler.
            signal.signal(number, lambda *_: None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of no chosen row, if any was chosen, and put those first that take long.

    The order is changed in the processes of pytest-xdist alone.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        from tests.support.side_by_side import rank_of

        items.sort(key=lambda item: rank_of(item.nodeid))
    chosen = set(config.getoption("row"))
    if not chosen:
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        ids = {id_ for mark in item.iter_markers("row") for id_ in mark.args}
        (kept if chosen & ids else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that is marked ``pure`` where the package is compiled; its reason is printed."""
    mark = item.get_closest_marker("pure")
    if mark is not None and build() == "compiled":
        pytest.skip(f"not compiled: {mark.args[0]}")


@pytest.fixture(scope="module")
def daemon(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    """One for the tests of a module, which may give its configuration by the mark ``daemon``."""
    from tests.support.broker_process import BrokerProcess

    mark = request.node.get_closest_marker("daemon")
    directory = tmp_path_factory.mktemp("daemon")
    with BrokerProcess(directory, *(mark.args if mark else ())) as running:
        yield running


@pytest.fixture
def start_daemon(tmp_path: Path) -> Iterator[StartDaemon]:
    """``start_daemon(config_toml="", *flags)``; those still running at the end are stopped.

    ``launcher``: a command that runs the daemon's in its place.
    """
    from tests.support.broker_process import BrokerProcess

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
    """``start_broker(settings=None, *, has_http=False)`` gives one in a thread of this process."""
    from tests.support.broker_thread import broker_in_thread

    with ExitStack() as running:

        def start(settings: Settings | None = None, *, has_http: bool = False) -> BrokerThread:
            return running.enter_context(broker_in_thread(settings, has_http=has_http))

        yield start


@pytest.fixture
def durable(tmp_path: Path) -> Settings:
    """Settings with a journal."""
    from hareline.settings import Settings, Storage

    return Settings(data_dir=tmp_path / "data", storage=Storage(kind="journal"))


@pytest.fixture
def disk_answers() -> Iterator[threading.Event]:
    """While it is cleared, each sync of the journal hangs."""
    from hareline.storage.journal.files import Files
    from tests.support.hanging import hanging_while_cleared

    with hanging_while_cleared(Files, "sync") as answers:
        yield answers


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Say what `-n auto` means for the whole suite."""
    if config.getoption("dist") != "loadscope":
        return None
    from tests.support.side_by_side import workers

    return workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> DivisionScheduling | None:
    """Have pytest-xdist divide the suite by our divisions where it is told to do so by scopes."""
    if config.getoption("dist") != "loadscope":
        return None
    from tests.support.side_by_side import DivisionScheduling

    return DivisionScheduling(config, log)


def pytest_collection_finish() -> None:
    """Keep what collecting made, thousands of tests, out of the garbage collector's sight."""
    freeze_what_lives()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """Behind the last test of a file, do so with what the file has imported and left."""
    yield
    if nextitem is None or nextitem.path != item.path:
        freeze_what_lives()


def freeze_what_lives() -> None:
    """Have the collector look at newer objects only from now on.

    Many tests ask it what is left of a queue; each would look at half a million objects.
    """
    gc.collect()
    gc.freeze()
