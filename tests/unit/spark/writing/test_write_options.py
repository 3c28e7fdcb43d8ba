"""Options of a write: defaults, what they may be, and what a wrong one is told."""

from __future__ import annotations

import pytest

from hareline.spark.errors import InvalidOption
from hareline.spark.writing.write_options import WriteOptions, read_write_options


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
