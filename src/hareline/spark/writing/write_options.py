"""Options and columns of a write, checked on the driver before anything is published.

Types are named as Spark names them (``bigint``). Invariant: a column that passes is one that
``rows`` can encode, but for values that no message can have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal

from hareline.spark.errors import InvalidOption, InvalidRows
from hareline.spark.shared.options import CONNECTION_OPTIONS, Connection, OptionReader
from hareline.wire.constants import SHORTSTR_MAX_OCTETS

WRITE_OPTIONS: Final = (
    *CONNECTION_OPTIONS,
    *("exchange", "routingKey", "mandatory", "onUnroutable"),
    *("confirm", "confirmTimeoutMs", "maxInFlight", "maxRate", "maxRateTasks"),
    *("dedup", "ignoreUnknownColumns"),
    "checkpointLocation",  # Spark's own, which it hands on
)

Dedup = Literal["none", "batch", "column"]

_IN_FLIGHT: Final = 2000
#: With dedup=batch each place in flight is a producer of its own: see `producers`.
_IN_FLIGHT_BATCH: Final = 32
_CONFIRM_TIMEOUT_MS: Final = 30_000

_TEXT: Final = ("string",)
_OCTETS_OR_TEXT: Final = ("binary", "string")
_OCTET: Final = ("tinyint", "smallint", "int", "bigint")

#: Column -> types that it may have.
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "body": _OCTETS_OR_TEXT,
    "exchange": _TEXT,
    "routing_key": _TEXT,
    **dict.fromkeys(
        (
            *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration"),
            *("message_id", "type", "user_id", "app_id"),
        ),
        _TEXT,
    ),
    "delivery_mode": _OCTET,
    "priority": _OCTET,
    "app_timestamp": ("timestamp", "timestamp_ntz"),
    "headers": ("map<string,string>",),
    "headers_raw": ("binary",),
    "mandatory": ("boolean",),
    "dedup_key": _TEXT,
}


@dataclass(frozen=True)
class WriteOptions:
    """All there is to know about a write but what is in the rows."""

    connection: Connection
    #: For all rows; None: from the column of that name.
    exchange: str | None
    routing_key: str | None
    mandatory: bool | None
    #: A message that no queue takes is counted and given up; otherwise it fails the task.
    drops_unroutable: bool
    confirms: bool
    #: How long a task waits without any progress.
    confirm_timeout_s: float
    max_in_flight: int
    #: Rows a second of all tasks together, and how many tasks share it (None: found out).
    max_rate: int | None
    max_rate_tasks: int | None
    dedup: Dedup
    ignores_unknown_columns: bool


def read_write_options(
    options: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> WriteOptions:
    """The options of a write. Raises InvalidOption."""
    reader = OptionReader(options, WRITE_OPTIONS, environment)
    connection = reader.connection()
    if connection.token is not None:
        raise InvalidOption(
            "token is for reading over HTTP; messages are published over AMQP, "
            "which needs user and password"
        )
    confirms = reader.flag("confirm", True)
    dedup = _dedup(reader, confirms)
    rate = reader.number("maxRate", 0, 1) if reader.text("maxRate") else None
    tasks = reader.number("maxRateTasks", 0, 1) if reader.text("maxRateTasks") else None
    default_in_flight = _IN_FLIGHT_BATCH if dedup == "batch" else _IN_FLIGHT
    has_mandatory = reader.text("mandatory") is not None
    return WriteOptions(
        connection=connection,
        exchange=_short(reader, "exchange"),
        routing_key=_short(reader, "routingKey"),
        mandatory=reader.flag("mandatory", True) if has_mandatory else None,
        drops_unroutable=reader.choice("onUnroutable", ("fail", "drop")) == "drop",
        confirms=confirms,
        confirm_timeout_s=reader.number("confirmTimeoutMs", _CONFIRM_TIMEOUT_MS, 1) / 1000,
        max_in_flight=reader.number("maxInFlight", default_in_flight, 1),
        max_rate=rate,
        max_rate_tasks=tasks,
        dedup=dedup,
        ignores_unknown_columns=reader.flag("ignoreUnknownColumns", False),
    )


def _dedup(reader: OptionReader, confirms: bool) -> Dedup:
    """Detection of duplicates. It needs confirms, which say what to publish again."""
    choice = reader.choice("dedup", ("batch", "none", "column"))
    if choice == "none" or (not confirms and reader.text("dedup") is None):
        return "none"
    if not confirms:
        raise InvalidOption(
            f"dedup={choice} needs confirms: leave out confirm=false, or set dedup=none"
        )
    return "column" if choice == "column" else "batch"


def _short(reader: OptionReader, name: str) -> str | None:
    text = reader.text(name)
    if text is not None and len(text.encode()) > SHORTSTR_MAX_OCTETS:
        raise InvalidOption(f"{name} has {len(text.encode())} octets; AMQP allows 255")
    return text


def check_columns(columns: Mapping[str, str], options: WriteOptions) -> list[str]:
    """The columns of a schema, by name and type, that are read. Raises InvalidRows."""
    known = [name for name in columns if name in COLUMNS]
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown and not options.ignores_unknown_columns:
        raise InvalidRows(_unknown_text(unknown))
    for name in known:
        # A collation does not change the octets: "string collate UNICODE".
        if columns[name].partition(" collate ")[0] not in COLUMNS[name]:
            wanted = " or ".join(COLUMNS[name])
            raise InvalidRows(
                f"column {name!r} is {columns[name]}; it must be {wanted}: use cast, or drop it"
            )
    if "body" not in columns:
        raise InvalidRows("there is no column 'body' (binary or string): name one with alias")
    if options.dedup == "column" and "dedup_key" not in columns:
        raise InvalidRows("dedup=column needs a column 'dedup_key' (string)")
    if options.dedup != "column" and "dedup_key" in columns:
        raise InvalidRows("a column 'dedup_key' needs the option dedup=column, or drop the column")
    has_exchange = options.exchange is not None or "exchange" in columns
    has_key = options.routing_key is not None or "routing_key" in columns
    if not has_exchange and not has_key:
        raise InvalidRows(
            "nothing says where the messages go: give the option exchange or routingKey, "
            "or a column 'exchange' or 'routing_key' (string)"
        )
    return known


def _unknown_text(unknown: list[str]) -> str:
    names = ", ".join(map(repr, unknown))
    near = get_close_matches(unknown[0].lower(), COLUMNS, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return (
        f"the sink has no column {names}{hint}: drop what is not to be published, "
        f"or set ignoreUnknownColumns=true; it takes {', '.join(COLUMNS)}"
    )
