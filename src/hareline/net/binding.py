"""Sockets for the addresses of the settings, bound before the broker does anything else.

So an address that this machine does not have, or that another program uses, is reported before the
journal is read. ``net.listener`` and ``management.listener`` listen on them later; until then the
system refuses connections. After an error no socket is left open.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

from hareline.errors import ListenError

PRIVILEGED_PORTS: Final = range(1, 1024)
#: A peer that sends nothing for a minute is probed, and given up two minutes after it was heard of.
KEEPALIVE: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}


class Address(NamedTuple):
    """Address to listen on. ``table``: its place in the settings, such as ``listeners[0]``.

    ``port_key``: the option of that table that has the port. ``product``: server
    property for AMQP clients of this port; empty if ``amqp.product`` decides.
    """

    table: str
    host: str
    port: int
    port_key: str = "port"
    serves: Literal["amqp", "http", "metrics"] = "amqp"
    has_tls: bool = False
    product: str = ""

    @property
    def url(self) -> str:
        """The URL of what is served there."""
        scheme = "amqp" if self.serves == "amqp" else "http"
        path = "/metrics" if self.serves == "metrics" else ""
        return f"{scheme}{'s' if self.has_tls else ''}://{self}{path}"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


async def bind_all(addresses: Sequence[Address]) -> list[list[socket.socket]]:
    """The sockets of each address; a host name may stand for several.

    Raises ListenError with all addresses that cannot be bound.
    """
    bound: list[list[socket.socket]] = []
    problems: list[tuple[str, str]] = []
    try:
        for address in addresses:
            try:
                bound.append(await _bind(address))
            except OSError as error:
                problems.append(_problem(address, error))
            except UnicodeError:  # such a name cannot be looked up
                text = f"cannot listen on {address}: not a host name"
                problems.append((f"{address.table}.bind", text))
        if problems:
            raise ListenError(problems)
    except BaseException:
        close_all(bound)
        raise
    return bound


def close_all(bound: Sequence[Sequence[socket.socket]]) -> None:
    """Close all of them, also those that are listened on or closed already."""
    for sockets in bound:
        for each in sockets:
            each.close()


def listen_error(address: Address, error: OSError) -> ListenError:
    """The error for a bound socket on which the system refuses to listen."""
    return ListenError([_problem(address, error)])


async def _bind(address: Address) -> list[socket.socket]:
    found = await asyncio.get_running_loop().getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    unavailable: OSError | None = None
    try:
        for family, kind, protocol, _, target in dict.fromkeys(found):
            try:
                sockets.append(_bound(family, kind, protocol, target))
            except OSError as error:
                # `localhost` may stand for an IPv6 address on a machine without IPv6
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                unavailable = error
        if not sockets and unavailable is not None:
            raise unavailable
    except BaseException:
        close_all([sockets])
        raise
    return sockets


def _bound(family: int, kind: int, protocol: int, target: tuple[Any, ...]) -> socket.socket:
    created = socket.socket(family, kind, protocol)
    try:
        created.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # IPv4 gets a socket of its own, if asked for
            created.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        _probe_peers(created)
        created.setblocking(False)
        created.bind(target)
    except BaseException:
        created.close()
        raise
    return created


def _probe_peers(listening: socket.socket) -> None:
    """Have the system probe the silent peers of accepted sockets, which inherit the options."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):  # not all systems have all of them
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _problem(address: Address, error: OSError) -> tuple[str, str]:
    """The option to blame, and what is wrong with it."""
    key, reason = "bind", error.strerror or str(error)
    if isinstance(error, socket.gaierror):
        reason = f"no address is known of this host ({reason})"
    elif error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        reason = "not an address of this machine"
    elif error.errno == errno.EADDRINUSE:
        key, reason = address.port_key, "address already in use"
    elif error.errno == errno.EACCES and address.port in PRIVILEGED_PORTS:
        key, reason = address.port_key, "ports below 1024 need a privilege"
    return f"{address.table}.{key}", f"cannot listen on {address}: {reason}"
