"""Columns of the sink: which there are, their types, and what a wrong one is told."""

from __future__ import annotations

import pytest

from hareline.spark.errors import InvalidRows
from hareline.spark.writing.columns import COLUMNS, check_columns
from hareline.spark.writing.write_options import read_write_options


def check(columns: dict[str, str], **options: str) -> list[str]:
    given = {"url": "amqp://host", "user": "guest", **options}
    return check_columns(columns, read_write_options(given, {}))


def test_every_column_passes_with_each_of_its_types() -> None:
    for name, types in COLUMNS.items():
        for each in types:
            columns = {"body": "binary", "routing_key": "string", name: each}
            dedup = "column" if name == "dedup_key" else "batch"
            assert name in check(columns, dedup=dedup)


@pytest.mark.parametrize("name", sorted(COLUMNS))
def test_a_wrong_type_is_named_with_the_column_and_what_is_wanted(name: str) -> None:
    columns = {"body": "binary", "routing_key": "string", name: "array<double>"}
    with pytest.raises(InvalidRows) as error:
        check(columns, dedup="column" if name == "dedup_key" else "batch")
    assert f"column {name!r} is array<double>" in str(error.value)
    assert COLUMNS[name][0] in str(error.value)


def test_a_collation_is_a_string() -> None:
    check({"body": "string collate UNICODE", "routing_key": "string collate UTF8_LCASE"})


def test_the_body_is_required() -> None:
    with pytest.raises(InvalidRows, match="no column 'body'"):
        check({"routing_key": "string"})


@pytest.mark.parametrize("options", [{"routingKey": "k"}, {"exchange": "e"}])
def test_an_option_says_where_messages_go(options: dict[str, str]) -> None:
    assert check({"body": "string"}, **options) == ["body"]


@pytest.mark.parametrize("name", ["exchange", "routing_key"])
def test_a_column_says_where_messages_go(name: str) -> None:
    assert check({"body": "string", name: "string"}) == ["body", name]


def test_rows_that_go_nowhere_are_refused() -> None:
    with pytest.raises(InvalidRows, match="nothing says where"):
        check({"body": "string"})


def test_an_unknown_column_is_refused_with_the_like_of_it() -> None:
    with pytest.raises(InvalidRows, match=r"no column 'routingKey'.*did you mean 'routing_key'"):
        check({"body": "string", "routingKey": "string"})


def test_unknown_columns_can_be_ignored() -> None:
    columns = {"body": "string", "offset": "bigint", "routing_key": "string"}
    assert check(columns, ignoreUnknownColumns="true") == ["body", "routing_key"]


def test_a_key_and_its_option_need_each_other() -> None:
    with pytest.raises(InvalidRows, match="needs a column 'dedup_key'"):
        check({"body": "string", "routing_key": "string"}, dedup="column")
    with pytest.raises(InvalidRows, match="needs the option dedup=column"):
        check({"body": "string", "routing_key": "string", "dedup_key": "string"})
