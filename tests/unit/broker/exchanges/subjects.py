"""What the exchange tests bind and publish: a destination with a name, and real messages."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from hareline.broker.exchanges.exchange import Destination, Exchange
from hareline.message import Address, Message
from hareline.wire.properties import Properties, encode_properties


class Place:
    """Stands for a queue: an exchange looks at its name and its identity only."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def message(**properties: Any) -> Message:
    """A message as it comes from the wire, with these properties and no body."""
    octets = encode_properties(Properties(**properties))
    content = b"\0" * 19 + octets + b"\xce"
    return Message(Address("", "", b"\0\0"), content, len(content), 0, 1, 0)


PLAIN = message()


def names(destinations: Iterable[Destination]) -> list[str]:
    """The names in a match result, sorted, each once."""
    return sorted({destination.name for destination in destinations})


def matched(exchange: Exchange, routing_key: str, subject: Message = PLAIN) -> list[str]:
    """The names of the destinations that a message is for, sorted, each once."""
    return names(exchange.match(routing_key, subject))


def calls_made_by(function: Callable[[], object]) -> int:
    """How many functions it calls, Python's and C's: a measure of work that is always the same."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # a collection in between would call whoever listens to the collector
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count
