"""The power goes after any operation of the disk: what is left is what some batch had.

The history of ``script`` is told once; after each operation of the disk a copy of it loses its
power, once forgetting all that was never synced and once keeping a part of it, and a broker that
starts on that copy is held against the witness.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from traceback import format_exception

import pytest

from hareline.storage.definitions.sqlite import SqliteDefinitions
from tests.crash.forgetful_files import ForgetfulFiles, Operation, PowerLoss
from tests.crash.machine import Machine, Options, WatchedFiles, Witness
from tests.crash.script import Script


@pytest.fixture
def definitions(tmp_path: Path) -> Iterator[SqliteDefinitions]:
    definitions = SqliteDefinitions(tmp_path / "definitions.sqlite")
    yield definitions
    definitions.close()


class Watcher:
    """Crashes copies of the disk; ``every`` so many of them go on to live, and end well."""

    def __init__(
        self, files: WatchedFiles, definitions: SqliteDefinitions, options: Options
    ) -> None:
        self._files = files
        self._definitions = definitions
        self._options = options
        self.count = 0
        self.problems: list[str] = []
        self.machine: Machine | None = None
        self.witness: Witness | None = None

    def start(self) -> Machine:
        self.machine = Machine(self._files, self._definitions, self._options)
        self.witness = Witness(self.machine)
        self._files.on_operation = self._on_operation
        return self.machine

    def _on_operation(self, operation: Operation) -> None:
        assert self.machine is not None
        assert self.witness is not None
        self.count += 1
        for keep in (None, Random(self.count)):
            twin = self._files.clone(keep)
            try:
                self._look_at(twin)
            except Exception as error:
                forgotten = "all" if keep is None else "a part"
                self.problems.append(
                    f"operation {self.count}, {operation}, {forgotten} of what was not synced is "
                    f"forgotten: {''.join(format_exception(error))}"
                )
                self._files.on_operation = None
                return

    def _look_at(self, twin: ForgetfulFiles) -> None:
        assert self.witness is not None
        recovered = self._recover(twin)
        self.witness.check(recovered)
        if self.count % 8 == 0:
            self._live_on(recovered)
        if self.count % 4 == 1:
            self._kill_before(Random(self.count) if self.count % 8 == 1 else None)
        if self.count % 16 == 3:
            self._crash_again(self._files.clone(Random(self.count)))

    def _recover(self, files: ForgetfulFiles) -> Machine:
        assert self.machine is not None
        return Machine(files, self._definitions, self._options, self.machine.timers.clock.now_ms)

    def _live_on(self, machine: Machine) -> None:
        """What was recovered is durable, and new messages take their place behind it."""
        witness = Witness(machine)
        machine.settle_down()
        machine.files.crash()
        machine = self._recover(machine.files)
        witness.check(machine)
        if "line" not in machine.vhost.queues:
            return
        machine.publish("", "line", b"one more")
        machine.settle_down()
        before = machine.state()
        machine.stop()
        machine.files.crash()
        after = self._recover(machine.files).state()
        assert after == before

    def _kill_before(self, keep: Random | None) -> None:
        """Killed, and what was never synced is read by the next broker; then the power goes."""
        assert self.witness is not None
        machine = self._recover(self._files.clone_running())
        self.witness.check(machine)
        witness = Witness(machine)
        machine.settle_down()
        machine.files.crash(keep)
        witness.check(self._recover(machine.files))

    def _crash_again(self, files: ForgetfulFiles) -> None:
        """The power goes once more at some operation of the recovery."""
        assert self.witness is not None
        files.crash_after = 1 + self.count // 16 % 12
        try:
            machine = self._recover(files)
            machine.settle_down()
        except PowerLoss:
            pass
        files.crash(Random(self.count))
        self.witness.check(self._recover(files))


@pytest.mark.row("D8")
@pytest.mark.parametrize(("retention_bytes", "linger_ms"), [(0, 0), (100_000, 0), (0, 5)])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.acceptance)])
def test_any_operation_of_the_disk_may_be_the_last(
    definitions: SqliteDefinitions, seed: int, retention_bytes: int, linger_ms: int
) -> None:
    files = WatchedFiles()
    options = Options(retention_bytes=retention_bytes, linger_ms=linger_ms)
    watcher = Watcher(files, definitions, options)
    machine = watcher.start()
    Script(seed).tell(machine)
    assert not watcher.problems, watcher.problems[0]
    store = machine.store
    print(
        f"{watcher.count} crashes, {store.freed_segments} segments freed, "
        f"{store._compactor.moved_bytes} octets moved, {store._builder.forwarded_bytes} forwarded"
    )
    assert store.freed_segments
    assert store._compactor.moved_bytes
    assert not machine.failures
    assert not machine.reports
