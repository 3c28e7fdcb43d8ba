"""What the log says of the end of a connection, and what a peer seems to speak."""

from __future__ import annotations

import pytest

from hareline import events
from hareline.amqp.ending import protocol_of
from hareline.wire.constants import PROTOCOL_HEADER
from hareline.wire.methods import commands

from .peer import (
    Peer,
    SteppedBroker,
)

# ------------------------------------------------------------------------------- protocol header


@pytest.mark.parametrize(
    ("header", "protocol"),
    [
        (b"AMQP\x00\x01\x00\x00", "AMQP version 0-1-0-0"),
        (b"AMQP\x03\x01\x00\x00", "AMQP version 3-1-0-0"),
        (b"AMQP\x00\x00\x09\x02", "AMQP version 0-0-9-2"),
        (b"\x16\x03\x01\x00\xa5\x01\x00\x00", "TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"hello", "b'hello'"),
        (b"\x00", "b'\\x00'"),
    ],
)
def test_another_protocol_is_answered_with_ours_and_the_socket_closed(
    broker: SteppedBroker, header: bytes, protocol: str
) -> None:
    peer = broker.accept()
    peer.send_octets(header)
    broker.run_turns()
    assert peer.transport.written == b"AMQP\x00\x00\x09\x01"
    assert peer.transport.state == "closed"
    assert broker.reported(events.PEER_SPEAKS_OTHERWISE) == [
        {"peer": "127.0.0.1:40000", "protocol": protocol}
    ]


@pytest.mark.parametrize(
    ("header", "protocol"),
    [
        (b"AMQP\x01\x01\x00\x0a", "AMQP version 1-1-0-10"),
        (b"AMQP\x01\x01\x08\x00", "AMQP version 1-1-8-0"),
        (b"AMQP\x01\x01\x09\x01", "AMQP version 1-1-9-1"),
    ],
)
@pytest.mark.row("M1")
def test_a_header_of_0_10_or_0_8_is_answered_with_ours_and_the_socket_closed(
    broker: SteppedBroker, header: bytes, protocol: str
) -> None:
    """That is how Qpid's client begins, so it is nothing to warn of."""
    peer = broker.accept()
    peer.send_octets(header)
    broker.run_turns()
    assert peer.transport.written == b"AMQP\x00\x00\x09\x01"
    assert peer.transport.state == "closed"
    fields = {"peer": "127.0.0.1:40000", "protocol": protocol}
    assert broker.reported(events.PEER_REDIRECTED) == [fields]
    assert broker.reported(events.PEER_SPEAKS_OTHERWISE) == []


@pytest.mark.parametrize("header", [b"POST / HT", b"HEAD / HT", b"PUT /x H"])
def test_http_is_told_by_its_verb(header: bytes) -> None:
    assert protocol_of(header) == "HTTP"


# ----------------------------------------------------------------------------- the client closes


def test_a_lost_connection_is_reported_with_the_reason(broker: SteppedBroker, peer: Peer) -> None:
    peer.lose("Connection reset by peer")
    broker.connect().lose()
    assert [report["reason"] for report in broker.reported(events.CONNECTION_LOST)] == [
        "Connection reset by peer",
        "the client closed the socket without connection.close",
    ]


@pytest.mark.parametrize(
    ("begins_login", "reason", "event"),
    [
        (False, "", events.CONNECTION_UNUSED),
        (False, "Connection reset by peer", events.CONNECTION_LOST),
        (True, "", events.CONNECTION_LOST),
    ],
)
def test_a_client_that_only_asks_who_the_broker_is_causes_no_warning(
    broker: SteppedBroker, begins_login: bool, reason: str, event: events.Event
) -> None:
    peer = broker.accept()
    if begins_login:
        peer.start("guest", "guest")
    else:
        peer.send_octets(PROTOCOL_HEADER)
        peer.expect(commands.Connection.Start)
    peer.lose(reason)
    assert [reported for reported, _ in broker.reports] == [event]


# ----------------------------------------------------------------------------- the broker closes


def break_connection(peer: Peer) -> None:
    """Any hard error will do."""
    assert peer.refused(1, commands.Channel.Open)[0] == 504


def test_an_error_is_reported_once(broker: SteppedBroker, peer: Peer) -> None:
    break_connection(peer)
    assert broker.reported(events.CONNECTION_ERROR) == [
        {
            "peer": "127.0.0.1:40000",
            "reply_code": 504,
            "reply_text": "CHANNEL_ERROR - second 'channel.open' seen",
        }
    ]
