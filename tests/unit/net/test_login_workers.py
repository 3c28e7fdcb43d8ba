"""Tasks beside the loop: bounded, in turn, answered on its own thread; and SCRAM keys."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from hareline import events
from hareline.auth.passwords import hash_password
from hareline.auth.scram import PasswordKeys, salt_of
from hareline.auth.users import User, UserRegistry
from hareline.net import login_workers
from hareline.net.login_workers import KeyMaker, LoginWorkers


class Stand:
    """Workers with one thread, which waits for ``gate`` in each task."""

    def __init__(self) -> None:
        self.wait_max_s = 3600.0
        self.reports: list[tuple[events.Event, dict[str, object]]] = []
        self.workers = LoginWorkers(self._report, lambda: self.wait_max_s, threads=1)
        self.gate = threading.Event()
        self.done: list[tuple[bool, object]] = []
        self.has_changed = asyncio.Event()

    def _report(self, event: events.Event, **fields: object) -> None:
        self.reports.append((event, fields))

    def submit(self, origin: str, result: object = None, *, is_wanted: bool = True) -> bool:
        def work() -> object:
            self.gate.wait()
            if isinstance(result, Exception):
                raise result
            return origin if result is None else result

        return self.workers.submit(origin, work, self._on_done, lambda: is_wanted)

    def _on_done(self, result: object) -> None:
        self.done.append((threading.current_thread() is threading.main_thread(), result))
        self.has_changed.set()

    async def until(self, count: int) -> list[object]:
        """What was done, once as much is."""
        while len(self.done) < count:
            self.has_changed.clear()
            await self.has_changed.wait()
        assert all(on_loop for on_loop, _ in self.done)
        return [result for _, result in self.done]


@pytest_asyncio.fixture
async def stand() -> AsyncIterator[Stand]:
    stand = Stand()
    yield stand
    stand.gate.set()
    stand.workers.stop()


async def test_what_a_thread_returns_is_answered_on_the_loop(stand: Stand) -> None:
    stand.gate.set()
    assert stand.submit("a", 7)
    assert stand.done == []  # not before submit has returned
    assert await stand.until(1) == [7]


async def test_origins_are_served_in_turn(stand: Stand) -> None:
    for _ in range(3):
        assert stand.submit("a")
    assert stand.submit("b")
    assert stand.submit("c")
    stand.gate.set()
    assert await stand.until(5) == ["a", "a", "b", "c", "a"]


async def test_no_origin_may_wait_without_bound(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_workers, "WAITING_MAX", 5)
    monkeypatch.setattr(login_workers, "WAITING_OF_ORIGIN_MAX", 3)
    assert [stand.submit("a") for _ in range(5)] == [True] * 4 + [False]  # one of them runs
    assert [stand.submit("b") for _ in range(3)] == [True, True, False]
    stand.gate.set()
    assert await stand.until(6) == ["a", "a", "b", "a", "b", "a"]
    assert stand.submit("a")


async def test_what_has_waited_too_long_is_answered_and_not_computed(stand: Stand) -> None:
    assert stand.submit("a", 1)  # this one runs
    assert stand.submit("a", 2)
    assert stand.submit("b", 3)
    stand.wait_max_s = -1.0
    stand.gate.set()
    assert await stand.until(3) == [1, None, None]
    stand.wait_max_s = 3600.0
    assert stand.submit("a", 4)
    assert await stand.until(4) == [1, None, None, 4]


async def test_what_is_not_wanted_any_more_is_not_computed(stand: Stand) -> None:
    assert stand.submit("a", 1)
    assert stand.submit("a", 2, is_wanted=False)
    assert stand.submit("a", 3)
    stand.gate.set()
    assert await stand.until(3) == [1, None, 3]


async def test_work_that_raises_is_reported_and_answered(stand: Stand) -> None:
    stand.gate.set()
    problem = MemoryError("no memory for the hash")
    assert stand.submit("a", problem)
    assert stand.submit("a", 1)
    assert await stand.until(2) == [None, 1]
    assert stand.reports == [
        (events.BROKER_FAILED, {"where": "a password hash", "exc_info": problem})
    ]


async def test_nothing_is_answered_after_the_stop(stand: Stand) -> None:
    assert stand.submit("a")
    assert stand.submit("a")
    stand.workers.stop()
    stand.gate.set()
    assert not stand.submit("a")
    await asyncio.to_thread(lambda: None)
    assert stand.done == []


# ---------------------------------------------------------------------------------------- key maker


LIMIT_S = 60.0


def _users(*names: str) -> list[User]:
    return [
        User(name, hash_password(name), scram=PasswordKeys(name, salt_of(name))) for name in names
    ]


async def _until_derived(registry: UserRegistry) -> int:
    """Waits for the last of them; returns how often the loop had its turn meanwhile."""
    turns = 0
    async with asyncio.timeout(LIMIT_S):
        while registry.next_underived() is not None:
            await asyncio.sleep(0)
            turns += 1
    return turns


async def test_all_keys_are_derived_in_the_end() -> None:
    registry = UserRegistry(_users("a", "b", "c"))
    maker = KeyMaker(registry)
    maker.start()
    assert await _until_derived(registry) > 0
    maker.stop()


async def test_users_that_come_later_get_theirs() -> None:
    registry = UserRegistry(_users("a"))
    maker = KeyMaker(registry)
    maker.start()
    registry.replace(_users("b", "c"))
    maker.start()
    await _until_derived(registry)
    registry.replace(_users("d"))
    assert registry.next_underived() is not None
    maker.start()
    await _until_derived(registry)
    maker.stop()


async def test_after_stop_nothing_more_is_derived() -> None:
    registry = UserRegistry(_users("a"))
    maker = KeyMaker(registry)
    maker.stop()
    maker.start()
    maker.stop()
    await asyncio.get_running_loop().run_in_executor(None, int)  # what was begun has ended
    assert registry.next_underived() is not None
