"""What consumers have unacknowledged: of each channel one look, however many rows a list has.

Made by the lists of queues and consumers, and by the metrics, for one answer. A channel may serve
thousands of consumers and have thousands of deliveries out, and each row asks for its part of them.

Invariant: at most ``LOOKS_MAX`` deliveries of a channel are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from hareline.amqp.consuming import ChannelConsumer
from hareline.amqp.delivery_port import DeliveryPort
from hareline.queues.queue import Queue

#: Deliveries that are looked at, of a channel or a queue; beyond, numbers are estimates.
LOOKS_MAX: Final = 4_096


class Deliveries:
    """Where more than ``LOOKS_MAX`` deliveries of a channel are unacked, numbers follow from
    credit, or from the part of those that were looked at."""

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
        """How many deliveries the consumers of a queue have unacked, of those that are looked at,
        and their octets."""
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
