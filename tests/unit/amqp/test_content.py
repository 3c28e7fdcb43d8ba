"""A message that arrives frame by frame: what may come when, and how much is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.amqp.content import ContentAssembler
from hareline.errors import FrameError, UnexpectedFrame
from hareline.message import Address, Message
from hareline.wire.methods import commands, encode_method
from hareline.wire.properties import Properties, encode_properties

from .peer import BODY, HEADER, Peer, Refusal, SteppedBroker, frame, header_payload

PUBLISH = encode_method(1, commands.Basic.Publish, routing_key="q")
QOS = encode_method(1, commands.Basic.Qos)
NOT_A_HEADER = "expected content header for class 60, got non content header frame instead"
NOT_A_BODY = "expected content body, got non content body frame instead"
NOT_A_METHOD = "expected method frame, got non method frame instead"


def assembler(max_message_bytes: int = 1000) -> ContentAssembler:
    content = ContentAssembler(max_message_bytes)
    content.begin(PUBLISH[7:-1])
    return content


# ------------------------------------------------------------------------------ putting together


@given(
    st.lists(st.binary(max_size=20), max_size=6),
    st.sampled_from([Properties(), Properties(content_type="a/b", priority=3)]),
    st.integers(1, 0xFFFF),
)
def test_what_was_cut_into_frames_comes_out_whole(
    chunks: list[bytes], properties: Properties, number: int
) -> None:
    body = b"".join(chunks)
    content = assembler()
    is_complete = content.add_header(header_payload(len(body), properties))
    for chunk in chunks:
        if is_complete:
            break
        assert content.is_open
        is_complete = content.add_body(chunk)
    assert is_complete
    flags, octets, header_size, size = content.take(number)
    message = Message(Address("", "q", b""), octets, header_size, size, number, 0)
    assert (message.body, message.properties) == (body, properties)
    assert flags == int.from_bytes(encode_properties(properties)[:2], "big")
    assert not content.is_open


def test_the_next_content_starts_afresh() -> None:
    content = assembler()
    content.add_header(header_payload(5))
    content.add_body(b"half")
    content.close()
    content.begin(PUBLISH[7:-1])
    assert content.add_header(header_payload(0))
    assert content.take(1)[3] == 0


def test_never_more_is_kept_than_the_header_announced() -> None:
    content = assembler()
    content.add_header(header_payload(10))
    content.add_body(b"12345")
    with pytest.raises(FrameError, match="content body frame exceeds remaining content size"):
        content.add_body(b"678901")


def test_a_body_without_a_content_is_unexpected() -> None:
    content = ContentAssembler(1000)
    with pytest.raises(UnexpectedFrame, match=NOT_A_METHOD):
        content.add_body(b"")


# ------------------------------------------------------------- on the wire: every row of 2


@pytest.mark.parametrize(
    ("octets", "explanation"),
    [
        (PUBLISH + QOS, NOT_A_HEADER),
        (PUBLISH + PUBLISH, NOT_A_HEADER),
        (PUBLISH + encode_method(1, commands.Channel.Close), NOT_A_HEADER),
        (PUBLISH + encode_method(1, commands.Basic.Ack), NOT_A_HEADER),
        (PUBLISH + frame(BODY, 1, b"a"), NOT_A_HEADER),
        (
            PUBLISH + frame(HEADER, 1, b"\0\x3c\0\x01" + header_payload(5)[4:]),  # weight 1
            NOT_A_HEADER,
        ),
        (
            PUBLISH + frame(HEADER, 1, header_payload(5, class_id=50)),
            "expected content header for class 60, got one for class 50 instead",
        ),
        (PUBLISH + frame(HEADER, 1, header_payload(5)) + QOS, NOT_A_BODY),
        (PUBLISH + frame(HEADER, 1, header_payload(5)) + PUBLISH, NOT_A_BODY),
        (PUBLISH + frame(HEADER, 1, header_payload(5)) * 2, NOT_A_BODY),
        (
            PUBLISH + frame(HEADER, 1, header_payload(5)) + frame(BODY, 1, b"1234") + QOS,
            NOT_A_BODY,
        ),
    ],
)
def test_a_frame_out_of_its_place_in_a_content_is_505(
    peer: Peer, octets: bytes, explanation: str
) -> None:
    peer.send_octets(octets)
    assert peer.refusal() == Refusal("connection", 505, f"UNEXPECTED_FRAME - {explanation}", 60, 40)


@pytest.mark.parametrize("body", [b"", b"a"])
def test_a_body_frame_after_a_size_of_0_is_505(peer: Peer, body: bytes) -> None:
    peer.send_octets(PUBLISH + frame(HEADER, 1, header_payload(0)) + frame(BODY, 1, body))
    assert peer.refusal() == Refusal("connection", 505, f"UNEXPECTED_FRAME - {NOT_A_METHOD}", 0, 0)


def test_a_body_longer_than_announced_is_501(peer: Peer) -> None:
    peer.send_octets(PUBLISH + frame(HEADER, 1, header_payload(5)) + frame(BODY, 1, b"123456"))
    assert peer.refusal() == Refusal(
        "connection", 501, "FRAME_ERROR - content body frame exceeds remaining content size", 60, 40
    )


@pytest.mark.parametrize("size", [536_870_913, 2**64 - 1])
def test_a_size_above_the_absolute_cap_is_501(peer: Peer, size: int) -> None:
    peer.send_octets(PUBLISH + frame(HEADER, 1, header_payload(size)))
    assert peer.refusal() == Refusal(
        "connection",
        501,
        f"FRAME_ERROR - content body size {size} exceeds maximum allowed size 536870912",
        60,
        40,
    )


def test_a_size_above_the_configured_one_is_406_as_soon_as_it_is_announced(
    broker: SteppedBroker, peer: Peer
) -> None:
    limit = 16_777_216  # the default, as in RabbitMQ 4
    other = broker.connect()
    other.send_octets(PUBLISH + frame(HEADER, 1, header_payload(limit)))
    other.expect_nothing()
    peer.send_octets(PUBLISH + frame(HEADER, 1, header_payload(limit + 1)))
    assert peer.refusal() == Refusal(
        "channel",
        406,
        f"PRECONDITION_FAILED - message size {limit + 1} is larger than configured max size "
        f"{limit}",
        60,
        40,
    )


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize(
    ("properties", "explanation"),
    [
        (b"\0\0junk", "4 octets too many"),
        (b"\0\x03junk", "4 octets too many"),
        (b"\x80\0", "content_type runs past the end of the header"),
        (b"\x80\0\x09junk", "content_type runs past the end of the header"),
        (
            b"\x20\0\0\0\0\x03\x01a?",
            "headers: field table: unknown type octet 0x3f at octet 2 in a",
        ),
    ],
)
def test_properties_that_cannot_be_decoded_are_502_and_reach_nobody(
    peer: Peer, properties: bytes, explanation: str, is_known: bool
) -> None:
    peer.declare("q")
    if is_known:  # by the lane as well as on the long way
        peer.publish(1, "q")
        peer.publish(1, "q")
        assert peer.drain("q") == [b"", b""]
    peer.send_octets(PUBLISH + frame(HEADER, 1, header_payload(0)[:12] + properties))
    assert peer.refusal() == Refusal(
        "connection",
        502,
        f"SYNTAX_ERROR - cannot decode basic properties: {explanation}",
        60,
        40,
    )


def test_contents_of_different_channels_may_interleave(peer: Peer) -> None:
    peer.open(2)
    peer.declare("q")
    other = encode_method(2, commands.Basic.Publish, routing_key="q")
    peer.send_octets(
        PUBLISH
        + other
        + frame(HEADER, 2, header_payload(2))
        + frame(HEADER, 1, header_payload(2))
        + frame(BODY, 1, b"1")
        + frame(BODY, 2, b"a")
        + frame(8, 0, b"")
        + frame(BODY, 2, b"b")
        + frame(BODY, 1, b"2")
    )
    assert peer.drain("q") == [b"ab", b"12"]
