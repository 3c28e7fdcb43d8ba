"""Columns of a row that is read: their types in Spark's and in Arrow's words.

Spark has no column pruning for Python sources: the columns of the schema are read. Invariant: the
Arrow schema equals what Spark computes from its own, else Spark refuses the batch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from hareline.spark.errors import InvalidOption


class Column(NamedTuple):
    """``is_always_there``: it is null for no message."""

    name: str
    ddl: str
    is_always_there: bool = False


COLUMNS: Final = (
    Column("vhost", "string", True),
    Column("queue", "string", True),
    Column("incarnation", "string", True),
    Column("offset", "bigint", True),
    Column("timestamp", "timestamp", True),
    Column("exchange", "string", True),
    Column("routing_key", "string", True),
    Column("body", "binary", True),
    Column("content_type", "string"),
    Column("content_encoding", "string"),
    Column("delivery_mode", "smallint"),
    Column("priority", "smallint"),
    Column("correlation_id", "string"),
    Column("reply_to", "string"),
    Column("expiration", "string"),
    Column("message_id", "string"),
    Column("app_timestamp", "timestamp"),
    Column("type", "string"),
    Column("user_id", "string"),
    Column("app_id", "string"),
    Column("headers", "map<string,string>"),
    Column("headers_raw", "binary"),
    Column("size", "int", True),
)
NARROW: Final = ("queue", "offset", "timestamp", "exchange", "routing_key", "body", "headers")

_BY_NAME: Final = {column.name: column for column in COLUMNS}


def chosen(columns: str) -> tuple[str, ...]:
    """The names that the option ``columns`` stands for. Raises InvalidOption."""
    if columns.lower() == "narrow":
        return NARROW
    if columns.lower() == "all":
        return tuple(_BY_NAME)
    names = tuple(name.strip() for name in columns.split(","))
    for name in names:
        if name not in _BY_NAME:
            raise InvalidOption(
                f"columns: there is no column {name!r}; use narrow, all, or names of "
                f"{', '.join(_BY_NAME)}"
            )
    if len(set(names)) < len(names):
        raise InvalidOption(f"columns names a column twice: {columns!r}")
    return names


def ddl(names: Sequence[str]) -> str:
    """The schema of these columns, as Spark reads it."""
    return ", ".join(f"{name} {_BY_NAME[name].ddl}" for name in names)


def arrow_schema(schema: Any, untold: Collection[str] = frozenset()) -> Any:
    """The Arrow schema of rows of a Spark schema, which a user may have given.

    ``untold``: columns that are null with this transport. Raises InvalidOption for a column that
    there is not, or is not of that type.
    """
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "smallint": pa.int16(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }
    fields = []
    for field in schema.fields:
        column = _BY_NAME.get(field.name)
        if column is None:
            raise InvalidOption(
                f"schema: there is no column {field.name!r}; there are {', '.join(_BY_NAME)}"
            )
        if field.dataType.simpleString() != column.ddl:
            raise InvalidOption(
                f"schema: column {field.name} is of type {column.ddl}, "
                f"not {field.dataType.simpleString()}"
            )
        if not (field.nullable or column.is_always_there):
            raise InvalidOption(
                f"schema: column {field.name} is null where a message does not have it: "
                "leave out NOT NULL"
            )
        if not field.nullable and field.name in untold:
            raise InvalidOption(
                f"schema: column {field.name} is null with transport=amqp, which does not tell it: "
                "leave out NOT NULL"
            )
        fields.append(pa.field(field.name, types[column.ddl], nullable=field.nullable))
    if not fields:
        raise InvalidOption("schema: name one column at least")
    return pa.schema(fields)
