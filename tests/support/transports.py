"""A transport that only remembers what is asked of it."""

from __future__ import annotations

import asyncio


class RecordingTransport(asyncio.Transport):
    """A socket with ``waiting_bytes`` unsent; ``calls`` are those for reading and closing.

    ``extra``: what ``get_extra_info`` gives. ``eof_error``: what the end of writing raises.
    """

    def __init__(self, **extra: object) -> None:
        super().__init__(extra)
        self.written = b""
        self.waiting_bytes = 0
        self.high: int | None = None
        self.calls: list[str] = []
        self.eof_error: OSError | None = None
        self.protocol: asyncio.BaseProtocol | None = None

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return not {"close", "abort"}.isdisjoint(self.calls)

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def write_eof(self) -> None:
        self.calls.append("eof")
        if self.eof_error is not None:
            raise self.eof_error

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")
