"""A large body that is in memory, for tests of messages without a store."""

from __future__ import annotations

from hareline.message import BodyReader, LargeBody


class BodyInMemory(LargeBody):
    """Stands for one in a file."""

    def __init__(self, body: bytes) -> None:
        super().__init__(1, len(body))
        self.octets = body

    def open(self) -> BodyReader:
        return ReaderOfMemory(self.octets)

    def sync(self) -> None:
        """There is no file."""


class ReaderOfMemory(BodyReader):
    """Reads from the octets that are left."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets

    def read(self, size: int) -> bytes:
        octets, self.octets = self.octets[:size], self.octets[size:]
        return octets
