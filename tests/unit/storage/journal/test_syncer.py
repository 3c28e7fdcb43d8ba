"""The thread that works on the disk: order, delays, draining, and who is told where."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from queue import Queue

import pytest

from hareline.storage.journal.syncer import InlineSyncer, Syncer, ThreadSyncer, Work

WAIT_S = 60.0


class Note(Work):
    """Writes down that it was run, and where."""

    def __init__(
        self, name: str, log: list[str], *, then: Callable[[], None] | None = None
    ) -> None:
        self.name = name
        self.log = log
        self.then = then
        self.ran_in = ""
        self.told_in = ""

    def run(self) -> None:
        self.ran_in = threading.current_thread().name
        self.log.append(f"run {self.name}")

    def finished(self) -> None:
        self.told_in = threading.current_thread().name
        self.log.append(f"told {self.name}")
        if self.then is not None:
            self.then()


class Gate(Note):
    """Runs until it is opened."""

    def __init__(self, log: list[str]) -> None:
        super().__init__("gate", log)
        self.has_begun = threading.Event()
        self.may_end = threading.Event()

    def run(self) -> None:
        super().run()
        self.has_begun.set()
        assert self.may_end.wait(WAIT_S)


class Loop:
    """What is handed back, run when the test says so."""

    def __init__(self) -> None:
        self.calls: Queue[Callable[[], None]] = Queue()

    def run_next(self) -> None:
        self.calls.get(timeout=WAIT_S)()


def test_work_is_run_in_the_thread_and_told_on_the_loop_s_side() -> None:
    loop, log = Loop(), list[str]()
    syncer = ThreadSyncer(loop.calls.put)
    work = Note("a", log)
    syncer.submit(work)
    loop.run_next()
    syncer.close()
    assert (work.ran_in, work.told_in) == ("journal", threading.current_thread().name)
    assert log == ["run a", "told a"]


def test_work_is_done_in_the_order_in_which_it_was_submitted() -> None:
    loop, log = Loop(), list[str]()
    syncer = ThreadSyncer(loop.calls.put)
    for name in "abcd":
        syncer.submit(Note(name, log))
    syncer.close()
    assert [line for line in log if line.startswith("run")] == ["run a", "run b", "run c", "run d"]
    assert [line for line in log if line.startswith("told")] == [
        "told a",
        "told b",
        "told c",
        "told d",
    ]


def test_work_that_is_told_is_freed_while_the_thread_waits_for_more() -> None:
    loop, log = Loop(), list[str]()
    syncer = ThreadSyncer(loop.calls.put)
    work = Note("a", log)
    is_freed = threading.Event()
    weakref.finalize(work, is_freed.set)
    syncer.submit(work)
    del work
    loop.run_next()
    assert is_freed.wait(WAIT_S)
    syncer.close()


def test_delayed_work_is_passed_by_what_comes_later() -> None:
    loop, log = Loop(), list[str]()
    syncer = ThreadSyncer(loop.calls.put)
    syncer.submit(Note("later", log), delay_s=3600.0)
    syncer.submit(Note("now", log))
    loop.run_next()
    assert log == ["run now", "told now"]
    syncer.close()  # does not wait for an hour
    assert log == ["run now", "told now", "run later", "told later"]


def test_delayed_work_comes_when_it_is_due() -> None:
    loop, log = Loop(), list[str]()
    syncer = ThreadSyncer(loop.calls.put)
    syncer.submit(Note("later", log), delay_s=0.01)
    loop.run_next()
    assert log == ["run later", "told later"]
    syncer.close()


def test_draining_waits_for_what_is_running_and_for_what_it_leads_to() -> None:
    loop, log = Loop(), list[str]()
    syncer = ThreadSyncer(loop.calls.put)
    gate = Gate(log)
    gate.then = lambda: syncer.submit(Note("next", log))
    syncer.submit(gate)
    assert gate.has_begun.wait(WAIT_S)
    opener = threading.Timer(0.01, gate.may_end.set)
    opener.start()
    syncer.drain()
    assert log == ["run gate", "told gate", "run next", "told next"]
    syncer.close()
    opener.join()


def test_what_other_threads_submit_is_waited_for_too() -> None:
    log: list[str] = []
    syncer = ThreadSyncer(lambda call: None)

    def submit_some() -> None:
        for _ in range(200):
            syncer.submit(Note("a", log))

    threads = [threading.Thread(target=submit_some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert syncer.drain(time.monotonic() + WAIT_S)
    assert (log.count("run a"), log.count("told a")) == (800, 800)
    syncer.close()


def test_what_draining_has_told_is_not_told_again() -> None:
    loop, log = Loop(), list[str]()
    syncer = ThreadSyncer(loop.calls.put)
    syncer.submit(Note("a", log))
    call = loop.calls.get(timeout=WAIT_S)
    syncer.drain()
    call()
    assert log.count("told a") == 1
    syncer.close()


def test_after_draining_work_is_handed_back_as_before() -> None:
    loop, log = Loop(), list[str]()
    syncer = ThreadSyncer(loop.calls.put)
    syncer.drain()
    syncer.submit(Note("a", log))
    loop.run_next()
    assert log == ["run a", "told a"]
    syncer.close()


def test_a_closed_syncer_takes_no_work() -> None:
    syncer = ThreadSyncer(lambda call: None)
    syncer.close()
    with pytest.raises(AssertionError, match="closed"):
        syncer.submit(Note("a", []))


def test_inline_work_waits_for_a_step() -> None:
    log: list[str] = []
    syncer = InlineSyncer()
    assert not syncer.step()
    syncer.submit(Note("later", log), delay_s=1.0)
    syncer.submit(Note("now", log))
    assert log == []
    assert syncer.step()
    assert log == ["run now", "told now"]
    syncer.close()
    assert log == ["run now", "told now", "run later", "told later"]


def test_automatic_inline_work_is_done_at_once_and_never_within_another() -> None:
    log: list[str] = []
    syncer = InlineSyncer(is_automatic=True)

    def submit_more() -> None:
        syncer.submit(Note("b", log))
        log.append("a is through")

    syncer.submit(Note("a", log, then=submit_more))
    assert log == ["run a", "told a", "a is through", "run b", "told b"]


@pytest.mark.parametrize("make", [lambda: ThreadSyncer(lambda call: None), InlineSyncer])
def test_nothing_to_drain_is_no_wait(make: Callable[[], Syncer]) -> None:
    syncer = make()
    syncer.drain()
    syncer.close()


class Broken(Note):
    def run(self) -> None:
        super().run()
        raise KeyError("a bug")


def test_a_bug_in_a_work_is_told_and_the_thread_goes_on() -> None:
    log: list[str] = []
    loop = Loop()
    syncer = ThreadSyncer(loop.calls.put)
    syncer.on_bug = log.append
    syncer.submit(Broken("broken", log))
    loop.run_next()
    assert log[0] == "run broken"
    assert log[1].startswith("Broken: KeyError('a bug') in run, line ")
    assert log[2] == "told broken"
    syncer.submit(Note("next", log))
    syncer.close()
    assert log[3:] == ["run next", "told next"]


def test_a_loop_that_is_closed_does_not_end_the_thread() -> None:
    log: list[str] = []

    def is_closed(_: Callable[[], None]) -> None:
        raise RuntimeError("Event loop is closed")

    syncer = ThreadSyncer(is_closed)
    syncer.submit(Note("first", log))
    syncer.submit(Note("second", log))
    assert syncer.close(time.monotonic() + WAIT_S)
    assert log == ["run first", "run second", "told first", "told second"]


def test_a_disk_that_hangs_is_not_waited_for_longer_than_was_said() -> None:
    log: list[str] = []
    syncer = ThreadSyncer(Loop().calls.put)
    gate = Gate(log)
    syncer.submit(gate)
    assert gate.has_begun.wait(WAIT_S)
    assert not syncer.drain(time.monotonic() + 0.01)
    assert not syncer.close(time.monotonic() + 0.01)
    gate.may_end.set()
    assert syncer.close()
    assert log == ["run gate", "told gate"]
