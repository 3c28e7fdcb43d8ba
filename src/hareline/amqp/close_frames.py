"""What an AmqpError becomes on the wire: channel.close or connection.close, and with which code.

Called for ``amqp.connection``, which decides when. Invariant: nothing else builds a close
frame.
"""

from __future__ import annotations

from typing import Final

from hareline.amqp.delivery_port import DeliveryPort
from hareline.amqp.dialect import Dialect
from hareline.amqp.output import Output
from hareline.errors import AccessRefused, AmqpError, InvalidSelector
from hareline.wire.methods import commands

INVALID_ARGUMENT: Final = 409  # no code of AMQP 0-9-1; Qpid's clients make JMS's exception of it

_CONSUME: Final = divmod(commands.Basic.Consume.index, 1 << 16)


def closes_channel(error: AmqpError, dialect: Dialect) -> bool:
    """Whether ``error`` closes its channel, not the connection; its ids must be set."""
    return error.scope == "channel" and not (
        dialect.refuses_consume_by_connection
        and isinstance(error, AccessRefused)
        and (error.class_id, error.method_id) == _CONSUME
    )


def send_channel_close(port: DeliveryPort, error: AmqpError, dialect: Dialect) -> None:
    """channel.close for ``error``."""
    reply_code = error.reply_code
    if isinstance(error, InvalidSelector) and dialect.is_invalid_selector_argument:
        reply_code = INVALID_ARGUMENT
    port.reply(
        commands.Channel.Close,
        reply_code=reply_code,
        reply_text=error.reply_text,
        class_id=error.class_id or 0,
        method_id=error.method_id or 0,
    )


def send_connection_close(output: Output, error: AmqpError) -> None:
    """connection.close for ``error``."""
    output.send(
        0,
        commands.Connection.Close,
        reply_code=error.reply_code,
        reply_text=error.reply_text,
        class_id=error.class_id or 0,
        method_id=error.method_id or 0,
    )
