"""A message as JSON for people: properties decoded, the body as text, JSON, base64 or hex, cut.

A parser of JSON holds the loop for some ms for each MB. So the one long text of a request, the body
of a message, is cut out of the JSON first and decoded in steps, and becomes JSON in steps.

Invariants: what cannot be read is shown as such, and hides nothing else of the message; what is cut
out is what a parser of the whole would have made of it.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeVar

import orjson

from hareline.administration.checks import is_shallow, table_json
from hareline.amqp.context import Context
from hareline.errors import ContentTooLarge, MalformedFrame, PreconditionFailed, StoreError
from hareline.management.answers import encoded
from hareline.message import LargeBody, Message
from hareline.octets import base64_of
from hareline.queues.core.entry import HELD, QueueEntry
from hareline.wire.properties import Properties

#: Texts that are cut out; JSON up to this size is parsed in some ms.
LONG_BYTES: Final = 262_144
#: What may stand beside such a text, which is parsed at one go.
REST_BYTES: Final = 2_097_152
#: Octets that are decoded at one go, in a ms or two at the worst.
PIECE_BYTES: Final = 65_536
#: Octets that are written to a file at one go.
WRITTEN_AT_ONCE: Final = 1_048_576
_FINDS_AT_ONCE: Final = 1_024

# Escapes that are whole; a pair of surrogates is one.
_WHOLE: Final = re.compile(
    rb"(?:[^\\]++|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb'|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\["\\/bfnrt])*+'
)
_ESCAPE_MAX: Final = 12

T = TypeVar("T")
Steps = Generator[None, None, T]


@dataclass(frozen=True, slots=True)
class LongText:
    """A text of JSON as it stands in ``octets``, without its quotes; decoded it is in pieces."""

    octets: bytes | bytearray
    start: int
    end: int

    def decoded(self, errors: str) -> Steps[list[bytes]]:
        """The text in UTF-8; ``errors`` as of ``str.encode``. Raises ValueError."""
        octets, at, end = self.octets, self.start, self.end
        pieces = []
        while at < end:
            matched = _WHOLE.match(octets, at, min(at + PIECE_BYTES, end))
            stop = at if matched is None else matched.end()
            while at < stop < end and octets[stop] & 0xC0 == 0x80:  # within a character
                stop -= 1
            if stop == at:  # nothing there is valid; the parser says what is wrong
                stop = min(at + _ESCAPE_MAX, end)
            text: str = json.loads('"' + octets[at:stop].decode("utf-8", "surrogatepass") + '"')
            pieces.append(text.encode("utf-8", errors))
            at = stop
            yield
        return pieces

    def from_base64(self) -> Steps[list[bytes]]:
        """The octets that the text stands for. Raises ValueError if it is not base64."""
        octets, start, end = self.octets, self.start, self.end
        if octets.find(b"\\", start, end) >= 0:  # such as \/
            octets = b"".join((yield from self.decoded("strict")))
            start, end = 0, len(octets)
        padding = octets.find(b"=", start, end)
        if 0 <= padding < end - 2:
            raise binascii.Error("padding within the data")
        pieces = []
        for at in range(start, end, PIECE_BYTES):  # which 4 divides
            pieces.append(base64.b64decode(octets[at : min(at + PIECE_BYTES, end)], validate=True))
            yield
        return pieces


def cut_long_text(
    octets: bytes | bytearray, key: str
) -> Steps[tuple[bytes | bytearray, LongText | None]]:
    """The JSON without the text that is long and the value of ``key`` in the outermost object.

    An empty text stands in its place. None: there is no such text, and the JSON is as it was.
    Raises ValueError if more than ``REST_BYTES`` are left.
    """
    rest, text = yield from _cut(octets, key)
    if len(rest) > REST_BYTES:
        raise ValueError(f"more than {REST_BYTES} octets beside '{key}'")
    return rest, text


def _cut(octets: bytes | bytearray, key: str) -> Steps[tuple[bytes | bytearray, LongText | None]]:
    if len(octets) <= LONG_BYTES:
        return octets, None
    is_key = re.compile(rb'"%b"[ \t\r\n]*:[ \t\r\n]*\Z' % re.escape(key.encode()))
    at = depth = count = 0
    while (start := octets.find(b'"', at)) >= 0:
        between = octets[at:start]
        depth += between.count(b"{") + between.count(b"[")
        depth -= between.count(b"}") + between.count(b"]")
        end = octets.find(b'"', start + 1)
        while end >= 0 and _is_escaped(octets, start + 1, end):
            end = octets.find(b'"', end + 1)
            count += 1
            if count % _FINDS_AT_ONCE == 0:
                yield
        if end < 0:
            break
        if end - start > LONG_BYTES and depth == 1:
            before = octets[max(0, start - len(key) - 64) : start]
            if is_key.search(before):
                rest = octets[: start + 1] + octets[end:]
                return rest, LongText(octets, start + 1, end)
        at = end + 1
        count += 1
        if count % _FINDS_AT_ONCE == 0:
            yield
    return octets, None


def _is_escaped(octets: bytes | bytearray, start: int, quote: int) -> bool:
    """True if the quote there has an odd number of backslashes before it."""
    at = quote
    while at > start:
        piece = octets[max(start, at - PIECE_BYTES) : at]
        kept = len(piece.rstrip(b"\\"))
        at -= len(piece) - kept
        if kept:
            break
    return (quote - at) % 2 == 1


def kept_body(context: Context, pieces: Sequence[bytes]) -> Steps[bytes | LargeBody]:
    """The body of these pieces as messages have it: a large one is in a file.

    Raises PreconditionFailed and ContentTooLarge for one that is too large, and StoreError.
    """
    limits, bodies = context.limits, context.large_bodies
    size = sum(map(len, pieces))
    if size > limits.max_message_bytes:
        raise PreconditionFailed(
            f"message size {size} is larger than configured max size {limits.max_message_bytes}"
        )
    if bodies is None or size <= limits.large_message_bytes:
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    draft = bodies.begin(size)
    try:
        for piece in pieces:
            for at in range(0, len(piece), WRITTEN_AT_ONCE):
                draft.add(piece[at : at + WRITTEN_AT_ONCE])
                yield
        return draft.finish()
    except (ContentTooLarge, StoreError, GeneratorExit):
        draft.abandon()
        raise


# ----------------------------------------------------------------------------------------- messages


Encoding = Literal["auto", "base64", "hex", "json"]

_PIECE_BYTES: Final = 196_608  # of a long body; a multiple of 3, so that base64 can be joined
JSON_MAX_BYTES: Final = 131_072  # of a body that is read as JSON: some ms at the worst
_NOTHING_MORE: Final = MappingProxyType[str, object]({})


@dataclass(frozen=True, slots=True)
class Shown:
    """The form in which bodies are shown. ``truncate``: octets of each; None: all."""

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
