"""Further ports, and the product that a client is told: by port, and by the way it begins.

A client of a few frames stands for Qpid's here, which begins with AMQP 0-10 and comes again with
0-9-1; the real one is in tests/interop/java.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from pamqp import commands

from hareline.server.broker import Broker
from hareline.settings import (
    FurtherListener,
    Identity,
    Listener,
    Management,
    Settings,
    Storage,
)
from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.broker_thread import StartBroker
from tests.support.command_line import CommandLine
from tests.support.raw_client import PROTOCOL_HEADER, RawClient
from tests.support.waiting import wait_for

USUAL, QPIDS = "RabbitMQ", "RabbitMQ (qpid)"
PROBE_0_10 = b"AMQP\x01\x01\x00\x0a"
PROBE_0_9 = b"AMQP\x01\x01\x00\x09"
PROBE_0_8 = b"AMQP\x01\x01\x08\x00"
ELSEWHERE = "127.0.0.2"  # other processes take ports of 127.0.0.1
TWO_PORTS = """
[[listeners]]
port = 0
[[listeners]]
port = 0
product = "qpid"
"""

Restart = Callable[[BrokerProcess], None]


def ports(daemon: BrokerProcess, count: int) -> list[int]:
    """So many AMQP ports, in the order of the ready lines of the last start."""

    def found() -> list[int] | None:
        lines = [json.loads(line) for line in daemon.log_path.read_text().splitlines()]
        starts = [number for number, line in enumerate(lines) if line["code"] == "BRK-1001"]
        urls = [line["url"] for line in lines[starts[-1] :] if line["code"] == "BRK-1002"]
        listening = [int(url.rpartition(":")[2]) for url in urls if url.startswith("amqp:")]
        return listening if len(listening) == count else None

    # the daemon counts as started at its first one
    return wait_for(found, 60, f"{count} ready lines")


def server_properties(port: int) -> dict[str, object]:
    """What a client reads before it has said anything of itself."""
    with RawClient(("127.0.0.1", port)) as raw:
        raw.send_octets(PROTOCOL_HEADER)
        properties = raw.expect(commands.Connection.Start).server_properties
        assert properties is not None
        return dict(properties)


def product(port: int) -> object:
    return server_properties(port)["product"]


def probe(port: int, header: bytes = PROBE_0_10) -> None:
    with RawClient(("127.0.0.1", port)) as raw:
        raw.send_octets(header)
        assert raw.read_until_closed() == PROTOCOL_HEADER


def log_in_as_qpid(port: int) -> None:
    """From the header to open-ok, as Qpid's client, and away without a word."""
    with RawClient(("127.0.0.1", port)) as raw:
        raw.send_octets(PROTOCOL_HEADER)
        raw.expect(commands.Connection.Start)
        start_ok = commands.Connection.StartOk(
            client_properties={"product": "qpid", "qpid.client_pid": 1},
            response="\0guest\0guest",
        )
        tune = raw.call(start_ok, commands.Connection.Tune, 0)
        raw.send(commands.Connection.TuneOk(tune.channel_max, tune.frame_max, 0), 0)
        raw.call(commands.Connection.Open(virtual_host="/"), commands.Connection.OpenOk, 0)


def wait_for_definitions(port: int) -> None:
    """Return when all that was to be stored before is on disk: definitions are written in order."""
    with RawClient(("127.0.0.1", port)).open() as raw:
        raw.call(commands.Queue.Declare(queue="last", durable=True), commands.Queue.DeclareOk)
        raw.close()


both = pytest.mark.parametrize(
    "again", [BrokerProcess.restart, BrokerProcess.restart_by_kill], ids=["stop", "kill"]
)


# --------------------------------------------------------------------------- the handshake


@pytest.mark.row("M1")
def test_the_header_of_0_9_is_served_as_rabbitmq_does(start_broker: StartBroker) -> None:
    raw = start_broker().client()
    raw.send_octets(PROBE_0_9)
    start = raw.expect(commands.Connection.Start)
    assert (start.version_major, start.version_minor) == (0, 9)


@pytest.mark.row("M2")
def test_tune_names_a_largest_frame(start_broker: StartBroker) -> None:
    tune = start_broker().client().log_in()
    assert tune.frame_max == 131_072
    assert tune.channel_max == 2047


# ---------------------------------------------------------------------------- product names


@pytest.mark.acceptance
@pytest.mark.row("M6")
def test_who_begins_with_0_10_is_told_a_product_of_qpid_s(start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    assert product(daemon.port) == USUAL
    probe(daemon.port)
    properties = server_properties(daemon.port)
    assert properties["product"] == QPIDS
    assert properties["qpid.queue_lifetime_supported"] == "true"
    assert properties["qpid.message_compression_supported"] == "true"


@pytest.mark.acceptance
@pytest.mark.row("M6")
@both
def test_a_host_of_qpid_clients_is_told_the_same_after_a_restart(
    start_daemon: StartDaemon, again: Restart
) -> None:
    """One that fails over does not begin with 0-10 again."""
    daemon = start_daemon()
    probe(daemon.port)
    log_in_as_qpid(daemon.port)
    assert product(daemon.port) == QPIDS
    wait_for_definitions(daemon.port)
    again(daemon)
    assert product(daemon.port) == QPIDS
    assert '"CON-1012"' in daemon.log_path.read_text()


@pytest.mark.acceptance
@both
def test_a_host_that_only_probed_is_told_the_usual_product_after_a_restart(
    start_daemon: StartDaemon, again: Restart
) -> None:
    daemon = start_daemon()
    probe(daemon.port)
    assert product(daemon.port) == QPIDS
    again(daemon)
    assert product(daemon.port) == USUAL


@pytest.mark.acceptance
def test_a_login_without_a_probe_is_not_remembered(start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    log_in_as_qpid(daemon.port)
    assert product(daemon.port) == USUAL


@pytest.mark.acceptance
def test_an_operator_can_have_one_product_for_all(start_daemon: StartDaemon) -> None:
    daemon = start_daemon('[identity]\nqpid_product = ""\n')
    probe(daemon.port)
    log_in_as_qpid(daemon.port)
    assert product(daemon.port) == USUAL


def test_a_memory_broker_remembers_as_long_as_it_runs(start_broker: StartBroker) -> None:
    identity = Identity(product="Mine", qpid_product="Mine for Qpid")
    _, port = start_broker(Settings(identity=identity)).address
    assert product(port) == "Mine"
    probe(port)
    log_in_as_qpid(port)
    assert product(port) == "Mine for Qpid"


# ------------------------------------------------------------------------------------ ports


@pytest.mark.acceptance
def test_each_further_port_has_its_ready_line_and_the_first_stays_the_first(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(TWO_PORTS)
    first, second, third = ports(daemon, 3)
    assert first == daemon.port
    assert len({first, second, third}) == 3
    for port in (first, second, third):
        with RawClient(("127.0.0.1", port)) as raw:
            raw.open().declare("q", durable=False)


@pytest.mark.acceptance
@pytest.mark.row("M6")
def test_a_port_with_a_product_tells_it_to_everybody(start_daemon: StartDaemon) -> None:
    daemon = start_daemon(TWO_PORTS)
    first, second, third = ports(daemon, 3)
    assert [product(port) for port in (first, second, third)] == [USUAL, USUAL, "qpid"]
    assert server_properties(third)["qpid.queue_lifetime_supported"] == "true"
    assert "qpid.queue_lifetime_supported" not in server_properties(second)
    probe(second)
    assert [product(port) for port in (first, second, third)] == [QPIDS, QPIDS, "qpid"]


@pytest.mark.acceptance
def test_a_port_can_keep_the_usual_product_whoever_comes(start_daemon: StartDaemon) -> None:
    """For clients that look for it, at an address that they share with Qpid's."""
    daemon = start_daemon('[[listeners]]\nport = 0\nproduct = "RabbitMQ"\n')
    first, second = ports(daemon, 2)
    probe(first)
    probe(second)
    assert [product(port) for port in (first, second)] == [QPIDS, USUAL]


@pytest.mark.acceptance
def test_the_flag_port_means_the_first_one(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("[listener]\nport = 1\n[[listeners]]\nport = 0\n")
    first, second = ports(daemon, 2)
    assert first == daemon.port != 1
    assert product(second) == USUAL


def test_all_ports_are_closed_by_the_stop(start_broker: StartBroker) -> None:
    broker = start_broker(Settings(listeners=(FurtherListener(port=0),)))
    addresses = broker.ask(lambda inside: list(inside.urls))
    clients = [RawClient(("127.0.0.1", int(url.rpartition(":")[2]))).open() for url in addresses]
    broker.begin_to_stop(60)
    for raw in clients:
        raw.expect(commands.Connection.Close)
        raw.agree_to_close()
    broker.wait_until_stopped()
    for url in addresses:
        with pytest.raises(ConnectionRefusedError):
            RawClient(("127.0.0.1", int(url.rpartition(":")[2])))


@pytest.mark.acceptance
def test_two_ports_that_clash_are_named_before_anything_is_started(tmp_path: Path) -> None:
    config = tmp_path / "hareline.toml"
    config.write_text("[[listeners]]\nport = 5673\n[[listeners]]\nport = 5673\n")
    data_dir = tmp_path / "data"
    done = CommandLine().serve("--config", str(config), "--data-dir", str(data_dir))
    assert done.status == 1
    assert done.err.replace(f"{config}: ", "") == (
        "listeners[1].port: Input should differ from listeners[0].port, which is 5673 too\n"
    )
    assert not data_dir.exists()


async def test_a_further_port_in_use_leaves_no_port_open() -> None:
    taken = Broker(_settings())
    await taken.start()
    with socket.create_server((ELSEWHERE, 0)) as found:
        free_port = found.getsockname()[1]
    taken_port = int(taken.url.rpartition(":")[2])
    free = FurtherListener(bind=ELSEWHERE, port=free_port)
    broker = Broker(_settings(free, FurtherListener(port=taken_port)))
    with pytest.raises(OSError, match=str(taken_port)):
        await broker.start()
    assert (broker.urls, broker.url) == ([], "")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((ELSEWHERE, free_port))
    await taken.stop(0)


def _settings(*listeners: FurtherListener) -> Settings:
    return Settings(
        listener=Listener(port=0),
        listeners=listeners,
        management=Management(enabled=False),
        storage=Storage(kind="memory"),
    )
