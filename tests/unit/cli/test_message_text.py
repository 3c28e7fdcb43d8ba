"""Messages as JSON and as lines; properties from what a user writes."""

from __future__ import annotations

import datetime
from decimal import Decimal
from types import SimpleNamespace

import pytest

from hareline.cli.failures import CommandFailed
from hareline.cli.messages import (
    body_octets,
    body_text,
    message_json,
    message_lines,
    properties_from,
    properties_of,
)


def message(body: bytes, **properties: object) -> dict[str, object]:
    method = SimpleNamespace(exchange="e", routing_key="k", redelivered=True)
    return message_json(method, SimpleNamespace(**properties), body)


def test_a_message_as_json() -> None:
    assert message("ü".encode(), priority=3, headers={"a": b"\xff", "n": Decimal("1.5")}) == {
        "exchange": "e",
        "routing_key": "k",
        "redelivered": True,
        "properties": {"priority": 3, "headers": {"a": {"base64": "/w=="}, "n": "1.5"}},
        "payload": "ü",
        "payload_bytes": 2,
        "payload_encoding": "string",
    }


@pytest.mark.parametrize("body", [b"", b"text", "ü".encode(), b"\xff\x00", bytes(range(256))])
def test_a_body_comes_back_as_it_was(body: bytes) -> None:
    assert body_octets(message(body)) == body


def test_a_message_as_lines_has_no_control_characters() -> None:
    made = message(b"a\x1b[2J\nb", content_type="text/plain", headers={"x\t": "y\x07"})
    assert message_lines(made) == [
        "e -> 'k' (redelivered)",
        "  content_type=text/plain",
        "  x\\t: y\\x07",
        "  a\\x1b[2J\\nb",
    ]


def test_a_body_that_is_no_text_is_hex() -> None:
    assert body_text(message(b"\xff\x00")) == "ff 00"


def test_a_timestamp_is_a_number() -> None:
    moment = datetime.datetime(2026, 1, 5, 10)  # as pika gives it, without a zone
    assert properties_of(SimpleNamespace(timestamp=moment, headers={"t": moment})) == {
        "timestamp": 1767607200,
        "headers": {"t": 1767607200},
    }


def test_properties_are_checked() -> None:
    given = {"content-type": "a/b", "priority": "9", "delivery_mode": "1"}
    assert properties_from(given, {"h": 1}, is_persistent=True) == {
        "content_type": "a/b",
        "priority": 9,
        "delivery_mode": 1,
        "headers": {"h": 1},
    }
    assert properties_from({}, {}, is_persistent=True) == {"delivery_mode": 2}
    with pytest.raises(CommandFailed, match="'colour' is not one of content_type"):
        properties_from({"colour": "red"}, {}, is_persistent=False)
    for value in ("256", "-1", "x"):
        with pytest.raises(CommandFailed, match=r"priority: .* is not a number from 0 to 255"):
            properties_from({"priority": value}, {}, is_persistent=False)
