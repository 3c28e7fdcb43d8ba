"""The frames sent once per message: deliver, get-ok, return, ack, nack, and content frames.

Called by ``amqp.consuming``, ``amqp.publishing`` and ``amqp.confirms``. The parts that are constant
for a consumer are built once (``deliver_prefix``, ``deliver_suffix``); a delivery is then
prefix + tag and redelivered (``TAG_AND_FLAG``) + suffix + the content as it was received.   [hot]
"""

from __future__ import annotations

from struct import Struct
from typing import Final, Protocol

from hareline.wire.constants import (
    BASIC_ACK,
    BASIC_DELIVER,
    BASIC_GET_OK,
    BASIC_NACK,
    BASIC_RETURN,
    CLASS_BASIC,
    FRAME_BODY,
    FRAME_END_OCTET,
    FRAME_HEAD_SIZE,
    FRAME_HEADER,
    FRAME_METHOD,
    FRAME_OVERHEAD,
)

TAG_AND_FLAG: Final = Struct(">QB")  # delivery-tag, redelivered

_METHOD_HEAD: Final = Struct(">BHII")
_CONFIRM: Final = Struct(">BHIIQBB")
_FRAME_HEAD: Final = Struct(">BHI")
_CHANNEL: Final = Struct(">H")
_COUNT: Final = Struct(">I")
_REPLY_CODE: Final = Struct(">H")
_HEADER_HEAD: Final = Struct(">BHIIQ")  # frame head, class << 16 | weight, body size
_HEADER_FIXED_SIZE: Final = 12
_BASIC_CONTENT: Final = CLASS_BASIC << 16


class Framed(Protocol):
    """The part of ``hareline.message.Message`` that an encoder uses."""

    content: bytes
    header_size: int
    size: int


def short_string(text: str) -> bytes:
    """A short string: a length octet and at most 255 octets; callers guarantee the limit."""
    octets = text.encode("utf-8", "surrogateescape")
    return bytes((len(octets),)) + octets


def deliver_prefix(channel: int, consumer_tag: bytes, address: bytes) -> bytes:
    """basic.deliver up to the delivery tag; ``consumer_tag`` is a short string in octets.

    ``address`` here and below: short string exchange, short string routing key.
    """
    size = 4 + len(consumer_tag) + TAG_AND_FLAG.size + len(address)
    return _METHOD_HEAD.pack(FRAME_METHOD, channel, size, BASIC_DELIVER) + consumer_tag


def deliver_suffix(address: bytes) -> bytes:
    """The end of basic.deliver after the redelivered flag: exchange, routing key, frame end."""
    return address + FRAME_END_OCTET


def get_ok_frame(
    channel: int, tag: int, is_redelivered: bool, address: bytes, message_count: int
) -> bytes:
    size = 4 + TAG_AND_FLAG.size + len(address) + 4
    return b"".join(
        (
            _METHOD_HEAD.pack(FRAME_METHOD, channel, size, BASIC_GET_OK),
            TAG_AND_FLAG.pack(tag, is_redelivered),
            address,
            _COUNT.pack(message_count),
            FRAME_END_OCTET,
        )
    )


def return_frame(channel: int, reply_code: int, reply_text: str, address: bytes) -> bytes:
    text = short_string(reply_text)
    size = 4 + 2 + len(text) + len(address)
    return b"".join(
        (
            _METHOD_HEAD.pack(FRAME_METHOD, channel, size, BASIC_RETURN),
            _REPLY_CODE.pack(reply_code),
            text,
            address,
            FRAME_END_OCTET,
        )
    )


def ack_frame(channel: int, tag: int, is_multiple: bool) -> bytes:
    return _CONFIRM.pack(FRAME_METHOD, channel, 13, BASIC_ACK, tag, is_multiple, 0xCE)


def nack_frame(channel: int, tag: int, is_multiple: bool) -> bytes:
    return _CONFIRM.pack(FRAME_METHOD, channel, 13, BASIC_NACK, tag, is_multiple, 0xCE)


def content_frames(message: Framed, channel: int, frame_max: int) -> list[bytes]:
    """Header and body frames for ``channel``, no frame above ``frame_max`` octets."""
    content = message.content
    header_size = message.header_size
    size = message.size
    number = _CHANNEL.pack(channel)
    if size == 0:
        return [content[:1], number, content[3:header_size]]
    payload_max = frame_max - FRAME_OVERHEAD
    start = header_size + FRAME_HEAD_SIZE
    if size <= payload_max:
        return [
            content[:1],
            number,
            content[3 : header_size + 1],
            number,
            content[header_size + 3 :],
        ]
    parts: list[bytes] = [content[:1], number, content[3:header_size]]
    return parts + body_frames(memoryview(content)[start : start + size], channel, payload_max)


def header_parts(message: Framed, channel: int) -> list[bytes]:
    """Only the header frame, for ``channel``."""
    content = message.content
    return [content[:1], _CHANNEL.pack(channel), content[3 : message.header_size]]


def body_frames(body: bytes | memoryview, channel: int, payload_max: int) -> list[bytes]:
    """Body frames with at most ``payload_max`` octets of the body each."""
    view = memoryview(body)
    parts: list[bytes] = []
    for position in range(0, len(view), payload_max):
        chunk = view[position : position + payload_max]
        parts.append(_FRAME_HEAD.pack(FRAME_BODY, channel, len(chunk)))
        parts.append(bytes(chunk))
        parts.append(FRAME_END_OCTET)
    return parts


def header_frame(channel: int, property_octets: bytes, body_size: int) -> bytes:
    """A basic content header; ``property_octets`` are the flags and the property list."""
    size = _HEADER_FIXED_SIZE + len(property_octets)
    head = _HEADER_HEAD.pack(FRAME_HEADER, channel, size, _BASIC_CONTENT, body_size)
    return head + property_octets + FRAME_END_OCTET


def body_frame_head(channel: int, size: int) -> bytes:
    return _FRAME_HEAD.pack(FRAME_BODY, channel, size)
