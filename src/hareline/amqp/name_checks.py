"""Rules of names and keys that exchange.* and queue.* share."""

from __future__ import annotations

from hareline.amqp.channel import Channel
from hareline.errors import AccessRefused


def clean_name(name: str) -> str:
    """The name without CR and LF, as RabbitMQ has it where names are declared, deleted or bound."""
    return name.replace("\r", "").replace("\n", "")


def refuse_default_exchange(*names: str) -> None:
    """Raise AccessRefused if one of these names is the default exchange's."""
    if "" in names:
        raise AccessRefused("operation not permitted on the default exchange")


def require_topic(channel: Channel, source: str, routing_key: str) -> None:
    """Raise AccessRefused if the user may not bind to a topic exchange with this key."""
    exchange = channel.vhost.exchanges.get(source)
    if exchange is not None and exchange.type_name == "topic":
        channel.access.require_topic("read", source, routing_key)
