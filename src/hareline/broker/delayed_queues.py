"""The queue of an x-delayed-message exchange: its name, and how its messages go on to the exchange.

``broker.declarations`` makes it with the exchange, by ``broker.making``, and deletes both
together. It is a queue like others to the store, to paging and to statistics, but no client can use
it: its owner is the exchange, so that every method of a client is refused as for another's
exclusive queue (405), and the default exchange does not lead to it. ``queues.policies.delay`` says
when a message leaves.

Invariant: a message that leaves has no schedule, and no x-delay or x-deliver-at above 0, so that it
is not delayed again, neither here nor by another such exchange on its way.                  [hot]
"""

from __future__ import annotations

from typing import Final

from hareline.broker.delayed_exchange import DelayedExchange
from hareline.broker.exchanges.exchange import Route
from hareline.message import Message
from hareline.queues.core.enqueueing import archive_message
from hareline.queues.core.environment import QueueEnvironment
from hareline.queues.core.kinds import TAKEN
from hareline.queues.policies.delay import not_delayed
from hareline.queues.policies.expiry import expires_at_ms

PREFIX: Final = "amq.delayed."  # reserved, so no client has a queue of such a name

_COPIES: Final = "CC"
_TRACE_OF_COPIES: Final = b"\x02CC"  # is in the octets if the header is there


def delay_queue_name(exchange_name: str) -> str:
    """The queue's name; it may be longer than 255 octets, as no client ever needs it."""
    return PREFIX + exchange_name


class DelayedSender:
    """Routes the messages of one exchange whose time has come.

    What reaches no queue then, or is refused by it, is lost, since its publisher has had its
    confirm (as with RabbitMQ's plugin); the alternate exchange is asked as for any message.
    """

    __slots__ = ("_environment", "_exchange", "_route")

    def __init__(
        self, exchange: DelayedExchange, environment: QueueEnvironment, route: Route
    ) -> None:
        self._exchange = exchange
        self._environment = environment
        self._route = route

    def send(self, message: Message) -> None:
        """Publish a message whose delay is over; called by ``queues.policies.delay``.

        Raises StoreError when it cannot be read.
        """
        onward = self._onward(message)
        queues, archives = self._route(self._exchange, routing_keys_of(onward), onward)
        onward.forget_properties()
        takers = [queue for queue in queues if queue.put(onward) == TAKEN]
        archive_message(onward, takers, archives)

    def _onward(self, message: Message) -> Message:
        """The message as its queues get it: arriving now, with delay and instant negated."""
        now_ms = self._environment.clock.now_ms
        onward = not_delayed(message)
        onward.arrival_ms = now_ms
        if message.expires_at_ms:
            expiration = message.properties.expiration
            message.forget_properties()
            if expiration is not None:  # a number: its publish would have been refused otherwise
                return onward.expiring_at(expires_at_ms(int(expiration), now_ms))
        return onward


def routing_keys_of(message: Message) -> list[str]:
    """The keys that a message is routed by, its own first and then those of CC and BCC."""
    return [message.address.routing_key, *_copies(message), *message.address.blind_keys]


def _copies(message: Message) -> list[str]:
    """Routing keys of the CC header; those that are no text route nowhere."""
    if _TRACE_OF_COPIES not in message.property_octets:
        return []
    copies = message.header(_COPIES)
    if not isinstance(copies, list):
        return []
    return [key for key in copies if isinstance(key, str)]
