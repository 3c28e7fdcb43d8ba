"""Number of messages that a consumer may have unacked: the first of these that is set.

1. the consumer argument x-prefetch-count,
2. basic.qos on its channel,
3. the virtual host: ``prefetch_profile``, which goes by the kind of queue, or ``default_prefetch``.

``prefetch_max`` of the virtual host bounds them all. 0 is "no limit", as in AMQP 0-9-1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from hareline.amqp.consuming import ChannelConsumer
from hareline.broker.vhost import VirtualHost, generated_name
from hareline.queues.core.credit import CreditWindow
from hareline.queues.core.entry import QueueEntry
from hareline.queues.declare.arguments import QueueArguments, server_named_prefix
from hareline.queues.queue import Queue

# ActiveMQ Classic, ActiveMQPrefetchPolicy: queue, durable topic, topic and queue browser. The
# numbers are those of its documentation; its code has had 32767 for the third since.
QUEUE_PREFETCH: Final = 1000
DURABLE_SUBSCRIPTION_PREFETCH: Final = 100
SUBSCRIPTION_PREFETCH: Final = 32_766
BROWSER_PREFETCH: Final = 500


class ChannelPrefetch:
    """What basic.qos has set on a channel. ``is_set``: the client has sent it.

    ``count`` and ``size`` (octets) are limits of each consumer that comes, ``window`` is shared by
    all consumers of the channel (global=true).
    """

    __slots__ = ("count", "is_set", "size", "window")

    def __init__(self) -> None:
        self.is_set = False
        self.count = 0
        self.size = 0
        self.window = CreditWindow()

    def windows_for_consumer(self, *, acknowledges: bool) -> tuple[CreditWindow, ...]:
        """Limits of a new consumer beyond its count: its octets, and the channel's window."""
        windows: list[CreditWindow] = []
        if self.size and acknowledges:
            windows.append(CreditWindow(0, self.size))
        if self.window.is_limited:
            windows.append(self.window)
        return tuple(windows)

    def limit_each(self, count: int, size: int) -> None:
        """basic.qos global=false: limits of each consumer that comes, and none over all of them."""
        self.window.resize(0, 0)
        self.count = count
        self.size = size

    def limit_all(
        self,
        limit_count: int,
        limit_bytes: int,
        consumers: Iterable[ChannelConsumer],
        outstanding: Callable[[], Iterable[QueueEntry]],
    ) -> None:
        """basic.qos global=true: one limit over all consumers, in force at once.

        Deliveries made before it count, so the window is filled from what is ``outstanding``.
        """
        window = self.window
        if not window.is_limited and (limit_count or limit_bytes):
            window.used_count = window.used_bytes = 0
            members = set(consumers)
            for entry in outstanding():
                if isinstance(entry.consumer, ChannelConsumer):
                    members.add(entry.consumer)
                    window.count(entry.message.size)
            for consumer in members:
                if window not in consumer.windows:
                    consumer.windows = (*consumer.windows, window)
        window.resize(limit_count, limit_bytes)


def prefetch_for_consumer(
    prefetch: ChannelPrefetch,
    vhost: VirtualHost,
    queue: Queue,
    asked: int | None,
    *,
    is_exclusive: bool,
    is_browser: bool,
) -> int:
    """The limit of a new consumer, 0 for none; ``asked`` is its x-prefetch-count.

    ``is_exclusive``: it consumes exclusively. ``is_browser``: what it gets stays in the queue.
    """
    if asked is not None:
        count = asked
    elif prefetch.is_set:
        count = prefetch.count
    elif vhost.prefetch_profile == "activemq":
        arguments = vhost.queue_arguments[queue.name]
        count = activemq_prefetch(
            queue, arguments, is_exclusive=is_exclusive, is_browser=is_browser
        )
    else:
        count = vhost.default_prefetch
    if vhost.prefetch_max and (count == 0 or count > vhost.prefetch_max):
        return vhost.prefetch_max
    return count


def activemq_prefetch(
    queue: Queue, arguments: QueueArguments, *, is_exclusive: bool, is_browser: bool
) -> int:
    """ActiveMQ's default for what comes nearest to this queue there.

    A topic's subscription is a queue here: a durable one outlives its client and has one consumer
    at a time, any other has a name made by the server and goes with its consumer.
    """
    if is_browser:
        return BROWSER_PREFETCH
    if queue.is_durable:
        return DURABLE_SUBSCRIPTION_PREFETCH if is_exclusive else QUEUE_PREFETCH
    if queue.is_auto_delete and _is_server_named(queue.name, arguments):
        return SUBSCRIPTION_PREFETCH
    return QUEUE_PREFETCH


def _is_server_named(name: str, arguments: QueueArguments) -> bool:
    """True by its form: ``amq.`` is reserved, and x-name-prefix lets the server name the queue."""
    prefix = f"{server_named_prefix(arguments.raw)}-"
    return name.startswith(prefix) and len(name) == len(generated_name(prefix))
