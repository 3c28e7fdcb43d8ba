"""Records about entries and segments come back as they were written, or are malformed."""

from __future__ import annotations

import pytest

from hareline.storage.journal.format.frame import MalformedRecord
from hareline.storage.journal.format.records import (
    CHECKPOINT_QUEUE,
    COVERED,
    FREED,
    RETURNED,
    RUN,
    TRANSACTION,
    Checkpoint,
    CheckpointQueue,
    Cover,
    Part,
    Returned,
    Run,
    decode_checkpoint,
    decode_clean,
    decode_commit,
    decode_cover,
    decode_free,
    decode_part,
    decode_return,
    decode_settle,
    encode_items,
)
from tests.support.encoders import encode_checkpoint, encode_part


def test_items_come_back() -> None:
    assert decode_settle(encode_items(RUN, [(1, 2, 3), (4, 5, 6)])) == [Run(1, 2, 3), Run(4, 5, 6)]
    assert decode_return(encode_items(RETURNED, [(1, 2, 3)])) == [Returned(1, 2, 3)]
    assert decode_cover(encode_items(COVERED, [(1, 2)])) == [Cover(1, 2)]
    assert decode_free(encode_items(FREED, [(1,), (9,)])) == [1, 9]
    assert decode_commit(encode_items(TRANSACTION, [(1,), (9,)])) == [1, 9]
    assert decode_clean((77).to_bytes(8, "little")) == 77


def test_a_part_comes_back() -> None:
    part = Part(7, [Run(1, 2, 3), Run(4, 5, 6)])
    octets = encode_part(part)
    assert decode_part(octets) == part
    for size in (0, 7, 8, len(octets) - 1):
        with pytest.raises(MalformedRecord, match="PART"):
            decode_part(octets[:size])


@pytest.mark.parametrize("transactions", [(), (1, 1 << 40)])
def test_a_checkpoint_comes_back(transactions: tuple[int, ...]) -> None:
    queues = [CheckpointQueue(1, 2, 3), CheckpointQueue(4, 5, 6)]
    checkpoint = Checkpoint(5, queues, transactions)
    octets = encode_checkpoint(checkpoint)
    assert decode_checkpoint(octets) == checkpoint
    least = len(encode_checkpoint(Checkpoint(5, queues)))
    for size in (0, 5, len(octets) - 1, least - 1, least - CHECKPOINT_QUEUE.size):
        with pytest.raises(MalformedRecord):
            decode_checkpoint(octets[:size])


@pytest.mark.parametrize(
    "decode", [decode_settle, decode_return, decode_cover, decode_free, decode_commit]
)
@pytest.mark.parametrize("octets", [b"", b"x" * 5, b"x" * 17])
def test_items_that_are_not_whole_are_malformed(decode: type[object], octets: bytes) -> None:
    with pytest.raises(MalformedRecord, match="octets"):
        decode(octets)  # type: ignore[call-arg]


def test_clean_has_a_time() -> None:
    with pytest.raises(MalformedRecord):
        decode_clean(b"")
