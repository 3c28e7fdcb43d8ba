"""Readers of a stream over real HTTP: what they report, see, and are refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hareline.management.streams import ReaderReport
from hareline.queues.policies import reader_positions
from hareline.queues.queue import Queue
from hareline.server.broker import Broker
from tests.support.http_api import HttpApi, segment
from tests.support.messages import make_message
from tests.support.vhosts import declare

STREAM = {"x-queue-type": "stream"}
PAGE = Path(__file__).resolve().parents[3] / "docs" / "stream-readers.md"

Answer = tuple[int, Any]


def stream(broker: Broker, name: str = "s", count: int = 10) -> Queue:
    queue = declare(broker.context.vhosts["/"], name, is_durable=True, arguments=STREAM)
    for _ in range(count):
        queue.put(make_message(b"12345"))
    return queue


async def ask(
    broker: Broker,
    path: str,
    method: str = "GET",
    body: object = None,
    *,
    queue: str = "s",
) -> Answer:
    api = HttpApi(broker.management_url)
    place = f"/api/stream/%2F/{segment(queue)}"
    return await asyncio.to_thread(api.call, method, place + path, body)


async def put(broker: Broker, name: str = "r", **fields: object) -> Answer:
    return await ask(broker, f"/readers/{segment(name)}", "PUT", fields)


@pytest.mark.acceptance
async def test_a_reader_reports_is_seen_and_is_forgotten(broker: Broker) -> None:
    queue = stream(broker)
    status, reported = await put(broker, offset=4)
    assert status == 200
    assert reported == {"name": "r", "offset": 4, "lag": 6, "age_s": 0, "pin": False}
    queue.put(make_message(b"more"))
    status, seen = await ask(broker, "/readers/r")
    assert (status, seen["offset"], seen["lag"]) == (200, 4, 7)
    assert seen["age_s"] >= 0
    status, seen = await put(broker, "another", offset=11, incarnation=queue.incarnation, pin=True)
    assert (status, seen["lag"], seen["pin"]) == (200, 0, True)
    status, readers = await ask(broker, "/readers")
    assert [(each["name"], each["pin"]) for each in readers] == [("another", True), ("r", False)]
    assert await ask(broker, "/readers/r", "DELETE") == (204, None)
    status, refused = await ask(broker, "/readers/r")
    assert (status, refused) == (
        404,
        {"error": "not_found", "reason": "no reader 'r' of queue 's'"},
    )
    assert (await ask(broker, "/readers/r", "DELETE"))[0] == 404
    assert (await ask(broker, "/readers"))[1][0]["name"] == "another"


@pytest.mark.acceptance
@pytest.mark.parametrize("name", ["a/b", "readers", "Grüße", "100%", "%2F", "."])
async def test_any_name_is_one(broker: Broker, name: str) -> None:
    stream(broker, name)
    path = f"/readers/{segment(name)}"
    status, answer = await ask(broker, path, "PUT", {"offset": 1}, queue=name)
    assert (status, answer["name"]) == (200, name)
    status, readers = await ask(broker, "/readers", queue=name)
    assert [each["name"] for each in readers] == [name]
    assert (await ask(broker, path, queue=name))[1]["offset"] == 1


@pytest.mark.acceptance
async def test_a_pin_keeps_what_its_reader_has_not_read(broker: Broker) -> None:
    bounded = {**STREAM, "x-max-length-bytes": 50}
    queue = declare(broker.context.vhosts["/"], "s", is_durable=True, arguments=bounded)
    await put(broker, offset=0, pin=True)
    for _ in range(15):
        queue.put(make_message(b"12345"))
    await ask(broker, "/readers")  # the turn ends meanwhile
    assert queue.ready_count == 15
    await put(broker, offset=2, pin=True)
    await ask(broker, "/readers")  # the turn ends meanwhile
    assert queue.ready_count == 13
    await ask(broker, "/readers/r", "DELETE")
    await ask(broker, "/readers")  # the turn ends meanwhile
    assert queue.ready_count == 10


class TestRefusals:
    @pytest.mark.acceptance
    async def test_an_earlier_incarnation(self, broker: Broker) -> None:
        old = stream(broker).incarnation
        broker.context.vhosts["/"].delete_queue("s", None)
        new = stream(broker).incarnation
        assert old != new
        status, refused = await put(broker, offset=1, incarnation=old)
        assert (status, refused["error"], refused["incarnation"]) == (
            409,
            "incarnation_changed",
            new,
        )
        assert (await ask(broker, "/readers"))[1] == []

    @pytest.mark.acceptance
    async def test_what_is_beyond_the_end(self, broker: Broker) -> None:
        stream(broker)
        assert (await put(broker, offset=10))[0] == 200
        status, refused = await put(broker, offset=11)
        assert (status, refused["error"], refused["next"]) == (416, "beyond_tail", 10)
        assert (await ask(broker, "/readers/r"))[1]["offset"] == 10

    @pytest.mark.acceptance
    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (b"", "body: not JSON"),
            (b"5", "body: not a JSON object"),
            (b"{}", "offset: Field required"),
            (b'{"offset": -1}', "offset: Input should be greater than or equal to 0"),
            (b'{"offset": true}', "offset: Input should be a valid integer"),
            (b'{"offset": "1"}', "offset: Input should be a valid integer"),
            (b'{"offset": 9223372036854775808}', "offset: Input should be less than or equal"),
            (b'{"offset": 1, "pin": 1}', "pin: Input should be a valid boolean"),
            (b'{"offset": 1, "lag": 0}', "lag: Extra inputs are not permitted"),
        ],
    )
    async def test_a_bad_report(self, broker: Broker, body: bytes, reason: str) -> None:
        stream(broker)
        status, refused = await ask(broker, "/readers/r", "PUT", body)
        assert (status, refused["error"]) == (400, "bad_request")
        assert refused["reason"].startswith(reason)
        assert (await ask(broker, "/readers"))[1] == []

    @pytest.mark.acceptance
    async def test_a_name_that_is_too_long(self, broker: Broker) -> None:
        stream(broker)
        assert (await put(broker, "ü" * 127 + "x", offset=1))[0] == 200
        status, refused = await put(broker, "ü" * 128, offset=1)
        assert (status, refused["reason"]) == (400, "the reader's name is longer than 255 octets")

    @pytest.mark.acceptance
    async def test_one_reader_too_many(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reader_positions, "READERS_MAX", 1)
        stream(broker)
        assert (await put(broker, "a", offset=1))[0] == 200
        status, refused = await put(broker, "b", offset=1)
        assert (status, refused["error"]) == (409, "too_many_readers")
        assert "delete one that is not used any more" in refused["reason"]


def test_the_page_tells_every_field() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for field in (*ReaderReport.model_fields, "name", "lag", "age_s"):
        assert f"| `{field}` |" in page
