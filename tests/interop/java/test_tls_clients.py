"""Clients of five libraries over TLS: with the broker's certificate alone, and with their own too.

The suites of amqplib, of the Go client and of the Java client run as they are without TLS; pika and
aio-pika, whose tests are written in Python, have cases here. ``mutual``: the broker requires a
certificate of each client.
"""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import aio_pika
import pika
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import pkcs12

from tests.support.authority import Files
from tests.support.broker_process import BrokerProcess

from ..conftest import USERS_CONFIG
from ..go import go_runs
from ..node import node_runs
from ..suite_runs import CACHE, SuiteRun
from .maven_runs import MavenModule

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

DEADLINE_S = 60.0
HERE = Path(__file__).parents[1]
GO = HERE / "go"
JAVA = MavenModule(HERE / "java-client", CACHE / "interop-java-client", "hareline.interop")
#: Classes of the Java suite that open all their connections by the factory.
JAVA_CLASSES = ("ConfirmTest", "ConnectionTest", "ConsumingTest", "PublishingTest", "RecoveryTest")
#: They count frames of sockets that they make themselves, without TLS.
JAVA_PLAIN = {
    "ConnectionTest.theServerSendsHeartbeatsWhenItIsIdle",
    "ConnectionTest.theServerSendsOftenEnoughForNetty",
    "ConnectionTest.aClientThatFallsSilentIsDropped",
}
JAVA_CASES = [
    case
    for case in JAVA.cases()
    if case.partition(".")[0] in JAVA_CLASSES and case not in JAVA_PLAIN
]
JAVA_TIMEOUT_S = 800
PASSWORD = "changeit"


@dataclass
class TlsBroker:
    """A broker with TLS. ``client``: the name of its clients' certificate, if they need one."""

    process: BrokerProcess
    files: Files
    client: str | None

    @property
    def url(self) -> str:
        return f"amqps://guest:guest@localhost:{self.process.tls_port}/%2F"

    def context(self) -> ssl.SSLContext:
        return self.files.client_context(self.client)

    def url_with(self, ca: str, certificate: str, key: str) -> str:
        """The URL with the paths of files in its query, under these names."""
        query = {ca: str(self.files.ca)}
        if self.client is not None:
            query |= dict(zip((certificate, key), self.files.pair(self.client), strict=True))
        return f"{self.url}?{urlencode(query)}"


@pytest.fixture(scope="module", params=["plain", "mutual"])
def tls_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TlsBroker]:
    directory = tmp_path_factory.mktemp("tls")
    files = Files(directory)
    files.server()
    files.client("ann")
    is_mutual = request.param == "mutual"
    certificate, key = files.pair("server")
    verify = "required" if is_mutual else "none"
    table = f"""
[tls]
certificate = "{certificate}"
key = "{key}"
client_authorities = "{files.ca}"
verify_clients = "{verify}"
port = 0
management = false
"""
    with BrokerProcess(directory, table + USERS_CONFIG) as process:
        yield TlsBroker(process, files, "ann" if is_mutual else None)


# ------------------------------------------------------------------------------ amqplib


@pytest.fixture(scope="module")
def node_suite(tls_broker: TlsBroker, tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    environment = {
        "AMQPLIB": "amqplib",
        "AMQP_URL": tls_broker.url,
        "AMQP_CA": str(tls_broker.files.ca),
        "NODE_PATH": str(node_runs.installed_modules()),
        "NODE_OPTIONS": f"--require {node_runs.SOURCES / 'tls.cjs'}",
    }
    if tls_broker.client is not None:
        certificate, key = tls_broker.files.pair(tls_broker.client)
        environment |= {"AMQP_CERT": certificate, "AMQP_KEY": key}
    return node_runs.run_suites(tmp_path_factory.mktemp("node") / "cases.jsonl", environment)


@pytest.mark.parametrize("case", node_runs.CASES)
def test_amqplib(node_suite: SuiteRun, case: str) -> None:
    node_suite.hold(case)


# ----------------------------------------------------------------------------------- Go


@pytest.fixture(scope="module")
def go_suite(tls_broker: TlsBroker) -> SuiteRun:
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    url = tls_broker.url_with("cacertfile", "certfile", "keyfile")
    return go_runs.run_module(GO, (1, 20), {"AMQP_URL": url})


@pytest.mark.parametrize("case", go_runs.cases_of(GO))
def test_go(go_suite: SuiteRun, case: str) -> None:
    go_suite.hold(case)


# --------------------------------------------------------------------------------- Java


def stores(broker: TlsBroker) -> dict[str, object]:
    """The files of the JVM, and its properties that name them."""
    trusted = broker.files.directory / "trusted.p12"
    authority = pkcs12.PKCS12Certificate(broker.files.authority.certificate, b"ca")
    locked = serialization.BestAvailableEncryption(PASSWORD.encode())
    trusted.write_bytes(pkcs12.serialize_java_truststore([authority], locked))
    properties: dict[str, object] = {
        "javax.net.ssl.trustStore": trusted,
        "javax.net.ssl.trustStorePassword": PASSWORD,
    }
    if broker.client is not None:
        certificate, key = (Path(each).read_bytes() for each in broker.files.pair(broker.client))
        loaded = serialization.load_pem_private_key(key, None)
        assert isinstance(loaded, EllipticCurvePrivateKey)
        own = broker.files.directory / "own.p12"
        read = x509.load_pem_x509_certificate(certificate)
        own.write_bytes(pkcs12.serialize_key_and_certificates(b"ann", loaded, read, None, locked))
        properties |= {
            "javax.net.ssl.keyStore": own,
            "javax.net.ssl.keyStorePassword": PASSWORD,
            "javax.net.ssl.keyStoreType": "PKCS12",
        }
    return properties


@pytest.fixture(scope="module")
def java_suite(tls_broker: TlsBroker) -> SuiteRun:
    for program in ("mvn", "javac"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    properties = {
        "broker.host": "localhost",
        "broker.port": tls_broker.process.tls_port,
        "broker.tls": "true",
        "test": ",".join(JAVA_CLASSES),
        **stores(tls_broker),
    }
    skip = "Maven cannot fetch the Java client"
    return JAVA.run(properties, timeout_s=JAVA_TIMEOUT_S, skip=skip)


@pytest.mark.parametrize("case", JAVA_CASES)
def test_java(java_suite: SuiteRun, case: str) -> None:
    java_suite.hold(case)


# --------------------------------------------------------------------------------- pika


@pytest.fixture
def blocking(tls_broker: TlsBroker) -> Iterator[pika.BlockingConnection]:
    options = pika.SSLOptions(tls_broker.context(), "localhost")
    connection = pika.BlockingConnection(
        pika.ConnectionParameters("localhost", tls_broker.process.tls_port, ssl_options=options)
    )
    yield connection
    if connection.is_open:
        connection.close()


def test_pika_publishes_with_confirms_and_consumes(blocking: pika.BlockingConnection) -> None:
    channel = blocking.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.confirm_delivery()
    bodies = [b"%d" % index + b"x" * (index * 997 % 40_000) for index in range(200)]
    for body in bodies:
        channel.basic_publish("", queue, body, mandatory=True)
    got = []
    for method, _, body in channel.consume(queue, inactivity_timeout=DEADLINE_S):
        got.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(got) == len(bodies):
            break
    assert got == bodies


def test_pika_is_told_of_a_channel_error_and_goes_on(blocking: pika.BlockingConnection) -> None:
    channel = blocking.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.queue_declare("absent", passive=True)
    assert caught.value.reply_code == 404
    again = blocking.channel()
    queue = again.queue_declare("", exclusive=True).method.queue
    again.tx_select()
    again.basic_publish("", queue, b"committed")
    again.tx_commit()
    assert again.basic_get(queue, auto_ack=True)[2] == b"committed"


def test_pika_takes_a_large_message(blocking: pika.BlockingConnection) -> None:
    channel = blocking.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    body = bytes(range(256)) * 40_000  # above what is held in memory
    channel.confirm_delivery()
    channel.basic_publish("", queue, body)
    assert channel.basic_get(queue, auto_ack=True)[2] == body


# ----------------------------------------------------------------------------- aio-pika


async def test_aio_pika_publishes_and_consumes(tls_broker: TlsBroker) -> None:
    url = tls_broker.url_with("cafile", "certfile", "keyfile")
    connection = await aio_pika.connect_robust(url)
    async with asyncio.timeout(DEADLINE_S), connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=50)
        queue = await channel.declare_queue(exclusive=True)
        bodies = [b"%d" % index + b"y" * (index * 991 % 30_000) for index in range(200)]
        exchange = channel.default_exchange
        publishes = [exchange.publish(aio_pika.Message(body), queue.name) for body in bodies]
        await asyncio.gather(*publishes)
        got = []
        async with queue.iterator() as messages:
            async for message in messages:
                got.append(message.body)
                await message.ack()
                if len(got) == len(bodies):
                    break
        assert got == bodies


async def test_aio_pika_waves_of_connections(tls_broker: TlsBroker) -> None:
    url = tls_broker.url_with("cafile", "certfile", "keyfile")
    async with asyncio.timeout(DEADLINE_S):
        connections = await asyncio.gather(*(aio_pika.connect(url) for _ in range(30)))
        for connection in connections:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            assert queue.name
        await asyncio.gather(*(connection.close() for connection in connections))
