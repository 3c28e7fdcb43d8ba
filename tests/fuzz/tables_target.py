"""Field tables, properties of messages, arguments of methods, and messages as lines of JSON.

The same octets are taken as each of them; the first one says which. Octets that cannot be read are
MalformedFrame; what can be read is written again and read back, and every short cut finds what the
full decoder finds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from hareline.errors import AmqpError, MalformedFrame
from hareline.message.exported import InvalidLine, exported, imported
from hareline.message.message import Message
from hareline.wire.constants import CLASS_BASIC, FRAME_END_OCTET
from hareline.wire.encoder import body_frame_head, header_frame
from hareline.wire.methods import Exchange as ExchangeMethods
from hareline.wire.methods import Frame, commands, decode_method, encode_method
from hareline.wire.plain_properties import NOT_PLAIN, PERSISTENT, walk
from hareline.wire.properties import (
    Properties,
    decode_delivery_mode,
    decode_header,
    decode_headers,
    decode_priority,
    decode_properties,
    encode_properties,
    replace_headers,
    replace_reply_to,
    with_integer_header,
)
from hareline.wire.property_parts import take_apart, without_last_header
from hareline.wire.table import (
    Array,
    Byte,
    Float,
    SignedInt,
    Table,
    Timestamp,
    UnsignedByte,
    decode_table,
    encode_table,
)
from hareline.wire.table_lookup import decode_field
from tests.fuzz.target import Reader, Target
from tests.support.messages import ARRIVAL_MS, make_address

COUNTED: Final = b"x-delivery-count"


def run(octets: bytes) -> None:
    reader = Reader(octets)
    kind = reader.octet()
    _RUNS[kind % len(_RUNS)](reader.rest())


def _table(octets: bytes) -> None:
    try:
        table, end = decode_table(octets, 0)
    except MalformedFrame:
        return
    assert end <= len(octets)
    again = encode_table(table)
    read_back, _ = decode_table(again, 0)
    assert repr(read_back) == repr(table), "another table comes back"
    assert encode_table(read_back) == again
    for name in table:
        assert repr(decode_field(octets, 0, name)) == repr(table[name]), name
    assert decode_field(octets, 0, "no such field") is None or "no such field" in table


def _lookup(octets: bytes) -> None:
    """A field that is found in octets of which the rest may be anything."""
    for name in ("a", "JMSXGroupID"):
        try:
            decode_field(octets, 0, name)
        except MalformedFrame:
            continue


def _properties(octets: bytes) -> None:
    plain = walk(octets, b"guest")
    try:
        properties = decode_properties(octets)
    except MalformedFrame:
        assert plain == NOT_PLAIN, "invalid properties are taken as plain"
        for read in (decode_headers, decode_delivery_mode, decode_priority, take_apart):
            try:
                read(octets)
            except MalformedFrame:
                continue
        _message(octets, None)
        return
    if plain != NOT_PLAIN:
        assert properties.expiration is None
        assert properties.user_id in (None, "guest")
        assert (properties.delivery_mode == 2) == (plain == PERSISTENT)
    headers = properties.headers
    assert repr(decode_headers(octets)) == repr(Table() if headers is None else headers)
    for name in headers or ():
        assert headers is not None
        assert repr(decode_header(octets, name)) == repr(headers[name]), name
    assert decode_delivery_mode(octets) == properties.delivery_mode
    assert decode_priority(octets) == properties.priority
    again = encode_properties(properties)
    assert repr(decode_properties(again)) == repr(properties), "other properties come back"
    counted = with_integer_header(octets, COUNTED, 7)
    assert decode_headers(counted)[COUNTED.decode()] == 7
    if COUNTED not in octets:
        was = octets if headers else replace_headers(octets, None)
        assert without_last_header(counted, COUNTED) == was, "a header is not taken back"
    parts = take_apart(octets)
    assert parts.delivery_mode == properties.delivery_mode
    assert parts.expiration == properties.expiration
    without = decode_properties(parts.with_fields(b""))
    assert without.expiration is None
    assert without.headers == {}
    assert decode_properties(replace_headers(octets, None)).headers is None
    assert decode_properties(replace_reply_to(octets, "r")).reply_to == "r"
    _message(octets, properties)


def _message(octets: bytes, properties: Properties | None) -> None:
    """A message with these properties, to a line of JSON and back."""
    header = header_frame(1, octets, 1)
    content = header + body_frame_head(1, 1) + b"b" + FRAME_END_OCTET
    message = Message(make_address("x", "k"), content, len(header), 1, 1, ARRIVAL_MS)
    line = json.loads(json.dumps(exported(message)))
    if properties is None:
        try:
            imported(line)
        except InvalidLine:
            return
        raise AssertionError("a line with invalid properties is taken")
    came = imported(line)
    assert (came.exchange, came.routing_key, came.octets, came.body) == ("x", "k", octets, b"b")


def _line(octets: bytes) -> None:
    """A line of JSON as a client sends it."""
    try:
        line = json.loads(octets)
    except (ValueError, RecursionError):
        return
    if not isinstance(line, dict):
        return
    try:
        came = imported(line)
    except InvalidLine:
        return
    assert repr(decode_properties(came.octets)) == repr(came.properties)


def _method(octets: bytes) -> None:
    try:
        method = decode_method(octets)
    except AmqpError:
        return
    fields = {name: getattr(method, name) for name in method.__slots__}
    again = encode_method(1, type(method), **fields)
    read_back = decode_method(again[7:-1])
    assert type(read_back) is type(method)
    assert repr({name: getattr(read_back, name) for name in read_back.__slots__}) == repr(fields)


_RUNS: Final = (_table, _lookup, _properties, _line, _method)


def _tables() -> list[Table]:
    nested = Table(
        {
            "a": True,
            "b": Byte(-1),
            "c": 2**40,
            "d": 1.5,
            "e": Decimal("1.25"),
            "f": Float(0.5),
            "g": SignedInt(-7),
            "h": UnsignedByte(9),
            "t": Timestamp(1_700_000_000),
            "v": None,
            "x": b"\xff\0",
            "s": "text",
            "list": Array([1, "two", Array([None]), Table({"k": b""})]),
        }
    )
    return [
        Table(),
        nested,
        Table({"inner": nested, "JMSXGroupID": "g", "x-death": Array([nested])}),
    ]


def seeds() -> Sequence[bytes]:
    tables = _tables()
    found = [bytes((kind,)) + encode_table(table) for table in tables for kind in (0, 1)]
    for headers in (None, *tables):
        full = Properties(
            content_type="text/plain",
            content_encoding="gzip",
            headers=headers,
            delivery_mode=2,
            priority=4,
            correlation_id="c",
            reply_to="r",
            expiration="60000",
            message_id="m",
            timestamp=Timestamp(5),
            type="t",
            user_id="guest",
            app_id="a",
            cluster_id="",
        )
        for each in (full, Properties(headers=headers, user_id="guest"), Properties()):
            found.append(b"\2" + encode_properties(each))
            header = header_frame(1, encode_properties(each), 1)
            content = header + body_frame_head(1, 1) + b"b" + FRAME_END_OCTET
            message = Message(make_address("x", "k"), content, len(header), 1, 1, ARRIVAL_MS)
            found.append(b"\3" + json.dumps(exported(message)).encode())
    found += [b"\4" + encode_method(1, each)[7:-1] for each in method_classes()]
    found.append(
        b"\4" + encode_method(1, commands.Queue.Declare, queue="q", arguments=tables[1])[7:-1]
    )
    return found


def method_classes() -> list[type[Frame]]:
    """All methods that there are."""
    found: list[type[Frame]] = [ExchangeMethods.Bound]
    for group in (
        commands.Connection,
        commands.Channel,
        commands.Exchange,
        commands.Queue,
        commands.Basic,
        commands.Confirm,
        commands.Tx,
    ):
        found += [
            each
            for each in vars(group).values()
            if isinstance(each, type) and issubclass(each, Frame)
        ]
    assert any(each.index >> 16 == CLASS_BASIC for each in found)
    return found


WORDS: Final = tuple(
    [bytes((len(name),)) + name for name in (b"a", b"x-death", b"CC", b"JMSXGroupID", COUNTED)]
    + [b"%c" % kind for kind in b"tbBsuIilLfdDSATFVx"]
)
TARGET: Final = Target("tables", run, seeds, WORDS)
