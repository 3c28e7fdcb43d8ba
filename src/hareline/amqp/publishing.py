"""From a complete publish to the queues it is routed to.

``Publishing.publish`` is the lane that the decoder calls for publishes whose method payload was
seen before on this channel; the others come through ``publish_first`` after ``resolve`` has decoded
the method, checked it and remembered it as a ``Route``. Routes are dropped by the connection when
the virtual host's routing version changes.

What a message's properties ask for (user-id, CC, BCC, expiration, direct reply-to) is looked at
once for each distinct set of property octets; sets that ask for nothing are remembered.    [hot]
"""

from __future__ import annotations

from typing import Final

from hareline.amqp.client import Client
from hareline.amqp.confirms import Confirms
from hareline.amqp.connection_parts import ConnectionParts
from hareline.amqp.delivery_port import DeliveryPort
from hareline.amqp.flow_control import ChannelFlow
from hareline.amqp.product import closes_when_no_route
from hareline.amqp.reply_to import REPLY_TO_NAME, REPLY_TO_PREFIX, ReplyConsumer
from hareline.amqp.transactions import Transaction
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.queues.kinds import KEEPS_ALL, KEEPS_NONE
from hareline.broker.queues.policies.expiry import expires_at_ms
from hareline.broker.queues.policies.overflow import Overflow
from hareline.broker.queues.queue import Queue
from hareline.broker.vhost import Enqueueing
from hareline.errors import (
    AccessRefused,
    NoRoute,
    NotImplementedMethod,
    NotKept,
    PreconditionFailed,
    ResourceError,
    within_short_string,
)
from hareline.message import (
    TRANSIENT,
    UNWRITTEN,
    Address,
    BlindAddress,
    LargeBody,
    Message,
    PublisherAddress,
    large_message,
)
from hareline.storage.interface import MessageStore
from hareline.wire.decoder import NOT_PLAIN, PLAIN, PLAIN_AGAIN, PublishLane
from hareline.wire.encoder import return_frame
from hareline.wire.methods import commands, decode_method
from hareline.wire.plain_properties import are_plain, plain_expiration
from hareline.wire.properties import decode_delivery_mode, replace_headers, replace_reply_to
from hareline.wire.table import Table, kind_of, type_name

ROUTES_MAX: Final = 16_384  # publish keys remembered per channel
# Property sets remembered, by the broker those that ask for nothing (enough for some ten thousand
# groups or keys), by a channel expirations. Short ones: sets with an id never come again.
PLAIN_PROPERTIES_MAX: Final = 16_384
EXPIRATIONS_MAX: Final = 256
PLAIN_OCTETS_MAX: Final = 256

# Queues of a route up to which a read is bounded well enough by its octets: some 10 ms.
WIDE_ROUTE: Final = 16

_PROPERTIES_START: Final = 19
_HEADER_SIZE_BARE: Final = 22  # of a header frame with no properties at all
_ADDRESS_START: Final = 6  # class, method, ticket
_NO_ROUTE: Final = 312
_NO_CONSUMERS: Final = 313
_PERSISTENT: Final = 2
_ASKS_FOR_MORE: Final = -1
_REPLY_TO_OCTETS: Final = REPLY_TO_NAME.encode()


class Route:
    """What a publish method means: where to, and whether it must arrive.

    ``is_dynamic``: the queues depend on the message, ``queues`` is empty and ``exchange`` is asked
    for each one. ``exchange`` is None for a direct reply. ``needs_admission``: one of the queues
    looks at new messages, so they cannot take the plain lane. ``is_immediate``: only queues that
    deliver the message at once may have it; it is dynamic too.

    ``position`` is that of its messages; ``persistent`` the route of the persistent ones, which is
    this one itself, or made when the first of them comes. ``awaits_store``: one of the queues keeps
    these messages, so their confirms wait for it. ``is_refused``: the store takes no new messages,
    so where one is to be kept they cannot take the plain lane either. ``is_wide``: its messages are
    counted one by one as work of the turn.
    """

    __slots__ = (
        "_persistent",
        "address",
        "awaits_store",
        "exchange",
        "is_dynamic",
        "is_immediate",
        "is_mandatory",
        "is_refused",
        "is_wide",
        "needs_admission",
        "position",
        "queues",
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
    ) -> None:
        self.address = address
        self.exchange = exchange
        self.queues = queues
        self.is_mandatory = is_mandatory
        self.is_immediate = False
        self.is_dynamic = is_dynamic
        self.is_refused = is_refused
        self.position = position
        self.awaits_store = are_kept(queues, position)
        self.needs_admission = (self.awaits_store and is_refused) or any(
            queue.needs_admission for queue in queues
        )
        self.is_wide = len(queues) > WIDE_ROUTE
        self._persistent: Route | None = None

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
            )
            route.is_immediate = self.is_immediate
        return route


class Publishing(PublishLane):
    """``confirms`` is None outside of confirm mode, ``transaction`` outside of tx mode.

    ``flow`` is made when the first full queue stops this channel.
    """

    __slots__ = (
        "_client",
        "_clock",
        "_connection_flow",
        "_expirations",
        "_gate",
        "_number",
        "_plain",
        "_port",
        "_reply_to",
        "_store",
        "_turn",
        "confirms",
        "flow",
        "transaction",
    )

    def __init__(self, parts: ConnectionParts, port: DeliveryPort, reply_to: ReplyConsumer) -> None:
        super().__init__()
        context = parts.context
        self._port = port
        self._number = port.number
        self._client: Client = parts.client
        self._reply_to = reply_to
        self._gate = parts.gate
        self._connection_flow = parts.flow
        self._turn = context.turn
        self._clock = context.clock
        self._plain = context.plain_properties
        self._store: MessageStore = parts.client.vhost.environment.store
        self._expirations: dict[bytes, int] = {}  # by properties that ask for nothing else
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self.flow: ChannelFlow | None = None

    def publish(self, route: Route, flags: int, content: bytes, header_size: int, size: int) -> int:
        position = TRANSIENT
        is_plain = is_known = True
        if flags or header_size != _HEADER_SIZE_BARE:
            octets = content[_PROPERTIES_START : header_size - 1]
            known = self._plain.get(octets)
            if known is not None:
                position = known
            else:
                is_known = False
                position = initial_position(octets)
                is_plain = self._are_plain(octets, position)
        if position:
            route = route.persistent
        if is_plain and not route.is_dynamic and not route.needs_admission:
            if route.is_wide:
                start_s = self._turn.now()
                self.publish_plain(route, content, header_size, size)
                self._gate.count_work(len(route.queues), start_s)
                return NOT_PLAIN
            self.publish_plain(route, content, header_size, size)
            self.plain_route = route
            return PLAIN_AGAIN if is_known else PLAIN
        start_s = self._turn.now()
        message = Message(
            route.address, content, header_size, size, self._number, self._clock.now_ms, position
        )
        extra_keys: list[str] = []
        if not is_plain:
            message, extra_keys = self._inspect(message, flags)
        queues = self._queues_for(route, message, extra_keys)
        message.forget_properties()  # a waiting message costs its octets alone
        self._enqueue_routed(message, queues, route)
        self._gate.count_work(len(queues), start_s)
        return NOT_PLAIN

    def publish_plain(self, route: Route, content: bytes, header_size: int, size: int) -> None:
        """A publish to fixed queues whose properties ask for nothing."""
        message = Message(
            route.address,
            content,
            header_size,
            size,
            self._number,
            self._clock.now_ms,
            route.position,
        )
        if route.queues:
            for queue in route.queues:
                queue.enqueue(message)
        elif route.is_mandatory:
            self._return_untaken(message, _NO_ROUTE, "NO_ROUTE")
        confirms = self.confirms
        if confirms is not None:
            confirms.sequence += 1
            if route.awaits_store:
                confirms.ticket = self._store.ticket
            if not confirms.is_marked:
                confirms.mark()

    def publish_first(
        self,
        method_payload: bytes,
        flags: int,
        content: bytes,
        header_size: int,
        size: int,
        large: LargeBody | None = None,
    ) -> None:
        """A publish that did not come by the lane; ``large`` is the body that is not in it."""
        route = self.routes.get(method_payload)
        if route is None:
            message = Message(
                _NOWHERE, content, header_size, size, self._number, self._clock.now_ms
            )
            route = self._resolve(method_payload, message)
        if self.transaction is None and large is None:
            self.publish(route, flags, content, header_size, size)
            return
        octets = content[_PROPERTIES_START : header_size - 1]
        position = initial_position(octets)
        now_ms = self._clock.now_ms
        if large is None:
            message = Message(
                route.address, content, header_size, size, self._number, now_ms, position
            )
        else:
            message = large_message(route.address, content, large, now_ms, position)
        extra_keys: list[str] = []
        if octets not in self._plain and not self._are_plain(octets, position):
            message, extra_keys = self._inspect(message, flags)
        queues = self._queues_for(route, message, extra_keys)
        message.forget_properties()
        if self.transaction is None:
            self._enqueue_routed(message, queues, route)
        else:
            self._publish_in_transaction(self.transaction, route, message, queues)

    # -------------------------------------------------------------- routes

    def _resolve(self, method_payload: bytes, message: Message) -> Route:
        """Decode and check a publish method, route it, and remember the result."""
        method = decode_method(method_payload)
        assert isinstance(method, commands.Basic.Publish)
        client = self._client
        if method.immediate and not client.dialect.takes_immediate:
            raise NotImplementedMethod("immediate=true")
        vhost = client.vhost
        octets = method_payload[_ADDRESS_START:-1]
        exchange_name, routing_key = str(method.exchange), str(method.routing_key)
        address = vhost.routing.address(exchange_name, routing_key, octets)
        if vhost.routing.marks_publishers or client.dialect.has_no_local:
            address = PublisherAddress(address, client.publisher)
        is_mandatory = bool(method.mandatory)
        client.access.require("write", "exchange", exchange_name)
        if exchange_name == "" and routing_key.startswith(REPLY_TO_PREFIX):
            # not cached: a vanished requester must not be kept alive by a route
            waiting = vhost.reply_queues.get(routing_key)
            return Route(address, None, () if waiting is None else (waiting,), False, False, False)
        exchange = vhost.exchange(exchange_name)
        if exchange.is_internal:
            raise AccessRefused(
                f"cannot publish to internal exchange '{exchange_name}' in vhost '{vhost.name}'"
            )
        queues, is_static = vhost.routing.route(exchange, [routing_key], message)
        is_static = is_static and not method.immediate
        route = Route(
            address,
            exchange,
            queues if is_static else (),
            is_mandatory,
            not is_static,
            bool(self._store.refusal),
        )
        route.is_immediate = bool(method.immediate)
        if len(self.routes) >= ROUTES_MAX:
            self.forget_routes()
        self.routes[method_payload] = route
        return route

    # --------------------------------------------------- inspected publishes

    def _publish_in_transaction(
        self,
        transaction: Transaction,
        route: Route,
        message: Message,
        queues: tuple[Enqueueing, ...],
    ) -> None:
        """Checked and routed now, as in RabbitMQ; enqueued, or returned, at commit.

        Raises NoRoute in the qpid dialect for what would be returned, unless its client opts out.
        """
        if route.is_mandatory and not queues:
            self._check_no_route_allowed(route)
        transaction.publish(
            lambda: self._enqueue_at_commit(message, queues, route),
            entries=len(queues),
            kept_bytes=len(message.content) + len(message.address.octets)
            if are_kept(queues, message.position)
            else 0,
        )

    def _enqueue_at_commit(
        self, message: Message, queues: tuple[Enqueueing, ...], route: Route
    ) -> bool:
        """A queue may have been deleted since the publish; a time to live begins here.

        False when a queue refused the message.
        """
        now_ms = message.arrival_ms = self._clock.now_ms
        if message.expires_at_ms:
            expiration_ms = parse_expiration(message.properties.expiration or "")
            message.forget_properties()
            message = message.expiring_at(expires_at_ms(expiration_ms, now_ms))
        return self._enqueue_routed(
            message, tuple(queue for queue in queues if not queue.is_deleted), route
        )

    def _queues_for(
        self, route: Route, message: Message, extra_keys: list[str]
    ) -> tuple[Enqueueing, ...]:
        if not (extra_keys or route.is_dynamic):
            return route.queues
        if route.exchange is None:  # a direct reply; its copies go by the default exchange
            vhost = self._client.vhost
            copies, _ = vhost.routing.route(vhost.exchange(""), extra_keys, message)
            return route.queues + copies
        keys = [route.address.routing_key, *extra_keys]
        return self._client.vhost.routing.route(route.exchange, keys, message)[0]

    def _enqueue_routed(
        self, message: Message, queues: tuple[Enqueueing, ...], route: Route
    ) -> bool:
        """As ``_enqueue``; immediate: only where a consumer waits, and it must be somewhere."""
        is_mandatory = route.is_mandatory
        if route.is_immediate:
            takers = tuple(
                queue
                for queue in queues
                if not isinstance(queue, Queue) or queue.has_taker(message)
            )
            message.forget_properties()
            is_mandatory = not queues
            if queues and not takers:
                self._return_untaken(message, _NO_CONSUMERS, "NO_CONSUMERS")
            queues = takers
        return self._enqueue(message, queues, is_mandatory)

    def _enqueue(
        self, message: Message, queues: tuple[Enqueueing, ...], is_mandatory: bool
    ) -> bool:
        """False when a queue refused the message; the others have it (RabbitMQ).

        Raises NotKept if the store refuses it, and its publisher could not know otherwise.
        """
        refusal: Overflow | None = None
        # A commit that has begun is carried out, and what it adds waits for room if need be.
        unkept = self._store.refusal if self.transaction is None else ""
        if unkept:
            takers = tuple(queue for queue in queues if not is_kept(queue, message.position))
            if len(takers) == len(queues):
                unkept = ""
            queues = takers
        for queue in queues:
            if queue.needs_admission and isinstance(queue, Queue):
                is_accepted = queue.put(message)
                overflow = queue.overflow
                if overflow is None:
                    continue
                if not is_accepted and refusal is None:
                    refusal = overflow
                elif overflow.stops_publishers:
                    self._wait_for(overflow)
            elif message.extras is not None and message.expires_at_ms:
                queue.put(message)
            else:
                queue.enqueue(message)
        confirms = self.confirms
        if is_mandatory:
            if refusal is not None or unkept:
                # aiormq takes a return for the answer to the publish, and ignores the nack
                if confirms is None or self._client.dialect.returns_what_is_nacked:
                    self._return_refused(message, refusal, unkept)
            elif not queues:
                self._return_untaken(message, _NO_ROUTE, "NO_ROUTE")
        if confirms is not None:
            confirms.sequence += 1
            if are_kept(queues, message.position):
                confirms.ticket = self._store.ticket
            if refusal is not None or unkept:
                confirms.refuse()
            if not confirms.is_marked:
                confirms.mark()
        elif unkept and not is_mandatory and self.transaction is None:
            raise NotKept(not_kept_text(unkept))
        return refusal is None and not unkept

    def _wait_for(self, overflow: Overflow) -> None:
        if self._port.is_closing:  # a commit goes on when its channel is gone
            return
        if self.flow is None:
            self.flow = ChannelFlow(self._port, self._client, self._clock, self._connection_flow)
        self.flow.stop(overflow)

    def _inspect(self, message: Message, flags: int) -> tuple[Message, list[str]]:
        """Check what the properties ask for; returns the message to enqueue, and CC and BCC keys.

        Raises MalformedFrame for octets that are no properties, PreconditionFailed for values that
        are refused.
        """
        if not flags and message.header_size == _HEADER_SIZE_BARE:
            return message, []
        expiration_ms = self._expiration_ms(message.property_octets)
        if expiration_ms != _ASKS_FOR_MORE:
            now_ms = self._clock.now_ms
            return message.expiring_at(expires_at_ms(expiration_ms, now_ms)), []
        properties = message.properties
        is_plain = properties.user_id is None
        if properties.user_id is not None:
            self._check_user_id(properties.user_id)
        if properties.expiration is not None:
            expiration_ms = parse_expiration(properties.expiration)
            is_plain = False
        octets = message.property_octets
        address = message.address
        extra_keys: list[str] = []
        if properties.headers is not None:
            extra_keys = sender_selected_keys(properties.headers)
            if extra_keys:
                is_plain = False
            if "BCC" in properties.headers:
                headers = Table(properties.headers)
                del headers["BCC"]
                octets = replace_headers(octets, headers)
                address = BlindAddress(address, tuple(array_keys(properties.headers, "BCC")))
                is_plain = False
        if properties.reply_to == REPLY_TO_NAME:
            octets = replace_reply_to(octets, self._reply_to.address())
            is_plain = False
        if is_plain:
            self._remember_plain(octets, message.position)
            return message, extra_keys
        changed = message.replace(properties=octets, address=address)
        if expiration_ms != _ASKS_FOR_MORE:
            changed = changed.expiring_at(expires_at_ms(expiration_ms, self._clock.now_ms))
        return changed, extra_keys

    def _expiration_ms(self, octets: bytes) -> int:
        """The expiration of properties that ask for nothing else, or _ASKS_FOR_MORE.

        Raises PreconditionFailed for one that is no number. Remembered like plain properties.
        """
        known = self._expirations.get(octets)
        if known is not None:
            return known
        expiration = plain_expiration(octets, _REPLY_TO_OCTETS)
        if expiration is None:
            return _ASKS_FOR_MORE
        expiration_ms = parse_expiration(expiration)
        if len(octets) <= PLAIN_OCTETS_MAX:
            if len(self._expirations) >= EXPIRATIONS_MAX:
                self._expirations.clear()
            self._expirations[octets] = expiration_ms
        return expiration_ms

    def _are_plain(self, octets: bytes, position: int) -> bool:
        """Whether these properties ask for nothing; remembered if so."""
        if not are_plain(octets, _REPLY_TO_OCTETS):
            return False
        self._remember_plain(octets, position)
        return True

    def _remember_plain(self, octets: bytes, position: int) -> None:
        if len(octets) > PLAIN_OCTETS_MAX:
            return
        if len(self._plain) >= PLAIN_PROPERTIES_MAX:
            self._plain.clear()
        self._plain[octets] = position

    def _check_user_id(self, user_id: str) -> None:
        user = self._client.user
        assert user is not None
        if user_id != user.name and "impersonator" not in user.tags:
            raise PreconditionFailed(
                f"user_id property set to '{user_id}' but authenticated user was '{user.name}'"
            )

    def _check_no_route_allowed(self, route: Route) -> None:
        """Broker-J's closeWhenNoRoute: the commit fails with the connection."""
        client = self._client
        if client.dialect.refuses_returned and closes_when_no_route(client.properties):
            address = route.address
            raise NoRoute(
                f"no route for message with exchange '{address.exchange}' and routing key "
                f"'{address.routing_key}' in vhost '{client.vhost.name}'"
            )

    def _return_untaken(self, message: Message, reply_code: int, reply_text: str) -> None:
        """Return a publish that nobody takes, before it is counted for the confirms."""
        self._return(message, reply_code, reply_text)
        if self.confirms is not None and self._client.dialect.refuses_returned:
            self.confirms.refuse_next()

    def _return_refused(self, message: Message, overflow: Overflow | None, unkept: str) -> None:
        """Return what a full queue refused, or the store, for the reason ``unkept``.

        RabbitMQ has no basic.return for this; code and words are Broker-J's.
        """
        if overflow is None or unkept:
            self._return(message, ResourceError.reply_code, not_kept_text(unkept))
            return
        address = message.address
        explanation = overflow.explanation
        text = (
            f"No route for message with exchange '{address.exchange}' and routing key "
            f"'{address.routing_key}':{explanation}"
        )
        if within_short_string(text) != text:  # then rather what only the broker knows
            text = within_short_string(explanation)
        self._return(message, ResourceError.reply_code, text)

    def _return(self, message: Message, reply_code: int, reply_text: str) -> None:
        """basic.return; the octets go out in front of whatever confirms this publish."""
        if self._port.is_closing:
            return
        head = return_frame(self._number, reply_code, reply_text, message.address.octets)
        self._port.write_content((head,), message)


def initial_position(octets: bytes) -> int:
    """UNWRITTEN for properties with delivery-mode 2 (persistent), TRANSIENT for all others.

    Raises MalformedFrame where the octets end before it.
    """
    return UNWRITTEN if decode_delivery_mode(octets) == _PERSISTENT else TRANSIENT


def are_kept(queues: tuple[Enqueueing, ...], position: int) -> bool:
    """Whether one of the queues gives messages with this position to the store."""
    for queue in queues:
        keeps = queue.keeps
        if keeps == KEEPS_ALL or (position and keeps != KEEPS_NONE):
            return True
    return False


def is_kept(queue: Enqueueing, position: int) -> bool:
    """Whether this queue gives messages with this position to the store."""
    return queue.keeps == KEEPS_ALL or (position != TRANSIENT and queue.keeps != KEEPS_NONE)


def not_kept_text(reason: str) -> str:
    """What the publisher of a message is told that the store does not take, for this reason."""
    return within_short_string(f"message cannot be stored: {reason}")


def parse_expiration(expiration: str) -> int:
    """Raise PreconditionFailed unless this is a whole number of milliseconds, 0 or more.

    Any size is legal, see ``expires_at_ms``.
    """
    digits = expiration[1:] if expiration[:1] in ("-", "+") else expiration
    length = len(digits) - len(digits.lstrip("0123456789"))
    if length == 0:
        problem = "no_integer"
    elif length < len(digits):
        problem = f'{{leftover_string,"{digits[length:]}"}}'
    elif expiration[0] == "-" and int(digits):
        problem = f"{{value_negative,-{int(digits)}}}"
    else:
        return int(digits)
    raise PreconditionFailed(f"invalid expiration '{expiration}': {problem}")


def sender_selected_keys(headers: Table) -> list[str]:
    """Routing keys of the CC and BCC headers; both must be arrays, what is no string is skipped."""
    return array_keys(headers, "CC") + array_keys(headers, "BCC")


def array_keys(headers: Table, name: str) -> list[str]:
    """The strings in a header that must be an array. Raises PreconditionFailed if it is none."""
    if name not in headers:
        return []
    value = headers[name]
    if not isinstance(value, list):
        raise _unacceptable(name, value)
    return [key for key in value if isinstance(key, str)]


def _unacceptable(name: str, value: object) -> PreconditionFailed:
    kind = type_name(kind_of(value))
    return PreconditionFailed(f'invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}')


_NOWHERE: Final = Address("", "", b"\x00\x00")
