"""Cost of matching entries to consumers; the consumers take what they are given.

    python -m benchmarks.micro.bench_dispatch [--json FILE] [--repetitions N]

The queue is filled beforehand; acquiring is part of it, delivering is not.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.micro.stand import NullConsumer, Stand, message
from benchmarks.micro.timing import finish, measure
from hareline.message import Message
from hareline.queues.core.credit import CreditWindow
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue

ENTRIES = 50_000

#: Of a consumer; without any it does not acknowledge and has no limits.
Options = dict[str, object]


def main() -> None:
    for count in (1, 2, 10, 100):
        dispatch(f"auto-ack, consumers: {count}", [{} for _ in range(count)])
    for count in (1, 10):
        dispatch(f"acknowledging, consumers: {count}", [{"acknowledges": True}] * count)
    dispatch(
        "acknowledging, 10 consumers, credit for 300 each",
        [{"acknowledges": True, "prefetch_count": 300}] * 10,
        entries=3000,
    )
    exhausted: Options = {"acknowledges": True, "prefetch_count": 1}
    dispatch("1 consumer of 10 has credit", [*[exhausted] * 9, {}])
    by_priority: list[Options] = [{"priority": number} for number in range(10)]
    dispatch("auto-ack, 10 consumers of 10 priorities", by_priority)
    dispatch("auto-ack, 2 consumers, bodies of 16 KiB", [{}, {}], size=16_384, entries=5000)
    bench_windows()
    bench_round_trips()
    finish()


def bench_windows() -> None:
    octets = {"acknowledges": True, "windows": (CreditWindow(0, 1 << 40),)}
    dispatch("1 consumer with an octet window", [octets])
    shared = {"acknowledges": True, "windows": (CreditWindow(1 << 40),)}
    dispatch("10 consumers that share a window", [shared] * 10)


def bench_round_trips() -> None:
    """Prefetch 1: each acknowledgement brings the next delivery."""
    for count in (1, 100):
        stand = Stand()
        queue = Queue("q", FifoOrder(), stand.turn)
        consumers = add_consumers(queue, [{"acknowledges": True, "prefetch_count": 1}] * count)
        one = message(bytes(100))

        def fill(queue: Queue = queue, one: Message = one, stand: Stand = stand) -> None:
            queue.purge()
            for _ in range(10_000 + 100):
                queue.enqueue(one)
            stand.run_turns()

        def go_round(
            queue: Queue = queue, consumers: list[NullConsumer] = consumers, stand: Stand = stand
        ) -> None:
            for number in range(10_000):
                consumer = consumers[number % len(consumers)]
                entry = consumer.unacked.pop()
                queue.settle(entry)
                consumer.restore_credit(entry.message.size)
                stand.run_turns()

        name = f"settle and dispatch again, prefetch 1, consumers: {count}"
        measure(name, go_round, 10_000, "message", prepare=fill)


def add_consumers(queue: Queue, options: Iterable[Options]) -> list[NullConsumer]:
    consumers = [
        NullConsumer(queue, f"c{number}", **{"acknowledges": False, **one})
        for number, one in enumerate(options)
    ]
    for consumer in consumers:
        queue.add_consumer(consumer)
    return consumers


def dispatch(
    name: str,
    options: list[Options],
    *,
    size: int = 100,
    entries: int = ENTRIES,
) -> None:
    """Deal so many waiting messages out to consumers with these options."""
    stand = Stand()
    one = message(bytes(size))
    queues: list[Queue] = []

    def fill() -> None:
        queue = Queue("q", FifoOrder(), stand.turn)
        queues[:] = [queue]
        add_consumers(queue, options)
        stand.run_turns()
        for _ in range(entries):
            queue.enqueue(one)

    measure(name, stand.run_turns, entries, "message", prepare=fill)
    assert queues[0].ready_count == 0, queues


if __name__ == "__main__":
    main()
