"""A connection: protocol header, frames out of place, channel numbers, closing from either side."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline import events
from hareline.amqp.connection import CLOSE_OK_TIMEOUT_S
from hareline.errors import InternalError
from hareline.wire.constants import PROTOCOL_HEADER, PROTOCOL_HEADER_0_9
from hareline.wire.methods import Frame, commands, encode_method

from .peer import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    Peer,
    Refusal,
    SteppedBroker,
    frame,
    header_payload,
    ids,
    publish_octets,
)

DECLARE, CONSUME = commands.Queue.Declare, commands.Basic.Consume


# ------------------------------------------------------------------------------- protocol header


@pytest.mark.parametrize("header", [PROTOCOL_HEADER, PROTOCOL_HEADER_0_9])
def test_both_headers_of_0_9_are_welcome(broker: SteppedBroker, header: bytes) -> None:
    peer = broker.accept()
    peer.send_octets(header)
    peer.expect(commands.Connection.Start)


def test_a_header_may_come_octet_by_octet_and_with_what_follows(broker: SteppedBroker) -> None:
    peer = broker.accept()
    for octet in PROTOCOL_HEADER[:-1]:
        peer.send_octets(bytes((octet,)))
        peer.expect_nothing()
    close = encode_method(0, commands.Connection.Close)
    peer.send_octets(PROTOCOL_HEADER[-1:] + close)
    assert [one.name for one in peer.receive()] == ["connection.start", "connection.close-ok"]


def test_nothing_is_read_after_a_wrong_header(broker: SteppedBroker) -> None:
    peer = broker.accept()
    peer.send_octets(b"AMQP\x01\x01\x00\x0a")
    peer.send_octets(PROTOCOL_HEADER)
    broker.run_turns()
    assert peer.transport.written == b"AMQP\x00\x00\x09\x01"


# -------------------------------------------------------------------------- frames out of place


@pytest.mark.parametrize(
    ("octets", "code", "text"),
    [
        (frame(HEARTBEAT, 1, b""), 505, "UNEXPECTED_FRAME - type 8, all octets = <<>>"),
        (
            frame(HEARTBEAT, 0, b"a"),
            501,
            'FRAME_ERROR - type 8, all octets = <<"a">>: unknown_frame',
        ),
        (frame(BODY, 0, b"a"), 505, 'UNEXPECTED_FRAME - type 3, all octets = <<"a">>'),
        (
            frame(HEADER, 0, header_payload(0)),
            505,
            "UNEXPECTED_FRAME - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,0,0,0>>",
        ),
        (frame(4, 1, b"ab"), 501, 'FRAME_ERROR - type 4, all octets = <<"ab">>: unknown_frame'),
        (
            frame(METHOD, 1, b"abcd")[:-1] + b"\0",
            501,
            'FRAME_ERROR - type 1, all octets = <<"abcd">>: {invalid_frame_end_marker,0}',
        ),
        (
            frame(BODY, 1, b"x" * 131_073),
            501,
            "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,131073,131064}",
        ),
        (
            frame(HEADER, 1, header_payload(0)),
            505,
            "UNEXPECTED_FRAME - expected method frame, got non method frame instead",
        ),
        (
            frame(BODY, 1, b"a"),
            505,
            "UNEXPECTED_FRAME - expected method frame, got non method frame instead",
        ),
        (
            frame(HEADER, 1, b"\0\x3c\0\0"),
            501,
            "FRAME_ERROR - type 2, all octets = <<0,60,0,0>>: unknown_frame",
        ),
    ],
)
def test_a_frame_that_belongs_nowhere_closes_the_connection_and_names_no_method(
    peer: Peer, octets: bytes, code: int, text: str
) -> None:
    peer.send_octets(octets)
    assert peer.refusal() == Refusal("connection", code, text, 0, 0)


def test_heartbeats_are_welcome_at_any_time(peer: Peer) -> None:
    peer.send_octets(frame(HEARTBEAT, 0, b"") * 3)
    peer.declare("q")


@pytest.mark.parametrize(
    "method_class",
    [commands.Connection.TuneOk, commands.Connection.Close, commands.Connection.UpdateSecret],
)
@pytest.mark.parametrize("number", [1, 2])
def test_a_connection_method_on_a_channel_is_503(
    peer: Peer, method_class: type[Frame], number: int
) -> None:
    assert peer.refused(number, method_class) == (503, "COMMAND_INVALID - unimplemented method")


@pytest.mark.parametrize(
    "method_class",
    [
        commands.Channel.Open,
        commands.Basic.Qos,
        commands.Basic.Publish,
        commands.Queue.Declare,
        commands.Connection.Start,
        commands.Connection.StartOk,
        commands.Connection.TuneOk,
        commands.Connection.Open,
        commands.Connection.CloseOk,
    ],
)
def test_a_method_that_does_not_belong_on_channel_0_is_504(
    peer: Peer, method_class: type[Frame]
) -> None:
    assert peer.refused(0, method_class) == (
        504,
        "CHANNEL_ERROR - unexpected method in connection state running",
    )


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(("class_id", "method_id"), [(60, 999), (99, 9), (10, 99), (0, 0)])
def test_a_method_nobody_knows_is_503(
    peer: Peer, number: int, class_id: int, method_id: int
) -> None:
    octets = class_id.to_bytes(2, "big") + method_id.to_bytes(2, "big")
    peer.send_octets(frame(METHOD, number, octets))
    assert peer.refusal() == Refusal(
        "connection", 503, "COMMAND_INVALID - unimplemented method", class_id, method_id
    )


@pytest.mark.parametrize("number", [0, 1])
def test_a_method_frame_too_short_for_its_ids_is_501(peer: Peer, number: int) -> None:
    peer.send_octets(frame(METHOD, number, b"\0\x3c\0"))
    refusal = peer.refusal()
    assert (refusal.code, refusal.class_id, refusal.method_id) == (501, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (b"\0\0\5a", "no octets left for 'queue'"),
        (b"\0\0\0\0\0\0\0\0zz", "2 octets too many"),
        (b"\0\0\1\xff\0\0\0\0\0", "malformed UTF-8 in shortstr 'queue'"),
    ],
)
def test_arguments_that_cannot_be_decoded_are_501(
    peer: Peer, arguments: bytes, reason: str
) -> None:
    peer.send_octets(frame(METHOD, 1, b"\0\x32\0\x0a" + arguments))
    assert peer.refusal() == Refusal(
        "connection",
        501,
        f"FRAME_ERROR - cannot decode queue.declare: {reason}",
        *ids(DECLARE),
    )


def test_a_refusal_that_quotes_octets_of_the_client_is_valid_utf_8(peer: Peer) -> None:
    """Clients decode the text; one that cannot would only see that its socket was closed."""
    # differs: reply-text
    arguments = b"\0\0\1q\0" + b"\0\0\0\4" + b"\2\xff\x8b?"
    peer.send_octets(frame(METHOD, 1, b"\0\x32\0\x0a" + arguments))
    assert peer.refusal().text.endswith("unknown type octet 0x3f at octet 3 in ??")


def test_so_is_one_that_quotes_the_exchange_of_a_publish(peer: Peer) -> None:
    peer.publish(1, "k", exchange="caf\udce9")
    assert peer.refusal().text == "NOT_FOUND - no exchange 'caf?' in vhost '/'"


@given(st.lists(st.binary(max_size=60), max_size=6), st.lists(st.integers(0, 30), max_size=10))
def test_garbage_never_gets_anything_but_a_close(pieces: list[bytes], split_at: list[int]) -> None:
    peer = SteppedBroker().connect()
    for piece in pieces:
        peer.send_octets(piece)
    names = [one.name for one in peer.receive()]
    assert names in ([], ["connection.close"])


METHOD_CLASSES = list(commands.INDEX_MAPPING.values())


FRAMES = st.one_of(
    st.builds(
        lambda method_class, number: encode_method(number, method_class),
        st.sampled_from(METHOD_CLASSES),
        st.integers(0, 2),
    ),
    st.builds(
        lambda method_class, number, octets: frame(
            METHOD, number, method_class.index.to_bytes(4, "big") + octets
        ),
        st.sampled_from(METHOD_CLASSES),
        st.integers(0, 2),
        st.binary(max_size=20),
    ),
    st.builds(
        lambda number, size, properties: frame(
            HEADER, number, header_payload(size)[:12] + properties
        ),
        st.integers(0, 2),
        st.integers(0, 4),
        st.sampled_from([b"", b"\0\0", b"\0\0x", b"\x80\0\2ab", b"\x80\0\5ab", b"\x20\0\0\0\0\0"]),
    ),
    st.builds(
        lambda number, body: frame(BODY, number, body), st.integers(0, 2), st.binary(max_size=4)
    ),
    st.builds(
        publish_octets,
        st.integers(1, 2),
        st.sampled_from(["q", "nowhere"]),
        st.binary(max_size=4),
    ),
    st.just(frame(HEARTBEAT, 0, b"")),
)


@given(st.lists(FRAMES, max_size=25), st.booleans())
def test_any_sequence_of_frames_is_answered_by_the_rules(
    frames: list[bytes], is_one_read: bool
) -> None:
    """No exception gets out, and nothing is said on a channel between its close and its reopening.

    Close frames and their answers must pair up whatever nonsense the client says.
    """
    broker = SteppedBroker()
    peer = broker.connect(channels=[1, 2])
    peer.declare("q")
    closing: set[int] = set()
    for octets in [b"".join(frames)] if is_one_read else frames:
        peer.send_octets(octets)
        for one in peer.receive():
            if one.name == "channel.open-ok":
                closing.discard(one.channel)
            elif one.channel in closing:
                assert one.name in ("channel.close-ok", "connection.close-ok"), one
            if one.name == "channel.close":
                closing.add(one.channel)
            if one.name in ("connection.close", "connection.close-ok"):
                closing.update((0, 1, 2))
    queue = broker.vhost.queues.get("q")
    peer.lose()
    if queue is not None:
        assert queue.unacked_count == 0


# ----------------------------------------------------------------------------- the client closes


def close(peer: Peer) -> None:
    peer.call(0, commands.Connection.Close, reply_code=200, reply_text="Normal shutdown")


def test_close_is_answered_and_then_the_socket_closed(broker: SteppedBroker, peer: Peer) -> None:
    close(peer)
    assert peer.transport.state == "closed"
    peer.connection.on_transport_lost("")
    assert list(broker.context.connections) == []
    assert broker.reported(events.CONNECTION_CLOSED) == [{"peer": "127.0.0.1:40000"}]


def test_nothing_is_read_after_the_close(broker: SteppedBroker, peer: Peer) -> None:
    close_octets = encode_method(0, commands.Connection.Close)
    peer.send_octets(close_octets + encode_method(1, DECLARE, queue="late"))
    peer.send(1, DECLARE, queue="later")
    peer.expect(commands.Connection.CloseOk)
    assert list(broker.vhost.queues) == []


def disconnections() -> list[Callable[[Peer], None]]:
    return [close, lambda peer: peer.lose(), lambda peer: peer.lose("reset by peer")]


@pytest.mark.parametrize("leave", disconnections(), ids=["close", "eof", "reset"])
def test_a_connection_that_ends_gives_back_what_it_has_not_acknowledged(
    broker: SteppedBroker, peer: Peer, leave: Callable[[Peer], None]
) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2", b"3")
    other = broker.connect(channels=[1, 2])
    assert other.get("q", number=2) is not None
    other.consume("q", "a")
    assert len(other.receive()) == 3
    queue = broker.queue("q")
    assert (queue.ready_count, queue.unacked_count) == (0, 3)
    leave(other)
    assert (queue.ready_count, queue.unacked_count, queue.consumers) == (3, 0, [])
    first = peer.get("q")
    assert first is not None
    assert (first.body, first.method.redelivered) == (b"1", True)


@pytest.mark.parametrize("leave", disconnections(), ids=["close", "eof", "reset"])
def test_exclusive_queues_go_with_their_connection(
    broker: SteppedBroker, peer: Peer, leave: Callable[[Peer], None]
) -> None:
    peer.declare("mine", exclusive=True)
    other = broker.connect()
    leave(peer)
    assert "mine" not in broker.vhost.queues
    other.declare("mine")


@pytest.mark.row("E10")
def test_exclusive_queues_are_gone_before_close_ok_is_written(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("mine", exclusive=True)
    peer.send(0, commands.Connection.Close)
    assert "mine" not in broker.vhost.queues  # before the turn that writes


def test_outstanding_confirms_come_before_close_ok(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, commands.Confirm.Select)
    peer.fill("q", b"1", b"2")
    peer.send(0, commands.Connection.Close)
    ack, close_ok = peer.receive()
    assert (ack.name, ack.method.delivery_tag, ack.method.multiple) == ("basic.ack", 2, True)
    assert close_ok.name == "connection.close-ok"


# ----------------------------------------------------------------------------- the broker closes


def break_connection(peer: Peer) -> None:
    """Any hard error will do."""
    assert peer.refused(1, commands.Channel.Open)[0] == 504


def test_after_a_hard_error_only_close_ok_counts(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    break_connection(peer)
    peer.send(1, DECLARE, queue="late")
    peer.send(2, commands.Channel.Open)
    peer.publish(1, "q", b"late")
    peer.ack(1)
    peer.send(0, commands.Connection.UpdateSecret, new_secret="x")
    peer.send_octets(frame(HEARTBEAT, 0, b""))
    peer.expect_nothing()
    assert broker.queue("q").ready_count == 0
    assert "late" not in broker.vhost.queues
    assert peer.transport.state == "open"
    peer.send(0, commands.Connection.CloseOk)
    assert peer.transport.state == "closed"
    peer.expect_nothing()


def test_a_second_hard_error_is_not_answered(peer: Peer) -> None:
    break_connection(peer)
    peer.send_octets(frame(METHOD, 0, b"\0\0\0\0"))
    peer.send_octets(frame(9, 0, b""))
    peer.send_octets(b"garbage that is no frame at all")
    peer.expect_nothing()


def test_close_frames_that_cross_are_both_answered(peer: Peer) -> None:
    break_connection(peer)
    close(peer)
    assert peer.transport.state == "closed"


def test_a_hard_error_gives_everything_back_at_once(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.declare("mine", exclusive=True)
    peer.fill("q", b"1")
    peer.consume("q", "t")
    assert len(peer.receive()) == 2
    break_connection(peer)
    assert broker.queue("q").ready_count == 1
    assert broker.queue("q").consumers == []
    assert "mine" not in broker.vhost.queues


def test_a_client_that_never_sends_close_ok_is_dropped(broker: SteppedBroker, peer: Peer) -> None:
    break_connection(peer)
    broker.advance(CLOSE_OK_TIMEOUT_S - 0.1)
    assert peer.transport.state == "open"
    broker.advance(0.2)
    assert peer.transport.state == "dropped"


def test_a_stream_out_of_step_is_dropped_in_the_end(broker: SteppedBroker, peer: Peer) -> None:
    peer.send_octets(frame(METHOD, 1, b"abcd")[:-1] + b"\0")
    assert peer.refusal().code == 501
    peer.send(0, commands.Connection.CloseOk)  # cannot be told from the garbage in front of it
    assert peer.transport.state == "open"
    broker.advance(CLOSE_OK_TIMEOUT_S + 0.1)
    assert peer.transport.state == "dropped"


def test_a_forced_close_is_320_with_the_given_reason(peer: Peer) -> None:
    peer.connection.force_close("broker forced connection closure with reason 'shutdown'")
    assert peer.refusal() == Refusal(
        "connection",
        320,
        "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'",
        0,
        0,
    )
    peer.send(0, commands.Connection.CloseOk)
    assert peer.transport.state == "closed"


def test_a_forced_close_drops_who_is_not_in_yet(broker: SteppedBroker) -> None:
    peer = broker.accept()
    peer.send_octets(PROTOCOL_HEADER)
    peer.expect(commands.Connection.Start)
    peer.connection.force_close("shutdown")
    peer.expect_nothing()
    assert peer.transport.state == "dropped"


def test_a_long_reply_text_is_cut_to_255_octets(peer: Peer) -> None:
    name = "é" * 120
    _, text = peer.refused(1, DECLARE, queue=name, passive=True)
    assert len(text.encode()) <= 255
    assert text.startswith("NOT_FOUND - no queue 'éééé")
    assert text.endswith("é...")


def test_a_connection_whose_every_read_fails_is_dropped_at_the_second(
    broker: SteppedBroker, peer: Peer
) -> None:
    """Where there is no memory, each read fails; the client may never see the close, nor stop."""
    peer.connection.on_bug(MemoryError())
    assert peer.transport.state == "open"
    assert [one.method.reply_code for one in peer.receive()] == [541]
    peer.connection.on_bug(MemoryError())
    assert peer.transport.state == "dropped"
    assert len(broker.reported(events.BROKER_FAILED)) == 2


def test_a_bug_of_ours_before_the_header_just_closes_the_socket(broker: SteppedBroker) -> None:
    peer = broker.accept()
    assert not peer.connection.close(InternalError("internal error", class_id=0, method_id=0))
    peer.expect_nothing()
    assert peer.transport.state == "closed"


def test_a_bug_of_ours_is_541_and_nothing_more_is_read(peer: Peer) -> None:
    assert not peer.connection.close(InternalError("internal error", class_id=0, method_id=0))
    assert peer.refusal() == Refusal("connection", 541, "INTERNAL_ERROR - internal error", 0, 0)


def test_a_blocked_connection_that_is_closed_is_read_from_again(
    broker: SteppedBroker, peer: Peer
) -> None:
    broker.context.alarms.set("memory")
    peer.publish(1, "q")
    peer.expect(commands.Connection.Blocked)
    assert not peer.is_read_from()
    peer.connection.force_close("shutdown")
    assert peer.refusal().code == 320
    assert peer.is_read_from()
    broker.context.alarms.clear("memory")
    peer.expect_nothing()
    peer.send(0, commands.Connection.CloseOk)
    assert peer.transport.state == "closed"


@pytest.mark.parametrize(
    "method_class", [commands.Connection.Blocked, commands.Connection.Unblocked]
)
def test_what_a_client_says_of_its_own_resources_changes_nothing(
    peer: Peer, method_class: type[Frame]
) -> None:
    peer.send(0, method_class)
    peer.declare("q")


def test_the_rest_of_a_half_received_frame_is_known(peer: Peer) -> None:
    octets = encode_method(1, DECLARE, queue="q")
    assert peer.connection.missing_bytes == 0
    peer.send_octets(octets[:10])
    assert peer.connection.missing_bytes == len(octets) - 10
    peer.send_octets(octets[10:])
    assert peer.connection.missing_bytes == 0
