"""basic.return: what goes back to a publisher because no queue has it.

Called by ``amqp.publishing``, before what confirms the publish.

Invariant: nothing is returned on a channel that is closing.
"""

from __future__ import annotations

from hareline.amqp.client import Client
from hareline.amqp.delivery_port import DeliveryPort
from hareline.amqp.product import closes_when_no_route
from hareline.errors import NoRoute, ResourceError, within_short_string
from hareline.message import Address, Message
from hareline.queues.policies.overflow import Overflow
from hareline.wire.encoder import return_frame


def return_message(port: DeliveryPort, message: Message, reply_code: int, reply_text: str) -> None:
    """Write basic.return; the octets go out in front of whatever confirms this publish."""
    if port.is_closing:
        return
    head = return_frame(port.number, reply_code, reply_text, message.address.octets)
    port.write_content((head,), message)


def return_refused(
    port: DeliveryPort, message: Message, overflow: Overflow | None, unkept: str
) -> None:
    """Return what a full queue refused, or the store, for the reason ``unkept``.

    RabbitMQ has no basic.return for this; code and words are Broker-J's.
    """
    if overflow is None or unkept:
        return_message(port, message, ResourceError.reply_code, not_kept_text(unkept))
        return
    address = message.address
    explanation = overflow.explanation
    text = (
        f"No route for message with exchange '{address.exchange}' and routing key "
        f"'{address.routing_key}':{explanation}"
    )
    if within_short_string(text) != text:  # then rather what only the broker knows
        text = within_short_string(explanation)
    return_message(port, message, ResourceError.reply_code, text)


def check_no_route_allowed(client: Client, address: Address) -> None:
    """Raise NoRoute in the qpid dialect, unless its client opts out.

    Broker-J's closeWhenNoRoute: the commit fails with the connection.
    """
    if client.dialect.refuses_returned and closes_when_no_route(client.properties):
        raise NoRoute(
            f"no route for message with exchange '{address.exchange}' and routing key "
            f"'{address.routing_key}' in vhost '{client.vhost.name}'"
        )


def not_kept_text(reason: str) -> str:
    """The reply text for a message that the store does not take, for this reason."""
    return within_short_string(f"message cannot be stored: {reason}")
