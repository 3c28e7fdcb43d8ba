"""The expected texts were read from replies of RabbitMQ 3.10.8."""

from __future__ import annotations

from decimal import Decimal

import pytest

from hareline.broker.exchanges.erlang_terms import binary_term, term
from hareline.wire import table
from hareline.wire.table import Array, Table


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x", '<<"x">>'),
        ("", "<<>>"),
        (b"all", '<<"all">>'),
        ('é"\\', '<<"é\\"\\\\">>'),
        ("a\x01", "<<97,1>>"),
        ("日本", "<<230,151,165,230,156,172>>"),
        ("tab\there\n", '<<"tab\\there\\n">>'),
        ("\x7f", "<<127>>"),
        ("\udcff", '<<"\ufffd">>'),  # an octet that was not UTF-8, but is printable in Latin-1
        ("\udc80", "<<128>>"),
    ],
)
def test_text_and_octets_are_written_as_a_binary(value: str | bytes, expected: str) -> None:
    assert binary_term(value) == expected
    assert term(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, "5"),
        (table.SignedInt(-5), "-5"),
        (True, "true"),
        (False, "false"),
        (None, "undefined"),
        (table.Timestamp(1577836800), "1577836800"),
        (Decimal("1.5"), "{1,15}"),
        (Decimal("-0.25"), "{2,-25}"),
        (Decimal("7"), "{0,7}"),
        (Array([table.SignedInt(1)]), "[{signedint,1}]"),
        (Array(["a", True]), '[{longstr,<<"a">>},{bool,true}]'),
        (Table(a=table.SignedInt(1)), '[{<<"a">>,signedint,1}]'),
        (Table(a="b", c=Array([])), '[{<<"a">>,longstr,<<"b">>},{<<"c">>,array,[]}]'),
    ],
)
def test_value_is_written_as_erlang_prints_it(value: object, expected: str) -> None:
    assert term(value) == expected
