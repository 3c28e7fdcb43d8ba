"""What a publish costs from the lane to the queues: ``Publishing.publish`` and what it calls.

    python -m benchmarks.micro.bench_publishing [--json FILE] [--repetitions N]

The decoder has recognised it, and there is no consumer; queues are purged between repetitions.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.micro.stand import NO_PROPERTIES, USUAL_PROPERTIES, Stand, message, publish_octets
from benchmarks.micro.timing import finish, measure
from hareline.amqp.connection import Connection
from hareline.wire.methods import commands
from hareline.wire.properties import Properties, encode_properties
from hareline.wire.table import Table

MESSAGES = 10_000
RUN = 100
FLAGS_AT = slice(19, 21)  # in a content: frame head 7, class and weight 4, body size 8


def main() -> None:
    bench_lane()
    bench_inspected()
    bench_routing()
    bench_first()
    finish()


def bench_lane() -> None:
    publish("to 1 queue, nothing asked for", NO_PROPERTIES)
    publish("to 1 queue, in runs of 100", NO_PROPERTIES, in_runs=True)
    publish(
        "to 1 queue, in runs of 100, confirm mode", NO_PROPERTIES, in_runs=True, has_confirms=True
    )
    publish("to 1 queue, 2 properties", USUAL_PROPERTIES)
    publish("to 1 queue, confirm mode", NO_PROPERTIES, has_confirms=True)
    publish("to no queue", NO_PROPERTIES, queues=0)
    publish("fanout to 10 queues", NO_PROPERTIES, queues=10)


def bench_inspected() -> None:
    each_its_own = [
        encode_properties(Properties(message_id=f"id-{number:06d}")) for number in range(MESSAGES)
    ]
    publish("to 1 queue, a message-id of its own", *each_its_own)
    publish("to 1 queue, user-id", encode_properties(Properties(user_id="guest")))
    headers = Table({"tenant": "acme", "attempt": 3})
    publish("to 1 queue, 2 headers", encode_properties(Properties(headers=headers)))
    carbon_copy = encode_properties(Properties(headers=Table({"CC": ["q1"]})))
    publish("CC to a second queue", carbon_copy, queues=2, exchange="")


def bench_routing() -> None:
    headers = encode_properties(Properties(headers=Table({"kind": "report"})))
    publish("headers exchange, 1 binding", headers, exchange="amq.headers")


def bench_first() -> None:
    stand = Stand()
    connection = stand.connect(1)
    stand.declare(connection, "q")
    channel = connection.channels.by_number[1]
    method = publish_octets(b"")
    payload = method[7 : 7 + int.from_bytes(method[3:7], "big")]
    sample = message(bytes(100))

    def resolve() -> None:
        publish_first = channel.publishing.publish_first
        routes = channel.publishing.routes
        for _ in range(1000):
            routes.clear()
            publish_first(payload, 0, sample.content, sample.header_size, sample.size)

    measure("the first to its address", resolve, 1000, "message", prepare=_purge(stand))


def publish(
    name: str,
    *properties: bytes,
    queues: int = 1,
    exchange: str = "amq.fanout",
    has_confirms: bool = False,
    in_runs: bool = False,
) -> None:
    """Publish with these property octets in turn to an exchange with so many queues."""
    stand = Stand()
    connection = stand.connect(1)
    _bind_queues(stand, connection, queues, exchange)
    if has_confirms:
        stand.call(connection, commands.Confirm.Select)
    connection.receive(publish_octets(b"", exchange=exchange, routing_key="q0"))
    publishing = connection.channels.by_number[1].publishing
    (route,) = publishing.routes.values()
    samples = [message(bytes(100), properties=octets) for octets in properties]
    messages = [samples[number % len(samples)] for number in range(MESSAGES)]

    def run() -> None:
        lane = publishing.publish
        for one in messages:
            flags = int.from_bytes(one.content[FLAGS_AT], "big")
            lane(route, flags, one.content, one.header_size, one.size)

    def run_together() -> None:
        lane = publishing.publish_run
        for start in range(0, MESSAGES, RUN):
            contents = [one.content for one in messages[start : start + RUN]]
            lane(route, contents, messages[0].header_size, framing)

    framing = len(messages[0].content) - messages[0].size
    measure(name, run_together if in_runs else run, MESSAGES, "message", prepare=_purge(stand))
    assert sum(queue.next_offset for queue in stand.vhost.queues.values()) >= queues * MESSAGES


def _bind_queues(stand: Stand, connection: Connection, count: int, exchange: str) -> None:
    for number in range(count):
        name = f"q{number}"
        stand.declare(connection, name)
        if exchange:
            stand.call(
                connection,
                commands.Queue.Bind,
                queue=name,
                exchange=exchange,
                arguments={"kind": "report"},
            )


def _purge(stand: Stand) -> Callable[[], None]:
    def purge() -> None:
        stand.run_turns()
        for queue in stand.vhost.queues.values():
            queue.purge()

    return purge


if __name__ == "__main__":
    main()
