"""Exported messages: a line of JSON is the same message again, octet for octet."""

from __future__ import annotations

import json
from decimal import Decimal
from random import Random
from struct import pack
from typing import Any

import pytest

from hareline.message import Message, Table, made_message
from hareline.message.exported import InvalidLine, exported, imported
from hareline.wire.properties import Properties, decode_properties, encode_properties
from hareline.wire.table import (
    VALUES_MAX,
    Array,
    Byte,
    Float,
    LongLong,
    Short,
    SignedInt,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
)
from tests.support.messages import make_address

VALUES: tuple[Any, ...] = (
    *(
        True,
        False,
        None,
        "",
        "Grüße \udcff",
        "Not UTF-8, base64 is: /w==",
        b"",
        b"\x00\xff",
        0,
        -1,
        2**63 - 1,
        0.1,
        -0.0,
    ),
    *(float("inf"), Float(1.5), Byte(-1), UnsignedByte(255), Short(-300), UnsignedShort(60000)),
    *(SignedInt(-5), UnsignedInt(4_000_000_000), LongLong(7), Timestamp(2**63), Decimal("-1.50")),
    *(Array([1, "a", Array([])]), Table({"a": Table({"b": None})})),
)


def message_of(octets: bytes, body: bytes = b"", exchange: str = "x", key: str = "k") -> Message:
    return made_message(make_address(exchange, key), octets, body, 1234, 0)


def again(message: Message) -> tuple[str, str, bytes, bytes]:
    line = json.loads(json.dumps(exported(message), ensure_ascii=False).encode())
    found = imported(line)
    return found.exchange, found.routing_key, found.octets, found.body


def octets_of(**properties: Any) -> bytes:
    return encode_properties(Properties(**properties))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_header_of_any_type(value: object) -> None:
    octets = octets_of(headers=Table({"h": value, "\udcff": Table({"v": value})}))
    message = message_of(octets)
    assert "property_octets" not in exported(message)
    assert again(message) == ("x", "k", octets, b"")


def test_all_properties_names_and_bodies() -> None:
    octets = octets_of(
        content_type="text/plain",
        content_encoding="utf-8",
        headers=Table(),
        delivery_mode=2,
        priority=255,
        correlation_id="",
        reply_to="r",
        expiration="1000",
        message_id="\udc80",
        timestamp=Timestamp(2**64 - 1),
        type="t",
        user_id="u",
        app_id="a",
        cluster_id="c",
    )
    for body in (b"", b"text", "Grüße".encode(), b"\x00\xff", bytes(range(256)) * 10):
        message = message_of(octets, body, "ex\udcff", "")
        assert again(message) == ("ex\udcff", "", octets, body)


@pytest.mark.parametrize(
    "octets",
    [
        b"\x20\x00\x00\x00\x00\x08\x01at\x01\x01at\x00",
        b"\x20\x00\x00\x00\x00\x0b\x01ad" + pack(">Q", 0x7FF0_0000_0000_0001),
        b"\x00\x03",
        b"\x80\x00\xffshort",
        b"",
    ],
    ids=["field twice", "signalling NaN", "flags that mean nothing", "not valid", "no flags"],
)
def test_octets_that_properties_do_not_give_again_are_kept(octets: bytes) -> None:
    line = exported(message_of(octets))
    assert "property_octets" in line
    if octets and octets[0] != 0x80:
        assert imported(json.loads(json.dumps(line))).octets == octets
    else:
        with pytest.raises(InvalidLine, match="property_octets"):
            imported(line)


def test_random_octets_of_tables_come_back() -> None:
    random = Random(5)
    for _ in range(300):
        table = Table(
            {f"h{number}": random.choice(VALUES) for number in range(random.randrange(6))}
        )
        octets = octets_of(headers=table, priority=random.choice([None, 3]))
        assert again(message_of(octets))[2] == octets


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ({"exchange": 5}, "exchange: not a text"),
        ({"routing_key": "x" * 256}, "routing_key: longer than 255 octets"),
        ({"exchange": "\ud800"}, "exchange: has characters"),
        ({"body": 5}, "body: not a text"),
        ({"body": "\ud800"}, "body: not valid Unicode"),
        ({"body": "!", "body_encoding": "base64"}, "body: not valid base64"),
        ({"body_encoding": "hex"}, "body_encoding: 'hex' is neither"),
        ({"properties": []}, "properties: not an object"),
        ({"properties": {"nonsense": 1}}, "there is no property 'nonsense'"),
        ({"properties": {"priority": 256}}, "priority: not from 0 to 255"),
        ({"properties": {"priority": "5"}}, "priority: not a whole number"),
        ({"properties": {"type": 5}}, "type: not a text"),
        ({"properties": {"type": "x" * 300}}, "property type"),
        ({"properties": {"headers": {"h": 5}}}, "headers.h: not a pair"),
        ({"properties": {"headers": {"h": ["I", "5"]}}}, "headers.h: not a value of type 'I'"),
        ({"properties": {"headers": {"h": ["b", 500]}}}, "headers"),
        ({"properties": {"headers": {"h": ["Q", 5]}}}, "not a value of type 'Q'"),
        ({"properties": {"headers": {"h": ["D", "x"]}}}, "not a value of type 'D'"),
        ({"properties": {"headers": {"h": ["d", "x"]}}}, "headers.h: not a number"),
        ({"properties": {"headers": {"h": ["A", [["I", 1], 5]]}}}, r"headers.h\[1\]: not a pair"),
        ({"property_octets": "!"}, "property_octets: not valid base64"),
        ({"property_octets": 5}, "property_octets: not a text in base64"),
    ],
)
def test_a_line_that_is_wrong_says_where(line: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidLine, match=text):
        imported(line)


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (["f", 0.2], 0.20000000298023224),  # the nearest of 32 bits
        (["D", "1E+2"], Decimal(100)),
        (["D", "1.50"], Decimal("1.50")),
    ],
)
def test_a_number_is_what_its_octets_say(given: list[Any], value: object) -> None:
    """What routes and sorts an import must be what a consumer reads."""
    found = imported({"properties": {"headers": {"h": given}}})
    assert found.properties == decode_properties(found.octets)
    assert found.properties.headers is not None
    assert found.properties.headers["h"] == value


def test_more_values_than_the_broker_could_read_again_are_refused() -> None:
    line = {"properties": {"headers": {"h": ["A", [["V", None]] * VALUES_MAX]}}}
    with pytest.raises(InvalidLine, match="properties: cannot decode"):
        imported(line)


def test_tables_within_tables_end_somewhere() -> None:
    value: list[Any] = ["V", None]
    for _ in range(200):
        value = ["F", {"n": value}]
    with pytest.raises(InvalidLine, match="more than 64 tables"):
        imported({"properties": {"headers": {"h": value}}})
