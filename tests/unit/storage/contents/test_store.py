"""Contents read back from the journal, wherever they stand."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from hareline.errors import StoreError
from hareline.storage.journal.format.frame import BATCH_SIZE
from hareline.storage.journal.format.positions import OFFSET_BITS, position_of
from hareline.storage.store.content_store import OPEN_MAX, JournalContentStore
from tests.support.messages import make_message
from tests.support.store_stand import JOURNAL, FakeEntry, StoreStand, persistent


def content_store_of(stand: StoreStand) -> JournalContentStore:
    content_store = stand.store.content_store
    assert isinstance(content_store, JournalContentStore)
    return content_store


def fill(stand: StoreStand, count: int, *, low: int = 0, high: int = 600) -> list[FakeEntry]:
    chance = random.Random(7)
    entries = []
    for number in range(count):
        body = b"%d:" % number + bytes(chance.randint(low, high))
        entries.append(stand.entry(1 + number % 2, persistent(body)))
        if chance.random() < 0.2:
            stand.turn()
    stand.turn()
    return entries


def test_a_message_is_read_as_it_was() -> None:
    stand = StoreStand()
    message = persistent(b"body", exchange="e", routing_key="k", channel=7, headers={"a": 1})
    entry = stand.entry(1, message)
    stand.turn()
    read = content_store_of(stand).read(entry.message.position)
    for name in ("content", "header_size", "size", "channel", "arrival_ms", "position"):
        assert getattr(read, name) == getattr(message, name)
    assert read.address.octets == message.address.octets
    assert content_store_of(stand).content(message.position) == message.content


def test_addresses_are_shared_again() -> None:
    stand = StoreStand()
    entries = [stand.entry(1, persistent(b"x", routing_key="k")) for _ in range(2)]
    stand.turn()
    one, two = content_store_of(stand).read_run([entry.message.position for entry in entries])
    assert one.address is two.address


@pytest.mark.parametrize("order", ["ascending", "descending", "shuffled"])
@pytest.mark.parametrize("high", [0, 600, 40_000])
def test_a_run_is_read_in_whatever_order_it_is_asked_for(order: str, high: int) -> None:
    stand = StoreStand(segment_bytes=1 << 17)
    entries = fill(stand, 300, high=high)
    if order == "descending":
        entries.reverse()
    elif order == "shuffled":
        random.Random(3).shuffle(entries)
    expected = [entry.message.body for entry in entries]
    read = content_store_of(stand).read_run([entry.message.position for entry in entries])
    assert [message.body for message in read] == expected
    assert [message.position for message in read] == [entry.message.position for entry in entries]


def test_a_body_longer_than_any_window_is_read() -> None:
    stand = StoreStand(segment_bytes=1 << 22)
    entries = [stand.entry(1, persistent(bytes([number]) * 1_500_000)) for number in range(2)]
    stand.turn()
    read = content_store_of(stand).read_run([entry.message.position for entry in entries])
    assert [message.body for message in read] == [entry.message.body for entry in entries]


def test_a_run_may_mix_the_journal_and_the_spool() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 2)
    stand.turn()
    content_store = content_store_of(stand)
    spooled = content_store.spool(make_message(b"spooled"))
    positions = [entries[0].message.position, spooled, entries[1].message.position]
    assert [message.body for message in content_store.read_run(positions)] == [
        b"body",
        b"spooled",
        b"body",
    ]


def test_what_is_on_its_way_to_the_disk_is_read_from_memory() -> None:
    stand = StoreStand(is_automatic=False)
    on_disk = stand.entries(1, 3)
    stand.turn()
    entries = [stand.entry(1, persistent(b"%d" % number)) for number in range(3)]
    stand.store.write_pending()
    positions = [entry.message.position for entry in on_disk + entries]
    expected = [b"body"] * 3 + [b"0", b"1", b"2"]
    assert [message.body for message in content_store_of(stand).read_run(positions)] == expected
    stand.settle_down()
    assert [message.body for message in content_store_of(stand).read_run(positions)] == expected


def test_only_so_many_files_are_open() -> None:
    stand = StoreStand(segment_bytes=2048)
    entries = stand.entries(1, 1, bytes(1000))
    while stand.segment_count < OPEN_MAX + 10:
        entries += stand.entries(1, 1, bytes(1000))
        stand.turn()
    content_store = content_store_of(stand)
    before = stand.forgetful.open_files
    for entry in entries:
        content_store.read(entry.message.position)
    assert stand.forgetful.open_files <= before + OPEN_MAX
    stand.store.close()
    assert stand.forgetful.open_files == 0


def test_a_freed_file_is_let_go_of() -> None:
    stand = StoreStand(segment_bytes=4096)
    for _ in range(10):
        entries = stand.entries(1, 10, bytes(100))
        stand.turn()
        content_store_of(stand).read_run([entry.message.position for entry in entries])
        stand.settle(1, entries)
        stand.turn()
    assert stand.store.freed_segments > 2
    entries = stand.entries(1, 10, bytes(50))
    stand.turn()  # in a file that was read before it was freed
    read = content_store_of(stand).read_run([entry.message.position for entry in entries])
    assert [message.body for message in read] == [bytes(50)] * 10


@pytest.mark.parametrize("is_run", [False, True])
def test_damage_is_found_and_named(is_run: bool) -> None:
    stand = StoreStand(segment_bytes=4096)
    entries = stand.entries(1, 3, bytes(300))
    stand.turn()
    path = f"{JOURNAL}/{1:016x}.log"
    position = entries[1].message.position
    octets = bytearray(stand.forgetful.content(path))
    octets[(position & 0xFFFF_FFFF) + 100] ^= 1
    stand.forgetful.put(path, bytes(octets))
    content_store = content_store_of(stand)
    positions = [entry.message.position for entry in entries] if is_run else [position]
    with pytest.raises(StoreError, match=rf"{path}: record at \d+ does not match its checksum"):
        content_store.read_run(positions)
    assert content_store.read(entries[2].message.position).body == bytes(300)


def test_a_position_where_nothing_stands_is_an_error() -> None:
    stand = StoreStand(segment_bytes=4096)
    entry = stand.entry(1)
    stand.turn()
    content_store = content_store_of(stand)
    with pytest.raises(StoreError, match="No such file"):
        content_store.read(position_of(99, 4096))
    with pytest.raises(StoreError, match="stands no message but BATCH"):
        content_store.read(entry.message.position - BATCH_SIZE)
    with pytest.raises(StoreError, match="nothing stands at"):
        content_store.read((entry.message.position >> OFFSET_BITS << OFFSET_BITS) + 5000)
    with pytest.raises(StoreError, match=r"goes beyond the end|does not match"):
        content_store.read(entry.message.position + 3)


def test_a_file_that_cannot_be_read_is_named() -> None:
    stand = StoreStand()
    entry = stand.entry(1)
    stand.turn()
    stand.files.unlink(f"{JOURNAL}/{1:016x}.log")
    with pytest.raises(StoreError, match=rf"{1:016x}.log: No such file"):
        content_store_of(stand).read(entry.message.position)


def test_ahead_of_runs_the_system_is_asked_to_read_every_octet_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand = StoreStand(segment_bytes=1 << 22)
    entries = fill(stand, 400, low=20_000, high=30_000)
    monkeypatch.setattr("hareline.storage.store.content_store.AHEAD_BYTES", 1 << 20)
    asked: list[tuple[int, int, int]] = []
    monkeypatch.setattr(type(stand.files), "will_need", lambda _, *what: asked.append(what))
    positions = [entry.message.position for entry in entries]
    for start in range(0, len(positions), 20):
        content_store_of(stand).read_run(positions[start : start + 20])
    assert len({fd for fd, _, _ in asked}) > 1
    for fd in {fd for fd, _, _ in asked}:
        parts = [(offset, size) for each, offset, size in asked if each == fd]
        assert all(offset + size == following for (offset, size), (following, _) in pairwise(parts))
