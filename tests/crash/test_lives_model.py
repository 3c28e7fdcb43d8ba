"""Any order of what clients do, turns, steps of the disk, crashes and orderly ends.

Unlike the script it has many lives: what a recovery has made of a journal is what the next one
finds. After a crash the witness must recognise what is there; after an orderly end it is exactly
what was there, delivery counts included.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from random import Random
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from hareline.storage.definitions.sqlite import SqliteDefinitions
from hareline.wire.table import Table
from tests.crash.forgetful_files import ForgetfulFiles, PowerLoss
from tests.crash.machine import Machine, Options, SocketConsumer, Witness
from tests.crash.small_windows import use_small_windows

FANOUT: Final = "amq.fanout"
QUEUES: Final = ("line", "rank", "ttl", "last", "work", "dead", "fan-a", "fan-b")
HOUR_MS: Final = 3_600_000  # longer than all lives
PRIORITIES: Final = (None, 0, 1, 2, 3, 4, 5, 255)  # 4 is the highest level there is
LARGE_BODY: Final = 5_000

names = st.sampled_from(QUEUES)
counts = st.integers(1, 4)
seeds = st.integers(0, 2**32)


class Lives(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self.definitions = SqliteDefinitions(Path(self._directory.name) / "definitions.sqlite")
        self.files = ForgetfulFiles()
        self._patch = pytest.MonkeyPatch()
        self.number = 0
        self.now_ms = 1_700_000_000_000
        self.options = Options()
        self.machine: Machine
        self.witness: Witness

    @initialize(
        retention_bytes=st.sampled_from((0, 60_000)),
        linger_ms=st.sampled_from((0, 5)),
        is_paging=st.booleans(),
    )
    def begin(self, retention_bytes: int, linger_ms: int, *, is_paging: bool) -> None:
        if is_paging:
            use_small_windows(self._patch)
        self.options = Options(retention_bytes=retention_bytes, linger_ms=linger_ms)
        self._start()
        for name in QUEUES:
            self._declare(name)

    def teardown(self) -> None:
        self._patch.undo()
        self.definitions.close()
        self._directory.cleanup()

    def _start(self) -> None:
        self.now_ms += 1000
        self.machine = Machine(self.files, self.definitions, self.options, self.now_ms)

    def _declare(self, name: str) -> None:
        machine = self.machine
        if name == "rank":
            machine.declare(name, x_max_priority=4)
        elif name == "ttl":
            machine.declare(name, x_message_ttl=HOUR_MS)
        elif name == "last":
            machine.declare(name, x_last_value_key="key")
        elif name == "work":
            machine.declare(name, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
        else:
            queue = machine.declare(name)
            if name.startswith("fan"):
                machine.vhost.bind(FANOUT, "queue", queue, "", {})
        if not hasattr(self, "witness") or self.witness.machine is not machine:
            self.witness = Witness(machine)

    def _publish(self, name: str, size: int, *, is_persistent: bool = True) -> None:
        self.number += 1
        options = {} if self.number % 5 else {"expiration": str(HOUR_MS)}
        self.machine.publish(
            FANOUT if name.startswith("fan") else "",
            name,
            b"%d|" % self.number + bytes(size),
            delivery_mode=2 if is_persistent else 1,
            priority=PRIORITIES[self.number % len(PRIORITIES)],
            headers=Table({"key": "abc"[self.number % 3]}),
            **options,
        )

    # ------------------------------------------------------------- what clients do

    @rule(name=names, count=counts, size=st.sampled_from((0, 100, 1500, LARGE_BODY)))
    def publish(self, name: str, count: int, size: int) -> None:
        for _ in range(count):
            self._publish(name, size)

    @rule(name=names)
    def publish_transient(self, name: str) -> None:
        self._publish(name, 10, is_persistent=False)

    @rule(name=names, prefetch_count=st.sampled_from((0, 1, 5)))
    def consume(self, name: str, prefetch_count: int) -> None:
        if len(self.machine.consumers) < 4:
            self.machine.consume(name, prefetch_count)

    @precondition(lambda self: self.machine.consumers)
    @rule(which=seeds, count=counts)
    def ack(self, which: int, count: int) -> None:
        self._consumer(which).ack(count)

    @precondition(lambda self: self.machine.consumers)
    @rule(which=seeds)
    def ack_all(self, which: int) -> None:
        self._consumer(which).ack()

    @precondition(lambda self: self.machine.consumers)
    @rule(which=seeds, count=counts)
    def release(self, which: int, count: int) -> None:
        self._consumer(which).release(count)

    @precondition(lambda self: self.machine.consumers)
    @rule(which=seeds, count=counts)
    def reject(self, which: int, count: int) -> None:
        self.machine.reject(self._consumer(which), count)

    @precondition(lambda self: self.machine.consumers)
    @rule(which=seeds, name=names, count=counts)
    def commit(self, which: int, name: str, count: int) -> None:
        """Acknowledges some and publishes others in one breath."""
        for _ in range(count):
            self._publish(name, 50)
        self._consumer(which).ack(count)

    @precondition(lambda self: self.machine.consumers)
    @rule(which=seeds)
    def hang_up(self, which: int) -> None:
        self.machine.cancel(self._consumer(which))

    @rule(name=names)
    def purge(self, name: str) -> None:
        self.machine.vhost.queues[name].purge()

    @rule(name=names)
    def delete_and_declare(self, name: str) -> None:
        machine = self.machine
        gone = [each for each in machine.consumers if each.queue.name == name]
        machine.vhost.delete_queue(name, None)
        for consumer in gone:
            machine.consumers.remove(consumer)
        self._declare(name)

    def _consumer(self, which: int) -> SocketConsumer:
        return self.machine.consumers[which % len(self.machine.consumers)]

    # ------------------------------------------------------- what the broker does

    @rule()
    def finish_turn(self) -> None:
        self.machine.finish_turn()

    @rule(count=counts)
    def step_disk(self, count: int) -> None:
        for _ in range(count):
            self.machine.step_disk()
            self.machine.finish_turn()

    @rule()
    def settle_down(self) -> None:
        self.machine.settle_down()

    # ----------------------------------------------------------------- what ends it

    @rule(seed=seeds, keeps=st.booleans(), further_crash_after=st.integers(0, 20))
    def crash(self, seed: int, keeps: bool, further_crash_after: int) -> None:
        self.files.crash(Random(seed) if keeps else None)
        if further_crash_after:
            self.files.crash_after = further_crash_after
            with contextlib.suppress(PowerLoss):
                self._start()
                self.machine.settle_down()
            self.files.crash(Random(seed) if keeps else None)
        self._start()
        self.witness.check(self.machine)
        self.witness = Witness(self.machine)

    @rule()
    def kill(self) -> None:
        """The process alone: the system still knows what was written and not synced."""
        self._start()
        self.witness.check(self.machine)
        self.witness = Witness(self.machine)

    @rule(seed=seeds, after=st.integers(1, 12))
    def crash_at_work(self, seed: int, after: int) -> None:
        """The power goes in the middle of the disk's work."""
        self.files.crash_after = len(self.files.operations) + after
        with contextlib.suppress(PowerLoss):
            self.machine.settle_down()
        self.crash(seed, keeps=True, further_crash_after=0)

    @rule()
    def stop(self) -> None:
        for consumer in list(self.machine.consumers):
            self.machine.cancel(consumer)
        self.machine.finish_turn()
        before = self.machine.state()
        self.machine.stop()
        self.files.crash()
        self._start()
        assert self.machine.state() == before
        assert not self.machine.failures
        self.witness = Witness(self.machine)


TestLives = Lives.TestCase
TestLives.settings = settings(stateful_step_count=60)
