"""Recovering a journal that a test has built, and what it reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hareline.message import Message
from hareline.storage.interface import ContentStore
from hareline.storage.journal.damage import Decision
from hareline.storage.journal.files import Files
from hareline.storage.journal.segment import segment_path
from hareline.storage.recovery.queue_contents import KnownQueue
from hareline.storage.recovery.read_journal import JournalRecovery
from hareline.storage.recovery.reports import RecoveryListener, RecoveryProgress
from tests.support.journals import JournalBuilder, message_payload
from tests.support.messages import make_message

Q = 1
QUEUES = {Q: KnownQueue("queue 'q' in vhost '/'")}


class KeepingListener(RecoveryListener):
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.progress: list[tuple[int, int]] = []
        self.damage: list[tuple[str, str]] = []
        self.impossible: list[tuple[str, str, str]] = []

    def on_progress(self, done: int, all_work: int) -> None:
        self.progress.append((done, all_work))

    def on_damage(self, problem: str, action: str) -> None:
        self.damage.append((problem, action))

    def on_impossible(self, vhost: str, what: str, problem: str) -> None:
        self.impossible.append((vhost, what, problem))


class DictContentStore(ContentStore):
    """Messages by position."""

    def __init__(self) -> None:
        self.messages: dict[int, Message] = {}

    def read(self, position: int) -> Message:
        return self.messages[position]

    def read_run(self, positions: Sequence[int]) -> list[Message]:
        return [self.messages[position] for position in positions]

    def content(self, position: int) -> bytes:
        return self.messages[position].content

    def spool(self, message: Message) -> int:
        raise AssertionError("nothing is spooled while recovering")

    def drop_spooled(self, positions: Iterable[int]) -> None:
        raise AssertionError("nothing was spooled")


def make_recovery(
    directory: str,
    listener: KeepingListener,
    policy: Decision = Decision.FAIL,
    queues: Mapping[int, KnownQueue] = QUEUES,
    newest: int = 0,
) -> JournalRecovery:
    progress = RecoveryProgress(listener.on_progress)
    return JournalRecovery(Files(), directory, queues, policy, listener, progress, newest)


def recovered(
    journal: JournalBuilder,
    listener: KeepingListener,
    policy: Decision = Decision.FAIL,
    newest: int = 0,
) -> JournalRecovery:
    recovery = make_recovery(journal.directory, listener, policy, newest=newest)
    for _ in recovery.read():
        pass
    return recovery


def messages(first: int, behind: int) -> list[tuple[int, bytes]]:
    return [message_payload(make_message(b"x" * 50), (Q, each)) for each in range(first, behind)]


def damage(journal: JournalBuilder, offset: int) -> None:
    damage_at(Path(segment_path(journal.directory, journal.segment.number)), offset)


def damage_at(path: Path, offset: int) -> None:
    octets = bytearray(path.read_bytes())
    octets[offset] ^= 0xFF
    path.write_bytes(octets)
