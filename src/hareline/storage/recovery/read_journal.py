"""One pass over the journal at the start, before a client may connect.

Nothing that was durable is dropped unless the operator said so (``journal.on_corruption``), and
then the listener is told exactly what.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing

from hareline.errors import StoreError
from hareline.storage.journal.damage import Decision, JournalDamaged, Reporter
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.positions import number_of_name
from hareline.storage.journal.loss import LossSurvey
from hareline.storage.journal.reader import JournalReader
from hareline.storage.journal.upkeep import RETAINED_FOLDER
from hareline.storage.recovery.live_entries import LiveEntryScan
from hareline.storage.recovery.queue_contents import KnownQueue, QueueContents
from hareline.storage.recovery.reports import RecoveryListener, RecoveryProgress, RecoveryReports
from hareline.storage.store.state import RecoveredSegment, RecoveredState


class JournalRecovery:
    """One pass over a journal. ``state`` and ``contents`` are there when ``read`` is through.

    ``queues``: all there are, by id. ``contents``: live entries by queue id, taken out as they are
    put into the queue. ``newest``: see ``JournalReader``.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        queues: Mapping[int, KnownQueue],
        policy: Decision,
        listener: RecoveryListener,
        progress: RecoveryProgress,
        newest: int = 0,
    ) -> None:
        self.state = RecoveredState()
        self.contents: dict[int, QueueContents] = {}
        self._files = files
        self._directory = directory
        self._queues = queues
        self._newest = newest
        self._scan = LiveEntryScan(queues)
        self._reports = RecoveryReports(policy, queues, self._scan, listener, progress)

    def read(self) -> Generator[None, None, None]:
        """Read it; yields after each large piece.

        At the end the files are as ``state`` has it, and durable: freed ones and what a torn tail
        left over are gone, and the last segment ends where its last batch does. Raises OSError and
        StoreError, and then nothing has changed.
        """
        self._files.make_directory(self._directory)
        names = self._names()
        scan, reports = self._scan, self._reports
        try:
            with closing(self._reader(reports)) as reader:
                numbers = [source.number for source in reader.live]
                for batch in reader.batches():
                    if batch.gaps:
                        scan.on_left_out()
                    scan.take(batch)
                    if reports.has_progressed:
                        reports.has_progressed = False
                        yield
                yield from self._report_damages()
                self._tidy(reader)
                self._fill_state(reader, scan)
        except JournalDamaged as error:
            yield from self._report_damages()
            raise StoreError(
                f"{error}; {reports.loss_by(error.damage)}. To start without that, set "
                'journal.on_corruption to "skip" or "truncate"'
            ) from error
        self.state.next_segment = max([0, *names, *numbers]) + 1

    def _reader(self, reporter: Reporter) -> JournalReader:
        return JournalReader(self._files, self._directory, reporter, newest=self._newest)

    def _report_damages(self) -> Iterator[None]:
        """Report all damage; if some does not show what it held, another pass finds a bound."""
        reports = self._reports
        if not all(damage.is_exhaustive for damage in reports.damages):
            survey = LossSurvey(self._queues)
            with closing(self._reader(survey)) as reader:
                survey.segments = [source.number for source in reader.live]
                for batch in reader.batches():
                    survey.take(batch)
                    if survey.has_progressed:
                        survey.has_progressed = False
                        yield
            reports.losses = survey.losses()
        reports.report_damages()

    def _names(self) -> list[int]:
        """Return the numbers of all segments that have files, retained ones too."""
        files, directory = self._files, self._directory
        names = files.list(directory)
        if RETAINED_FOLDER in names:
            names += files.list(f"{directory}/{RETAINED_FOLDER}")
        return [number for name in names if (number := number_of_name(name)) is not None]

    def _fill_state(self, reader: JournalReader, scan: LiveEntryScan) -> None:
        """Put together ``state`` and ``contents``."""
        state = self.state
        for source in reader.live:
            assert source.segment is not None, source
            state.segments.append(
                RecoveredSegment(
                    source.number,
                    source.end,
                    source.size_bytes,
                    scan.totals.get(source.number, 0),
                    source.segment.header.created_ms,
                )
            )
        found = scan.finish()
        state.queues = found.queues
        state.settled = found.settled
        state.producers = scan.producers
        state.interrupted = sorted(found.interrupted)
        self.contents = found.contents
        self._reports.on_all_read(found.contents)

    def _tidy(self, reader: JournalReader) -> None:
        """Sync what was read before any file goes, and cut or remove what does not belong."""
        files = self._files
        for source in reader.live:
            fd = files.open(source.path, create=False)
            try:
                if source is reader.live[-1] and source.size_bytes > source.end:
                    if self._reports.has_truncated:
                        self.state.leftovers.append((source.path, source.end))
                    else:
                        files.truncate(fd, source.end)
                    source.size_bytes = source.end
                files.sync(fd)
            finally:
                files.close(fd)
        self.state.is_durable = True
        if self._reports.has_truncated:
            self.state.leftovers += [(path, 0) for path in reader.strays]
            return
        for path in reader.strays:
            files.unlink(path)
