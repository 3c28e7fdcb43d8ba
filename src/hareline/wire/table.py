"""Field tables: AMQP's typed dictionaries, decoded and encoded without losing a type.

Called by ``wire.methods`` and ``wire.properties`` for every table of the protocol, and by
``auth.mechanisms`` for AMQPLAIN. Invariant: a decoded table re-encodes to the same octets,
because every value carries its wire type. Wire types that Python has become that Python type; all
others become a subclass that knows its type octet, so a value keeps its type when it is copied,
moved or put into another table:

====  ===============  ==================  =====================================================
kind  RabbitMQ's name  Python              octets
====  ===============  ==================  =====================================================
t     bool             bool                1 (0 is false, any other is true and is written as 1)
b     byte             Byte(int)           1, signed
B     unsignedbyte     UnsignedByte(int)   1
s     short            Short(int)          2, signed
u     unsignedshort    UnsignedShort(int)  2
I     signedint        SignedInt(int)      4, signed
i     unsignedint      UnsignedInt(int)    4
l     long             int                 8, signed
L     long             LongLong(int)       8, signed: RabbitMQ reads both alike (AMQP errata)
f     float            Float(float)        4
d     double           float               8
D     decimal          Decimal             scale octet + signed 4
S     longstr          str                 4 + n; octets that are not UTF-8 become surrogates
A     array            Array(list)         4 + n
T     timestamp        Timestamp(int)      8, unsigned, seconds since 1970
F     table            Table(dict)         4 + n
V     void             None                0
x     binary           bytes               4 + n
====  ===============  ==================  =====================================================

So the broker writes plain Python values: int is ``l``, str ``S``, bool ``t``. Sources:
AMQP 0-9-1 section 4.2.5, the errata on rabbitmq.com, ``rabbit_binary_parser``. Three things are
not kept: a field repeated under one name (illegal in section 4.2.5.5; the first one counts, as in
RabbitMQ's lookups), which non-zero octet stood for true, and the signalling bit of a NaN.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar, Final

from hareline.errors import MalformedFrame
from hareline.wire.constants import SHORTSTR_MAX_OCTETS

DEPTH_MAX: Final = 64  # nested tables and arrays; keeps the recursion within the stack
VALUES_MAX: Final = 65_536  # in one table with all nested ones; a void is one octet


class Byte(int):
    """Wire type ``b``."""

    __slots__ = ()
    kind: ClassVar[str] = "b"


class UnsignedByte(int):
    """Wire type ``B``."""

    __slots__ = ()
    kind: ClassVar[str] = "B"


class Short(int):
    """Wire type ``s``."""

    __slots__ = ()
    kind: ClassVar[str] = "s"


class UnsignedShort(int):
    """Wire type ``u``."""

    __slots__ = ()
    kind: ClassVar[str] = "u"


class SignedInt(int):
    """Wire type ``I``."""

    __slots__ = ()
    kind: ClassVar[str] = "I"


class UnsignedInt(int):
    """Wire type ``i``."""

    __slots__ = ()
    kind: ClassVar[str] = "i"


class LongLong(int):
    """Wire type ``L``; signed, like ``l``."""

    __slots__ = ()
    kind: ClassVar[str] = "L"


class Float(float):
    """Wire type ``f``: the value of a 4-octet float."""

    __slots__ = ()
    kind: ClassVar[str] = "f"


class Timestamp(int):
    """Wire type ``T``: whole seconds since 1970, 0 to 2**64 - 1. Not a datetime, because clients
    also put milliseconds here, and years that datetime does not know."""

    __slots__ = ()
    kind: ClassVar[str] = "T"


class Array(list[object]):
    """Wire type ``A``: a decoded array. Any list or tuple encodes the same way."""

    __slots__ = ()
    kind: ClassVar[str] = "A"


class Table(dict[str, object]):
    """Wire type ``F``: a decoded table. Any mapping encodes the same way."""

    __slots__ = ()
    kind: ClassVar[str] = "F"

    @property
    def kinds(self) -> dict[str, str]:
        """The wire type octet of each value, as it is written: ``{"x-max-length": "I"}``."""
        return {key: kind_of(value) for key, value in self.items()}


TYPE_NAMES: Final[Mapping[str, str]] = {
    "t": "bool",
    "b": "byte",
    "B": "unsignedbyte",
    "s": "short",
    "u": "unsignedshort",
    "I": "signedint",
    "i": "unsignedint",
    "l": "long",
    "L": "long",
    "f": "float",
    "d": "double",
    "D": "decimal",
    "S": "longstr",
    "A": "array",
    "T": "timestamp",
    "F": "table",
    "V": "void",
    "x": "binary",
}


# ------------------------------------------------------------------------------------- decoding


def decode_table(data: bytes | memoryview, position: int) -> tuple[Table, int]:
    """The table whose four length octets begin at ``position``, and the position behind it.

    Raises MalformedFrame saying what is wrong, at which octet behind the length, in which value.
    """
    start = position + 4
    left = len(data) - start
    if left < 0:
        raise MalformedFrame("field table: its length needs 4 octets")
    size = int.from_bytes(data[position:start], "big")
    if size > left:
        raise MalformedFrame(f"field table: {size} octets announced, {left} are left")
    if size == 0:
        return Table(), start
    if isinstance(data, bytes):
        return _decode_fields(data, start, start + size), start + size
    return _decode_fields(bytes(data[start : start + size]), 0, size), start + size


def decode_table_body(octets: bytes) -> Table:
    """A table without a length: all of ``octets`` are its fields (AMQPLAIN)."""
    return _decode_fields(octets, 0, len(octets))


def decode_value(octets: bytes, position: int, end: int) -> object:
    """The value whose type octet is at ``position``; ``end`` is the end of its table.

    Raises MalformedFrame saying what is wrong, at which octet from the type octet on.
    """
    try:
        return _Walk(octets).value(position, end, DEPTH_MAX)[0]
    except _Undecodable as problem:
        raise _malformed(problem, position) from None


def _decode_fields(octets: bytes, start: int, end: int) -> Table:
    try:
        return _Walk(octets).fields(start, end, DEPTH_MAX)
    except _Undecodable as problem:
        raise _malformed(problem, start) from None


def _malformed(problem: _Undecodable, start: int) -> MalformedFrame:
    place = "".join(reversed(problem.path)).lstrip(".")
    inside = f" in {place}" if place else ""
    return MalformedFrame(
        f"field table: {problem.reason} at octet {problem.position - start}{inside}"
    )


class _Undecodable(Exception):
    """A bad octet; collects the keys and indexes on its way up, innermost first."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position
        self.path: list[str] = []


Maker = Callable[[Any], object]

# kind octet -> unpack at a position, size, and what to make of the number (None: it is right)
_FIXED_SIZE: Final[dict[int, tuple[Callable[[bytes, int], tuple[Any, ...]], int, Maker | None]]] = {
    ord(kind): (struct.Struct(layout).unpack_from, struct.calcsize(layout), make)
    for kind, layout, make in (
        ("t", ">?", None),
        ("b", ">b", Byte),
        ("B", ">B", UnsignedByte),
        ("s", ">h", Short),
        ("u", ">H", UnsignedShort),
        ("I", ">i", SignedInt),
        ("i", ">I", UnsignedInt),
        ("l", ">q", None),
        ("L", ">q", LongLong),
        ("f", ">f", Float),
        ("d", ">d", None),
        ("T", ">Q", Timestamp),
    )
}
_LONG_STRING: Final = ord("S")
_BINARY: Final = ord("x")
_TABLE: Final = ord("F")
_ARRAY: Final = ord("A")
_VOID: Final = ord("V")
_DECIMAL: Final = ord("D")
FIXED_SIZES: Final[Mapping[int, int]] = {  # of the value behind the type octet
    **{kind: size for kind, (_, size, _) in _FIXED_SIZE.items()},
    _VOID: 0,
    _DECIMAL: 5,
}
_SIZED: Final = frozenset((_LONG_STRING, _BINARY, _TABLE, _ARRAY))


class _Walk:
    """One pass over the octets of one table; counts the values as it goes."""

    __slots__ = ("octets", "values_left")

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.values_left = VALUES_MAX

    def fields(self, position: int, end: int, depth_left: int) -> Table:
        """The table between two positions."""
        octets = self.octets
        table = Table()
        while position < end:
            key_start = position + 1
            key_end = key_start + octets[position]
            if key_end >= end:
                raise _Undecodable("a field needs a name, a type and a value", position)
            key = str(octets[key_start:key_end], "utf-8", "surrogateescape")
            try:
                value, position = self.value(key_end, end, depth_left)
            except _Undecodable as problem:
                problem.path.append(f".{key}")
                raise
            if key not in table:
                table[key] = value
        return table

    def items(self, position: int, end: int, depth_left: int) -> Array:
        """The array between two positions."""
        array = Array()
        while position < end:
            try:
                value, position = self.value(position, end, depth_left)
            except _Undecodable as problem:
                problem.path.append(f"[{len(array)}]")
                raise
            array.append(value)
        return array

    def value(self, position: int, end: int, depth_left: int) -> tuple[object, int]:
        """The value whose type octet stands at ``position``, and the position behind it."""
        self.values_left -= 1
        if self.values_left < 0:
            raise _Undecodable(f"more than {VALUES_MAX} values", position)
        kind = self.octets[position]
        start = position + 1
        fixed = _FIXED_SIZE.get(kind)
        if fixed is not None:
            unpack_from, size, make = fixed
            if start + size > end:
                raise _short(position, kind, size, end)
            number = unpack_from(self.octets, start)[0]
            return (number if make is None else make(number)), start + size
        if kind in _SIZED:
            return self._sized(kind, position, end, depth_left)
        if kind == _VOID:
            return None, start
        if kind == _DECIMAL:
            if start + 5 > end:
                raise _short(position, kind, 5, end)
            return _decimal(self.octets, start), start + 5
        raise _Undecodable(f"unknown type octet 0x{kind:02x}", position)

    def _sized(self, kind: int, position: int, end: int, depth_left: int) -> tuple[object, int]:
        """A value with a four-octet size in front."""
        start = position + 5
        if start > end:
            raise _short(position, kind, 4, end)
        size = int.from_bytes(self.octets[position + 1 : start], "big")
        stop = start + size
        if stop > end:
            raise _short(position, kind, 4 + size, end)
        if kind == _LONG_STRING:
            return str(self.octets[start:stop], "utf-8", "surrogateescape"), stop
        if kind == _BINARY:
            return self.octets[start:stop], stop
        if depth_left == 1:
            raise _Undecodable(f"more than {DEPTH_MAX} nested tables and arrays", position)
        walk = self.fields if kind == _TABLE else self.items
        return walk(start, stop, depth_left - 1), stop


def _short(position: int, kind: int, size: int, end: int) -> _Undecodable:
    return _Undecodable(
        f"type '{chr(kind)}' needs {size} octets and {end - position - 1} are left", position
    )


def _decimal(octets: bytes, position: int) -> Decimal:
    # built from its parts, because arithmetic would round and drop the scale of a zero
    mantissa = int.from_bytes(octets[position + 1 : position + 5], "big", signed=True)
    digits = tuple(map(int, str(abs(mantissa))))
    return Decimal((1 if mantissa < 0 else 0, digits, -octets[position]))


# ------------------------------------------------------------------------------------- encoding


def encode_table(table: Mapping[str, object]) -> bytes:
    """The octets of a table, beginning with its four length octets.

    Raises ValueError for a value that its wire type cannot hold, TypeError for one that no wire
    type can hold; both name the key.
    """
    return _encode_mapping(table, DEPTH_MAX)


def kind_of(value: object) -> str:
    """The type octet that a value is written with; TypeError if it has none."""
    return chr(_writer_of(value)[0])


def type_name(kind: str) -> str:
    """RabbitMQ's name of a wire type, for error texts: ``signedint`` for ``I``."""
    return TYPE_NAMES[kind]


def text_octets(text: str) -> bytes:
    """The octets that a decoded string came from, also if they were not UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def encode_shortstr(text: str) -> bytes:
    """Length octet and octets of a short string; ValueError above 255 octets."""
    octets = text.encode("utf-8", "surrogateescape")
    if len(octets) > SHORTSTR_MAX_OCTETS:
        raise ValueError(f"a short string holds 255 octets, not {len(octets)}")
    return bytes((len(octets),)) + octets


def _encode_mapping(table: Mapping[str, object], depth_left: int) -> bytes:
    if depth_left == 0:
        raise ValueError(f"more than {DEPTH_MAX} nested tables and arrays")
    if not table:
        return b"\0\0\0\0"
    parts = [b""]
    for key, value in table.items():
        try:
            parts.append(encode_shortstr(key))
            parts.append(_encode_value(value, depth_left))
        except UnicodeError as problem:  # whose own class takes other arguments
            raise ValueError(f"field {key!r}: {problem}") from None
        except (ValueError, TypeError) as problem:
            raise type(problem)(f"field {key!r}: {problem}") from None
    return _join_sized(parts)


def _encode_sequence(values: Sequence[object], depth_left: int) -> bytes:
    if depth_left == 0:
        raise ValueError(f"more than {DEPTH_MAX} nested tables and arrays")
    return _join_sized([b"", *(_encode_value(value, depth_left) for value in values)])


def _encode_value(value: object, depth_left: int) -> bytes:
    kind, write = _writer_of(value)
    try:
        return write(kind, value, depth_left)
    except (struct.error, OverflowError):
        name = TYPE_NAMES[chr(kind)]
        raise ValueError(f"{value!r} is out of the range of type '{name}'") from None


def _join_sized(parts: list[bytes]) -> bytes:
    parts[0] = sum(map(len, parts)).to_bytes(4, "big")
    return b"".join(parts)


Writer = Callable[[int, Any, int], bytes]  # kind octet, value, levels of nesting left


def _write_number(layout: str) -> Writer:
    pack = struct.Struct(">B" + layout).pack
    return lambda kind, value, _depth_left: pack(kind, value)


def _write_text(kind: int, value: str, depth_left: int) -> bytes:
    return _write_octets(kind, value.encode("utf-8", "surrogateescape"), depth_left)


def _write_octets(kind: int, value: bytes, _depth_left: int) -> bytes:
    return b"%c%b%b" % (kind, len(value).to_bytes(4, "big"), value)


def _write_void(kind: int, _value: None, _depth_left: int) -> bytes:
    return bytes((kind,))


def _write_decimal(kind: int, value: Decimal, _depth_left: int) -> bytes:
    if not value.is_finite():
        raise ValueError(f"{value} is not a number that type 'decimal' holds")
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)  # because it is finite
    mantissa = int("".join(map(str, digits)))
    if exponent > 0:
        if exponent > 10:  # beyond any signed 4 octets; do not build the number to find out
            raise OverflowError
        mantissa *= 10**exponent
        exponent = 0
    return struct.pack(">BBi", kind, -exponent, -mantissa if sign else mantissa)


def _write_table(kind: int, value: Mapping[str, object], depth_left: int) -> bytes:
    return bytes((kind,)) + _encode_mapping(value, depth_left - 1)


def _write_array(kind: int, value: Sequence[object], depth_left: int) -> bytes:
    return bytes((kind,)) + _encode_sequence(value, depth_left - 1)


_WRITERS: Final[dict[type, tuple[int, Writer]]] = {
    bool: (ord("t"), _write_number("?")),
    Byte: (ord("b"), _write_number("b")),
    UnsignedByte: (ord("B"), _write_number("B")),
    Short: (ord("s"), _write_number("h")),
    UnsignedShort: (ord("u"), _write_number("H")),
    SignedInt: (ord("I"), _write_number("i")),
    UnsignedInt: (ord("i"), _write_number("I")),
    LongLong: (ord("L"), _write_number("q")),
    Timestamp: (ord("T"), _write_number("Q")),
    int: (ord("l"), _write_number("q")),
    Float: (ord("f"), _write_number("f")),
    float: (ord("d"), _write_number("d")),
    Decimal: (_DECIMAL, _write_decimal),
    str: (_LONG_STRING, _write_text),
    bytes: (_BINARY, _write_octets),
    type(None): (_VOID, _write_void),
    Table: (_TABLE, _write_table),
    Array: (_ARRAY, _write_array),
    dict: (_TABLE, _write_table),
    list: (_ARRAY, _write_array),
    tuple: (_ARRAY, _write_array),
    bytearray: (_BINARY, _write_octets),
}


def _writer_of(value: object) -> tuple[int, Writer]:
    writer = _WRITERS.get(type(value))
    if writer is not None:
        return writer
    for python_type, candidate in _WRITERS.items():  # an enum, an OrderedDict ...
        if isinstance(value, python_type):
            return candidate
    if isinstance(value, Mapping):
        return _WRITERS[dict]
    raise TypeError(f"no wire type holds a value of type {type(value).__name__}")
