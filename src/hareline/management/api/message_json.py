"""A message as JSON for people: properties decoded, the body as text, JSON, base64 or hex, cut.

Called by ``publishing`` (get), ``messages`` (browse), ``unacknowledged`` and ``queue_operations``.
What is made for programs that give it back octet for octet is ``hareline.message.exported``;
``message_files`` has its bodies from here. A long body becomes JSON piece by piece, in steps.

Invariant: what cannot be read is shown as such, and hides nothing else of the message.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

import orjson

from hareline.administration.checks import is_shallow
from hareline.administration.terms import table_json
from hareline.errors import MalformedFrame, StoreError
from hareline.management.api.long_bodies import LONG_BYTES, Steps
from hareline.management.strict_json import encoded
from hareline.message import Message
from hareline.octets import base64_of
from hareline.queues.core.entry import HELD, QueueEntry
from hareline.wire.properties import Properties

Encoding = Literal["auto", "base64", "hex", "json"]

_PIECE_BYTES: Final = 196_608  # of a long body; a multiple of 3, so that base64 can be joined
JSON_MAX_BYTES: Final = 131_072  # of a body that is read as JSON: some ms at the worst
_NOTHING_MORE: Final = MappingProxyType[str, object]({})


@dataclass(frozen=True, slots=True)
class Shown:
    """How bodies are shown. ``truncate``: octets of each; None: all."""

    encoding: Encoding = "auto"
    truncate: int | None = None


def properties_json(message: Message) -> dict[str, Any]:
    """The properties that are set, with plain values. Raises MalformedFrame."""
    properties = message.properties
    found = {
        field.name: value
        for field in fields(Properties)
        if (value := getattr(properties, field.name)) is not None
    }
    message.forget_properties()
    if "headers" in found:
        found["headers"] = table_json(found["headers"])
    return found


def payload_json(body: bytes, shown: Shown) -> dict[str, Any]:
    """``payload`` and its encoding; ``truncated`` where octets are left out."""
    cut = body if shown.truncate is None else body[: shown.truncate]
    answer: dict[str, Any] = {}
    if len(cut) < len(body):
        answer["truncated"] = True
    if shown.encoding == "json" and len(cut) == len(body) <= JSON_MAX_BYTES:
        try:
            parsed = json.loads(body)
        except (ValueError, RecursionError):
            pass  # shown as what it is
        else:
            if is_shallow(parsed):
                return {"payload": parsed, "payload_encoding": "json", **answer}
    if shown.encoding == "base64":
        return {"payload": base64_of(cut), "payload_encoding": "base64", **answer}
    if shown.encoding == "hex":
        return {"payload": cut.hex(), "payload_encoding": "hex", **answer}
    try:
        return {
            "payload": _text_of(cut, len(cut) < len(body)),
            "payload_encoding": "string",
            **answer,
        }
    except UnicodeDecodeError:
        return {"payload": base64_of(cut), "payload_encoding": "base64", **answer}


def _text_of(octets: bytes, is_cut: bool) -> str:
    """The octets as text; a character that the cut goes through is left out."""
    try:
        return octets.decode()
    except UnicodeDecodeError as error:
        if is_cut and error.end == len(octets) and len(octets) - error.start < 4:
            return octets[: error.start].decode()
        raise


class ShownMessage(NamedTuple):
    """``parts``: its JSON, to be joined. ``is_whole``: False if something could not be read."""

    parts: list[bytes]
    is_whole: bool = True


def taken_message(
    entry: QueueEntry, is_redelivered: bool, message_count: int, shown: Shown
) -> Steps[ShownMessage]:
    """A message as RabbitMQ's ``get`` shows it."""
    message = entry.message
    row: dict[str, Any] = {
        "payload_bytes": message.size,
        "redelivered": is_redelivered,
        "exchange": message.address.exchange,
        "routing_key": message.address.routing_key,
        "message_count": message_count,
    }
    return (yield from _with_content(row, message, shown))


def browsed_message(
    entry: QueueEntry,
    message: Message | None,
    shown: Shown,
    beside: Mapping[str, object] = _NOTHING_MORE,
) -> Steps[ShownMessage]:
    """A message where it stands. ``message`` None: its content cannot be read from disk.

    ``beside``: further keys, and what replaces some.
    """
    if message is None or not _is_long(message, shown):
        return ShownMessage([encoded({**browsed_json(entry, message, shown), **beside})])
    row = {**_standing_json(entry, message), **beside}
    return (yield from _with_content(row, message, shown))


def browsed_json(entry: QueueEntry, message: Message | None, shown: Shown) -> dict[str, Any]:
    """As ``browsed_message``, for bodies of which no more than ``LONG_BYTES`` are shown."""
    if message is None:
        row = _standing_json(entry, entry.message)
        return {**row, "problem": "the content cannot be read from disk"}
    return {**_standing_json(entry, message), **_content_json(message, shown)}


def _standing_json(entry: QueueEntry, known: Message) -> dict[str, Any]:
    return {
        "offset": entry.offset,
        "state": "held" if entry.state == HELD else "ready",
        "payload_bytes": known.size,
        "redelivered": entry.delivery_count > 0,
        "delivery_count": entry.returns,
        "exchange": known.address.exchange,
        "routing_key": known.address.routing_key,
        "arrival_ms": known.arrival_ms,
        "expires_at_ms": entry.expires_at_ms or known.expires_at_ms or None,
    }


def _with_content(row: dict[str, Any], message: Message, shown: Shown) -> Steps[ShownMessage]:
    if not _is_long(message, shown):
        row |= _content_json(message, shown)
        return ShownMessage([encoded(row)], "problem" not in row)
    row |= _properties_json(message)
    size = message.size if shown.truncate is None else min(message.size, shown.truncate)
    if size < message.size:
        row["truncated"] = True
    encoding = shown.encoding if shown.encoding in ("base64", "hex") else "auto"
    try:
        body = yield from body_parts(message, size, encoding)
    except (StoreError, OSError) as error:
        row["problem"] = _unreadable(error)
        return ShownMessage([encoded(row)], False)
    row["payload_encoding"] = body.encoding
    head = encoded(row)[:-1] + b',"payload":"'
    return ShownMessage([head, *body.parts, b'"}'], "problem" not in row)


def _is_long(message: Message, shown: Shown) -> bool:
    return message.size > LONG_BYTES and (shown.truncate is None or shown.truncate > LONG_BYTES)


class BodyParts(NamedTuple):
    """A body as the inside of a text of JSON. ``encoding``: string, base64 or hex."""

    parts: list[bytes]
    encoding: str


def body_parts(message: Message, size: int, encoding: str) -> Steps[BodyParts]:
    """So many octets of a body, some at a time. ``encoding`` auto: text if it is UTF-8.

    Raises StoreError and OSError if it cannot be read.
    """
    pieces = yield from _read_in_pieces(message, size)
    if encoding == "auto":
        decoder = codecs.getincrementaldecoder("utf-8")()
        texts: list[bytes] = []
        try:
            for piece in pieces:
                texts.append(orjson.dumps(decoder.decode(piece))[1:-1])
                yield
            decoder.decode(b"", final=size == message.size)
        except UnicodeDecodeError:
            encoding = "base64"
        else:
            return BodyParts(texts, "string")
    armored: list[bytes] = []
    for piece in pieces:
        armored.append(piece.hex().encode() if encoding == "hex" else base64_of(piece).encode())
        yield
    return BodyParts(armored, encoding)


def _read_in_pieces(message: Message, size: int) -> Steps[list[bytes]]:
    """The first octets of a body in pieces of ``_PIECE_BYTES``."""
    if message.large is None:
        body = message.body
        return [body[at : min(at + _PIECE_BYTES, size)] for at in range(0, size, _PIECE_BYTES)]
    reader = message.large.open()
    pieces = []
    for at in range(0, size, _PIECE_BYTES):
        pieces.append(reader.read(min(_PIECE_BYTES, size - at)))
        yield
    return pieces


def _content_json(message: Message, shown: Shown) -> dict[str, Any]:
    answer = _properties_json(message)
    try:
        answer |= payload_json(_body_of(message, shown), shown)
    except (StoreError, OSError) as error:
        answer["problem"] = _unreadable(error)
    return answer


def _unreadable(error: Exception) -> str:
    return f"the body cannot be read: {error}"


def _properties_json(message: Message) -> dict[str, Any]:
    try:
        return {"properties": properties_json(message)}
    except MalformedFrame as error:
        return {"properties": {}, "problem": error.explanation}


def _body_of(message: Message, shown: Shown) -> bytes:
    """The body; of a large one, which is in a file, no more than is shown, and one octet."""
    large = message.large
    if large is not None and shown.truncate is not None and shown.truncate < message.size:
        return large.open().read(shown.truncate + 1)
    return message.body
