"""Medians, ratios, verdicts, and the JSON they are kept in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.macro import results
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.results import BrokerFacts, MetricResult, Results, ScenarioResult
from benchmarks.macro.scenario import Better, Metric, Of, Outcome, OverRounds, Target
from benchmarks.macro.shapes import Shape

RATE = Metric("deliveries", "msg/s", Better.HIGHER, Target(Of.RATIO, 4.0))
LATENCY = Metric("p99", "ms", Better.LOWER, Target(Of.RATIO, 1.0))
MEMORY = Metric("RSS", "bytes", Better.LOWER, Target(Of.VALUE, 700.0))


def measured(metric: Metric, ours: list[float], theirs: list[float] | None = None) -> MetricResult:
    runs = {"hareline": ours}
    if theirs is not None:
        runs["rabbitmq"] = theirs
    return MetricResult(metric, runs)


def one_run(
    scenario: ScenarioResult, brokers: tuple[str, ...] = ("hareline", "rabbitmq")
) -> Results:
    return Results(
        started="2026-01-02T03:04:05+00:00",
        finished="2026-01-02T03:14:05+00:00",
        machine={"cores": 2, "commit": "abc1234"},
        options={"rounds": 3, "seconds": 5.0},
        brokers=[BrokerFacts("hareline", "1.0"), BrokerFacts("rabbitmq", "3.10.8")],
        scenarios=[scenario],
    )


class TestMetricResult:
    def test_medians_make_the_ratio(self) -> None:
        result = measured(RATE, [100.0, 900.0, 400.0], [90.0, 100.0, 10_000.0])
        assert result.ratio("hareline", "rabbitmq") == pytest.approx(4.0)

    @pytest.mark.parametrize(
        ("metric", "ours", "theirs", "is_met"),
        [
            (RATE, 400.0, 100.0, True),
            (RATE, 399.0, 100.0, False),
            (LATENCY, 1.0, 1.0, True),
            (LATENCY, 1.1, 1.0, False),
            (MEMORY, 700.0, 10.0, True),
            (MEMORY, 701.0, 1e9, False),
        ],
    )
    def test_a_target_is_judged_in_its_direction(
        self, metric: Metric, ours: float, theirs: float, is_met: bool
    ) -> None:
        assert measured(metric, [ours], [theirs]).is_met("hareline", "rabbitmq") is is_met

    @pytest.mark.parametrize(
        ("better", "worst", "ratio"), [(Better.LOWER, 9.0, 4.5), (Better.HIGHER, 1.0, 1.0)]
    )
    def test_the_worst_round_counts_where_the_metric_is_about_that(
        self, better: Better, worst: float, ratio: float
    ) -> None:
        metric = Metric("max", "ms", better, Target(Of.VALUE, 5.0), OverRounds.WORST)
        result = measured(metric, [1.0, 9.0, 1.5], [1.0, 2.0])
        assert result.figure("hareline") == worst
        assert result.ratio("hareline", "rabbitmq") == ratio
        assert result.is_met("hareline", "rabbitmq") is False

    def test_without_a_peer_ratios_are_not_judged_but_values_are(self) -> None:
        assert measured(RATE, [1.0]).is_met("hareline", None) is None
        assert measured(MEMORY, [1.0]).is_met("hareline", None) is True

    def test_without_a_target_there_is_no_verdict(self) -> None:
        metric = Metric("p50", "ms", Better.LOWER)
        assert measured(metric, [1.0], [2.0]).is_met("hareline", "rabbitmq") is None

    def test_an_advantage_is_above_one_when_better_in_either_direction(self) -> None:
        assert measured(RATE, [200.0], [100.0]).advantage("hareline", "rabbitmq") == 2.0
        assert measured(LATENCY, [1.0], [2.0]).advantage("hareline", "rabbitmq") == 2.0

    def test_a_peer_that_measured_nothing_gives_no_ratio(self) -> None:
        assert measured(RATE, [1.0], [0.0]).ratio("hareline", "rabbitmq") is None
        assert measured(RATE, [1.0]).ratio("hareline", "rabbitmq") is None


class TestScenarioResult:
    def test_rounds_add_up_by_broker(self) -> None:
        scenario = ScenarioResult("one", "text", [MetricResult(RATE)])
        scenario.add("hareline", Outcome({"deliveries": 1.0}, {"fill": 5.0}, {"broker": 0.9}))
        scenario.add("hareline", Outcome({"deliveries": 3.0}, {"fill": 7.0}, {"broker": 1.0}))
        scenario.add("rabbitmq", Outcome({"deliveries": 2.0}))
        assert scenario.metrics[0].runs == {"hareline": [1.0, 3.0], "rabbitmq": [2.0]}
        assert scenario.details == {"fill": {"hareline": [5.0, 7.0]}}
        assert scenario.cores == {"broker": {"hareline": [0.9, 1.0]}}
        assert scenario.remarks == {}

    def test_remarks_are_kept_by_broker(self) -> None:
        scenario = ScenarioResult("one", "text", [MetricResult(RATE)])
        for remark in ("it was slow", "it was killed"):
            scenario.add("hareline", Outcome({"deliveries": 1.0}, remarks=[remark]))
        assert scenario.remarks == {"hareline": ["it was slow", "it was killed"]}

    def test_an_outcome_without_a_promised_number_is_a_mistake(self) -> None:
        scenario = ScenarioResult("one", "text", [MetricResult(RATE)])
        with pytest.raises(KeyError):
            scenario.add("hareline", Outcome({"something else": 1.0}))


class TestJson:
    def test_what_is_saved_is_loaded_again(self, tmp_path: Path) -> None:
        scenario = ScenarioResult(
            "one",
            "text",
            [measured(RATE, [412.5], [100.0]), measured(MEMORY, [650.0], [2000.0])],
            details={"fill": {"hareline": [5.0]}},
            cores={"broker": {"hareline": [0.9]}},
            errors={"rabbitmq": ["lost one"]},
            remarks={"rabbitmq": ["it was killed"]},
            origin="2026-01-01, commit def5678",
        )
        saved = one_run(scenario)
        file = tmp_path / "deep" / "run.json"
        saved.save(file)
        assert results.load(file) == saved

    def test_ratio_and_verdict_stand_in_the_file_for_other_readers(self, tmp_path: Path) -> None:
        one_run(ScenarioResult("one", "text", [measured(RATE, [350.0], [100.0])])).save(
            tmp_path / "run.json"
        )
        metric = json.loads((tmp_path / "run.json").read_text())["scenarios"][0]["metrics"][0]
        assert (metric["ratio"], metric["met"]) == (3.5, False)
        assert metric["median"] == {"hareline": 350.0, "rabbitmq": 100.0}

    def test_the_worst_round_is_called_so_and_comes_back(self, tmp_path: Path) -> None:
        worst = Metric("max", "ms", Better.LOWER, over_rounds=OverRounds.WORST)
        saved = one_run(ScenarioResult("one", "text", [measured(worst, [1.0, 3.0])]))
        file = tmp_path / "run.json"
        saved.save(file)
        metric = json.loads(file.read_text())["scenarios"][0]["metrics"][0]
        assert metric["worst"] == {"hareline": 3.0}
        assert "median" not in metric
        assert results.load(file) == saved

    def test_a_file_from_before_there_were_sections_is_read(self, tmp_path: Path) -> None:
        file = tmp_path / "run.json"
        one_run(ScenarioResult("one", "text", [measured(RATE, [1.0])], section="Other")).save(file)
        data = json.loads(file.read_text())
        assert results.load(file).scenarios[0].section == "Other"
        for field in ("section", "remarks", "origin"):
            del data["scenarios"][0][field]
        file.write_text(json.dumps(data))
        assert results.load(file).scenarios[0].section == "Results"

    def test_another_schema_is_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "run.json"
        file.write_text('{"schema": 0}')
        with pytest.raises(ValueError, match="schema 0"):
            results.load(file)


class TestLaterRun:
    def test_its_scenarios_take_the_place_of_the_same_ones_or_are_added(self) -> None:
        earlier = one_run(ScenarioResult("one", "text", [measured(RATE, [1.0])]))
        earlier.scenarios.append(ScenarioResult("two", "text", [measured(RATE, [2.0])]))
        later = one_run(ScenarioResult("one", "text", [measured(RATE, [7.0])]))
        later.scenarios.append(ScenarioResult("three", "text", [measured(RATE, [3.0])]))
        later.started = "2026-03-04T00:00:00+00:00"
        later.machine = {"cores": 2, "commit": "fff0000"}
        both = earlier.with_later(later)
        assert [(s.name, s.metrics[0].figure("hareline")) for s in both.scenarios] == [
            ("one", 7.0),
            ("two", 2.0),
            ("three", 3.0),
        ]
        said = "2026-03-04, commit fff0000, rounds: 3"
        assert [s.origin for s in both.scenarios] == [said, None, said]
        assert (both.started, both.machine) == (earlier.started, earlier.machine)
        assert [s.name for s in earlier.scenarios] == ["one", "two"]

    def test_a_run_of_other_brokers_or_on_another_machine_is_refused(self) -> None:
        earlier = one_run(ScenarioResult("one", "text", []))
        later = one_run(ScenarioResult("one", "text", []))
        later.machine = {"cores": 4}
        with pytest.raises(BenchmarkError, match="another machine: its cores is 2, not 4"):
            earlier.with_later(later)
        later.brokers = [BrokerFacts("hareline", "2.0")]
        with pytest.raises(BenchmarkError, match=r"was of 1\.0 and 3\.10\.8, not of 2\.0"):
            earlier.with_later(later)


class TestCompiledBuild:
    def found(self) -> Results:
        metric = Metric(
            "deliveries",
            "msg/s",
            Better.HIGHER,
            Target(Of.RATIO, 3.5),
            compiled_target=Target(Of.RATIO, 5.0),
        )
        runs = {"hareline": [400.0], "hareline-compiled": [450.0], "rabbitmq": [100.0]}
        scenario = ScenarioResult(
            "load_differing", "", [MetricResult(metric, runs)], stem="load", shape=Shape.DIFFERING
        )
        whole = one_run(scenario)
        whole.brokers.insert(1, BrokerFacts("hareline-compiled", "1.0", is_compiled=True))
        return whole

    def test_it_is_no_peer_and_is_judged_by_its_own_targets(self) -> None:
        found = self.found()
        assert (found.subject, found.compiled, found.peer) == (
            "hareline",
            "hareline-compiled",
            "rabbitmq",
        )
        verdicts = found.verdicts()
        assert [(each.broker.name, each.target.bound, each.is_met) for each in verdicts] == [
            ("hareline", 3.5, True),
            ("hareline-compiled", 5.0, False),
        ]

    def test_without_rabbitmq_there_is_no_peer(self) -> None:
        found = self.found()
        del found.brokers[2]
        assert found.peer is None
        assert not found.verdicts()

    def test_shapes_builds_and_their_targets_are_kept(self, tmp_path: Path) -> None:
        file = tmp_path / "run.json"
        self.found().save(file)
        assert results.load(file) == self.found()
        (metric,) = json.loads(file.read_text())["scenarios"][0]["metrics"]
        assert metric["compiled_ratio"] == 4.5
        assert (metric["met"], metric["compiled_met"]) == (True, False)
