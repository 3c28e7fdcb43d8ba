"""Messages as records, and back: ``message_of`` gives back what ``record_head`` was given.

The octets are those of docs/journal-format.md; ``storage.journal`` knows no messages.         [hot]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hareline.message import Address, BlindAddress, Facts, Message
from hareline.storage.journal.format.frame import MESSAGE, RECORD_OVERHEAD, MalformedRecord
from hareline.storage.journal.format.message import (
    BLIND_KEY_COUNT,
    DEAD_LETTER,
    DELIVERY_COUNT_MAX,
    ENTRY,
    EXPIRY,
    FROM_DEFAULT,
    HAS_BLIND_KEYS,
    HAS_EXPIRY,
    HISTORY_SIZE,
    KIND_AND_MESSAGE_HEAD,
    LARGE,
    LARGE_ID,
    MESSAGE_HEAD,
    MessageRecord,
    decode_message,
)
from hareline.storage.store.large_bodies import LargeBodies

#: A whole MESSAGE record without content, address and options, of one entry: for a bound.
MESSAGE_OVERHEAD: Final = RECORD_OVERHEAD + MESSAGE_HEAD.size + ENTRY.size

_OPTIONS: Final = HAS_EXPIRY | DEAD_LETTER | HAS_BLIND_KEYS | LARGE
_ADDRESSES_MAX: Final = 16_384

_unpack_head = MESSAGE_HEAD.unpack_from
_HEAD_SIZE: Final = MESSAGE_HEAD.size
_ENTRY_SIZE: Final = ENTRY.size

#: Queue id, offset, delivery count, entry flags.
EntryFields = tuple[int, int, int, int]


def options_of(message: Message) -> tuple[int, bytes]:
    """Flags and optional parts of its record, in the order of the format."""
    flags = 0
    parts = []
    if message.expires_at_ms:
        flags |= HAS_EXPIRY
        parts.append(EXPIRY.pack(message.expires_at_ms))
    if message.history_size:
        flags |= DEAD_LETTER | (FROM_DEFAULT if message.is_from_default else 0)
        parts.append(HISTORY_SIZE.pack(message.history_size))
    blind_keys = message.address.blind_keys
    if blind_keys:
        flags |= HAS_BLIND_KEYS
        parts.append(BLIND_KEY_COUNT.pack(len(blind_keys)))
        parts += [Address.of("", key).octets[1:] for key in blind_keys]
    if message.large is not None:
        flags |= LARGE
        parts.append(LARGE_ID.pack(message.large.large_id))
    return flags, b"".join(parts)


def record_head(message: Message, entries: Sequence[EntryFields]) -> bytes:
    """Return what precedes the content in its MESSAGE record, from the kind on."""
    flags, options = options_of(message)
    head = KIND_AND_MESSAGE_HEAD.pack(
        MESSAGE,
        flags,
        message.arrival_ms,
        message.channel,
        message.header_size,
        message.size,
        len(entries),
    )
    listed = [
        ENTRY.pack(queue_id, offset, min(delivery_count, DELIVERY_COUNT_MAX), entry_flags)
        for queue_id, offset, delivery_count, entry_flags in entries
    ]
    return b"".join((head, *listed, options, message.address.octets))


class MessageReader:
    """Payloads of MESSAGE records to messages.

    Addresses are interned by their octets while there are not too many, so that what was published
    alike shares one again. ``bodies``: where the bodies of large messages are.
    """

    __slots__ = ("_addresses", "_bodies")

    def __init__(self, bodies: LargeBodies | None = None) -> None:
        self._addresses: dict[bytes, Address] = {}
        self._bodies = bodies

    def message_of(self, payload: bytes | memoryview, position: int) -> Message:
        """``payload``: what stands behind the kind. Raises MalformedRecord."""
        octets = bytes(payload)
        return self.message_at(octets, 0, len(octets), position)

    def message_at(self, octets: bytes, start: int, end: int, position: int) -> Message:
        """The same for a payload from ``start`` to ``end`` of what was read."""
        flags, arrival_ms, channel, header_size, size, count = _unpack_head(octets, start)
        if flags & _OPTIONS:
            return self._with_options(octets[start:end], position)
        at = start + _HEAD_SIZE + count * _ENTRY_SIZE
        try:
            middle = at + 1 + octets[at]
            content = middle + 1 + octets[middle]
        except IndexError:
            raise MalformedRecord("MESSAGE record is too short") from None
        published_to = octets[at:content]
        return Message(
            self._addresses.get(published_to) or self._address(published_to),
            octets[content:end],
            header_size,
            size,
            channel,
            arrival_ms,
            position,
        )

    def _with_options(self, payload: bytes, position: int) -> Message:
        record = decode_message(payload)
        address = self._address(record.address)
        if record.blind_keys:
            keys = [str(key, "utf-8", "surrogateescape") for key in record.blind_keys]
            address = BlindAddress(address, tuple(keys))
        message = Message(
            address,
            record.content,
            record.header_size,
            record.size,
            record.channel,
            record.arrival_ms,
            position,
        )
        message.extras = self._facts_of(record)
        return message

    def _facts_of(self, record: MessageRecord) -> Facts | None:
        """None for a record with no options but blind keys."""
        flags = record.flags
        if not flags & (HAS_EXPIRY | DEAD_LETTER | LARGE):
            return None
        large = None
        expires_at_ms = record.expires_at_ms
        if flags & LARGE:
            if self._bodies is None:
                raise MalformedRecord("MESSAGE record of a large message, where there can be none")
            large = self._bodies.body(record.large_id, record.size)
        elif flags & DEAD_LETTER:
            expires_at_ms = 0  # that time is over; a record of another build may still say it
        return Facts(expires_at_ms, record.history_size, bool(flags & FROM_DEFAULT), large)

    def _address(self, octets: bytes) -> Address:
        address = self._addresses.get(octets)
        if address is None:
            middle = 1 + octets[0]
            address = Address(
                str(octets[1:middle], "utf-8", "surrogateescape"),
                str(octets[middle + 1 :], "utf-8", "surrogateescape"),
                octets,
            )
            if len(self._addresses) >= _ADDRESSES_MAX:
                self._addresses.clear()
            self._addresses[octets] = address
        return address
