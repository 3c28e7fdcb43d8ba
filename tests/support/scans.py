"""Scanning a journal that a test has built for its live entries."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from hareline.queues.orders.priority import rabbitmq_level_reader
from hareline.storage.journal.damage import Damage, Decision, Reporter
from hareline.storage.journal.files import Files
from hareline.storage.journal.reader import JournalReader
from hareline.storage.recovery.assembly import LiveEntries
from hareline.storage.recovery.live_entries import LiveEntryScan
from hareline.storage.recovery.queue_contents import KnownQueue
from tests.support.journals import JournalBuilder, message_payload
from tests.support.messages import make_message

MESSAGE_OF_3 = make_message(b"abc")
Q = 1
P = 2
DELETED = 3
QUEUES = {Q: KnownQueue("q"), P: KnownQueue("p")}
WITH_LEVELS = {Q: KnownQueue("q", rabbitmq_level_reader(4)), P: KnownQueue("p")}


class NoDamage(Reporter):
    """For a journal in which nothing is damaged."""

    def on_damage(self, damage: Damage) -> Decision:
        raise AssertionError(damage)


def scanned(
    journal: JournalBuilder, queues: Mapping[int, KnownQueue] = QUEUES
) -> tuple[LiveEntries, LiveEntryScan]:
    scan = read_by(LiveEntryScan(queues), journal)
    return scan.finish(), scan


def read_by(scan: LiveEntryScan, journal: JournalBuilder) -> LiveEntryScan:
    with closing(JournalReader(Files(), journal.directory, NoDamage())) as reader:
        for batch in reader.batches():
            scan.take(batch)
    return scan


def entry(
    queue_id: int, offset: int, count: int = 0, marks: int = 0, *, flags: int = 0
) -> tuple[int, bytes]:
    return message_payload(MESSAGE_OF_3, (queue_id, offset, count, marks), flags=flags)


def runs(found: LiveEntries) -> dict[int, dict[int, list[int]]]:
    return {
        segment: {place: list(triples) for place, triples in places.items()}
        for segment, places in found.settled.items()
    }
