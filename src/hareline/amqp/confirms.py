"""Publisher confirms of one channel.

``sequence`` counts publishes since confirm.select, by the publish lane. At the end of a turn the
connection asks for ``release``, and everything published since the last release is confirmed by one
frame: all routing and enqueueing has happened by then, and basic.return frames of these publishes
are already in the output, in front of the ack as RabbitMQ orders them.

Publishes that a queue refused are confirmed by basic.nack, in their place among the others.
Invariant: a frame never covers a publish that another one answers; frames go out in the order of
the publishes, so that "multiple" reaches back to the frame before and no further.          [hot]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hareline.wire.encoder import ack_frame, nack_frame

if TYPE_CHECKING:
    from hareline.amqp.connection import Connection


class Confirms:
    __slots__ = (
        "_channel_number",
        "_connection",
        "_refused",
        "_released",
        "is_marked",
        "sequence",
    )

    def __init__(self, connection: Connection, channel_number: int) -> None:
        self._connection = connection
        self._channel_number = channel_number
        self.sequence = 0
        self._released = 0
        self._refused: list[int] = []  # numbers above ``_released``, in order
        self.is_marked = False

    def mark(self) -> None:
        """There is something to release at the end of this turn."""
        self.is_marked = True
        self._connection.mark_confirms(self)

    def refuse(self) -> None:
        """The publish that was counted last is not taken by all its queues."""
        self._refused.append(self.sequence)

    def release(self) -> bytes:
        """The frames that confirm what is not confirmed yet; only while ``is_marked``."""
        self.is_marked = False
        last = self.sequence
        frames = self._frames_with_nacks() if self._refused else b""
        count = last - self._released
        self._released = last
        return frames + ack_frame(self._channel_number, last, count > 1) if count else frames

    def _frames_with_nacks(self) -> bytes:
        """Everything up to the last refused publish; a run of refused ones shares one nack."""
        refused, self._refused = self._refused, []
        frames: list[bytes] = []
        released = self._released
        for index, number in enumerate(refused):
            if number - 1 > released and (index == 0 or refused[index - 1] < number - 1):
                frames.append(
                    ack_frame(self._channel_number, number - 1, number - 1 - released > 1)
                )
                released = number - 1
            if index + 1 == len(refused) or refused[index + 1] > number + 1:
                frames.append(nack_frame(self._channel_number, number, number - released > 1))
                released = number
        self._released = released
        return b"".join(frames)
