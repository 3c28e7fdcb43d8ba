"""The command line: choosing, listing, refusing, and what becomes of earlier runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.macro import __main__ as command
from benchmarks.macro import results, scenarios
from benchmarks.macro.__main__ import main
from benchmarks.macro.report import BEGIN, END
from hareline.testing import running_broker


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["--list", *arguments]) == 0
    return [line.split()[0] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.acceptance
def test_names_are_unique_and_carry_their_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    names = listed(capsys)
    assert len(set(names)) == len(names) == len(scenarios.full())
    assert {
        "confirm_window_5000_100B_any",
        "idle_connections_2000",
        "deep_queue_1000000_100B",
    } <= set(names)


def test_quick_scenarios_of_another_size_have_another_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert {"idle_connections_200", "deep_queue_100000_100B"} <= set(listed(capsys, "--quick"))


@pytest.mark.acceptance
def test_scenarios_are_chosen_by_part_and_by_pattern(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = listed(capsys, "--scenario", "fanout", "autoack_*iB_any", "--scenario", "1MiB")
    assert chosen == [
        "fanout_1_to_10_100B_differing",
        "fanout_1_to_10_100B_any",
        "fanout_1_to_10_100B_alike",
        "curve_fanout",
        "fanout_flood_20_to_1000_queues_8s_16B",
        "persistent_fanout_1_to_10_1KiB",
        "autoack_1x1_1KiB_any",
        "autoack_1x1_16KiB_any",
        "autoack_1x1_1MiB_any",
        "autoack_1x1_1MiB_differing",
        "autoack_1x1_1MiB_alike",
    ]


def test_queue_types_are_chosen_with_the_fifo_figure_they_are_compared_with(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = listed(capsys, "--queue-types")
    assert names[0] == "autoack_1x1_100B_alike"
    assert len(names) == 15
    assert all(name.startswith(("queue_", "backlog_")) for name in names[1:])
    assert listed(capsys, "--queue-types", "--scenario", "sorted") == [
        "queue_sorted_10000_keys_100B",
        "backlog_sorted_1000000_100B",
    ]


@pytest.mark.acceptance
def test_durable_scenarios_are_chosen_apart_and_with_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = listed(capsys, "--durable")
    assert len(names) == 7 * 3 + 2 + 6
    assert all(name.startswith(("persistent_", "recovery_", "journal_")) for name in names)
    assert listed(capsys, "--durable", "--queue-types") == [
        *listed(capsys, "--queue-types"),
        *names,
    ]


def test_shapes_are_chosen_and_nothing_without_a_shape_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = listed(capsys, "--shapes", "differing", "any")
    assert len(names) == 2 * 19 + 2
    assert all(name.endswith(("_differing", "_any")) for name in names)
    assert listed(capsys, "--shapes", "any", "--scenario", "confirm_window") == [
        "confirm_window_5000_100B_any",
        "persistent_confirm_window_5000_100B_any",
        "persistent_confirm_window_5000_1KiB_any",
    ]


@pytest.mark.acceptance
def test_what_takes_long_is_run_only_if_it_is_asked_for() -> None:
    def run(*arguments: str) -> list[str]:
        options = command.make_parser().parse_args(arguments)
        return [scenario.name for scenario in command.sections(options)]

    usual = run()
    assert {"curve_backlog", "latency_transient_half_capacity_100B"} <= set(usual)
    assert not any(name.startswith(("queue_", "backlog_", "recovery_")) for name in usual)
    assert set(run("--all")) == {scenario.name for scenario in scenarios.full()} > set(usual)
    assert "queue_priority_11_levels_100B" in run("--scenario", "queue_priority")
    assert "recovery_1000000_1KiB" in run("--durable")


def test_the_deepest_backlog_is_a_point_of_its_curve_when_asked_for() -> None:
    for deepest in (False, True):
        (curve,) = [s for s in scenarios.full(with_deepest=deepest) if s.name == "curve_backlog"]
        points = [metric.name for metric in curve.metrics if metric.unit == "us/msg"]
        assert points == ["1,000", "100,000", *(["10,000,000"] if deepest else [])]


@pytest.mark.parametrize(
    ("arguments", "depth"),
    [
        ((), 10_000_000),
        (("--quick",), 200_000),
        (("--durable-depth", "30000"), 30_000),
        (("--quick", "--durable-depth", "40000"), 40_000),
    ],
)
def test_the_deep_durable_queue_is_as_deep_as_asked_for(
    arguments: tuple[str, ...], depth: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = listed(capsys, *arguments, "--scenario", "persistent_deep_queue")
    assert found == [f"persistent_deep_queue_{depth}_1KiB"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--scenario", "nothing_like_it"], "no scenario is called 'nothing_like_it'"),
        (["--name", "x"], "belong to a --url"),
        (["--url", "amqp://a", "--url", "amqp://b", "--name", "x"], "as many --name and --pid"),
        (["--url", "amqp://a", "--url", "amqp://b", "--name", "x", "--name", "x"], "of its own"),
        (["--url", "amqp://a", "--compiled", "python"], "does not go with --url"),
        (["--shapes", "round"], "invalid choice: 'round'"),
        (["--rounds", "0"], "0 is not above 0"),
        (["--durable-depth", "0"], "0 is not above 0"),
        (["--seconds", "-1"], "-1 is not above 0"),
        (["--merge", "no-such-run.json"], "No such file or directory: 'no-such-run.json'"),
        (["--merge", "no-such-run.json", "--quick"], "--quick is too short for --merge"),
    ],
)
def test_a_wrong_call_is_refused_with_its_reason(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert text in capsys.readouterr().err


def test_a_page_is_written_again_from_an_earlier_run(tmp_path: Path) -> None:
    run = tmp_path / "run.json"
    run.write_text(
        """{"schema": 1, "started": "2026-01-02T03:04:05+00:00", "finished": "", "machine": {},
        "options": {"rounds": 1, "seconds": 1.0}, "brokers": [{"name": "a", "version": "1"}],
        "scenarios": [{"name": "one", "summary": "", "details": {}, "cores": {}, "errors": {},
        "skipped": null, "metrics": [{"name": "rate", "unit": "msg/s", "better": "higher",
        "target": null, "runs": {"a": [12345.0]}}]}]}"""
    )
    page = tmp_path / "page.md"
    assert main(["--render", str(run), "--report", str(page)]) == 0
    text = page.read_text()
    assert "| `one` | rate, msg/s | 12,345 |" in text
    assert text.index(BEGIN) < text.index("12,345") < text.index(END)


@pytest.mark.acceptance
def test_what_is_measured_later_is_merged_into_an_earlier_run_and_its_page(tmp_path: Path) -> None:
    run, page = tmp_path / "run.json", tmp_path / "page.md"
    with running_broker() as url:
        call = ["--url", url, "--name", "here", "--rounds", "1", "--seconds", "0.02"]
        first = ["--json", str(run), "--scenario", "get_polling", "ack_single_prefetch_1_"]
        assert main([*call, *first]) == 0
        later = [
            "--merge",
            str(run),
            "--report",
            str(page),
            "--scenario",
            "get_polling",
            "*tx_of*any",
        ]
        assert main([*call, *later]) == 0
        other = ["--merge", str(run), "--name", "other", "--scenario", "get_polling"]
        assert main([*call[:2], *other]) == 1
    merged = results.load(run)
    assert [(s.name, s.origin is None) for s in merged.scenarios] == [
        ("get_polling_100B", False),
        ("ack_single_prefetch_1_100B", True),
        ("persistent_tx_of_100_100B_any", False),
    ]
    text = page.read_text()
    assert "`ack_single_prefetch_1_100B`" in text
    assert "- `persistent_tx_of_100_100B_any` was measured in another run: " in text


def test_a_broker_that_is_not_there_is_told_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    # port 1 on loopback: nobody may listen there unprivileged, so the connection is refused
    assert main(["--url", "amqp://127.0.0.1:1/", "--scenario", "get_polling"]) == 1
    assert "is not reachable" in capsys.readouterr().err
