"""The message that the tables of cases are about, and messages with given headers."""

from __future__ import annotations

import math
from decimal import Decimal

from hareline.message import Message
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
)
from tests.support.messages import make_message

HEADERS = Table(
    {
        # texts
        "color": "red",
        "name": "O'Brien",
        "empty": "",
        "city": "São Paulo",
        "phone": "12993",
        "word": "lose",
        "percent": "50%",
        "under": "_foo",
        "path": "C:\\temp",
        "lines": "one\ntwo",
        "digits": "2",
        "flagtext": "TRUE",
        "emoji": "a😀b",
        # exact numbers, one of each wire type
        "size": SignedInt(5),
        "byte": Byte(-7),
        "ubyte": UnsignedByte(200),
        "short": Short(-300),
        "ushort": UnsignedShort(60_000),
        "uint": UnsignedInt(4_000_000_000),
        "long": 7,
        "longlong": LongLong(-9),
        "when": Timestamp(1_700_000_000),
        "zero": 0,
        "one": 1,
        "big": 2**53 + 1,
        "most": 2**63 - 1,
        "least": -(2**63),
        # approximate numbers
        "weight": 2.5,
        "ratio": Float(0.25),
        "tenth": Float(1.100000023841858),
        "seven": 7.0,
        "nought": 0.0,
        "nan": math.nan,
        "infinite": math.inf,
        "bigfloat": 2.0**53,
        # booleans
        "flag": True,
        "off": False,
        # neither absent nor of a type that selectors know
        "blob": b"red",
        "array": Array(["red"]),
        "table": Table(color="red"),
        "price": Decimal("2.5"),
        # void is NULL
        "void": None,
        # names that need quotes, and one that does not
        "a.b": 1,
        "AND": 2,
        'say "hi"': 3,
        "größe": 5,
        "$cost_2": 9,
        "JMSXGroupID": "g1",
        "JMSXGroupSeq": SignedInt(3),
        "JMS_QPID_DESTTYPE": SignedInt(1),
        # not looked at, because the message has the property
        "JMSType": "header",
        "JMSPriority": SignedInt(9),
    }
)

SUBJECT = make_message(
    b"body",
    headers=HEADERS,
    priority=4,
    delivery_mode=2,
    message_id="ID:1",
    correlation_id="c-1",
    type="car",
    reply_to="replies",
    expiration="60000",
    timestamp=Timestamp(1_600_000_000),
    user_id="guest",
    app_id="shop",
)


def message_with(headers: dict[str, object]) -> Message:
    return make_message(headers=Table(headers))
