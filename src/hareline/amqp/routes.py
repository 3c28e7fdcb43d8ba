"""Route of a publish: where to, remembered for each publish method that a channel has seen.

A publish method's payload is the same octets each time a client publishes to the same place, so it
is a key that needs no decoding. A remembered route may be taken without any further check; all are
forgotten when the virtual host's routing version or the rights have changed.                [hot]
"""

from __future__ import annotations

from typing import Final

from hareline.amqp.client import Client
from hareline.amqp.delivery_port import UNTALLIED
from hareline.amqp.reply_to import REPLY_TO_PREFIX
from hareline.auth.permissions import AccessChecker
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.vhost import audit_only
from hareline.errors import AccessRefused, NotImplementedMethod
from hareline.message import TRANSIENT, UNWRITTEN, Address, Message, PublisherAddress
from hareline.queues.core.enqueueing import Enqueueing
from hareline.queues.core.kinds import KEEPS_ALL, KEEPS_NONE
from hareline.wire.decoder import KnownRoute, PublishLane
from hareline.wire.methods import commands, decode_method

ROUTES_MAX: Final = 16_384  # publish keys remembered per channel

# Queues of a route up to which a read is bounded well enough by its octets: some 10 ms.
WIDE_ROUTE: Final = 16

_ADDRESS_START: Final = 6  # class, method, ticket


class Route(KnownRoute):
    """Meaning of a publish method: the destinations, and whether it must arrive.

    ``is_dynamic``: the queues depend on the message, ``queues`` is empty and ``exchange`` is asked
    for each one. ``archives`` are those of the exchanges on the way. ``exchange`` is None for a
    direct reply. ``needs_admission``: one of the queues looks at new messages, or there is an
    archive, or the firehose is on (``is_traced``), so they cannot take the plain lane.
    ``is_immediate``: only queues that deliver the
    message at once may have it; it is dynamic too.

    ``position`` is that of its messages; ``persistent`` the route of the persistent ones, which is
    this one itself, or made when the first of them comes. ``awaits_store``: one of the queues keeps
    these messages, so their confirms wait for it. ``is_refused``: the store takes no new messages,
    so where one is to be kept they cannot take the plain lane either. ``is_wide``: its messages are
    counted one by one as work of the turn. ``takes_runs``: none of that, be its messages persistent
    or transient. ``only_queue``: the one it leads to, None where there are more or none.
    ``tally``: counts its publishes, where it is not dynamic.
    """

    __slots__ = (
        "_persistent",
        "address",
        "archives",
        "awaits_store",
        "exchange",
        "is_dynamic",
        "is_immediate",
        "is_mandatory",
        "is_refused",
        "is_traced",
        "is_wide",
        "needs_admission",
        "only_queue",
        "position",
        "queues",
        "tally",
    )

    def __init__(
        self,
        address: Address,
        exchange: Exchange | None,
        queues: tuple[Enqueueing, ...],
        is_mandatory: bool,
        is_dynamic: bool,
        is_refused: bool,
        position: int = TRANSIENT,
        archives: tuple[Enqueueing, ...] = (),
        is_traced: bool = False,
    ) -> None:
        self.address = address
        self.exchange = exchange
        self.queues = queues
        self.only_queue = queues[0] if len(queues) == 1 else None
        self.is_mandatory = is_mandatory
        self.is_immediate = False
        self.is_dynamic = is_dynamic
        self.is_refused = is_refused
        self.position = position
        self.archives = archives
        self.is_traced = is_traced
        self.awaits_store = are_kept(queues, position)
        self.needs_admission = (
            (self.awaits_store and is_refused)
            or bool(archives)
            or is_traced
            or any(queue.needs_admission or queue.archive is not None for queue in queues)
        )
        self.is_wide = len(queues) > WIDE_ROUTE
        self.takes_runs = not (is_dynamic or is_refused or self.needs_admission or self.is_wide)
        self._persistent: Route | None = None
        self.tally = UNTALLIED

    @property
    def persistent(self) -> Route:
        if self.position:
            return self
        route = self._persistent
        if route is None:
            route = self._persistent = Route(
                self.address,
                self.exchange,
                self.queues,
                self.is_mandatory,
                self.is_dynamic,
                self.is_refused,
                UNWRITTEN,
                self.archives,
                self.is_traced,
            )
            route.is_immediate = self.is_immediate
            route.tally = self.tally
        return route


def find_route(lane: PublishLane, method_payload: bytes, message: Message, client: Client) -> Route:
    """Decode and check a publish method, route it, and remember the result in the lane.

    ``message`` is asked where the queues depend on it. Raises AmqpError for what is refused.
    """
    method = decode_method(method_payload)
    assert isinstance(method, commands.Basic.Publish)
    if method.immediate and not client.dialect.takes_immediate:
        raise NotImplementedMethod("immediate=true")
    vhost = client.vhost
    octets = method_payload[_ADDRESS_START:-1]
    exchange_name, routing_key = str(method.exchange), str(method.routing_key)
    address = vhost.routing.address(exchange_name, routing_key, octets)
    if vhost.routing.marks_publishers or client.dialect.has_no_local:
        address = PublisherAddress(address, client.publisher)
    client.access.require("write", "exchange", exchange_name, routing_key)
    if exchange_name == "" and routing_key.startswith(REPLY_TO_PREFIX):
        # not remembered: a vanished requester must not be kept alive by a route
        waiting = vhost.reply_queues.get(routing_key)
        found = () if waiting is None else (waiting,)
        is_traced = vhost.firehose.is_on
        return Route(address, None, found, False, False, False, is_traced=is_traced)
    if exchange_name == "" and routing_key == vhost.routing.closed_queue:
        raise AccessRefused(audit_only(routing_key, vhost.name))
    exchange = vhost.exchange(exchange_name)
    if exchange.is_internal:
        raise AccessRefused(
            f"cannot publish to internal exchange '{exchange_name}' in vhost '{vhost.name}'"
        )
    if exchange.type_name == "topic":
        client.access.require_topic("write", exchange_name, routing_key)
    queues, is_static, archives = vhost.routing.route(exchange, [routing_key], message)
    is_static = is_static and not method.immediate
    route = Route(
        address,
        exchange,
        queues if is_static else (),
        bool(method.mandatory),
        not is_static,
        bool(vhost.environment.store.refusal),
        archives=archives if is_static else (),
        is_traced=vhost.firehose.is_on,
    )
    route.is_immediate = bool(method.immediate)
    if len(lane.routes) >= ROUTES_MAX:
        lane.forget_routes()
    lane.routes[method_payload] = route
    return route


def check_copies(access: AccessChecker, exchange: Exchange, keys: list[str]) -> None:
    """Raise AccessRefused for a key of CC or BCC with which the user may not publish here."""
    if access.asks_for_keys:
        for key in keys:
            access.require("write", "exchange", exchange.name, key)
    if exchange.type_name == "topic":
        for key in keys:
            access.require_topic("write", exchange.name, key)


def are_kept(queues: tuple[Enqueueing, ...], position: int) -> bool:
    """True if one of the queues gives messages with this position to the store."""
    for queue in queues:
        keeps = queue.keeps
        if keeps == KEEPS_ALL or (position and keeps != KEEPS_NONE):
            return True
    return False


def is_kept(queue: Enqueueing, position: int) -> bool:
    """True if this queue gives messages with this position to the store."""
    return queue.keeps == KEEPS_ALL or (position != TRANSIENT and queue.keeps != KEEPS_NONE)
