"""From a complete publish to the queues it is routed to.

``Publishing.publish`` is the lane that the decoder calls for publishes whose method payload was
seen before on this channel; the others come through ``publish_first`` after ``resolve`` has decoded
the method, checked it and remembered it as a ``Route``. Routes are dropped by the connection when
the virtual host's routing version changes.

What a message's properties ask for (user-id, CC, BCC, expiration, direct reply-to) is looked at
once for each distinct set of property octets; sets that ask for nothing are remembered.    [hot]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hareline.amqp.confirms import Confirms
from hareline.amqp.reply_to import REPLY_TO_NAME, REPLY_TO_PREFIX
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.vhost import Enqueueing
from hareline.errors import AccessRefused, NotImplementedMethod, PreconditionFailed
from hareline.message import Address, Message
from hareline.wire.decoder import PublishLane
from hareline.wire.encoder import content_frames, return_frame, with_properties
from hareline.wire.methods import commands, decode_method
from hareline.wire.plain_properties import are_plain
from hareline.wire.properties import replace_headers, replace_reply_to
from hareline.wire.table import Table, kind_of, type_name

if TYPE_CHECKING:
    from hareline.amqp.channel import Channel
    from hareline.amqp.transactions import Transaction

ROUTES_MAX: Final = 16_384  # publish keys remembered per channel
# Property sets remembered per channel; few and short, since sets with an id never come again.
PLAIN_PROPERTIES_MAX: Final = 256
PLAIN_OCTETS_MAX: Final = 256

_PROPERTIES_START: Final = 19
_HEADER_SIZE_BARE: Final = 22  # of a header frame with no properties at all
_ADDRESS_START: Final = 6  # class, method, ticket
_NO_ROUTE: Final = 312
_REPLY_TO_OCTETS: Final = REPLY_TO_NAME.encode()


class Route:
    """What a publish method means: where to, and whether it must arrive.

    ``is_dynamic``: the queues depend on the message, ``queues`` is empty and ``exchange`` is asked
    for each one. ``exchange`` is None for a direct reply.
    """

    __slots__ = ("address", "exchange", "is_dynamic", "is_mandatory", "queues")

    def __init__(
        self,
        address: Address,
        exchange: Exchange | None,
        queues: tuple[Enqueueing, ...],
        is_mandatory: bool,
        is_dynamic: bool,
    ) -> None:
        self.address = address
        self.exchange = exchange
        self.queues = queues
        self.is_mandatory = is_mandatory
        self.is_dynamic = is_dynamic


class Publishing(PublishLane):
    """``confirms`` is None outside of confirm mode, ``transaction`` outside of tx mode."""

    __slots__ = ("_channel", "_clock", "_number", "_plain", "confirms", "transaction")

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel
        self._number = channel.number
        self._clock = channel.connection.context.clock
        self._plain: set[bytes] = set()
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None

    def publish(
        self, route: Route, flags: int, content: bytes, header_size: int, size: int
    ) -> bool:
        is_plain = (
            (flags == 0 and header_size == _HEADER_SIZE_BARE)
            or (octets := content[_PROPERTIES_START : header_size - 1]) in self._plain
            or self._are_plain(octets)
        )
        if is_plain and not route.is_dynamic:
            self.publish_plain(route, content, header_size, size)
            return True
        message = Message(
            route.address, content, header_size, size, self._number, self._clock.now_ms
        )
        extra_keys: list[str] = []
        if not is_plain:
            message, extra_keys = self._inspect(message, flags)
        queues = self._queues_for(route, message, extra_keys)
        message.forget_properties()  # a waiting message costs its octets alone
        self._enqueue(message, queues, route.is_mandatory)
        return False

    def publish_plain(self, route: Route, content: bytes, header_size: int, size: int) -> None:
        """A publish to fixed queues whose properties ask for nothing."""
        message = Message(
            route.address, content, header_size, size, self._number, self._clock.now_ms
        )
        if route.queues:
            for queue in route.queues:
                queue.enqueue(message)
        elif route.is_mandatory:
            self._return(message)
        confirms = self.confirms
        if confirms is not None:
            confirms.sequence += 1
            if not confirms.is_marked:
                confirms.mark()

    def publish_first(
        self, method_payload: bytes, flags: int, content: bytes, header_size: int, size: int
    ) -> None:
        """A publish that did not come by the lane."""
        route = self.routes.get(method_payload)
        if route is None:
            message = Message(
                _NOWHERE, content, header_size, size, self._number, self._clock.now_ms
            )
            route = self._resolve(method_payload, message)
        if self.transaction is None:
            self.publish(route, flags, content, header_size, size)
        else:
            message = Message(
                route.address, content, header_size, size, self._number, self._clock.now_ms
            )
            self._publish_in_transaction(self.transaction, route, message, flags)

    # -------------------------------------------------------------- routes

    def _resolve(self, method_payload: bytes, message: Message) -> Route:
        """Decode and check a publish method, route it, and remember the result."""
        method = decode_method(method_payload)
        assert isinstance(method, commands.Basic.Publish)
        if method.immediate:
            raise NotImplementedMethod("immediate=true")
        channel = self._channel
        vhost = channel.vhost
        octets = method_payload[_ADDRESS_START:-1]
        exchange_name, routing_key = str(method.exchange), str(method.routing_key)
        address = vhost.address(exchange_name, routing_key, octets)
        is_mandatory = bool(method.mandatory)
        channel.access.require("write", "exchange", exchange_name)
        if exchange_name == "" and routing_key.startswith(REPLY_TO_PREFIX):
            # not cached: a vanished requester must not be kept alive by a route
            waiting = vhost.reply_queues.get(routing_key)
            return Route(address, None, () if waiting is None else (waiting,), False, False)
        exchange = vhost.exchange(exchange_name)
        if exchange.is_internal:
            raise AccessRefused(
                f"cannot publish to internal exchange '{exchange_name}' in vhost '{vhost.name}'"
            )
        queues, is_static = vhost.route(exchange, [routing_key], message)
        route = Route(address, exchange, queues if is_static else (), is_mandatory, not is_static)
        if len(self.routes) >= ROUTES_MAX:
            self.routes.clear()
        self.routes[method_payload] = route
        return route

    # --------------------------------------------------- inspected publishes

    def _publish_in_transaction(
        self, transaction: Transaction, route: Route, message: Message, flags: int
    ) -> None:
        """Checked and routed now, as in RabbitMQ; enqueued, or returned, at commit."""
        message, extra_keys = self._inspect(message, flags)
        queues = self._queues_for(route, message, extra_keys)
        message.forget_properties()
        transaction.publish(lambda: self._enqueue_at_commit(message, queues, route.is_mandatory))

    def _enqueue_at_commit(
        self, message: Message, queues: tuple[Enqueueing, ...], is_mandatory: bool
    ) -> None:
        """A queue may have been deleted since the publish."""
        self._enqueue(
            message, tuple(queue for queue in queues if not queue.is_deleted), is_mandatory
        )

    def _queues_for(
        self, route: Route, message: Message, extra_keys: list[str]
    ) -> tuple[Enqueueing, ...]:
        if not (extra_keys or route.is_dynamic):
            return route.queues
        if route.exchange is None:  # a direct reply; its copies go by the default exchange
            copies, _ = self._channel.vhost.route(
                self._channel.vhost.exchange(""), extra_keys, message
            )
            return route.queues + copies
        keys = [route.address.routing_key, *extra_keys]
        return self._channel.vhost.route(route.exchange, keys, message)[0]

    def _enqueue(
        self, message: Message, queues: tuple[Enqueueing, ...], is_mandatory: bool
    ) -> None:
        for queue in queues:
            queue.enqueue(message)
        if not queues and is_mandatory:
            self._return(message)
        confirms = self.confirms
        if confirms is not None:
            confirms.sequence += 1
            if not confirms.is_marked:
                confirms.mark()

    def _inspect(self, message: Message, flags: int) -> tuple[Message, list[str]]:
        """Check what the properties ask for; returns the message to enqueue, and CC and BCC keys.

        Raises MalformedFrame for octets that are no properties, PreconditionFailed for values that
        are refused.
        """
        if not flags and message.header_size == _HEADER_SIZE_BARE:
            return message, []
        properties = message.properties
        is_plain = properties.user_id is None
        if properties.user_id is not None:
            self._check_user_id(properties.user_id)
        if properties.expiration is not None:
            check_expiration(properties.expiration)
        octets = message.property_octets
        extra_keys: list[str] = []
        if properties.headers is not None:
            extra_keys = sender_selected_keys(properties.headers)
            if extra_keys:
                is_plain = False
            if "BCC" in properties.headers:
                headers = Table(properties.headers)
                del headers["BCC"]
                octets = replace_headers(octets, headers)
                is_plain = False
        if properties.reply_to == REPLY_TO_NAME:
            octets = replace_reply_to(octets, self._channel.reply_address())
            is_plain = False
        if is_plain:
            self._remember_plain(octets)
            return message, extra_keys
        content, header_size = with_properties(message, self._number, octets)
        changed = Message(
            message.address, content, header_size, message.size, self._number, message.arrival_ms
        )
        return changed, extra_keys

    def _are_plain(self, octets: bytes) -> bool:
        """Whether these properties ask for nothing; remembered if so."""
        if not are_plain(octets, _REPLY_TO_OCTETS):
            return False
        self._remember_plain(octets)
        return True

    def _remember_plain(self, octets: bytes) -> None:
        if len(octets) > PLAIN_OCTETS_MAX:
            return
        if len(self._plain) >= PLAIN_PROPERTIES_MAX:
            self._plain.clear()
        self._plain.add(octets)

    def _check_user_id(self, user_id: str) -> None:
        user = self._channel.connection.user
        if user_id != user.name and "impersonator" not in user.tags:
            raise PreconditionFailed(
                f"user_id property set to '{user_id}' but authenticated user was '{user.name}'"
            )

    def _return(self, message: Message) -> None:
        """basic.return; the octets go out in front of whatever confirms this publish."""
        connection = self._channel.connection
        address = message.address
        connection.write(
            return_frame(self._number, _NO_ROUTE, "NO_ROUTE", address.octets),
            *content_frames(message, self._number, connection.frame_max),
        )


def check_expiration(expiration: str) -> None:
    """Raise PreconditionFailed unless this is a whole number of milliseconds, 0 or more.

    Any size is legal: what is above ten years is an absolute instant, see docs/data-model.md.
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
        return
    raise PreconditionFailed(f"invalid expiration '{expiration}': {problem}")


def sender_selected_keys(headers: Table) -> list[str]:
    """Routing keys of the CC and BCC headers; both must be arrays, what is no string is skipped."""
    keys: list[str] = []
    for name in ("CC", "BCC"):
        if name not in headers:
            continue
        value = headers[name]
        if not isinstance(value, list):
            raise _unacceptable(name, value)
        keys += [key for key in value if isinstance(key, str)]
    return keys


def _unacceptable(name: str, value: object) -> PreconditionFailed:
    kind = type_name(kind_of(value))
    return PreconditionFailed(f'invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}')


_NOWHERE: Final = Address("", "", b"\x00\x00")
