"""How single values are read: types by their wire octets, and Erlang's way to print them.

What each argument accepts and refuses is in test_arguments.py.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from hareline.message import Table
from hareline.queues.declare import readers
from hareline.queues.declare.readers import InvalidValue
from hareline.wire.table import TYPE_NAMES, Float, SignedInt, Timestamp, decode_table_body


@pytest.mark.parametrize(
    ("value", "kind", "name"),
    [
        (5, None, "long"),
        (5, "I", "signedint"),
        (SignedInt(5), None, "signedint"),
        (Timestamp(5), None, "timestamp"),
        (Float(5.0), None, "float"),
        (5.0, None, "double"),
        (True, None, "bool"),
        ("5", None, "longstr"),
        (b"5", None, "binary"),
        (Decimal(5), None, "decimal"),
        (Table(), None, "table"),
        ([5], None, "array"),
        (None, None, "void"),
        (object(), None, "object"),
    ],
)
def test_a_type_has_rabbitmqs_name(value: object, kind: str | None, name: str) -> None:
    assert readers.type_name(value, kind) == name


@pytest.mark.parametrize("kind", sorted(TYPE_NAMES))
def test_type_of_every_wire_type_has_the_name_that_rabbitmq_gives_it(kind: str) -> None:
    body = {
        **dict.fromkeys("tbB", b"\x01"),
        **dict.fromkeys("su", b"\x00\x01"),
        **dict.fromkeys("Ii", b"\x00\x00\x00\x01"),
        "f": b"\x3f\x80\x00\x00",
        **dict.fromkeys("lLT", b"\x00" * 7 + b"\x01"),
        "d": b"\x3f\xf0" + b"\x00" * 6,
        "D": b"\x01\x00\x00\x00\x0f",
        **dict.fromkeys("SAFx", b"\x00\x00\x00\x00"),
        "V": b"",
    }[kind]
    value = decode_table_body(b"\x01k" + kind.encode() + body)["k"]
    assert readers.type_name(value) == TYPE_NAMES[kind]


def test_text_is_printed_as_erlang_prints_it() -> None:
    assert readers.quoted('say "a\\b"') == '"say \\"a\\\\b\\""'


@pytest.mark.parametrize(
    ("value", "number"), [(7, 7), (7.9, 7), ("7", 7), ("+7", 7), ("-7", None), (-1, None)]
)
def test_a_qpid_limit_below_0_is_none(value: object, number: int | None) -> None:
    assert readers.qpid_limit(value, readers.type_name(value)) == number


@pytest.mark.parametrize("value", ["", "7.5", "seven", True, float("nan"), None, [7]])
def test_a_qpid_limit_is_a_number_or_spells_one(value: object) -> None:
    with pytest.raises(InvalidValue, match="expected integer"):
        readers.qpid_limit(value, readers.type_name(value))


def test_bounds_of_a_number_are_within_it() -> None:
    read = readers.qpid_integer(1, 3)
    assert [read(value, "long") for value in (1, 2, 3)] == [1, 2, 3]
    for value, term in ((0, "{value_zero,0}"), (-1, "{value_negative,-1}"), (4, "max_value")):
        with pytest.raises(InvalidValue, match=term):
            read(value, "long")
