"""Switches the firehose of a virtual host, for the channels that are open and those to come.

Called by ``administration.vhosts``, which knows what the settings say (``tracing`` of a virtual
host) and what was set at run time (PUT ``/api/vhosts/{vhost}``). A channel tells the firehose
(``broker.tracing``) of its messages by a ``Tap`` in its delivery port, which is there only while
the firehose is on; its publishes keep off the plain lane then (``amqp.routes``). So no message pays
for a firehose that is off.

Invariant: in a virtual host whose firehose is on, each channel of a running connection has a tap;
in any other, none has.
"""

from __future__ import annotations

from hareline.amqp.connection import Connection
from hareline.amqp.context import Context
from hareline.broker.vhost import VirtualHost


def set_tracing(context: Context, vhost: VirtualHost, is_on: bool) -> None:
    """Switch the firehose of a virtual host on or off; nothing changes if it is so already."""
    if vhost.firehose.switch(is_on):
        for connection in list(context.connections):
            if not isinstance(connection, Connection) or not connection.is_running:
                continue
            if connection.client.vhost is vhost:
                for channel in connection.channels.by_number.values():
                    channel.update_tap()
