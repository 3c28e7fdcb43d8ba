"""What goes out per message, read back by pamqp; content octets compared with what came in."""

from __future__ import annotations

from struct import Struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import body as pamqp_body
from pamqp import frame as pamqp_frame
from pamqp import header as pamqp_header

from hareline.message import Address, Message
from hareline.wire.encoder import (
    TAG_AND_FLAG,
    ack_frame,
    body_frame_head,
    content_frames,
    deliver_prefix,
    deliver_suffix,
    get_ok_frame,
    header_frame,
    nack_frame,
    return_frame,
    short_string,
)
from hareline.wire.methods import commands, decode_method
from hareline.wire.properties import Properties, encode_properties

FRAME_HEAD = Struct(">BHI")
CHANNELS = st.integers(1, 0xFFFF)
TAGS = st.integers(1, 2**63 - 1)  # pamqp reads the delivery tag as signed
# what pamqp lets through; other names are compared with our own decoder
PLAIN_NAMES = st.text("abcXYZ019-_.:@#", max_size=60)
NAMES = st.text(max_size=60)


def read(octets: bytes) -> tuple[int, Any]:
    """The channel and the value of a frame that is all of these octets."""
    consumed, channel, value = pamqp_frame.unmarshal(octets)
    assert consumed == len(octets)
    return channel, value


def read_method(octets: bytes) -> tuple[int, str, dict[str, Any]]:
    """Channel, name and arguments; what answers nothing (requeue of a confirm) left out."""
    channel, method = read(octets)
    arguments = {name: getattr(method, name) for name in method.__slots__ if name != "requeue"}
    return channel, method.name, arguments


def address_octets(exchange: str, routing_key: str) -> bytes:
    return short_string(exchange) + short_string(routing_key)


def deliver(
    channel: int, consumer_tag: str, address: bytes, tag: int, is_redelivered: bool
) -> bytes:
    """As ``amqp.consuming`` puts it together."""
    return b"".join(
        (
            deliver_prefix(channel, short_string(consumer_tag), address),
            TAG_AND_FLAG.pack(tag, is_redelivered),
            deliver_suffix(address),
        )
    )


@given(CHANNELS, PLAIN_NAMES, TAGS, st.booleans(), PLAIN_NAMES, PLAIN_NAMES)
def test_deliver_says_who_what_and_whence(
    channel: int, consumer: str, tag: int, redelivered: bool, exchange: str, key: str
) -> None:
    octets = deliver(channel, consumer, address_octets(exchange, key), tag, redelivered)
    assert read_method(octets) == (
        channel,
        "Basic.Deliver",
        {
            "consumer_tag": consumer,
            "delivery_tag": tag,
            "redelivered": redelivered,
            "exchange": exchange,
            "routing_key": key,
        },
    )


@given(NAMES, st.integers(0, 2**64 - 1), NAMES, NAMES)
def test_deliver_takes_names_and_tags_that_pamqp_refuses(
    consumer: str, tag: int, exchange: str, key: str
) -> None:
    octets = deliver(1, consumer, address_octets(exchange, key), tag, False)
    method = decode_method(octets[7:-1])
    assert isinstance(method, commands.Basic.Deliver)
    assert (method.consumer_tag, method.delivery_tag) == (consumer, tag)
    assert (method.exchange, method.routing_key) == (exchange, key)


@given(CHANNELS, TAGS, st.booleans(), PLAIN_NAMES, PLAIN_NAMES, st.integers(0, 2**32 - 1))
def test_get_ok_says_what_is_left(
    channel: int, tag: int, redelivered: bool, exchange: str, key: str, count: int
) -> None:
    octets = get_ok_frame(channel, tag, redelivered, address_octets(exchange, key), count)
    assert read_method(octets) == (
        channel,
        "Basic.GetOk",
        {
            "delivery_tag": tag,
            "redelivered": redelivered,
            "exchange": exchange,
            "routing_key": key,
            "message_count": count,
        },
    )


@given(CHANNELS, st.integers(0, 0xFFFF), PLAIN_NAMES, PLAIN_NAMES, PLAIN_NAMES)
def test_return_says_why(channel: int, code: int, text: str, exchange: str, key: str) -> None:
    octets = return_frame(channel, code, text, address_octets(exchange, key))
    assert read_method(octets) == (
        channel,
        "Basic.Return",
        {"reply_code": code, "reply_text": text, "exchange": exchange, "routing_key": key},
    )


@given(CHANNELS, TAGS, st.booleans())
def test_ack_and_nack_carry_the_tag_and_multiple(channel: int, tag: int, multiple: bool) -> None:
    arguments = {"delivery_tag": tag, "multiple": multiple}
    assert read_method(ack_frame(channel, tag, multiple)) == (channel, "Basic.Ack", arguments)
    assert read_method(nack_frame(channel, tag, multiple)) == (channel, "Basic.Nack", arguments)


def test_octets_that_are_no_utf8_go_out_as_they_came() -> None:
    raw = b"caf\xe9"
    assert short_string(raw.decode("utf-8", "surrogateescape")) == b"\x04" + raw


def test_a_short_string_of_255_octets_fits() -> None:
    assert short_string("a" * 255) == b"\xff" + b"a" * 255


# -------------------------------------------------------------------------------------- content


def message(channel: int, body: bytes, property_octets: bytes = b"\0\0") -> Message:
    header = header_frame(channel, property_octets, len(body))
    content = header
    if body:
        content += body_frame_head(channel, len(body)) + body + b"\xce"
    address = Address("", "k", address_octets("", "k"))
    return Message(address, content, len(header), len(body), channel, 0)


def frames_of(octets: bytes) -> list[bytes]:
    frames = []
    while octets:
        size = FRAME_HEAD.unpack_from(octets)[2] + 8
        assert octets[size - 1] == 0xCE
        frames.append(octets[:size])
        octets = octets[size:]
    return frames


@given(CHANNELS, CHANNELS, st.binary(max_size=400), st.integers(20, 450))
def test_content_is_cut_to_the_receivers_frame_size_and_moved_to_its_channel(
    published_on: int, channel: int, body: bytes, frame_max: int
) -> None:
    octets = encode_properties(Properties(content_type="text/plain", delivery_mode=2))
    published = message(published_on, body, octets)
    header, *bodies = frames_of(b"".join(content_frames(published, channel, frame_max)))
    number, head = read(header)
    assert isinstance(head, pamqp_header.ContentHeader)
    assert (number, head.body_size) == (channel, len(body))
    read_properties = {name: value for name, value in dict(head.properties).items() if value}
    assert read_properties == {"content_type": "text/plain", "delivery_mode": 2}
    values = [read(one) for one in bodies]
    assert all(number == channel for number, _ in values)
    assert all(isinstance(value, pamqp_body.ContentBody) for _, value in values)
    assert b"".join(value.value for _, value in values) == body
    assert all(len(one) <= frame_max for one in bodies)
    assert all(len(one) == frame_max for one in bodies[:-1])


@given(CHANNELS, st.binary(max_size=100))
def test_content_for_the_channel_it_came_on_is_what_came(channel: int, body: bytes) -> None:
    published = message(channel, body)
    assert b"".join(content_frames(published, channel, 4096)) == published.content


@pytest.mark.parametrize(
    ("size", "frame_max", "sizes"),
    [
        (92, 100, [92]),
        (93, 100, [92, 1]),
        (184, 100, [92, 92]),
        (185, 100, [92, 92, 1]),
        (1, 100, [1]),
        (0, 100, []),
    ],
)
def test_the_limit_is_on_whole_frames(size: int, frame_max: int, sizes: list[int]) -> None:
    _, *bodies = frames_of(b"".join(content_frames(message(3, b"b" * size), 4, frame_max)))
    assert [len(one) - 8 for one in bodies] == sizes


@given(st.binary(max_size=50), PLAIN_NAMES)
def test_other_properties_keep_the_body(body: bytes, app_id: str) -> None:
    published = message(5, body, encode_properties(Properties(content_type="old")))
    changed = published.replace(properties=encode_properties(Properties(app_id=app_id)))
    assert changed.channel == 5
    assert changed.body == body
    assert changed.properties == Properties(app_id=app_id)
    assert len(frames_of(changed.content)[0]) == changed.header_size
