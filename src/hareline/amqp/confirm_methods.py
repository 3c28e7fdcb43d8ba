"""confirm.select; what it switches on is in ``amqp.confirms``."""

from __future__ import annotations

from hareline.amqp.channel import Channel
from hareline.amqp.confirms import Confirms
from hareline.errors import PreconditionFailed
from hareline.wire.methods import commands


def select(channel: Channel, method: commands.Confirm.Select) -> None:
    """Confirm what is published from now on; once is enough, and it cannot be undone."""
    publishing = channel.publishing
    if publishing.transaction is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    if publishing.confirms is None:
        store = channel.vhost.environment.store
        publishing.confirms = Confirms(channel.parts.output, channel.number, store)
    if not method.nowait:
        channel.reply(commands.Confirm.SelectOk)
