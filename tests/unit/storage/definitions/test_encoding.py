"""Names and arguments survive as they came, whatever their octets."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from hareline.message import Table, Timestamp
from hareline.storage.definitions.sqlite import (
    BindingDefinition,
    QueueDefinition,
    SqliteDefinitions,
)
from hareline.wire.table import (
    Byte,
    Float,
    LongLong,
    Short,
    SignedInt,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
)

NO_UTF8 = b"caf\xe9 \x00 x".decode("utf-8", "surrogateescape")

EVERY_TYPE = Table(
    {
        "bool": True,
        "byte": Byte(-1),
        "unsigned byte": UnsignedByte(255),
        "short": Short(-300),
        "unsigned short": UnsignedShort(60_000),
        "int": SignedInt(-70_000),
        "unsigned int": UnsignedInt(4_000_000_000),
        "long": 2**62,
        "long long": LongLong(-(2**62)),
        "float": Float(0.5),
        "double": 0.1,
        "decimal": Decimal("12.34"),
        "text": "größe",
        "no text": NO_UTF8,
        "octets": b"\xff\x00",
        "array": [1, "two", Short(3)],
        "time": Timestamp(1_700_000_000),
        "table": Table({"inner": Byte(1)}),
        "void": None,
    }
)

Open = Callable[[], SqliteDefinitions]


def test_a_queue_comes_back_with_the_type_of_each_argument(reopened: Open) -> None:
    queue_id = reopened().add_queue("/", "q", is_auto_delete=True, arguments=EVERY_TYPE)
    (queue,) = reopened().queues("/")
    assert queue == QueueDefinition(queue_id, "q", True, EVERY_TYPE, None, queue.incarnation)
    assert queue.arguments.kinds == EVERY_TYPE.kinds
    assert list(queue.arguments) == list(EVERY_TYPE)


def test_so_do_an_exchange_and_a_binding(reopened: Open) -> None:
    definitions = reopened()
    definitions.add_exchange(
        "/", "e", "topic", is_auto_delete=False, is_internal=False, arguments=EVERY_TYPE
    )
    definitions.bind("/", "e", "queue", "q", "k", EVERY_TYPE)
    definitions = reopened()
    for arguments in (definitions.exchanges("/")[0].arguments, definitions.bindings("/")[0][-1]):
        assert arguments == EVERY_TYPE
        assert arguments.kinds == EVERY_TYPE.kinds


def test_names_that_are_not_utf8_survive_everywhere(reopened: Open) -> None:
    definitions = reopened()
    definitions.add_exchange(
        NO_UTF8, NO_UTF8, "fanout", is_auto_delete=False, is_internal=False, arguments={}
    )
    definitions.add_queue(NO_UTF8, NO_UTF8, is_auto_delete=False, arguments={})
    definitions.bind(NO_UTF8, NO_UTF8, "queue", NO_UTF8, NO_UTF8, {NO_UTF8: NO_UTF8})
    definitions = reopened()
    assert definitions.vhosts() == [NO_UTF8]
    assert [queue.name for queue in definitions.queues(NO_UTF8)] == [NO_UTF8]
    assert [exchange.name for exchange in definitions.exchanges(NO_UTF8)] == [NO_UTF8]
    assert definitions.bindings(NO_UTF8) == [
        BindingDefinition(NO_UTF8, "queue", NO_UTF8, NO_UTF8, Table({NO_UTF8: NO_UTF8}))
    ]
    definitions.unbind(NO_UTF8, NO_UTF8, "queue", NO_UTF8, NO_UTF8, {NO_UTF8: NO_UTF8})
    assert definitions.bindings(NO_UTF8) == []
    definitions.delete_queue(NO_UTF8, NO_UTF8)
    definitions.delete_exchange(NO_UTF8, NO_UTF8)
    assert reopened().vhosts() == []


def test_names_are_text_to_other_tools(path: Path) -> None:
    definitions = SqliteDefinitions(path)
    definitions.add_queue("/", "größe", is_auto_delete=False, arguments={})
    definitions.close()
    outside = sqlite3.connect(path)
    assert outside.execute("SELECT name, typeof(name) FROM queues").fetchall() == [
        ("größe", "text")
    ]
    outside.close()
