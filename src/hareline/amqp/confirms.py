"""Publisher confirms of one channel.

``sequence`` counts publishes since confirm.select, by the publish lane. At the end of a turn the
connection asks for ``release``, and everything published since the last release is confirmed by one
frame: all routing and enqueueing has happened by then, and basic.return frames of these publishes
are already in the output, in front of the ack as RabbitMQ orders them.                     [hot]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hareline.wire.encoder import ack_frame

if TYPE_CHECKING:
    from hareline.amqp.connection import Connection


class Confirms:
    __slots__ = ("_channel_number", "_connection", "_released", "is_marked", "sequence")

    def __init__(self, connection: Connection, channel_number: int) -> None:
        self._connection = connection
        self._channel_number = channel_number
        self.sequence = 0
        self._released = 0
        self.is_marked = False

    def mark(self) -> None:
        """There is something to release at the end of this turn."""
        self.is_marked = True
        self._connection.mark_confirms(self)

    def release(self) -> bytes:
        """The frame that confirms what is not confirmed yet; only while ``is_marked``."""
        self.is_marked = False
        count = self.sequence - self._released
        self._released = self.sequence
        return ack_frame(self._channel_number, self.sequence, count > 1)
