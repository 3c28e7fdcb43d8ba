"""A message as JSON for people: properties decoded, the body as text, JSON, base64 or hex, cut.

Called by ``publishing`` (get) and ``messages`` (browse). What is made for programs that give it
back octet for octet is ``hareline.message.exported``.

Invariant: what cannot be read is shown as such, and hides nothing else of the message.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from hareline.broker.queues.entry import HELD, QueueEntry
from hareline.errors import MalformedFrame, StoreError
from hareline.message import Message
from hareline.wire.properties import Properties

Encoding = Literal["auto", "base64", "hex", "json"]

JSON_MAX_BYTES: Final = 1_048_576  # of a body that is read as JSON
JSON_DEPTH_MAX: Final = 100  # of its arrays and objects; encoders have limits


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
            if _is_shallow(parsed):
                return {"payload": parsed, "payload_encoding": "json", **answer}
    if shown.encoding == "base64":
        return {"payload": _armored(cut), "payload_encoding": "base64", **answer}
    if shown.encoding == "hex":
        return {"payload": cut.hex(), "payload_encoding": "hex", **answer}
    try:
        return {
            "payload": _text_of(cut, len(cut) < len(body)),
            "payload_encoding": "string",
            **answer,
        }
    except UnicodeDecodeError:
        return {"payload": _armored(cut), "payload_encoding": "base64", **answer}


def _is_shallow(value: Any) -> bool:
    """Whether no more than ``JSON_DEPTH_MAX`` arrays and objects are within one another."""
    level = [value]
    for _ in range(JSON_DEPTH_MAX):
        held = [each for each in level if isinstance(each, list | dict)]
        if not held:
            return True
        level = [
            one for each in held for one in (each.values() if isinstance(each, dict) else each)
        ]
    return False


def _text_of(octets: bytes, is_cut: bool) -> str:
    """The octets as text; a character that the cut goes through is left out."""
    try:
        return octets.decode()
    except UnicodeDecodeError as error:
        if is_cut and error.end == len(octets) and len(octets) - error.start < 4:
            return octets[: error.start].decode()
        raise


def taken_json(
    entry: QueueEntry, is_redelivered: bool, message_count: int, shown: Shown
) -> dict[str, Any]:
    """A message as RabbitMQ's ``get`` shows it."""
    message = entry.message
    answer: dict[str, Any] = {
        "payload_bytes": message.size,
        "redelivered": is_redelivered,
        "exchange": message.address.exchange,
        "routing_key": message.address.routing_key,
        "message_count": message_count,
    }
    return {**answer, **_content_json(message, shown)}


def browsed_json(entry: QueueEntry, message: Message | None, shown: Shown) -> dict[str, Any]:
    """A message where it stands. ``message`` None: its content cannot be read from disk."""
    known = entry.message if message is None else message
    answer: dict[str, Any] = {
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
    if message is None:
        return {**answer, "problem": "the content cannot be read from disk"}
    return {**answer, **_content_json(message, shown)}


def _content_json(message: Message, shown: Shown) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    try:
        answer["properties"] = properties_json(message)
    except MalformedFrame as error:
        answer["properties"] = {}
        answer["problem"] = error.explanation
    try:
        answer |= payload_json(_body_of(message, shown), shown)
    except (StoreError, OSError) as error:
        answer["problem"] = f"the body cannot be read: {error}"
    return answer


def _body_of(message: Message, shown: Shown) -> bytes:
    """The body; of a large one, which is in a file, no more than is shown, and one octet."""
    large = message.large
    if large is not None and shown.truncate is not None and shown.truncate < message.size:
        return large.open().read(shown.truncate + 1)
    return message.body


def _armored(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")
