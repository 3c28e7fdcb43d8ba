"""Header tables without their length, as they stand at the end of a table that grows."""

from __future__ import annotations

import pytest

from hareline.errors import MalformedFrame
from hareline.message.headers import Table, Timestamp, decode_fields, encode_fields


def test_fields_are_a_table_without_its_length() -> None:
    assert encode_fields(Table()) == b""
    assert encode_fields(Table({"k": True})) == b"\x01kt\x01"
    assert decode_fields(b"\x01kt\x01") == {"k": True}


def test_fields_of_two_tables_in_a_row_are_one_table() -> None:
    octets = encode_fields(Table({"a": 1})) + encode_fields(Table({"b": "two"}))
    assert decode_fields(octets) == {"a": 1, "b": "two"}


def test_types_survive() -> None:
    table = Table({"when": Timestamp(5), "count": 7, "list": [1, "x"]})
    again = decode_fields(encode_fields(table))
    assert again == table
    assert isinstance(again["when"], Timestamp)
    assert encode_fields(again) == encode_fields(table)


@pytest.mark.parametrize("octets", [b"\x05k", b"\x01k", b"\x01k?\x00"])
def test_octets_that_are_no_fields_are_refused(octets: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_fields(octets)


def test_a_value_that_its_type_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="out of the range of type 'timestamp'"):
        encode_fields(Table({"when": Timestamp(1 << 65)}))
