"""A journal writer whose works are run by hand, on files in memory."""

from __future__ import annotations

from hareline.storage.journal.format.frame import CLEAN, encode_record
from hareline.storage.journal.format.records import CLEAN_TIME
from hareline.storage.journal.upkeep import Retention, prepare
from hareline.storage.journal.writer import JournalWriter, Sync, Write
from tests.crash.forgetful_files import ForgetfulFiles
from tests.support.segments import Listener, read_all

DIRECTORY = "/data/journal"
NOW_MS = 1_700_000_000_000
RECORD_BYTES = 9 + CLEAN_TIME.size


class WriterStand:
    """A writer whose works are run by hand."""

    def __init__(self, sync: Sync = "always", segment_bytes: int = 4096) -> None:
        self.files = ForgetfulFiles()
        self.writer = JournalWriter(self.files, DIRECTORY, segment_bytes, sync)
        self.retention = Retention(self.files, DIRECTORY, 0, 0)
        self.live: list[tuple[int, int]] = []
        self.written: list[Write] = []
        self.tickets = 0
        self.prepare()

    def prepare(self) -> None:
        assert not prepare(self.writer, self.retention)

    def make(self, records: int = 1, first_octets: int = 0) -> Write:
        """A batch of records of 17 octets."""
        writer = self.writer
        ends = dict(self.live)
        if writer.number:
            ends[writer.number] = writer.end
        live = sorted(ends.items())
        if writer.make_room(records * RECORD_BYTES, first_octets, live, NOW_MS):
            self.live = live
        parts: list[bytes] = []
        for _ in range(records):
            parts += encode_record(CLEAN, (CLEAN_TIME.pack(NOW_MS),), writer.seed)
        self.tickets += 1
        octets = records * RECORD_BYTES
        return writer.write_of(
            parts, octets, records, self.tickets, NOW_MS, self.written.append, []
        )

    def write(self, records: int = 1) -> Write:
        work = self.make(records)
        work.run()
        work.finished()
        return work

    def batches(self) -> list[int]:
        """How many records each batch has that can be read."""
        found, _, _ = read_all(self.files, Listener(), directory=DIRECTORY)
        return [len(batch.records) for batch in found]
