"""Which measurements of the HTTP API there are, and that they ask for what the UI asks for."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request

from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.report import BEGIN
from benchmarks.macro.scenario import Bench, Of
from benchmarks.management import pages, stage
from benchmarks.management.__main__ import PROGRAM, main
from benchmarks.management.asking import Ask, Asker
from benchmarks.management.scenarios import Browse, OpenPage, SortedPages, WholeList, scenarios
from hareline.management.api.call import Call
from hareline.management.api.connections import channel_keys, connection_keys, consumer_keys
from hareline.management.api.exchanges import exchange_keys
from hareline.management.api.queues import Queues
from hareline.management.api.rates import Rates
from hareline.statistics.unacked import Deliveries
from tests.support.broker_process import BrokerProcess

LISTS = ("queues", "consumers", "channels", "connections", "exchanges")


def test_each_bar_is_a_target_of_its_own_number() -> None:
    bounds = {
        (scenario.name, metric.target.bound)
        for scenario in scenarios(is_quick=False)
        for metric in scenario.metrics
        if metric.target is not None and metric.target.of is Of.VALUE
    }
    for load in ("idle", "full_load"):
        assert (f"list_1000_queues_{load}", 150) in bounds
        assert (f"page_of_10000_queues_{load}", 250) in bounds
        assert (f"browse_end_of_1000000_{load}", 100) in bounds
    assert ("open_queues_10000_queues", 10) in bounds


def test_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [scenario.name for scenario in scenarios(is_quick=False)]


def test_the_page_has_room_for_the_tables() -> None:
    assert BEGIN in PROGRAM.page.read_text(encoding="utf-8")


def test_sorts_are_those_of_the_ui() -> None:
    found = pages.offered_sorts("queues")
    assert {"name", "messages", "messages_details.rate", "message_bytes"} <= set(found)
    assert not {"curve", "why"} & set(found)  # columns without a sort
    for name in LISTS:
        assert len(pages.offered_sorts(name)) >= 5, name


@pytest.mark.parametrize("name", LISTS)
def test_no_list_is_described_whole_to_be_sorted_as_the_ui_does(name: str) -> None:
    request = Request({"type": "http", "query_string": b"", "headers": []})
    site = cast("Any", _Site())
    call = Call(site, request, cast("Any", None))
    rates = Rates(call)
    keys: dict[str, set[str]] = {
        "queues": {*Queues(call).keys()},
        "consumers": {*consumer_keys(site, Deliveries())},
        "channels": {*channel_keys(rates)},
        "connections": {*connection_keys(rates)},
        "exchanges": {*exchange_keys(rates)},
    }
    assert set(pages.offered_sorts(name)) <= keys[name]


class _Site:
    sampler = None
    node = SimpleNamespace(name="")
    context = SimpleNamespace(clock=None)


def test_pages_ask_for_routes_that_their_modules_name() -> None:
    asked = {
        "overview.js": pages.overview("hareline@here")[:-1],
        "queues.js": pages.queues()[:1],
        "consumers.js": pages.consumers()[:1],
        "queue.js": pages.one_queue("q")[:-1],
        "dead_letters.js": pages.dead_letters()[:1],
        "near_limits.js": pages.near_limits()[:1],
    }
    for module, asks in asked.items():
        text = (pages.UI / "pages" / module).read_text(encoding="utf-8")
        for ask in asks:
            stem = ask.path.removeprefix("/api").split("?")[0]
            first = re.match(r"/(?:hareline/)?[a-z-]+", stem)
            assert first is not None
            assert first[0] in text, (module, ask.path)


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    process = BrokerProcess(tmp_path)
    process.start()
    broker = cast("Any", _Broker(process))
    try:
        assert process.process is not None
        yield Bench(process.url, process.process.pid, 0.3, broker)
    finally:
        process.stop()


class _Broker:
    """What scenarios ask of a broker of the benchmark."""

    def __init__(self, process: BrokerProcess) -> None:
        self.management_url = f"http://127.0.0.1:{process.management_port}"


@pytest.mark.acceptance
def test_answers_are_timed_idle_and_under_load(bench: Bench) -> None:
    for is_loaded in (False, True):
        found = WholeList(5, is_loaded=is_loaded).run(bench)
        assert found.values["p99, all of them"] > 0
        assert found.details["all of them: requests"] >= 1
        assert ("messages per second meanwhile" in found.details) is is_loaded


@pytest.mark.acceptance
def test_a_page_by_each_sort_and_the_end_of_a_queue(bench: Bench) -> None:
    for name in ("queues", "consumers", "channels", "connections"):
        scenario = SortedPages(name, 3, is_loaded=False)
        found = scenario.run(bench)
        assert set(found.values) == {metric.name for metric in scenario.metrics}
    assert Browse(30, is_loaded=False).run(bench).values["p99, the end"] > 0


@pytest.mark.acceptance
def test_a_page_beside_a_full_load(bench: Bench) -> None:
    scenario = OpenPage("overview", "", 3, lambda node, _: pages.overview(node))
    found = scenario.run(bench)
    assert set(found.values) == {metric.name for metric in scenario.metrics}
    assert found.details["msg/s without"] > 0


@pytest.mark.acceptance
def test_dead_letters_are_there_before_they_are_asked_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "DEAD_QUEUES", 2)
    monkeypatch.setattr(stage, "DEAD_MESSAGES", 3)
    assert bench.broker is not None
    with stage.dead_letters(bench), Asker(bench.broker.management_url) as asker:
        [times] = asker.times(pages.dead_letters()[:1], 0)
    assert len(times) == 1


@pytest.mark.acceptance
def test_an_answer_that_is_no_success_does_not_count(bench: Bench) -> None:
    assert bench.broker is not None
    with Asker(bench.broker.management_url) as asker, pytest.raises(BenchmarkError, match="404"):
        asker.times([Ask("/api/nothing")], 0)
