"""Cost of selectors and message groups, which does not grow with what waits.

The queue is filled beforehand; looking, planning and acquiring are part of it, delivering is not.

python -m benchmarks.micro.bench_selective [--json FILE] [--repetitions N]
"""

from __future__ import annotations

import random
from itertools import cycle, islice

from benchmarks.micro.bench_dispatch import Options, add_consumers
from benchmarks.micro.stand import NullConsumer, Stand, message
from benchmarks.micro.timing import finish, measure
from hareline.message import Message, Table
from hareline.queues.core.groups import Groups, GroupType
from hareline.queues.dispatch.selective import SelectiveLane
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from hareline.selectors.selector import Selector, compile_selector
from hareline.wire.properties import Properties, encode_properties

ENTRIES = 50_000
ROUND_TRIPS = 10_000
GROUPS = 10_000
CONSUMERS = 8
DEPTHS = (1_000, 1_000_000)

#: Consumers without limits who acknowledge, and those who get one message at a time.
UNLIMITED_ONES: list[Options] = [{"acknowledges": True} for _ in range(CONSUMERS)]
ONE_BY_ONE: list[Options] = [{"acknowledges": True, "prefetch_count": 1} for _ in range(CONSUMERS)]


def with_headers(**headers: object) -> Message:
    properties = Properties(content_type="application/json", headers=Table(headers))
    return message(bytes(100), properties=encode_properties(properties))


def of_groups(count: int) -> list[Message]:
    chance = random.Random(7)
    numbers = [chance.randrange(count) for _ in range(4 * count)]
    return [with_headers(JMSXGroupID=f"cart-{number:06d}", size=number) for number in numbers]


def of_kinds(count: int) -> list[Message]:
    return [with_headers(kind=number, size=number * 7) for number in range(count)]


class Bench:
    """A queue with the lane to be measured, anew for each repetition."""

    def __init__(
        self,
        messages: list[Message],
        options: list[Options],
        *,
        group_type: GroupType | None = None,
        selectors: list[Selector | None] | None = None,
    ) -> None:
        self.stand = Stand()
        self.messages = messages
        self.options = options
        self.group_type = group_type
        self.selectors = selectors or [None] * len(options)

    def make(self) -> None:
        order = FifoOrder()
        self.queue = Queue("q", order, self.stand.turn)
        if self.group_type is not None:
            lane = SelectiveLane(self.queue, order, Groups(self.group_type))
            self.queue.install(lane=lane)
        self.consumers = add_consumers(
            self.queue,
            [
                {**one, "selector": selector}
                for one, selector in zip(self.options, self.selectors, strict=True)
            ],
        )
        self.stand.run_turns()

    def fill(self, count: int) -> None:
        enqueue = self.queue.enqueue
        for one in islice(cycle(self.messages), count):
            enqueue(one)

    def measure(self, name: str, *, left: int = 0) -> None:
        """Deal out what waits; ``left`` of it nobody wants."""

        def prepare() -> None:
            self.make()
            self.fill(ENTRIES)

        measure(name, self.stand.run_turns, ENTRIES, "message", prepare=prepare)
        assert self.queue.ready_count == left, self.queue

    def measure_round_trips(self, name: str, depth: int) -> None:
        """Each settlement brings the next delivery, and as much comes in as goes out."""
        self.make()
        self.fill(depth)
        self.stand.run_turns()

        def go_round() -> None:
            queue, stand = self.queue, self.stand
            messages = islice(cycle(self.messages), ROUND_TRIPS)
            for consumer, one in zip(cycle(self.consumers), messages, strict=False):
                queue.enqueue(one)
                if consumer.unacked:
                    settle(queue, consumer)
                stand.run_turns()

        measure(name, go_round, ROUND_TRIPS, "message")
        assert self.queue.ready_count >= depth - len(self.consumers), self.queue


def settle(queue: Queue, consumer: NullConsumer) -> None:
    entry = consumer.unacked.pop(0)
    queue.settle(entry)
    consumer.restore_credit(entry.message.size)


def bench_groups() -> None:
    messages = of_groups(GROUPS)
    kinds: tuple[GroupType, ...] = ("standard", "shared")
    for group_type in kinds:
        bench = Bench(messages, UNLIMITED_ONES, group_type=group_type)
        bench.measure(f"{group_type} groups: {GROUPS}, consumers: {CONSUMERS}")
        for depth in DEPTHS:
            bench = Bench(messages, ONE_BY_ONE, group_type=group_type)
            bench.measure_round_trips(f"{group_type} groups, prefetch 1, waiting: {depth:,}", depth)


def bench_one_busy_group() -> None:
    """One group has it all, and only one consumer may have that."""
    one = [with_headers(JMSXGroupID="busy")]
    for depth in DEPTHS:
        bench = Bench(one, ONE_BY_ONE, group_type="standard")
        bench.measure_round_trips(f"one busy group, prefetch 1, waiting: {depth:,}", depth)


def bench_selectors() -> None:
    messages = of_kinds(10)
    one: list[Options] = [{"acknowledges": True}]
    kinds: list[Selector | None] = [compile_selector(f"kind = {number}") for number in range(10)]
    Bench(messages, one, selectors=kinds[:1]).measure(
        "a selector true of 1 in 10", left=ENTRIES * 9 // 10
    )
    Bench(messages, one * 10, selectors=kinds).measure("10 selectors, each true of 1 in 10")
    Bench(messages, one * 2, selectors=[kinds[0], None]).measure(
        "a selector true of 1 in 10, and one consumer for all"
    )
    conditional: list[Selector | None] = [compile_selector("NOT JMSRedelivered"), None]
    Bench(messages, one * 2, selectors=conditional).measure("a selector by redelivery, and one")
    different = [with_headers(kind=number % 10, id=f"{number:032x}") for number in range(ENTRIES)]
    Bench(different, one, selectors=kinds[:1]).measure(
        "a selector true of 1 in 10, no two messages alike", left=ENTRIES * 9 // 10
    )
    for depth in DEPTHS:
        bench = Bench(messages, ONE_BY_ONE[:1], selectors=kinds[:1])
        bench.measure_round_trips(f"a selector, prefetch 1, waiting: {depth:,}", depth)


def main() -> None:
    plain = Bench(of_kinds(10), UNLIMITED_ONES)
    plain.measure(f"for comparison, the plain lane, consumers: {CONSUMERS}")
    bench_groups()
    bench_one_busy_group()
    bench_selectors()
    finish()


if __name__ == "__main__":
    main()
