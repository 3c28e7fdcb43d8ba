"""Messages as they come from the wire, for tests that need one without a connection.

Used by the unit tests of the model and by the conformance suite.
"""

from __future__ import annotations

from typing import Any

from hareline.message import Address, Message
from hareline.wire.constants import FRAME_END_OCTET
from hareline.wire.encoder import body_frame_head, header_frame, short_string
from hareline.wire.properties import Properties, encode_properties

ARRIVAL_MS = 1_700_000_000_000


def make_address(exchange: str = "", routing_key: str = "") -> Address:
    """An address with its octets; a virtual host would intern it."""
    return Address(exchange, routing_key, short_string(exchange) + short_string(routing_key))


def make_message(
    body: bytes = b"",
    *,
    exchange: str = "",
    routing_key: str = "",
    channel: int = 1,
    **properties: Any,
) -> Message:
    """One message; ``properties`` are those of ``hareline.wire.properties.Properties``."""
    header = header_frame(channel, encode_properties(Properties(**properties)), len(body))
    content = header
    if body:
        content += body_frame_head(channel, len(body)) + body + FRAME_END_OCTET
    address = make_address(exchange, routing_key)
    return Message(address, content, len(header), len(body), channel, ARRIVAL_MS)
