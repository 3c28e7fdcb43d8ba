"""Messages as text and as JSON, and properties from what a user writes.

The JSON is that of RabbitMQ's ``/api/queues/.../get``. Invariant: a body that is not UTF-8 is never
changed: JSON has it in base64, a terminal in hex.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.progress import visible
from hareline.octets import octets_of_base64, text_or_base64

_TEXTS: Final = (
    *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration"),
    *("message_id", "type", "user_id", "app_id"),
)
_NUMBERS: Final = {"delivery_mode": 2, "priority": 255, "timestamp": 2**63 - 1}
_ALL: Final = (*_TEXTS, *_NUMBERS, "headers")
_HEX_SHOWN: Final = 64


def properties_from(
    given: Mapping[str, str], headers: Mapping[str, Any], *, is_persistent: bool
) -> dict[str, Any]:
    """Properties of a message by name. Raises CommandFailed for one that does not exist."""
    found: dict[str, Any] = {}
    for written, value in given.items():
        name = written.replace("-", "_")
        if name in _NUMBERS:
            if not value.isdecimal() or int(value) > _NUMBERS[name]:
                raise CommandFailed(
                    f"--property: {name}: '{value}' is not a number from 0 to {_NUMBERS[name]}",
                    ExitStatus.USAGE,
                )
            found[name] = int(value)
        elif name in _TEXTS:
            found[name] = value
        else:
            raise CommandFailed(
                f"--property: '{written}' is not one of {', '.join(_ALL[:-1])}; "
                "--header sets a header",
                ExitStatus.USAGE,
            )
    if headers:
        found["headers"] = dict(headers)
    if is_persistent:
        found.setdefault("delivery_mode", 2)
    return found


def properties_of(properties: Any) -> dict[str, Any]:
    """The properties that a message of pika has, as JSON can hold them."""
    found = {name: getattr(properties, name, None) for name in _ALL}
    return {name: _jsonable(value) for name, value in found.items() if value is not None}


def message_json(
    *, exchange: str, routing_key: str, redelivered: bool, properties: Any, body: bytes
) -> dict[str, Any]:
    """A message as the API shows one."""
    payload, is_base64 = text_or_base64(body)
    return {
        "exchange": exchange,
        "routing_key": routing_key,
        "redelivered": redelivered,
        "properties": properties_of(properties),
        "payload": payload,
        "payload_bytes": len(body),
        "payload_encoding": "base64" if is_base64 else "string",
    }


def message_lines(message: Mapping[str, Any], *, full: bool = True) -> list[str]:
    """A message of the API for a terminal: where it is from, its properties, its body."""
    source = message.get("exchange") or "default exchange"
    first = f"{source} -> {message.get('routing_key', '')!r}"
    if "position" in message:
        first = f"{message['position']}: {first}"
    if message.get("redelivered"):
        first += " (redelivered)"
    properties = dict(message.get("properties") or {})
    headers = properties.pop("headers", {}) or {}
    lines = [visible(first)]
    if properties:
        lines.append("  " + visible(", ".join(f"{k}={v}" for k, v in properties.items())))
    lines += [f"  {visible(str(k))}: {visible(_short(v))}" for k, v in headers.items()]
    lines.append(f"  {visible(body_text(message, full=full))}")
    return lines


def body_text(message: Mapping[str, Any], *, full: bool) -> str:
    """The body for a terminal; hex if it is not text."""
    payload = str(message.get("payload", ""))
    if message.get("payload_encoding") != "base64":
        return payload if full or len(payload) <= _HEX_SHOWN else payload[:_HEX_SHOWN] + "..."
    body = octets_of_base64(payload)
    more = "..." if len(body) > _HEX_SHOWN and not full else ""
    return (body if full else body[:_HEX_SHOWN]).hex(" ") + more


def body_octets(message: Mapping[str, Any]) -> bytes:
    """The body of a message of the API."""
    payload = str(message.get("payload", ""))
    if message.get("payload_encoding") == "base64":
        return octets_of_base64(payload)
    return payload.encode()


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _jsonable(value: Any) -> Any:
    match value:
        case bytes():
            text, is_base64 = text_or_base64(value)
            return {"base64": text} if is_base64 else text
        case dict():
            return {str(key): _jsonable(each) for key, each in value.items()}
        case list() | tuple():
            return [_jsonable(each) for each in value]
        case Decimal():
            return str(value)
        case datetime.datetime():
            return int(value.replace(tzinfo=datetime.UTC).timestamp())
        case _:
            return value
