"""Records of a batch, packed one behind the other: new entries and their messages, and all else.

Each entry is looked at once, and a record has one checksum. Of a message only ``position`` is set,
so what was packed can be taken back (``unpack``) and packed for a new segment.                [hot]
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final
from zlib import crc32

from hareline.message import UNWRITTEN, LargeBody, Message
from hareline.storage.interface import StoredEntry
from hareline.storage.journal.format.frame import (
    MESSAGE,
    RECORD_OVERHEAD,
    RECORD_PREFIX,
    encode_record,
)
from hareline.storage.journal.format.message import (
    DELIVERY_COUNT_MAX,
    ENTRY,
    KIND_AND_MESSAGE_HEAD,
    WAS_DELIVERED,
)
from hareline.storage.store.ledger import ACQUIRED, SETTLED, DurableLedger
from hareline.storage.store.message_records import EntryFields, record_head

#: Kind, head and one entry of a record without flags. Fields that stand side by side are packed as
#: one number: kind with flags 0, and the count of entries 1 with the queue id.
_PLAIN_HEAD: Final = Struct("<HQHIQQQHB")
assert _PLAIN_HEAD.size == KIND_AND_MESSAGE_HEAD.size + ENTRY.size
_ONE_ENTRY: Final = 1
_QUEUE_ID_SHIFT: Final = 32
_PREFIX_SIZE: Final = RECORD_PREFIX.size

#: Up to so many octets a content is joined with what stands before it, which is cheaper than a
#: second part and a second call for the checksum: CPython keeps objects of up to 512 octets ready.
_JOINED_CONTENT_BYTES: Final = 384

#: message to its entries in further queues
Others = Mapping[Message, list[tuple[DurableLedger, StoredEntry]]]


class TakenEntries:
    """New entries of one ledger that go into a batch, each the first of its message.

    ``new_end``: above the offsets of those that are packed as never delivered, 0 if none is.
    ``settled``: offsets of those that are settled, and packed for a replay only.
    """

    __slots__ = ("entries", "ledger", "new_end", "settled")

    def __init__(self, ledger: DurableLedger, entries: list[StoredEntry]) -> None:
        self.ledger = ledger
        self.entries = entries
        self.new_end = 0
        self.settled: list[int] = []


class Packer:
    """``parts``: the records, to be written one after the other; ``octets`` and number of them.

    ``large``: bodies in files that records refer to, and the entries of each record.
    ``keeps_settled``: see ``BatchBuilder``.
    """

    __slots__ = ("_seed", "_start", "keeps_settled", "large", "octets", "parts", "records")

    def __init__(self, *, keeps_settled: bool) -> None:
        self.keeps_settled = keeps_settled
        self._start = self._seed = 0
        self.parts: list[bytes] = []
        self.octets = 0
        self.records = 0
        self.large: list[tuple[LargeBody, list[EntryFields]]] = []

    def begin(self, start: int, seed: int) -> None:
        """Forget what was packed; the first record stands at position ``start``."""
        self._start = start
        self._seed = seed
        self.parts = []
        self.octets = 0
        self.records = 0
        self.large = []

    def add(self, kind: int, payload: bytes) -> None:
        """Add a record that is no message."""
        self.parts += encode_record(kind, (payload,), self._seed)
        self.octets += RECORD_OVERHEAD + len(payload)
        self.records += 1

    def add_body(self, body: bytes) -> int:
        """Add a record from its kind and payload in one; returns its position."""
        position = self._start + self.octets
        self.parts += (RECORD_PREFIX.pack(len(body), crc32(body, self._seed)), body)
        self.octets += _PREFIX_SIZE + len(body)
        self.records += 1
        return position

    def pack(self, taken: TakenEntries, others: Others, limit: int) -> list[StoredEntry]:
        """Pack the entries behind what is packed already; leave out what need not be written.

        Returns those that have to wait, since more than ``limit`` octets of others come before.
        """
        ledger, entries = taken.ledger, taken.entries
        leaving = ledger.leaving
        keeps_settled = self.keeps_settled or ledger.writes_all
        one_entry = ledger.queue_id << _QUEUE_ID_SHIFT | _ONE_ENTRY
        parts, seed = self.parts, self._seed
        position = self._start + self.octets
        last_position = position + limit
        pack_head, pack_prefix, prefix_size = _PLAIN_HEAD.pack, RECORD_PREFIX.pack, _PREFIX_SIZE
        address = None
        address_octets = b""
        has_blind_keys = is_left_out = False
        last_new = -1  # offset
        rest: list[StoredEntry] = []
        for entry in entries:
            if position > last_position:
                at = entries.index(entry)
                rest = entries[at:]
                entries = entries[:at]
                break
            offset = entry.offset
            state = entry.state
            count = entry.delivery_count
            flags = 0
            if state == SETTLED:
                if offset in leaving:
                    flags = WAS_DELIVERED  # it may have been
                elif keeps_settled:
                    taken.settled.append(offset)
                else:
                    is_left_out = True
                    continue
            if flags or count or state == ACQUIRED:
                flags = WAS_DELIVERED
                count = count if count <= DELIVERY_COUNT_MAX else DELIVERY_COUNT_MAX
            else:
                last_new = offset
            message = entry.message
            if message.position != UNWRITTEN:  # written for another queue at another time
                message = entry.message = message.unwritten()  # type: ignore[misc] # a slot of QueueEntry
            content = message.content
            if message.address is not address:
                address = message.address
                address_octets = address.octets
                has_blind_keys = bool(address.blind_keys)
            if message.extras is None and not has_blind_keys and not (others and message in others):
                head = (
                    pack_head(
                        MESSAGE,
                        message.arrival_ms,
                        message.channel,
                        message.header_size,
                        message.size,
                        one_entry,
                        offset,
                        count,
                        flags,
                    )
                    + address_octets
                )
            else:
                head = self._long_head(message, (ledger.queue_id, offset, count, flags), others)
            size = len(content)
            if size <= _JOINED_CONTENT_BYTES:
                head += content
                size = len(head)
                parts += (pack_prefix(size, crc32(head, seed)), head)
            else:
                checksum = crc32(content, crc32(head, seed))
                size += len(head)
                parts += (pack_prefix(size, checksum) + head, content)
            message.position = position
            position += prefix_size + size
        if is_left_out:
            entries = [each for each in entries if each.state != SETTLED or each.offset in leaving]
        taken.entries = entries
        taken.new_end = last_new + 1
        self.records += len(entries)
        self.octets = position - self._start
        return rest

    def _long_head(self, message: Message, first: EntryFields, others: Others) -> bytes:
        """Return what precedes the content of a message with options, or in several queues."""
        listed = [first]
        for ledger, entry in others.get(message, ()):
            flags = WAS_DELIVERED if was_delivered(ledger, entry) else 0
            listed.append((ledger.queue_id, entry.offset, entry.delivery_count, flags))
        if message.large is not None:
            self.large.append((message.large, listed))
        return record_head(message, listed)


def unpack(taken: TakenEntries) -> None:
    """Take back what was packed, for another place."""
    taken.settled = []
    for entry in taken.entries:
        entry.message.position = UNWRITTEN


def was_delivered(ledger: DurableLedger, entry: StoredEntry) -> bool:
    """True if a consumer has it or had it, or may have had it before it left."""
    if entry.state == SETTLED and entry.offset in ledger.leaving:
        return True
    return entry.state == ACQUIRED or entry.delivery_count > 0
