"""A message that arrives frame by frame: basic.publish, then its header, then its bodies.

Only for publishes that take no lane. Texts of errors are RabbitMQ's. A body that is too large for
memory goes to the ``BodyStore`` frame by frame.                                             [hot]
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from hareline.errors import FrameError, PreconditionFailed, UnexpectedFrame
from hareline.wire.constants import (
    BASIC_PUBLISH,
    BODY_SIZE_MAX,
    CLASS_BASIC,
    FRAME_END_OCTET,
    FRAME_HEADER,
)
from hareline.wire.decoder import frame_error
from hareline.wire.encoder import body_frame_head, header_frame

if TYPE_CHECKING:
    from hareline.message import LargeBody
    from hareline.storage.interface import BodyDraft, BodyStore

_HEADER: Final = Struct(">HHQH")  # class, weight, body size, property flags
_PROPERTIES_START: Final = 12
_PUBLISH_METHOD: Final = BASIC_PUBLISH & 0xFFFF


class ContentAssembler:
    """``max_message_bytes`` bounds bodies; a larger one is refused when it is announced.

    ``bodies`` takes those above ``large_message_bytes``; without it all of them stay in memory.
    """

    __slots__ = (
        "_bodies",
        "_chunks",
        "_draft",
        "_flags",
        "_large",
        "_large_message_bytes",
        "_properties",
        "_remaining",
        "_size",
        "is_open",
        "max_message_bytes",
        "method_payload",
    )

    def __init__(
        self,
        max_message_bytes: int,
        bodies: BodyStore | None = None,
        large_message_bytes: int = BODY_SIZE_MAX,
    ) -> None:
        self.max_message_bytes = max_message_bytes
        self._bodies = bodies
        self._large_message_bytes = BODY_SIZE_MAX if bodies is None else large_message_bytes
        self._draft: BodyDraft | None = None  # of the large body that is coming
        self._large: LargeBody | None = None  # of the content that was taken
        self.is_open = False
        self.method_payload = b""
        self._properties: bytes | None = None  # octets from the flags on, once the header is here
        self._flags = 0
        self._size = 0
        self._remaining = 0
        self._chunks: list[bytes] = []

    def begin(self, method_payload: bytes) -> None:
        """A basic.publish method arrived; its payload is kept for the publisher."""
        if self.is_open:
            self.refuse_method()
        self.is_open = True
        self.method_payload = method_payload

    def refuse_method(self) -> None:
        """A method frame arrived in the middle of a content."""
        raise _expected_header() if self._properties is None else _expected_body()

    def add_header(self, payload: bytes) -> bool:
        """A header frame; True when the content is complete with it."""
        if len(payload) < _HEADER.size:
            raise frame_error(FRAME_HEADER, payload, "unknown_frame")
        if not self.is_open:
            raise _expected_method()
        if self._properties is not None:
            raise _expected_body()
        class_id, weight, size, flags = _HEADER.unpack_from(payload)
        if weight != 0:  # AMQP 0-9-1 section 4.2.6.1: unused, must be zero
            raise _expected_header()
        if class_id != CLASS_BASIC:
            raise UnexpectedFrame(
                f"expected content header for class 60, got one for class {class_id} instead"
            )
        if size > BODY_SIZE_MAX:
            raise FrameError(
                f"content body size {size} exceeds maximum allowed size {BODY_SIZE_MAX}"
            )
        if size > self.max_message_bytes:
            self.close()
            raise PreconditionFailed(
                f"message size {size} is larger than configured max size {self.max_message_bytes}"
            )
        self._properties = payload[_PROPERTIES_START:]
        self._flags = flags
        self._size = self._remaining = size
        if size > self._large_message_bytes:
            assert self._bodies is not None
            self._draft = self._bodies.begin(size)
        return bool(size == 0)

    def add_body(self, payload: bytes) -> bool:
        """A body frame; True when the content is complete with it."""
        if not self.is_open:
            raise _expected_method()
        if self._properties is None:
            raise _expected_header()
        self._remaining -= len(payload)
        if self._remaining < 0:
            raise FrameError("content body frame exceeds remaining content size")
        if self._draft is None:
            self._chunks.append(payload)
        else:
            self._draft.add(payload)
        return self._remaining == 0

    def take(self, channel_number: int) -> tuple[int, bytes, int, int]:
        """The complete content: property flags, content octets, header frame size, body size.

        The octets are as ``hareline.message.Message`` keeps them. Those of a large message are its
        header frame alone, and ``take_large`` has the body. Raises ContentTooLarge or StoreError
        where that cannot be written.
        """
        assert self._properties is not None
        header = header_frame(channel_number, self._properties, self._size)
        result = self._flags, header, len(header), self._size
        if self._draft is not None:
            self._large = self._draft.finish()
            self._draft = None
        elif self._size:
            head = body_frame_head(channel_number, self._size)
            content = b"".join((header, head, *self._chunks, FRAME_END_OCTET))
            result = self._flags, content, len(header), self._size
        self.close()
        return result

    def take_large(self) -> LargeBody | None:
        """The body of the content that was taken last, if it is not in its octets."""
        large, self._large = self._large, None
        return large

    def close(self) -> None:
        if self._draft is not None:
            self._draft.abandon()
            self._draft = None
        self.is_open = False
        self._properties = None
        self._chunks = []


def _expected_method() -> UnexpectedFrame:
    return UnexpectedFrame(
        "expected method frame, got non method frame instead", class_id=0, method_id=0
    )


def _expected_header() -> UnexpectedFrame:
    return _unexpected_in_content(
        "expected content header for class 60, got non content header frame instead"
    )


def _expected_body() -> UnexpectedFrame:
    return _unexpected_in_content("expected content body, got non content body frame instead")


def _unexpected_in_content(text: str) -> UnexpectedFrame:
    return UnexpectedFrame(text, class_id=CLASS_BASIC, method_id=_PUBLISH_METHOD)
