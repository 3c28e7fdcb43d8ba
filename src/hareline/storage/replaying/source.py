"""Sources of a replay on disk: queues that had a name, their messages, new copies.

A replayed message has the body, properties and address of the old one, but for ``x-replayed-from``
(its queue), ``x-replayed-arrival`` (when that got it) and no expiration, as a dead letter; x-death
stays. It is persistent exactly if the old one was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hareline.errors import StoreError
from hareline.message import (
    TRANSIENT,
    UNWRITTEN,
    Facts,
    Message,
    Table,
    Timestamp,
    decode_fields,
    encode_fields,
)
from hareline.storage.definitions.sqlite import SqliteDefinitions
from hareline.storage.journal.files import Files
from hareline.storage.replaying.range import Replayable, ReplayRange
from hareline.storage.store.durable import DurableStore
from hareline.storage.store.large_bodies import LargeBodies
from hareline.storage.store.message_records import MessageReader

REPLAYED_FROM: Final = "x-replayed-from"
REPLAYED_ARRIVAL: Final = "x-replayed-arrival"

_TRACE: Final = b"x-replayed-"  # must be there if one of them is
_PERSISTENT: Final = 2  # delivery-mode
_MS_PER_S: Final = 1000


class ReplaySource:
    """A broker's journal and definitions, as far as a replay reads them."""

    def __init__(
        self,
        files: Files,
        directory: str,
        definitions: SqliteDefinitions,
        store: DurableStore,
        bodies: LargeBodies,
    ) -> None:
        """``directory``: of the journal."""
        self._files = files
        self._directory = directory
        self._definitions = definitions
        self._store = store
        self._bodies = bodies
        self._reader = MessageReader(bodies)

    @property
    def is_kept(self) -> bool:
        """True if settled messages are kept at all."""
        return self._store.keeps_settled

    def queue_ids(self, vhost: str, name: str) -> list[int]:
        """Return the ids of durable queues that have, or had, this name; the oldest first."""
        return self._definitions.queue_ids(vhost, name)

    def open(self, queue_ids: Sequence[int], from_ms: int, to_ms: int) -> ReplayRange:
        """Return the messages these queues got from ``from_ms`` to before ``to_ms``, still unread.

        Opens no file.
        """
        end = self._store.readable_position
        return ReplayRange(self._files, self._directory, queue_ids, from_ms, to_ms, end)

    def message_of(self, record: Replayable) -> Message:
        """Return the message as it was. Raises StoreError, also if a large body is gone."""
        message = self._reader.message_of(record.payload, record.position)
        large = message.large
        if large is not None:
            problem = self._bodies.problem_of(large.large_id, large.size)
            if problem:
                raise StoreError(f"the body of a large message is gone: {problem}")
        return message


def replayed(message: Message, queue_name: str, now_ms: int) -> Message:
    """Return the copy to publish now. Raises MalformedFrame if its properties are not valid."""
    parts = message.parts
    fields = parts.fields
    if _TRACE in fields:
        table = decode_fields(fields)
        table.pop(REPLAYED_FROM, None)
        table.pop(REPLAYED_ARRIVAL, None)
        fields = encode_fields(table)
    arrival = Timestamp(message.arrival_ms // _MS_PER_S)
    fields += encode_fields(Table({REPLAYED_FROM: queue_name, REPLAYED_ARRIVAL: arrival}))
    octets = parts.with_fields(fields)
    twin = message.replace(properties=octets)
    # No time to live, and of a dead letter no deaths: those in its headers are a client's word now.
    twin.extras = None if message.large is None else Facts(large=message.large)
    twin.arrival_ms = now_ms
    twin.position = UNWRITTEN if parts.delivery_mode == _PERSISTENT else TRANSIENT
    return twin
