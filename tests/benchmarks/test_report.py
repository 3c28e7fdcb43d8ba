"""The generated tables, the page they are written into, and the bars of the plot."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.macro import plot, report
from benchmarks.macro.results import BrokerFacts, MetricResult, Results, ScenarioResult
from benchmarks.macro.scenario import (
    DURABLE_SECTION,
    FLOOD_SECTION,
    LATENCY_SECTION,
    Better,
    Metric,
    Of,
    Target,
)
from benchmarks.macro.shapes import Shape

RATE = Metric("deliveries", "msg/s", Better.HIGHER, Target(Of.RATIO, 4.0))
P50 = Metric("p50", "ms", Better.LOWER)
P99 = Metric("p99", "ms", Better.LOWER, Target(Of.RATIO, 1.0))
MEMORY = Metric("RSS", "KB", Better.LOWER, Target(Of.VALUE, 40.0))


def results(*scenarios: ScenarioResult, peer: bool = True) -> Results:
    brokers = [BrokerFacts("hareline", "Hareline 0.1.0")]
    if peer:
        brokers.append(BrokerFacts("rabbitmq", "RabbitMQ 3.10.8"))
    return Results(
        started="2026-01-02T03:04:05+00:00",
        finished="2026-01-02T03:14:05+00:00",
        machine={
            "processor": "Some CPU",
            "cores": 2,
            "memory_gib": 7.8,
            "kernel": "6.1",
            "python": "CPython 3.11.7",
            "uvloop": "0.21.0",
            "commit": "abc1234",
        },
        options={"rounds": 3, "seconds": 5.0},
        brokers=brokers,
        scenarios=list(scenarios),
    )


def speed(ours: float = 500_000.0, theirs: float = 100_000.0) -> ScenarioResult:
    return ScenarioResult(
        "autoack_1x1_100B_alike",
        "text",
        [MetricResult(RATE, {"hareline": [ours], "rabbitmq": [theirs]})],
        cores={
            "generator": {"hareline": [0.1], "rabbitmq": [0.08]},
            "broker": {"hareline": [1.0], "rabbitmq": [1.6]},
        },
    )


def latency() -> ScenarioResult:
    return ScenarioResult(
        "latency_5000_per_s_100B",
        "text",
        [
            MetricResult(P50, {"hareline": [0.1], "rabbitmq": [0.2]}),
            MetricResult(P99, {"hareline": [3.0], "rabbitmq": [1.5]}),
        ],
    )


def rows_of(text: str, name: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith(f"| `{name}`")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


class TestRender:
    def test_a_row_has_both_numbers_their_ratio_and_the_verdict(self) -> None:
        text = report.render(results(speed()), "benchmarks.svg")
        assert rows_of(text, "autoack_1x1_100B_alike")[0] == [
            "`autoack_1x1_100B_alike`",
            "deliveries, msg/s",
            "500,000",
            "100,000",
            "5.00",
            "ratio ≥ 4",
            "met",
        ]

    def test_a_missed_target_is_named_with_the_number_it_missed_by(self) -> None:
        text = report.render(results(speed(), latency()), None)
        assert "1 of 2 targets met." in text
        assert "- missed: `latency_5000_per_s_100B`, p99: 2 where the target is ratio ≤ 1" in text

    def test_every_table_has_as_many_cells_in_each_row_as_in_its_head(self) -> None:
        text = report.render(results(speed(), latency()), None)
        tables = [part.splitlines() for part in text.split("\n\n") if part.startswith("|")]
        assert len(tables) == 2
        for lines in tables:
            assert len({line.count("|") for line in lines}) == 1

    def test_work_done_per_core_second_is_told_for_rates(self) -> None:
        row = rows_of(report.render(results(speed()), None), "autoack_1x1_100B_alike")[1]
        assert row[1:] == ["1.00", "0.10", "1.60", "0.08", "500,000", "62,500"]

    def test_without_a_peer_there_is_no_ratio_and_values_are_still_judged(self) -> None:
        scenario = ScenarioResult("idle", "text", [MetricResult(MEMORY, {"hareline": [41.0]})])
        text = report.render(results(scenario, peer=False), None)
        assert rows_of(text, "idle")[0][1:] == ["RSS, KB", "41", "≤ 40 KB", "**missed**"]
        assert "Ratio" not in text

    def test_a_section_without_targets_has_no_columns_for_them(self) -> None:
        plain = ScenarioResult(
            "plain", "text", [MetricResult(P50, {"hareline": [0.1], "rabbitmq": [0.2]})]
        )
        text = report.render(results(plain), None)
        assert "| Scenario | Measured | Hareline | RabbitMQ | Ratio |\n" in text
        assert rows_of(text, "plain") == [["`plain`", "p50, ms", "0.1", "0.2", "0.50"]]

    def test_failures_skips_and_disturbances_are_told(self) -> None:
        failed = speed()
        failed.errors = {"rabbitmq": ["lost one\nand more"]}
        failed.cores["others"] = {"hareline": [0.9], "rabbitmq": [0.01]}
        skipped = ScenarioResult("idle", "text", [MetricResult(MEMORY)], skipped="no process")
        text = report.render(results(failed, skipped), None)
        assert "- `autoack_1x1_100B_alike` failed 1 x on RabbitMQ: lost one" in text
        assert "- `idle` was skipped: no process." in text
        assert "**The machine was not quiet**" in text
        assert "Cores they took: `autoack_1x1_100B_alike` 0.90." in text

    def test_a_quiet_machine_is_not_remarked_on(self) -> None:
        quiet = speed()
        quiet.cores["others"] = {"hareline": [0.02, 0.9, 0.03], "rabbitmq": [0.01]}
        assert "not quiet" not in report.render(results(quiet), None)

    def test_the_disk_is_told_where_it_was_looked_at(self) -> None:
        found = results(speed())
        assert "fdatasync" not in report.render(found, None)
        found.machine = {**found.machine, "file_system": "ext4", "fdatasync_ms": 0.19}
        text = report.render(found, None)
        assert "uvloop 0.21.0, data on ext4 with an fdatasync of 4 KiB in 0.19 ms. Medi" in text

    def test_durable_messages_have_a_table_of_their_own(self) -> None:
        scenario = latency()
        scenario.section = DURABLE_SECTION
        text = report.render(results(speed(), scenario), None)
        own = text[text.index("## Durable messages") :]
        assert "delivery mode 2" in own
        assert text.index("## Results") < text.index("`autoack") < text.index("## Durable")
        assert "`latency_5000_per_s_100B`" in own.split("## ")[1]

    def test_the_flood_has_a_table_of_its_own_and_says_when_it_ends_early(self) -> None:
        scenario = latency()
        scenario.section = FLOOD_SECTION
        text = report.render(results(speed(), scenario), None)
        own = text[text.index("## Fan-out flood") :].split("## ")[1]
        assert "Resident memory above 5 GB ends a flood early" in own
        assert "not gone 60 s after SIGTERM, or passes 6 GB meanwhile, is killed" in own
        assert "`latency_5000_per_s_100B`" in own

    def test_remarks_and_another_origin_are_told(self) -> None:
        scenario = speed()
        scenario.remarks = {"rabbitmq": ["it was killed"]}
        scenario.origin = "2026-03-04, commit fff0000, rounds: 3"
        text = report.render(results(scenario), None)
        assert "- `autoack_1x1_100B_alike` on RabbitMQ: it was killed.\n" in text
        assert (
            "- `autoack_1x1_100B_alike` was measured in another run: "
            "2026-03-04, commit fff0000, rounds: 3.\n" in text
        )

    def test_machine_and_commit_stand_above_the_numbers(self) -> None:
        first_line = report.render(results(speed()), None).splitlines()[0]
        assert first_line.startswith("Hareline 0.1.0 against RabbitMQ 3.10.8, 2026-01-02,")
        assert "commit abc1234" in first_line
        assert "Some CPU, 2 cores, 7.8 GiB" in first_line
        assert "3 alternating rounds of 5 s" in first_line


def shaped(shape: Shape, ours: float, compiled: float | None = None) -> ScenarioResult:
    runs = {"hareline": [ours], "rabbitmq": [100_000.0]}
    if compiled is not None:
        runs["hareline-compiled"] = [compiled]
    metric = Metric(
        "deliveries",
        "msg/s",
        Better.HIGHER,
        Target(Of.RATIO, 3.5),
        compiled_target=Target(Of.RATIO, 5.0),
    )
    return ScenarioResult(
        f"load_{shape.value}", "", [MetricResult(metric, runs)], stem="load", shape=shape
    )


def with_compiled(*scenarios: ScenarioResult) -> Results:
    found = results(*scenarios)
    found.brokers.insert(1, BrokerFacts("hareline-compiled", "Hareline 0.1.0", is_compiled=True))
    return found


class TestShapes:
    def test_the_summary_quotes_what_differs_and_has_a_ratio_for_each_shape(self) -> None:
        text = report.render(
            results(
                shaped(Shape.DIFFERING, 2e5), shaped(Shape.ANY, 1.5e5), shaped(Shape.ALIKE, 6e5)
            ),
            None,
        )
        summary = text[text.index("## Summary") : text.index("## Results")]
        assert rows_of(summary, "load") == [
            ["`load`", "deliveries, msg/s", "200,000", "100,000", "2.00", "1.50", "6.00"]
        ]
        assert "Ratio, differing | Ratio, any | Ratio, alike" in summary

    def test_each_shape_has_a_table_and_that_of_what_differs_is_the_first(self) -> None:
        text = report.render(
            results(shaped(Shape.ALIKE, 6e5), shaped(Shape.DIFFERING, 2e5), speed()), None
        )
        places = [
            text.index(part)
            for part in (
                "### Messages that differ",
                "| `load_differing`",
                "### Messages that are alike",
                "| `load_alike`",
                "### Other loads",
                "| `autoack",
            )
        ]
        assert places == sorted(places)

    def test_without_shapes_there_is_neither(self) -> None:
        text = report.render(results(speed()), None)
        assert "## Summary" not in text
        assert "### " not in text
        assert "Messages that differ" not in text

    def test_a_compiled_build_stands_beside_the_pure_one_with_targets_of_its_own(self) -> None:
        text = report.render(with_compiled(shaped(Shape.DIFFERING, 3.6e5, 4.9e5)), None)
        assert text.startswith(
            "Pure and compiled builds of Hareline 0.1.0 against RabbitMQ 3.10.8,"
        )
        summary = text[text.index("## Summary") : text.index("## Results")]
        assert rows_of(summary, "load")[0][2:6] == ["360,000", "490,000", "100,000", "3.60 / 4.90"]
        table = text[text.index("## Results") : text.index("## Targets")]
        (row,) = rows_of(table, "load_differing")
        assert row[2:] == [
            "360,000",
            "490,000",
            "100,000",
            "3.60",
            "4.90",
            "ratio ≥ 3.5 / ratio ≥ 5",
            "met / **missed**",
        ]
        assert "1 of 2 targets met." in text
        assert (
            "- missed: `load_differing`, deliveries of Hareline compiled: 4.9 where the target is "
            "ratio ≥ 5" in text
        )

    def test_only_what_differs_has_a_bar(self) -> None:
        found = with_compiled(shaped(Shape.DIFFERING, 3.6e5, 4.9e5), shaped(Shape.ALIKE, 6e5, 9e5))
        assert plot.bars(found) == [plot.Bar("load_differing", 3.6, 3.5, 4.9)]

    def test_the_bars_are_drawn_with_the_compiled_build(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        found = with_compiled(shaped(Shape.DIFFERING, 3.6e5, 4.9e5))
        assert plot.draw(found, tmp_path / "plot.svg")
        assert "Hareline compiled" in (tmp_path / "plot.svg").read_text()

    def test_details_of_latency_stand_below_its_table(self) -> None:
        scenario = latency()
        scenario.section = LATENCY_SECTION
        scenario.details = {"long turns": {"hareline": [114.0]}}
        text = report.render(results(speed(), scenario), None)
        own = text[text.index("## Latency") : text.index("## Targets")]
        assert "| `latency_5000_per_s_100B` | long turns | 114 | - |" in own
        assert "## Also measured" not in text


class TestQueueTypes:
    def test_they_have_a_table_of_their_own_with_the_plain_fifo_figure(self) -> None:
        half = Metric("deliveries by FIFO's", "x", Better.HIGHER, Target(Of.VALUE, 0.5))
        sorted_queue = ScenarioResult(
            "queue_sorted",
            "text",
            [
                MetricResult(Metric("deliveries", "msg/s", Better.HIGHER), {"hareline": [2e5]}),
                MetricResult(half, {"hareline": [0.4]}),
            ],
            section="Queue types",
        )
        text = report.render(results(speed(), sorted_queue), None)
        before, _, after = text.partition("## Queue types")
        assert not rows_of(before, "queue_sorted")
        table = after.partition("## Targets")[0]
        assert not rows_of(table, "autoack_1x1_100B_alike")
        rate, ratio = rows_of(table, "queue_sorted")
        assert rate[1:] == ["deliveries, msg/s", "200,000", "-", "-", "", "", "0.40"]
        assert ratio[1:] == [
            "deliveries by FIFO's, x",
            "0.4",
            "-",
            "-",
            "≥ 0.5 x",
            "**missed**",
            "",
        ]
        assert "1 of 2 targets met." in after

    def test_without_the_plain_fifo_figure_there_is_no_column_for_it(self) -> None:
        metric = MetricResult(Metric("deliveries", "msg/s", Better.HIGHER), {"hareline": [2e5]})
        alone = ScenarioResult("queue_sorted", "text", [metric], section="Queue types")
        assert "| By plain FIFO |" not in report.render(results(alone), None)


class TestPage:
    def test_what_is_written_by_hand_stays(self, tmp_path: Path) -> None:
        page = tmp_path / "page.md"
        page.write_text(f"# Mine\n\n{report.BEGIN}\nold\n{report.END}\n\n## Profile\n\nmine too\n")
        report.write_into(page, results(speed()), "page.svg")
        text = page.read_text()
        assert text.startswith("# Mine\n")
        assert text.endswith(f"{report.END}\n\n## Profile\n\nmine too\n")
        assert "old" not in text
        assert "](page.svg)" in text

    def test_writing_twice_changes_nothing(self, tmp_path: Path) -> None:
        page = tmp_path / "docs" / "page.md"
        report.write_into(page, results(speed()), None)
        once = page.read_text()
        report.write_into(page, results(speed()), None)
        assert page.read_text() == once
        assert once.count(report.BEGIN) == 1

    @pytest.mark.parametrize(
        "text", ["", f"{report.BEGIN}\n", f"{report.END}\n{report.BEGIN}\n", report.BEGIN * 2]
    )
    def test_a_page_without_its_markers_is_left_alone(self, tmp_path: Path, text: str) -> None:
        page = tmp_path / "page.md"
        page.write_text(text)
        with pytest.raises(ValueError, match="the page needs"):
            report.write_into(page, results(speed()), None)
        assert page.read_text() == text


class TestBars:
    def test_a_bar_for_each_comparable_number_better_to_the_right(self) -> None:
        lonely = ScenarioResult("idle", "text", [MetricResult(MEMORY, {"hareline": [41.0]})])
        assert plot.bars(results(speed(), latency(), lonely)) == [
            plot.Bar("autoack_1x1_100B_alike", 5.0, 4.0),
            plot.Bar("latency_5000_per_s_100B: p50", 2.0, None),
            plot.Bar("latency_5000_per_s_100B: p99", 0.5, 1.0),
        ]

    def test_nothing_is_drawn_without_a_peer(self, tmp_path: Path) -> None:
        scenario = ScenarioResult("idle", "text", [MetricResult(MEMORY, {"hareline": [41.0]})])
        assert not plot.draw(results(scenario, peer=False), tmp_path / "plot.svg")
        assert not (tmp_path / "plot.svg").exists()
