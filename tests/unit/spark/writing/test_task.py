"""A task against a broker process: all rows arrive, and a task done again repeats its pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from hareline.spark.errors import InvalidOption, PublishRefused
from hareline.spark.writing.publisher import Publisher
from hareline.spark.writing.write_options import read_write_options
from tests.support.broker_process import BrokerProcess
from tests.support.sink_broker import bodies_in, declare, options_for, take_all

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

import pyarrow as pa

from hareline.spark.writing import task as task_module
from hareline.spark.writing.task import (
    Pace,
    PartitionPlace,
    pieces_of,
    share_of,
    tasks_at_once,
    write_partition,
)

COLUMNS = ["body", "routing_key"]


def batches_of(queue: str, *sizes: int) -> list[Any]:
    made, first = [], 0
    for size in sizes:
        bodies = [b"%d" % number for number in range(first, first + size)]
        made.append(pa.RecordBatch.from_pydict({"body": bodies, "routing_key": [queue] * size}))
        first += size
    return made


def write(broker: BrokerProcess, batches: Any, place: PartitionPlace, **options: str) -> Any:
    checked = read_write_options(options_for(broker, **options), {})
    return write_partition(batches, COLUMNS, checked, place)


@pytest.fixture
def place() -> PartitionPlace:
    """A partition that the broker has not seen before: it knows repeated rows by their place."""
    return PartitionPlace(0, f"spark/{uuid4()}/0", settings={"spark.master": "local[2]"})


def test_rows_of_all_batches_arrive_in_order(broker: BrokerProcess, place: PartitionPlace) -> None:
    declare(broker, "rows")
    batches = batches_of("rows", 0, 5000, 1, 0, 700)
    assert write(broker, batches, place) == (5701, 0)
    assert bodies_in(broker, "rows") == [b"%d" % number for number in range(5701)]


def test_a_partition_without_rows_needs_no_broker(place: PartitionPlace) -> None:
    nowhere = BrokerProcess.__new__(BrokerProcess)
    nowhere.host, nowhere.port, nowhere.username = "127.0.0.1", 1, "guest"
    assert write(nowhere, batches_of("none", 0), place) == (0, 0)


def test_a_task_that_fails_and_is_done_again_repeats_its_pairs(
    broker: BrokerProcess, place: PartitionPlace
) -> None:
    """So the broker leaves out what it has, and has each row once."""
    declare(broker, "again")
    batches = batches_of("again", 300, 300)

    def failing() -> Iterator[Any]:
        yield batches[0]
        raise OSError("the executor was lost")

    with pytest.raises(OSError, match="lost"):
        write(broker, failing(), place, maxInFlight="8")
    first = take_all(broker, "again")
    assert 292 <= len(first) <= 300  # what was in flight may be lost with the connection
    write(broker, batches, place, maxInFlight="8")
    rows = [*first, *take_all(broker, "again")]
    assert sorted(int(body) for _, _, body in rows) == list(range(600))
    pairs = {(each.headers["x-producer-id"], each.headers["x-producer-seq"]) for _, each, _ in rows}
    assert len(pairs) == 600


def test_without_dedup_the_rows_of_a_failed_task_come_twice(
    broker: BrokerProcess, place: PartitionPlace
) -> None:
    declare(broker, "twice")
    for _ in range(2):
        write(broker, batches_of("twice", 50), place, dedup="none")
    assert bodies_in(broker, "twice") == 2 * [b"%d" % number for number in range(50)]


def test_unroutable_rows_fail_the_task_or_are_counted(
    broker: BrokerProcess, place: PartitionPlace
) -> None:
    batches = batches_of("nowhere", 10)
    with pytest.raises(PublishRefused, match=r"returned 10 messages: 312 .*'nowhere'"):
        write(broker, batches, place)
    dropped = write(broker, batches, place, onUnroutable="drop")
    assert dropped == (0, 10)


def test_the_rate_is_kept(
    broker: BrokerProcess, place: PartitionPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All waits are counted instead of waited for: a clock that only they move."""
    declare(broker, "paced")
    now = 0.0
    waits: list[float] = []

    def wait(_: object, seconds: float) -> None:
        nonlocal now
        now += seconds
        waits.append(seconds)

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return now

    monkeypatch.setattr(task_module, "time", Clock)
    monkeypatch.setattr(Publisher, "wait", wait)
    write(broker, batches_of("paced", 1000), place, maxRate="1000")
    assert now == pytest.approx(2.0)  # half of the rate, since two tasks share it
    assert len(waits) == 40
    assert len(bodies_in(broker, "paced")) == 1000


def test_speculation_is_refused_before_anything_is_published(broker: BrokerProcess) -> None:
    declare(broker, "speculated")
    place = PartitionPlace(0, "p", settings={"spark.speculation": "true"})
    with pytest.raises(InvalidOption, match=r"spark\.speculation=false"):
        write(broker, batches_of("speculated", 1), place)
    assert bodies_in(broker, "speculated") == []


def test_a_batch_is_cut_by_rows_and_by_octets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_module, "_ROWS_AT_ONCE", 4)
    monkeypatch.setattr(task_module, "_OCTETS_AT_ONCE", 1000)
    small = pa.RecordBatch.from_pydict({"body": [b""] * 10})
    assert [piece.num_rows for piece in pieces_of(small)] == [4, 4, 2]
    large = pa.RecordBatch.from_pydict({"body": [bytes(2000)] * 3})
    assert [piece.num_rows for piece in pieces_of(large)] == [1, 1, 1]
    assert list(pieces_of(small.slice(0, 0))) == []


def test_rows_come_evenly_at_the_rate() -> None:
    pace = Pace(1000, start=0.0)
    now = 0.0
    rows = 0
    while rows < 5000:
        now += pace.wait_after(pace.portion, now)
        rows += pace.portion
        assert rows <= 1000 * now + pace.portion
    assert now == pytest.approx(5.0)


def test_a_slow_rate_waits_row_by_row() -> None:
    pace = Pace(0.5, start=0.0)
    assert pace.portion == 1
    assert pace.wait_after(1, 0.0) == 2.0
    assert pace.wait_after(1, 2.0) == 2.0


def test_a_pause_is_not_made_up_for() -> None:
    pace = Pace(100, start=0.0)
    assert pace.wait_after(100, 60.0) == 0.0
    assert pace.wait_after(100, 60.0) == 1.0


def test_a_task_that_is_a_little_behind_does_not_wait() -> None:
    pace = Pace(100, start=0.0)
    assert pace.wait_after(100, 1.5) == 0.0
    assert pace.wait_after(100, 1.5) == 0.5


@pytest.mark.parametrize(
    ("settings", "tasks"),
    [
        ({"spark.master": "local"}, 1),
        ({"spark.master": "local[3]"}, 3),
        ({"spark.master": "local[2,4]"}, 2),
        ({"spark.master": "local[*]"}, 8),
        ({"spark.master": "local[*,4]"}, 8),
        ({"spark.master": "spark://host", "spark.cores.max": "6"}, 6),
        ({"spark.executor.instances": "3", "spark.executor.cores": "4"}, 12),
        ({"spark.executor.instances": "3"}, 3),
        ({"spark.master": "spark://host"}, None),
        ({}, None),
    ],
)
def test_tasks_at_once_are_read_from_the_settings(
    settings: dict[str, str], tasks: int | None
) -> None:
    assert tasks_at_once(settings, processors=8) == tasks


def test_the_rate_is_shared_by_the_tasks_that_run_at_once() -> None:
    assert share_of(1000, None, {"spark.master": "local[4]"}, 2) == 250
    assert share_of(1000, 10, {"spark.master": "local[4]"}, 2) == 100


def test_an_unknown_number_of_tasks_asks_for_the_option() -> None:
    with pytest.raises(InvalidOption, match="give maxRateTasks"):
        share_of(1000, None, {"spark.master": "spark://host"}, 2)
