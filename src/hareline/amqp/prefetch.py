"""How many messages a consumer may have unacked: the client's word, or the operator's.

Called by ``amqp.consuming`` once per consume. Three things can set the number, and the first that
does counts:

1. the consumer argument x-prefetch-count,
2. basic.qos on its channel,
3. the virtual host: ``prefetch_profile``, which goes by the kind of queue, or ``default_prefetch``.

``prefetch_max`` of the virtual host is an upper bound for all of them. In all of them 0 is "no
limit", as in AMQP 0-9-1; ActiveMQ's 0 ("only when asked") is basic.get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hareline.broker.queues.declare.arguments import QueueArguments, server_named_prefix
from hareline.broker.vhost import generated_name

if TYPE_CHECKING:
    from hareline.amqp.channel import Channel
    from hareline.broker.queues.queue import Queue

# ActiveMQ Classic, ActiveMQPrefetchPolicy: queue, durable topic, topic and queue browser. The
# numbers are those of its documentation; its code has had 32767 for the third since.
QUEUE_PREFETCH: Final = 1000
DURABLE_SUBSCRIPTION_PREFETCH: Final = 100
SUBSCRIPTION_PREFETCH: Final = 32_766
BROWSER_PREFETCH: Final = 500


def prefetch_for_consumer(
    channel: Channel, queue: Queue, asked: int | None, *, is_exclusive: bool, is_browser: bool
) -> int:
    """The limit of a new consumer, 0 for none; ``asked`` is its x-prefetch-count.

    ``is_exclusive``: it consumes exclusively. ``is_browser``: what it gets stays in the queue.
    """
    vhost = channel.vhost
    if asked is not None:
        count = asked
    elif channel.is_prefetch_set:
        count = channel.prefetch_count
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
    at a time, any other has a name that nobody chose and goes with its consumer.
    """
    if is_browser:
        return BROWSER_PREFETCH
    if queue.is_durable:
        return DURABLE_SUBSCRIPTION_PREFETCH if is_exclusive else QUEUE_PREFETCH
    if queue.is_auto_delete and _is_server_named(queue.name, arguments):
        return SUBSCRIPTION_PREFETCH
    return QUEUE_PREFETCH


def _is_server_named(name: str, arguments: QueueArguments) -> bool:
    """By its form: ``amq.`` is reserved, and who gives an x-name-prefix lets the server name it."""
    prefix = f"{server_named_prefix(arguments.raw)}-"
    return name.startswith(prefix) and len(name) == len(generated_name(prefix))
