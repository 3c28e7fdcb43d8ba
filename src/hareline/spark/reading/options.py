"""Options of a read, checked: its streams, where it begins and ends, and in what portions.

`ReadOptions` are made on the driver and sent to executors with the reader.
Invariant: a wrong option is refused here, before the broker is asked anything.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hareline.spark.errors import InvalidOption
from hareline.spark.shared.options import CONNECTION_OPTIONS, Connection, OptionReader

EARLIEST: Final = -2
LATEST: Final = -1

_BATCH_ONLY: Final = ("endingOffsets", "endingTimestamp", "filterPushdown")
_STREAM_ONLY: Final = (
    "maxRecordsPerTrigger",
    "maxBytesPerTrigger",
    "longPollMs",
    "readerName",
    "pinRetention",
)
#: What only the management port offers.
_HTTP_ONLY: Final = {
    "httpUrl": "it is the address of the management port",
    "token": "log in with user and password",
    "queuePattern": "AMQP does not list streams, name them with queues",
    "onIncarnationChange": "AMQP does not tell that a stream was declared again",
    "readerName": "AMQP does not take positions of readers",
    "pinRetention": "AMQP does not take positions of readers",
}
READ_OPTIONS: Final = (
    *CONNECTION_OPTIONS,
    *("transport", "queue", "queues", "queuePattern"),
    *("startingOffsets", "startingTimestamp", "startingTimestampStrategy"),
    *("minPartitions", "maxRecordsPerPartition", "columns"),
    *("failOnDataLoss", "onIncarnationChange", "requestTimeoutMs", "retries"),
    *_BATCH_ONLY,
    *_STREAM_ONLY,
)

#: Where to begin or end: `EARLIEST`, `LATEST`, or a position for each queue by name.
Place = int | dict[str, int]


@dataclass(frozen=True)
class ReadOptions:
    """All there is to know about a read but what the broker says."""

    connection: Connection
    #: Consume from the streams instead of asking the management port for ranges.
    is_over_amqp: bool
    #: Names of streams; empty if there is a pattern.
    queues: tuple[str, ...]
    #: A regular expression for whole names of streams.
    pattern: str | None
    start: Place
    end: Place
    start_timestamp_ms: int | None
    end_timestamp_ms: int | None
    #: What to do if nothing arrived at the starting time or later: read from the end, or fail.
    starts_at_end_without_match: bool
    #: None: as many as the driver's machine has processors, unless the range is small.
    min_partitions: int | None
    max_partition_rows: int
    max_trigger_rows: int
    max_trigger_octets: int
    fails_on_data_loss: bool
    restarts_on_new_incarnation: bool
    #: Wait for a stream that was deleted under the query, as for a broker that does not answer.
    waits_for_streams: bool
    #: As given: ``narrow``, ``all``, or names with commas.
    columns: str
    pushes_filters: bool
    reader_name: str | None
    pins_retention: bool
    long_poll_ms: int
    request_timeout_s: float
    retries: int

    @property
    def untold(self) -> frozenset[str]:
        """The columns that are null in all rows, since the broker does not tell them."""
        return frozenset(("incarnation", "timestamp")) if self.is_over_amqp else frozenset()


def read_options(
    options: Mapping[str, str],
    *,
    is_stream: bool | None = None,
    environment: Mapping[str, str] | None = None,
) -> ReadOptions:
    """The options of a read. Raises InvalidOption.

    ``is_stream``: refuse the options of the other kind of read; None if the kind is not known.
    """
    given = OptionReader(options, READ_OPTIONS, environment)
    if is_stream is not None:
        _refuse_other_kind(given, is_stream)
    is_over_amqp = given.choice("transport", ("http", "amqp")) == "amqp"
    if is_over_amqp:
        _refuse_what_is_for_http(given)
    named = given.only_one(("queue", "queues", "queuePattern"))
    if named is None:
        raise InvalidOption("nothing to read: give the option queue, queues or queuePattern")
    given.only_one(("startingOffsets", "startingTimestamp"))
    given.only_one(("endingOffsets", "endingTimestamp"))
    start_ms, end_ms = (given.instant_ms(f"{name}Timestamp") for name in ("starting", "ending"))
    if start_ms is not None and end_ms is not None and start_ms > end_ms:
        raise InvalidOption(f"startingTimestamp {start_ms} is after endingTimestamp {end_ms}")
    pins = given.flag("pinRetention", False)
    if pins and given.text("readerName") is None:
        raise InvalidOption("pinRetention needs a readerName, which says whose pin it is")
    connection = given.connection()
    if is_over_amqp:
        if connection.token is not None:
            raise InvalidOption(
                "HARELINE_TOKEN is set, which is for transport=http: with transport=amqp, log in "
                "with user and password"
            )
        _check_whole_seconds(startingTimestamp=start_ms, endingTimestamp=end_ms)
    return ReadOptions(
        connection=connection,
        is_over_amqp=is_over_amqp,
        queues=_queues(given, named),
        pattern=_pattern(given) if named == "queuePattern" else None,
        start=_place(given, "startingOffsets", LATEST if is_stream else EARLIEST),
        end=_place(given, "endingOffsets", LATEST),
        start_timestamp_ms=start_ms,
        end_timestamp_ms=end_ms,
        starts_at_end_without_match=(
            given.choice("startingTimestampStrategy", ("error", "latest")) == "latest"
        ),
        min_partitions=given.number("minPartitions", 0, 1) or None,
        max_partition_rows=given.number("maxRecordsPerPartition", 250_000, 1),
        max_trigger_rows=given.number("maxRecordsPerTrigger", 500_000, 1),
        max_trigger_octets=given.number("maxBytesPerTrigger", 256 << 20, 1),
        fails_on_data_loss=given.flag("failOnDataLoss", True),
        restarts_on_new_incarnation=(
            given.choice("onIncarnationChange", ("fail", "restart")) == "restart"
        ),
        # AMQP does not tell one declaration from the next.
        waits_for_streams=bool(is_stream) and not is_over_amqp,
        columns=given.text("columns") or "narrow",
        pushes_filters=given.flag("filterPushdown", False),
        reader_name=given.text("readerName"),
        pins_retention=pins,
        long_poll_ms=min(given.number("longPollMs", 250, 0), 30_000),
        request_timeout_s=given.number("requestTimeoutMs", 30_000, 1) / 1000,
        retries=given.number("retries", 3, 0),
    )


def default_partitions() -> int:
    """Least number of tasks for a large range: the processors of this machine."""
    return os.cpu_count() or 1


def _refuse_other_kind(given: OptionReader, is_stream: bool) -> None:
    for name in _BATCH_ONLY if is_stream else _STREAM_ONLY:
        if given.text(name) is not None:
            kind, right = ("stream", "read") if is_stream else ("batch", "readStream")
            raise InvalidOption(f"{name} means nothing for a {kind} read; it is for {right}")


def _refuse_what_is_for_http(given: OptionReader) -> None:
    for name, why in _HTTP_ONLY.items():
        if given.text(name) is not None:
            raise InvalidOption(f"{name} means nothing with transport=amqp: {why}")


def _check_whole_seconds(**times_ms: int | None) -> None:
    for name, time_ms in times_ms.items():
        if time_ms is not None and time_ms % 1000:
            raise InvalidOption(
                f"{name} must be a multiple of 1000 with transport=amqp, not {time_ms}: "
                "AMQP asks for whole seconds"
            )


def _queues(given: OptionReader, named: str) -> tuple[str, ...]:
    if named == "queuePattern":
        return ()
    text = given.text(named) or ""
    if named == "queue":
        return (text,)
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise InvalidOption(f"queues must be names with commas between them, not {text!r}")
    if len(set(names)) < len(names):
        raise InvalidOption(f"queues names a queue twice: {text!r}")
    return tuple(sorted(names))


def _pattern(given: OptionReader) -> str:
    text = given.text("queuePattern") or ""
    try:
        re.compile(text)
    except re.error as problem:
        raise InvalidOption(
            f"queuePattern {text!r} is not a valid regular expression: {problem}"
        ) from None
    return text


def _place(given: OptionReader, name: str, default: int) -> Place:
    text = given.text(name)
    if text is None:
        return default
    if text.lower() in ("earliest", "latest"):
        return EARLIEST if text.lower() == "earliest" else LATEST
    form = f'{name} must be earliest, latest, or JSON such as {{"orders": 12, "bills": -2}}'
    try:
        positions = json.loads(text)
    except ValueError:
        raise InvalidOption(f"{form}, not {text!r}") from None
    if not isinstance(positions, dict) or not positions:
        raise InvalidOption(f"{form}, not {text!r}")
    for queue, offset in positions.items():
        if type(offset) is not int or offset < EARLIEST:
            raise InvalidOption(
                f"{name}: the offset of {queue!r} must be a whole number from 0 on, "
                f"-2 (earliest) or -1 (latest), not {offset!r}"
            )
    return positions
