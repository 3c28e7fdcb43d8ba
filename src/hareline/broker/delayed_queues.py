"""The queue of an x-delayed-message exchange: where its messages wait, and how they go on.

``broker.declarations`` makes one with each such exchange, and ``broker.registry`` deletes it with
the exchange. To the store, to paging and to counters it is a queue like others, but no client can
use it: its owner is the exchange, so every method is refused as for another's exclusive queue
(405), and the default exchange does not lead to it. ``queues.policies.delay`` says when a message
leaves.

Invariant: a message that leaves has an x-delay below 0, so that it is not delayed again, neither
here nor by another such exchange on its way.                                                [hot]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hareline.broker.exchanges.delayed import DelayedExchange
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.queues.environment import QueueEnvironment
from hareline.broker.queues.orders.fifo import FifoOrder
from hareline.broker.queues.paging.window import Paging
from hareline.broker.queues.policies.delay import DELAY_HEADER, Delay, delay_ms_of
from hareline.broker.queues.policies.expiry import expires_at_ms
from hareline.broker.queues.queue import Queue
from hareline.message import Message
from hareline.turn import Turn

PREFIX: Final = "amq.delayed."  # reserved, so no client has a queue of such a name

_COPIES: Final = "CC"
_TRACE_OF_COPIES: Final = b"\x02CC"  # must be there if the header is

# The exchange, routing keys, message -> the queues it reaches by the bindings of this moment.
Route = Callable[[Exchange, list[str], Message], tuple[Queue, ...]]


def delay_queue_name(exchange_name: str) -> str:
    """The reserved name of an exchange's queue; may exceed 255 octets, since no client uses it."""
    return PREFIX + exchange_name


def make_delay_queue(
    exchange: DelayedExchange, turn: Turn, environment: QueueEnvironment, route: Route
) -> Queue:
    """A new queue, as durable as its exchange, which refers to it from now on."""
    order = FifoOrder()  # always empty: nothing is ever ready
    queue = Queue(
        delay_queue_name(exchange.name),
        order,
        turn,
        is_durable=exchange.is_durable,
        owner=exchange,
        environment=environment,
    )
    queue.install(hold=Delay(queue, environment, DelayedSender(exchange, environment, route)))
    queue.is_timeless = True  # a time to live begins when the message has come to its queues
    if environment.store.content_store is not None:
        queue.install(paging=Paging(queue, order, environment, environment.store.content_store))
    exchange.delay_queue = queue
    return queue


class DelayedSender:
    """Routes the messages of one exchange whose time has come.

    A message that reaches no queue then, or is refused, is lost, because its publisher can no
    longer be told (RabbitMQ's plugin); the alternate exchange is asked as for any message.
    """

    __slots__ = ("_environment", "_exchange", "_route")

    def __init__(
        self, exchange: DelayedExchange, environment: QueueEnvironment, route: Route
    ) -> None:
        self._exchange = exchange
        self._environment = environment
        self._route = route

    def send(self, message: Message) -> None:
        """Route a message whose delay is over. Raises StoreError when it cannot be read."""
        onward = self._onward(message)
        keys = [onward.address.routing_key, *_copies(onward), *onward.address.blind_keys]
        queues = self._route(self._exchange, keys, onward)
        onward.forget_properties()
        for queue in queues:
            queue.put(onward)

    def _onward(self, message: Message) -> Message:
        """The message as its queues get it: it arrives now, and its delay is negated."""
        now_ms = self._environment.clock.now_ms
        onward = message.with_header(DELAY_HEADER, -delay_ms_of(message))
        onward.arrival_ms = now_ms
        if message.expires_at_ms:
            expiration = message.properties.expiration
            message.forget_properties()
            if expiration is not None:  # a number: any other was refused at publish
                return onward.expiring_at(expires_at_ms(int(expiration), now_ms))
        return onward


def _copies(message: Message) -> list[str]:
    """The routing keys of the CC header."""
    if _TRACE_OF_COPIES not in message.property_octets:
        return []
    copies = message.header(_COPIES)
    if not isinstance(copies, list):
        return []
    return [key for key in copies if isinstance(key, str)]
