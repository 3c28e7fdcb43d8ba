"""The options of a read, each checked before the broker is asked."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.spark.errors import InvalidOption
from hareline.spark.reading.options import EARLIEST, LATEST, ReadOptions, read_options


def read(*, is_stream: Any = None, **options: str) -> ReadOptions:
    given = {"url": "amqp://h", **options}
    if not {"queue", "queues", "queuePattern"} & options.keys():
        given["queue"] = "q"
    return read_options(given, is_stream=is_stream, environment={})


def test_a_queue_alone_is_enough() -> None:
    batch, stream = read(is_stream=False), read(is_stream=True)
    assert (batch.queues, batch.pattern) == (("q",), None)
    assert (batch.start, batch.end) == (EARLIEST, LATEST)
    assert stream.start == LATEST
    assert stream.max_trigger_rows == 500_000
    assert stream.max_trigger_octets == 256 << 20
    assert (stream.request_timeout_s, stream.retries, stream.long_poll_ms) == (30, 3, 250)
    assert stream.fails_on_data_loss
    assert not stream.restarts_on_new_incarnation


def test_queues_are_named_once_each_in_any_order() -> None:
    assert read(queues="b, a").queues == ("a", "b")
    for text in ("a,,b", "a,"):
        with pytest.raises(InvalidOption, match="commas between"):
            read(queues=text)
    with pytest.raises(InvalidOption, match="twice"):
        read(queues="a,a")


def test_offsets_are_words_or_json() -> None:
    assert read(startingOffsets="LATEST").start == LATEST
    assert read(startingOffsets='{"a": 5, "b": -2}').start == {"a": 5, "b": EARLIEST}


@pytest.mark.parametrize(
    "text", ["soon", "[1]", "{}", '{"a": 1.5}', '{"a": true}', '{"a": -3}', '{"a": "5"}', "5"]
)
def test_other_offsets_are_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match=r"startingOffsets.*-2"):
        read(startingOffsets=text)


def test_times_are_iso_8601_or_milliseconds() -> None:
    chosen = read(
        startingTimestamp="2026-01-05T11:00:00.25+01:00", endingTimestamp="2026-01-05T10:00:01Z"
    )
    assert (chosen.start_timestamp_ms, chosen.end_timestamp_ms) == (1767607200250, 1767607201000)
    assert read(startingTimestamp="1767607200250").start_timestamp_ms == 1767607200250


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"queue": "a", "queuePattern": "b"}, "queue and queuePattern contradict"),
        ({"queuePattern": "("}, r"queuePattern '\(' is not a valid regular expression"),
        ({"startingOffsets": "latest", "startingTimestamp": "5"}, "contradict each other"),
        ({"endingOffsets": "latest", "endingTimestamp": "5"}, "contradict each other"),
        ({"startingTimestamp": "5", "endingTimestamp": "4"}, "5 is after endingTimestamp 4"),
        ({"startingTimestamp": "noon"}, "startingTimestamp must be ISO 8601 with a zone .*'noon'"),
        ({"endingTimestamp": "2026-01-05T10:00:00"}, "endingTimestamp must be .* with a zone"),
        ({"startingTimestamp": "1969-12-31T10:00:00Z"}, "startingTimestamp must be"),
        ({"startingTimestampStrategy": "x"}, "must be error or latest"),
        ({"onIncarnationChange": "x"}, "must be fail or restart"),
        ({"pinRetention": "true"}, "pinRetention needs a readerName"),
        ({"minPartitions": "0"}, "minPartitions must be a whole number from 1 on"),
        ({"path": "orders"}, "no option 'path'"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidOption, match=why):
        read(**options)


def test_nothing_to_read_is_refused() -> None:
    with pytest.raises(InvalidOption, match="nothing to read"):
        read_options({"url": "amqp://h"}, environment={})


def test_each_kind_of_read_refuses_the_options_of_the_other() -> None:
    with pytest.raises(InvalidOption, match="endingOffsets means nothing for a stream read"):
        read(is_stream=True, endingOffsets="latest")
    with pytest.raises(InvalidOption, match="readerName means nothing for a batch read"):
        read(is_stream=False, readerName="x")
    assert read(endingOffsets="latest", readerName="x").reader_name == "x"


def test_a_transport_is_chosen() -> None:
    assert not read().is_over_amqp
    assert not read(transport="HTTP").is_over_amqp
    assert read().untold == frozenset()
    chosen = read(transport="amqp", startingTimestamp="5000", queues="a,b", user="u", password="p")
    assert chosen.is_over_amqp
    assert chosen.untold == {"timestamp", "incarnation"}
    with pytest.raises(InvalidOption, match="transport must be http or amqp, not 'udp'"):
        read(transport="udp")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"httpUrl": "http://h:1"}, "httpUrl means nothing with transport=amqp: it is the address"),
        ({"token": "t"}, "token means nothing with transport=amqp: log in with user"),
        ({"queuePattern": "a.*"}, "queuePattern means nothing .*: AMQP does not list streams"),
        ({"onIncarnationChange": "restart"}, "onIncarnationChange means nothing .*declared again"),
        ({"readerName": "me"}, "readerName means nothing .* positions of readers"),
        ({"pinRetention": "true"}, "pinRetention means nothing .* positions of readers"),
        ({"startingTimestamp": "1500"}, "startingTimestamp must be a multiple of 1000 .*1500"),
        ({"endingTimestamp": "1"}, "endingTimestamp must be a multiple of 1000"),
    ],
)
def test_what_amqp_cannot_do_is_refused(options: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidOption, match=why):
        read(transport="amqp", **options)
    assert not read(**{"readerName": "me", **options}).is_over_amqp


def test_variables_of_the_other_transport_do_not_matter_but_for_the_login() -> None:
    given = {"url": "amqp://h", "queue": "q", "transport": "amqp"}
    assert read_options(given, environment={"HARELINE_HTTP_URL": "http://h:1"}).is_over_amqp
    with pytest.raises(InvalidOption, match=r"HARELINE_TOKEN is set.*log in with user and pass"):
        read_options(given, environment={"HARELINE_TOKEN": "t"})
