"""Which headers number a message, and what is said of those that do not."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.amqp.inspection import publish_number
from hareline.broker.producers import PublishNumber
from hareline.errors import MalformedFrame, PreconditionFailed
from hareline.wire.plain_properties import NUMBER, PRODUCER_MARK, walk
from hareline.wire.properties import Properties, encode_properties
from hareline.wire.table import (
    Byte,
    LongLong,
    Short,
    SignedInt,
    Table,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
)

ID, SEQUENCE = "x-producer-id", "x-producer-seq"


def octets(**values: object) -> bytes:
    """``id`` and ``seq``, with another header in front of each."""
    headers = Table({"first": "x-producer-"})
    for word, name in (("id", ID), ("seq", SEQUENCE)):
        if word in values:
            headers[name] = values[word]
            headers[f"behind {word}"] = [1, Table({ID: "nested", SEQUENCE: 99})]
    return encode_properties(Properties(content_type="text/plain", headers=headers))


def test_both_names_have_the_mark() -> None:
    assert PRODUCER_MARK in ID.encode()
    assert PRODUCER_MARK in SEQUENCE.encode()


@pytest.mark.parametrize(
    "kind", [Byte, UnsignedByte, Short, UnsignedShort, SignedInt, UnsignedInt, LongLong, int]
)
@pytest.mark.parametrize("number", [0, 1, 127])
def test_an_integer_of_any_width_is_a_sequence(kind: type[int], number: int) -> None:
    assert publish_number(octets(id="orders", seq=kind(number))) == PublishNumber(b"orders", number)


def test_the_highest_sequence_has_63_bits() -> None:
    number = (1 << 63) - 1
    assert publish_number(octets(id="orders", seq=number)) == PublishNumber(b"orders", number)


@pytest.mark.parametrize("text", ["a", "\u00e9tage", "x" * 255, "\u00e9" * 127, "\udcff"])
def test_the_id_is_kept_as_the_octets_that_came(text: str) -> None:
    number = publish_number(octets(id=text, seq=1))
    assert number == PublishNumber(text.encode("utf-8", "surrogateescape"), 1)


def test_neither_header_is_no_number() -> None:
    assert publish_number(octets()) is None
    assert publish_number(encode_properties(Properties(type="x-producer-id"))) is None


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"seq": 1}, "header 'x-producer-seq' needs 'x-producer-id' beside it"),
        ({"id": "a"}, "header 'x-producer-id' needs 'x-producer-seq' beside it"),
        (
            {"id": None, "seq": None},
            "header 'x-producer-id' must be text, not of type void",
        ),
        ({"id": "a", "seq": None}, "header 'x-producer-seq' must be an integer, not of type void"),
        ({"id": 5, "seq": 1}, "header 'x-producer-id' must be text, not of type long"),
        ({"id": b"a", "seq": 1}, "header 'x-producer-id' must be text, not of type binary"),
        ({"id": "", "seq": 1}, "header 'x-producer-id' must not be empty"),
        (
            {"id": "x" * 256, "seq": 1},
            "header 'x-producer-id' has 256 octets, at most 255 are allowed",
        ),
        (
            {"id": "\u00e9" * 128, "seq": 1},
            "header 'x-producer-id' has 256 octets, at most 255 are allowed",
        ),
        (
            {"id": "a", "seq": "1"},
            "header 'x-producer-seq' must be an integer, not of type longstr",
        ),
        ({"id": "a", "seq": True}, "header 'x-producer-seq' must be an integer, not of type bool"),
        (
            {"id": "a", "seq": Timestamp(5)},
            "header 'x-producer-seq' must be an integer, not of type timestamp",
        ),
        ({"id": "a", "seq": 1.5}, "header 'x-producer-seq' must be an integer, not of type double"),
        ({"id": "a", "seq": -1}, "header 'x-producer-seq' must be 0 or more, not -1"),
        ({"id": "a", "seq": Short(-7)}, "header 'x-producer-seq' must be 0 or more, not -7"),
    ],
)
def test_what_is_no_number_is_refused_by_name(values: dict[str, object], text: str) -> None:
    with pytest.raises(PreconditionFailed) as raised:
        publish_number(octets(**values))
    assert raised.value.explanation == text


@pytest.mark.parametrize("before", [{}, {"content_type": "a/b"}, {"content_encoding": "gzip"}])
@pytest.mark.parametrize("is_id_first", [True, False])
def test_a_number_is_found_wherever_it_stands(before: dict[str, Any], is_id_first: bool) -> None:
    for more in ({}, {"z": 1}):
        headers = Table({ID: "a", SEQUENCE: 5, **more})
        if not is_id_first:
            headers = Table(reversed(headers.items()))
        found = publish_number(encode_properties(Properties(headers=headers, **before)))
        assert found == PublishNumber(b"a", 5)


def test_of_several_headers_of_one_name_the_first_counts() -> None:
    first = encode_properties(Properties(headers=Table({ID: "a", SEQUENCE: 5})))
    fields = first[6:]
    octets = first[:2] + (2 * len(fields)).to_bytes(4, "big") + fields + fields.replace(b"a", b"b")
    assert publish_number(octets) == PublishNumber(b"a", 5)


def test_octets_that_are_no_table_are_malformed() -> None:
    whole = encode_properties(Properties(headers=Table({ID: "a", SEQUENCE: 5})))
    with pytest.raises(MalformedFrame):
        publish_number(whole[:-3])


def test_numbered_properties_are_not_plain_unless_that_is_left_aside() -> None:
    numbered = octets(id="a", seq=1)
    assert not walk(numbered, b"guest")
    assert walk(numbered, b"guest", NUMBER)
    assert not walk(octets(seq=1), b"guest")
