"""Who is believed, what is handed on, and what becomes of a connection without a valid header."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hareline.auth.peer import Networks
from hareline.events import Event
from hareline.net.addresses import Relayed
from hareline.net.proxy_front import ProxyDoor, ProxyFront
from tests.support.transports import RecordingTransport
from tests.support.waiting import until

PROXY = ("10.0.0.5", 999)
LOCAL = ("10.0.0.9", 5672)
HEADER = b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 5672\r\n"


class Behind(asyncio.Protocol):
    def __init__(self, relayed: Relayed | None) -> None:
        self.relayed = relayed
        self.transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        assert isinstance(transport, RecordingTransport)
        transport.calls.append("made")


class Stand:
    """One connection to a port that trusts 10.0.0.0/8."""

    def __init__(self, peer: tuple[str, int] = PROXY, timeout_s: float = 3600) -> None:
        self.reports: list[tuple[str, dict[str, Any]]] = []
        proxies = Networks(["10.0.0.0/8", "127.0.0.0/8"])
        self.door = ProxyDoor(proxies, lambda: timeout_s, self._report)
        self.made: list[Behind] = []
        self.front: ProxyFront = self.door.front(self._make)
        self.transport = RecordingTransport(peername=peer, sockname=LOCAL)
        self.front.connection_made(self.transport)

    def _make(self, relayed: Relayed | None) -> Behind:
        self.made.append(Behind(relayed))
        return self.made[-1]

    def _report(self, event: Event, **fields: object) -> None:
        self.reports.append((event.code, fields))

    def send(self, octets: bytes) -> bytes:
        """As a socket: as much at a time as there is room for; returns what was not read."""
        while octets and not self.made and "abort" not in self.transport.calls:
            buffer = self.front.get_buffer(-1)
            size = min(len(buffer), len(octets))
            buffer[:size] = octets[:size]
            octets = octets[size:]
            self.front.buffer_updated(size)
        return octets


async def test_a_client_of_its_own_is_handed_on_at_once() -> None:
    stand = Stand(("192.0.2.1", 4))
    (behind,) = stand.made
    assert behind.relayed is None
    assert behind.transport is stand.transport
    assert stand.transport.protocol is behind
    assert not stand.door.waiting


async def test_a_proxy_s_client_is_handed_on_with_its_addresses_and_no_octet_is_lost() -> None:
    stand = Stand()
    assert not stand.made
    assert stand.send(HEADER + b"AMQP") == b"AMQP"
    (behind,) = stand.made
    assert behind.relayed == Relayed(("192.0.2.7", 40000), ("198.51.100.1", 5672))
    assert stand.transport.protocol is behind
    assert stand.transport.calls == ["pause", "resume", "made"]
    assert not stand.door.waiting


async def test_what_is_behind_can_pause_at_once() -> None:
    stand = Stand()
    stand.send(HEADER)
    assert stand.transport.calls == ["pause", "resume", "made"]


async def test_a_proxy_s_own_connection_has_its_own_addresses() -> None:
    stand = Stand()
    stand.send(b"PROXY UNKNOWN\r\n")
    assert [behind.relayed for behind in stand.made] == [None]


async def test_the_loopback_of_a_proxy_elsewhere_is_not_ours() -> None:
    stand = Stand()
    stand.send(b"PROXY TCP4 127.0.0.1 127.0.0.1 40000 5672\r\n")
    assert stand.made[0].relayed == Relayed(PROXY, ("127.0.0.1", 5672))


async def test_the_loopback_of_a_proxy_on_this_machine_is_ours() -> None:
    stand = Stand(("127.0.0.1", 9))
    stand.send(b"PROXY TCP4 127.0.0.1 127.0.0.1 40000 5672\r\n")
    assert stand.made[0].relayed == Relayed(("127.0.0.1", 40000), ("127.0.0.1", 5672))


async def test_a_proxy_without_a_header_is_dropped_and_the_log_says_why() -> None:
    stand = Stand()
    stand.send(b"AMQP\x00\x00\x09\x01")
    assert stand.transport.calls == ["abort"]
    ((code, fields),) = stand.reports
    assert code == "CON-1031"
    assert fields["peer"] == "10.0.0.5:999"
    assert "AMQP" in fields["reason"]
    stand.front.connection_lost(None)  # as the transport says it then
    assert len(stand.reports) == 1
    assert not stand.made


async def test_a_proxy_that_goes_again_is_no_trouble() -> None:
    stand = Stand()
    stand.front.connection_lost(None)
    assert [code for code, _ in stand.reports] == ["CON-1014"]
    assert not stand.door.waiting


async def test_a_header_that_does_not_come_is_not_waited_for_longer() -> None:
    stand = Stand(timeout_s=0)
    stand.send(HEADER[:-1])
    await until(lambda: stand.transport.calls, "the end of the connection")
    assert stand.transport.calls == ["abort"]
    assert [code for code, _ in stand.reports] == ["CON-1006"]


async def test_a_port_that_closes_drops_those_that_wait() -> None:
    stand = Stand()
    stand.door.close()
    assert stand.transport.calls == ["abort"]
    assert not stand.door.waiting


@pytest.mark.parametrize("peer", [None, ()])
async def test_a_peer_that_was_gone_at_once_is_not_trusted(peer: Any) -> None:
    stand = Stand(peer)
    assert [behind.relayed for behind in stand.made] == [None]
