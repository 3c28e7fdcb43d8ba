"""History of a message's deaths in its headers: x-death and the headers around it.

``dead_letters`` calls ``dead_message_of`` for each dead message, ``template`` calls
``record_death`` once for all that died alike. The headers are those of RabbitMQ since 3.13
(``mc:record_death``, ``mc_amqpl:deaths_to_headers``):

====================  =============================================================================
``x-death``           array of tables, the latest death first; one for each queue and reason. A
                      repetition counts up in its table, which moves to the front
``x-first-death-*``   ``reason``, ``queue`` and ``exchange``, S, of the first death, always
``x-last-death-*``    the same of the latest
``x-death-forgotten`` octets, x: of each queue that a long ``x-death`` had to leave out, and in
                      which it died since it was rejected, eight of a hash of the queue's name
====================  =============================================================================

A table has ``count`` l, ``reason`` S, ``queue`` S, ``time`` T (seconds, of the first such death),
``exchange`` S, ``routing-keys`` A of S (with CC, without BCC), and ``original-expiration`` S where
the message had a time to live of its own.

Invariant: the history is what the broker wrote last into the headers table, ``history_size`` octets
of it: x-death, x-first-death-*, x-last-death-*, x-death-forgotten if there is any, and what the
default dead-letter exchange adds, in this order and with the fields in the order above. What a
client wrote under these names is removed at the first death, and everything else in the table
stays, octet for octet.                                                                      [hot]
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from hareline.message import (
    Message,
    PropertyParts,
    Table,
    Timestamp,
    decode_fields,
    encode_fields,
)

if TYPE_CHECKING:
    from hareline.queues.core.kinds import DeathReason

X_DEATH: Final = "x-death"
FORGOTTEN: Final = "x-death-forgotten"
REJECTED: Final = "rejected"
COPIES: Final = "CC"
_DETAILS: Final = ("reason", "queue", "exchange")
DEATH_NAMES: Final = frozenset(
    [
        X_DEATH,
        FORGOTTEN,
        *(f"x-{when}-death-{detail}" for when in ("first", "last") for detail in _DETAILS),
    ]
)
DEFAULT_NAMES: Final = frozenset(
    f"x-dead-{detail}"
    for detail in ("reason", "text", "queue", "exchange", "routing-key", "arrival")
)

# What must be there if one of these fields is: a look for it costs next to nothing.
_TRACE_OF_COPIES: Final = b"\x02CC"
_TRACE_OF_DEATH: Final = b"-death"
_TRACE_OF_DEFAULT: Final = b"x-dead-"
_HISTORY_START: Final = b"\x07x-deathA"

DEATHS_MAX: Final = 256
DEATHS_MAX_BYTES: Final = 262_144  # twice what usual clients take as headers; CC can be as long
_DEATHS_MIN: Final = 2  # the latest and the oldest one are never forgotten
# Queues in a row, without a rejection, in which a message may die in addition to those in x-death.
FORGOTTEN_MAX: Final = 8_192
_DIGEST_BYTES: Final = 8
_FORGOTTEN_HEAD: Final = b"\x11x-death-forgottenx"

# A table of x-death in octets: F, size, count, reason, queue, ...
_COUNT_AT: Final = 5 + len(b"\x05countl")
_REASON_AT: Final = _COUNT_AT + 8
_REASON_HEAD: Final = len(b"\x06reasonS") + 4
_QUEUE_HEAD: Final = len(b"\x05queueS") + 4
_REJECTED: Final = encode_fields(Table(reason=REJECTED))


class History(NamedTuple):
    """All deaths, as the headers tell them.

    ``barred`` are the queues it must not come back to, but for those in ``forgotten``, of which
    only hashes are known.
    """

    octets: bytes
    barred: frozenset[str]
    forgotten: bytes = b""

    def bars(self, queue: str) -> bool:
        """True if the message must not come back to this queue."""
        return queue in self.barred or _has_digest(self.forgotten, queue)


class DeadMessage(NamedTuple):
    """A dead message's properties: ``fields`` of its headers that are not the broker's, and the
    ``history`` that is; both are octets. ``copies``: the keys of its CC header."""

    parts: PropertyParts
    fields: bytes
    history: bytes
    copies: tuple[str, ...]


def dead_message_of(message: Message, *, keeps_copies: bool, is_for_default: bool) -> DeadMessage:
    """A dead message's properties in parts; ``fields``: the headers that its dead letter keeps.

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
        if not history.startswith(_HISTORY_START):  # a client wrote a header behind it
            fields, history = _found_history(parts.fields, is_from_default=message.is_from_default)
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
    return DeadMessage(parts, fields, history, copies)


def first_death(headers: Mapping[str, object]) -> Mapping[str, object] | None:
    """The table of the first death; None if the headers have none.

    That is the table of the queue and reason that x-first-death-queue and -reason name, or else the
    last one, the oldest in headers that name none. The last one alone would not do: a repeated
    death moves its table to the front. Any publisher may have written the headers.
    """
    deaths = headers.get(X_DEATH)
    if not isinstance(deaths, list):
        return None
    tables = [death for death in deaths if isinstance(death, Mapping)]
    named = (headers.get("x-first-death-queue"), headers.get("x-first-death-reason"))
    for table in tables:
        if (table.get("queue"), table.get("reason")) == named:
            return table
    return tables[-1] if tables else None


def _found_history(octets: bytes, *, is_from_default: bool) -> tuple[bytes, bytes]:
    """Fields and history of a dead letter in whose headers they are mixed up."""
    fields, history = Table(), Table()
    for name, value in decode_fields(octets).items():
        is_ours = name in DEATH_NAMES or (is_from_default and name in DEFAULT_NAMES)
        (history if is_ours else fields)[name] = value
    return encode_fields(fields), encode_fields(history)


def _carbon_copies(headers: Table) -> tuple[str, ...]:
    """Routing keys of the CC header; those that are no text route nowhere."""
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
) -> History | None:
    """The history with one more death; None after ``FORGOTTEN_MAX`` forgotten ones.

    ``history`` is empty at the first. ``exchange``, ``routing_keys`` (with CC) and ``expiration``
    are those with which the message was published to ``queue``.

    The octets of earlier deaths are moved as they are. Above ``DEATHS_MAX`` deaths or
    ``DEATHS_MAX_BYTES`` the second oldest is forgotten. If it is younger than the latest rejection,
    a hash of its queue is kept, or the message could go round in more queues than x-death has.
    """
    deaths: list[bytes] = []
    first = behind = forgotten = b""
    if history:
        deaths, first, forgotten, behind = _cut(history)
    place = encode_fields(Table(reason=reason, queue=queue))
    for position, death in enumerate(deaths):
        if death.startswith(place, _REASON_AT):
            latest = _counted_up(deaths.pop(position))
            break
    else:
        table = Table(
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
            table["original-expiration"] = expiration
        fields = encode_fields(table)
        latest = b"F%b%b" % (len(fields).to_bytes(4, "big"), fields)
    deaths.insert(0, latest)
    barred = _barred_queues(deaths)
    if reason == REJECTED:
        forgotten = b""
    size = sum(map(len, deaths))
    while len(deaths) > DEATHS_MAX or (size > DEATHS_MAX_BYTES and len(deaths) > _DEATHS_MIN):
        index = len(deaths) - _DEATHS_MIN
        if index == len(barred):  # this one is the latest rejection
            index -= 1
            if not index:
                break
        if index < len(barred):
            forgotten += _digest(barred.pop(index))
        size -= len(deaths.pop(index))
    if len(forgotten) > FORGOTTEN_MAX * _DIGEST_BYTES:
        return None
    details = {"reason": reason, "queue": queue, "exchange": exchange}
    if not first:
        first = encode_fields(Table({f"x-first-death-{name}": details[name] for name in _DETAILS}))
    last = encode_fields(Table({f"x-last-death-{name}": details[name] for name in _DETAILS}))
    head = _HISTORY_START + size.to_bytes(4, "big")
    if forgotten:
        last += _FORGOTTEN_HEAD + len(forgotten).to_bytes(4, "big") + forgotten
    return History(b"".join([head, *deaths, first, last, behind]), frozenset(barred), forgotten)


def _digest(queue: str) -> bytes:
    name = queue.encode("utf-8", "surrogateescape")
    return blake2b(name, digest_size=_DIGEST_BYTES).digest()


def _has_digest(digests: bytes, queue: str) -> bool:
    if not digests:
        return False
    digest = _digest(queue)
    at = digests.find(digest)
    while at >= 0 and at % _DIGEST_BYTES:
        at = digests.find(digest, at + 1)
    return at >= 0


def _cut(history: bytes) -> tuple[list[bytes], bytes, bytes, bytes]:
    """A history in four parts, for one more death to be recorded.

    The tables of x-death, the fields x-first-death-*, the octets of x-death-forgotten, and what
    follows.
    """
    position = len(_HISTORY_START) + 4
    end = position + int.from_bytes(history[position - 4 : position], "big")
    deaths: list[bytes] = []
    while position < end:
        start = position
        position += 5 + int.from_bytes(history[position + 1 : position + 5], "big")
        deaths.append(history[start:position])
    first_end = _behind_details(history, end)
    behind = history[_behind_details(history, first_end) :]
    forgotten = b""
    if behind.startswith(_FORGOTTEN_HEAD):
        start = len(_FORGOTTEN_HEAD) + 4
        stop = start + int.from_bytes(behind[start - 4 : start], "big")
        forgotten, behind = behind[start:stop], behind[stop:]
    return deaths, history[end:first_end], forgotten, behind


def _behind_details(history: bytes, position: int) -> int:
    """Return the end of the fields that hold reason, queue and exchange of one death."""
    for _ in _DETAILS:
        position += 2 + history[position]  # the name and the type, S
        position += 4 + int.from_bytes(history[position : position + 4], "big")
    return position


def _counted_up(death: bytes) -> bytes:
    count = int.from_bytes(death[_COUNT_AT:_REASON_AT], "big") + 1
    return death[:_COUNT_AT] + count.to_bytes(8, "big") + death[_REASON_AT:]


def _barred_queues(deaths: list[bytes]) -> list[str]:
    """The queues of the deaths since a client last rejected the message.

    Coming back to one of these would be a cycle that only the broker keeps going
    (RabbitMQ: ``mc:is_death_cycle``).
    """
    names: list[str] = []
    for death in deaths:
        if death.startswith(_REJECTED, _REASON_AT):
            break
        start = _REASON_AT + _REASON_HEAD
        start += int.from_bytes(death[start - 4 : start], "big") + _QUEUE_HEAD
        end = start + int.from_bytes(death[start - 4 : start], "big")
        names.append(str(death[start:end], "utf-8", "surrogateescape"))
    return names
