"""What lists can be sorted by without describing their rows, beyond what the resource modules name.

Each function makes keys for ``listing``, for one request: rates from the sampler, states, and what
is unacknowledged. All columns by which the web UI sorts a list are there or in the ``_KEYS`` of its
module, since it asks again every few seconds; ``tests/benchmarks/test_management.py`` compares.

Invariant: a key has the value that the row shows, or sorts as that does.
"""

from __future__ import annotations

from typing import Final

from hareline.amqp.connection import Connection
from hareline.amqp.consuming import ChannelConsumer
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.vhost import VirtualHost
from hareline.management.api.rates import RATED, Keys, Rates
from hareline.management.api.site import Site
from hareline.queues.paused import is_paused
from hareline.queues.queue import Queue
from hareline.statistics.deliveries import Deliveries
from hareline.statistics.sources import consumer_capacity
from hareline.statistics.unacked import oldest_of_queue

DEPTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")

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
        **rates.keys("queue", key_of, DEPTHS, "{}_details.rate"),
        **rates.keys("queue", key_of, *RATED),
    }


def exchange_keys() -> Keys[ExchangePlace]:
    """Counters of exchanges."""
    return {
        "message_stats.publish_in": lambda place: place[1].counts.publish_in,
        "message_stats.publish_out": lambda place: place[1].counts.publish_out,
    }
