"""A message that is never published: what a route test or a selector is tried with.

Called by ``management.api.exchanges``. It has an address and properties and no body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Final

from hareline.message.address import Address
from hareline.message.message import Message
from hareline.wire.constants import SHORTSTR_MAX_OCTETS
from hareline.wire.encoder import header_frame
from hareline.wire.properties import Properties, encode_properties
from hareline.wire.table import Table, Timestamp

#: Properties that are texts; ``headers`` are given by themselves.
TEXTS: Final = frozenset(
    each.name
    for each in fields(Properties)
    if each.name not in ("headers", "delivery_mode", "priority", "timestamp")
)
NUMBERS: Final = frozenset(("delivery_mode", "priority", "timestamp"))


def probe_message(
    exchange: str,
    routing_key: str,
    *,
    properties: Mapping[str, object],
    headers: Mapping[str, object],
    arrival_ms: int,
) -> Message:
    """The message. Raises ValueError, which says what cannot be sent over AMQP."""
    for what, text in (("exchange", exchange), ("routing_key", routing_key)):
        if len(text.encode("utf-8", "surrogateescape")) > SHORTSTR_MAX_OCTETS:
            raise ValueError(f"{what}: longer than {SHORTSTR_MAX_OCTETS} octets")
    given: dict[str, object] = {}
    for name, value in properties.items():
        if name in TEXTS:
            if not isinstance(value, str):
                raise ValueError(f"property {name}: {value!r} is not a text")
            given[name] = value
        elif name in NUMBERS:
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"property {name}: {value!r} is not a whole number")
            given[name] = Timestamp(value) if name == "timestamp" else value
        else:
            known = ", ".join(sorted(TEXTS | NUMBERS))
            raise ValueError(f"property {name} is not known; there are {known}")
    if headers:
        given["headers"] = Table(headers)
    octets = encode_properties(Properties(**given))  # type: ignore[arg-type] # checked above
    frame = header_frame(1, octets, 0)
    return Message(Address.of(exchange, routing_key), frame, len(frame), 0, 1, arrival_ms)
