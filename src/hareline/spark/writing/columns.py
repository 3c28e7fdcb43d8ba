"""The columns that the sink takes, what types they must have, and what a wrong one is told.

Asked on the driver before anything is published, and by ``rows`` for the columns to read. Types
are named as Spark names them (``bigint``). Invariant: a column that passes is one ``rows`` can
encode, but for values that no message can have.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from hareline.spark.errors import InvalidRows
from hareline.spark.writing.write_options import WriteOptions

TEXTS: Final = (
    *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration"),
    *("message_id", "type", "user_id", "app_id"),
)
_TEXT: Final = ("string",)
_OCTETS_OR_TEXT: Final = ("binary", "string")
_OCTET: Final = ("tinyint", "smallint", "int", "bigint")

#: Column -> types that it may have.
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "body": _OCTETS_OR_TEXT,
    "exchange": _TEXT,
    "routing_key": _TEXT,
    **dict.fromkeys(TEXTS, _TEXT),
    "delivery_mode": _OCTET,
    "priority": _OCTET,
    "app_timestamp": ("timestamp", "timestamp_ntz"),
    "headers": ("map<string,string>",),
    "headers_raw": ("binary",),
    "mandatory": ("boolean",),
    "dedup_key": _TEXT,
}


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
