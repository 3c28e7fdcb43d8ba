"""The options of a write, checked: where messages go, and what the broker must say to them.

The data source makes `WriteOptions` on the driver; they are sent to executors with the writer.
Invariant: whatever is wrong with an option is found here, before anything is published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from hareline.spark.errors import InvalidOption
from hareline.spark.shared.options import CONNECTION_OPTIONS, Connection, OptionReader

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
_SHORT_STRING_MAX: Final = 255


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
    """What duplicates are told by. Without confirms nobody would know what to publish again."""
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
    if text is not None and len(text.encode()) > _SHORT_STRING_MAX:
        raise InvalidOption(f"{name} has {len(text.encode())} octets; AMQP allows 255")
    return text
