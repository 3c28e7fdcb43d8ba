"""Publisher confirms of one channel: those of a turn share a frame, in the order of the publishes.

Publishes that the store keeps are confirmed when their ticket is durable, and later ones wait for
them, since "multiple" covers all before. Those that a queue refused get basic.nack in their place,
and so do those that waited when the store failed. No frame covers a publish that another answers.
                                                                                             [hot]
"""

from __future__ import annotations

from collections import deque

from hareline.amqp.output import Output
from hareline.amqp.ports import LateFrames
from hareline.storage.interface import MessageStore
from hareline.wire.encoder import ack_frame, nack_frame


class Confirms(LateFrames):
    """``ticket`` is that of the last publish that the store keeps; set by the publish lane.

    ``nacked_count``: publishes that were answered by basic.nack.
    """

    __slots__ = (
        "_output",
        "_refused",
        "_released",
        "_store",
        "_waiting",
        "channel_number",
        "is_marked",
        "nacked_count",
        "sequence",
        "ticket",
    )

    def __init__(self, output: Output, channel_number: int, store: MessageStore) -> None:
        self._output = output
        self.channel_number = channel_number
        self.sequence = 0
        self._released = 0
        self._refused: list[int] = []  # numbers above ``_released``, in order
        self.is_marked = False
        self._store = store
        self.ticket = 0
        # (last publish of a turn, ticket it waits for), both growing
        self._waiting: deque[tuple[int, int]] = deque()
        self.nacked_count = 0

    @property
    def confirmed_count(self) -> int:
        """Publishes that were answered by basic.ack."""
        return self._released - self.nacked_count

    @property
    def unconfirmed_count(self) -> int:
        """Publishes that no frame has answered yet."""
        return self.sequence - self._released

    def mark(self) -> None:
        """There is something to release at the end of this turn."""
        self.is_marked = True
        self._output.add_late(self)

    def refuse(self) -> None:
        """The publish that was counted last is not taken by all its queues."""
        self._refused.append(self.sequence)

    def refuse_next(self) -> None:
        """The publish that is about to be counted is refused."""
        self._refused.append(self.sequence + 1)

    def release(self) -> bytes:
        """The frames that confirm what can be confirmed now; only while ``is_marked``."""
        self.is_marked = False
        last = self.sequence
        if self._waiting or self.ticket > self._store.durable_ticket:
            last = self._last_durable()
        frames = self._frames_with_nacks(last) if self._refused else b""
        count = last - self._released
        self._released = last
        return frames + ack_frame(self.channel_number, last, count > 1) if count else frames

    def _last_durable(self) -> int:
        """Last publish up to which all is durable; the rest waits, or has failed."""
        waiting, store = self._waiting, self._store
        durable_ticket = store.durable_ticket
        last = waiting[-1][0] if waiting else self._released
        if last < self.sequence:
            if waiting and waiting[-1][1] == self.ticket:
                waiting[-1] = (self.sequence, self.ticket)
            else:
                waiting.append((self.sequence, self.ticket))
                if self.ticket > durable_ticket and not store.failure:
                    store.when_durable(self.ticket, self._on_durable)
        last = self._released
        while waiting and waiting[0][1] <= durable_ticket:
            last = waiting.popleft()[0]
        if waiting and store.failure:
            waiting.clear()
            self.ticket = 0  # what comes now is refused, or not for the store
            lost = range(last + 1, self.sequence + 1)
            self._refused = sorted({*self._refused, *lost})
            last = self.sequence
        return last

    def _on_durable(self) -> None:
        if self._waiting and not self.is_marked:
            self.mark()

    def stop(self) -> None:
        self._waiting.clear()

    def _frames_with_nacks(self, last: int) -> bytes:
        """Everything up to the last refused publish, and ``last`` at most; a run of refused ones
        shares one nack."""
        if self._refused[-1] <= last:
            refused, self._refused = self._refused, []
        else:
            refused = [number for number in self._refused if number <= last]
            self._refused = self._refused[len(refused) :]
        self.nacked_count += len(refused)
        frames: list[bytes] = []
        released = self._released
        for index, number in enumerate(refused):
            if number - 1 > released and (index == 0 or refused[index - 1] < number - 1):
                frames.append(ack_frame(self.channel_number, number - 1, number - 1 - released > 1))
                released = number - 1
            if index + 1 == len(refused) or refused[index + 1] > number + 1:
                frames.append(nack_frame(self.channel_number, number, number - released > 1))
                released = number
        self._released = released
        return b"".join(frames)
