"""JMS: the clients of Apache Qpid and of RabbitMQ, unchanged; the JUnit suites of ``java/``.

Maven runs both suites once, on a broker of this module's own: the Qpid client asks for AMQP 0-10
first, and a broker that has seen that from an address names itself otherwise to it, which other
tests' clients must not see. Around the run pika writes for one side and reads from the other.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import BrokerProcess, BrokerUnderTest, ForeignBroker

from ..conftest import URL_VARIABLE, USERS_CONFIG
from ..suite_runs import CACHE, SuiteRun, need_programs
from . import jms_pika_qpid, jms_pika_rabbitmq
from .maven_runs import MavenModule, properties_of

need_programs("mvn", "javac")
pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

MODULE = MavenModule(Path(__file__).parent, CACHE / "interop-java", "hareline.jms")
CASES = MODULE.cases()

#: Downloads on a fresh machine, compiling, and about a minute and a half of cases.
RUN_TIMEOUT_S = 800

#: What names the queues of this run that pika and JMS share.
PREFIX = f"jms-{uuid.uuid4().hex[:8]}-"

#: The command of a daemon that a case has for itself, its words separated by tabs.
DAEMON = f"{sys.executable}\t-m\thareline\tserve\t--management-port\t0"

READERS: list[Callable[[BlockingChannel, str], None]] = [
    jms_pika_qpid.check_text,
    jms_pika_qpid.check_bytes,
    jms_pika_qpid.check_map,
    jms_pika_rabbitmq.read_text,
    jms_pika_rabbitmq.read_octets,
    jms_pika_rabbitmq.read_own_kind,
]


@pytest.fixture(scope="module")
def jms_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerUnderTest]:
    url = os.environ.get(URL_VARIABLE)
    if url:
        yield ForeignBroker(url)
        return
    with BrokerProcess(tmp_path_factory.mktemp("jms-broker"), USERS_CONFIG) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def jms_channel(jms_broker: BrokerUnderTest) -> Iterator[BlockingChannel]:
    """pika's side; its heartbeats are off, since nobody serves it while the suites run."""
    parameters = pika.URLParameters(jms_broker.url)
    parameters.heartbeat = 0
    connection = pika.BlockingConnection(parameters)
    yield connection.channel()
    connection.close()


@pytest.fixture(scope="module")
def suite(
    jms_broker: BrokerUnderTest,
    jms_channel: BlockingChannel,
    tmp_path_factory: pytest.TempPathFactory,
) -> SuiteRun:
    jms_pika_qpid.write(jms_channel, PREFIX)
    jms_pika_rabbitmq.write(jms_channel, PREFIX)
    properties = {
        **properties_of(jms_broker),
        "broker.command": "" if jms_broker.is_foreign else DAEMON,
        "broker.directory": tmp_path_factory.mktemp("jms-daemons"),
        "jms.prefix": PREFIX,
    }
    return MODULE.run(properties, timeout_s=RUN_TIMEOUT_S, skip="Maven cannot fetch JMS clients")


@pytest.mark.parametrize("case", CASES)
def test_jms(suite: SuiteRun, case: str) -> None:
    suite.hold(case)


def test_jms_ran_every_case(suite: SuiteRun) -> None:
    suite.hold_to_names(CASES)


@pytest.mark.row("M22")
@pytest.mark.parametrize("read", READERS, ids=lambda read: f"{read.__module__}.{read.__name__}")
def test_pika_reads_what_jms_has_sent(
    suite: SuiteRun, jms_channel: BlockingChannel, read: Callable[[BlockingChannel, str], None]
) -> None:
    assert suite.finished.status == 0 or suite.results, suite.finished.tail
    read(jms_channel, PREFIX)
