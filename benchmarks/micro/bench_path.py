"""The whole way of a message without sockets: publish octets in, deliver octets out, ack octets in.

    python -m benchmarks.micro.bench_path [--json FILE] [--repetitions N]

One connection publishes, another consumes. Each gets its octets in pieces of 64 KiB, as from a
socket, and each piece is followed by the end of its turn. What is written is counted, not sent.
Divide by 1000 for microseconds a message.
"""

from __future__ import annotations

from benchmarks.micro.stand import (
    NO_PROPERTIES,
    USUAL_PROPERTIES,
    NullTransport,
    Stand,
    publish_octets,
)
from benchmarks.micro.timing import finish, measure
from hareline.amqp.connection import Connection
from hareline.queues.core.audit_recorder import AUDIT_STREAM
from hareline.wire.encoder import ack_frame
from hareline.wire.methods import commands

PIECE_BYTES = 65_536
MESSAGES = 20_000


class Path:
    """A publisher, a queue and a consumer, and the octets of so many publishes."""

    def __init__(
        self,
        *,
        body: int = 100,
        count: int = MESSAGES,
        properties: bytes = NO_PROPERTIES,
        ack_every: int = 0,
        prefetch: int = 0,
        has_confirms: bool = False,
        queues: int = 1,
        audit_share: float = 0.0,
    ) -> None:
        self._stand = Stand(audit_share=audit_share)
        self._publisher = self._stand.connect(1)
        self._consumers = [self._stand.connect(1) for _ in range(queues)]
        self._count = count
        self._ack_every = ack_every
        for number, consumer in enumerate(self._consumers):
            name = f"q{number}"
            self._stand.declare(consumer, name)
            self._stand.call(
                consumer, commands.Queue.Bind, queue=name, exchange="amq.fanout", routing_key=""
            )
            if prefetch:
                self._stand.call(consumer, commands.Basic.Qos, prefetch_count=prefetch)
            self._stand.call(
                consumer,
                commands.Basic.Consume,
                queue=name,
                consumer_tag="bench",
                no_ack=not ack_every,
            )
        if has_confirms:
            self._stand.call(self._publisher, commands.Confirm.Select)
        one = publish_octets(
            bytes(body), exchange="amq.fanout", routing_key="", properties=properties
        )
        octets = one * count
        self._pieces = [
            octets[start : start + PIECE_BYTES] for start in range(0, len(octets), PIECE_BYTES)
        ]
        self._acked = 0

    def run(self) -> None:
        stand, publisher = self._stand, self._publisher
        before = [_written(consumer) for consumer in self._consumers]
        for piece in self._pieces:
            publisher.receive(piece)
            stand.run_turns()
            if self._ack_every:
                self._ack()
        for consumer, count in zip(self._consumers, before, strict=True):
            assert _written(consumer) > count
        assert all(
            queue.ready_count == 0
            for name, queue in stand.vhost.queues.items()
            if name != AUDIT_STREAM
        )

    def _ack(self) -> None:
        (consumer,) = self._consumers
        every = self._ack_every
        delivered = consumer.channels.by_number[1].port.next_tag - 1
        while self._acked + every <= delivered:
            frames = [
                ack_frame(1, tag, every > 1)
                for tag in range(self._acked + every, delivered + 1, every)
            ]
            self._acked += every * len(frames)
            octets = b"".join(frames)
            for start in range(0, len(octets), PIECE_BYTES):
                consumer.receive(octets[start : start + PIECE_BYTES])
            self._stand.run_turns()
            delivered = consumer.channels.by_number[1].port.next_tag - 1


def _written(connection: Connection) -> int:
    transport = connection.transport
    assert isinstance(transport, NullTransport)
    return transport.written_bytes


def path(name: str, subject: Path, count: int = MESSAGES) -> None:
    measure(name, subject.run, count, "message")


def main() -> None:
    path("publish to deliver, 100 B, auto-ack", Path())
    path("publish to deliver, 100 B, 2 properties", Path(properties=USUAL_PROPERTIES))
    path("publish to deliver, 100 B, confirms", Path(has_confirms=True))
    path("publish to deliver to ack, 100 B, every 100", Path(ack_every=100, prefetch=1000))
    path("publish to deliver to ack, 100 B, every 1", Path(ack_every=1, prefetch=1000))
    path("publish to deliver, 100 B, fanout to 10", Path(count=4000, queues=10), 4000)
    path("publish to deliver, 1 KiB", Path(body=1024))
    path("publish to deliver, 16 KiB", Path(body=16_384, count=2000), 2000)
    path("publish to deliver, 1 MiB", Path(body=1 << 20, count=40), 40)
    finish()


if __name__ == "__main__":
    main()
