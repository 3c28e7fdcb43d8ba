"""Deliveries that wait for an acknowledgement, by consumer and queue: number, octets and age.

The time of a delivery is not kept with it: its tag and the samples of its channel tell it, to a
sample. At most ``LOOKS_MAX`` deliveries of a channel are looked at, beyond which numbers are
estimates; an answer with many rows shares one ``Deliveries``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from hareline.amqp.consuming import ChannelConsumer
from hareline.amqp.delivery_port import DeliveryPort
from hareline.queues.core.entry import QueueEntry
from hareline.queues.queue import Queue
from hareline.statistics.sampler import Sampler

#: Deliveries that are looked at, of a channel or a queue; beyond, numbers are estimates.
LOOKS_MAX: Final = 4_096


class Deliveries:
    """Looks at unacknowledged deliveries, each channel once.

    Of a channel with more than ``LOOKS_MAX`` of them, numbers follow from credit, or from the part
    that was looked at.
    """

    __slots__ = ("_by_port",)

    def __init__(self) -> None:
        # of each consumer the lowest tag, how many, and their octets
        self._by_port: dict[DeliveryPort, dict[object, tuple[int, int, int]]] = {}

    def of_consumer(self, consumer: ChannelConsumer) -> tuple[int, int]:
        """The first delivery tag of what the consumer has unacked, and how many these are."""
        total = len(consumer.port.unacked.entries)
        if not consumer.acknowledges or not total:
            return 0, 0
        oldest, found, _ = self._of_port(consumer.port).get(consumer, (0, 0, 0))
        if total > LOOKS_MAX:
            credit = consumer.open_credit
            if credit is None:
                found = found * total // LOOKS_MAX
            else:
                found = consumer.prefetch_count - credit
        return oldest, found

    def of_queue(self, queue: Queue) -> tuple[int, int]:
        """Number and octets of the deliveries that consumers of a queue have unacked, as far as
        they are looked at."""
        found = size = 0
        for consumer in self.consumers_of(queue):
            _, count, octets = self._of_port(consumer.port).get(consumer, (0, 0, 0))
            found += count
            size += octets
        return found, size

    def consumers_of(self, queue: Queue) -> Iterator[ChannelConsumer]:
        """The consumers of a queue, as many as may be looked at."""
        looks = 0
        ports = set()
        for consumer in islice(queue.lane.consumers, LOOKS_MAX):
            if not isinstance(consumer, ChannelConsumer):
                continue
            port = consumer.port
            if port not in ports:
                if looks >= LOOKS_MAX:
                    break
                ports.add(port)
                looks += len(port.unacked.entries)
            yield consumer

    def unacked_bytes(self, queue: Queue) -> int:
        """Octets of the deliveries that are out, from those of its consumers; else as of ready
        ones."""
        unacked = queue.unacked_count
        if not unacked:
            return 0
        found, size = self.of_queue(queue)
        if found:
            return size * unacked // found
        ready = queue.ready_count
        return queue.ready_bytes * unacked // ready if ready else 0

    def _of_port(self, port: DeliveryPort) -> dict[object, tuple[int, int, int]]:
        by_consumer = self._by_port.get(port)
        if by_consumer is None:
            by_consumer = self._by_port[port] = {}
            for tag, entry in islice(port.unacked.in_order().items(), LOOKS_MAX):
                lowest, found, size = by_consumer.get(entry.consumer, (tag, 0, 0))
                size += entry.message.size
                by_consumer[entry.consumer] = (min(lowest, tag), found + 1, size)
        return by_consumer


# --------------------------------------------------------------------------------- the oldest


class Oldest(NamedTuple):
    """The oldest unacknowledged delivery of a queue. ``since_ms``: when it went out, to a sample.

    ``consumer`` None: it was got (basic.get), or its consumer was cancelled.
    """

    since_ms: int
    port: DeliveryPort
    consumer: ChannelConsumer | None


def delivered_ms(sampler: Sampler, channel_name: str, tag: int) -> int | None:
    """Time at which the delivery with this tag went out, to the sample; None if not known."""
    return sampler.reached_ms("channel", (channel_name,), "deliver_get", tag)


def oldest_ms(sampler: Sampler, consumer: ChannelConsumer, deliveries: Deliveries) -> int | None:
    """Time at which this consumer's oldest unacked delivery went out; None if not known."""
    tag, _ = deliveries.of_consumer(consumer)
    return delivered_ms(sampler, consumer.port.channel_name, tag) if tag else None


def oldest_of_queue(sampler: Sampler, queue: Queue, deliveries: Deliveries) -> Oldest | None:
    """The oldest delivery that consumers of a queue have unacked; None if no time is known."""
    found: Oldest | None = None
    if queue.unacked_count:
        for consumer in deliveries.consumers_of(queue):
            tag, _ = deliveries.of_consumer(consumer)
            if tag:
                found = _older(found, sampler, consumer.port, tag, consumer)
    return found


def oldest_on_ports(
    sampler: Sampler, queue: Queue, ports: Iterable[DeliveryPort]
) -> Iterator[Oldest | None]:
    """The same, also of what was got or whose consumer is gone: the oldest after each channel."""
    found: Oldest | None = None
    for port in ports:
        for tag, entry in islice(port.unacked.in_order().items(), LOOKS_MAX):
            if is_of(entry, queue):
                holder = entry.consumer
                consumer = holder if isinstance(holder, ChannelConsumer) else None
                found = _older(found, sampler, port, tag, consumer)
                break
        yield found


def _older(
    found: Oldest | None,
    sampler: Sampler,
    port: DeliveryPort,
    tag: int,
    consumer: ChannelConsumer | None,
) -> Oldest | None:
    """The older one of ``found`` and this delivery; one that no sample has seen is the youngest."""
    since_ms = delivered_ms(sampler, port.channel_name, tag)
    if since_ms is None or (found is not None and found.since_ms <= since_ms):
        return found
    return Oldest(since_ms, port, consumer)


def is_of(entry: QueueEntry, queue: Queue) -> bool:
    """True if a delivery is of this queue, taken from it or read."""
    return entry.queue is queue or (entry.queue.name == queue.name and queue.tally.reading > 0)
