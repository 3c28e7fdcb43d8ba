"""What the system says of this process."""

from __future__ import annotations

import os
from pathlib import Path

from hareline.net.loop_watch import LoopWatch
from hareline.net.node import open_descriptors, read_node
from tests.support.turns import ManualTurn


def test_open_descriptors_are_counted() -> None:
    before = open_descriptors()
    pipe = os.pipe()
    try:
        assert open_descriptors() == before + 2
    finally:
        for each in pipe:
            os.close(each)


def test_they_are_listed_where_their_directory_has_no_size(tmp_path: Path) -> None:
    assert open_descriptors(tmp_path / "missing") == -1


def test_the_process_as_it_is(tmp_path: Path) -> None:
    watch = LoopWatch(ManualTurn())
    watch.lag.add(0.002)
    watch.turns.add(0.001)
    facts = read_node(watch, tmp_path, sockets=3)
    assert facts.mem_used > 1_000_000
    assert 0 < facts.fd_used <= facts.fd_total
    assert facts.sockets_used == 3
    assert facts.disk_free > 0
    assert (facts.loop_lag_us, facts.loop_lag_max_us, facts.turn_max_us) == (2000, 2000, 1000)
    again = read_node(watch, None, sockets=0)
    assert (again.loop_lag_us, again.loop_lag_max_us, again.disk_free) == (2000, 0, -1)
    assert read_node(watch, tmp_path / "missing", sockets=0).disk_free == -1
