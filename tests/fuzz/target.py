"""What a fuzzer is given: a function that takes any octets, and what it begins with.

A target holds what it calls to what that promises: it returns for whatever the promise covers, and
raises for everything else. It must do the same each time, so that a finding can be replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """``run``: raises for a finding. ``seeds``: inputs that reach far. ``words``: what to insert.

    ``size_max``: octets of an input; ``timeout_s``: longer than that is a finding.
    """

    name: str
    run: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]
    words: Sequence[bytes] = ()
    size_max: int = 4096
    timeout_s: int = 10


class Reader:
    """Reads an input from front to back, as a script; at its end everything is 0 or empty."""

    __slots__ = ("_at", "_octets")

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._octets)

    def octet(self) -> int:
        octets = self.take(1)
        return octets[0] if octets else 0

    def number(self) -> int:
        """16 bits."""
        return self.octet() << 8 | self.octet()

    def take(self, size: int) -> bytes:
        taken = self._octets[self._at : self._at + size]
        self._at += size
        return taken

    def piece(self) -> bytes:
        """As many octets as the next one says."""
        return self.take(self.octet())

    def rest(self) -> bytes:
        return self.take(len(self._octets))


def piece(octets: bytes) -> bytes:
    """What ``Reader.piece`` reads as these."""
    assert len(octets) < 256
    return bytes((len(octets),)) + octets
