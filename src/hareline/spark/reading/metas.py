"""Metas of a chunk (exchange, routing key, properties) as lists of values, a list a column.

A meta is read only as deep as the columns need: the address, the headers behind it, or everything.
Addresses and headers, which many messages share, are handed out once each, as octets.
Invariant: what is not UTF-8 becomes U+FFFD in a text; only ``headers_raw`` keeps all octets.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from hareline.errors import MalformedFrame
from hareline.spark.shared.headers import BEHIND_HEADERS, NUMBERS
from hareline.wire import constants
from hareline.wire.table import decode_table

#: Seconds since 1970 that Spark's microseconds in 63 bits can say.
_SECONDS_MAX: Final = (1 << 63) // 1_000_000 - 1
_CONTENT_TYPE: Final = constants.FLAG_CONTENT_TYPE >> 8
_CONTENT_ENCODING: Final = constants.FLAG_CONTENT_ENCODING >> 8
_HEADERS: Final = constants.FLAG_HEADERS >> 8

ADDRESS: Final = frozenset(("exchange", "routing_key"))
HEADERS: Final = frozenset(("headers", "headers_raw"))
PROPERTIES: Final = frozenset(
    ("content_type", "content_encoding", *(name for _, name in BEHIND_HEADERS))
)
IN_METAS: Final = ADDRESS | HEADERS | PROPERTIES

_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

Value = str | int | bytes | None


@dataclass(slots=True)
class Metas:
    """Contents of metas; addresses and tables stand once each, and metas have their indexes.

    ``tables`` are octets of `hareline.wire.table`; ``properties`` has a list for each other column.
    Empty is what the columns do not need.
    """

    addresses: dict[bytes, int] = field(default_factory=dict)
    address_of: list[int] = field(default_factory=list)
    tables: dict[bytes, int] = field(default_factory=dict)
    table_of: list[int | None] = field(default_factory=list)
    properties: dict[str, list[Value]] = field(default_factory=dict)

    def address_texts(self) -> tuple[list[str], list[str]]:
        """Exchange and routing key of each address."""
        exchanges, keys = [], []
        for address in self.addresses:
            between = 1 + address[0]
            exchanges.append(str(address[1:between], "utf-8", "replace"))
            keys.append(str(address[between + 1 :], "utf-8", "replace"))
        return exchanges, keys


def decode_metas(metas: Iterable[bytes], columns: Collection[str]) -> Metas:
    """Decode what these columns need of the metas. Raises MalformedFrame."""
    decoded = Metas()
    with_properties = not PROPERTIES.isdisjoint(columns)
    if with_properties:
        decoded.properties = {name: [] for name in PROPERTIES}
    is_deep = with_properties or not HEADERS.isdisjoint(columns)
    try:
        _walk(metas, decoded, is_deep, with_properties)
    except IndexError:
        raise MalformedFrame("properties run past the end of their octets") from None
    return decoded


def _walk(metas: Iterable[bytes], decoded: Metas, is_deep: bool, with_properties: bool) -> None:
    """Append what is in each meta. Raises IndexError where one ends too early."""
    addresses, tables, properties = decoded.addresses, decoded.tables, decoded.properties
    add_address, add_table = decoded.address_of.append, decoded.table_of.append
    for meta in metas:
        position = 2 + meta[0] + meta[1 + meta[0]]
        add_address(addresses.setdefault(meta[:position], len(addresses)))
        if not is_deep:
            continue
        first = meta[position]
        flags = first << 8 | meta[position + 1]
        position += 2
        content_type = encoding = None
        if first & _CONTENT_TYPE:
            end = position + 1 + meta[position]
            content_type = meta[position + 1 : end]
            position = end
        if first & _CONTENT_ENCODING:
            end = position + 1 + meta[position]
            encoding = meta[position + 1 : end]
            position = end
        if first & _HEADERS:
            end = position + 4 + int.from_bytes(meta[position : position + 4], "big")
            add_table(tables.setdefault(meta[position:end], len(tables)))
            position = end
        else:
            add_table(None)
        if with_properties:
            properties["content_type"].append(_text(content_type))
            properties["content_encoding"].append(_text(encoding))
            position = _read_behind_headers(meta, position, flags, properties)
        if position > len(meta):
            raise IndexError


def _read_behind_headers(
    meta: bytes, position: int, flags: int, values: dict[str, list[Value]]
) -> int:
    """Append a value to each list; returns the position behind what was read."""
    for flag, name in BEHIND_HEADERS:
        if not flags & flag:
            values[name].append(None)
        elif flag == constants.FLAG_TIMESTAMP:
            seconds = int.from_bytes(meta[position : position + 8], "big")
            values[name].append(seconds * 1_000_000 if seconds <= _SECONDS_MAX else None)
            position += 8
        elif name in NUMBERS:
            values[name].append(meta[position])
            position += 1
        else:
            end = position + 1 + meta[position]
            values[name].append(str(meta[position + 1 : end], "utf-8", "replace"))
            position = end
    return position


def header_texts(table: bytes) -> dict[str, str | None]:
    """The headers in these octets of a table, as texts. Raises MalformedFrame."""
    return {_whole(name): _header_text(value) for name, value in decode_table(table, 0)[0].items()}


def _text(octets: bytes | None) -> str | None:
    return None if octets is None else str(octets, "utf-8", "replace")


def _header_text(value: object) -> str | None:
    """A text as it is, true and false, numbers as digits, binary as Base64, the rest as JSON."""
    value = _plain(value)
    return value if value is None or isinstance(value, str) else _JSON(value)


def _plain(value: object) -> object:
    """The value in the types of JSON."""
    if isinstance(value, str):
        return _whole(value)
    if isinstance(value, int):
        return value
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float) and not math.isfinite(value):
        return repr(float(value))
    if isinstance(value, dict):
        return {_whole(str(name)): _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def _whole(text: str) -> str:
    """The text without the surrogates that stand for octets that are not UTF-8."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
