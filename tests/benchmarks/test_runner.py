"""Which broker runs what: the builds of the subject, and brokers that a scenario has stopped."""

from __future__ import annotations

from benchmarks.macro import runner
from benchmarks.macro.brokers import Broker, RemoteBroker
from benchmarks.macro.scenario import Bench, Better, Metric, Outcome, Scenario


class Counting(Scenario):
    """Notes where it ran."""

    is_for_subject_only = True
    needs_pid = True

    def __init__(self) -> None:
        super().__init__("counting", "", (Metric("runs", "x", Better.HIGHER),))
        self.ran_on: list[str] = []

    def run(self, bench: Bench) -> Outcome:
        self.ran_on.append(bench.url)
        return Outcome({"runs": float(len(self.ran_on))})


class Compiled(RemoteBroker):
    is_compiled = True


class Stoppable(Broker):
    """A broker of this run that is stopped at first."""

    is_renewable = True

    def __init__(self) -> None:
        super().__init__("stoppable")
        self._is_running = False

    @property
    def url(self) -> str:
        return "running" if self._is_running else ""

    @property
    def pid(self) -> int | None:
        return 7 if self._is_running else None

    def start(self) -> None:
        self._is_running = True

    def stop(self) -> None:
        self._is_running = False

    def is_alive(self) -> bool:
        return self._is_running


def test_the_compiled_build_runs_what_only_the_subject_does() -> None:
    scenario = Counting()
    brokers = [
        RemoteBroker("hareline", "a", 1),
        Compiled("hareline-compiled", "b", 2),
        RemoteBroker("rabbitmq", "c", 3),
    ]
    found = runner.run([scenario], brokers, rounds=1, seconds=1.0, say=lambda _: None)
    assert scenario.ran_on == ["a", "b"]
    assert [facts.is_compiled for facts in found.brokers] == [False, True, False]


def test_a_broker_that_the_scenario_before_has_stopped_is_started_again() -> None:
    scenario = Counting()
    found = runner.run([scenario], [Stoppable()], rounds=1, seconds=1.0, say=lambda _: None)
    assert found.scenarios[0].skipped is None
    assert scenario.ran_on == ["running"]


def test_a_broker_of_others_without_a_process_id_is_still_an_obstacle() -> None:
    brokers = [RemoteBroker("hareline", "a")]
    found = runner.run([Counting()], brokers, rounds=1, seconds=1.0, say=lambda _: None)
    assert found.scenarios[0].skipped == "it watches the broker's process, whose id is not known"
