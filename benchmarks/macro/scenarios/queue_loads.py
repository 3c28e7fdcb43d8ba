"""The loads that queue types are measured with, and how to connect one to a queue.

Used by ``queue_types`` (throughput) and ``queue_backlog`` (the cost of depth). All messages of a
load have one size; they differ in the property or header that the queue type looks at.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pamqp import commands, common

from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import (
    Address,
    DeliveryMeter,
    DeliveryShape,
    Tape,
    publish_octets,
    stamped_body,
)
from benchmarks.macro.scenario import Bench, temporary_queue
from benchmarks.macro.traffic import AckMode, Consumer, Publisher, Reach

BODY_SIZE: Final = 100
LEVELS: Final = 11  # x-max-priority 10 has the levels 0 to 10
KEYS: Final = 10_000
GROUPS: Final = 10_000
GROUP_CONSUMERS: Final = 8
SELECTED_SHARE: Final = 10  # one message in so many matches the choosy consumer
READERS: Final = 10
SCRAMBLE: Final = 7_919  # prime to 10,000 and to 11: steps over all of them in no useful order

Properties = commands.Basic.Properties


@dataclass(frozen=True)
class QueueLoad:
    """The publishes, the consumers, and what makes the queue more than first in, first out.

    `filters` has the arguments of basic.consume for each consumer.
    """

    stem: str
    arguments: common.FieldTable
    properties: Sequence[Properties]
    filters: Sequence[common.FieldTable | None] = (None,)
    mode: AckMode = AckMode.AUTO
    prefetch: int = 0

    def addresses(self, queue: str) -> list[Address]:
        return [Address(queue, properties=each) for each in self.properties]


def priority() -> QueueLoad:
    numbers = [n * SCRAMBLE % LEVELS for n in range(LEVELS)]
    return QueueLoad(
        "priority",
        {"x-max-priority": LEVELS - 1},
        [Properties(priority=number) for number in numbers],
    )


def sorted_by_key() -> QueueLoad:
    keys = [f"{n * SCRAMBLE % KEYS:05d}" for n in range(KEYS)]
    return QueueLoad(
        "sorted", {"x-sort-key": "rank"}, [Properties(headers={"rank": key}) for key in keys]
    )


def last_value() -> QueueLoad:
    keys = [f"{n * SCRAMBLE % KEYS:05d}" for n in range(KEYS)]
    return QueueLoad(
        "lastvalue",
        {"x-last-value-key": "sensor"},
        [Properties(headers={"sensor": key}) for key in keys],
    )


def groups(kind: str) -> QueueLoad:
    """`kind` is a value of x-message-group-type; acked, as shared groups are bound by acks."""
    return QueueLoad(
        f"{kind}groups",
        {"x-message-group-key": "JMSXGroupID", "x-message-group-type": kind},
        [Properties(headers={"JMSXGroupID": f"group{n:05d}"}) for n in range(GROUPS)],
        filters=(None,) * GROUP_CONSUMERS,
        mode=AckMode.EVERY_100,
        prefetch=1000,
    )


def selectors() -> QueueLoad:
    """One consumer wants one kind of ten, the other one all the rest."""
    return QueueLoad(
        "selector",
        {},
        [Properties(headers={"kind": f"k{n}"}) for n in range(SELECTED_SHARE)],
        filters=(
            {"x-filter-jms-selector": "kind = 'k0'"},
            {"x-filter-jms-selector": "kind <> 'k0'"},
        ),
    )


def even_selectors() -> QueueLoad:
    """Ten consumers, each of which selects one of ten kinds and acks as much as the others.

    Where a consumer asks for more than its share of what is published, the broker must look at ten
    messages for each that it finds, once for each message; that is no matter of depth.
    """
    kinds = [f"k{n}" for n in range(SELECTED_SHARE)]
    return QueueLoad(
        "selector",
        {},
        [Properties(headers={"kind": kind}) for kind in kinds],
        filters=tuple({"x-filter-jms-selector": f"kind = '{kind}'"} for kind in kinds),
    )


def non_destructive(kept_max: int) -> QueueLoad:
    """Every reader gets every message; the queue keeps the newest `kept_max`."""
    return QueueLoad(
        "nondestructive",
        {"x-non-destructive": True, "x-max-length": kept_max, "x-overflow": "drop-head"},
        [Properties()],
        filters=(None,) * READERS,
    )


def learn_shape(bench: Bench, control: Client, load: QueueLoad) -> DeliveryShape:
    """What a delivery of this load will look like, seen at a queue like it with a name as long."""
    body = stamped_body(BODY_SIZE, 0)
    with (
        temporary_queue(control, load.stem, load.arguments) as queue,
        Client(bench.url) as client,
    ):
        client.consume(queue)
        client.sock.sendall(publish_octets(load.addresses(queue)[0], body, client.frame_max))
        content = client.read_content()
        if content.body != body:
            raise BenchmarkError("the first delivery is not what was published")
        return content.shape


def attach(
    bench: Bench,
    load: QueueLoad,
    queue: str,
    shape: DeliveryShape,
    stack: contextlib.ExitStack,
    *,
    tape_count: int,
    is_filtered: bool = True,
) -> list[Consumer]:
    """The consumers of a load, each on a connection of its own."""
    consumers = []
    for arguments in load.filters:
        client = stack.enter_context(Client(bench.url))
        client.consume(
            queue,
            prefetch=load.prefetch,
            no_ack=load.mode is AckMode.AUTO,
            arguments=arguments if is_filtered else None,
        )
        meter = DeliveryMeter(shape, 1, tape_count, is_ordered=False)
        consumers.append(Consumer(client, meter, load.mode))
    return consumers


def connect(
    bench: Bench,
    load: QueueLoad,
    queue: str,
    shape: DeliveryShape,
    stack: contextlib.ExitStack,
    *,
    reach: Reach = Reach.ONE,
    confirms: bool = False,
    is_consumed: bool = True,
    is_filtered: bool = True,
) -> Publisher:
    """A publisher with the consumers of a load; with confirms also where nothing else paces it."""
    publishing = stack.enter_context(Client(bench.url))
    tape = Tape(load.addresses(queue), BODY_SIZE, publishing.frame_max)
    confirms = confirms or reach is Reach.AT_MOST_ONE
    if confirms:
        publishing.select_confirms()
    consumers = []
    if is_consumed:
        consumers = attach(
            bench, load, queue, shape, stack, tape_count=tape.count, is_filtered=is_filtered
        )
    return Publisher(publishing, tape, consumers, confirms=confirms, reach=reach)
