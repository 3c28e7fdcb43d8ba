"""Cost of acknowledgements, from the lane to the queue and the consumer's credit.

python -m benchmarks.micro.bench_settling [--json FILE] [--repetitions N]
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.micro.stand import Stand, message
from benchmarks.micro.timing import finish, measure
from hareline.amqp.channel import Channel
from hareline.queues.queue import Queue
from hareline.wire.methods import commands

DELIVERIES = 20_000


class Subject:
    """A channel with so many deliveries unacked on one consumer."""

    def __init__(self, prefetch_count: int = 0) -> None:
        self.stand = Stand()
        connection = self.stand.connect(1)
        self.channel: Channel = self.stand.channel(connection)
        self.queue: Queue = self.stand.declare(connection, "q")
        self.first_tag = 1
        self.stand.call(connection, commands.Basic.Qos, prefetch_count=prefetch_count)
        self.stand.call(connection, commands.Basic.Consume, queue="q", consumer_tag="c")

    def deliver(self) -> None:
        """What an earlier repetition has left is settled first."""
        unacked = self.channel.settling.unacked
        while self.queue.ready_count or len(unacked):
            self.channel.settling.settle(0, is_multiple=True)
            self.stand.run_turns()
        self.first_tag = self.channel.port.next_tag
        one = message(bytes(100))
        for _ in range(DELIVERIES):
            self.queue.enqueue(one)
        self.stand.run_turns()

    def ack_one_by_one(self) -> None:
        ack = self.channel.settling.ack
        for tag in range(self.first_tag, self.first_tag + DELIVERIES):
            ack(tag, 0)

    def ack_every(self, count: int) -> Callable[[], None]:
        def run() -> None:
            ack = self.channel.settling.ack
            start = self.first_tag + count - 1
            for tag in range(start, self.first_tag + DELIVERIES, count):
                ack(tag, 1)

        return run

    def ack_backwards(self) -> None:
        ack = self.channel.settling.ack
        for tag in range(self.first_tag + DELIVERIES - 1, self.first_tag - 1, -1):
            ack(tag, 0)

    def nack_all(self) -> None:
        self.channel.settling.requeue(0, is_multiple=True)

    def requeue_one_by_one(self) -> None:
        for tag in range(self.first_tag, self.first_tag + DELIVERIES):
            self.channel.settling.requeue(tag, is_multiple=False)


def main() -> None:
    subject = Subject()
    for name, function in (
        ("ack one by one", subject.ack_one_by_one),
        ("ack one by one, the last first", subject.ack_backwards),
        ("multiple ack, every 100", subject.ack_every(100)),
        ("multiple ack, all at once", subject.ack_every(DELIVERIES)),
        ("nack all with requeue", subject.nack_all),
        ("nack one by one with requeue", subject.requeue_one_by_one),
    ):
        measure(name, function, DELIVERIES, "delivery", prepare=subject.deliver)
    limited = Subject(prefetch_count=DELIVERIES)
    measure(
        "ack one by one, prefetch used up",
        limited.ack_one_by_one,
        DELIVERIES,
        "delivery",
        prepare=limited.deliver,
    )
    finish()


if __name__ == "__main__":
    main()
