"""Options and columns of a write: defaults, types, and what a wrong one is told."""

from __future__ import annotations

import pytest

from hareline.spark.errors import InvalidOption, InvalidRows
from hareline.spark.writing.write_options import (
    COLUMNS,
    WriteOptions,
    check_columns,
    read_write_options,
)


def options(**given: str) -> WriteOptions:
    return read_write_options({"url": "amqp://host", "user": "guest", **given}, {})


def test_defaults() -> None:
    made = options()
    assert (made.exchange, made.routing_key, made.mandatory) == (None, None, None)
    assert (made.confirms, made.confirm_timeout_s, made.drops_unroutable) == (True, 30.0, False)
    assert (made.dedup, made.max_in_flight, made.max_rate) == ("batch", 32, None)
    assert not made.ignores_unknown_columns


def test_all_options_as_spark_gives_them() -> None:
    made = options(
        exchange="e",
        routingkey="k",
        MANDATORY="false",
        onunroutable="DROP",
        confirmtimeoutms="500",
        maxinflight="7",
        maxrate="100",
        maxratetasks="4",
        dedup="column",
        ignoreunknowncolumns="true",
    )
    assert (made.exchange, made.routing_key, made.mandatory) == ("e", "k", False)
    assert (made.drops_unroutable, made.confirm_timeout_s, made.max_in_flight) == (True, 0.5, 7)
    assert (made.max_rate, made.max_rate_tasks, made.dedup) == (100, 4, "column")
    assert made.ignores_unknown_columns


@pytest.mark.parametrize("dedup", ["none", "column"])
def test_many_messages_are_in_flight_where_none_needs_a_producer(dedup: str) -> None:
    assert options(dedup=dedup).max_in_flight == 2000


def test_without_confirms_there_is_no_dedup() -> None:
    assert options(confirm="false").dedup == "none"
    with pytest.raises(InvalidOption, match="dedup=batch needs confirms"):
        options(confirm="false", dedup="batch")
    with pytest.raises(InvalidOption, match="dedup=column needs confirms"):
        options(confirm="false", dedup="column")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("maxInFlight", "0", "maxInFlight must be a whole number from 1"),
        ("maxRate", "fast", "maxRate must be a whole number"),
        ("maxRateTasks", "-1", "maxRateTasks must be a whole number"),
        ("confirmTimeoutMs", "0", "confirmTimeoutMs must be"),
        ("mandatory", "perhaps", "mandatory must be true or false"),
        ("onUnroutable", "ignore", "onUnroutable must be fail or drop"),
        ("dedup", "all", "dedup must be batch or none or column"),
        ("routingKey", "ü" * 128, "routingKey has 256 octets; AMQP allows 255"),
        ("routing_key", "k", "did you mean 'routingKey'"),
        ("token", "t", "user and password"),
    ],
)
def test_a_wrong_option_is_named_with_what_it_must_be(name: str, value: str, text: str) -> None:
    with pytest.raises(InvalidOption, match=text):
        options(**{name: value})


def test_the_password_is_in_no_text() -> None:
    assert "secret" not in repr(options(password="secret"))


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
