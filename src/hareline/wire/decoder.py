"""Octets in, calls out: cuts the input stream into frames and decodes the per-message ones.

``Decoder.feed`` is called by ``amqp.connection`` with whatever the socket gave. Two things are
recognised in the stream itself, because they are most of it:

- whole publishes (method, header and one body frame) whose method payload is a key of that
  channel's route table: one call of ``PublishLane.publish_run`` for all that come one after the
  other and match one stencil (``wire.stencil``), and of ``publish`` for one that matches none;
- basic.ack: one call of ``SettleLane.ack``.

Every other frame goes to the ``FrameSink``, one call each, with its payload cut out but not
decoded. A channel that cannot take the short cut (closing, half-way through a content, in a
transaction) has no lane here, so its frames all go to the sink.

Invariant: the read position is moved past a frame before anything is called for it, so an error
raised by a call never makes a frame be read twice.                                          [hot]
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

from hareline.compiled import mypyc_attr
from hareline.errors import AmqpError, FrameError, UnknownFrameType
from hareline.wire.constants import (
    BASIC_ACK,
    BASIC_PUBLISH,
    CLASS_BASIC,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_MAX_BEFORE_TUNE,
    FRAME_METHOD,
    FRAME_OVERHEAD,
)
from hareline.wire.stencil import Stencils

_METHOD_HEAD: Final = Struct(">BHII")  # type, channel, payload size, class << 16 | method
_METHOD_HEAD_SIZE: Final = 11
_FRAME_HEAD: Final = Struct(">BHI")
_FRAME_HEAD_SIZE: Final = 7
_CONTENT_HEAD: Final = Struct(">BHIIQH")  # frame head, class << 16 | weight, body size, flags
_CONTENT_HEAD_SIZE: Final = 21
_CONTENT_PAYLOAD_MIN: Final = 14
_BASIC_CONTENT: Final = CLASS_BASIC << 16
_ACK_ARGUMENTS: Final = Struct(">QB")
_ACK_PAYLOAD_SIZE: Final = 13
_KNOWN_TYPES: Final = frozenset((FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT))


@mypyc_attr(allow_interpreted_subclasses=True)
class KnownRoute(metaclass=ABCMeta):
    """Route of publishes with a method payload, as far as the decoder has to know.

    ``takes_runs``: those that ask for nothing may come by ``PublishLane.publish_run``.
    """

    __slots__ = ("takes_runs",)

    takes_runs: bool

    @property
    @abstractmethod
    def persistent(self) -> KnownRoute:
        """The route for persistent messages."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PublishLane(metaclass=ABCMeta):
    """Receiver of the publishes of one channel.

    ``routes`` maps method payloads that were seen before to routes; the lane alone knows what else
    a route is, so its type is Any here. ``stencils``: of those of its publishes that were plain.
    """

    __slots__ = ("routes", "stencils")

    def __init__(self) -> None:
        self.routes: dict[bytes, Any] = {}
        self.stencils = Stencils()

    def forget_routes(self) -> None:
        """Drop all routes: they may lead elsewhere now."""
        self.routes.clear()

    @abstractmethod
    def publish(self, route: Any, flags: int, content: bytes, header_size: int, size: int) -> bool:
        """A whole publish: ``content`` is the header frame and the body frame, if any.

        True if it was plain: for others that match its stencil, the ones below are called.
        """

    @abstractmethod
    def publish_checked(self, route: Any, content: bytes, header_size: int, size: int) -> None:
        """A publish that asks for nothing, with a route for its mode that takes no runs."""

    @abstractmethod
    def publish_plain(self, route: Any, content: bytes, header_size: int, size: int) -> None:
        """The same with a route that takes runs."""

    @abstractmethod
    def publish_run(
        self, route: Any, contents: list[bytes], header_size: int, framing: int
    ) -> None:
        """The same for several that came one after the other; ``framing``: see ``Stencil``.

        Raises AmqpError for the first one that fails. As many as are left in ``contents`` then have
        not been published, and are decoded again.
        """

    def publish_each(
        self, route: Any, contents: list[bytes], header_size: int, framing: int
    ) -> None:
        """Do the work of ``publish_run``, one publish after the other."""
        publish_plain = self.publish_plain
        published = 0
        try:
            for content in contents:
                published += 1
                publish_plain(route, content, header_size, len(content) - framing)
        finally:
            del contents[:published]


@mypyc_attr(allow_interpreted_subclasses=True)
class SettleLane(metaclass=ABCMeta):
    """Receiver of the acknowledgements of one channel."""

    __slots__ = ()

    @abstractmethod
    def ack(self, tag: int, multiple: int) -> None: ...


@mypyc_attr(allow_interpreted_subclasses=True)
class FrameSink(metaclass=ABCMeta):
    """Takes the frames that have no lane, and the errors of all calls."""

    __slots__ = ()

    @abstractmethod
    def on_frame(self, kind: int, number: int, payload: bytes) -> None:
        """One well-formed frame of type ``kind`` on channel ``number``."""

    @abstractmethod
    def on_error(self, number: int, error: AmqpError) -> bool:
        """A call for channel ``number`` raised; False when nothing more is to be decoded."""


class Decoder:
    """``frame_max`` bounds payloads; ``lane_body_max`` the bodies that may take a publish lane."""

    __slots__ = (
        "_chunks",
        "_chunks_size",
        "_is_discarding",
        "_is_held",
        "_needed",
        "_sink",
        "frame_max",
        "lane_body_max",
        "publish_lanes",
        "settle_lanes",
    )

    def __init__(self, sink: FrameSink) -> None:
        self._sink = sink
        self._chunks: list[bytes] = []
        self._chunks_size = 0
        self._needed = 0
        self._is_discarding = False
        self._is_held = False
        self.frame_max = FRAME_MAX_BEFORE_TUNE
        self.lane_body_max = 0
        self.publish_lanes: dict[int, PublishLane] = {}
        self.settle_lanes: dict[int, SettleLane] = {}

    def discard(self) -> None:
        """Ignore all further input; the stream is out of step, or the connection ends."""
        self._is_discarding = True
        self._chunks = []
        self._chunks_size = 0
        self._needed = 0

    def close(self) -> None:
        """Ignore all further input, and let go of the sink."""
        self.discard()
        self._sink = _NO_SINK

    def hold(self) -> None:
        """Decode nothing more once the call returns that this is called from.

        That is a call for a frame, or for a publish that is not plain or takes no run.
        """
        self._is_held = True

    def resume(self) -> None:
        """Go on with what was kept since ``hold``; not to be called from a call for a frame."""
        self._is_held = False
        if not self._is_discarding:
            data = b"".join(self._chunks)
            self._chunks = []
            self.feed(data)

    def has_stopped(self) -> bool:
        """True if a call made for a frame has called ``discard`` or ``hold``."""
        return self._is_discarding or self._is_held

    @property
    def missing_bytes(self) -> int:
        """Octets that an incomplete frame still lacks; 0 without one."""
        return self._needed - self._chunks_size if self._chunks else 0

    def feed(self, data: bytes) -> None:
        """Decode what is complete and keep the rest, which never exceeds one frame."""
        if self._is_discarding:
            return
        if self._is_held:
            self._chunks.append(data)
            return
        if self._chunks:
            self._chunks.append(data)
            self._chunks_size += len(data)
            if self._chunks_size < self._needed:
                return
            data = b"".join(self._chunks)
            self._chunks = []
        position = 0
        while True:
            try:
                position = self._decode(data, position)
            except _CallFailed as failure:
                if not self._sink.on_error(failure.number, failure.error):
                    self.discard()
                    return
                position = failure.position
            else:
                break
        if position < len(data):
            self._chunks = [data[position:]]
            self._chunks_size = len(data) - position

    def _decode(self, data: bytes, position: int) -> int:
        """Decode from ``position``; returns where the first incomplete frame starts."""
        end = len(data)
        if self.has_stopped():
            return end if self._is_discarding else position
        publish_lanes = self.publish_lanes
        number = kind = size = frame_end = 0
        # The last frame, if it was a publish method with a known route, and that lane and route.
        # Only frames that go to the sink can change lanes and routes, and then it is forgotten.
        method = b""
        lane: PublishLane | None = None
        route: Any = None
        run: Sequence[bytes] = ()  # of publishes, while the lane has it
        try:
            while end - position >= _METHOD_HEAD_SIZE + 1:
                if lane is None or not data.startswith(method, position):
                    lane = None
                    kind, number, size, index = _METHOD_HEAD.unpack_from(data, position)
                    frame_end = position + _FRAME_HEAD_SIZE + size
                    if kind == FRAME_METHOD and frame_end < end and data[frame_end] == FRAME_END:
                        if index == BASIC_PUBLISH:
                            lane = publish_lanes.get(number)
                            if lane is not None:
                                method = data[position : frame_end + 1]
                                route = lane.routes.get(method[_FRAME_HEAD_SIZE:-1])
                                if route is None:
                                    lane = None
                        elif index == BASIC_ACK and size == _ACK_PAYLOAD_SIZE:
                            settle_lane = self.settle_lanes.get(number)
                            if settle_lane is not None:
                                tag, multiple = _ACK_ARGUMENTS.unpack_from(
                                    data, position + _METHOD_HEAD_SIZE
                                )
                                position = frame_end + 1
                                settle_lane.ack(tag, multiple)
                                continue
                if lane is not None:
                    stencils = lane.stencils
                    if stencils.recent:
                        contents: list[bytes] = []
                        position = stencils.take(
                            data, position, method, self.lane_body_max, contents
                        )
                        if contents:
                            stencil = stencils.recent[0]
                            target = route.persistent if stencil.is_persistent else route
                            header_size, framing = stencil.header_size, stencil.framing
                            if not route.takes_runs:
                                run = contents
                                contents.reverse()
                                while contents and not self._is_held:
                                    content = contents.pop()
                                    lane.publish_checked(
                                        target, content, header_size, len(content) - framing
                                    )
                                if self._is_held:
                                    return position - _size_of(method, run)
                            elif len(contents) == 1:
                                content = contents[0]
                                lane.publish_plain(
                                    target, content, header_size, len(content) - framing
                                )
                            else:
                                run = contents
                                lane.publish_run(target, run, header_size, framing)
                            run = ()
                            continue
                    start = position + len(method)
                    if end - start > _CONTENT_HEAD_SIZE:
                        content_kind, channel, header_payload, basic, body_size, flags = (
                            _CONTENT_HEAD.unpack_from(data, start)
                        )
                        header_size = header_payload + FRAME_OVERHEAD
                        body = start + header_size
                        stop = body + FRAME_OVERHEAD + body_size if body_size else body
                        if (
                            content_kind == FRAME_HEADER
                            and channel == number
                            and basic == _BASIC_CONTENT
                            and _CONTENT_PAYLOAD_MIN <= header_payload <= self.frame_max
                            and body_size <= self.lane_body_max
                            and stop <= end
                            and data[body - 1] == FRAME_END
                            and data[stop - 1] == FRAME_END
                            and (
                                body_size == 0
                                or _FRAME_HEAD.unpack_from(data, body)
                                == (FRAME_BODY, number, body_size)
                            )
                        ):
                            shape = header_payload << 17 | flags << 1 | (body_size > 0)
                            if shape in stencils.by_shape and stencils.find(data, start, shape):
                                continue
                            position = stop
                            content = data[start:stop]
                            if lane.publish(route, flags, content, header_size, body_size):
                                stencils.learn(content, header_size, shape)
                            if self._is_held:
                                return position
                            continue
                    # the content is not here as a whole, or invalid: frame by frame
                    lane = None
                    kind, size, frame_end = FRAME_METHOD, len(method) - FRAME_OVERHEAD, start - 1
                if size > self.frame_max:
                    raise self._too_large(kind, size)
                if frame_end >= end:
                    self._needed = frame_end + 1 - position
                    return position
                if data[frame_end] != FRAME_END:
                    raise self._bad_end(data, position, kind, size, frame_end)
                payload = data[position + _FRAME_HEAD_SIZE : frame_end]
                position = frame_end + 1
                if kind not in _KNOWN_TYPES:
                    raise frame_error(kind, payload, "unknown_frame")
                self._sink.on_frame(kind, number, payload)
                if self.has_stopped():
                    return end if self._is_discarding else position
            return self._decode_short(data, position)
        except AmqpError as error:
            raise _CallFailed(number, position - _size_of(method, run), error) from error

    def _decode_short(self, data: bytes, position: int) -> int:
        """The last octets: heartbeats and tiny bodies are shorter than any method frame."""
        end = len(data)
        number = 0
        while end - position >= FRAME_OVERHEAD:
            kind, number, size = _FRAME_HEAD.unpack_from(data, position)
            if size > self.frame_max:
                raise _CallFailed(number, position, self._too_large(kind, size))
            frame_end = position + _FRAME_HEAD_SIZE + size
            if frame_end >= end:
                self._needed = size + FRAME_OVERHEAD
                return position
            if data[frame_end] != FRAME_END:
                error = self._bad_end(data, position, kind, size, frame_end)
                raise _CallFailed(number, position, error)
            payload = data[position + _FRAME_HEAD_SIZE : frame_end]
            position = frame_end + 1
            try:
                if kind not in _KNOWN_TYPES:
                    raise frame_error(kind, payload, "unknown_frame")
                self._sink.on_frame(kind, number, payload)
            except AmqpError as error:
                raise _CallFailed(number, position, error) from error
            if self.has_stopped():
                return end if self._is_discarding else position
        self._needed = FRAME_OVERHEAD
        return position

    def _too_large(self, kind: int, size: int) -> FrameError:
        self.discard()
        return frame_error(
            kind, b"", f"{{frame_too_large,{size},{self.frame_max - FRAME_OVERHEAD}}}"
        )

    def _bad_end(
        self, data: bytes, position: int, kind: int, size: int, frame_end: int
    ) -> FrameError:
        self.discard()
        start = position + _FRAME_HEAD_SIZE
        payload = data[start : start + size]
        return frame_error(kind, payload, f"{{invalid_frame_end_marker,{data[frame_end]}}}")


class _NoSink(FrameSink):
    """The sink of a decoder that is closed, which calls nothing any more."""

    __slots__ = ()

    def on_frame(self, kind: int, number: int, payload: bytes) -> None:
        raise AssertionError("a frame from a decoder that is closed")

    def on_error(self, number: int, error: AmqpError) -> bool:
        return False


_NO_SINK: Final = _NoSink()


class _CallFailed(Exception):
    """Carries an AmqpError out of the loop together with where to go on."""

    def __init__(self, number: int, position: int, error: AmqpError) -> None:
        super().__init__(number, position, error)
        self.number = number
        self.position = position
        self.error = error


def _size_of(method: bytes, contents: Sequence[bytes]) -> int:
    """Octets that publishes with this method frame and these contents take in the stream."""
    return sum([len(method) + len(content) for content in contents])


def frame_error(kind: int, payload: bytes, reason: str) -> FrameError:
    """A frame that is wrong in itself, whatever the connection expects."""
    error_class = FrameError if kind in _KNOWN_TYPES else UnknownFrameType
    return error_class(f"{frame_text(kind, payload)}: {reason}", class_id=0, method_id=0)


def frame_text(kind: int, payload: bytes) -> str:
    """``type 8, all octets = <<1,2>>``: how RabbitMQ names a frame in its reply texts."""
    which = "all" if len(payload) <= 16 else "first 16"
    snippet = payload[:16]
    if snippet.isascii() and snippet.decode("ascii").isprintable():
        text = snippet.decode("ascii").replace("\\", "\\\\").replace('"', '\\"')
        octets = f'"{text}"' if text else ""
    else:
        octets = ",".join(map(str, snippet))
    return f"type {kind}, {which} octets = <<{octets}>>"
