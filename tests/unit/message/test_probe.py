"""A probe has the properties that it is given, and refuses what AMQP cannot carry."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.message.probe import probe_message


def test_a_probe_has_address_properties_and_headers() -> None:
    message = probe_message(
        "x",
        "k",
        properties={"priority": 4, "message_id": "m", "timestamp": 9},
        headers={"size": 7, "list": [1, "a"]},
        arrival_ms=5,
    )
    assert (message.address.exchange, message.address.routing_key) == ("x", "k")
    assert message.properties.priority == 4
    assert message.properties.message_id == "m"
    assert message.properties.timestamp == 9
    assert dict(message.headers) == {"size": 7, "list": [1, "a"]}
    assert (message.body, message.arrival_ms) == (b"", 5)


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"message_id": 3}, "property message_id: 3 is not a text"),
        ({"priority": "high"}, "property priority: 'high' is not a whole number"),
        ({"priority": True}, "property priority: True is not a whole number"),
        ({"priority": 256}, "property priority"),
        ({"colour": "red"}, "property colour is not known"),
        ({"message_id": "m" * 256}, "property message_id"),
    ],
)
def test_what_amqp_cannot_carry_is_named(properties: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        probe_message("x", "k", properties=properties, headers={}, arrival_ms=0)


def test_names_have_255_octets_at_most() -> None:
    with pytest.raises(ValueError, match="routing_key: longer than 255 octets"):
        probe_message("x", "k" * 256, properties={}, headers={}, arrival_ms=0)
