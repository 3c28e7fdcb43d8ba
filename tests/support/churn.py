"""Connections that come, use names, headers and properties that nobody has used before, and go.

For what a broker may keep of connections that have ended. A life is encoded once with a
placeholder for its number, so a client costs a fraction of what the broker does for it.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

from pamqp import commands, common, frame, header
from pamqp.base import Frame
from pamqp.body import ContentBody

from .raw_client import PROTOCOL_HEADER, TIMEOUT_S

#: Stands for the number of a connection wherever a name is to be new.
_NUMBER: Final = "########"
_BODY: Final = b"the body of a message"
_DELIVERIES: Final = 2
#: struct linger: on, for 0 seconds. Closing sends a reset then.
_RESET: Final = struct.pack("ii", 1, 0)


def _marshal(*methods: Frame, channel: int = 1) -> bytes:
    return b"".join(frame.marshal(method, channel) for method in methods)


def _publish(exchange: str, routing_key: str) -> bytes:
    properties = commands.Basic.Properties(
        headers={f"header-{_NUMBER}": f"value-{_NUMBER}"},
        message_id=f"message-{_NUMBER}",
        correlation_id=_NUMBER,
    )
    head = header.ContentHeader(body_size=len(_BODY), properties=properties)
    return (
        _marshal(commands.Basic.Publish(exchange=exchange, routing_key=routing_key))
        + frame.marshal(head, 1)
        + frame.marshal(ContentBody(_BODY), 1)
    )


def _life(user: str, password: str) -> bytes:
    """Everything up to two deliveries; no answer has to be waited for."""
    exchange, queue = f"exchange-{_NUMBER}", f"queue-{_NUMBER}"
    handshake = (
        commands.Connection.StartOk(
            client_properties={
                "product": f"churn {_NUMBER}",
                f"property-{_NUMBER}": _NUMBER,
                "connection_name": f"connection {_NUMBER}",
                "capabilities": {"consumer_cancel_notify": True},
            },
            response=f"\0{user}\0{password}",
        ),
        commands.Connection.TuneOk(channel_max=10, frame_max=131_072, heartbeat=60),
        commands.Connection.Open(),
    )
    arguments: common.FieldTable = {f"argument-{_NUMBER}": _NUMBER}
    return (
        PROTOCOL_HEADER
        + _marshal(*handshake, channel=0)
        + _marshal(
            commands.Channel.Open(),
            commands.Exchange.Declare(exchange=exchange, arguments=arguments),
            commands.Queue.Declare(queue=queue, exclusive=True, arguments=arguments),
            commands.Queue.Bind(queue=queue, exchange=exchange, routing_key=_NUMBER),
            commands.Queue.Bind(
                queue=queue, exchange="amq.headers", routing_key="", arguments=arguments
            ),
            commands.Queue.Bind(queue=queue, exchange="amq.topic", routing_key=f"word.{_NUMBER}.#"),
            commands.Confirm.Select(),
            commands.Basic.Consume(queue=queue, consumer_tag=f"tag-{_NUMBER}", arguments=arguments),
        )
        + _publish("", queue)
        + _publish(exchange, _NUMBER)
    )


class Churn:
    """``address``: of the broker. Each connection has a number that none before it had."""

    def __init__(
        self, address: tuple[str, int], user: str = "guest", password: str = "guest"
    ) -> None:
        self._address = address
        self._life = _life(user, password)
        self._goodbye = _marshal(
            commands.Exchange.Delete(exchange=f"exchange-{_NUMBER}", nowait=True)
        ) + _marshal(
            commands.Connection.Close(reply_code=200, reply_text="", class_id=0, method_id=0),
            channel=0,
        )
        self.count = 0

    def run(self, count: int) -> None:
        """Open, use and end so many connections one after the other, every third by a reset."""
        for _ in range(count):
            self._live(self.count, is_reset=self.count % 3 == 2)
            self.count += 1

    def _live(self, number: int, *, is_reset: bool) -> None:
        text = b"%08d" % number
        with socket.create_connection(self._address, TIMEOUT_S) as connection:
            connection.sendall(self._life.replace(_NUMBER.encode(), text))
            received = b""
            while received.count(_BODY) < _DELIVERIES:
                octets = connection.recv(65_536)
                assert octets, f"the broker has closed connection {number}: {received!r}"
                received += octets
            goodbye = self._goodbye.replace(_NUMBER.encode(), text)
            connection.sendall(goodbye)
            if is_reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                return
            while connection.recv(65_536):
                continue
