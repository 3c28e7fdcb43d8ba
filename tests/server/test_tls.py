"""TLS of a whole broker: clients that are verified, names, renewed certificates, closed ports."""

from __future__ import annotations

import gc
import json
import re
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pika
import pika.exceptions
import pytest

from tests.support.authority import Files
from tests.support.broker_process import BrokerFailed, BrokerProcess, StartDaemon
from tests.support.http_api import HttpApi
from tests.support.waiting import wait_for

# pika leaves sockets that were refused to the garbage collector
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

DEADLINE_S = 60.0
CLIENT_ERRORS = (pika.exceptions.AMQPConnectionError, ssl.SSLError, OSError)


@pytest.fixture(scope="module", autouse=True)
def _no_client_garbage_left_for_others() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    directory = tmp_path / "certificates"
    directory.mkdir()
    made = Files(directory)
    made.server()
    made.client("ann")
    return made


def toml_of(files: Files, more: str = "", **options: Any) -> str:
    """Settings with TLS; text, numbers and flags are the same in JSON and TOML."""
    table = files.table(**options)
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    return "\n".join(["[tls]", *lines, more])


def connect(
    broker: BrokerProcess, context: ssl.SSLContext, host: str = "localhost", **given: Any
) -> pika.BlockingConnection:
    options = pika.SSLOptions(context, host)
    parameters = pika.ConnectionParameters(
        "127.0.0.1", broker.tls_port, ssl_options=options, **given
    )
    return pika.BlockingConnection(parameters)


def serial_shown(broker: BrokerProcess, files: Files, host: str = "localhost") -> str:
    """The serial number of the certificate that a new client is shown."""
    return str(certificate_shown(broker.tls_port, files, host)["serialNumber"])


def certificate_shown(port: int, files: Files, host: str = "localhost") -> dict[str, Any]:
    context = files.client_context()
    context.check_hostname = False
    raw = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
    with context.wrap_socket(raw, server_hostname=host) as client:
        found = client.getpeercert()
        assert found is not None
        return dict(found)


def logged(broker: BrokerProcess, code: str) -> list[dict[str, Any]]:
    lines = broker.log_path.read_text(encoding="utf-8").splitlines()
    return [entry for line in lines if (entry := json.loads(line)).get("code") == code]


def exchange(connection: pika.BlockingConnection, body: bytes) -> None:
    """Publish a message and get it back."""
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.confirm_delivery()
    channel.basic_publish("", queue, body)
    assert channel.basic_get(queue, auto_ack=True)[2] == body


@pytest.mark.acceptance
def test_messages_go_through_tls_in_both_versions(start_daemon: StartDaemon, files: Files) -> None:
    broker = start_daemon(toml_of(files))
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = files.client_context()
        context.maximum_version = version
        connection = connect(broker, context)
        for size in (0, 1, 16_384, 16_385, 3_000_000):
            exchange(connection, b"x" * size)
        connection.close()


@pytest.mark.acceptance
def test_a_slow_reader_gets_everything(start_daemon: StartDaemon, files: Files) -> None:
    broker = start_daemon(toml_of(files))
    connection = connect(broker, files.client_context())
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    bodies = [bytes([index % 256]) * 50_000 for index in range(400)]
    for body in bodies:
        channel.basic_publish("", queue, body)
    got = []
    for _, _, body in channel.consume(queue, auto_ack=True, inactivity_timeout=DEADLINE_S):
        got.append(body)
        if len(got) == len(bodies):
            break
    assert got == bodies
    connection.close()


@pytest.mark.acceptance
def test_clients_show_certificates_where_they_have_to(
    start_daemon: StartDaemon, files: Files
) -> None:
    authorities = str(files.ca)
    broker = start_daemon(toml_of(files, client_authorities=authorities, verify_clients="required"))
    exchange(connect(broker, files.client_context("ann")), b"hello")
    with pytest.raises(CLIENT_ERRORS):
        connect(broker, files.client_context())
    reasons = wait_for(lambda: logged(broker, "TLS-1005"), DEADLINE_S, "the refusal")
    assert reasons[0]["reason"] == "the client shows no certificate, and one is required"
    broker.reload(toml_of(files, client_authorities=authorities, verify_clients="optional"))
    wait_for(lambda: logged(broker, "CFG-1001"), DEADLINE_S, "the reload")
    exchange(connect(broker, files.client_context()), b"hello")


@pytest.mark.acceptance
def test_a_client_whose_certificate_is_revoked_meanwhile_is_refused(
    start_daemon: StartDaemon, files: Files
) -> None:
    rules = {
        "client_authorities": str(files.ca),
        "client_revocations": str(files.revoke()),
        "verify_clients": "required",
    }
    broker = start_daemon(toml_of(files, **rules))
    exchange(connect(broker, files.client_context("ann")), b"hello")
    files.revoke("ann")  # the file is looked at now and then
    wait_for(lambda: len(logged(broker, "TLS-1001")) > 1, DEADLINE_S, "the new list")
    with pytest.raises(CLIENT_ERRORS):
        connect(broker, files.client_context("ann"))
    reasons = wait_for(lambda: logged(broker, "TLS-1005"), DEADLINE_S, "the refusal")
    assert reasons[0]["reason"] == "the client's certificate is not accepted: certificate revoked"


@pytest.mark.row("E23")
def test_a_client_is_shown_the_certificate_of_its_name(
    start_daemon: StartDaemon, files: Files
) -> None:
    files.server("shop.example", stem="shop")
    certificate, key = files.pair("shop")
    more = f'[[tls_certificates]]\ncertificate = "{certificate}"\nkey = "{key}"\n'
    broker = start_daemon(toml_of(files, more))
    for port in (broker.tls_port, broker.https_port):
        shown = certificate_shown(port, files, "shop.example")
        assert ("DNS", "shop.example") in shown["subjectAltName"]
        shown = certificate_shown(port, files)
        assert ("DNS", "localhost") in shown["subjectAltName"]
    connection = connect(broker, files.client_context(), "shop.example")
    exchange(connection, b"hello")
    connection.close()


@pytest.mark.acceptance
def test_renewed_certificates_are_shown_and_no_connection_is_dropped(
    start_daemon: StartDaemon, files: Files
) -> None:
    broker = start_daemon(toml_of(files))
    connection = connect(broker, files.client_context())
    before = serial_shown(broker, files)
    files.server(days=50)
    wait_for(lambda: serial_shown(broker, files) != before, DEADLINE_S, "the new certificate")
    assert certificate_shown(broker.https_port, files)["serialNumber"] != before
    exchange(connection, b"still here")
    connection.close()


@pytest.mark.acceptance
def test_sighup_reads_the_files_at_once(start_daemon: StartDaemon, files: Files) -> None:
    broker = start_daemon(toml_of(files, check_interval_s=86_400))
    connection = connect(broker, files.client_context())
    before = serial_shown(broker, files)
    files.server(stem="other")
    certificate, key = files.pair("other")
    options: dict[str, Any] = {"check_interval_s": 86_400, "certificate": certificate, "key": key}
    broker.reload(toml_of(files, **options))
    wait_for(lambda: serial_shown(broker, files) != before, DEADLINE_S, "the new certificate")
    assert not logged(broker, "CFG-1002"), "nothing needs a restart"
    Path(key).write_text("no key", encoding="utf-8")
    before = serial_shown(broker, files)
    broker.reload(broker.config_path.read_text(encoding="utf-8"))
    (problem,) = wait_for(lambda: logged(broker, "TLS-1002"), DEADLINE_S, "what is wrong")
    assert problem["problem"].startswith("tls.key: ")
    assert serial_shown(broker, files) == before
    exchange(connection, b"still here")


@pytest.mark.acceptance
def test_the_http_interface_has_tls(start_daemon: StartDaemon, files: Files) -> None:
    rules = {"client_authorities": str(files.ca), "verify_http_clients": "required"}
    broker = start_daemon(toml_of(files, **rules))
    url = f"https://localhost:{broker.https_port}/api/overview"
    with httpx.Client(verify=files.client_context("ann"), auth=("guest", "guest")) as client:
        listeners = client.get(url).json()["listeners"]
    found = {each["protocol"]: (each["port"], each["tls"]) for each in listeners}
    assert found["https"] == (broker.https_port, True)
    assert found["amqp/ssl"] == (broker.tls_port, True)
    assert found["http"] == (broker.management_port, False)
    with httpx.Client(verify=files.client_context()) as client, pytest.raises(httpx.HTTPError):
        client.get(url)


@pytest.mark.acceptance
def test_ports_without_tls_can_be_closed(start_daemon: StartDaemon, files: Files) -> None:
    more = "[listener]\nenabled = false\n[management]\nhttp = false\n"
    broker = start_daemon(toml_of(files, more))
    assert broker.port == broker.tls_port
    urls = [entry["url"].partition(":")[0] for entry in logged(broker, "BRK-1002")]
    assert urls == ["amqps", "https"]
    exchange(connect(broker, files.client_context()), b"hello")


@pytest.mark.acceptance
def test_a_client_without_tls_is_told_in_the_log(start_daemon: StartDaemon, files: Files) -> None:
    broker = start_daemon(toml_of(files))
    with pytest.raises(CLIENT_ERRORS):
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.tls_port))
    (refused, *_) = wait_for(lambda: logged(broker, "TLS-1005"), DEADLINE_S, "the refusal")
    assert refused["reason"] == "the client speaks AMQP without TLS"


@pytest.mark.acceptance
def test_clients_that_vanish_at_any_octet_leave_nothing(
    start_daemon: StartDaemon, files: Files
) -> None:
    """A socket that is reset in the middle of a handshake, and of a record."""
    broker = start_daemon(toml_of(files))
    for length in (0, 1, 5, 100, 500):
        hello = ssl.MemoryBIO()
        stream = files.client_context().wrap_bio(
            ssl.MemoryBIO(), hello, server_hostname="localhost"
        )
        with pytest.raises(ssl.SSLWantReadError):
            stream.do_handshake()
        with socket.create_connection(("127.0.0.1", broker.tls_port)) as client:
            client.sendall(hello.read()[:length])
    exchange(connect(broker, files.client_context()), b"hello")
    with httpx.Client(auth=("guest", "guest")) as client:
        url = f"{broker.management_url}/api/connections"
        wait_for(lambda: len(client.get(url).json()) <= 1, DEADLINE_S, "only the last one")


@pytest.mark.acceptance
@pytest.mark.parametrize("is_missing", [True, False])
def test_a_broker_does_not_start_with_a_key_it_cannot_use(
    tmp_path: Path, files: Files, is_missing: bool
) -> None:
    key = Path(files.pair("server")[1])
    key.unlink()
    if not is_missing:
        key.write_text("no key", encoding="utf-8")
    daemon = BrokerProcess(tmp_path, toml_of(files))
    with pytest.raises(BrokerFailed, match="exit status 1 before the ready line"):
        daemon.start()
    daemon.check_log()
    problem = "cannot be read: No such file" if is_missing else "has no private key in PEM"
    assert f"{daemon.config_path}: tls.key: {key}: {problem}" in daemon.log_tail()


@pytest.mark.acceptance
def test_what_was_agreed_upon_is_told_of_each_connection(
    start_daemon: StartDaemon, files: Files
) -> None:
    rules = {"client_authorities": str(files.ca), "verify_clients": "optional"}
    broker = start_daemon(toml_of(files, **rules))
    connections = [connect(broker, files.client_context("ann"))]
    context = files.client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    connections.append(connect(broker, context))
    plain = pika.ConnectionParameters("127.0.0.1", broker.port)
    connections.append(pika.BlockingConnection(plain))
    rows = HttpApi(broker.management_url).get("/api/connections")
    keys = ("ssl", "ssl_protocol", "ssl_key_exchange", "ssl_cipher", "ssl_hash")
    told = {tuple(row[key] for key in keys): row for row in rows}
    third = told[(True, "tlsv1.3", "any", "aes_256_gcm", "aead")]
    assert (third["peer_cert_subject"], third["peer_cert_issuer"]) == (
        "CN=ann",
        "CN=authority of a test",
    )
    assert re.fullmatch(r"[0-9T:-]{19}Z - [0-9T:-]{19}Z", third["peer_cert_validity"])
    second = told[(True, "tlsv1.2", "ecdhe_ecdsa", "aes_256_gcm", "aead")]
    assert second["peer_cert_subject"] is None
    assert (False, None, None, None, None) in told
    for connection in connections:
        connection.close()


@pytest.mark.acceptance
def test_the_end_of_certificates_is_told_in_time(start_daemon: StartDaemon, files: Files) -> None:
    files.server(days=10)
    broker = start_daemon(toml_of(files, client_authorities=str(files.ca)))
    (warning,) = logged(broker, "TLS-1003")
    assert (warning["days"], warning["level"]) == (9, "warning")
    api = HttpApi(broker.management_url)
    check = "/api/health/checks/certificate-expiration"
    assert api.call("GET", f"{check}/5/days") == (200, {"status": "ok"})
    status, answer = api.call("GET", f"{check}/2/weeks")
    assert (status, answer["reason"]) == (503, "Certificates expiring")
    ports = {each["protocol"]: each for each in answer["expired"]}
    assert ports.keys() == {"amqp/ssl", "https"}
    assert ports["amqp/ssl"]["port"] == broker.tls_port
    assert ports["amqp/ssl"]["certfile"] == [files.pair("server")[0]]
    assert ports["amqp/ssl"]["cacertfile"] == []
    status, answer = api.call("GET", f"{check}/20/years")
    assert answer["expired"][0]["cacertfile"] == [str(files.ca)]
    for name in ("amqp/ssl", "amqps", "https"):
        assert api.call("GET", f"/api/health/checks/protocol-listener/{quote(name, '')}")[0] == 200


@pytest.mark.acceptance
def test_metrics_have_handshakes_and_the_ends_of_certificates(
    start_daemon: StartDaemon, files: Files
) -> None:
    broker = start_daemon(toml_of(files, client_authorities=str(files.ca)))
    connect(broker, files.client_context()).close()
    with pytest.raises(CLIENT_ERRORS):
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.tls_port))
    text = HttpApi(broker.management_url).ask("GET", "/metrics").text
    assert 'hareline_tls_handshakes_total{outcome="done"} 1\n' in text
    assert 'hareline_tls_handshakes_total{outcome="failed"} ' in text
    ends = re.findall(
        r'hareline_tls_certificate_expiry_timestamp_seconds\{file="(.*?)",kind="(.*?)".*\} (\d+)',
        text,
    )
    assert [(file, kind) for file, kind, _ in ends] == [
        (files.pair("server")[0], "server"),
        (str(files.ca), "authority"),
    ]
    assert 8 * 86_400 < int(ends[0][2]) - time.time() < 11 * 86_400


@pytest.mark.acceptance
def test_a_range_of_a_stream_is_encrypted_like_any_answer(
    start_daemon: StartDaemon, files: Files
) -> None:
    """Another process reads the journal; what it writes must not reach the socket as it is."""
    broker = start_daemon(toml_of(files))
    connection = connect(broker, files.client_context())
    channel = connection.channel()
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    channel.confirm_delivery()
    for index in range(300):
        persistent = pika.BasicProperties(delivery_mode=2)
        channel.basic_publish("", "s", b"%d:" % index + b"x" * 10_000, persistent)
    connection.close()
    path = "/api/stream/%2F/s/range?start=0&end=300"
    answers = []
    urls = (broker.management_url, f"https://localhost:{broker.https_port}")
    with httpx.Client(verify=files.client_context(), auth=("guest", "guest")) as client:
        for url in (*urls, urls[1]):  # the last one on the connection of the second
            answer = client.get(url + path, timeout=DEADLINE_S)
            assert answer.status_code == 200
            answers.append(answer.content)
        assert client.get(f"{urls[1]}/api/whoami").status_code == 200
    assert len(answers[0]) > 3_000_000
    assert answers[1] == answers[0] == answers[2]


@pytest.mark.acceptance
def test_the_event_exchange_tells_of_tls(start_daemon: StartDaemon, files: Files) -> None:
    more = '[events]\nvhost = "/"\n'
    broker = start_daemon(toml_of(files, more))
    watcher = connect(broker, files.client_context())
    channel = watcher.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    for key in ("connection.created", "user.authentication.success"):
        channel.queue_bind(queue, "amq.rabbitmq.event", key)
    connect(broker, files.client_context()).close()
    told = {}
    for method, properties, _ in channel.consume(queue, inactivity_timeout=DEADLINE_S):
        told[method.routing_key] = properties.headers
        if len(told) == 2:
            break
    assert told["user.authentication.success"]["ssl"] is True
    created = told["connection.created"]
    assert (created["ssl"], created["ssl_protocol"]) == (True, "tlsv1.3")
    watcher.close()


EXTERNAL = """
[auth]
mechanisms = ["PLAIN", "EXTERNAL"]
failure_delay_s = 0
external_name = "email"
[[external_users]]
match = "(.*)@shop[.]example"
user = "\\\\1"
[[users]]
name = "ann"
password = "never sent"
permissions = [{ vhost = "/", configure = ".*", write = ".*", read = ".*" }]
"""


@pytest.mark.acceptance
def test_a_certificate_is_a_login(start_daemon: StartDaemon, files: Files) -> None:
    files.client("ann", email="ann@shop.example")
    files.client("bob", email="bob@shop.example")
    files.client("eve", email="ann@elsewhere.example")
    rules = {"client_authorities": str(files.ca), "verify_clients": "optional"}
    broker = start_daemon(toml_of(files, EXTERNAL, **rules))
    external = pika.credentials.ExternalCredentials()
    connection = connect(broker, files.client_context("ann"), credentials=external)
    exchange(connection, b"hello")
    opened = logged(broker, "CON-1001")[-1]
    assert opened["user"] == "ann"
    connection.close()
    for name in ("bob", "eve", None):  # no such user, no rule for the name, no certificate
        with pytest.raises(CLIENT_ERRORS):
            connect(broker, files.client_context(name), credentials=external)
    (refused,) = wait_for(lambda: logged(broker, "CON-1003"), DEADLINE_S, "the refusal")
    assert "user 'bob' by EXTERNAL" in refused["reason"], "others were not offered EXTERNAL"
