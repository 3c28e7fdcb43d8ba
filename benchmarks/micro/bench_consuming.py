"""Cost of a delivery from the dispatcher to the joined octets: ``ChannelConsumer.deliver``.

    python -m benchmarks.micro.bench_consuming [--json FILE] [--repetitions N]

Runs of 512 entries are handed over and the connection's output is thrown away after each.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.micro.stand import Stand, message
from benchmarks.micro.timing import finish, measure
from hareline.amqp.channel import Channel
from hareline.amqp.connection import Connection
from hareline.amqp.consumer_arguments import ConsumerArguments
from hareline.amqp.consuming import ChannelConsumer
from hareline.message import Message
from hareline.queues.core.entry import QueueEntry
from hareline.wire.methods import commands, encode_method

BATCH = 512
BATCHES = 40


def main() -> None:
    same = message(bytes(100), channel=1)
    deliver("auto-ack, received on the same channel number", [same])
    deliver("acknowledging, received on the same channel number", [same], acknowledges=True)
    deliver("auto-ack, received on another channel number", [message(bytes(100), channel=7)])
    many = [message(bytes(100), routing_key=f"key.{number}") for number in range(100)]
    deliver("auto-ack, 100 addresses in turn", many)
    deliver("auto-ack, one entry at a time", [same], batch=1)
    deliver("auto-ack, 16 KiB", [message(bytes(16_384))], batch=32)
    deliver("auto-ack, 1 MiB in 9 frames", [message(bytes(1 << 20))], batch=1)
    bench_get()
    finish()


def bench_get() -> None:
    stand = Stand()
    connection = stand.connect(1)
    queue = stand.declare(connection, "q")
    one = message(bytes(100))
    request = encode_method(1, commands.Basic.Get, queue="q", no_ack=True) * 1000

    def fill() -> None:
        for _ in range(1000):
            queue.enqueue(one)
        stand.run_turns()

    def get() -> None:
        connection.receive(request)
        stand.run_turns()

    measure("basic.get, 1000 in one read", get, 1000, "message", prepare=fill)
    assert queue.ready_count == 0


def deliver(
    name: str, messages: list[Message], *, acknowledges: bool = False, batch: int = BATCH
) -> None:
    """Hand over runs of entries of these messages in turn."""
    stand = Stand()
    connection = stand.connect(1)
    channel = stand.channel(connection)
    queue = stand.declare(connection, "q")
    consumer = ChannelConsumer(
        channel.consumers,
        "consumer-tag",
        queue,
        acknowledges=acknowledges,
        is_exclusive=False,
        options=ConsumerArguments(),
        prefetch_count=0,
        windows=(),
        arguments={},
    )
    entries = [QueueEntry(queue, messages[n % len(messages)], n) for n in range(batch)]
    measure(name, _loop(connection, channel, consumer, entries), batch * BATCHES, "message")


def _loop(
    connection: Connection,
    channel: Channel,
    consumer: ChannelConsumer,
    entries: list[QueueEntry],
) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(BATCHES):
            assert consumer.deliver(entries) == len(entries)
            connection.finish_turn()
        channel.settling.unacked.take_all()

    return loop


if __name__ == "__main__":
    main()
