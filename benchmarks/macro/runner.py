"""Runs scenarios against brokers in turn: A B A B, so that a slow minute of the machine hits both.

Called by ``__main__`` with brokers that are started; returns `Results`. A scenario that fails is
noted, and the other scenarios go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from benchmarks.macro.brokers import Broker
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.machine import describe_machine
from benchmarks.macro.results import BrokerFacts, Results, ScenarioResult
from benchmarks.macro.scenario import Bench, Outcome, Scenario

Say = Callable[[str], None]


def run(
    scenarios: Sequence[Scenario],
    brokers: Sequence[Broker],
    *,
    rounds: int,
    seconds: float,
    say: Say,
) -> Results:
    """Every scenario, `rounds` times on each broker; `seconds` is for those that measure a rate."""
    started = _now()
    results = [_run_scenario(scenario, brokers, rounds, seconds, say) for scenario in scenarios]
    return Results(
        started=started,
        finished=_now(),
        machine=describe_machine(),
        options={"rounds": rounds, "seconds": seconds},
        brokers=facts_of(brokers),
        scenarios=results,
    )


def facts_of(brokers: Sequence[Broker]) -> list[BrokerFacts]:
    """What is written down of brokers that are started."""
    return [BrokerFacts(each.name, each.version, each.is_compiled) for each in brokers]


def _run_scenario(
    scenario: Scenario, brokers: Sequence[Broker], rounds: int, seconds: float, say: Say
) -> ScenarioResult:
    result = ScenarioResult.of(scenario)
    concerned = brokers
    if scenario.is_for_subject_only:
        concerned = [each for each in brokers if each is brokers[0] or each.is_compiled]
    result.skipped = _obstacle(scenario, concerned)
    if result.skipped:
        say(f"{scenario.name}: skipped, {result.skipped}")
        return result
    rounds = min(rounds, scenario.rounds_max or rounds)
    for number in range(1, rounds + 1):
        for broker in concerned:
            if scenario.wants_fresh_broker and number > 1 and not broker.is_renewable:
                continue  # a process that has already grown gives no second result
            head = f"{scenario.name} {number}/{rounds} {broker.name}"
            try:
                outcome = _run_once(scenario, broker, seconds)
            except (BenchmarkError, OSError) as error:
                result.errors.setdefault(broker.name, []).append(str(error) or repr(error))
                say(f"{head}: FAILED: {error}")
            else:
                result.add(broker.name, outcome)
                say(f"{head}: {_in_words(scenario, outcome)}")
                for remark in outcome.remarks:
                    say(f"{head}: {remark}")
    return result


def _obstacle(scenario: Scenario, brokers: Sequence[Broker]) -> str | None:
    """Why a scenario cannot be run on these brokers, if so."""
    if scenario.needs_pid and any(
        broker.pid is None and not broker.is_renewable for broker in brokers
    ):
        return "it watches the broker's process, whose id is not known"
    if scenario.needs_restart and not all(broker.is_restartable for broker in brokers):
        return "it starts the broker again on its data, so this run must have started the broker"
    if scenario.ends_broker and not all(broker.is_renewable for broker in brokers):
        return "it stops the broker, so this run must have started the broker"
    return None


def _run_once(scenario: Scenario, broker: Broker, seconds: float) -> Outcome:
    if scenario.wants_fresh_broker or not broker.is_alive():
        broker.renew()
    try:
        return scenario.run(Bench(broker.url, broker.pid, seconds, broker))
    finally:
        if scenario.ends_broker:
            broker.stop()  # whatever went wrong, the next scenario starts another one


def _in_words(scenario: Scenario, outcome: Outcome) -> str:
    parts = [
        f"{metric.name} {outcome.values[metric.name]:,.4g} {metric.unit}"
        if outcome.values[metric.name] < 1000
        else f"{metric.name} {outcome.values[metric.name]:,.0f} {metric.unit}"
        for metric in scenario.metrics
    ]
    if outcome.cores:
        shares = ", ".join(f"{name} {share:.2f}" for name, share in outcome.cores.items())
        parts.append(f"cores: {shares}")
    return "; ".join(parts)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
