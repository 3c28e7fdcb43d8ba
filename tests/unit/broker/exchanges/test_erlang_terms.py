"""The expected texts were read from replies of RabbitMQ 3.10.8."""

from __future__ import annotations

from decimal import Decimal

import pytest

from hareline.broker.exchanges.erlang_terms import binary_term, term, type_name
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


@pytest.mark.parametrize("kind", sorted(table.TYPE_NAMES))
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
    value = table.decode_table_body(b"\x01k" + kind.encode() + body)["k"]
    assert type_name(value) == table.TYPE_NAMES[kind]
