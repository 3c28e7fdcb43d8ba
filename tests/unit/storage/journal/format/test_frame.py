"""A record or a batch is valid only under the seed of its segment."""

from __future__ import annotations

from zlib import crc32

from hareline.storage.journal.format.frame import (
    RECORD_HEAD,
    Batch,
    decode_batch,
    encode_batch,
    encode_record,
    seed_of,
)
from hareline.storage.journal.format.positions import position_of


def test_checksums_begin_with_number_and_salt() -> None:
    seeds = {seed_of(1, 2), seed_of(1, 3), seed_of(2, 2)}
    assert len(seeds) == 3
    [head, one, two] = encode_record(3, (b"ab", b"c"), 7)
    length, checksum, kind = RECORD_HEAD.unpack(head)
    assert (length, kind, one + two) == (4, 3, b"abc")
    assert checksum == crc32(b"\x03abc", 7)


def test_a_batch_is_valid_under_its_seed_alone() -> None:
    batch = Batch(position_of(4, 100), 5, 6, 7, 8, 9)
    seed = seed_of(4, 7)
    octets = b"xx" + encode_batch(batch, seed)
    assert decode_batch(octets, 2, seed) == batch
    assert decode_batch(octets, 2, None) == batch
    assert decode_batch(memoryview(octets), 2, seed) == batch
    assert decode_batch(octets, 2, seed ^ 1) is None
    assert decode_batch(octets, 1, seed) is None
    assert decode_batch(octets[:-1], 2, seed) is None
    for index in range(2, len(octets)):
        wrong = bytearray(octets)
        wrong[index] ^= 1
        assert decode_batch(bytes(wrong), 2, seed) is None
