"""The PRODUCERS record: what is encoded comes back, and what is no such record is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.storage.journal.format.frame import MalformedRecord
from hareline.storage.journal.format.records import KeptSequence, Producers, decode_producers
from tests.support.encoders import encode_producers

u64 = st.integers(0, (1 << 64) - 1)
kept = st.builds(KeptSequence, st.binary(max_size=255), u64, u64)


@given(st.binary(max_size=255), st.booleans(), st.lists(kept, min_size=1, max_size=5))
def test_it_comes_back_as_it_was(
    vhost: bytes, is_whole: bool, sequences: list[KeptSequence]
) -> None:
    payload = encode_producers(vhost, is_whole, sequences)
    assert decode_producers(memoryview(payload)) == Producers(vhost, is_whole, sequences)


def test_the_octets_are_those_of_the_page() -> None:
    payload = encode_producers(b"/", True, [KeptSequence(b"ab", 5, 6)])
    assert payload.hex(" ") == ("01 01 2f 05 00 00 00 00 00 00 00 06 00 00 00 00 00 00 00 02 61 62")


@pytest.mark.parametrize("size", range(1, 22))
def test_one_that_is_cut_off_is_refused(size: int) -> None:
    payload = encode_producers(b"/", False, [KeptSequence(b"ab", 5, 6)])
    assert len(payload) == 22
    with pytest.raises(MalformedRecord, match="PRODUCERS record"):
        decode_producers(payload[:size])


def test_no_payload_at_all_is_refused() -> None:
    with pytest.raises(MalformedRecord, match="too short"):
        decode_producers(b"")


def test_an_unknown_flag_is_refused() -> None:
    payload = encode_producers(b"/", True, [KeptSequence(b"ab", 5, 6)])
    with pytest.raises(MalformedRecord, match="unknown flags 0x3"):
        decode_producers(b"\x03" + payload[1:])
