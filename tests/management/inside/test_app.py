"""What the management port answers on its own, by real HTTP, and that its page tells all of it."""

from __future__ import annotations

import asyncio
import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate
from pydantic import TypeAdapter

from hareline.management.api.site import Health
from hareline.management.replay import Outcome, ReplayRequest
from hareline.message import UNWRITTEN
from hareline.queues.queue import Queue
from hareline.server.broker import Broker
from hareline.settings import Settings
from hareline.storage.disk import opening
from hareline.storage.journal.files import Files
from tests.support.broker_thread import broker_in_loop
from tests.support.http_api import HttpApi
from tests.support.messages import make_message
from tests.support.vhosts import declare

DEADLINE_S = 60.0
DOCS = Path(__file__).resolve().parents[3] / "docs"

Answer = tuple[int, dict[str, Any]]


async def ask(broker: Broker, path: str, method: str = "GET") -> Answer:
    api = HttpApi(broker.management_url, None)
    return await asyncio.to_thread(api.call, method, path)


async def test_routes_are_built_before_the_first_request(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []
    monkeypatch.setattr(TypeAdapter, "__init__", lambda *_, **__: built.append(1))
    assert (await ask(broker, "/api/queues"))[0] == 401
    assert built == []


@pytest.mark.acceptance
async def test_alarms_say_that_publishers_are_blocked_and_the_broker_stays_healthy(
    broker: Broker,
) -> None:
    healthy = {
        "status": "ok",
        "alarms": [],
        "publishers_blocked": False,
        "store": "ok",
        "reason": "",
    }
    assert await ask(broker, "/api/health") == (200, healthy)
    broker.context.alarms.set("memory")
    blocked = {**healthy, "alarms": ["memory"], "publishers_blocked": True}
    assert await ask(broker, "/api/health") == (200, {**blocked, "reason": "low on memory"})
    broker.context.alarms.set("disk")
    assert await ask(broker, "/api/health") == (
        200,
        {**blocked, "alarms": ["disk", "memory"], "reason": "low on memory & disk"},
    )
    broker.context.alarms.clear("memory")
    broker.context.alarms.clear("disk")
    assert await ask(broker, "/api/health") == (200, healthy)


class FullOrBrokenFiles(Files):
    """``number``: what each write to the journal fails with, 0 for none."""

    __slots__ = ()
    number = 0

    def write(self, fd: int, parts: list[bytes], offset: int) -> None:  # type: ignore[override]
        if FullOrBrokenFiles.number:
            raise OSError(FullOrBrokenFiles.number, os.strerror(FullOrBrokenFiles.number))
        super().write(fd, parts, offset)


@pytest.mark.acceptance
async def test_a_store_that_refuses_is_healthy_and_one_that_has_failed_is_not(
    durable: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "Files", FullOrBrokenFiles)
    monkeypatch.setattr(FullOrBrokenFiles, "number", 0)
    async with broker_in_loop(durable) as broker:
        queue = declare(broker.context.vhosts["/"], is_durable=True)
        monkeypatch.setattr(FullOrBrokenFiles, "number", errno.ENOSPC)
        enqueue(queue)
        status, found = await asyncio.wait_for(health_with(broker, "refusing"), DEADLINE_S)
        assert (status, found["status"]) == (200, "ok")
        assert "no room on disk to write" in found["reason"]
        monkeypatch.setattr(FullOrBrokenFiles, "number", errno.EIO)
        status, found = await asyncio.wait_for(health_with(broker, "failed"), DEADLINE_S)
        assert (status, found["status"]) == (503, "failed")
        assert os.strerror(errno.EIO) in found["reason"]


def enqueue(queue: Queue) -> None:
    message = make_message(b"kept", delivery_mode=2)
    message.position = UNWRITTEN
    queue.enqueue(message)


async def health_with(broker: Broker, store: str) -> Answer:
    """The first answer in which the store is in this state."""
    while True:
        answer = await ask(broker, "/api/health")
        if answer[1]["store"] == store:
            return answer


@pytest.mark.acceptance
async def test_what_is_not_served_is_refused_in_the_form_of_all_refusals(broker: Broker) -> None:
    assert await ask(broker, "/api/nope") == (
        404,
        {"error": "not_found", "reason": "there is no /api/nope"},
    )
    assert await ask(broker, "/api/health", "POST") == (
        405,
        {"error": "method_not_allowed", "reason": "/api/health does not take POST"},
    )


# ------------------------------------------------------------------------------- the page


@pytest.mark.acceptance
async def test_the_page_has_a_row_for_each_route_and_no_other(broker: Broker) -> None:
    status, description = await ask(broker, "/openapi.json")
    assert status == 200
    served = {
        f"{method.upper()} {path}"
        for path, methods in description["paths"].items()
        for method in methods
    }
    page = (DOCS / "http-api.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| \[?`([A-Z]+ /\S+)`", page, re.MULTILINE))
    assert rows == served | {"GET /openapi.json"}


def test_the_pages_name_every_field() -> None:
    page = (DOCS / "http-api.md").read_text(encoding="utf-8")
    for field in Health.model_fields:
        assert f"| `{field}` |" in page
    replay = (DOCS / "replay.md").read_text(encoding="utf-8")
    requested = [field.alias or name for name, field in ReplayRequest.model_fields.items()]
    for name in [*requested, *Outcome().fields()]:
        assert re.search(rf"^\|.*`{name}`.*\|", replay, re.MULTILINE), name


@pytest.mark.acceptance
async def test_the_description_is_valid(broker: Broker) -> None:
    _, description = await ask(broker, "/openapi.json")
    validate(description)
    names = [
        operation["operationId"]
        for operations in description["paths"].values()
        for operation in operations.values()
    ]
    assert len(names) == len(set(names))
