"""What the journal says of producers: the latest record counts, a whole list forgets the rest."""

from __future__ import annotations

import pytest

from hareline.storage.journal.format.frame import PRODUCERS, MalformedRecord
from hareline.storage.journal.format.records import KeptSequence
from hareline.storage.journal.reader import ReadBatch
from hareline.storage.recovery import live_entries
from hareline.storage.recovery.live_entries import LiveEntryScan
from tests.support.encoders import encode_producers


def batch(payload: bytes) -> ReadBatch:
    return ReadBatch(0, 0, 0, 0, True, [(0, PRODUCERS, memoryview(payload))])


def taken(*records: tuple[bytes, bool, dict[bytes, int]]) -> dict[str, dict[bytes, int]]:
    """Virtual host, whether whole, sequences; what is found, in its order."""
    scan = LiveEntryScan({})
    for vhost, is_whole, sequences in records:
        kept = [KeptSequence(each, number, 1000 + number) for each, number in sequences.items()]
        scan.take(batch(encode_producers(vhost, is_whole, kept)))
    for by_id in scan.producers.values():
        for producer_id, known in by_id.items():
            assert known.producer_id == producer_id
            assert known.used_ms == 1000 + known.highest
            assert known.written == known.highest
            assert known.ticket == known.hold_count == 0
    return {
        vhost: {producer_id: known.highest for producer_id, known in by_id.items()}
        for vhost, by_id in scan.producers.items()
    }


def test_the_latest_record_counts_though_it_is_lower() -> None:
    assert taken((b"/", False, {b"a": 100}), (b"/", False, {b"a": 1})) == {"/": {b"a": 1}}


def test_producers_stand_in_the_order_of_their_last_records() -> None:
    found = taken((b"/", True, {b"a": 1, b"b": 1, b"c": 1}), (b"/", False, {b"a": 2}))
    assert list(found["/"].items()) == [(b"b", 1), (b"c", 1), (b"a", 2)]


def test_a_whole_list_forgets_the_others_of_its_virtual_host() -> None:
    found = taken(
        (b"/", False, {b"a": 1, b"b": 1}), (b"other", False, {b"a": 7}), (b"/", True, {b"b": 2})
    )
    assert found == {"/": {b"b": 2}, "other": {b"a": 7}}


def test_there_are_no_more_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_entries, "PRODUCERS_MAX", 3)
    found = taken(*((b"/", False, {b"%d" % number: number}) for number in range(10)))
    assert found == {"/": {b"7": 7, b"8": 8, b"9": 9}}


def test_octets_that_are_no_such_record_are_refused() -> None:
    with pytest.raises(MalformedRecord):
        LiveEntryScan({}).take(batch(b"\x00\x01/x"))
