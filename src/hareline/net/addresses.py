"""Addresses of the two ends of a connection: as text, and as a proxy in between has them.

``net.shell``, ``net.proxy_front`` and the WebSocket use them. Invariant: an address that is not
known is ``UNKNOWN_ADDRESS``, and never counts as this machine.
"""

from __future__ import annotations

from typing import Final, NamedTuple

SocketAddress = tuple[str, int]

UNKNOWN_ADDRESS: Final[SocketAddress] = ("", 0)  # the peer was gone before it could be asked for


class ProxyTls(NamedTuple):
    """TLS of a client of a proxy or of HTTP; texts are empty if not known.

    ``common_name`` is that of a client certificate, kept only if the proxy has verified it.
    """

    version: str = ""
    cipher: str = ""
    common_name: str = ""


class Relayed(NamedTuple):
    """A connection that comes through a proxy: the client's address, and the one it came to.

    ``tls``: how the client came to the proxy; None without TLS, or if the proxy does not say.
    ``is_own_tls``: TLS on the socket itself, if there is any, is the client's and not the proxy's.
    """

    peer: SocketAddress
    local: SocketAddress
    tls: ProxyTls | None = None
    is_own_tls: bool = True


def address_text(address: SocketAddress) -> str:
    """``host:port``, with brackets around an IPv6 address; ``unknown`` without an address."""
    host, port = address
    if not host:
        return "unknown"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
