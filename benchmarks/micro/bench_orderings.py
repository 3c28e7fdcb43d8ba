"""Cost of each ordering, which does not grow with the number of entries.

Property look-ups first: what an ordering has to know of a message, with and without the memory.
Then for each ordering and depth: a message goes in and the next one comes out, one by one and 512
at a time, at a depth that stays; and newer values of 1000 keys.

python -m benchmarks.micro.bench_orderings [--json FILE] [--repetitions N]
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import cycle, islice

from benchmarks.micro.stand import message
from benchmarks.micro.timing import finish, measure
from hareline.message import Message, Table
from hareline.queues.core.entry import SETTLED, RankedEntry
from hareline.queues.core.property_cache import PropertyCache
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.last_values import LastValueOrder
from hareline.queues.orders.order import EntryOrder
from hareline.queues.orders.priority import rabbitmq_levels
from hareline.queues.orders.sorted import SortedOrder
from hareline.queues.queue import Queue
from hareline.turn import Turn
from hareline.wire.properties import Properties, encode_properties

KEY = "key"
LOOK_UPS = 20_000
MESSAGES = 20 * 512
BATCH = 512
DEPTHS = (1_000, 1_000_000)

ORDERINGS: tuple[tuple[str, Callable[[], EntryOrder]], ...] = (
    ("fifo", FifoOrder),
    ("x-max-priority 9", lambda: rabbitmq_levels(9)),
    ("sorted", lambda: SortedOrder(KEY)),
)


def typical(chance: random.Random, *, message_id: str | None = None) -> Message:
    """Four or five properties, three headers; one of 100,000 keys, one of ten priorities."""
    headers = Table(
        {"trace": "00-4bf92f3577b34da6", "retries": 0, KEY: f"{chance.randrange(100_000):06d}"}
    )
    properties = Properties(
        content_type="application/json",
        delivery_mode=2,
        priority=chance.randrange(10),
        headers=headers,
        message_id=message_id,
    )
    return message(b"", properties=encode_properties(properties))


class Depth:
    """An ordering that holds so many entries, and messages that go in while as many come out."""

    def __init__(self, make: Callable[[], EntryOrder], depth: int) -> None:
        chance = random.Random(7)
        self.messages = [typical(chance) for _ in range(2_000)]
        self.order = make()
        self.queue = Queue("q", FifoOrder(), Turn(lambda finish: None))
        self.next_offset = 0
        self.put_in(depth)

    def put_in(self, count: int) -> None:
        add, queue = self.order.add, self.queue
        offset = self.next_offset
        for one in islice(cycle(self.messages), count):
            add(RankedEntry(queue, one, offset))
            offset += 1
        self.next_offset = offset

    def one_by_one(self) -> None:
        add, take, queue = self.order.add, self.order.take, self.queue
        offset = self.next_offset
        for one in islice(cycle(self.messages), MESSAGES):
            add(RankedEntry(queue, one, offset))
            offset += 1
            take(1)
        self.next_offset = offset

    def in_batches(self) -> None:
        for _ in range(0, MESSAGES, BATCH):
            self.put_in(BATCH)
            self.order.take(BATCH)

    def come_back(self) -> None:
        for _ in range(0, MESSAGES, BATCH):
            self.order.restore(self.order.take(BATCH))

    def give_up_the_least(self) -> None:
        order = self.order
        for _ in range(MESSAGES // BATCH):
            self.put_in(BATCH)
            for _ in range(BATCH):
                least = order.least()
                assert least is not None
                least.state = SETTLED
                order.discard(least)


class NewerValues:
    """A last value queue of 1000 keys that all have a value."""

    def __init__(self) -> None:
        self.messages = [
            message(b"", properties=encode_properties(Properties(headers=Table({KEY: number}))))
            for number in range(1000)
        ]
        random.Random(7).shuffle(self.messages)
        self.queue = Queue("q", LastValueOrder(KEY), Turn(lambda finish: None))

    def replace(self) -> None:
        accept = self.queue.put
        for one in islice(cycle(self.messages), MESSAGES):
            accept(one)


def measure_look_ups() -> None:
    chance = random.Random(7)
    same = [typical(chance)] * LOOK_UPS
    different = [typical(chance, message_id=f"{number:032x}") for number in range(LOOK_UPS)]

    def read_priority() -> None:
        for one in same:
            _ = one.priority

    def read_header() -> None:
        for one in same:
            one.header(KEY)

    def read_absent_header() -> None:
        for one in same:
            one.header("x-absent")

    def read_all() -> None:
        for one in same:
            one.forget_properties()
            one.headers.get(KEY)

    def read_by(cache: PropertyCache[object], messages: list[Message]) -> Callable[[], None]:
        def read() -> None:
            for one in messages:
                cache(one)

        return read

    for name, function in (
        ("priority", read_priority),
        ("header, behind two others", read_header),
        ("header that is not there", read_absent_header),
        ("header, all properties decoded", read_all),
        ("header remembered", read_by(PropertyCache(_read_key), same)),
        ("header, never the same octets twice", read_by(PropertyCache(_read_key), different)),
    ):
        measure(name, function, LOOK_UPS, "message")


def _read_key(one: Message) -> object:
    return one.header(KEY)


def main() -> None:
    measure_look_ups()
    for name, make in ORDERINGS:
        for depth in DEPTHS:
            subject = Depth(make, depth)
            place = f"{name}, {depth:,} deep"
            measure(f"{place}: in and out", subject.one_by_one, MESSAGES, "entry")
            measure(f"{place}: in and out by {BATCH}", subject.in_batches, MESSAGES, "entry")
            measure(f"{place}: out and back by {BATCH}", subject.come_back, MESSAGES, "entry")
            measure(f"{place}: in, the least out", subject.give_up_the_least, MESSAGES, "entry")
    newer = NewerValues()
    measure("last value, 1000 keys: a newer value", newer.replace, MESSAGES, "message")
    finish()


if __name__ == "__main__":
    main()
