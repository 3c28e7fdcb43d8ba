"""Definitions and messages become a virtual host again, before a client may connect.

Called by ``server`` for each virtual host when the journal has been read
(``recovery.read_journal``). ``restore_messages`` is a generator that yields now and then, so that
the caller can look at its signals; between two steps nothing else touches the queues.

Invariant: each entry gets the offset and the delivery count it had, and takes its own place.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from hareline.broker.restoring import (
    end_paged,
    has_levels,
    restore_entries,
    restore_paged,
    takes_pages,
)
from hareline.broker.vhost import VirtualHost
from hareline.errors import AmqpError, StoreError
from hareline.message import Message
from hareline.queues.queue import Queue
from hareline.storage.definitions.sqlite import SqliteDefinitions
from hareline.storage.interface import ContentStore
from hareline.storage.recovery.queue_contents import EXPIRES, LEVEL_SHIFT, SIZE_MASK, QueueContents
from hareline.storage.recovery.reports import RecoveryListener, RecoveryProgress

MESSAGES_PER_READ: Final = 512
ENTRIES_PER_STEP: Final = 16_384  # of a queue that takes pages: enough for full ones of each level
DEFINITIONS_PER_REPORT: Final = 256


class VhostRecovery:
    """One virtual host, from its definitions; take the steps in the order they stand in here.

    ``next_offsets``: of each queue, by id. ``contents``: those of ``JournalRecovery``, of all
    virtual hosts; what this one restores is taken out.
    ``queues``: by id. ``exchange_count``, ``binding_count``, ``message_count``: what came back.
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
        """Declare the exchanges. Raises StoreError for one that cannot be made."""
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
        """Declare the queues, empty, each with its next offset. Raises StoreError as above."""
        for known in self._definitions.queues(self._vhost.name):
            queue_id, name = known.queue_id, known.name
            try:
                queue = self._vhost.restore_queue(
                    queue_id,
                    name,
                    is_auto_delete=known.is_auto_delete,
                    arguments=known.arguments,
                    owner=known.owner,
                    incarnation=known.incarnation,
                )
                self._vhost.live_arguments.restore(
                    queue, known.changes or {}, paused=known.is_paused
                )
            except AmqpError as error:
                what = f"queue '{name}' in vhost '{self._vhost.name}'"
                raise _impossible(what, error) from error
            queue.count_revived(self._next_offsets.get(queue_id, 0) - 1)
            self._vhost.readers.restore(queue, self._definitions.reader_store.readers(queue_id))
            self.queues[queue_id] = queue
            if not len(self.queues) % DEFINITIONS_PER_REPORT:
                self._progress.on_restored(DEFINITIONS_PER_REPORT)

    def restore_bindings(self) -> None:
        """Make the bindings; one whose exchange is gone from the settings is only reported."""
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
        """Put the messages into the queues; yields after each piece. Raises StoreError.

        Dead letters, of a queue that had more than it may have now, are published when all queues
        are filled, so that they stand behind what their target had before.
        """
        scheduler = self._vhost.environment.dead_letter_scheduler
        scheduler.hold()
        try:
            for queue_id, queue in self.queues.items():
                found = self._contents.pop(queue_id, None)
                if not found:
                    continue
                if takes_pages(queue) and found.has_levels == has_levels(queue):
                    yield from self._restore_pages(queue, found)
                else:
                    yield from self._restore_objects(queue, found)
                self.message_count += len(found)
            for queue in self.queues.values():
                if queue.unused is not None:
                    queue.unused.on_restored(queue)
        finally:
            scheduler.release()

    def _restore_objects(self, queue: Queue, found: QueueContents) -> Iterator[None]:
        """Restore every entry as an object."""
        for start in range(0, len(found), MESSAGES_PER_READ):
            indices = range(start, min(start + MESSAGES_PER_READ, len(found)))
            restore_entries(queue, self._read(found, indices))
            self._progress.on_loaded(len(indices))
            yield

    def _restore_pages(self, queue: Queue, found: QueueContents) -> Iterator[None]:
        """Restore as bare numbers what the queue can have as such; contents stay on disk."""
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
                    sizes=share.sizes,
                )
                self._progress.on_loaded(len(share.kept))
            yield
        end_paged(queue)
        yield

    def _read(
        self, found: QueueContents, indices: Sequence[int]
    ) -> Iterator[tuple[int, int, Message]]:
        """Yield offset, delivery count and message of each, reading some hundred at once."""
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

    ``offsets``, ``positions``, ``size_bytes``, ``sizes``: of those that become numbers; ``sizes``
    is None in queues with levels. ``kept``: indices of those that become objects.
    """

    level: int
    offsets: array[int]
    positions: array[int]
    size_bytes: int
    kept: Sequence[int]
    sizes: array[int] | None


def _shares(queue: Queue, found: QueueContents, start: int, stop: int) -> Iterator[_Share]:
    """Yield the entries between two indices, by level."""
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
    offsets, positions, sizes = found.offsets, found.positions, found.sizes
    if isinstance(indices, range):
        run = slice(indices.start, indices.stop)
        some = None if found.has_levels else sizes[run]
        return _Share(level, offsets[run], positions[run], sum(sizes[run]), kept, some)
    some = array(sizes.typecode, [sizes[index] & SIZE_MASK for index in indices])
    return _Share(
        level,
        array("Q", [offsets[index] for index in indices]),
        array("Q", [positions[index] for index in indices]),
        sum(some),
        kept,
        None if found.has_levels else some,
    )


def _kept(queue: Queue, found: QueueContents, indices: Sequence[int]) -> Sequence[int]:
    """Return the indices of entries that must be objects: they expire or show deliveries."""
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
