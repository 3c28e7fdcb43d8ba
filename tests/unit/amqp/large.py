"""A stepped broker that puts bodies above 64 KiB into files, for the tests of large messages."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hareline.amqp.context import Limits
from hareline.storage.interface import MessageStore
from hareline.storage.journal.files import Files
from hareline.storage.store.large_bodies import LargeBodies

from .peer import Peer, Received, SteppedBroker, WireFrame, read_frames, split_frames

LARGE_BYTES: Final = 65_536
BODY: Final = bytes(range(251)) * 3000  # 753,000 octets: three pieces


class LargeBroker(SteppedBroker):
    """``directory`` is where the bodies are."""

    def __init__(
        self,
        directory: Path,
        *,
        files: Files | None = None,
        limits: Limits | None = None,
        store: MessageStore | None = None,
    ) -> None:
        super().__init__(limits or Limits(large_message_bytes=LARGE_BYTES), store=store)
        self.directory = directory
        self.context.large_bodies = LargeBodies(
            files or Files(), str(directory), now_ms=self.clock.now_ms
        )

    @property
    def file_count(self) -> int:
        return len(list(self.directory.iterdir()))

    def run_turn(self) -> None:
        """One turn alone."""
        self.scheduled.pop(0)()


def frames_of(peer: Peer) -> list[WireFrame]:
    """What was written since the last look, as frames; no turn is finished for it."""
    octets, peer.transport.written = peer.transport.written, b""
    return split_frames(octets)


def on_channel(frames: list[WireFrame], number: int) -> list[Received]:
    """What came on one channel, put together; frames of others may stand in between."""
    return read_frames([each for each in frames if each.channel == number])


def named(received: list[Received]) -> list[str]:
    return [each.name for each in received]
