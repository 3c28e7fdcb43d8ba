"""MESSAGE records as they are packed: what stands in them, where, and what is left out."""

from __future__ import annotations

import pytest

from hareline.message import UNWRITTEN, Address, BlindAddress
from hareline.queues.core.entry import ACQUIRED, HELD, READY, SETTLED
from hareline.storage.journal.format.frame import MESSAGE, RECORD_HEAD, RECORD_PREFIX, encode_record
from hareline.storage.journal.format.message import (
    DELIVERY_COUNT_MAX,
    MessageRecord,
    decode_message,
)
from hareline.storage.store.packing import Others, Packer, TakenEntries, unpack
from tests.support.encoders import encode_message
from tests.support.store_stand import FakeEntry, StoreStand, persistent

START = 4096
SEED = 77
NO_LIMIT = 1 << 30


def pack(
    entries: list[FakeEntry],
    *,
    others: Others | None = None,
    keeps_settled: bool = False,
    limit: int = NO_LIMIT,
    leaving: tuple[int, ...] = (),
) -> tuple[Packer, TakenEntries, list[FakeEntry]]:
    ledger = StoreStand().queue(9)
    ledger.leaving.update(leaving)
    packer = Packer(keeps_settled=keeps_settled)
    packer.begin(START, SEED)
    taken = TakenEntries(ledger, list(entries))
    rest = packer.pack(taken, {} if others is None else others, limit)
    return packer, taken, [entry for entry in entries if entry in rest]


def records_of(packer: Packer) -> list[MessageRecord]:
    """Every record, after a look at its length, kind, checksum and at the count of octets."""
    octets = b"".join(packer.parts)
    assert len(octets) == packer.octets
    records = []
    at = 0
    while at < len(octets):
        length, _, kind = RECORD_HEAD.unpack_from(octets, at)
        end = at + RECORD_PREFIX.size + length
        payload = octets[at + RECORD_HEAD.size : end]
        assert octets[at:end] == b"".join(encode_record(MESSAGE, (payload,), SEED))
        assert kind == MESSAGE
        records.append(decode_message(payload))
        assert b"".join(encode_message(records[-1])) == payload
        at = end
    return records


@pytest.mark.parametrize("size", [0, 1, 200, 340, 345, 350, 1000, 4096, 65_536, 1 << 20])
def test_a_record_has_its_message_whatever_its_size(size: int) -> None:
    message = persistent(bytes(range(256)) * (size // 256) + bytes(size % 256))
    packer, taken, _ = pack([FakeEntry(persistent(b"before"), 4), FakeEntry(message, 5)])
    before, record = records_of(packer)
    assert before.entries == [(9, 4, 0, 0)]
    assert record.entries == [(9, 5, 0, 0)]
    assert (record.flags, record.content, record.size) == (0, message.content, size)
    assert record.address == message.address.octets
    assert (record.arrival_ms, record.channel) == (message.arrival_ms, message.channel)
    assert message.position - START == packer.octets - RECORD_HEAD.size - record_size(record)
    assert taken.new_end == 6


def record_size(record: MessageRecord) -> int:
    return sum(map(len, encode_message(record)))


def test_numbers_as_large_as_they_may_be_are_packed() -> None:
    message = persistent()
    message.arrival_ms = (1 << 64) - 1
    message.channel = 0xFFFF
    entry = FakeEntry(message, (1 << 64) - 1)
    entry.delivery_count = DELIVERY_COUNT_MAX + 1
    ledger = StoreStand().queue((1 << 32) - 1)
    packer = Packer(keeps_settled=False)
    packer.begin(START, SEED)
    packer.pack(TakenEntries(ledger, [entry]), {}, NO_LIMIT)
    (record,) = records_of(packer)
    assert record.entries == [((1 << 32) - 1, (1 << 64) - 1, DELIVERY_COUNT_MAX, 1)]
    assert (record.arrival_ms, record.channel) == ((1 << 64) - 1, 0xFFFF)


def test_states_and_counts_say_what_may_have_been_delivered() -> None:
    entries = [FakeEntry(persistent(), offset) for offset in range(6)]
    for entry, state in zip(entries, (READY, ACQUIRED, HELD, SETTLED, SETTLED, READY), strict=True):
        entry.state = state
    entries[5].delivery_count = 2
    packer, taken, _ = pack(entries, leaving=(3,))
    assert [record.entries for record in records_of(packer)] == [
        [(9, 0, 0, 0)],
        [(9, 1, 0, 1)],
        [(9, 2, 0, 0)],
        [(9, 3, 0, 1)],
        [(9, 5, 2, 1)],
    ]
    assert [entry.offset for entry in taken.entries] == [0, 1, 2, 3, 5]
    assert (taken.new_end, taken.settled) == (3, [])
    assert entries[4].message.position == UNWRITTEN


def test_what_is_settled_is_packed_for_a_replay() -> None:
    entries = [FakeEntry(persistent(), offset) for offset in range(3)]
    entries[1].state = SETTLED
    packer, taken, _ = pack(entries, keeps_settled=True)
    assert len(records_of(packer)) == 3
    assert taken.settled == [1]


def test_a_message_lists_its_further_queues_and_its_options() -> None:
    shared = persistent(b"shared").expiring_at(7)
    shared.position = UNWRITTEN
    blind = persistent(b"blind")
    blind.address = BlindAddress(Address.of("", "a"), ("b",))
    elsewhere = FakeEntry(shared, 70)
    elsewhere.state = ACQUIRED
    other = StoreStand().queue(2)
    packer, _, _ = pack(
        [FakeEntry(shared, 0), FakeEntry(blind, 1), FakeEntry(persistent(), 2)],
        others={shared: [(other, elsewhere)]},
    )
    one, two, three = records_of(packer)
    assert one.entries == [(9, 0, 0, 0), (2, 70, 0, 1)]
    assert one.expires_at_ms == 7
    assert two.blind_keys == (b"b",)
    assert (three.flags, len(three.entries)) == (0, 1)


def test_a_message_that_has_a_place_is_packed_as_a_copy() -> None:
    message = persistent()
    message.position = 12
    entry = FakeEntry(message, 0)
    packer, _, _ = pack([entry])
    assert len(records_of(packer)) == 1
    assert (message.position, entry.message.position) == (12, START)


def test_a_settled_entry_is_left_out_though_its_message_has_a_place() -> None:
    message = persistent()
    message.position = 12
    gone, kept = FakeEntry(message, 0), FakeEntry(persistent(), 1)
    gone.state = SETTLED
    packer, taken, _ = pack([gone, kept])
    assert len(records_of(packer)) == 1
    assert taken.entries == [kept]


def test_entries_behind_the_limit_are_not_touched() -> None:
    entries = [FakeEntry(persistent(bytes(500)), offset) for offset in range(5)]
    packer, taken, rest = pack(entries, limit=600)
    assert len(records_of(packer)) == len(taken.entries) == 2
    assert rest == entries[2:]
    assert {entry.message.position for entry in rest} == {UNWRITTEN}


def test_what_was_packed_can_be_packed_for_another_place() -> None:
    entries = [FakeEntry(persistent(b"%d" % offset), offset) for offset in range(4)]
    entries[1].state = SETTLED
    entries[2].state = SETTLED
    packer, taken, _ = pack(entries, keeps_settled=True)
    positions = [entry.message.position for entry in entries]
    octets = b"".join(packer.parts)
    unpack(taken)
    packer.begin(START + 1000, SEED)
    packer.pack(taken, {}, NO_LIMIT)
    assert b"".join(packer.parts) == octets
    assert [entry.message.position - 1000 for entry in entries] == positions
    assert taken.settled == [1, 2]
