"""Field tables keep every type, refuse garbage by name and place, and stay within their limits."""

from __future__ import annotations

import math
import struct
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pamqp import decode as pamqp_decode
from pamqp import encode as pamqp_encode

from hareline.errors import MalformedFrame
from hareline.wire import table as wire
from hareline.wire.table import (
    DEPTH_MAX,
    VALUES_MAX,
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
    decode_table_body,
    encode_table,
    kind_of,
    text_octets,
    type_name,
)


class Colour(IntEnum):
    RED = 1


def sized(octets: bytes) -> bytes:
    return struct.pack(">I", len(octets)) + octets


def field(key: bytes, value: bytes) -> bytes:
    return bytes((len(key),)) + key + value


def decode(octets: bytes) -> Table:
    """The table whose length is taken from the fields, all of which must be read."""
    table, position = decode_table(sized(octets), 0)
    assert position == len(octets) + 4
    return table


# ------------------------------------------------------------------------------ every wire type

VECTORS: list[tuple[str, bytes, type, object, str]] = [
    ("t", b"t\x01", bool, True, "bool"),
    ("t", b"t\x00", bool, False, "bool"),
    ("b", b"b\x80", Byte, -128, "byte"),
    ("B", b"B\xff", UnsignedByte, 255, "unsignedbyte"),
    ("s", b"s\x80\x00", Short, -32768, "short"),
    ("u", b"u\xff\xff", UnsignedShort, 65535, "unsignedshort"),
    ("I", b"I\x80\x00\x00\x00", SignedInt, -(2**31), "signedint"),
    ("i", b"i\xff\xff\xff\xff", UnsignedInt, 2**32 - 1, "unsignedint"),
    ("l", b"l\x80" + bytes(7), int, -(2**63), "long"),
    ("L", b"L" + b"\xff" * 8, LongLong, -1, "long"),
    ("f", b"f\x3f\x80\x00\x00", Float, 1.0, "float"),
    ("d", b"d\x3f\xf0" + bytes(6), float, 1.0, "double"),
    ("D", b"D\x02\x00\x00\x01\x3b", Decimal, Decimal("3.15"), "decimal"),
    ("D", b"D\x01\xff\xff\xff\xf6", Decimal, Decimal("-1.0"), "decimal"),
    ("S", b"S\x00\x00\x00\x02\xc3\xa9", str, "é", "longstr"),
    ("x", b"x\x00\x00\x00\x02\x00\xff", bytes, b"\x00\xff", "binary"),
    ("A", b"A\x00\x00\x00\x03Vt\x01", Array, [None, True], "array"),
    ("T", b"T" + b"\xff" * 8, Timestamp, 2**64 - 1, "timestamp"),
    ("F", b"F\x00\x00\x00\x03\x01aV", Table, {"a": None}, "table"),
    ("V", b"V", type(None), None, "void"),
]


@pytest.mark.parametrize(("kind", "octets", "python_type", "value", "name"), VECTORS)
def test_every_type_has_its_python_value_and_its_name(
    kind: str, octets: bytes, python_type: type, value: object, name: str
) -> None:
    table = decode(field(b"k", octets))
    assert type(table["k"]) is python_type
    assert table == {"k": value}
    assert table.kinds == {"k": kind}
    assert type_name(kind) == name
    assert encode_table(table) == sized(field(b"k", octets))


@pytest.mark.parametrize(("kind", "octets", "python_type", "value", "name"), VECTORS)
def test_every_type_is_kept_inside_an_array(
    kind: str, octets: bytes, python_type: type, value: object, name: str
) -> None:
    fields = field(b"k", b"A" + sized(octets + octets))
    array = decode(fields)["k"]
    assert isinstance(array, Array)
    assert array == [value, value]
    assert [kind_of(item) for item in array] == [kind, kind]
    assert type(array[0]) is python_type
    assert encode_table({"k": array}) == sized(fields)
    assert name in wire.TYPE_NAMES.values()


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (7, b"l" + bytes(7) + b"\x07"),
        ("text", b"S\x00\x00\x00\x04text"),
        (True, b"t\x01"),
        (1.5, b"d\x3f\xf8" + bytes(6)),
        (None, b"V"),
        (b"\x01", b"x\x00\x00\x00\x01\x01"),
        (bytearray(b"\x01"), b"x\x00\x00\x00\x01\x01"),
        (Timestamp(1), b"T" + bytes(7) + b"\x01"),
        ({}, b"F\x00\x00\x00\x00"),
        ([], b"A\x00\x00\x00\x00"),
        ((1,), b"A\x00\x00\x00\x09l" + bytes(7) + b"\x01"),
        (OrderedDict(a=None), b"F\x00\x00\x00\x03\x01aV"),
        (Decimal("-0.05"), b"D\x02\xff\xff\xff\xfb"),
        (Decimal("2e3"), b"D\x00\x00\x00\x07\xd0"),
        (Decimal("0e9"), b"D\x00\x00\x00\x00\x00"),
        (Colour.RED, b"l" + bytes(7) + b"\x01"),
    ],
)
def test_values_of_the_broker_itself_take_the_widest_type(value: object, octets: bytes) -> None:
    assert encode_table({"k": value}) == sized(field(b"k", octets))


def test_a_value_keeps_its_type_when_it_moves_to_another_table() -> None:
    received = decode(
        field(b"n", b"I\x00\x00\x00\x05") + field(b"a", b"A" + sized(b"b\x01s\x00\x02"))
    )
    array = received["a"]
    assert isinstance(array, Array)
    edited = {"new": 1, "old": received["n"], "list": [0, *array]}
    assert encode_table(edited) == sized(
        field(b"new", b"l" + bytes(7) + b"\x01")
        + field(b"old", b"I\x00\x00\x00\x05")
        + field(b"list", b"A" + sized(b"l" + bytes(8) + b"b\x01s\x00\x02"))
    )


def test_true_by_any_octet_is_written_as_one() -> None:
    assert decode(field(b"k", b"t\x07")) == {"k": True}
    assert encode_table(decode(field(b"k", b"t\x07"))) == sized(field(b"k", b"t\x01"))


def test_the_first_of_a_repeated_field_counts() -> None:
    assert decode(field(b"k", b"t\x01") + field(b"k", b"V")) == {"k": True}


def test_strings_that_are_not_utf8_come_back_octet_for_octet() -> None:
    octets = field(b"\xff\xfe", b"S" + sized(b"\x80\xc3\xa9\xed\xa0\x80"))
    table = decode(octets)
    (key,) = table
    text = table[key]
    assert isinstance(text, str)
    assert text_octets(key) == b"\xff\xfe"
    assert text_octets(text) == b"\x80\xc3\xa9\xed\xa0\x80"
    assert encode_table(table) == sized(octets)


def test_a_table_can_stand_anywhere_in_octets_or_a_view() -> None:
    data = b"before" + sized(field(b"k", b"V")) + b"behind"
    for source in (data, memoryview(data)):
        table, position = decode_table(source, 6)
        assert table == {"k": None}
        assert data[position:] == b"behind"


def test_an_empty_table_is_four_zeros() -> None:
    assert encode_table({}) == bytes(4)
    assert decode_table(bytes(4), 0) == ({}, 4)
    assert decode_table_body(b"") == {}


# ------------------------------------------------------------------------------------- lossless


def _quiet(octets: bytes, exponent_and_quiet_bit: int) -> bytes:
    """NaNs lose their signalling bit in any conversion of the processor; do not generate it."""
    number = struct.unpack(">f" if len(octets) == 4 else ">d", octets)[0]
    if not math.isnan(number):
        return octets
    head = int.from_bytes(octets[:2], "big") | exponent_and_quiet_bit
    return head.to_bytes(2, "big") + octets[2:]


def _fixed(kind: bytes, size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size).map(lambda octets: kind + octets)


def _fields(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    keys = st.binary(max_size=255)
    return st.dictionaries(keys, values, max_size=5).map(
        lambda fields: b"".join(field(key, value) for key, value in fields.items())
    )


LEAVES = st.one_of(
    st.sampled_from((b"t\x00", b"t\x01", b"V")),
    _fixed(b"b", 1),
    _fixed(b"B", 1),
    _fixed(b"s", 2),
    _fixed(b"u", 2),
    _fixed(b"I", 4),
    _fixed(b"i", 4),
    _fixed(b"l", 8),
    _fixed(b"L", 8),
    _fixed(b"T", 8),
    _fixed(b"D", 5),
    st.binary(min_size=4, max_size=4).map(lambda octets: b"f" + _quiet(octets, 0x7FC0)),
    st.binary(min_size=8, max_size=8).map(lambda octets: b"d" + _quiet(octets, 0x7FF8)),
    st.binary(max_size=20).map(lambda octets: b"S" + sized(octets)),
    st.binary(max_size=20).map(lambda octets: b"x" + sized(octets)),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: b"A" + sized(b"".join(items))),
        _fields(inner).map(lambda octets: b"F" + sized(octets)),
    ),
    max_leaves=20,
)


@given(_fields(VALUES))
def test_what_was_decoded_encodes_to_the_same_octets(octets: bytes) -> None:
    assert encode_table(decode(octets)) == sized(octets)


@given(_fields(VALUES), st.data())
def test_a_table_cut_anywhere_is_malformed_or_ends_between_two_fields(
    octets: bytes, data: st.DataObject
) -> None:
    whole = decode(octets)
    cut = data.draw(st.integers(0, len(octets)))
    with pytest.raises(MalformedFrame):
        decode_table(sized(octets)[: cut + 3], 0)
    try:
        part = decode_table_body(octets[:cut])
    except MalformedFrame:
        return
    assert encode_table(part) == sized(octets[:cut])
    assert list(part) == list(whole)[: len(part)]


@given(st.binary(max_size=200))
@example(b"\x00")
@example(b"\x01k")
@example(b"\x01kF\x00\x00\x00\x01\x00")
@example(b"\xff")
def test_garbage_is_a_table_or_malformed_and_nothing_else(octets: bytes) -> None:
    outcome: Table | MalformedFrame
    try:
        outcome = decode_table_body(octets)
    except MalformedFrame as problem:
        outcome = problem
    if isinstance(outcome, MalformedFrame):
        assert outcome.explanation.startswith("field table: ")
        return
    assert len(encode_table(outcome)) <= len(octets) + 4


# --------------------------------------------------------------------------------------- pamqp

PAMQP_LEAVES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(width=32, allow_nan=False),
    st.text(max_size=20),
    st.binary(max_size=20).map(bytearray),
    st.none(),
    st.datetimes(datetime(1970, 1, 2), datetime(2105, 1, 1)).map(
        lambda moment: moment.replace(microsecond=0, tzinfo=UTC)
    ),
    st.builds(
        lambda mantissa, scale: Decimal(mantissa).scaleb(-scale),
        st.integers(-(2**31), 2**31 - 1),
        st.integers(0, 20),
    ),
)
PAMQP_TABLES = st.dictionaries(
    st.text(max_size=20),
    st.recursive(
        PAMQP_LEAVES,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.text(max_size=5), inner, max_size=3),
        ),
        max_leaves=10,
    ),
    max_size=5,
)


def as_pamqp(value: object) -> object:
    """Our value as pamqp represents it."""
    if isinstance(value, Timestamp):
        return datetime.fromtimestamp(value, UTC)
    if isinstance(value, dict):
        return {key: as_pamqp(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_pamqp(item) for item in value]
    return value


@given(PAMQP_TABLES)
def test_what_pamqp_writes_is_read(table: dict[str, Any]) -> None:
    octets = pamqp_encode.field_table(table)
    ours, position = decode_table(octets, 0)
    assert position == len(octets)
    assert as_pamqp(ours) == table
    assert encode_table(ours) == octets


@given(_fields(VALUES))
def test_pamqp_reads_what_it_can_hold_the_same_way(octets: bytes) -> None:
    try:
        _, theirs = pamqp_decode.field_table(sized(octets))
        ours = as_pamqp(decode(octets))
    except (ValueError, OverflowError, OSError):
        return  # keys that are not UTF-8, timestamps that datetime does not hold
    assert repr_of(ours) == repr_of(theirs)


def repr_of(value: object) -> object:
    """Comparable across both codecs: NaN is itself, octets are octets."""
    if isinstance(value, dict):
        return {key: repr_of(item) for key, item in value.items()}
    if isinstance(value, list):
        return [repr_of(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, Decimal):
        return value.normalize()
    return value


# ------------------------------------------------------------------------------ hazards of pamqp


@pytest.mark.parametrize("kind", "bBsuIilL")
def test_an_integer_keeps_its_width(kind: str) -> None:
    size = {"b": 1, "B": 1, "s": 2, "u": 2, "I": 4, "i": 4, "l": 8, "L": 8}[kind]
    octets = field(b"count", kind.encode() + bytes(size - 1) + b"\x01")
    assert encode_table(decode(octets)) == sized(octets)


def test_a_double_is_not_narrowed_to_a_float() -> None:
    octets = field(b"ratio", b"d" + struct.pack(">d", 0.1))
    assert encode_table(decode(octets)) == sized(octets)


@pytest.mark.parametrize("seconds", [0, 1_700_000_000_000, 2**63, 2**64 - 1])
def test_a_timestamp_out_of_the_range_of_datetime_survives(seconds: int) -> None:
    octets = field(b"time", b"T" + struct.pack(">Q", seconds))
    table = decode(octets)
    assert table["time"] == seconds
    assert encode_table(table) == sized(octets)


def test_a_field_name_of_255_octets_is_not_cut() -> None:
    octets = field(b"n" * 255, b"V")
    assert encode_table(decode(octets)) == sized(octets)


# ------------------------------------------------------------------------------------ bad octets


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"\x01kz\x01", "unknown type octet 0x7a at octet 2 in k"),
        (b"\x01k\x00", "unknown type octet 0x00 at octet 2 in k"),
        (b"\x05ab", "a field needs a name, a type and a value at octet 0"),
        (b"\x01k", "a field needs a name, a type and a value at octet 0"),
        (b"\x01al\x00", "type 'l' needs 8 octets and 1 are left at octet 2 in a"),
        (b"\x01aD\x00", "type 'D' needs 5 octets and 1 are left at octet 2 in a"),
        (b"\x01aS\x00", "type 'S' needs 4 octets and 1 are left at octet 2 in a"),
        (
            b"\x01aS\xff\xff\xff\xffx",
            "type 'S' needs 4294967299 octets and 5 are left at octet 2 in a",
        ),
        (
            field(b"x-death", b"A" + sized(b"V" + b"F" + sized(field(b"count", b"l\x00")))),
            "type 'l' needs 8 octets and 1 are left at octet 25 in x-death[1].count",
        ),
    ],
)
def test_malformed_octets_are_named_with_their_place(octets: bytes, text: str) -> None:
    with pytest.raises(MalformedFrame) as caught:
        decode_table(b"before" + sized(octets), 6)
    assert caught.value.explanation == f"field table: {text}"


def test_a_table_longer_than_the_octets_is_malformed() -> None:
    with pytest.raises(MalformedFrame, match="9 octets announced, 3 are left"):
        decode_table(b"\x00\x00\x00\x09\x01kV", 0)
    with pytest.raises(MalformedFrame, match="its length needs 4 octets"):
        decode_table(b"\x00\x00\x00", 0)


def test_a_nested_table_may_not_run_into_its_parent() -> None:
    inner = b"F" + struct.pack(">I", 6) + b"\x01k"
    with pytest.raises(MalformedFrame, match=r"type 'F' needs 10 octets and 6 are left"):
        decode(field(b"a", inner))


def nested(levels: int, kind: bytes) -> bytes:
    """The fields of a table in which tables or arrays stand ``levels`` deep, itself counted."""
    octets = b""
    for _ in range(levels - 2):
        octets = kind + sized(octets if kind == b"A" or not octets else field(b"k", octets))
    return field(b"k", kind + sized(field(b"k", octets) if kind == b"F" and octets else octets))


@pytest.mark.parametrize("kind", [b"F", b"A"])
def test_nesting_ends_at_its_limit(kind: bytes) -> None:
    octets = nested(DEPTH_MAX, kind)
    table = decode(octets)
    assert encode_table(table) == sized(octets)
    with pytest.raises(MalformedFrame, match=f"more than {DEPTH_MAX} nested tables and arrays"):
        decode(nested(DEPTH_MAX + 1, kind))
    deeper: object = table
    with pytest.raises(ValueError, match=f"more than {DEPTH_MAX} nested tables and arrays"):
        encode_table({"one more": deeper})


def test_nesting_as_deep_as_a_frame_allows_is_refused_without_recursion() -> None:
    size = 131_064
    octets = bytearray()
    while size > 5:
        size -= 5
        octets += b"A" + struct.pack(">I", size)
    with pytest.raises(MalformedFrame, match="nested tables and arrays"):
        decode(field(b"k", bytes(octets) + bytes(size)))


def test_the_number_of_values_ends_at_its_limit() -> None:
    most = field(b"k", b"A" + sized(b"V" * (VALUES_MAX - 1)))
    array = decode(most)["k"]
    assert isinstance(array, Array)
    assert len(array) == VALUES_MAX - 1
    with pytest.raises(MalformedFrame, match=f"more than {VALUES_MAX} values"):
        decode(field(b"k", b"A" + sized(b"V" * VALUES_MAX)))


# ------------------------------------------------------------------------------------ bad values


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (2**63, ValueError, "field 'k': 9223372036854775808 is out of the range of type 'long'"),
        (Byte(128), ValueError, "field 'k': 128 is out of the range of type 'byte'"),
        (Timestamp(-1), ValueError, "field 'k': -1 is out of the range of type 'timestamp'"),
        (Float(1e39), ValueError, "field 'k': 1e\\+39 is out of the range of type 'float'"),
        (Decimal("NaN"), ValueError, "field 'k': NaN is not a number"),
        (Decimal("Infinity"), ValueError, "field 'k': Infinity is not a number"),
        (Decimal("1e-256"), ValueError, "is out of the range of type 'decimal'"),
        (Decimal("2147483648"), ValueError, "is out of the range of type 'decimal'"),
        (Decimal("1e1000000000"), ValueError, "is out of the range of type 'decimal'"),
        (object(), TypeError, "field 'k': no wire type holds a value of type object"),
        ({"inner": {1, 2}}, TypeError, "field 'k': field 'inner': no wire type .* of type set"),
        ([0, 2**64], ValueError, "field 'k': 18446744073709551616 is out of the range"),
    ],
)
def test_a_value_without_a_wire_type_is_named(
    value: object, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        encode_table({"k": value})


def test_a_field_name_above_255_octets_is_refused() -> None:
    with pytest.raises(ValueError, match="a short string holds 255 octets, not 256"):
        encode_table({"é" * 128: None})
    assert decode_table(encode_table({"é" * 127: None}), 0)[0] == {"é" * 127: None}


def test_a_text_that_no_octets_spell_is_refused_by_the_name_of_its_field() -> None:
    with pytest.raises(ValueError, match=r"field 'name': .*surrogates not allowed"):
        encode_table({"name": "\ud800"})
