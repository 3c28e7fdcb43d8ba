"""Messages as lines of JSON, and back, octet for octet: the format of exported messages.

docs/message-operations.md describes it. A header's value is ``[kind, value]`` with its type on the
wire. Where that would not give the same octets again (a field twice, the payload of a NaN), the
line has the octets of the properties as well, and they count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from hareline.errors import MalformedFrame
from hareline.message.message import Message
from hareline.octets import (
    base64_of,
    exact,
    octets_of_base64,
    restored,
    text_or_base64,
    with_texts,
)
from hareline.wire.constants import SHORTSTR_MAX_OCTETS
from hareline.wire.properties import Properties, decode_properties, encode_properties
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
    kind_of,
)

FORMAT: Final = "hareline-messages"
FORMAT_VERSION: Final = 1
DEPTH_MAX: Final = 64

_INTEGERS: Final[Mapping[str, Callable[[int], int]]] = {
    "b": Byte,
    "B": UnsignedByte,
    "s": Short,
    "u": UnsignedShort,
    "I": SignedInt,
    "i": UnsignedInt,
    "l": int,
    "L": LongLong,
    "T": Timestamp,
}
_TEXTS: Final = frozenset(
    field.name
    for field in fields(Properties)
    if field.name not in ("headers", "delivery_mode", "priority", "timestamp")
)
_NUMBERS: Final = {"delivery_mode": 255, "priority": 255, "timestamp": 2**64 - 1}


class InvalidLine(ValueError):
    """Raised for a line that is no exported message; says what is wrong, and where."""


class ImportedMessage(NamedTuple):
    """Message of a line. ``properties``: decoded from ``octets``."""

    exchange: str
    routing_key: str
    octets: bytes
    properties: Properties
    body: bytes


# ------------------------------------------------------------------------------------- to JSON


def exported(message: Message) -> dict[str, Any]:
    """The fields of a line. Raises StoreError for a body that cannot be read."""
    line = exported_head(message)
    line["body"], is_base64 = text_or_base64(message.body)
    line["body_encoding"] = "base64" if is_base64 else "utf-8"
    return line


def exported_head(message: Message) -> dict[str, Any]:
    """The fields of a line but for the body."""
    line: dict[str, Any] = {
        "exchange": exact(message.address.exchange),
        "routing_key": exact(message.address.routing_key),
        "arrival_ms": message.arrival_ms,
    }
    octets = message.property_octets
    try:
        properties = decode_properties(octets)
        line["properties"] = with_texts(typed_properties(properties), exact)
        is_exact = encode_properties(_read_properties(line["properties"])) == octets
    except (MalformedFrame, ValueError):
        is_exact = False
    if not is_exact:
        line["property_octets"] = base64_of(octets)
    return line


def typed_properties(properties: Properties) -> dict[str, Any]:
    """The properties that are set; headers with the letters of their types."""
    found: dict[str, Any] = {}
    for field in fields(Properties):
        value = getattr(properties, field.name)
        if value is None:
            continue
        if field.name == "headers":
            found["headers"] = {name: _typed(each) for name, each in value.items()}
        else:
            found[field.name] = value if isinstance(value, str) else int(value)
    return found


def _typed(value: object) -> list[Any]:
    kind = kind_of(value)
    if isinstance(value, Mapping):
        return [kind, {name: _typed(each) for name, each in value.items()}]
    if isinstance(value, list | tuple):
        return [kind, [_typed(each) for each in value]]
    if isinstance(value, bytes):
        return [kind, base64_of(value)]
    if isinstance(value, Decimal):
        return [kind, str(value)]
    if isinstance(value, float):
        return [kind, float(value) if math.isfinite(value) else str(float(value))]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return [kind, value]
    assert isinstance(value, int), value
    return [kind, int(value)]


# ----------------------------------------------------------------------------------- from JSON


def imported(line: Mapping[str, Any]) -> ImportedMessage:
    """Read the message of a line. Raises InvalidLine."""
    exchange, routing_key = _name_in(line, "exchange"), _name_in(line, "routing_key")
    octets = line.get("property_octets")
    field = "properties" if octets is None else "property_octets"
    try:
        if octets is None:
            octets = encode_properties(_read_properties(line.get("properties", {})))
        else:
            octets = _unarmored(octets, field)
        properties = decode_properties(octets)  # numbers as they are on the wire
    except InvalidLine:
        raise
    except ValueError as error:
        raise InvalidLine(str(error)) from None
    except MalformedFrame as error:
        raise InvalidLine(f"{field}: {error.explanation}") from None
    return ImportedMessage(exchange, routing_key, octets, properties, _body_in(line))


def _name_in(line: Mapping[str, Any], field: str) -> str:
    name = line.get(field, "")
    if not isinstance(name, str):
        raise InvalidLine(f"{field}: not a text")
    name = restored(name)
    try:
        octets = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidLine(f"{field}: has characters that no name may have") from None
    if len(octets) > SHORTSTR_MAX_OCTETS:
        raise InvalidLine(f"{field}: longer than {SHORTSTR_MAX_OCTETS} octets")
    return name


def _body_in(line: Mapping[str, Any]) -> bytes:
    body, encoding = line.get("body", ""), line.get("body_encoding", "utf-8")
    if not isinstance(body, str):
        raise InvalidLine("body: not a text")
    if encoding == "base64":
        return _unarmored(body, "body")
    if encoding != "utf-8":
        raise InvalidLine(f"body_encoding: '{encoding}' is neither 'utf-8' nor 'base64'")
    try:
        return body.encode()
    except UnicodeEncodeError:
        raise InvalidLine("body: not valid Unicode; use base64") from None


def _read_properties(given: object) -> Properties:
    if not isinstance(given, Mapping):
        raise InvalidLine("properties: not an object")
    properties = Properties()
    for name, value in given.items():
        if value is None:
            continue
        if name == "headers":
            properties.headers = _table(value, "headers", DEPTH_MAX)
        elif name in _TEXTS:
            if not isinstance(value, str):
                raise InvalidLine(f"properties: {name}: not a text")
            setattr(properties, name, restored(value))
        elif name in _NUMBERS:
            if isinstance(value, bool) or not isinstance(value, int):
                raise InvalidLine(f"properties: {name}: not a whole number")
            if not 0 <= value <= _NUMBERS[name]:
                raise InvalidLine(f"properties: {name}: not from 0 to {_NUMBERS[name]}")
            setattr(properties, name, Timestamp(value) if name == "timestamp" else value)
        else:
            raise InvalidLine(f"properties: there is no property '{name}'")
    return properties


def _table(given: object, place: str, depth_left: int) -> Table:
    if not isinstance(given, Mapping):
        raise InvalidLine(f"{place}: not an object")
    if depth_left <= 0:
        raise InvalidLine(f"{place}: more than {DEPTH_MAX} tables within each other")
    return Table(
        {
            restored(name): _value(each, f"{place}.{name}", depth_left)
            for name, each in given.items()
        }
    )


def _value(given: object, place: str, depth_left: int) -> object:
    if not isinstance(given, list) or len(given) != 2 or not isinstance(given[0], str):
        raise InvalidLine(f"{place}: not a pair of the letter of a type and a value")
    kind, value = given
    if kind == "F":
        return _table(value, place, depth_left - 1)
    if kind == "A":
        if not isinstance(value, list) or depth_left <= 1:
            raise InvalidLine(f"{place}: not an array, or within too many others")
        return Array(
            [_value(each, f"{place}[{at}]", depth_left - 1) for at, each in enumerate(value)]
        )
    if kind in _INTEGERS and isinstance(value, int) and not isinstance(value, bool):
        return _INTEGERS[kind](value)
    if kind in ("d", "f") and isinstance(value, int | float | str) and not isinstance(value, bool):
        return _number(kind, value, place)
    if kind == "S" and isinstance(value, str):
        return restored(value)
    if kind == "t" and isinstance(value, bool):
        return value
    if kind == "V" and value is None:
        return None
    if kind == "x":
        return _unarmored(value, place)
    if kind == "D" and isinstance(value, str):
        try:
            return Decimal(value)
        except InvalidOperation:
            pass
    raise InvalidLine(f"{place}: not a value of type '{kind}'")


def _number(kind: str, value: float | str, place: str) -> float:
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise InvalidLine(f"{place}: not a number") from None
    return Float(number) if kind == "f" else number


def _unarmored(text: object, place: str) -> bytes:
    if not isinstance(text, str):
        raise InvalidLine(f"{place}: not a text in base64")
    try:
        return octets_of_base64(text)
    except ValueError as error:
        raise InvalidLine(f"{place}: {error}") from None
