"""The loads of the queue-type scenarios: what goes on the wire, and who runs what."""

from __future__ import annotations

import socket
from collections import Counter
from typing import cast

import pytest
from pamqp import commands, frame, header

from benchmarks.macro import runner, scenarios
from benchmarks.macro.brokers import RemoteBroker
from benchmarks.macro.client import Client
from benchmarks.macro.frames import Tape
from benchmarks.macro.scenario import Bench, Better, Metric, Outcome, Scenario
from benchmarks.macro.scenarios import queue_backlog, queue_loads
from benchmarks.macro.scenarios.queue_loads import QueueLoad

FRAME_MAX = 131_072
LOADS = {
    load.stem: load
    for load in (
        queue_loads.priority(),
        queue_loads.sorted_by_key(),
        queue_loads.last_value(),
        queue_loads.groups("standard"),
        queue_loads.groups("shared"),
        queue_loads.selectors(),
        queue_loads.non_destructive(1000),
    )
}


def properties_in(octets: bytes) -> list[commands.Basic.Properties]:
    found = []
    while octets:
        size, _, value = frame.unmarshal(octets)
        if isinstance(value, header.ContentHeader):
            found.append(value.properties)
        octets = octets[size:]
    return found


@pytest.mark.parametrize("load", LOADS.values(), ids=list(LOADS))
def test_a_load_fits_a_tape_whose_messages_have_one_size(load: QueueLoad) -> None:
    tape = Tape(load.addresses("q"), queue_loads.BODY_SIZE, FRAME_MAX)
    assert tape.count >= len(load.properties)


@pytest.mark.parametrize(
    ("stem", "kinds"),
    [("priority", 11), ("sorted", 10_000), ("lastvalue", 10_000), ("sharedgroups", 10_000)],
)
def test_a_load_goes_over_all_its_levels_keys_or_groups(stem: str, kinds: int) -> None:
    octets = {bytes(properties.marshal()) for properties in LOADS[stem].properties}
    assert len(octets) == kinds


def test_priorities_do_not_come_in_their_order() -> None:
    numbers = [properties.priority for properties in LOADS["priority"].properties]
    assert sorted(number or 0 for number in numbers) == list(range(11))
    assert numbers != sorted(number or 0 for number in numbers)


def test_one_message_in_ten_is_for_the_choosy_consumer() -> None:
    kinds = Counter(
        (properties.headers or {})["kind"] for properties in LOADS["selector"].properties
    )
    assert kinds["k0"] * 10 == kinds.total()
    wanted, others = (str(filters) for filters in LOADS["selector"].filters)
    assert "= 'k0'" in wanted
    assert "<> 'k0'" in others


class Declarations:
    """The control connection of a broker that has what was published at once."""

    def __init__(self, ready: int) -> None:
        self.ready = ready

    def ready_count(self, queue: str) -> int:
        return self.ready


def test_keys_are_filled_in_from_a_template(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()

    class Endpoint:
        frame_max = FRAME_MAX
        sock = ours

        def __init__(self, url: str) -> None: ...
        def __enter__(self) -> Endpoint:
            return self

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(queue_backlog, "Client", Endpoint)
    control = cast("Client", Declarations(123))
    with ours, theirs:
        bench = Bench("amqp://unused", None, 1.0)
        queue_backlog._fill_keys(bench, control, LOADS["lastvalue"], "q", 123)
        ours.shutdown(socket.SHUT_WR)
        with theirs.makefile("rb") as stream:
            octets = stream.read()
    found = [properties.headers for properties in properties_in(octets)]
    assert found == [{"sensor": f"{n:07d}", "count": f"{n:07d}"} for n in range(123)]


class Counting(Scenario):
    """Says how often it ran on which broker."""

    def __init__(self) -> None:
        super().__init__("counting", "", (Metric("runs", "x", Better.HIGHER),))
        self.urls: list[str] = []

    def run(self, bench: Bench) -> Outcome:
        self.urls.append(bench.url)
        return Outcome({"runs": float(len(self.urls))})


class OnlyOurs(Counting):
    is_for_subject_only = True


@pytest.mark.parametrize(("kind", "urls"), [(Counting, ["a", "b"]), (OnlyOurs, ["a"])])
def test_what_only_the_subject_has_is_run_on_it_alone(
    kind: type[Counting], urls: list[str]
) -> None:
    scenario = kind()
    brokers = [RemoteBroker("hareline", "a"), RemoteBroker("rabbitmq", "b")]
    found = runner.run([scenario], brokers, rounds=2, seconds=1.0, say=lambda _: None)
    assert scenario.urls == urls * 2
    assert list(found.scenarios[0].metrics[0].runs) == ["hareline", "rabbitmq"][: len(urls)]
    assert not found.scenarios[0].errors


@pytest.mark.row("C13")
def test_the_cost_of_depth_is_measured_for_each_queue_type() -> None:
    measured = {scenario.name: scenario for scenario in scenarios.full()}
    for stem in LOADS:
        backlog = measured[f"backlog_{stem}_1000000_100B"]
        bounds = [metric.target.bound for metric in backlog.metrics if metric.target]
        assert bounds == [1.5]
