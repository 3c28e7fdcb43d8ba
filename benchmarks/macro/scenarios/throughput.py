"""Sustained deliveries per second: publishers and consumers at once, as fast as the broker goes.

Each scenario is one row of `loads()`: a topology, a body size, an ack mode and the windows. Each
is measured with messages of every shape.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pamqp import commands

from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import Address, DeliveryShape, stamped_body
from benchmarks.macro.scenario import (
    Bench,
    Better,
    Metric,
    Of,
    Outcome,
    Scenario,
    Stopwatch,
    Target,
    collector_off,
    unique_name,
)
from benchmarks.macro.shapes import Shape, make_tape
from benchmarks.macro.traffic import (
    NO_LIMIT,
    AckMode,
    Consumer,
    Limits,
    Publisher,
    TrafficLoop,
)

IN_FLIGHT_MAX: Final = 10_000
IN_FLIGHT_OCTETS_MAX: Final = 32 << 20


@dataclass(frozen=True)
class Flow:
    """One publisher: what it publishes, and the queues that each of its messages reaches."""

    addresses: Sequence[Address]
    queues: Sequence[str]


@dataclass(frozen=True)
class Topology:
    """What a scenario declared: its flows, and what to delete afterwards."""

    flows: Sequence[Flow]
    exchange: str | None = None


Declare = Callable[[Client], Topology]
Targets = Mapping[Shape, tuple[float, float | None]]
"""Ratios to the peer that a scenario is to reach: of the pure build, and of the compiled one."""


class Throughput(Scenario):
    """`prefetch` 0 and `confirm_window` 0 mean that there is none.

    A publisher stays at most `in_flight_max` messages ahead of its consumers, so that a run
    measures the whole way of a message; one without that limit measures what consumers get while
    the queue grows.
    """

    def __init__(
        self,
        name: str,
        summary: str,
        *,
        declare: Declare,
        shape: Shape,
        body_size: int = 100,
        mode: AckMode = AckMode.AUTO,
        prefetch: int = 0,
        confirm_window: int = 0,
        in_flight_max: int = IN_FLIGHT_MAX,
        targets: Targets | None = None,
    ) -> None:
        super().__init__(name, summary, (rate_metric("deliveries", shape, targets),), shape)
        self._shape = shape
        self._declare = declare
        self._body_size = body_size
        self._mode = mode
        self._prefetch = prefetch
        self._confirm_window = confirm_window
        self._in_flight_max = in_flight_max

    def run(self, bench: Bench) -> Outcome:
        with bench.control() as control:
            topology = self._declare(control)
            try:
                return self._run_over(topology, bench)
            finally:
                _undeclare(control, topology)

    def _run_over(self, topology: Topology, bench: Bench) -> Outcome:
        with contextlib.ExitStack() as stack:
            publishers: list[Publisher] = []
            consumers: list[Consumer] = []
            for stream, flow in enumerate(topology.flows):
                publisher = self._connect(flow, stream, bench.url, stack)
                publishers.append(publisher)
                consumers += publisher.consumers
            limits = Limits(
                in_flight_max=_within_octets(self._in_flight_max, self._body_size),
                unconfirmed_max=self._confirm_window or NO_LIMIT,
            )
            loop = TrafficLoop(publishers, consumers, limits)
            stack.callback(loop.close)
            watch = Stopwatch(bench.pid)
            with collector_off():
                delivered, published = loop.measure(bench.warm_up_s, bench.seconds, watch)
        details = {}
        if self._body_size >= 1024:
            details["MB/s of bodies"] = delivered * self._body_size / 1e6
        if self._in_flight_max == NO_LIMIT:
            details["publishes in msg/s"] = published
        return watch.outcome({"deliveries": delivered}, details)

    def _connect(self, flow: Flow, stream: int, url: str, stack: contextlib.ExitStack) -> Publisher:
        """Connect a publisher and its consumers, and learn from one message what deliveries are.

        The first message of the tape is sent for that, so it comes once more than the others.
        """
        publishing = stack.enter_context(Client(url))
        consuming = [stack.enter_context(Client(url)) for _ in flow.queues]
        for client, queue in zip(consuming, flow.queues, strict=True):
            client.consume(queue, prefetch=self._prefetch, no_ack=self._mode is AckMode.AUTO)
        tape = make_tape(
            self._shape, flow.addresses, self._body_size, publishing.frame_max, stream=stream
        )
        publishing.sock.sendall(tape.piece(0, 1))
        shapes = [self._probe(client) for client in consuming]
        if self._confirm_window:
            publishing.select_confirms()
        consumers = [
            Consumer(client, tape.meter(shape, first_tag=2), self._mode)
            for client, shape in zip(consuming, shapes, strict=True)
        ]
        return Publisher(publishing, tape, consumers, confirms=bool(self._confirm_window))

    def _probe(self, client: Client) -> DeliveryShape:
        content = client.read_content()
        if content.body != stamped_body(self._body_size, 0):
            raise BenchmarkError("the first delivery is not what was published")
        if self._mode is not AckMode.AUTO:
            client.send(commands.Basic.Ack(delivery_tag=content.method.delivery_tag or 0))
        return content.shape


def rate_metric(name: str, shape: Shape, targets: Targets | None = None) -> Metric:
    """Messages per second, with the targets of that shape if there are any."""
    pure, compiled = (targets or {}).get(shape, (None, None))
    return Metric(
        name,
        "msg/s",
        Better.HIGHER,
        None if pure is None else Target(Of.RATIO, pure),
        compiled_target=None if compiled is None else Target(Of.RATIO, compiled),
    )


def _within_octets(in_flight_max: int, body_size: int) -> int:
    """Fewer messages where bodies are large, unless there is to be no limit at all."""
    if in_flight_max == NO_LIMIT:
        return NO_LIMIT
    return max(8, min(in_flight_max, IN_FLIGHT_OCTETS_MAX // body_size))


def _undeclare(control: Client, topology: Topology) -> None:
    """Leave nothing behind; a broker that is gone must not hide why it went."""
    with contextlib.suppress(BenchmarkError, OSError):
        for flow in topology.flows:
            for queue in flow.queues:
                control.delete_queue(queue)
        if topology.exchange:
            control.delete_exchange(topology.exchange)


def default_exchange(flows: int = 1, *, is_durable: bool = False) -> Declare:
    """One publisher, one queue and one consumer for each flow, over the default exchange.

    Where queues are durable, messages are persistent.
    """
    properties = commands.Basic.Properties(delivery_mode=2) if is_durable else None

    def declare(control: Client) -> Topology:
        queues = [unique_name(f"flow{number:02d}") for number in range(flows)]
        for queue in queues:
            control.declare_queue(queue, is_durable=is_durable)
        flow = [Flow([Address(queue, properties=properties)], [queue]) for queue in queues]
        return Topology(flow)

    return declare


def fanout(queue_count: int) -> Declare:
    def declare(control: Client) -> Topology:
        exchange = unique_name("fanout")
        control.declare_exchange(exchange, "fanout")
        queues = [unique_name(f"fan{number:02d}") for number in range(queue_count)]
        for queue in queues:
            control.declare_queue(queue)
            control.bind(queue, exchange)
        return Topology([Flow([Address("fan", exchange)], queues)], exchange)

    return declare


def topic(binding_count: int) -> Declare:
    """As many bindings as routing keys; each key matches exactly one of them.

    Half of the patterns end in ``*``, half in ``#``; the keys have three words, one of 100 sites
    and one of 100 devices in front for 10,000.
    """

    def declare(control: Client) -> Topology:
        exchange, queue = unique_name("topic"), unique_name("topic")
        control.declare_exchange(exchange, "topic")
        control.declare_queue(queue)
        stems = [f"site{n // 100:03d}.device{n % 100:02d}" for n in range(binding_count)]
        for number, stem in enumerate(stems):
            is_last = number == binding_count - 1
            pattern = f"{stem}.{'*#'[number % 2]}"
            control.bind(queue, exchange, pattern, nowait=not is_last)
        addresses = [Address(f"{stem}.temperature", exchange) for stem in stems]
        return Topology([Flow(addresses, [queue])], exchange)

    return declare


def headers(binding_count: int) -> Declare:
    """Bindings with x-match=all over two headers; each message matches exactly one of them."""

    def declare(control: Client) -> Topology:
        exchange, queue = unique_name("headers"), unique_name("headers")
        control.declare_exchange(exchange, "headers")
        control.declare_queue(queue)
        tables = [{"kind": f"kind{n:03d}", "region": "north"} for n in range(binding_count)]
        for table in tables:
            control.bind(queue, exchange, arguments={"x-match": "all", **table})
        addresses = [
            Address("", exchange, commands.Basic.Properties(headers=dict(table)))
            for table in tables
        ]
        return Topology([Flow(addresses, [queue])], exchange)

    return declare


def scenarios() -> list[Scenario]:
    return [load(shape) for load in loads() for shape in Shape]


def loads() -> list[Callable[[Shape], Scenario]]:
    """What makes each scenario in a shape."""
    one = default_exchange()

    def load(name: str, summary: str, **options: Any) -> Callable[[Shape], Scenario]:
        return lambda shape: Throughput(name, summary, shape=shape, **options)

    differing, alike = Shape.DIFFERING, Shape.ALIKE
    return [
        load(
            "autoack_1x1_100B",
            "1 publisher, 1 queue, 1 consumer, auto-ack",
            declare=one,
            targets={differing: (3.5, 5.0), alike: (4.0, 8.0)},
        ),
        load(
            "ack_every_100_prefetch_1000_100B",
            "a multiple ack after each 100 deliveries, prefetch 1,000",
            declare=one,
            mode=AckMode.EVERY_100,
            prefetch=1000,
            targets={differing: (3.5, 5.0), alike: (3.0, 8.0)},
        ),
        load(
            "flood_ack_every_100_prefetch_1000_100B",
            "the same with a publisher that never waits: what the consumer gets meanwhile",
            declare=one,
            mode=AckMode.EVERY_100,
            prefetch=1000,
            in_flight_max=NO_LIMIT,
        ),
        load(
            "ack_single_prefetch_1000_100B",
            "each delivery acked by itself, prefetch 1,000",
            declare=one,
            mode=AckMode.SINGLE,
            prefetch=1000,
        ),
        load(
            "confirm_window_5000_100B",
            "publisher confirms, at most 5,000 outstanding; auto-ack consumer",
            declare=one,
            confirm_window=5000,
            targets={differing: (4.0, 6.0), alike: (5.0, 8.0)},
        ),
        *(
            load(
                f"autoack_1x1_{label}",
                f"as the first with {spoken} bodies",
                declare=one,
                body_size=size,
            )
            for size, label, spoken in (
                (1 << 10, "1KiB", "1 KiB"),
                (16 << 10, "16KiB", "16 KiB"),
                (1 << 20, "1MiB", "1 MiB"),
            )
        ),
        load(
            "fanout_1_to_10_100B",
            "fanout exchange to 10 queues with a consumer each, auto-ack; deliveries are counted",
            declare=fanout(10),
        ),
        load(
            "topic_10000_bindings_100B",
            "topic exchange with 10,000 wildcard bindings, 10,000 routing keys, auto-ack",
            declare=topic(10_000),
        ),
        load(
            "headers_10_bindings_100B",
            "headers exchange, 10 bindings of two headers (x-match all), auto-ack",
            declare=headers(10),
        ),
        load(
            "publishers_10_queues_10_consumers_10_100B",
            "10 publishers, 10 queues, 10 consumers, a connection each, auto-ack",
            declare=default_exchange(10),
            targets={alike: (2.0, None)},
        ),
    ]
