"""Client addresses: the peer of a login, the network that it counts for, and lists of networks.

``amqp.handshake`` gets a ``Peer`` from the transport of its connection, ``management`` makes one
for each request. A ``Peer`` has what the broker has seen, and nothing that the client claims.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from hareline.auth.certificates import PeerCertificate


def _never() -> bool:
    return False


class Peer(NamedTuple):
    """``host``: the address, empty if the client was gone at once.

    ``certificate``: what the client has shown in the TLS handshake, verified. ``is_gone``: whether
    the client has left meanwhile, as far as that can be told.
    """

    host: str
    is_loopback: bool
    is_tls: bool = False
    certificate: PeerCertificate | None = None
    is_gone: Callable[[], bool] = _never

    @property
    def network(self) -> str:
        """One origin of logins: an IPv4 address, or the /64 of an IPv6 address."""
        return network_of(self.host)


def is_loopback(host: str) -> bool:
    """True if this is an address of this machine only; False for what is not an address."""
    address = address_of(host)  # None if the peer was gone before it could be asked for
    return address is not None and address.is_loopback


@lru_cache(maxsize=4096)
def network_of(host: str) -> str:
    """One origin of connections: an IPv4 address, or the /64 of an IPv6 address.

    All of 127.0.0.0/8 is one: whoever is on this machine has them all.
    """
    if is_loopback(host):
        return "::1" if host.startswith("::1") else "127.0.0.1"
    address = address_of(host)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host if address is None else str(address)


# -------------------------------------------------------------------------------- lists of networks


IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def address_of(host: str) -> IPAddress | None:
    """The address that a text stands for, without scope; None if it is not an address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


class Networks:
    """Addresses and networks in CIDR form, such as ``192.0.2.7`` and ``10.0.0.0/8``."""

    __slots__ = ("_networks",)

    def __init__(self, texts: Iterable[str] = ()) -> None:
        """Raises ValueError for a text that is neither."""
        self._networks = tuple(ipaddress.ip_network(text) for text in texts)

    def __contains__(self, host: object) -> bool:
        address = address_of(host) if isinstance(host, str) else None
        return address is not None and any(address in network for network in self._networks)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Networks) and self._networks == other._networks

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Networks {', '.join(map(str, self._networks))}>"
