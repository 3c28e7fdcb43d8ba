"""The publisher against a broker process: confirms, refusals, and a broker that goes away."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from hareline.spark.errors import (
    BrokerRefused,
    BrokerUnreachable,
    LoginRefused,
    PublishRefused,
)
from hareline.spark.writing import publisher as publisher_module
from hareline.spark.writing.publisher import Publisher
from hareline.wire.properties import Properties, encode_properties
from hareline.wire.table import Byte, Float, Short, Table, UnsignedInt, decode_table, encode_table
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient
from tests.support.sink_broker import bodies_in, connection_at, connection_to, declare, take_all

NO_PROPERTIES = b"\0\0"
CERTIFICATE_SUBJECT = "/CN=127.0.0.1"


def publish_all(publisher: Publisher, queue: str, bodies: list[bytes]) -> None:
    for body in bodies:
        publisher.publish("", queue, NO_PROPERTIES, body, True)
    publisher.drain()


@pytest.mark.parametrize("confirms", [True, False])
@pytest.mark.parametrize("max_in_flight", [1, 2, 7, 2000])
def test_all_messages_arrive_in_order(
    broker: BrokerProcess, max_in_flight: int, confirms: bool
) -> None:
    queue = f"in-order-{max_in_flight}-{confirms}"
    declare(broker, queue)
    bodies = [b"%d" % number for number in range(300)]
    connection = connection_to(broker)
    with Publisher(connection, confirms=confirms, max_in_flight=max_in_flight) as publisher:
        publish_all(publisher, queue, bodies)
        assert (publisher.published, publisher.returned) == (300, 0)
    assert bodies_in(broker, queue) == bodies


def test_no_more_than_the_window_is_in_flight(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(broker, "window")
    with Publisher(connection_to(broker), max_in_flight=8) as publisher:
        confirmed = 0
        settle = publisher._settle

        def count_settled(tag: int, *, is_multiple: bool) -> list[str]:
            nonlocal confirmed
            keys = settle(tag, is_multiple=is_multiple)
            confirmed += len(keys)
            return keys

        monkeypatch.setattr(publisher, "_settle", count_settled)
        for number in range(100):
            publisher.publish("", "window", NO_PROPERTIES, b"", True)
            assert number + 1 - confirmed <= 8
        publisher.drain()
        assert confirmed == 100


def test_bodies_in_flight_are_bounded_by_their_octets(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "OCTETS_IN_FLIGHT_MAX", 100_000)
    declare(broker, "large")
    bodies = [bytes([number]) * 300_000 for number in range(5)]  # several frames each
    with Publisher(connection_to(broker)) as publisher:
        for body in bodies:
            publisher.publish("", "large", NO_PROPERTIES, body, True)
            assert len(publisher._unconfirmed) == 1
        publisher.drain()
    assert bodies_in(broker, "large") == bodies


def test_property_octets_travel_as_they_are(broker: BrokerProcess) -> None:
    """Types that pika would write as others come through."""
    declare(broker, "octets")
    headers = Table(
        byte=Byte(-1),
        short=Short(2),
        unsigned=UnsignedInt(3),
        float=Float(0.5),
        nested=[{"x": b"y"}],
    )
    octets = encode_properties(Properties(headers=headers, priority=255, message_id="m"))
    with Publisher(connection_to(broker)) as publisher:
        publisher.publish("", "octets", octets, b"body", True)
        publisher.drain()
    with RawClient((broker.host, broker.port)) as client:
        client.open()
        client.consume("octets")
        client._fill(1)
        while client._buffer.count(b"\x02\x00\x01") == 0:  # a header frame of channel 1
            client._buffer += client.socket.recv(65_536)
        table = encode_table(headers)
        assert table in client._buffer
    assert decode_table(table, 0)[0] == headers


# ------------------------------------------------------------------------------------ refusals


def test_an_unroutable_message_fails_with_its_key(broker: BrokerProcess) -> None:
    with Publisher(connection_to(broker)) as publisher:
        for number in range(8):
            publisher.publish("amq.direct", f"nowhere-{number}", NO_PROPERTIES, b"", True)
        with pytest.raises(PublishRefused) as error:
            publisher.drain()
    text = str(error.value)
    assert "312 NO_ROUTE" in text
    assert "'amq.direct'" in text
    assert "'nowhere-0', 'nowhere-1', 'nowhere-2', 'nowhere-3', 'nowhere-4' and " in text
    assert "nowhere-5" not in text
    assert "onUnroutable=drop" in text


@pytest.mark.parametrize("confirms", [True, False])
def test_unroutable_messages_can_be_dropped_and_are_counted(
    broker: BrokerProcess, confirms: bool
) -> None:
    queue = f"some-{confirms}"
    declare(broker, queue)
    with Publisher(connection_to(broker), confirms=confirms, drops_unroutable=True) as publisher:
        for number in range(10):
            publisher.publish("", queue if number % 2 else "nowhere", NO_PROPERTIES, b"", True)
        publisher.drain()
        assert (publisher.published, publisher.returned) == (10, 5)
    assert len(bodies_in(broker, queue)) == 5


def test_an_unroutable_message_that_is_not_mandatory_is_confirmed(broker: BrokerProcess) -> None:
    with Publisher(connection_to(broker)) as publisher:
        publisher.publish("", "nowhere", NO_PROPERTIES, b"", False)
        publisher.drain()
        assert (publisher.published, publisher.returned) == (1, 0)


def test_large_returned_messages_do_not_lock_both_sides(broker: BrokerProcess) -> None:
    """The broker writes back what it reads; neither may wait until the other has read."""
    body = bytes(2_000_000)
    with Publisher(connection_to(broker), drops_unroutable=True) as publisher:
        for _ in range(30):
            publisher.publish("", "nowhere", NO_PROPERTIES, body, True)
        publisher.drain()
        assert publisher.returned == 30


def test_a_full_queue_refuses_with_its_key(broker: BrokerProcess) -> None:
    declare(broker, "full", {"x-max-length": 3, "x-overflow": "reject-publish"})
    with (
        Publisher(connection_to(broker)) as publisher,
        pytest.raises(PublishRefused, match=r"did not take \d+ messages? .*'full'"),
    ):
        publish_all(publisher, "full", [b""] * 10)
    assert len(bodies_in(broker, "full")) == 3


@pytest.mark.parametrize("confirms", [True, False])
def test_a_missing_exchange_is_named_with_the_code_and_the_keys(
    broker: BrokerProcess, confirms: bool
) -> None:
    with Publisher(connection_to(broker), confirms=confirms) as publisher:
        publisher.publish("missing", "key", NO_PROPERTIES, b"", True)
        with pytest.raises(PublishRefused) as error:
            publisher.drain()
    assert "closed the channel: 404 NOT_FOUND" in str(error.value)
    assert "'missing'" in str(error.value)
    assert "routing keys: 'key'" in str(error.value)


def test_what_the_broker_closes_the_connection_for_is_named(broker: BrokerProcess) -> None:
    with Publisher(connection_to(broker)) as publisher:
        publisher.publish("", "key", b"\x20\0\0\0\0\1x", b"", True)  # half a table
        with pytest.raises(PublishRefused, match=r"closed the connection: 50\d .*'key'"):
            publisher.drain()


def test_publishing_after_a_refusal_says_it_again(broker: BrokerProcess) -> None:
    with Publisher(connection_to(broker), max_in_flight=1) as publisher:
        publisher.publish("", "nowhere", NO_PROPERTIES, b"", True)
        for _ in range(2):
            with pytest.raises(PublishRefused, match="NO_ROUTE"):
                publisher.publish("", "nowhere", NO_PROPERTIES, b"", True)


# ------------------------------------------------------------------------- a broker that is away


def test_a_wrong_password_is_refused(broker: BrokerProcess) -> None:
    with pytest.raises(LoginRefused, match=r"refused user 'guest'.*password"):
        Publisher(connection_to(broker, password="wrong"))


def test_a_missing_virtual_host_is_named(broker: BrokerProcess) -> None:
    url = f"amqp://{broker.host}:{broker.port}/missing"
    with pytest.raises(BrokerRefused, match=r"53\d .*missing"):
        Publisher(connection_to(broker, url=url))


def test_where_nothing_listens_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connecting is refused
        port = taken.getsockname()[1]
        with pytest.raises(BrokerUnreachable, match=rf"127\.0\.0\.1:{port}.*refused.*url"):
            Publisher(connection_at(port))


def test_a_peer_that_never_answers_ends_in_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(BrokerUnreachable):
            Publisher(connection_at(port), timeout_s=0.2)


def test_a_killed_broker_is_unreachable(own_broker: BrokerProcess) -> None:
    own_broker.start()
    declare(own_broker, "q")
    with Publisher(connection_to(own_broker)) as publisher:
        publish_all(publisher, "q", [b""] * 10)
        own_broker.kill()
        with pytest.raises(BrokerUnreachable, match="ended while"):
            publish_all(publisher, "q", [b""] * 10)


def test_a_broker_that_stops_says_so(own_broker: BrokerProcess) -> None:
    own_broker.start()
    declare(own_broker, "q")
    with Publisher(connection_to(own_broker)) as publisher:
        publish_all(publisher, "q", [b""])
        stopping = threading.Thread(target=own_broker.stop)
        stopping.start()
        with pytest.raises(BrokerUnreachable, match="320 CONNECTION_FORCED"):
            publisher.wait(60)
        stopping.join()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_a_blocked_publisher_waits_and_says_why(own_broker: BrokerProcess) -> None:
    config = '[memory]\nspool_share = 1\ncheck_interval_s = 0.05\nwatermark = "{}"\n'
    own_broker.config_path.write_text(config.format("64GiB"), encoding="utf-8")
    own_broker.start()
    declare(own_broker, "q")
    assert own_broker.process is not None
    pages = int(Path(f"/proc/{own_broker.process.pid}/statm").read_text().split()[1])
    watermark = pages * os.sysconf("SC_PAGE_SIZE") + 20 * 1024 * 1024
    with Publisher(connection_to(own_broker)) as publisher:
        publisher._timeout_s = 2
        own_broker.reload(config.format(watermark))
        with pytest.raises(PublishRefused, match=r"blocked publishers for 2 s \(.*memory"):
            publish_all(publisher, "q", [bytes(20_000)] * 20_000)
        # What went unconfirmed is taken when the alarm is over, and the publisher goes on.
        own_broker.reload(config.format("64GiB"))
        publisher._timeout_s = 60
        publisher.drain()
        publish_all(publisher, "q", [b"afterwards"])


# ------------------------------------------------------------------------------------------ TLS


@contextmanager
def tls_in_front_of(broker: BrokerProcess, folder: Path) -> Iterator[tuple[int, Path]]:
    """A port that speaks TLS and hands on to the broker, and the certificate to trust."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", CERTIFICATE_SUBJECT, "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def hand_on(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while octets := source.recv(65_536):
                target.sendall(octets)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def serve(listener: socket.socket) -> None:
        with ExitStack() as stack:
            try:
                plain = stack.enter_context(listener.accept()[0])
                client = stack.enter_context(context.wrap_socket(plain, server_side=True))
            except OSError:
                return  # the client does not trust the certificate
            upstream = stack.enter_context(socket.create_connection((broker.host, broker.port)))
            back = threading.Thread(target=hand_on, args=(upstream, client))
            back.start()
            hand_on(client, upstream)
            back.join()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield listener.getsockname()[1], certificate
        finally:
            thread.join()


def test_messages_go_over_tls(
    broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(broker, "tls")
    with tls_in_front_of(broker, tmp_path) as (port, certificate):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        url = f"amqps://127.0.0.1:{port}"
        with Publisher(connection_to(broker, url=url)) as publisher:
            publish_all(publisher, "tls", [bytes(500_000)] * 3)
    assert bodies_in(broker, "tls") == [bytes(500_000)] * 3


def test_a_certificate_that_is_not_trusted_is_refused(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    with (
        tls_in_front_of(broker, tmp_path) as (port, _),
        pytest.raises(BrokerUnreachable, match="certificate"),
    ):
        Publisher(connection_to(broker, url=f"amqps://127.0.0.1:{port}"))


def test_messages_taken_by_pika_have_the_key_they_were_sent_with(broker: BrokerProcess) -> None:
    declare(broker, "größe")
    with Publisher(connection_to(broker)) as publisher:
        publish_all(publisher, "größe", [b"x"])
    assert [method.routing_key for method, _, _ in take_all(broker, "größe")] == ["größe"]
