"""Frames that a channel receives behind a method which is not answered yet.

Methods of a channel are handled in order (AMQP 0-9-1, 4.7), so frames behind a commit that waits
for the disk, or behind a right that has to be asked for, are kept; deliveries and other channels go
on. A channel with a backlog has no lanes in the decoder, so nothing overtakes the kept frames.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from hareline.amqp import input_gate
from hareline.amqp.input_gate import ALARM, SHARE, InputGate
from hareline.amqp.output import Output
from hareline.amqp.ports import ConnectionPort
from hareline.clock import Clock
from hareline.errors import AmqpError

#: With more of this kept for all its channels a connection is not read from, so that a client which
#: sends on behind a commit costs no more.
BACKLOG_MAX_BYTES: Final = 1_048_576
#: What keeping a frame takes beside its payload.
FRAME_COST_BYTES: Final = 128
BACKLOG_SHARE_S: Final = 0.003  # of a turn, for what came behind a commit that is answered now


class Backlog:
    """The frames of one channel. ``is_waiting``: what is in front of them is not answered yet.

    ``unfinished``: what is to be done again before them, or None.
    """

    __slots__ = ("_frames", "is_waiting", "unfinished")

    def __init__(self) -> None:
        self._frames: deque[tuple[int, bytes]] = deque()
        self.is_waiting = True
        self.unfinished: Callable[[], None] | None = None

    def add(self, kind: int, payload: bytes) -> int:
        """Keep a frame; returns the octets that it takes."""
        self._frames.append((kind, payload))
        return len(payload) + FRAME_COST_BYTES

    def take(self) -> tuple[int, bytes, int]:
        """Kind and payload of the frame that is next, and the octets that it took."""
        kind, payload = self._frames.popleft()
        return kind, payload, len(payload) + FRAME_COST_BYTES

    def __len__(self) -> int:
        return len(self._frames)


class Backlogs:
    """The backlogs of a connection; ``by_channel`` has hardly ever any."""

    __slots__ = (
        "_bytes",
        "_clock",
        "_connection",
        "_gate",
        "_is_over",
        "_output",
        "by_channel",
    )

    def __init__(
        self, gate: InputGate, output: Output, clock: Clock, connection: ConnectionPort
    ) -> None:
        self._gate = gate
        self._output = output
        self._clock = clock
        self._connection: ConnectionPort | None = connection  # until ``close``
        self.by_channel: dict[int, Backlog] = {}
        self._bytes = 0  # of all of them
        self._is_over = False

    @property
    def is_long(self) -> bool:
        """True if so much is kept that no more is to be read."""
        return self._bytes > BACKLOG_MAX_BYTES

    def hold(self, number: int) -> None:
        """Keep what this channel receives from now on, until ``release``."""
        self._gate.close_lanes(number)
        self.by_channel.setdefault(number, Backlog()).is_waiting = True

    def hold_for(self, number: int, unfinished: Callable[[], None]) -> None:
        """``hold``, and begin with ``unfinished`` at the ``release``."""
        self.hold(number)
        self.by_channel[number].unfinished = unfinished

    def release(self, number: int) -> None:
        """Handle what was kept for this channel, at the end of the turn."""
        backlog = self.by_channel.get(number)
        if backlog is not None:
            backlog.is_waiting = False
            self._mark()

    def _mark(self) -> None:
        if not self._output.is_marked:
            self._output.mark()

    def keep(self, number: int, kind: int, payload: bytes) -> bool:
        """Keep this frame if its channel has a backlog; False if it is to be handled now."""
        backlog = self.by_channel.get(number)
        if backlog is None:
            return False
        self._bytes += backlog.add(kind, payload)
        if self.is_long:
            self._gate.hold(input_gate.BACKLOG)
        return True

    def handle(self) -> bool:
        """Go on with the channels whose commit is answered, for a share of this turn.

        True if something was handled, and the connection still runs.
        """
        gate = self._gate
        if gate.reasons & (ALARM | SHARE):
            return False
        if gate.is_turn_full:  # others have had theirs in this turn
            if any(not each.is_waiting for each in self.by_channel.values()):
                self._mark()
            return False
        until_s = self._clock.running_s() + BACKLOG_SHARE_S
        gate.begin_share()
        has_begun = False
        for number, backlog in list(self.by_channel.items()):
            if backlog.is_waiting:
                continue
            if has_begun and self._must_stop(until_s):
                break
            has_begun = True
            if not self._handle_one(number, backlog, until_s):
                return False
        return has_begun

    def _handle_one(self, number: int, backlog: Backlog, until_s: float) -> bool:
        """Handle one channel's frames; False if the connection has come to its end by it."""
        connection = self._connection
        if connection is None:
            return False
        del self.by_channel[number]  # so that its frames are handled, and not kept
        while backlog or backlog.unfinished is not None:
            unfinished, backlog.unfinished = backlog.unfinished, None
            try:
                if unfinished is not None:
                    unfinished()
                else:
                    kind, payload, size = backlog.take()
                    self._bytes -= size
                    connection.on_frame(kind, number, payload)
            except AmqpError as error:
                if not connection.on_error(number, error):
                    return False
            if self._is_over:
                return False
            again = self.by_channel.get(number)
            if again is not None:  # another one that waits: the rest waits for it
                backlog.is_waiting, backlog.unfinished = again.is_waiting, again.unfinished
                self.by_channel[number] = backlog
                return True
            if self._has_unread_output or self._must_stop(until_s):
                self._gate.close_lanes(number)
                self.by_channel[number] = backlog
                return True
        connection.reopen_lanes(number)
        return True

    def _must_stop(self, until_s: float) -> bool:
        return bool(self._gate.reasons & (ALARM | SHARE)) or self._clock.running_s() >= until_s

    @property
    def _has_unread_output(self) -> bool:
        """True if the client has to read some of what it asked for before it gets more."""
        return self._output.is_full or self._output.has_long_outbox

    def clear(self) -> None:
        """Drop what is kept: all channels have ended."""
        self._is_over = True
        self.by_channel.clear()
        self._bytes = 0

    def close(self) -> None:
        self._connection = None
