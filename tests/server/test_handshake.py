"""What a socket may do before it is a connection, and what becomes of it: nothing that stays."""

from __future__ import annotations

import random
import time
from contextlib import suppress

import pytest
from pamqp import commands, common, frame

from hareline.net.accepting import HANDSHAKES_MAX
from hareline.settings import Auth, Limits, Settings
from tests.support.broker_thread import BrokerThread, StartBroker
from tests.support.raw_client import ALL_CAPABILITIES, PROTOCOL_HEADER, RawClient
from tests.support.waiting import wait_for

TIMEOUT_S = 1.5
DEADLINE_S = 60.0
UNKNOWN_FRAME = b"\x04\0\0\0\0\0\x02ab\xce"
PATIENT = Settings(limits=Limits(handshake_timeout_s=3600))


@pytest.fixture
def hasty(start_broker: StartBroker) -> BrokerThread:
    """A broker with little patience for handshakes."""
    return start_broker(Settings(limits=Limits(handshake_timeout_s=TIMEOUT_S)))


@pytest.fixture
def patient(start_broker: StartBroker) -> BrokerThread:
    """A broker whose handshake timeout plays no part."""
    return start_broker(PATIENT)


def expect_nobody_left(broker: BrokerThread) -> None:
    broker.wait_until(lambda inside: not inside.context.connections, "all connections to be gone")


def go_as_far_as(raw: RawClient, step: str) -> None:
    """Take the steps of a handshake up to and with this one."""
    if step == "nothing":
        return
    raw.send_octets(PROTOCOL_HEADER[:5] if step == "half a header" else PROTOCOL_HEADER)
    if step in ("half a header", "header"):
        return
    raw.expect(commands.Connection.Start)
    start_ok = frame.marshal(commands.Connection.StartOk(response="\0guest\0guest"), 0)
    raw.send_octets(start_ok[:-1] if step == "half a start-ok" else start_ok)
    if step in ("half a start-ok", "start-ok"):
        return
    tune = raw.expect(commands.Connection.Tune)
    raw.send(commands.Connection.TuneOk(tune.channel_max, tune.frame_max, 0), 0)


STEPS = ["nothing", "half a header", "header", "half a start-ok", "start-ok", "tune-ok"]


@pytest.mark.acceptance
def test_who_stops_half_way_is_dropped_after_the_timeout(hasty: BrokerThread) -> None:
    """All of them at once, one for each step."""
    started = time.monotonic()
    clients = {step: hasty.client() for step in STEPS}
    for step, raw in clients.items():
        with suppress(EOFError, ConnectionError):  # dropped already, on a slow machine
            go_as_far_as(raw, step)
    for raw in clients.values():
        raw.read_until_closed()
        assert time.monotonic() - started >= TIMEOUT_S * 0.9
    expect_nobody_left(hasty)


@pytest.mark.acceptance
def test_an_open_connection_outlives_the_timeout(hasty: BrokerThread) -> None:

    def opened() -> RawClient | None:
        with suppress(EOFError, ConnectionError):  # a busy machine may be slower than the timeout
            return hasty.client().open()
        return None

    raw = wait_for(opened, DEADLINE_S, "an open connection")
    late = hasty.client()
    late.read_until_closed()  # its whole timeout has passed since
    raw.declare("", exclusive=True)


@pytest.mark.parametrize("step", STEPS)
def test_who_goes_away_half_way_leaves_nothing(patient: BrokerThread, step: str) -> None:
    raw = patient.client()
    go_as_far_as(raw, step)
    raw.drop()
    expect_nobody_left(patient)


@pytest.mark.row("M1")
@pytest.mark.parametrize(
    "greeting",
    [
        b"AMQP\x01\x01\x00\x0a",  # the 0-10 probe of Qpid's clients
        b"AMQP\x01\x01\x08\x00",
        b"AMQP\x00\x01\x00\x00",  # AMQP 1.0
        b"AMQP\x00\x00\x09\x02",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS client hello
        b"X",
        bytes(100),
    ],
)
def test_a_foreign_protocol_is_answered_with_ours_and_closed(
    patient: BrokerThread, greeting: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, and not by one of the timers, which never ring here."""
    monkeypatch.setattr("hareline.net.shell.LINGER_S", 3600.0)
    raw = patient.client()
    raw.send_octets(greeting)
    assert raw.read_until_closed() == PROTOCOL_HEADER
    raw.drop()
    expect_nobody_left(patient)


def test_a_header_may_come_octet_by_octet(patient: BrokerThread) -> None:
    raw = patient.client()
    for octet in PROTOCOL_HEADER:
        raw.send_octets(bytes([octet]))
    raw.expect(commands.Connection.Start)


@pytest.mark.parametrize("seed", range(20))
def test_garbage_after_the_header_ends_in_silence(patient: BrokerThread, seed: int) -> None:
    octets = random.Random(seed).randbytes(5000)
    raw = patient.client()
    raw.send_octets(PROTOCOL_HEADER)
    raw.expect(commands.Connection.Start)
    raw.send_octets(octets)
    assert raw.read_until_closed() == b""
    raw.drop()
    expect_nobody_left(patient)


@pytest.mark.parametrize("step", ["header", "start-ok", "tune-ok", "open"])
def test_a_frame_of_an_unknown_type_is_answered_from_tune_ok_on(
    patient: BrokerThread, step: str
) -> None:
    raw = patient.client()
    if step == "open":
        raw.open()
    else:
        go_as_far_as(raw, step)
    if step == "header":
        raw.expect(commands.Connection.Start)
    elif step == "start-ok":
        raw.expect(commands.Connection.Tune)
    raw.send_octets(UNKNOWN_FRAME)
    if step in ("header", "start-ok"):
        assert raw.read_until_closed() == b""
    else:
        closed = raw.expect(commands.Connection.Close)
        assert closed.reply_code == 501
        assert closed.reply_text == 'FRAME_ERROR - type 4, all octets = <<"ab">>: unknown_frame'
    raw.drop()
    expect_nobody_left(patient)


@pytest.mark.parametrize("seed", range(20))
def test_garbage_on_an_open_connection_leaves_no_queue_and_hurts_nobody(
    patient: BrokerThread, seed: int
) -> None:
    other = patient.client().open()
    raw = patient.client().open()
    raw.declare("mine", exclusive=True)
    raw.send_octets(random.Random(seed).randbytes(5000))
    assert isinstance(raw.read()[1], commands.Connection.Close)
    other.declare("mine", exclusive=True)
    raw.drop()
    other.declare("mine", exclusive=True)


def test_a_wrong_password_is_told_to_those_who_take_it(patient: BrokerThread) -> None:
    raw = patient.client()
    raw.send_octets(PROTOCOL_HEADER)
    raw.expect(commands.Connection.Start)
    properties: common.FieldTable = {"capabilities": ALL_CAPABILITIES}
    raw.send(commands.Connection.StartOk(properties, response="\0guest\0wrong"), 0)
    assert raw.expect(commands.Connection.Close).reply_code == 403


def test_a_wrong_password_is_a_drop_after_a_delay_for_others(start_broker: StartBroker) -> None:
    broker = start_broker(Settings(auth=Auth(failure_delay_s=0.2)))
    raw = broker.client()
    raw.send_octets(PROTOCOL_HEADER)
    raw.expect(commands.Connection.Start)
    started = time.monotonic()
    raw.send(commands.Connection.StartOk({}, response="\0guest\0wrong"), 0)
    assert raw.read_until_closed() == b""
    assert time.monotonic() - started >= 0.15
    expect_nobody_left(broker)


def test_many_half_open_connections_do_not_keep_others_out(patient: BrokerThread) -> None:
    half_open = [patient.client() for _ in range(200)]
    for raw in half_open[::2]:
        raw.send_octets(PROTOCOL_HEADER)
    patient.client().open().close()
    for raw in half_open:
        raw.drop()
    expect_nobody_left(patient)


def test_a_limit_on_connections_counts_open_ones(start_broker: StartBroker) -> None:
    broker = start_broker(Settings(limits=Limits(max_connections=2)))
    first, _ = broker.client().open(), broker.client().open()
    with pytest.raises(AssertionError, match=r"node connection limit \(2\) is reached"):
        broker.client().open()
    first.close()
    broker.client().open()


def test_a_wave_of_clients_is_let_in_at_the_rate_of_connections(start_broker: StartBroker) -> None:
    limits = Limits(connection_rate=20, handshake_timeout_s=3600)
    broker = start_broker(Settings(limits=limits))

    def reached() -> int:
        counts = broker.ask(lambda inside: inside.context.counts.limits_reached.by_limit)
        return counts.get("connection_rate", 0)

    def has_come_as_a_wave() -> bool:
        clients = [broker.client() for _ in range(25)]  # a slow machine may make it no wave
        for raw in clients:
            raw.open()
        for raw in clients:
            raw.close()
        return reached() >= 1

    wait_for(has_come_as_a_wave, DEADLINE_S, "a wave")


def test_an_address_cannot_hold_sockets_in_the_handshake_without_end(
    start_broker: StartBroker,
) -> None:
    limits = Limits(max_connections_per_address=2, handshake_timeout_s=3600)
    broker = start_broker(Settings(limits=limits))
    first = broker.client().open()
    half_open = [broker.client() for _ in range(1 + HANDSHAKES_MAX)]
    broker.wait_until(
        lambda inside: len(inside.context.connections) == 2 + HANDSHAKES_MAX, "all to be accepted"
    )
    refused = broker.client()
    assert refused.read_until_closed() == b""
    half_open[0].open()
    text = r"address '127.0.0.1': address connection limit \(2\) is reached"
    with pytest.raises(AssertionError, match=text):
        half_open[1].open()
    first.close()
    half_open[2].open()
    for raw in half_open:
        raw.drop()
