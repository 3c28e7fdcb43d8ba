"""What lists can be sorted by without describing their rows, beyond what the resource modules name.

Each function makes keys for ``listing``, for one request: rates from the sampler, states, and what
is unacknowledged. All columns by which the web UI sorts a list are there or in the ``_KEYS`` of its
module, since it asks again every few seconds; ``tests/benchmarks/test_management.py`` compares.

Invariant: a key has the value that the row shows, or sorts as that does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from hareline.amqp.channel import Channel
from hareline.amqp.connection import Connection
from hareline.amqp.consuming import ChannelConsumer
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.vhost import VirtualHost
from hareline.counts import ConnectionCounts
from hareline.management.api.rates import Rates
from hareline.management.api.site import Site
from hareline.queues.paused import is_paused
from hareline.queues.queue import Queue
from hareline.statistics.readings import channel_state, connection_state
from hareline.statistics.sources import consumer_capacity
from hareline.statistics.unacked import Deliveries, oldest_ms, oldest_of_queue, slow_reason

#: Counters of messages by whose rates queues and channels are sorted.
RATED: Final = (
    *("publish", "confirm", "deliver", "deliver_no_ack", "deliver_get"),
    *("get", "get_no_ack", "ack", "redeliver"),
)
DEPTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")

T = TypeVar("T")
Keys = Mapping[str, Callable[[T], Any]]
QueuePlace = tuple[VirtualHost, Queue]
ExchangePlace = tuple[VirtualHost, Exchange]
ConsumerPlace = tuple[Connection, ChannelConsumer]


def queue_keys(site: Site, rates: Rates, deliveries: Deliveries) -> Keys[QueuePlace]:
    """State, octets, rates, and what consumers of queues can take and have not acknowledged."""
    sampler = site.sampler

    def key_of(place: QueuePlace) -> tuple[str, ...]:
        return place[0].name, place[1].name

    def message_bytes(place: QueuePlace) -> int:
        return place[1].ready_bytes + deliveries.unacked_bytes(place[1])

    def capacity(place: QueuePlace) -> float:
        return consumer_capacity(sampler, place[0].name, place[1]) or 0.0

    def age_ms(place: QueuePlace) -> int:
        oldest = None if sampler is None else oldest_of_queue(sampler, place[1], deliveries)
        return -1 if oldest is None else site.context.clock.now_ms - oldest.since_ms

    return {
        "consumer_capacity": capacity,
        "consumer_utilisation": capacity,
        "oldest_unacknowledged_age_s": age_ms,
        "state": lambda place: "paused" if is_paused(place[1]) else "running",
        "message_bytes": message_bytes,
        **_rates(rates, "queue", key_of, DEPTHS, "{}_details.rate"),
        **_rates(rates, "queue", key_of, RATED, "message_stats.{}_details.rate"),
    }


def consumer_keys(site: Site, deliveries: Deliveries) -> Keys[ConsumerPlace]:
    """Users, states, and what consumers have not acknowledged since when."""
    sampler = site.sampler

    def age_ms(place: ConsumerPlace) -> int:
        since_ms = None if sampler is None else oldest_ms(sampler, place[1], deliveries)
        return -1 if since_ms is None else site.context.clock.now_ms - since_ms

    return {
        "channel_details.user": lambda place: _user_name(place[0]),
        "activity_status": lambda place: _status_of(place[1]),
        "ack_required": lambda place: place[1].acknowledges,
        "prefetch_count": lambda place: place[1].prefetch_count,
        "messages_unacknowledged": lambda place: deliveries.of_consumer(place[1])[1],
        "is_slow": lambda place: bool(slow_reason(place[1])),
        "oldest_unacknowledged_age_s": age_ms,
    }


def channel_keys(rates: Rates) -> Keys[Channel]:
    """States and rates of channels."""

    def key_of(channel: Channel) -> tuple[str, ...]:
        return (channel.port.channel_name,)

    return {
        "state": channel_state,
        "prefetch_count": lambda channel: channel.prefetch.count,
        "messages_unconfirmed": _unconfirmed,
        **_rates(rates, "channel", key_of, RATED, "message_stats.{}_details.rate"),
    }


def connection_keys(rates: Rates) -> Keys[Connection]:
    """States, addresses and rates of connections."""

    def key_of(connection: Connection) -> tuple[str, ...]:
        return (connection.transport.connection_name,)

    names = tuple(ConnectionCounts().as_dict())
    return {
        "state": connection_state,
        "peer_host": lambda connection: connection.transport.socket_facts().peer_host,
        **_rates(rates, "connection", key_of, names, "{}_details.rate"),
    }


def exchange_keys() -> Keys[ExchangePlace]:
    """Counters of exchanges."""
    return {
        "message_stats.publish_in": lambda place: place[1].counts.publish_in,
        "message_stats.publish_out": lambda place: place[1].counts.publish_out,
    }


def _rates(
    rates: Rates,
    kind: str,
    key_of: Callable[[T], tuple[str, ...]],
    names: tuple[str, ...],
    column: str,
) -> Keys[T]:
    def rate_of(name: str) -> Callable[[T], float]:
        return lambda each: rates.rate(kind, key_of(each), name)

    return {column.format(name): rate_of(name) for name in names}


def _user_name(connection: Connection) -> str:
    user = connection.client.user
    return "" if user is None else user.name


def _status_of(consumer: ChannelConsumer) -> str:
    queue = consumer.queue
    if not isinstance(queue, Queue) or queue.lane.consumers.live is None:
        return "up"
    return "single_active" if consumer.is_live else "waiting"


def _unconfirmed(channel: Channel) -> int:
    confirms = channel.publishing.confirms
    return 0 if confirms is None else confirms.unconfirmed_count
