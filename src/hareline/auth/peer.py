"""Where a login comes from, as far as it matters to who may log in.

``amqp.handshake`` gets a ``Peer`` from the transport of its connection, ``management`` makes one
for each request.

Invariant: a ``Peer`` says what the broker has seen, and nothing that the client claims.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

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
        """What counts as one origin of logins: an IPv4 address, or the /64 of an IPv6 address."""
        return network_of(self.host)


def is_loopback(host: str) -> bool:
    """True if this is an address of this machine only; False for what is not an address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:  # the peer was gone before it could be asked for
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


@lru_cache(maxsize=4096)
def network_of(host: str) -> str:
    """What counts as one address: an IPv4 address, or the /64 of an IPv6 address.

    All of 127.0.0.0/8 is one: whoever is on this machine has them all.
    """
    if is_loopback(host):
        return "::1" if host.startswith("::1") else "127.0.0.1"
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
