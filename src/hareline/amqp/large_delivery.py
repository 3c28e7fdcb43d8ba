"""Contents that go out in pieces: the large messages, whose bodies are in files.

The frames of a content may not be mixed with others of the same channel (AMQP 0-9-1, 2.3.5.2), so
while a large one goes out, all that its channel has to say waits behind it, in order, in the
channel's ``Outbox``. Other channels of the connection go on. ``amqp.output`` asks the outboxes
for a piece each at the end of a turn, as long as its socket has room; consumers of such a channel
count as full meanwhile.

Invariant: of each large content no more than one piece is in memory, apart from what the socket has
not taken yet; frames of a channel leave in the order in which they were written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from hareline.message import BodyReader, Message
from hareline.wire.constants import FRAME_OVERHEAD
from hareline.wire.encoder import body_frames, header_parts

#: Of one content at a time: enough that a turn's fixed cost (some 30 us) counts for nothing, and
#: little enough that a thousand slow clients are a few hundred megabytes in their sockets' buffers.
PIECE_BYTES: Final = 262_144

#: With more of this in an outbox its connection is not listened to, so that a client which asks and
#: never reads costs no more than this, and the disk space of so many messages.
WAITING_MAX_CONTENTS: Final = 16
WAITING_MAX_BYTES: Final = 1_048_576


class _Content:
    """A method frame and the content that belongs to it. ``is_begun``: the client has seen it."""

    __slots__ = ("_body", "_head", "_left_bytes", "_payload_max", "_reader", "is_begun")

    def __init__(
        self, head: tuple[bytes, ...], message: Message, number: int, frame_max: int
    ) -> None:
        assert message.large is not None, message
        self._head = (*head, *header_parts(message, number))
        self._body = message.large
        self._payload_max = min(frame_max - FRAME_OVERHEAD, PIECE_BYTES)
        self._left_bytes = message.size
        self._reader: BodyReader | None = None
        self.is_begun = False

    @property
    def is_done(self) -> bool:
        return self._left_bytes == 0

    def write_piece(self, number: int, output: list[bytes]) -> int:
        """Add the next piece of the body to ``output``; returns its octets. Raises StoreError."""
        if self._reader is None:
            self._reader = self._body.open()
        payload_max = self._payload_max
        octets = self._reader.read(PIECE_BYTES // payload_max * payload_max)
        if not self.is_begun:
            self.is_begun = True
            output += self._head
        output += body_frames(octets, number, payload_max)
        self._left_bytes -= len(octets)
        return len(octets)


class Outbox:
    """What one channel writes while a large content goes out. ``tail`` takes frames behind it.

    ``waiters`` are called once, when the channel is free again.
    """

    __slots__ = (
        "_contents",
        "_frame_max",
        "_items",
        "_number",
        "_waiting_bytes",
        "tail",
        "waiters",
    )

    def __init__(self, number: int, frame_max: int) -> None:
        self._number = number
        self._frame_max = frame_max
        self._items: deque[_Content | list[bytes]] = deque()  # a content, frames, a content ...
        self._contents = 0
        self._waiting_bytes = 0  # of the frames that ``add`` brought, or less
        self.tail: list[bytes] = []
        self.waiters: list[Callable[[], None]] = []

    def begin(self, head: tuple[bytes, ...], message: Message) -> list[bytes]:
        """A method frame and a large content; returns the new ``tail``."""
        self._items.append(_Content(head, message, self._number, self._frame_max))
        self._contents += 1
        self.tail = []
        self._items.append(self.tail)
        return self.tail

    def add(self, parts: tuple[bytes, ...]) -> None:
        """Whole frames, of which there may be many."""
        self.tail += parts
        self._waiting_bytes += sum(map(len, parts))

    @property
    def is_long(self) -> bool:
        """Whether the client should have no say until it has read some of this."""
        return self._contents > WAITING_MAX_CONTENTS or self._waiting_bytes > WAITING_MAX_BYTES

    @property
    def is_empty(self) -> bool:
        return not self._items

    def write_piece(self, output: list[bytes]) -> int:
        """Move what comes next to ``output``: a piece of a content, and what follows its end.

        Returns the octets of the piece. Raises StoreError if the body cannot be read; the content
        then stays as it is, and the channel with it.
        """
        items = self._items
        size = 0
        if items and isinstance(items[0], _Content):
            size = items[0].write_piece(self._number, output)
            if not items[0].is_done:
                return size
            items.popleft()
            self._contents -= 1
        while items:
            frames = items[0]
            if isinstance(frames, _Content):
                break
            output += frames
            self._waiting_bytes = max(0, self._waiting_bytes - sum(map(len, frames)))
            items.popleft()
        return size

    def drop_contents(self) -> None:
        """The channel ends: contents that the client has seen nothing of are not sent."""
        frames = [item for item in self._items if isinstance(item, list) or item.is_begun]
        self._items = deque(frames)
        self._contents = len([item for item in frames if isinstance(item, _Content)])
