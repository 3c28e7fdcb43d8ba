"""The results of runs: figures, ratios and verdicts, and the JSON in which they are kept.

The runner fills a `Results`, `report` and `plot` read it. The first broker is the subject; where
there is a second one it is the peer that ratios and targets refer to.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.scenario import (
    RESULTS_SECTION,
    Better,
    Metric,
    Of,
    Outcome,
    OverRounds,
    Scenario,
    Target,
)
from benchmarks.macro.shapes import Shape

SCHEMA: Final = 1
#: what two runs must have in common for their numbers to stand in one table
MACHINE_FACTS: Final = ("processor", "cores", "memory_gib")

Runs = dict[str, list[float]]  # a number per round, by broker


@dataclass
class MetricResult:
    """One metric over all rounds."""

    metric: Metric
    runs: Runs = field(default_factory=dict)

    def figure(self, broker: str | None) -> float | None:
        """The median of the rounds, or the worst of them where that is what the metric is about."""
        runs = self.runs.get(broker) if broker else None
        if not runs:
            return None
        if self.metric.over_rounds is OverRounds.MEDIAN:
            return statistics.median(runs)
        return max(runs) if self.metric.better is Better.LOWER else min(runs)

    def ratio(self, subject: str, peer: str | None) -> float | None:
        """The subject's figure by the peer's, whichever direction is better."""
        ours, theirs = self.figure(subject), self.figure(peer)
        if ours is None or not theirs:
            return None
        return ours / theirs

    def advantage(self, subject: str, peer: str | None) -> float | None:
        """How many times better the subject is: above 1 is better for every metric."""
        ratio = self.ratio(subject, peer)
        if not ratio or ratio < 0:
            return None
        return ratio if self.metric.better is Better.HIGHER else 1 / ratio

    def is_met(self, subject: str, peer: str | None, *, is_compiled: bool = False) -> bool | None:
        """Whether the target is reached; None without a target or without the numbers for it.

        `is_compiled`: the subject is the compiled build, which has targets of its own.
        """
        target = self.metric.target_of(is_compiled=is_compiled)
        if target is None:
            return None
        number = self.ratio(subject, peer) if target.of is Of.RATIO else self.figure(subject)
        if number is None:
            return None
        return (
            number >= target.bound
            if self.metric.better is Better.HIGHER
            else number <= target.bound
        )


@dataclass
class ScenarioResult:
    """All metrics of one scenario; `cores` and `details` are by name, then by broker and round.

    `errors` and `remarks` are by broker. `shape` and `stem` are the scenario's. `origin` is for a
    scenario that was measured in another run than the others: when, and at which commit.
    """

    name: str
    summary: str
    metrics: list[MetricResult]
    details: dict[str, Runs] = field(default_factory=dict)
    cores: dict[str, Runs] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)
    skipped: str | None = None
    section: str = RESULTS_SECTION
    remarks: dict[str, list[str]] = field(default_factory=dict)
    origin: str | None = None
    stem: str = ""
    shape: Shape | None = None

    @classmethod
    def of(cls, scenario: Scenario) -> ScenarioResult:
        metrics = [MetricResult(metric) for metric in scenario.metrics]
        return cls(
            scenario.name,
            scenario.summary,
            metrics,
            section=scenario.section,
            stem=scenario.stem,
            shape=scenario.shape,
        )

    def add(self, broker: str, outcome: Outcome) -> None:
        for result in self.metrics:
            result.runs.setdefault(broker, []).append(outcome.values[result.metric.name])
        for table, found in ((self.details, outcome.details), (self.cores, outcome.cores)):
            for name, value in found.items():
                table.setdefault(name, {}).setdefault(broker, []).append(value)
        if outcome.remarks:
            self.remarks.setdefault(broker, []).extend(outcome.remarks)


@dataclass
class BrokerFacts:
    name: str
    version: str
    is_compiled: bool = False


@dataclass(frozen=True)
class Verdict:
    """What became of one target."""

    scenario: ScenarioResult
    result: MetricResult
    broker: BrokerFacts
    target: Target
    is_met: bool


@dataclass
class Results:
    """One run of the runner. `started` is UTC in ISO 8601; `options` is what it was asked for."""

    started: str
    finished: str
    machine: Mapping[str, object]
    options: Mapping[str, object]
    brokers: list[BrokerFacts]
    scenarios: list[ScenarioResult]

    @property
    def subject(self) -> str:
        return self.brokers[0].name

    @property
    def peer(self) -> str | None:
        return next((each.name for each in self.brokers[1:] if not each.is_compiled), None)

    @property
    def compiled(self) -> str | None:
        return next((each.name for each in self.brokers if each.is_compiled), None)

    @property
    def builds(self) -> list[BrokerFacts]:
        """The subject, and the compiled build of it if there was one."""
        return [each for each in self.brokers if each.is_compiled or each.name == self.subject]

    def verdicts(self) -> list[Verdict]:
        """Every target that can be judged, and whether it is met."""
        return [
            Verdict(scenario, result, build, target, met)
            for scenario in self.scenarios
            for result in scenario.metrics
            for build in self.builds
            if (target := result.metric.target_of(is_compiled=build.is_compiled))
            and (met := result.is_met(build.name, self.peer, is_compiled=build.is_compiled))
            is not None
        ]

    def with_later(self, later: Results) -> Results:
        """These results, with the scenarios of a later run in place of the same ones, or added.

        :raises BenchmarkError: the later run had other brokers or another machine.
        """
        self.expect_comparable(later.brokers, later.machine)
        scenarios = {scenario.name: scenario for scenario in self.scenarios}
        origin = (
            f"{later.started[:10]}, commit {later.machine.get('commit') or 'unknown'}, "
            f"rounds: {later.options.get('rounds')}"
        )
        for scenario in later.scenarios:
            scenarios[scenario.name] = replace(scenario, origin=origin)
        return replace(self, scenarios=list(scenarios.values()))

    def expect_comparable(
        self, brokers: Sequence[BrokerFacts], machine: Mapping[str, object]
    ) -> None:
        """:raises BenchmarkError: numbers from there do not belong into one table with these."""
        if self.brokers != brokers:
            raise BenchmarkError(
                f"the earlier run was of {_versions(self.brokers)}, not of {_versions(brokers)}"
            )
        for fact in MACHINE_FACTS:
            if self.machine.get(fact) != machine.get(fact):
                raise BenchmarkError(
                    f"the earlier run was on another machine: its {fact} is "
                    f"{self.machine.get(fact)!r}, not {machine.get(fact)!r}"
                )

    def save(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(self.to_json(), indent=1) + "\n")

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "started": self.started,
            "finished": self.finished,
            "machine": dict(self.machine),
            "options": dict(self.options),
            "brokers": [vars(broker) for broker in self.brokers],
            "scenarios": [self._scenario_to_json(scenario) for scenario in self.scenarios],
        }

    def _scenario_to_json(self, scenario: ScenarioResult) -> dict[str, Any]:
        return {
            "name": scenario.name,
            "summary": scenario.summary,
            "metrics": [self._metric_to_json(result) for result in scenario.metrics],
            "details": _rounded_runs(scenario.details),
            "cores": _rounded_runs(scenario.cores),
            "errors": scenario.errors,
            "skipped": scenario.skipped,
            "section": scenario.section,
            "remarks": scenario.remarks,
            "origin": scenario.origin,
            "stem": scenario.stem,
            "shape": scenario.shape and scenario.shape.value,
        }

    def _metric_to_json(self, result: MetricResult) -> dict[str, Any]:
        metric, target, compiled = result.metric, result.metric.target, self.compiled
        bound = metric.compiled_target
        own: dict[str, Any] = {}
        if bound or compiled:
            own = {
                "compiled_target": bound and {"of": bound.of.value, "bound": bound.bound},
                "compiled_ratio": compiled and _round(result.ratio(compiled, self.peer)),
                "compiled_met": compiled and result.is_met(compiled, self.peer, is_compiled=True),
            }
        return {
            "name": metric.name,
            "unit": metric.unit,
            "better": metric.better.value,
            "target": target and {"of": target.of.value, "bound": target.bound},
            "runs": _rounded(result.runs),
            metric.over_rounds.value: {
                name: _round(result.figure(name) or 0.0) for name in result.runs
            },
            "ratio": _round(result.ratio(self.subject, self.peer)),
            "met": result.is_met(self.subject, self.peer),
            **own,
        }


def load(file: Path) -> Results:
    """Read what `Results.save` wrote. :raises ValueError: it is of another schema."""
    data = json.loads(file.read_text())
    if data.get("schema") != SCHEMA:
        raise ValueError(f"{file.name} has schema {data.get('schema')!r}, not {SCHEMA}")
    return Results(
        started=data["started"],
        finished=data["finished"],
        machine=data["machine"],
        options=data["options"],
        brokers=[BrokerFacts(**broker) for broker in data["brokers"]],
        scenarios=[
            ScenarioResult(
                name=scenario["name"],
                summary=scenario["summary"],
                metrics=[_load_metric(metric) for metric in scenario["metrics"]],
                details=scenario["details"],
                cores=scenario["cores"],
                errors=scenario["errors"],
                skipped=scenario["skipped"],
                # older runs have none of these
                section=scenario.get("section", RESULTS_SECTION),
                remarks=scenario.get("remarks", {}),
                origin=scenario.get("origin"),
                stem=scenario.get("stem", ""),
                shape=Shape(scenario["shape"]) if scenario.get("shape") else None,
            )
            for scenario in data["scenarios"]
        ],
    )


def _load_metric(data: Mapping[str, Any]) -> MetricResult:
    return MetricResult(
        Metric(
            data["name"],
            data["unit"],
            Better(data["better"]),
            _load_target(data["target"]),
            OverRounds.WORST if OverRounds.WORST.value in data else OverRounds.MEDIAN,
            _load_target(data.get("compiled_target")),
        ),
        data["runs"],
    )


def _load_target(data: Mapping[str, Any] | None) -> Target | None:
    return Target(Of(data["of"]), data["bound"]) if data else None


def _versions(brokers: Sequence[BrokerFacts]) -> str:
    return " and ".join(broker.version for broker in brokers)


def _round(value: float | None) -> float | None:
    """Six significant digits: more is noise."""
    return None if value is None else float(f"{value:.6g}")


def _rounded(runs: Mapping[str, Sequence[float]]) -> dict[str, list[float | None]]:
    return {broker: [_round(value) for value in values] for broker, values in runs.items()}


def _rounded_runs(table: Mapping[str, Runs]) -> dict[str, dict[str, list[float | None]]]:
    return {name: _rounded(runs) for name, runs in table.items()}
