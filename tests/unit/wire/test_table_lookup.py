"""One field is found without decoding the others, and is what decoding them all would give."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hareline.errors import MalformedFrame
from hareline.wire.table import (
    Array,
    Byte,
    Float,
    LongLong,
    Short,
    SignedInt,
    Table,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
    decode_table,
    encode_table,
)
from hareline.wire.table_lookup import decode_field

ONE_OF_EACH = Table(
    {
        "bool": True,
        "byte": Byte(-1),
        "unsignedbyte": UnsignedByte(200),
        "short": Short(-300),
        "unsignedshort": UnsignedShort(60_000),
        "signedint": SignedInt(-70_000),
        "unsignedint": UnsignedInt(3_000_000_000),
        "long": 2**40,
        "longlong": LongLong(-(2**40)),
        "float": Float(0.5),
        "double": 0.1,
        "decimal": Decimal("12.50"),
        "longstr": "text",
        "array": Array([1, "two", None]),
        "timestamp": Timestamp(1_700_000_000),
        "table": Table({"inner": Table({"x": 1})}),
        "void": None,
        "binary": b"\x00\xff",
        "last": "end",
    }
)

NAMES = st.sampled_from(["", "a", "b", "ab", "k", "\x01k", "S", "é"]) | st.text(max_size=4)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | NAMES
    | st.sampled_from(["\x01k", "\x01kS\x00\x00\x00\x01x"])
    | st.binary(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_field_of_any_type_is_found_behind_fields_of_any_type(name: str) -> None:
    value = decode_field(encode_table(ONE_OF_EACH), 0, name)
    assert value == ONE_OF_EACH[name]
    assert type(value) is type(ONE_OF_EACH[name])


@given(st.dictionaries(NAMES, VALUES, max_size=6), NAMES, st.binary(max_size=5))
@example({"a": "\x01kS\x00\x00\x00\x01x", "k": "right"}, "k", b"")
@example({"a": Table({"k": "wrong"})}, "k", b"")
@example({"a": "\x01k"}, "k", b"")
def test_the_field_is_what_decoding_the_whole_table_gives(
    table: dict[str, object], name: str, around: bytes
) -> None:
    octets = around + encode_table(table) + around
    expected = decode_table(octets, len(around))[0].get(name)
    found = decode_field(octets, len(around), name)
    assert found == expected
    assert type(found) is type(expected)


def test_the_first_of_two_fields_of_one_name_counts() -> None:
    fields = b"\x01kS\0\0\0\x01a" + b"\x01kS\0\0\0\x01b"
    assert decode_field(len(fields).to_bytes(4, "big") + fields, 0, "k") == "a"


def test_a_name_that_is_not_utf_8_is_found_by_its_surrogates() -> None:
    octets = encode_table(Table({"\udcff": 1}))
    assert decode_field(octets, 0, "\udcff") == 1


@pytest.mark.parametrize("name", ["k" * 256, "é" * 128])
def test_a_name_longer_than_any_field_s_is_nowhere(name: str) -> None:
    assert decode_field(encode_table(Table({"k": 1})), 0, name) is None


def test_a_name_of_255_octets_is_found() -> None:
    assert decode_field(encode_table(Table({"k" * 255: 1})), 0, "k" * 255) == 1


@pytest.mark.parametrize(
    ("octets", "complaint"),
    [
        (b"", "its length needs 4 octets"),
        (b"\0\0\0", "its length needs 4 octets"),
        (b"\0\0\0\x05\x01kt\x01", "5 octets announced, 4 are left"),
        (b"\0\0\0\x02\x01k", "a name, a type and a value"),
        (b"\0\0\0\x03\x01kl", "type 'l' needs 8 octets and 0 are left"),
        (b"\0\0\0\x08\x01kS\0\0\0\x09a", "type 'S' needs 13 octets and 5 are left"),
        (b"\0\0\0\x07\x01aZ\x01\x01kt", "unknown type octet 0x5a"),
        (b"\0\0\0\x06\x01aS\x01\x01k", "a name, a type and a value"),
        (b"\0\0\0\x03\x09\x01k", "a name, a type and a value"),
        (b"\0\0\0\x03\x01kZ", "unknown type octet 0x5a at octet 0"),
    ],
)
def test_octets_that_are_no_table_are_refused(octets: bytes, complaint: str) -> None:
    with pytest.raises(MalformedFrame, match=complaint):
        decode_field(octets, 0, "k")


def test_what_stands_behind_the_field_is_not_looked_at() -> None:
    fields = b"\x01kt\x01" + b"\x01aZ"
    assert decode_field(len(fields).to_bytes(4, "big") + fields, 0, "k") is True


@given(st.binary(max_size=40), st.sampled_from(["", "k", "a"]))
def test_any_octets_give_a_value_or_a_malformed_frame(octets: bytes, name: str) -> None:
    try:
        found = decode_field(octets, 0, name)
    except MalformedFrame:
        with pytest.raises(MalformedFrame):
            decode_table(octets, 0)
        return
    try:
        table = decode_table(octets, 0)[0]
    except MalformedFrame:
        return  # wrong behind the field
    assert repr(found) == repr(table.get(name))  # NaN is not equal to itself
