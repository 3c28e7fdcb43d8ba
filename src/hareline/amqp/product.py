"""Product name in connection.start: another one for hosts that Qpid's clients come from.

Qpid's JMS client uses ADDR destinations, queue depths and some more only where connection.start
names a product with "qpid" in it (qpid-jms-amqp-0-x 6.4.0, ``AMQConnectionDelegate_8_0``); others
use parts of RabbitMQ's behaviour only where it is exactly "RabbitMQ". connection.start goes out
before the client has said anything of itself, so only its address can tell: Qpid's client begins
with the header of AMQP 0-10, is told to use 0-9-1, and comes again at once.

A header alone counts for minutes. A host from which a Qpid client has then logged in is remembered
for a month after its last connection, and over restarts of the broker, because a client that fails
over does not begin with the header of 0-10 again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hareline import events
from hareline.clock import Clock
from hareline.errors import StoreError
from hareline.events import Report
from hareline.storage.interface import HostStore

HOSTS_MAX: Final = 1024
#: How long a header of AMQP 0-10 or 0-8 counts, unless a Qpid client logs in meanwhile.
PROBE_VALID_MS: Final = 10 * 60 * 1000
#: How long a host counts that no Qpid client has connected from.
HOST_VALID_DAYS: Final = 30
#: What a client sends, in start-ok, that differs with the broker in what ``QPID_PROPERTIES`` has.
CLOSE_WHEN_NO_ROUTE: Final = "qpid.close_when_no_route"
#: What goes with a product of Qpid's, as text, because the client compares text: temporary queues
#: are declared as such and can be deleted, bodies are compressed where the application asks, and a
#: transaction with a message that cannot be routed fails unless the application asks for returns.
QPID_PROPERTIES: Final = {
    "qpid.queue_lifetime_supported": "true",
    "qpid.message_compression_supported": "true",
    CLOSE_WHEN_NO_ROUTE: "true",
}

_DAY_MS: Final = 24 * 60 * 60 * 1000
_OLD_HEADER: Final = b"AMQP\x01\x01"


def closes_when_no_route(client_properties: Mapping[str, object]) -> bool:
    """True if a client leaves it at the broker's default, or asks for the same.

    Broker-J takes a flag or its text, and any other text for no.
    """
    return str(client_properties.get(CLOSE_WHEN_NO_ROUTE, True)).lower() == "true"


def is_qpid(product: str) -> bool:
    """True if Qpid's client takes this product for one of its own."""
    return "qpid" in product.lower()


def is_probe(header: bytes) -> bool:
    """True if this is a protocol header of AMQP 0-10, 0-9 or 0-8: class 1, instance 1.

    Those of 0-9-1 and 1.0 begin otherwise.
    """
    return len(header) >= 8 and header.startswith(_OLD_HEADER)


class ProductNames:
    """``product``: for all clients. ``qpid_product``: for hosts that Qpid clients come from; empty
    when they are told ``product`` as well.

    Hosts are the texts of addresses, without a port; an empty one counts for no host.
    """

    __slots__ = ("_clock", "_known", "_probed", "_report", "_store", "product", "qpid_product")

    def __init__(self, product: str, qpid_product: str, clock: Clock, report: Report) -> None:
        self.product = product
        self.qpid_product = qpid_product
        self._clock = clock
        self._report = report
        self._store: HostStore | None = None
        self._probed: dict[str, int] = {}  # host to epoch ms; the last one at the end
        self._known: dict[str, int] = {}  # host to day; the last one at the end

    def keep_in(self, store: HostStore) -> None:
        """Go on with what was known when the broker last ran. Raises StoreError."""
        self._known = dict(store.hosts())
        oldest = self._today - HOST_VALID_DAYS
        gone = [host for host, day in self._known.items() if day < oldest]
        for host in gone:
            del self._known[host]
        gone += self._drop_surplus()
        if gone:
            store.forget_hosts(gone)
        self._store = store

    def for_connection(self, host: str, listener_product: str) -> str:
        """The product for connection.start; a listener that has one says it to all its clients."""
        if listener_product:
            return listener_product
        if self.qpid_product and (self._has_probed(host) or self._is_known(host)):
            return self.qpid_product
        return self.product

    def on_probe(self, host: str) -> None:
        """A header of 0-10 or 0-8 came from there."""
        if host and self.qpid_product:
            self._probed.pop(host, None)
            self._probed[host] = self._clock.now_ms
            if len(self._probed) > HOSTS_MAX:
                del self._probed[next(iter(self._probed))]

    def on_client(self, host: str) -> None:
        """A Qpid client has logged in from there, or the connection of one has ended.

        Nothing changes for one that never began with another version: it has done without.
        """
        if not self._has_probed(host) and not self._is_known(host):
            return
        self._probed.pop(host, None)
        seen_day, today = self._known.pop(host, None), self._today
        self._known[host] = today
        if seen_day is None:
            self._report(events.PRODUCT_CHANGED, host=host, product=self.qpid_product)
        if seen_day != today:
            self._keep(host, today)

    def _keep(self, host: str, today: int) -> None:
        surplus = self._drop_surplus()
        if self._store is None:
            return

        def report(error: StoreError) -> None:  # the client is served all the same
            self._report(events.HOST_NOT_KEPT, host=host, problem=str(error))

        try:
            self._store.remember_host(host, today, report)
            if surplus:
                self._store.forget_hosts(surplus)
        except StoreError as error:
            report(error)

    def _drop_surplus(self) -> list[str]:
        """Forget the hosts that came first, above ``HOSTS_MAX``; returns them."""
        surplus = list(self._known)[: max(0, len(self._known) - HOSTS_MAX)]
        for host in surplus:
            del self._known[host]
        return surplus

    @property
    def _today(self) -> int:
        return self._clock.now_ms // _DAY_MS

    def _has_probed(self, host: str) -> bool:
        probed_ms = self._probed.get(host)
        return probed_ms is not None and self._clock.now_ms - probed_ms <= PROBE_VALID_MS

    def _is_known(self, host: str) -> bool:
        day = self._known.get(host)
        return day is not None and self._today - day <= HOST_VALID_DAYS
