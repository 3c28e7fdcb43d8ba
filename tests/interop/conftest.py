"""Fixtures of the interop tests: the broker they talk to and names nobody else uses.

``broker`` is one daemon for the whole session, or the broker that ``AMQP_URL_UNDER_TEST`` names, or
the module's own where that is marked ``daemon``.
``start_broker`` starts further daemons, for tests that restart them or change their settings.
``connect``, ``connection``, ``channel`` and ``queue`` are pika's, the client that most tests use to
look on; a file about another client defines its own under these names.
Invariant: a traceback in the session daemon's log fails the test during which it was written.
"""

from __future__ import annotations

import gc
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hareline.settings import Settings
from tests.support.broker_process import BrokerProcess, BrokerUnderTest, ForeignBroker, StartDaemon
from tests.support.broker_thread import BrokerThread, broker_in_thread

from .failing_disk import Disk

if TYPE_CHECKING:
    import pika
    from pika.adapters.blocking_connection import BlockingChannel

URL_VARIABLE = "AMQP_URL_UNDER_TEST"

#: Settings of every daemon started here: a second virtual host, and a user who may do little.
USERS_CONFIG = """
[auth]
failure_delay_s = 0.5
[shutdown]  # clients that block outside their library never answer connection.close
deadline_s = 1
[[vhosts]]
name = "/"
[[vhosts]]
name = "other"
[[users]]
name = "guest"
password = "guest"
permissions = [
    { vhost = "/", configure = ".*", write = ".*", read = ".*" },
    { vhost = "other", configure = ".*", write = ".*", read = ".*" },
]
[[users]]
name = "limited"
password = "limited"
permissions = [{ vhost = "/", configure = "^mine-", write = "^mine-|^amq.topic$", read = "^mine-" }]
"""

StartBroker = Callable[..., BrokerProcess]
PikaConnect = Callable[..., "pika.BlockingConnection"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Client libraries leave sockets to the garbage collector; that is no fault of a test here."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="module", autouse=True)
def no_client_garbage_left_for_others() -> Iterator[None]:
    """Collect what the clients left while the mark above still hides their warnings."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def session_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerUnderTest]:
    """The broker under test, alive for the whole session."""
    url = os.environ.get(URL_VARIABLE)
    if url:
        yield ForeignBroker(url)
        return
    with BrokerProcess(tmp_path_factory.mktemp("broker"), USERS_CONFIG) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest) -> BrokerUnderTest:
    """The session's, or that of the module where it is marked ``daemon``."""
    is_own = request.node.get_closest_marker("daemon") is not None
    found: BrokerUnderTest = request.getfixturevalue("daemon" if is_own else "session_broker")
    return found


@pytest.fixture
def start_broker(start_daemon: StartDaemon) -> StartBroker:
    """``start_broker(more_toml="")`` gives a daemon of the test's own; ends them all after."""
    if os.environ.get(URL_VARIABLE):
        pytest.skip(f"needs a daemon of its own, and {URL_VARIABLE} names one that runs")
    return lambda more_toml="": start_daemon(more_toml + USERS_CONFIG)


@pytest.fixture
def own_broker(start_broker: StartBroker) -> BrokerProcess:
    """A daemon that this test alone uses, and may restart or kill."""
    return start_broker()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The disk below ``inside``."""
    return Disk(monkeypatch)


@pytest.fixture
def inside(disk: Disk, durable: Settings) -> Iterator[BrokerThread]:
    """A broker in a thread of this process, whose disk fails when ``disk`` is told to."""
    with broker_in_thread(durable) as thread:
        yield thread


@pytest.fixture
def only_hareline(broker: BrokerUnderTest) -> None:
    """For tests of what RabbitMQ does not have."""
    if broker.is_foreign:
        pytest.skip("RabbitMQ does not have this")


@pytest.fixture(autouse=True)
def no_traceback_in_the_broker_log(request: pytest.FixtureRequest) -> Iterator[None]:
    """Blame a broker's traceback on the test that provoked it."""
    daemon = request.getfixturevalue("broker") if "broker" in request.fixturenames else None
    yield
    if isinstance(daemon, BrokerProcess):
        daemon.check_log()


@pytest.fixture
def name() -> str:
    """A name for a queue or an exchange that no other test uses."""
    return f"interop-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def connect(broker: BrokerUnderTest) -> Iterator[PikaConnect]:
    """``connect(**options)`` opens a pika connection; those still open at the end are closed."""
    pika = pytest.importorskip("pika", reason="pika (PyPI) is not installed")
    opened: list[Any] = []

    def open_connection(**options: Any) -> Any:
        parameters = {
            "host": broker.host,
            "port": broker.port,
            "virtual_host": broker.vhost,
            "credentials": pika.PlainCredentials(broker.username, broker.password),
            **options,
        }
        opened.append(pika.BlockingConnection(pika.ConnectionParameters(**parameters)))
        return opened[-1]

    yield open_connection
    for connection in opened:
        if connection.is_open:
            connection.close()


@pytest.fixture
def connection(connect: PikaConnect) -> pika.BlockingConnection:
    return connect()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    return connection.channel()


@pytest.fixture
def queue(channel: BlockingChannel) -> str:
    """A server-named queue that goes when the test's connection closes."""
    return str(channel.queue_declare("", exclusive=True).method.queue)
