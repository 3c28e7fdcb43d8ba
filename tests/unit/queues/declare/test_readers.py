"""How single values are read: types by their wire octets, and Erlang's way to print them.

What each argument accepts and refuses is in test_arguments.py.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from hareline.message import Table
from hareline.queues.declare import readers
from hareline.queues.declare.readers import InvalidValue
from hareline.wire.table import Float, SignedInt, Timestamp


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
