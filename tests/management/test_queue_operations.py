"""Queues changed over real HTTP while clients are at work, and what is left after a restart."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pika
import pytest

from hareline.management.api import queue_operations
from hareline.management.pace import Share
from hareline.queues.core.entry import PARKED, SETTLED, QueueEntry
from hareline.queues.core.groups import Group, ParkedRun
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from tests.management.test_messages import (
    DEADLINE_S,
    declare,
    new_name,
    numbers,
    path,
    publish,
)
from tests.support.broker_process import StartDaemon
from tests.support.http_api import HttpApi
from tests.support.messages import make_message
from tests.support.pika_calls import channel_to, get_all
from tests.support.turns import ManualTurn
from tests.support.waiting import wait_for


def change(http: HttpApi, queue: str, **arguments: Any) -> Any:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return http.done("PATCH", f"/api/queues/%2F/{queue}", {"arguments": named})


@pytest.mark.acceptance
@pytest.mark.row("A29")
def test_a_limit_is_lowered_under_way(http: HttpApi, channel: Any) -> None:
    queue = declare(channel, x_max_length=100)
    publish(channel, queue, *numbers(50))
    answer = change(http, queue, x_max_length=5)
    assert answer["arguments"] == {"x-max-length": 100}
    assert answer["changes"] == {"x-max-length": 5}
    assert answer["effective"] == {"x-max-length": 5}
    assert http.done("GET", path(queue, "arguments")) == answer
    assert get_all(channel, queue) == numbers(50)[-5:]
    declare(channel, queue, x_max_length=100)  # as its client always does
    assert change(http, queue, x_max_length=None)["effective"] == {}


@pytest.mark.acceptance
def test_qpids_names_are_understood(http: HttpApi, channel: Any) -> None:
    queue = declare(channel)
    answer = http.done(
        "PATCH",
        f"/api/queues/%2F/{queue}",
        {"arguments": {"maximumQueueDepthMessages": 2, "overflowPolicy": "RING"}},
    )
    assert answer["effective"]["maximumQueueDepthMessages"] == 2
    publish(channel, queue, *numbers(5))
    assert get_all(channel, queue) == numbers(5)[-2:]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "arguments: "),
        ({"arguments": {}, "more": 1}, "more: "),
        ({"arguments": {"x-nonsense": 1}}, "406 PRECONDITION_FAILED - unknown arg 'x-nonsense'"),
        ({"arguments": {"x-max-length": "5"}}, "406 PRECONDITION_FAILED - invalid arg"),
        ({"arguments": {"x-archive-to": "s"}}, "cannot change now: delete the queue"),
    ],
)
def test_a_change_that_cannot_be(http: HttpApi, channel: Any, body: Any, text: str) -> None:
    queue = declare(channel)
    answer = http.ask("PATCH", f"/api/queues/%2F/{queue}", body)
    assert answer.status_code == 400
    assert text in answer.json()["reason"]


@pytest.mark.acceptance
def test_pause_and_resume_with_a_consumer(http: HttpApi, channel: Any) -> None:
    queue = declare(channel)
    got: list[bytes] = []
    channel.basic_consume(queue, lambda _c, _m, _p, body: got.append(body), auto_ack=True)
    publish(channel, queue, b"1")
    wait_for(lambda: _served(channel, got, 1), DEADLINE_S, "the first")
    assert http.ask("POST", path(queue, "pause")).status_code == 204
    assert http.ask("PUT", path(queue, "pause")).status_code == 204
    publish(channel, queue, b"2", b"3")
    channel.connection.process_data_events()
    assert channel.queue_declare(queue, passive=True).method.message_count == 2
    assert got == [b"1"]
    looked = http.done("POST", path(queue, "get"), {"count": 1})
    assert looked[0]["payload"] == "2"
    assert http.ask("POST", path(queue, "resume")).status_code == 204
    wait_for(lambda: _served(channel, got, 3), DEADLINE_S, "the others")
    assert got == [b"1", b"2", b"3"]


def _served(channel: Any, got: list[bytes], count: int) -> bool | None:
    channel.connection.process_data_events(0.01)
    return len(got) >= count or None


async def test_what_a_group_has_parked_is_counted_in_shares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue_operations, "_COUNTED_AT_ONCE", 2)
    queue, group = Queue("q", FifoOrder(), ManualTurn()), Group("g")
    entries: list[QueueEntry] = []
    for mask, count in ((1, 5), (3, 3)):
        run = group.runs[mask] = ParkedRun(mask, group)
        for _ in range(count):
            entry = QueueEntry(queue, make_message(b"x"), len(entries))
            entry.state = PARKED
            run.add(entry.offset, entry)
            entries.append(entry)
    entries[1].state = SETTLED
    pauses = 0

    class Counted(Share):
        async def pause(self) -> None:
            nonlocal pauses
            pauses += 1

    assert await queue_operations._count_parked(group, Counted(asyncio.Lock(), 1)) == 7
    assert pauses == 5


@pytest.mark.acceptance
def test_groups_are_listed_and_reset(http: HttpApi, channel: Any) -> None:
    queue = declare(channel, x_message_group_key="g")
    channel.basic_qos(prefetch_count=1)
    tag = channel.basic_consume(queue, lambda *_: None)
    for number in range(4):
        publish(channel, queue, b"m", headers={"g": f"g{number % 2}"})
    groups = wait_for(
        lambda: (
            [each for each in http.done("GET", path(queue, "groups")) if each["outstanding"] == 1]
            or None
        ),
        DEADLINE_S,
        "a delivery",
    )
    assert [(each["group"], each["owner"]) for each in groups] == [("g0", tag)]
    assert http.done("POST", path(queue, "groups/reset"), {"groups": ["g1", "none"]}) in (
        {"reset": 0},
        {"reset": 1},
    )
    assert http.done("POST", path(queue, "groups/reset"), {"groups": ["g0"]}) == {"reset": 1}
    assert all(
        each["owner"] is None
        for each in http.done("GET", path(queue, "groups"))
        if each["group"] == "g0"
    )
    plain = declare(channel)
    assert http.done("GET", path(plain, "groups")) == []
    assert http.ask("POST", path(plain, "groups/reset"), {"groups": [None]}).status_code == 400


@pytest.mark.acceptance
def test_held_messages_are_listed_cancelled_and_fired(http: HttpApi, channel: Any) -> None:
    queue = declare(channel, x_hold_on_publish=True)
    for number in range(4):
        publish(channel, queue, b"%d" % number, headers={"x-delay": 1_000_000 * (4 - number)})
    page = http.done("GET", path(queue, "held") + "?count=3")
    assert [each["payload"] for each in page["messages"]] == ["3", "2", "1"]
    assert page["held"] == 4
    rest = http.done("GET", path(queue, "held") + f"?position={page['position']}")
    assert [each["payload"] for each in rest["messages"]] == ["0"]
    assert rest["position"] is None
    assert http.done("POST", path(queue, "held/cancel"), {"offsets": [3]})["cancelled"] == 1
    assert http.done("POST", path(queue, "held/fire"), {"offsets": [1]})["fired"] == 1
    assert get_all(channel, queue) == [b"1"]
    assert http.ask("POST", path(queue, "held/fire"), {}).status_code == 400
    assert http.ask("GET", path(queue, "held") + "?position=x").status_code == 400
    assert http.ask("GET", path(queue, "held") + "?count=0").status_code == 400
    assert http.done("POST", path(queue, "held/fire"), {"all": True})["fired"] == 2
    assert get_all(channel, queue) == [b"0", b"2"]


@pytest.mark.acceptance
def test_delayed_messages_of_an_exchange(http: HttpApi, channel: Any) -> None:
    exchange, queue = new_name("x"), declare(channel)
    channel.exchange_declare(
        exchange, "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}
    )
    channel.queue_bind(queue, exchange)
    for number in range(3):
        headers = {"x-delay": 1_000_000}
        channel.basic_publish(
            exchange, "k", b"%d" % number, pika.BasicProperties(headers=headers, delivery_mode=2)
        )
    base = f"/api/exchanges/%2F/{exchange}/delayed"
    page = http.done("GET", base)
    assert [each["payload"] for each in page["messages"]] == ["0", "1", "2"]
    offsets = [each["offset"] for each in page["messages"]]
    assert http.done("POST", f"{base}/fire", {"offsets": offsets[:1]})["fired"] == 1
    assert http.done("POST", f"{base}/cancel", {"all": True})["cancelled"] == 2
    assert get_all(channel, queue) == [b"0"]
    assert http.ask("GET", "/api/exchanges/%2F/amq.direct/delayed").status_code == 400
    assert http.ask("GET", "/api/exchanges/%2F/no-such/delayed").status_code == 404


@pytest.mark.row("S12")
def test_schedules_are_listed_fired_and_cancelled_by_their_ids(http: HttpApi, channel: Any) -> None:
    exchange, queue = new_name("x"), declare(channel)
    channel.exchange_declare(
        exchange, "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}
    )
    channel.queue_bind(queue, exchange)
    yearly = {"x-schedule-cron": "0 0 1 1 *"}
    daily = {"x-delay": 86_400_000, "x-schedule-period": 5_000, "x-schedule-repeat": 1}
    for name, headers in (("yearly", yearly), ("daily", daily)):
        properties = pika.BasicProperties(headers=headers, delivery_mode=2, message_id=name)
        channel.basic_publish(exchange, "k", name.encode(), properties)
    base = f"/api/exchanges/%2F/{exchange}/delayed"

    def schedules() -> dict[str, Any]:
        rows = [each["schedule"] for each in http.done("GET", base)["messages"]]
        return {each["id"]: each for each in rows}

    listed = schedules()
    new_years = listed["yearly"].pop("next_ms")
    assert listed["yearly"] == {
        "id": "yearly",
        "cron": "0 0 1 1 *",
        "delay_ms": 0,
        "period_ms": 0,
        "repeat": 0,
        "fired": 0,
    }
    assert [time.gmtime(each // 1000)[1:6] for each in new_years] == [(1, 1, 0, 0, 0)] * 5
    first_ms, second_ms = listed["daily"]["next_ms"]
    assert second_ms - first_ms == 5_000
    assert http.done("POST", f"{base}/fire", {"schedules": ["yearly", "none"]})["fired"] == 1
    assert get_all(channel, queue) == [b"yearly"]
    after = schedules()["yearly"]
    assert (after["fired"], after["next_ms"][:4]) == (1, new_years[1:])
    body = {"schedules": ["yearly"], "offsets": [0]}
    assert http.done("POST", f"{base}/cancel", body)["cancelled"] == 1
    assert list(schedules()) == ["daily"]
    refused = http.ask("POST", path(queue, "held/cancel"), {"schedules": ["daily"]})
    assert (refused.status_code, refused.json()["reason"]) == (
        400,
        "schedules: only an x-delayed-message exchange has some",
    )


@pytest.mark.acceptance
def test_readers_of_a_stream_and_their_lag(http: HttpApi, channel: Any) -> None:
    stream = declare(channel, x_queue_type="stream")
    publish(channel, stream, *numbers(10))
    http.done("PUT", f"/api/stream/%2F/{stream}/readers/batch", {"offset": 4})
    channel.basic_qos(prefetch_count=3)
    tag = channel.basic_consume(stream, lambda *_: None, arguments={"x-stream-offset": "first"})
    readers = wait_for(
        lambda: (
            found
            if len(found := http.done("GET", path(stream, "readers"))) == 2
            and found[0]["offset"] == 3
            else None
        ),
        DEADLINE_S,
        "the consumer to have its three",
    )
    consumer, reader = readers
    assert (consumer["kind"], consumer["name"], consumer["lag"]) == ("consumer", tag, 7)
    assert (reader["kind"], reader["name"], reader["offset"], reader["lag"]) == (
        *("reader", "batch"),
        *(4, 6),
    )
    described = http.get("/openapi.json")["components"]["schemas"]["ReaderInfo"]
    assert reader.keys() == described["properties"].keys()
    plain = declare(channel)
    assert http.ask("GET", path(plain, "readers")).status_code == 400


@pytest.mark.acceptance
def test_changes_and_pauses_are_kept_over_a_kill(start_daemon: StartDaemon) -> None:
    broker = start_daemon()
    http = HttpApi(broker.management_url)
    with channel_to(broker.url) as channel:
        queue, timed = declare(channel, x_max_length=100), declare(channel)
        publish(channel, queue, *numbers(10))
        change(http, queue, x_max_length=6, x_dead_letter_exchange="amq.fanout")
        change(http, timed, x_message_ttl=3_600_000)
        publish(channel, timed, *numbers(10))
        http.done("POST", path(queue, "pause"))
    broker.restart_by_kill()
    answer = http.done("GET", path(queue, "arguments"))
    assert answer["effective"]["x-max-length"] == 6
    with channel_to(broker.url, confirms=False) as channel:
        assert get_all(channel, queue) == []
        http.done("POST", path(queue, "resume"))
        assert get_all(channel, queue) == numbers(10)[-6:]
        assert get_all(channel, timed) == numbers(10)
        declare(channel, queue, x_max_length=100)
    http.done("DELETE", f"/api/queues/%2F/{queue}")
    http.done("PUT", f"/api/queues/%2F/{queue}", {})
    assert http.done("GET", path(queue, "arguments"))["changes"] == {}


@pytest.mark.acceptance
def test_the_audit_stream_is_the_brokers(start_daemon: StartDaemon) -> None:
    broker = start_daemon('[[vhosts]]\nname = "/"\naudit = "all"\n')
    http = HttpApi(broker.management_url)
    stream = "hareline.audit"
    before = http.done("GET", path(stream, "arguments"))
    policy = {"pattern": "", "definition": {"max-length-bytes": 0, "max-age": "1s"}}
    http.done("PUT", "/api/policies/%2F/all", policy)
    http.done(
        "PUT", "/api/operator-policies/%2F/all", {"pattern": "", "definition": {"expires": 1}}
    )
    for method, name, body in (
        ("PATCH", f"/api/queues/%2F/{stream}", {"arguments": {"x-max-age": "1s"}}),
        ("POST", path(stream, "pause"), None),
        ("PUT", path(stream, "pause"), None),
        ("POST", path(stream, "groups/reset"), {}),
    ):
        answer = http.ask(method, name, body)
        assert answer.status_code == 401, (name, answer)
        assert "only the broker publishes to queue 'hareline.audit'" in answer.json()["reason"]
    assert http.done("GET", path(stream, "arguments")) == before
    assert http.ask("POST", path(stream, "resume")).status_code == 204
