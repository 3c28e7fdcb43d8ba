"""Operations in shares: who may go on is looked at, and whether the client is there.

What they do to messages is tested over HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from hareline.broker.operations.moving import Outcome
from hareline.errors import AccessRefused
from hareline.management.answers import Refusal
from hareline.management.api import running
from hareline.management.api.running import in_shares, run, run_to_end
from hareline.management.pace import Pace


class Scene:
    """A request and what it is about. ``steps``: how many were taken."""

    def __init__(self) -> None:
        self.store = SimpleNamespace(is_behind=False, failure="")
        self.renewals = 0
        self.refusal: Exception | None = None
        self.leaves_after = -1
        self.looks = 0
        self.steps = 0
        self.reports: list[dict[str, Any]] = []
        context = SimpleNamespace(
            clock=SimpleNamespace(refresh=lambda: None),
            report=lambda event, **fields: self.reports.append(fields),
        )
        self.call: Any = SimpleNamespace(
            site=SimpleNamespace(context=context),
            by="someone",
            vhost=SimpleNamespace(
                name="/", queues={}, environment=SimpleNamespace(store=self.store)
            ),
            renew=self._renew,
            wait_until_durable=self._wait_until_durable,
            pace=Pace(share_s=0),
            request=SimpleNamespace(is_disconnected=self._is_disconnected),
            flag=lambda _name: False,
        )

    def _renew(self) -> None:
        self.renewals += 1
        if self.refusal is not None:
            raise self.refusal

    async def _wait_until_durable(self, ticket: int) -> None:
        assert ticket == 0

    async def _is_disconnected(self) -> bool:
        self.looks += 1
        return self.looks == self.leaves_after

    def work(self, count: int) -> Iterator[None]:
        for _ in range(count):
            self.steps += 1
            yield


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(running, "PROGRESS_S", 0)
    monkeypatch.setattr(running, "STORE_PAUSE_S", 0)
    return Scene()


async def test_rights_are_looked_at_in_each_share(scene: Scene) -> None:
    await run_to_end(scene.call, scene.work(3))
    assert scene.renewals == 4


@pytest.mark.parametrize("refusal", [AccessRefused("no"), Refusal(404, "not_found", "gone")])
async def test_who_may_not_go_on_does_not(scene: Scene, refusal: Exception) -> None:
    shares = in_shares(scene.call, scene.work(9))
    await anext(shares)
    scene.refusal = refusal
    with pytest.raises(type(refusal)):
        await anext(shares)
    assert scene.steps == 1


async def test_a_client_that_has_gone_is_noticed_while_the_store_does_not_keep_up(
    scene: Scene,
) -> None:
    scene.store.is_behind = True
    scene.leaves_after = 20
    with pytest.raises(Refusal) as refused:
        await run_to_end(scene.call, scene.work(9))
    assert refused.value.status == 499
    assert scene.steps == 1


async def test_it_waits_for_the_store(scene: Scene) -> None:
    scene.store.is_behind = True
    shares = in_shares(scene.call, scene.work(2))
    for _ in range(5):
        await anext(shares)
    assert scene.steps == 1
    scene.store.is_behind = False
    assert [each async for each in shares] != []
    assert scene.steps == 2


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        (AccessRefused("no"), 401),
        (Refusal(401, "not_authorised", "user 'someone' is deleted"), 401),
        (Refusal(404, "not_found", "vhost '/' is deleted", headers={"X": "y"}), 404),
    ],
)
async def test_an_operation_that_ends_early_says_what_it_has_done(
    scene: Scene, refusal: Exception, status: int
) -> None:
    outcome = Outcome()

    def steps() -> Iterator[None]:
        for offset in (7, 9):
            outcome.done += 1
            outcome.offsets.append(offset)
            yield
        scene.refusal = refusal
        yield
        raise AssertionError("it went on")

    with pytest.raises(Refusal) as ended:
        await run(scene.call, "q", "move", "moved", steps(), outcome)
    assert ended.value.status == status
    assert ended.value.headers == getattr(refusal, "headers", {})
    assert ended.value.details == {
        "moved": 2,
        "bytes": 0,
        "offsets": [7, 9],
        "refused": {},
        "left": 0,
    }
    assert [each["messages"] for each in scene.reports] == [2]
