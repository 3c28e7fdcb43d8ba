"""What is on the disk becomes the model again, before anybody may connect.

Called by ``server`` at the start, in this order: ``JournalRecovery.read`` is one pass over the
journal and gives the ``RecoveredState`` that the durable store goes on with; then, for each virtual
host, ``VhostRecovery`` makes exchanges, queues and bindings of the definitions and puts the
messages into the queues. Both are generators that yield now and then, so that the caller can look
at its signals; between two steps nobody else touches the queues.

Invariant: nothing is thrown away here that was durable, unless the operator said so
(``journal.on_corruption``), and then the listener is told exactly what.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from hareline.broker.queues.declare.arguments import parse_queue_arguments
from hareline.broker.queues.declare.build import level_reader, make_order
from hareline.broker.queues.orders.fifo import FifoOrder
from hareline.broker.queues.orders.priority import PriorityOrder
from hareline.broker.queues.queue import Queue
from hareline.broker.queues.restoring import (
    end_paged,
    has_levels,
    restore_entries,
    restore_paged,
    takes_pages,
)
from hareline.broker.vhost import VirtualHost
from hareline.errors import AmqpError, StoreError
from hareline.message import Message
from hareline.storage.definitions.sqlite import QueueDefinition, SqliteDefinitions
from hareline.storage.interface import ContentStore
from hareline.storage.journal.damage import Damage, Decision, JournalDamaged, Reporter
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import SETTLE
from hareline.storage.journal.format.positions import number_of_name
from hareline.storage.journal.loss import Loss, LossSurvey, QueueLoss
from hareline.storage.journal.reader import JournalReader
from hareline.storage.recovery.live_entries import (
    EXPIRES,
    LEVEL_SHIFT,
    SIZE_MASK,
    KnownQueue,
    LiveEntryScan,
    QueueContents,
)
from hareline.storage.recovery.progress import RecoveryProgress
from hareline.storage.recovery.state import RecoveredSegment, RecoveredState

RETAINED_DIRECTORY: Final = "retained"
MESSAGES_PER_READ: Final = 512
ENTRIES_PER_STEP: Final = 16_384  # of a queue that takes pages: enough for full ones of each level
DEFINITIONS_PER_REPORT: Final = 256
_ACTIONS: Final = {
    Decision.FAIL: "the broker does not start",
    Decision.SKIP: "left out",
    Decision.TRUNCATE: "the journal is cut there",
}


class RecoveryListener(ABC):
    """Who is told how it goes."""

    __slots__ = ()

    @abstractmethod
    def on_progress(self, done: int, all_work: int) -> None:
        """So much of the recovery is done, and all there is, as ``RecoveryProgress`` counts."""

    @abstractmethod
    def on_damage(self, problem: str, action: str) -> None:
        """What is damaged: file, offset, octets and messages, as far as known; and what is done."""

    @abstractmethod
    def on_impossible(self, vhost: str, what: str, problem: str) -> None:
        """A binding that cannot be made any more; it stays in the definitions."""


def known_queues(definitions: SqliteDefinitions) -> dict[int, KnownQueue]:
    """Every queue there is, in virtual hosts that are not served too."""
    return {
        queue.queue_id: _known(queue, vhost)
        for vhost in definitions.vhosts()
        for queue in definitions.queues(vhost)
    }


def _known(queue: QueueDefinition, vhost: str) -> KnownQueue:
    name = f"queue '{queue.name}' in vhost '{vhost}'"
    if not queue.arguments:
        return KnownQueue(name)
    try:
        arguments = parse_queue_arguments(queue.arguments, queue=queue.name, vhost=vhost)
    except AmqpError:
        return KnownQueue(name)  # whoever makes the queue will say what is wrong
    is_loaded = (
        type(make_order(arguments)) not in (FifoOrder, PriorityOrder)
        or arguments.message_ttl_ms is not None
        or arguments.message_group_type is not None
        or bool(arguments.hold_on_publish)
    )
    return KnownQueue(name, level_reader(arguments), is_loaded)


class JournalRecovery:
    """One pass over a journal. ``state`` and ``contents`` are there when ``read`` is through.

    ``queues``: each there is, by its id. ``contents``: live entries by queue id; whoever puts them
    into the queue takes them out. ``newest``: see ``JournalReader``.
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
        self._reports = _Reports(policy, queues, self._scan, listener, progress)

    def read(self) -> Generator[None, None, None]:
        """Yields after each large piece. Raises OSError and StoreError; nothing has changed then.

        At the end the files are as ``state`` has it, and on the disk: freed ones and what a torn
        tail left over are gone, and the last segment ends where its last batch does.
        """
        self._files.make_directory(self._directory)
        names = self._names()
        scan, reports = self._scan, self._reports
        reader = JournalReader(self._files, self._directory, reports, newest=self._newest)
        try:
            numbers = [source.number for source in reader.live]
            for batch in reader.batches():
                if batch.gaps:
                    scan.on_left_out()
                scan.take(batch)
                if reports.has_progressed:
                    reports.has_progressed = False
                    yield
            yield from self._tell_damages()
            self._tidy(reader)
            self._conclude(reader, scan)
        except JournalDamaged as error:
            yield from self._tell_damages()
            raise StoreError(
                f"{error}; {reports.loss_by(error.damage)}. To start without that, set "
                'journal.on_corruption to "skip" or "truncate"'
            ) from error
        finally:
            reader.close()
        self.state.next_segment = max([0, *names, *numbers]) + 1

    def _tell_damages(self) -> Iterator[None]:
        """Tells the listener; what does not show itself is bounded by another pass, if need be."""
        reports = self._reports
        if not all(damage.is_exhaustive for damage in reports.damages):
            survey = LossSurvey(self._queues)
            reader = JournalReader(self._files, self._directory, survey, newest=self._newest)
            try:
                survey.segments = [source.number for source in reader.live]
                for batch in reader.batches():
                    survey.take(batch)
                    if survey.has_progressed:
                        survey.has_progressed = False
                        yield
            finally:
                reader.close()
            reports.losses = survey.losses()
        reports.tell_damages()

    def _names(self) -> list[int]:
        """The numbers of all segments that there are files of, retained ones too."""
        files, directory = self._files, self._directory
        names = files.list(directory)
        if RETAINED_DIRECTORY in names:
            names += files.list(f"{directory}/{RETAINED_DIRECTORY}")
        return [number for name in names if (number := number_of_name(name)) is not None]

    def _conclude(self, reader: JournalReader, scan: LiveEntryScan) -> None:
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
        state.interrupted = sorted(found.interrupted)
        self.contents = found.contents
        self._reports.on_all_read(found.contents)

    def _tidy(self, reader: JournalReader) -> None:
        """What was read, and will be built upon, must be on the disk before anything goes."""
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


class _Reports(Reporter):
    """Answers by the policy, and passes on what the listener is to know.

    ``losses``: of damage that does not say itself what it held, by its position.
    """

    __slots__ = (
        "_listener",
        "_octets",
        "_policy",
        "_progress",
        "_queues",
        "_scan",
        "damages",
        "has_progressed",
        "has_truncated",
        "losses",
    )

    def __init__(
        self,
        policy: Decision,
        queues: Mapping[int, KnownQueue],
        scan: LiveEntryScan,
        listener: RecoveryListener,
        progress: RecoveryProgress,
    ) -> None:
        self._policy = policy
        self._queues = queues
        self._scan = scan
        self._listener = listener
        self._progress = progress
        self._octets = 0
        self.has_progressed = False
        self.has_truncated = False
        self.damages: list[Damage] = []
        self.losses: dict[int, Loss] = {}

    def on_damage(self, damage: Damage) -> Decision:
        self.damages.append(damage)
        if self._policy is Decision.TRUNCATE:
            self.has_truncated = True
        else:
            self._scan.on_left_out()
        return self._policy

    def tell_damages(self) -> None:
        for damage in self.damages:
            problem = f"{damage}; {self.loss_by(damage)}"
            action = _ACTIONS[self._policy]
            if self._policy is Decision.TRUNCATE:
                problem += ", and all that was written behind it"
                action += f", {damage.cut_octets} octets from position {damage.cut_position:#x} on"
            self._listener.on_damage(problem, action)

    def loss_by(self, damage: Damage) -> str:
        """Which messages it cost, as far as that can be known, and whether it can be known."""
        seen = self._queues_text(_by_queue(damage.entries))
        if damage.is_exhaustive:
            if seen:
                return f"messages lost, as it seems: {seen}"
            text = "messages lost: none, if it is what it seems to be"
            return f"{text}; those that it settled come back" if damage.kind == SETTLE else text
        loss = self.losses[damage.position]
        if loss.queues is None:
            text = "how many messages are lost cannot be told"
        elif loss.queues:
            text = f"messages lost: at most {self._queues_text(loss.queues)}"
        else:
            text = "messages lost: none"
        if seen:
            text += f", among them, as it seems, {seen}"
        if loss.is_moved and loss.queues is not None:
            text += ", and older ones that had been moved there, which cannot be told"
        return text

    def _queues_text(self, losses: list[QueueLoss]) -> str:
        """As in "3 of queue 'q' in vhost '/' (offsets 4 to 9)"."""
        return "; ".join(
            f"{count} of {self._name(queue_id)} (offsets {first} to {last})"
            for queue_id, count, first, last in losses
        )

    def _name(self, queue_id: int) -> str:
        queue = self._queues.get(queue_id)
        return "a queue that is deleted" if queue is None else queue.name

    def on_torn_tail(self, path: str, position: int, octets: int) -> None:
        """Nobody was ever told that it was safe."""

    def on_progress(self, done_octets: int, all_octets: int) -> None:
        self.has_progressed = True
        self._octets = all_octets
        self._progress.on_read(done_octets, all_octets, self._scan.loaded_count)

    def on_all_read(self, contents: Mapping[int, QueueContents]) -> None:
        loaded = sum(
            len(found) if self._queues[each].is_loaded else found.expiring_count
            for each, found in contents.items()
        )
        self._progress.on_all_read(self._octets, loaded)


def _by_queue(entries: tuple[tuple[int, int], ...]) -> list[QueueLoss]:
    offsets: dict[int, list[int]] = {}
    for queue_id, offset in entries:
        offsets.setdefault(queue_id, []).append(offset)
    return [QueueLoss(each, len(lost), lost[0], lost[-1]) for each, lost in offsets.items()]


class VhostRecovery:
    """One virtual host, from its definitions; the steps are to be taken in this order.

    ``next_offsets``: of each queue, by id. ``contents``: as ``JournalRecovery`` has them, of all
    virtual hosts; each takes its own out.
    ``exchange_count``, ``binding_count``, ``message_count``: what came back; ``queues`` by id.
    """

    def __init__(
        self,
        vhost: VirtualHost,
        definitions: SqliteDefinitions,
        next_offsets: Mapping[int, int],
        contents: dict[int, QueueContents],
        content_store: ContentStore,
        listener: RecoveryListener,
        progress: RecoveryProgress,
    ) -> None:
        self._vhost = vhost
        self._definitions = definitions
        self._next_offsets = next_offsets
        self._contents = contents
        self._content_store = content_store
        self._listener = listener
        self._progress = progress
        self.queues: dict[int, Queue] = {}
        self.exchange_count = 0
        self.binding_count = 0
        self.message_count = 0

    def restore_exchanges(self) -> None:
        """Raises StoreError for one that cannot be made."""
        for name, type_name, is_auto_delete, is_internal, arguments in self._definitions.exchanges(
            self._vhost.name
        ):
            try:
                self._vhost.restore_exchange(
                    name,
                    type_name,
                    is_auto_delete=is_auto_delete,
                    is_internal=is_internal,
                    arguments=arguments,
                )
            except AmqpError as error:
                what = f"exchange '{name}' in vhost '{self._vhost.name}'"
                raise _impossible(what, error) from error
            self.exchange_count += 1

    def restore_queues(self) -> None:
        """Empty ones, but they know where they were. Raises StoreError as above."""
        for queue_id, name, is_auto_delete, arguments, owner in self._definitions.queues(
            self._vhost.name
        ):
            try:
                queue = self._vhost.restore_queue(
                    queue_id,
                    name,
                    is_auto_delete=is_auto_delete,
                    arguments=arguments,
                    owner=owner,
                )
            except AmqpError as error:
                what = f"queue '{name}' in vhost '{self._vhost.name}'"
                raise _impossible(what, error) from error
            queue.next_offset = self._next_offsets.get(queue_id, 0)
            self.queues[queue_id] = queue
            if not len(self.queues) % DEFINITIONS_PER_REPORT:
                self._progress.on_restored(DEFINITIONS_PER_REPORT)

    def restore_bindings(self) -> None:
        """One whose exchange is gone from the settings is reported, and not made."""
        vhost = self._vhost
        for source, kind, destination, routing_key, arguments in self._definitions.bindings(
            vhost.name
        ):
            try:
                vhost.restore_binding(source, kind, destination, routing_key, arguments)
            except AmqpError as error:
                what = f"binding of {kind} '{destination}' to exchange '{source}'"
                self._listener.on_impossible(vhost.name, what, error.explanation)
            else:
                self.binding_count += 1
                if not self.binding_count % DEFINITIONS_PER_REPORT:
                    self._progress.on_restored(DEFINITIONS_PER_REPORT)

    def restore_messages(self) -> Generator[None, None, None]:
        """Yields after each piece. Raises StoreError.

        What dies on the way, being more than a queue may have, is published when all have theirs:
        a dead letter must not come to stand before what its queue had before.
        """
        post = self._vhost.environment.dead_letter_post
        post.hold()
        try:
            for queue_id, queue in self.queues.items():
                found = self._contents.pop(queue_id, None)
                if not found:
                    continue
                if takes_pages(queue):
                    yield from self._restore_pages(queue, found)
                else:
                    yield from self._restore_objects(queue, found)
                self.message_count += len(found)
        finally:
            post.release(self._vhost.environment)

    def _restore_objects(self, queue: Queue, found: QueueContents) -> Iterator[None]:
        """Each entry takes its own place, by all that the queue does to entries."""
        for start in range(0, len(found), MESSAGES_PER_READ):
            indices = range(start, min(start + MESSAGES_PER_READ, len(found)))
            restore_entries(queue, self._read(found, indices))
            self._progress.on_loaded(len(indices))
            yield

    def _restore_pages(self, queue: Queue, found: QueueContents) -> Iterator[None]:
        """What the queue can have as bare numbers is not read; all contents stay on disk."""
        for start in range(0, len(found), ENTRIES_PER_STEP):
            stop = min(start + ENTRIES_PER_STEP, len(found))
            for share in _shares(queue, found, start, stop):
                restore_paged(
                    queue,
                    share.offsets,
                    share.positions,
                    share.size_bytes,
                    found.delivery_counts,
                    kept=self._read(found, share.kept),
                    level=share.level,
                )
                self._progress.on_loaded(len(share.kept))
            yield
        end_paged(queue)
        yield

    def _read(
        self, found: QueueContents, indices: Sequence[int]
    ) -> Iterator[tuple[int, int, Message]]:
        """Offset, delivery count and message of each; some hundred messages are read at once."""
        counts, offsets, positions = found.delivery_counts, found.offsets, found.positions
        for start in range(0, len(indices), MESSAGES_PER_READ):
            some = indices[start : start + MESSAGES_PER_READ]
            messages = self._content_store.read_run([positions[index] for index in some])
            for index, message in zip(some, messages, strict=True):
                offset = offsets[index]
                yield offset, counts.get(offset, 0), message


def _impossible(what: str, error: AmqpError) -> StoreError:
    return StoreError(f"{what} is in the definitions, but cannot be made: {error.explanation}")


class _Share(NamedTuple):
    """Entries of one level that are restored at once.

    ``offsets``, ``positions``, ``size_bytes``: of those that become numbers. ``kept``: the indices
    of the others.
    """

    level: int
    offsets: array[int]
    positions: array[int]
    size_bytes: int
    kept: Sequence[int]


def _shares(queue: Queue, found: QueueContents, start: int, stop: int) -> Iterator[_Share]:
    """The entries between two indices, by level."""
    assert found.has_levels == has_levels(queue), queue
    if not found.has_levels:
        yield _share(queue, found, range(start, stop), 0)
        return
    sizes = found.sizes
    levels = [size >> LEVEL_SHIFT for size in sizes[start:stop]]
    in_order = sorted(range(stop - start), key=levels.__getitem__)  # and by offset in each
    for level, indices in groupby(in_order, levels.__getitem__):
        yield _share(queue, found, [start + index for index in indices], level)


def _share(queue: Queue, found: QueueContents, indices: Sequence[int], level: int) -> _Share:
    kept = _kept(queue, found, indices)
    if kept is indices:
        indices = range(0)
    elif kept:
        is_kept = set(kept)
        indices = [index for index in indices if index not in is_kept]
    if isinstance(indices, range):
        run = slice(indices.start, indices.stop)
        return _Share(level, found.offsets[run], found.positions[run], sum(found.sizes[run]), kept)
    offsets, positions, sizes = found.offsets, found.positions, found.sizes
    return _Share(
        level,
        array("Q", [offsets[index] for index in indices]),
        array("Q", [positions[index] for index in indices]),
        sum([sizes[index] & SIZE_MASK for index in indices]),
        kept,
    )


def _kept(queue: Queue, found: QueueContents, indices: Sequence[int]) -> Sequence[int]:
    """Those that are more than a number to this queue: they expire, or show their deliveries."""
    if queue.expiry is not None and queue.expiry.concerns_all:
        return indices
    offsets, sizes = found.offsets, found.sizes
    shown = found.delivery_counts if queue.shows_delivery_count else {}
    if (
        not shown
        and isinstance(indices, range)
        and max(sizes[indices.start : indices.stop]) < EXPIRES
    ):
        return ()
    return [index for index in indices if sizes[index] & EXPIRES or offsets[index] in shown]
