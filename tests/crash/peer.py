"""One connection that never blocks: what one thread needs to play many clients at once.

It is opened by the blocking client of ``tests.support.raw_client``, and from ``start`` on it only
takes and gives what the socket has room for. A broker that was killed may have said something
before; ``poll`` reads that to the last octet, since a confirm that was sent counts.
"""

from __future__ import annotations

import itertools
from typing import Final, NamedTuple

from pamqp import commands, frame, header, heartbeat
from pamqp.base import Frame
from pamqp.body import ContentBody

from tests.support.raw_client import RawClient

_RECEIVE_OCTETS: Final = 262_144
_FRAME_HEAD_SIZE: Final = 7
_FRAME_OVERHEAD: Final = 8
_numbers = itertools.count(1)


class Event(NamedTuple):
    """A method, and the content that came with it."""

    method: Frame
    properties: commands.Basic.Properties
    body: bytes


class Peer(RawClient):
    """``number``: one that no other connection of this process has. ``is_over``: end of stream."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address)
        self.number = next(_numbers)
        self.is_over = False
        self._received = bytearray()
        self._out = bytearray()
        self._half: tuple[Frame, header.ContentHeader] | None = None
        self._body = bytearray()

    def start(self) -> None:
        """From now on nothing blocks."""
        self.socket.setblocking(False)
        self._received += self._buffer
        self._buffer = b""

    @property
    def unsent_octets(self) -> int:
        return len(self._out)

    def put(self, *methods: Frame) -> None:
        """Send these when there is room."""
        for method in methods:
            self._out += frame.marshal(method, 1)

    def put_publish(
        self, exchange: str, routing_key: str, properties: commands.Basic.Properties, body: bytes
    ) -> None:
        self.put(commands.Basic.Publish(exchange=exchange, routing_key=routing_key))
        self._out += frame.marshal(header.ContentHeader(0, len(body), properties), 1)
        chunk = self.frame_max - _FRAME_OVERHEAD
        for start in range(0, len(body), chunk):
            self._out += frame.marshal(ContentBody(body[start : start + chunk]), 1)

    def flush(self) -> None:
        """Give the socket what it takes."""
        try:
            while self._out:
                sent = self.socket.send(self._out)
                del self._out[:sent]
        except BlockingIOError:
            return
        except (ConnectionResetError, BrokenPipeError):
            self._out.clear()

    def poll(self) -> list[Event]:
        """What has come meanwhile. Raises AssertionError when the broker closes with an error."""
        try:
            while not self.is_over:
                octets = self.socket.recv(_RECEIVE_OCTETS)
                self._received += octets
                self.is_over = not octets
        except BlockingIOError:
            pass
        except ConnectionResetError:
            self.is_over = True
        return self._take_events()

    def _take_events(self) -> list[Event]:
        events: list[Event] = []
        received = self._received
        at = 0
        while len(received) - at >= _FRAME_OVERHEAD:
            end = at + int.from_bytes(received[at + 3 : at + 7], "big") + _FRAME_OVERHEAD
            if end > len(received):
                break
            _, _, incoming = frame.unmarshal(bytes(received[at:end]))
            at = end
            if isinstance(incoming, header.ContentHeader):
                assert self._half is not None
                self._half = (self._half[0], incoming)
                self._complete(events)
            elif isinstance(incoming, ContentBody):
                self._body += incoming.value
                self._complete(events)
            elif isinstance(incoming, Frame):
                self._take_method(incoming, events)
            else:
                assert isinstance(incoming, heartbeat.Heartbeat), incoming
        del received[:at]
        return events

    def _take_method(self, method: Frame, events: list[Event]) -> None:
        if isinstance(method, commands.Connection.Close):
            assert method.reply_code == 320, f"{method.reply_code} {method.reply_text}"
            self._out += frame.marshal(commands.Connection.CloseOk(), 0)
        elif isinstance(method, commands.Channel.Close):
            raise AssertionError(f"{method.reply_code} {method.reply_text}")
        elif isinstance(method, commands.Basic.Deliver | commands.Basic.GetOk):
            self._half = (method, header.ContentHeader())
            self._body.clear()
        elif isinstance(method, commands.Basic.Return):
            raise AssertionError(f"returned: {method.reply_text}")
        else:
            events.append(Event(method, commands.Basic.Properties(), b""))

    def _complete(self, events: list[Event]) -> None:
        assert self._half is not None
        method, head = self._half
        if len(self._body) == head.body_size:
            events.append(Event(method, head.properties, bytes(self._body)))
            self._half = None
