"""How many sockets the ports of HTTP may have open: in all, and from one address.

Sockets over HTTP come before any login, and before TLS. Whoever opened enough of them could have
all descriptors of the process, and no AMQP client would get in. ``http_side`` has the
ports ask for each socket that they accept.

Invariants: HTTP has at most a part of the descriptors, whatever the settings say; a socket counts
until it is closed, and one that becomes AMQP over WebSocket until then.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from typing import Final

from hareline.amqp.context import Context
from hareline.auth.peer import Networks, network_of
from hareline.net.accepting import Refusals
from hareline.net.addresses import SocketAddress, address_text

#: The part of the process's descriptors that HTTP may have: one of so many.
DESCRIPTORS_PART: Final = 4


class HttpSockets:
    """``proxies``: addresses that stand for many clients, so that only the limit in all counts."""

    def __init__(self, context: Context, *proxies: Networks) -> None:
        self._context = context
        self._proxies = proxies
        self._refusals = Refusals(context)
        self._open: dict[int, tuple[socket.socket, str]] = {}  # by descriptor; with the network

    def admit(self, accepted: socket.socket, peer: SocketAddress) -> bool:
        """True if this socket is let in; it counts from now on."""
        limits, network = self._context.limits, network_of(peer[0])
        self._open = {
            descriptor: (each, of)
            for descriptor, (each, of) in self._open.items()
            if each.fileno() == descriptor  # it is -1 once the transport has closed it
        }
        in_all = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // DESCRIPTORS_PART
        in_all = min(limits.max_http_connections or in_all, in_all)
        if len(self._open) >= in_all:
            self._refusals.add("max_http_connections", "", address_text(peer))
            return False
        limit = limits.max_http_connections_per_address
        is_proxy = any(peer[0] in each for each in self._proxies)
        if limit and not is_proxy and sum(of == network for _, of in self._open.values()) >= limit:
            self._refusals.add("max_http_connections_per_address", network, address_text(peer))
            return False
        self._open[accepted.fileno()] = accepted, network
        return True

    def release(self, transport: asyncio.Transport) -> None:
        """The socket of this transport speaks HTTP no more."""
        self._open.pop(transport.get_extra_info("socket").fileno(), None)
