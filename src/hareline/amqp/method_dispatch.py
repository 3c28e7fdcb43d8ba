"""Table of handlers, for methods of an open channel that take no lane of the decoder.

Publishes and their contents go to ``amqp.content``, which keeps them until they are complete. A
channel that is closing handles nothing but close and close-ok.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from hareline.amqp import auto_creation, channel_methods, topology_methods
from hareline.amqp import basic_methods as basic
from hareline.amqp.channel import Channel
from hareline.amqp.internal_events import acting, doer_of
from hareline.auth.permissions import RightsPending
from hareline.errors import CommandInvalid
from hareline.wire.constants import BASIC_PUBLISH, FRAME_HEADER, FRAME_METHOD
from hareline.wire.methods import Access, Frame, commands, decode_method
from hareline.wire.methods import Exchange as ExchangeMethods

_BASIC: Final = 60 << 16  # classes before basic: channel, exchange, queue

HANDLERS: Final[Mapping[type[Frame], Callable[[Channel, Any], None]]] = {
    commands.Channel.Open: channel_methods.open_channel_again,
    commands.Channel.Close: channel_methods.close_channel,
    commands.Channel.Flow: channel_methods.flow,
    commands.Channel.FlowOk: channel_methods.flow_ok,
    Access.Request: channel_methods.request_access,
    commands.Exchange.Declare: topology_methods.declare_exchange,
    commands.Exchange.Delete: topology_methods.delete_exchange,
    commands.Exchange.Bind: topology_methods.bind_exchange,
    commands.Exchange.Unbind: topology_methods.unbind_exchange,
    ExchangeMethods.Bound: topology_methods.bound,
    commands.Queue.Declare: topology_methods.declare_queue,
    commands.Queue.Delete: topology_methods.delete_queue,
    commands.Queue.Purge: topology_methods.purge_queue,
    commands.Queue.Bind: topology_methods.bind_queue,
    commands.Queue.Unbind: topology_methods.unbind_queue,
    commands.Basic.Consume: basic.consume,
    commands.Basic.Cancel: basic.cancel,
    commands.Basic.Get: basic.get,
    commands.Basic.Qos: basic.qos,
    commands.Basic.Ack: basic.ack,
    commands.Basic.Nack: basic.nack,
    commands.Basic.Reject: basic.reject,
    commands.Basic.Recover: basic.recover,
    commands.Basic.RecoverAsync: basic.recover,
    commands.Confirm.Select: channel_methods.select_confirm,
    commands.Tx.Select: channel_methods.select_tx,
    commands.Tx.Commit: channel_methods.commit_tx,
    commands.Tx.Rollback: channel_methods.rollback_tx,
}


def on_frame(channel: Channel, kind: int, payload: bytes) -> None:
    """Handle a method, header or body frame that did not take a lane of the decoder."""
    if kind != FRAME_METHOD:
        if not channel.port.is_closing:
            _on_content_frame(channel, kind, payload)
        return
    index = int.from_bytes(payload[:4], "big")
    if channel.port.is_closing:
        _on_method_while_closing(channel, index)
        return
    if index == BASIC_PUBLISH:
        auto_creation.before_publish(channel, payload)
        channel.parts.flow.before_publish()
        channel.content.begin(payload)
        channel.parts.gate.close_lanes(channel.number)
        return
    if channel.content.is_open:
        channel.content.refuse_method()
    method = decode_method(payload)
    handler = HANDLERS.get(type(method))
    if handler is None:  # class connection, or a method that only a server sends
        raise CommandInvalid("unimplemented method")
    context = channel.parts.context
    if context.events is None and (index >= _BASIC or context.recorder is None):
        handler(channel, method)  # no one is told who did it, or it changes nothing that is kept
    else:
        with acting(context, doer_of(channel.client, channel.parts.transport)):
            handler(channel, method)


def _on_content_frame(channel: Channel, kind: int, payload: bytes) -> None:
    content = channel.content
    is_complete = content.add_header(payload) if kind == FRAME_HEADER else content.add_body(payload)
    if is_complete:
        parts = content.take(channel.number)
        large = content.take_large()
        channel.open_lanes()
        try:
            channel.publishing.publish_first(content.method_payload, *parts, large)
        except RightsPending as pending:  # its frames are gone, so it begins again from here
            publish = channel.publishing.publish_first
            pending.again = partial(publish, content.method_payload, *parts, large)
            raise


def _on_method_while_closing(channel: Channel, index: int) -> None:
    if index == commands.Channel.CloseOk.index:
        channel.connection.forget_channel(channel.number)
    elif index == commands.Channel.Close.index:
        channel.reply(commands.Channel.CloseOk)
