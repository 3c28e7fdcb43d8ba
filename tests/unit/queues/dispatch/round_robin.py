"""Round robin as it is defined: one entry at a time to the next consumer that can take one.

The dispatcher hands over in batches, which must come to exactly the same; this is what the tests
hold it against.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from hareline.queues.core.credit import UNLIMITED, CreditWindow


class Receiver:
    """What a `RecordingConsumer` would be given; made with the same limits."""

    def __init__(
        self,
        *,
        credit: int = UNLIMITED,
        room: int = UNLIMITED,
        priority: int = 0,
        windows: Iterable[CreditWindow] = (),
    ) -> None:
        self.credit = credit
        self.room = room
        self.priority = priority
        self.windows = tuple(windows)
        self.bodies: list[bytes] = []


def deal_out(receivers: list[Receiver], entries: list[tuple[bytes, int]]) -> list[bytes]:
    """Give the entries (body, octets of content) to the receivers; returns what nobody takes."""
    waiting = deque(entries)
    for priority in sorted({receiver.priority for receiver in receivers}, reverse=True):
        ring = deque(one for one in receivers if one.priority == priority and one.credit > 0)
        while ring and waiting:
            receiver = ring.popleft()
            body, octets = waiting[0]
            windows = receiver.windows
            if receiver.room < 0 or not all(window.admits(len(body)) for window in windows):
                continue
            waiting.popleft()
            receiver.bodies.append(body)
            receiver.room -= octets
            receiver.credit -= 1
            for window in windows:
                window.count(len(body))
            if receiver.credit:
                ring.append(receiver)
    return [body for body, _ in waiting]
