"""channel.* but open, which makes one, and access.request of AMQP 0-8."""

from __future__ import annotations

from hareline.amqp.channel import Channel
from hareline.errors import ChannelError
from hareline.wire.methods import Access, commands


def open_again(channel: Channel, method: commands.Channel.Open) -> None:
    """Refuse to open a channel that is open."""
    raise ChannelError("second 'channel.open' seen")


def close(channel: Channel, method: commands.Channel.Close) -> None:
    """The client closes the channel; its number is free again."""
    channel.terminate()
    channel.connection.forget_channel(channel.number)
    channel.reply(commands.Channel.CloseOk)


def flow(channel: Channel, method: commands.Channel.Flow) -> None:
    """Stop or restart deliveries; RabbitMQ refuses to stop, Qpid's clients need it."""
    channel.reply(commands.Channel.FlowOk, active=bool(method.active))
    channel.set_flow(bool(method.active))


def flow_ok(channel: Channel, method: commands.Channel.FlowOk) -> None:
    """The answer to channel.flow from this broker; nothing waits for it."""


def request_access(channel: Channel, method: Access.Request) -> None:
    """Grant a ticket, which means nothing in AMQP 0-9-1."""
    channel.reply(Access.RequestOk, ticket=1)
