"""Columns are chosen by name; a schema that a user gives is held to their types."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hareline.spark.errors import InvalidOption
from hareline.spark.reading.columns import COLUMNS, NARROW, arrow_schema, chosen, ddl


def field(name: str, ddl_type: str, *, nullable: bool = True) -> Any:
    kind = SimpleNamespace(simpleString=lambda: ddl_type)
    return SimpleNamespace(name=name, nullable=nullable, dataType=kind)


def arrow(*fields: Any) -> Any:
    return arrow_schema(SimpleNamespace(fields=fields))


def test_columns_are_chosen_by_word_or_name() -> None:
    assert chosen("narrow") == NARROW
    assert len(chosen("ALL")) == len(COLUMNS) == 23
    assert chosen(" body, offset") == ("body", "offset")
    assert ddl(("headers", "offset")) == "headers map<string,string>, offset bigint"


def test_other_columns_are_refused() -> None:
    with pytest.raises(InvalidOption, match="no column 'value'; use narrow, all, or names of vh"):
        chosen("body,value")
    with pytest.raises(InvalidOption, match="twice"):
        chosen("body,body")


def test_a_schema_is_narrowed_and_its_null_is_kept() -> None:
    pa = pytest.importorskip("pyarrow")
    made = arrow(field("body", "binary"), field("offset", "bigint", nullable=False))
    assert made == pa.schema(
        [pa.field("body", pa.binary()), pa.field("offset", pa.int64(), nullable=False)]
    )


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ([field("value", "binary")], "there is no column 'value'"),
        ([field("offset", "int")], "column offset is of type bigint, not int"),
        ([field("type", "string", nullable=False)], "column type is null .* NOT NULL"),
        ([], "one column at least"),
    ],
)
def test_a_schema_of_other_columns_is_refused(fields: list[Any], why: str) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(InvalidOption, match=why):
        arrow(*fields)


def test_a_column_that_is_not_told_may_be_null() -> None:
    pytest.importorskip("pyarrow")
    kept = field("timestamp", "timestamp", nullable=False)
    assert not arrow(kept).field("timestamp").nullable
    with pytest.raises(InvalidOption, match=r"timestamp is null with transport=amqp.*NOT NULL"):
        arrow_schema(SimpleNamespace(fields=[kept]), {"timestamp"})
