"""The ``x-consistent-hash`` exchange: equal keys go to one destination, keys spread by weight.

As in RabbitMQ's plugin, the binding key is a weight, a whole number from 1. The exchange hashes the
routing key, or with ``hash-header`` the value of a header, or with ``hash-property`` message_id,
correlation_id or timestamp; messages without that value all go to one destination. A destination
that is bound several times has the sum of the weights. Called by ``broker.routing``.[hot: match]

There are ``SLOTS`` slots and a key always falls into the same one. Weighted rendezvous decides
which destination owns a slot: for each slot, each destination draws a number that depends only on
its name and weight, and the lowest wins. That gives, without any state to keep:

- the same routes after a restart and for any order in which bindings were made,
- shares in proportion to the weights (of n equal ones within about sqrt(n / SLOTS): 2.5% at 10),
- a new binding only takes slots, a removed one only gives its own away; no other slot moves,
- a match that costs one hash, for any number of bindings.

RabbitMQ's jump hash renumbers the buckets behind a removed one, so that most of their keys move;
its routes are not reproduced. A bind costs about 3 ms. The slots of removed destinations get new
owners before the next match, once for all of them, so that deleting an exchange costs nothing.

Invariant: the owner of each slot is the destination that draws the lowest number for it, except
for slots whose owner is ``_loosened``.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable
from hashlib import shake_128
from math import inf, log1p
from typing import ClassVar, Final
from zlib import crc32

from hareline.broker.exchanges import erlang_terms
from hareline.broker.exchanges.exchange import Arguments, Destination, Exchange, Headers
from hareline.errors import PreconditionFailed
from hareline.queues.declare import readers

SLOTS: Final = 16_384
_SLOT_SHIFT: Final = 33 - SLOTS.bit_length()  # from a 32-bit hash to its slot: the topmost bits
_MIX: Final = 0x9E3779B1  # odd, near 2**32 / golden ratio: spreads CRCs that differ in few bits
_NUMBERS: Final = struct.Struct(f"<{SLOTS}Q")
_UNIT: Final = 2.0**-53

_HASHED_PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")


class ConsistentHashExchange(Exchange):
    """``_weights``: destination -> sum of the weights of its bindings; empty without bindings."""

    type_name: ClassVar[str] = "x-consistent-hash"
    matches_every_key: ClassVar[bool] = False

    __slots__ = ("_hash_header", "_hash_property", "_loosened", "_lowest", "_owners", "_weights")

    def _begin(self) -> None:
        self._hash_header = _text_argument(self.arguments, "hash-header")
        self._hash_property = _text_argument(self.arguments, "hash-property")
        self.is_static = self._hash_header is None and self._hash_property is None
        self._weights: dict[Destination, int] = {}
        self._owners: list[Destination] = []  # by slot, once there is a destination
        self._lowest = array("d")  # by slot: the draw that won it
        self._loosened: set[Destination] = set()  # removed, or lighter, since the last match

    @classmethod
    def validate_arguments(cls, arguments: Arguments) -> None:
        """PreconditionFailed for two things to hash, or a property that cannot be hashed."""
        header = _text_argument(arguments, "hash-header")
        hashed_property = _text_argument(arguments, "hash-property")
        if hashed_property is None:
            return
        if header is not None:
            raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
        if hashed_property not in _HASHED_PROPERTIES:
            raise PreconditionFailed(f"Unsupported property: {hashed_property}")

    def match(self, routing_key: str, message: Headers) -> Iterable[Destination]:
        if not self._weights:
            return ()
        if self._loosened:
            self._settle()
        if self._hash_header is not None:
            octets = _value_octets(message.headers.get(self._hash_header))
        elif self._hash_property is not None:
            octets = _value_octets(getattr(message.properties, self._hash_property))
        else:
            octets = routing_key.encode("utf-8", "backslashreplace")
        return (self._owners[(crc32(octets) * _MIX & 0xFFFFFFFF) >> _SLOT_SHIFT],)

    def bind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        """Raises PreconditionFailed (RabbitMQ's text) unless the key is a whole number from 1."""
        weight = _weight_of(routing_key)
        if not self._weights:
            self._owners = [destination] * SLOTS
            self._lowest = array("d", [inf]) * SLOTS
        self._weights[destination] = self._weights.get(destination, 0) + weight
        # a higher sum of weights lowers every draw, so that this can only take slots
        self._challenge(destination, range(SLOTS))

    def unbind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        weight = self._weights[destination] - _weight_of(routing_key)
        if weight:
            self._weights[destination] = weight
        else:
            del self._weights[destination]
        if self._weights:
            self._loosened.add(destination)
        else:
            self._owners = []
            self._lowest = array("d")
            self._loosened.clear()

    def _challenge(self, destination: Destination, slots: Iterable[int]) -> None:
        """Give ``destination`` the slots for which it draws the lowest number so far.

        The draw is exponential with the weight as its rate, so that the chance to be the lowest is
        the share in the weights.
        """
        lowest, owners = self._lowest, self._owners
        weight = self._weights[destination]
        numbers = _numbers_of(destination)
        for slot in slots:
            draw = -log1p(-(numbers[slot] >> 11) * _UNIT) / weight
            if draw < lowest[slot]:
                lowest[slot] = draw
                owners[slot] = destination

    def _settle(self) -> None:
        """Find new owners for slots of destinations that were removed or lost weight."""
        loosened, self._loosened = self._loosened, set()
        vacant = [slot for slot, owner in enumerate(self._owners) if owner in loosened]
        for slot in vacant:
            self._lowest[slot] = inf
        for destination in self._weights:
            self._challenge(destination, vacant)


def _numbers_of(destination: Destination) -> tuple[int, ...]:
    """For each slot a 64-bit number that depends only on the destination's kind and name."""
    kind = "exchange" if isinstance(destination, Exchange) else "queue"
    seed = f"{kind}\0{destination.name}".encode("utf-8", "backslashreplace")
    return _NUMBERS.unpack(shake_128(seed).digest(_NUMBERS.size))


def _value_octets(value: object) -> bytes:
    """The text that is hashed for a header or property: a text itself, otherwise its repr."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace")
    if isinstance(value, bytes):
        return value
    return b"" if value is None else repr(value).encode("utf-8", "backslashreplace")


def _weight_of(routing_key: str) -> int:
    """A binding key as a weight: decimal digits, a sign is allowed, as in Erlang."""
    digits = routing_key[1:] if routing_key[:1] in ("+", "-") else routing_key
    if not (digits.isascii() and digits.isdigit()):
        raise PreconditionFailed(
            f"The binding key must be an integer: {erlang_terms.binary_term(routing_key)}"
        )
    weight = int(routing_key)
    if weight < 1:
        raise PreconditionFailed("The binding key must be greater than 0")
    return weight


def _text_argument(arguments: Arguments, name: str) -> str | None:
    """The value of a declare argument that is a name; PreconditionFailed for another type."""
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise PreconditionFailed(
            f"invalid type '{readers.type_name(value)}' for arg '{name}': expected longstr"
        )
    return value
