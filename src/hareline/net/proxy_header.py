"""The header of the PROXY protocol, versions 1 and 2 (HAProxy's specification, section 2).

``net.proxy_front`` feeds it. A reader asks for no more octets than the header certainly still has:
AMQP, HTTP or TLS begins exactly behind it. Only a header that is valid as a whole is used.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from hareline.net.addresses import ProxyTls, SocketAddress

_V2_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_V2_START: Final = struct.Struct(">12sBBH")  # signature, version and command, family, length
_V2_LENGTH_MAX: Final = 16_384  # a certificate of the client may be in it
_V1_START: Final = b"PROXY "
_V1_LEAST: Final = len(b"PROXY UNKNOWN\r\n")
_V1_LENGTH_MAX: Final = 107
_FIRST_READ: Final = 8  # as much as both versions have, and enough to tell them apart

_LOCAL, _PROXY = 0, 1
_STREAM: Final = 1
#: Address family -> that of the socket module, and the octets of an address.
_FAMILIES: Final = {1: (socket.AF_INET, 4), 2: (socket.AF_INET6, 16)}
_V1_FAMILIES: Final[dict[str, type]] = {
    "TCP4": ipaddress.IPv4Address,
    "TCP6": ipaddress.IPv6Address,
}
_TLV: Final = struct.Struct(">BH")
_TLS: Final = struct.Struct(">BL")
_TYPE_TLS: Final = 0x20
_BY_TLS: Final = 0x01  # the client came by TLS
_TLS_TEXTS: Final = {0x21: "version", 0x22: "common_name", 0x23: "cipher"}


class InvalidProxyHeader(Exception):
    """The octets are no PROXY header; the text says why."""


class ProxyHeader(NamedTuple):
    """Addresses of one connection, by the proxy: the client's, and the one that it came to.

    Both are None for a connection of the proxy's own, such as a health check, and for a client of
    which the proxy has no address. The addresses of the socket count then, says the specification.
    """

    source: SocketAddress | None = None
    destination: SocketAddress | None = None
    tls: ProxyTls | None = None


class ProxyHeaderReader:
    """Reads one header: feed it ``wanted_bytes`` at most until ``header`` is there."""

    __slots__ = ("_octets", "header", "wanted_bytes")

    def __init__(self) -> None:
        self._octets = b""
        self.wanted_bytes = _FIRST_READ
        self.header: ProxyHeader | None = None

    def feed(self, octets: bytes) -> None:
        """Take the next octets. Raises InvalidProxyHeader."""
        self._octets += octets
        self.wanted_bytes -= len(octets)
        if self.wanted_bytes:
            return
        if self._octets.startswith(_V1_START):
            self._go_on_v1()
        elif self._octets.startswith(_V2_SIGNATURE[:_FIRST_READ]):
            self._go_on_v2()
        else:
            raise InvalidProxyHeader(f"begins with {self._octets[:_FIRST_READ]!r}")

    def _go_on_v1(self) -> None:
        line = self._octets
        if line.endswith(b"\r\n"):
            self.header = _parse_v1(line[:-2])
        elif len(line) < _V1_LEAST:
            self.wanted_bytes = _V1_LEAST - len(line)
        elif len(line) >= _V1_LENGTH_MAX:
            raise InvalidProxyHeader(f"a line without end after {_V1_LENGTH_MAX} octets")
        else:
            self.wanted_bytes = 1 if line.endswith(b"\r") else 2

    def _go_on_v2(self) -> None:
        octets = self._octets
        if len(octets) < _V2_START.size:
            self.wanted_bytes = _V2_START.size - len(octets)
            return
        signature, version_command, family, length = _V2_START.unpack_from(octets)
        if signature != _V2_SIGNATURE:
            raise InvalidProxyHeader("the signature of version 2 is broken")
        if length > _V2_LENGTH_MAX:
            raise InvalidProxyHeader(f"{length} octets are more than {_V2_LENGTH_MAX}")
        self.wanted_bytes = _V2_START.size + length - len(octets)
        if not self.wanted_bytes:
            self.header = _parse_v2(version_command, family, octets[_V2_START.size :])


def _parse_v1(line: bytes) -> ProxyHeader:
    """A line without its end: ``PROXY TCP4 192.0.2.7 198.51.100.1 40000 5672``."""
    try:
        _, protocol, *fields = line.decode("ascii").split(" ")
    except UnicodeDecodeError:
        raise InvalidProxyHeader("a line with octets beyond ASCII") from None
    if protocol == "UNKNOWN":  # what follows is to be ignored
        return ProxyHeader()
    family = _V1_FAMILIES.get(protocol)
    if family is None:
        raise InvalidProxyHeader(f"protocol {protocol!r} is not TCP4, TCP6 or UNKNOWN")
    if len(fields) != 4:
        raise InvalidProxyHeader(f"{len(fields)} fields behind {protocol}, not 4")
    try:
        hosts = [str(family(text)) for text in fields[:2]]
    except ValueError as error:
        raise InvalidProxyHeader(str(error)) from None
    ports = [_port(text) for text in fields[2:]]
    return ProxyHeader((hosts[0], ports[0]), (hosts[1], ports[1]))


def _port(text: str) -> int:
    is_number = text.isdecimal() and text.isascii() and (text == "0" or not text.startswith("0"))
    if not is_number or int(text) > 65535:
        raise InvalidProxyHeader(f"{text!r} is not a port")
    return int(text)


def _parse_v2(version_command: int, family_protocol: int, body: bytes) -> ProxyHeader:
    """Parse the octets after the first 16."""
    if version_command >> 4 != 2:
        raise InvalidProxyHeader(f"version {version_command >> 4} is not 2")
    command = version_command & 15
    if command == _LOCAL:
        return ProxyHeader()
    if command != _PROXY:
        raise InvalidProxyHeader(f"command {command} is neither LOCAL nor PROXY")
    known = _FAMILIES.get(family_protocol >> 4)
    if known is None or family_protocol & 15 != _STREAM:  # a Unix socket, or nothing that is known
        return ProxyHeader()
    family, size = known
    length = 2 * size + 4
    if len(body) < length:
        raise InvalidProxyHeader(f"{len(body)} octets are too few for addresses")
    hosts = [socket.inet_ntop(family, body[at : at + size]) for at in (0, size)]
    ports = struct.unpack_from(">HH", body, 2 * size)
    tls = None
    for kind, value in _tlvs(body[length:]):
        if kind == _TYPE_TLS:
            tls = _tls(value)
    return ProxyHeader((hosts[0], ports[0]), (hosts[1], ports[1]), tls)


def _tlvs(octets: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and value of each field. Raises InvalidProxyHeader for one that is cut off."""
    at = 0
    while at < len(octets):
        if at + _TLV.size > len(octets):
            raise InvalidProxyHeader("a field is cut off")
        kind, length = _TLV.unpack_from(octets, at)
        at += _TLV.size
        if at + length > len(octets):
            raise InvalidProxyHeader(f"field {kind:#04x} is cut off")
        yield kind, octets[at : at + length]
        at += length


def _tls(value: bytes) -> ProxyTls | None:
    """The field of TLS; None if the client came without."""
    if len(value) < _TLS.size:
        raise InvalidProxyHeader("the field of TLS is cut off")
    how, is_unverified = _TLS.unpack_from(value)
    if not how & _BY_TLS:
        return None
    texts = {
        _TLS_TEXTS[kind]: text.decode("utf-8", "replace")
        for kind, text in _tlvs(value[_TLS.size :])
        if kind in _TLS_TEXTS
    }
    if is_unverified:
        texts.pop("common_name", None)
    return ProxyTls(**texts)
