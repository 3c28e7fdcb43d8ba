"""What a message's headers say about its deaths: x-death and the headers around it.

Called by ``dead_letter``: ``remains_of`` for each dead message, ``record_death`` once for all that
died alike. The headers are those of RabbitMQ since 3.13 (``mc:record_death``,
``mc_amqpl:deaths_to_headers``):

====================  =============================================================================
``x-death``           array of tables, the latest death first; one for each queue and reason. A
                      repetition counts up in its table, which moves to the front
``x-first-death-*``   ``reason``, ``queue`` and ``exchange``, S, of the first death, for good
``x-last-death-*``    the same of the latest
====================  =============================================================================

A table has ``count`` l, ``reason`` S, ``queue`` S, ``time`` T (seconds, of the first such death),
``exchange`` S, ``routing-keys`` A of S (with CC, without BCC), and ``original-expiration`` S where
the message had a time to live of its own.

Invariant: the history is what the broker wrote last into the headers table, ``history_size`` octets
of it, with x-death at the front. What a client wrote under these names is removed at the first
death, and everything else in the table stays, octet for octet.                              [hot]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from hareline.message import (
    Message,
    PropertyParts,
    Table,
    Timestamp,
    decode_fields,
    encode_fields,
)

if TYPE_CHECKING:
    from hareline.broker.queues.queue import DeathReason

X_DEATH: Final = "x-death"
REJECTED: Final = "rejected"
COPIES: Final = "CC"
_DETAILS: Final = ("reason", "queue", "exchange")
DEATH_NAMES: Final = frozenset(
    [X_DEATH, *(f"x-{when}-death-{detail}" for when in ("first", "last") for detail in _DETAILS)]
)
DEFAULT_NAMES: Final = frozenset(
    f"x-dead-{detail}" for detail in ("reason", "text", "queue", "exchange", "routing-key")
)

# What must be there if one of these fields is: a look for it costs next to nothing.
_TRACE_OF_COPIES: Final = b"\x02CC"
_TRACE_OF_DEATH: Final = b"-death"
_TRACE_OF_DEFAULT: Final = b"x-dead-"
_HISTORY_START: Final = b"\x07x-deathA"


class Remains(NamedTuple):
    """A dead message's properties: ``fields`` of its headers that are not the broker's, and the
    ``history`` that is; both are octets. ``copies``: the keys of its CC header."""

    parts: PropertyParts
    fields: bytes
    history: bytes
    copies: tuple[str, ...]


def remains_of(message: Message, *, keeps_copies: bool, is_for_default: bool) -> Remains:
    """Take the properties apart; ``fields`` is what the dead letter has of the headers.

    ``keeps_copies`` False: without the CC header. ``is_for_default``: the headers of the default
    dead-letter exchange will be written too. Raises MalformedFrame if they cannot be read.
    """
    parts = message.parts
    fields = parts.fields
    history = b""
    if message.history_size:
        start = len(fields) - message.history_size
        history = fields[start:]
        fields = fields[:start]
        if not history.startswith(_HISTORY_START):  # somebody wrote a header behind it
            fields, history = _found_history(parts.fields)
    copies: tuple[str, ...] = ()
    if (
        _TRACE_OF_COPIES in fields
        or _TRACE_OF_DEATH in fields
        or (is_for_default and _TRACE_OF_DEFAULT in fields)
    ):
        table = decode_fields(fields)
        copies = _carbon_copies(table)
        for name in [COPIES] if not keeps_copies else []:
            table.pop(name, None)
        for name in DEATH_NAMES | DEFAULT_NAMES if is_for_default else DEATH_NAMES:
            table.pop(name, None)
        fields = encode_fields(table)
    return Remains(parts, fields, history, copies)


def _found_history(octets: bytes) -> tuple[bytes, bytes]:
    """Fields and history of a dead letter in whose headers they are mixed up."""
    fields, history = Table(), Table()
    for name, value in decode_fields(octets).items():
        is_ours = name in DEATH_NAMES or name in DEFAULT_NAMES
        (history if is_ours else fields)[name] = value
    return encode_fields(fields), encode_fields(history)


def _carbon_copies(headers: Table) -> tuple[str, ...]:
    """The routing keys of the CC header; what is no text there routes nowhere."""
    copies = headers.get(COPIES)
    if not isinstance(copies, list):
        return ()
    return tuple([key for key in copies if isinstance(key, str)])


def record_death(
    history: bytes,
    *,
    queue: str,
    reason: DeathReason,
    now_ms: int,
    exchange: str,
    routing_keys: list[str],
    expiration: str | None,
) -> Table:
    """The history with one more death, to be written at the end of the headers.

    ``history`` is empty at the first. ``exchange``, ``routing_keys`` (with CC) and ``expiration``
    are those with which the message was published to ``queue``. Raises MalformedFrame.
    """
    headers = decode_fields(history)
    deaths = deaths_of(headers)
    for position, death in enumerate(deaths):
        if death["queue"] == queue and death["reason"] == reason:
            latest = deaths.pop(position)
            latest["count"] = cast("int", latest["count"]) + 1
            break
    else:
        latest = Table(
            {
                "count": 1,
                "reason": reason,
                "queue": queue,
                "time": Timestamp(now_ms // 1000),
                "exchange": exchange,
                "routing-keys": routing_keys,
            }
        )
        if expiration is not None:
            latest["original-expiration"] = expiration
    headers[X_DEATH] = [latest, *deaths]
    details: dict[str, object] = {"reason": reason, "queue": queue, "exchange": exchange}
    for detail, value in details.items():
        headers.setdefault(f"x-first-death-{detail}", value)
    for detail, value in details.items():
        headers[f"x-last-death-{detail}"] = value
    return headers


def deaths_of(headers: Table) -> list[Table]:
    """The deaths in a history, the latest first."""
    return cast("list[Table]", headers.get(X_DEATH, []))


def barred_queues(deaths: list[Table]) -> frozenset[str]:
    """The queues in which it died since a client last rejected it.

    Coming back to one of these would be a cycle that nobody but the broker keeps going
    (RabbitMQ: ``mc:is_death_cycle``).
    """
    names: set[str] = set()
    for death in deaths:
        if death["reason"] == REJECTED:
            break
        names.add(cast("str", death["queue"]))
    return frozenset(names)
