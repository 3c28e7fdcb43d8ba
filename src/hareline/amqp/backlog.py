"""Frames of a channel that came behind a tx.commit which is not answered yet.

Methods of a channel are handled in order (AMQP 0-9-1, 4.7), so their replies come in order too; but
commit-ok has to wait for the disk. What a channel receives behind a commit is kept as it came, and
handled when the commit is answered: ``amqp.connection`` does that at the end of a turn, for a share
of time. Deliveries go on meanwhile, and so do the other channels.

Invariant: a channel with a backlog has no lanes in the decoder, so nothing overtakes what is kept.
"""

from __future__ import annotations

from collections import deque
from typing import Final

#: With more of this kept for all its channels a connection is not listened to, so that a client
#: which sends on behind a commit costs no more.
BACKLOG_MAX_BYTES: Final = 1_048_576
#: What keeping a frame takes beside its payload.
FRAME_COST_BYTES: Final = 128


class Backlog:
    """``is_waiting``: the commit in front of the frames is not answered yet."""

    __slots__ = ("_frames", "is_waiting")

    def __init__(self) -> None:
        self._frames: deque[tuple[int, bytes]] = deque()
        self.is_waiting = True

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
