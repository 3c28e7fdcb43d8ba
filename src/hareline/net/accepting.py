"""Admission of accepted sockets: at once, later, or not at all.

``net.shell`` asks for each socket of AMQP before anything is read from it, the ports of HTTP for
theirs, which come before any login. Waves are spread over time by the rates of ``[limits]``. HTTP
has at most a part of the descriptors; the memory for addresses is bounded.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from typing import Final

from hareline import events
from hareline.amqp.context import Context
from hareline.amqp.limits import add_to
from hareline.auth.peer import Networks, network_of
from hareline.clock import TokenBucket
from hareline.net.addresses import SocketAddress, address_text

#: Sockets of one address that may be in the handshake when it has all the connections it may have.
HANDSHAKES_MAX: Final = 16
ADDRESSES_MAX: Final = 4_096  # whose rate is known
_REPORTED_EVERY_S: Final = 1.0  # a flood must not become one of log lines


class Refusals:
    """Sockets that were dropped: counted by limit, and reported once a second at most."""

    __slots__ = ("_context", "_next_report_s", "_unreported")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._next_report_s = 0.0
        self._unreported = 0

    def add(self, limit: str, network: str, peer: str) -> None:
        """``limit``: the option; ``network``: whose share is used up, empty for that of all."""
        context = self._context
        context.counts.limits_reached.count(limit)
        now_s = context.clock.running_s()
        if now_s < self._next_report_s:
            self._unreported += 1
            return
        reason = f"limits.{limit} is reached" + (f" for address '{network}'" if network else "")
        if self._unreported:
            reason += f"; {self._unreported} more were refused since the last such message"
        self._next_report_s, self._unreported = now_s + _REPORTED_EVERY_S, 0
        context.report(events.CONNECTION_REFUSED, peer=peer, reason=reason)


class Accepting:
    """The sockets of all AMQP ports of a broker."""

    __slots__ = ("_by_address", "_context", "_of_all", "_refusals", "_sockets")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sockets: dict[str, int] = {}  # by network
        self._of_all: TokenBucket | None = None
        self._by_address: dict[str, TokenBucket] = {}
        self._refusals = Refusals(context)

    def admit(self, host: str, peer: str) -> float | None:
        """After how many seconds a new socket may be read; None: it is to be dropped.

        ``peer``: host and port, for the log. What is let in must be given to ``on_gone`` at its
        end.
        """
        context = self._context
        limits, now_s = context.limits, context.clock.running_s()
        network = network_of(host)
        limit = limits.max_connections_per_address
        if limit and self._sockets.get(network, 0) >= limit + HANDSHAKES_MAX:
            self._refusals.add("max_connections_per_address", network, peer)
            return None
        longest_s, patience_s = 0.0, limits.handshake_timeout_s / 2
        taken: list[TokenBucket] = []
        for name, bucket in (
            # the address first: who floods uses up nothing of the others
            ("connection_rate_per_address", self._bucket_of(network, now_s)),
            ("connection_rate", self._bucket_of_all(now_s)),
        ):
            if bucket is None:
                continue
            wait_s = bucket.take(1, now_s)
            taken.append(bucket)
            if wait_s > patience_s:
                for each in taken:
                    each.give_back(1)
                self._refusals.add(name, network if bucket is not self._of_all else "", peer)
                return None
            if wait_s:
                context.counts.limits_reached.count(name)
            longest_s = max(longest_s, wait_s)
        add_to(self._sockets, network, 1)
        return longest_s

    def on_gone(self, host: str) -> None:
        """A socket that was let in is closed."""
        add_to(self._sockets, network_of(host), -1)

    def _bucket_of_all(self, now_s: float) -> TokenBucket | None:
        rate = self._context.limits.connection_rate
        if not rate:
            self._of_all = None
        elif self._of_all is None:
            self._of_all = TokenBucket(rate, now_s)
        elif self._of_all.rate != rate:
            self._of_all.set_rate(rate, now_s)
        return self._of_all

    def _bucket_of(self, network: str, now_s: float) -> TokenBucket | None:
        rate = self._context.limits.connection_rate_per_address
        if not rate:
            self._by_address.clear()
            return None
        bucket = self._by_address.get(network)
        if bucket is None:
            self._make_room(now_s)
            bucket = self._by_address[network] = TokenBucket(rate, now_s)
        elif bucket.rate != rate:
            bucket.set_rate(rate, now_s)
        return bucket

    def _make_room(self, now_s: float) -> None:
        """Forget addresses that have not come for a while, or all if those are too many too."""
        if len(self._by_address) < ADDRESSES_MAX:
            return
        self._by_address = {
            network: bucket
            for network, bucket in self._by_address.items()
            if not bucket.is_full(now_s)
        }
        if len(self._by_address) > ADDRESSES_MAX // 2:
            self._by_address.clear()


# --------------------------------------------------------------------------------------------- HTTP


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
