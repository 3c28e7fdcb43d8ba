"""Rows in Arrow columns -> what each message is published with.

Column by column, since a Python call for each value would cost more than publishing: a property is
one list of its octets, and the properties of a row are those lists joined (AMQP 0-9-1 section
4.2.6.1). Invariant: ``headers_raw`` stays octet for octet, but for producer fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from hareline.spark.errors import InvalidRows
from hareline.spark.shared.headers import BEHIND_HEADERS, NUMBERS, without_fields
from hareline.spark.writing.producers import (
    PRODUCER_ID,
    PRODUCER_SEQUENCE,
    Lanes,
    producer_fields,
)
from hareline.spark.writing.write_options import WriteOptions
from hareline.wire import constants
from hareline.wire.constants import SHORTSTR_MAX_OCTETS

_LENGTH: Final = [bytes((length,)) for length in range(256)]
_SIZE: Final = Struct(">I")
_SECONDS: Final = Struct(">Q")
_FLAGS: Final = Struct(">H")
_PERSISTENT: Final = b"\2"
_VOID: Final = b"V"
_PRODUCER: Final = b"x-producer-"
_PRODUCER_NAMES: Final = frozenset((PRODUCER_ID.encode(), PRODUCER_SEQUENCE.encode()))
_MICROSECONDS: Final = 1_000_000

#: In the order of the wire; the headers come third.
_BEFORE_HEADERS: Final = (
    (constants.FLAG_CONTENT_TYPE, "content_type"),
    (constants.FLAG_CONTENT_ENCODING, "content_encoding"),
)


class OutgoingRow(NamedTuple):
    """A message to publish; ``properties`` are flags and values as in a content header."""

    exchange: str
    routing_key: str
    properties: bytes
    body: bytes
    mandatory: bool


class _Part(NamedTuple):
    """A property of all rows: the octets of each, empty where it is absent, and its flag."""

    values: Iterable[bytes]
    flag: int
    #: None: all rows have it.
    is_there: Sequence[bool] | None


class RowEncoder:
    """The rows of one partition, in their order."""

    def __init__(
        self,
        columns: Iterable[str],
        options: WriteOptions,
        partition: int,
        lanes: Lanes | None = None,
    ) -> None:
        """``columns`` were checked by `check_columns`; ``lanes`` are for dedup=batch."""
        self._columns = frozenset(columns)
        self._options = options
        self._partition = partition
        self._lanes = lanes
        self._row = 0

    def encode(self, batch: pa.RecordBatch) -> Iterator[OutgoingRow]:
        """The next rows of the partition. Raises InvalidRows for a value no message can have."""
        batch = batch.select([name for name in batch.schema.names if name in self._columns])
        count = batch.num_rows
        rows = map(
            OutgoingRow,
            self._texts(batch, "exchange", self._options.exchange),
            self._texts(batch, "routing_key", self._options.routing_key),
            self._properties(batch),
            self._bodies(batch),
            self._mandatory(batch),
        )
        self._row += count
        return rows

    # ----------------------------------------------------------------------- where, and the body

    def _texts(self, batch: pa.RecordBatch, name: str, given: str | None) -> Iterable[str]:
        if given is not None or name not in self._columns:
            return repeat(given or "", batch.num_rows)
        texts = batch.column(name).to_pylist()
        # at most 255 octets: no text of 63 characters or less has more
        for index, text in enumerate(texts):
            if text is not None and len(text) > 63 and len(text.encode()) > 255:
                self._refuse_long(name, index, len(text.encode()))
        return [text or "" for text in texts]

    def _bodies(self, batch: pa.RecordBatch) -> list[bytes]:
        column = batch.column("body")
        if column.null_count:
            self._refuse("body", _first_null(column), "is null; filter such rows out")
        bodies: list[bytes] = column.cast(pa.large_binary()).to_pylist()
        return bodies

    def _mandatory(self, batch: pa.RecordBatch) -> Iterable[bool]:
        given = self._options.mandatory
        if given is not None or "mandatory" not in self._columns:
            return repeat(given is not False, batch.num_rows)
        return [value is not False for value in batch.column("mandatory").to_pylist()]

    # -------------------------------------------------------------------------------- properties

    def _properties(self, batch: pa.RecordBatch) -> Iterable[bytes]:
        parts = [self._part(batch, *each) for each in _BEFORE_HEADERS if each[1] in self._columns]
        headers = self._headers(batch)
        if headers is not None:
            parts.append(headers)
        if "delivery_mode" not in self._columns:
            mode = repeat(_PERSISTENT, batch.num_rows)
            parts.append(_Part(mode, constants.FLAG_DELIVERY_MODE, None))
        parts += [self._part(batch, *each) for each in BEHIND_HEADERS if each[1] in self._columns]
        values = [part.values for part in parts]
        return map(b"".join, zip(_flags(parts, batch.num_rows), *values, strict=True))

    def _part(self, batch: pa.RecordBatch, flag: int, name: str) -> _Part:
        column = batch.column(name)
        if name in NUMBERS:
            values = self._octets(column, name)
        elif name == "app_timestamp":
            values = self._timestamps(column, name)
        else:
            values = self._short_strings(column, name)
        is_there = column.is_valid().to_pylist() if column.null_count else None
        return _Part(values, flag, is_there)

    def _short_strings(self, column: pa.Array, name: str) -> list[bytes]:
        octets = column.cast(pa.large_binary()).to_pylist()
        try:
            return [b"" if each is None else _LENGTH[len(each)] + each for each in octets]
        except IndexError:
            index = next(i for i, each in enumerate(octets) if each and len(each) > 255)
            self._refuse_long(name, index, len(octets[index]))

    def _octets(self, column: pa.Array, name: str) -> list[bytes]:
        values = column.to_pylist()
        for index, value in enumerate(values):
            if value is not None and not 0 <= value <= 255:
                self._refuse(name, index, f"is {value}; it must be 0 to 255")
        return [b"" if value is None else _LENGTH[value] for value in values]

    def _timestamps(self, column: pa.Array, name: str) -> list[bytes]:
        unit = pa.timestamp("us", column.type.tz)
        values = column.cast(unit).cast(pa.int64()).to_pylist()
        try:
            return [
                b"" if value is None else _SECONDS.pack(value // _MICROSECONDS) for value in values
            ]
        except struct_error:
            index = next(i for i, value in enumerate(values) if value is not None and value < 0)
            self._refuse(name, index, "is before 1970, which AMQP cannot say")

    # ----------------------------------------------------------------------------------- headers

    def _headers(self, batch: pa.RecordBatch) -> _Part | None:
        """The headers table: of ``headers_raw``, else of ``headers``, and the producer's fields."""
        fields: list[bytes | None] | None = None
        if "headers" in self._columns:
            fields = self._mapped(batch.column("headers"))
        if "headers_raw" in self._columns:
            raw = self._raw(batch.column("headers_raw"))
            fields = (
                raw
                if fields is None
                else [
                    each if each is not None else mapped
                    for each, mapped in zip(raw, fields, strict=True)
                ]
            )
        producer = self._producer_fields(batch)
        if producer is not None:
            if fields is None:
                fields = list(producer)
            else:  # in front, where the broker finds them quickest
                fields = [
                    own + _without_producer(each) if each else own
                    for each, own in zip(fields, producer, strict=True)
                ]
        if fields is None:
            return None
        is_there = [each is not None for each in fields]
        values = [b"" if each is None else _SIZE.pack(len(each)) + each for each in fields]
        return _Part(values, constants.FLAG_HEADERS, None if all(is_there) else is_there)

    def _raw(self, column: pa.Array) -> list[bytes | None]:
        """The fields of tables in octets, without their length."""
        tables = column.cast(pa.large_binary()).to_pylist()
        for index, table in enumerate(tables):
            if table is not None and int.from_bytes(table[:4], "big") != len(table) - 4:
                self._refuse(
                    "headers_raw", index, "is not an AMQP table that begins with its length"
                )
        return [None if table is None else table[4:] for table in tables]

    def _mapped(self, column: pa.Array) -> list[bytes | None]:
        """The fields of tables of texts."""
        offsets = column.offsets.to_pylist()
        first, last = offsets[0], offsets[-1]
        names = column.keys.slice(first, last - first).cast(pa.large_binary()).to_pylist()
        texts = column.items.slice(first, last - first).cast(pa.large_binary()).to_pylist()
        try:
            fields = [
                _LENGTH[len(name)] + name + (_VOID if text is None else _long_string(text))
                for name, text in zip(names, texts, strict=True)
            ]
        except IndexError:
            index = next(i for i, name in enumerate(names) if len(name) > 255)
            row = next(i for i, end in enumerate(offsets[1:]) if first + index < end)
            self._refuse("headers", row, "has a name of more than 255 octets")
        is_there = column.is_valid().to_pylist()
        return [
            b"".join(fields[start - first : end - first]) if there else None
            for start, end, there in zip(offsets, offsets[1:], is_there, strict=False)
        ]

    def _producer_fields(self, batch: pa.RecordBatch) -> list[bytes] | None:
        if self._lanes is not None:
            return self._lanes.fields(self._row, batch.num_rows)
        if self._options.dedup != "column":
            return None
        column = batch.column("dedup_key")
        if column.null_count:
            self._refuse("dedup_key", _first_null(column), "is null; each row needs a key")
        keys = column.cast(pa.large_binary()).to_pylist()
        for index, key in enumerate(keys):
            if not 0 < len(key) <= SHORTSTR_MAX_OCTETS:
                self._refuse("dedup_key", index, f"has {len(key)} octets; it must have 1 to 255")
        return [producer_fields(key, 1) for key in keys]

    # ------------------------------------------------------------------------------------ errors

    def _refuse_long(self, name: str, index: int, size: int) -> NoReturn:
        self._refuse(name, index, f"has {size} octets; AMQP allows 255")

    def _refuse(self, name: str, index: int, problem: str) -> NoReturn:
        row = self._row + index
        raise InvalidRows(f"column {name!r} {problem} (row {row} of partition {self._partition})")


def _flags(parts: Sequence[_Part], count: int) -> Iterable[bytes]:
    """The two octets of flags of each row."""
    always = sum(part.flag for part in parts if part.is_there is None)
    varying = [part for part in parts if part.is_there is not None]
    if not varying:
        return repeat(_FLAGS.pack(always), count)
    known: dict[tuple[bool, ...], bytes] = {}
    octets = []
    for row in zip(*(part.is_there for part in varying if part.is_there is not None), strict=True):
        found = known.get(row)
        if found is None:
            some = sum(part.flag for part, there in zip(varying, row, strict=True) if there)
            found = known[row] = _FLAGS.pack(always + some)
        octets.append(found)
    return octets


def _long_string(octets: bytes) -> bytes:
    return b"S" + _SIZE.pack(len(octets)) + octets


def _without_producer(fields: bytes) -> bytes:
    """The same fields without those of another producer; hardly any table has them."""
    return without_fields(fields, _PRODUCER_NAMES) if _PRODUCER in fields else fields


def _first_null(column: pa.Array) -> int:
    index: Any = pc.index(column.is_null(), value=True).as_py()
    return int(index)
