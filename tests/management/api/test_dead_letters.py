"""Dead-letter queues with the reasons for which their messages died."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hareline.broker.exchanges.bindings import BindingTable
from hareline.broker.operations.walking import messages_of
from hareline.management.api import dead_letters
from hareline.management.api.dead_letters import SOURCES_MAX, _first_death, _targets
from hareline.management.pace import Pace
from hareline.message import Table
from tests.support.api_broker import ApiBroker
from tests.support.messages import make_message
from tests.support.turns import ManualTurn
from tests.support.vhosts import bind, declare, declare_exchange, make_vhost


@pytest.fixture(scope="module")
def dead(running: ApiBroker) -> ApiBroker:
    channel = running.connect().channel()
    channel.exchange_declare("dlx", "fanout")
    channel.queue_declare("graves")
    channel.queue_bind("graves", "dlx")
    to_dlx = {"x-dead-letter-exchange": "dlx"}
    channel.queue_declare("full", arguments={**to_dlx, "x-max-length": 1})
    channel.queue_declare("refusing", arguments=to_dlx)
    channel.queue_declare(
        "direct",
        arguments={
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "by-name",
            "x-message-ttl": 0,
        },
    )
    channel.queue_declare("by-name")
    for _ in range(3):
        channel.basic_publish("", "full", b"x")
    channel.basic_publish("", "refusing", b"x")
    channel.basic_publish("", "direct", b"x")
    method, _, _ = channel.basic_get("refusing")
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.basic_publish("", "graves", b"alive")
    running.wait_for("/queues/%2F/graves", lambda queue: queue["messages"] == 4, "four messages")
    running.wait_for("/queues/%2F/by-name", lambda queue: queue["messages"] == 1, "the expired one")
    return running


def rows(broker: ApiBroker, user: str = "admin") -> dict[str, Any]:
    return {each["name"]: each for each in broker.get("/hareline/dead-letters", user)["items"]}


@pytest.mark.acceptance
def test_reasons_are_counted_by_the_queue_of_the_first_death(dead: ApiBroker) -> None:
    row = rows(dead)["graves"]
    assert (row["messages"], row["examined"]) == (4, 4)
    assert row["sources"] == ["full", "refusing"]
    assert [(each["reason"], each["queue"], each["count"]) for each in row["reasons"]] == [
        ("maxlen", "full", 2),
        ("rejected", "refusing", 1),
    ]
    assert row["reasons"][0]["routing_key"] == "full"


def test_the_deepest_are_listed_and_all_are_counted(
    dead: ApiBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = dead.get("/hareline/dead-letters")
    assert everything["total"] == len(everything["items"]) > 1
    monkeypatch.setattr(dead_letters, "ROWS_MAX", 1)
    deepest = dead.get("/hareline/dead-letters")
    assert [each["name"] for each in deepest["items"]] == ["graves"]
    assert deepest["total"] == everything["total"]


def test_a_queue_behind_the_default_exchange_is_found_by_the_key(dead: ApiBroker) -> None:
    row = rows(dead)["by-name"]
    assert row["sources"] == ["direct"]
    assert row["reasons"][0]["reason"] == "expired"


def test_messages_stay_where_they_are(dead: ApiBroker) -> None:
    rows(dead)
    queue = dead.get("/queues/%2F/graves")
    assert (queue["messages_ready"], queue["messages_unacknowledged"]) == (4, 0)


def test_who_sees_the_depth_and_who_the_reasons(dead: ApiBroker) -> None:
    assert rows(dead, "elsewhere") == {}
    assert rows(dead, "manager")["graves"]["reasons"] != []


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages were read, each time that some were."""
    counts: list[int] = []
    plainly = messages_of

    def counted(queue: Any, entries: list[Any]) -> list[Any]:
        counts.append(len(entries))
        return plainly(queue, entries)

    monkeypatch.setattr(dead_letters, "messages_of", counted)
    return counts


@pytest.mark.acceptance
def test_each_message_is_read_once(broker: ApiBroker, read: list[int]) -> None:
    channel = broker.connect().channel()
    channel.queue_declare("once-dead")
    to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "once-dead"}
    channel.queue_declare("once", arguments={**to_dead, "x-message-ttl": 0})

    def row(depth: int) -> Any:
        broker.wait_for("/queues/%2F/once-dead", lambda each: each["messages"] == depth, "depth")
        del read[:]
        return rows(broker)["once-dead"]

    for _ in range(3):
        channel.basic_publish("", "once", b"x")
    assert [each["count"] for each in row(3)["reasons"]] == [3]
    assert sum(read) >= 3
    assert [each["count"] for each in row(3)["reasons"]] == [3]
    assert read == []
    for _ in range(2):
        channel.basic_publish("", "once", b"x")
    assert [each["count"] for each in row(5)["reasons"]] == [5]
    assert read == [2]
    channel.basic_get("once-dead", auto_ack=True)
    assert (row(4)["examined"], read) == (4, [])
    channel.queue_delete("once-dead")
    channel.queue_declare("once-dead")
    channel.basic_publish("", "once-dead", b"x")
    assert (row(1)["examined"], row(1)["reasons"]) == (1, [])


def test_only_the_first_messages_of_a_queue_are_read(
    broker: ApiBroker, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "EXAMINED_MAX", 3)
    channel = broker.connect().channel()
    channel.queue_declare("first-dead")
    to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "first-dead"}
    channel.queue_declare("first", arguments={**to_dead, "x-message-ttl": 0})
    for _ in range(5):
        channel.basic_publish("", "first", b"x")
    broker.wait_for("/queues/%2F/first-dead", lambda each: each["messages"] == 5, "depth")
    row = rows(broker)["first-dead"]
    assert (row["messages"], row["examined"], row["reasons"][0]["count"]) == (5, 3, 3)


def test_the_least_used_queue_is_forgotten(
    broker: ApiBroker, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "REMEMBERED_MAX", 0)
    channel = broker.connect().channel()
    channel.queue_declare("short-dead")
    to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "short-dead"}
    channel.queue_declare("short", arguments={**to_dead, "x-message-ttl": 0})
    channel.basic_publish("", "short", b"x")
    broker.wait_for("/queues/%2F/short-dead", lambda each: each["messages"] == 1, "depth")
    rows(broker)
    del read[:]
    assert rows(broker)["short-dead"]["examined"] == 1
    assert sum(read) >= 1


def test_bindings_of_an_exchange_are_walked_once_whoever_sends_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vhost = make_vhost(ManualTurn())
    declare_exchange(vhost, "dlx", "fanout")
    for number in range(5):
        bind(vhost, "dlx", declare(vhost, f"dead{number}"), f"k{number}")
        bind(vhost, "dlx", vhost.queues[f"dead{number}"], "again")
    for number in range(3 * SOURCES_MAX):
        alternate = '{"destination": "dead0"}'
        arguments = {"x-dead-letter-exchange": "dlx", "alternateBinding": alternate}
        declare(vhost, f"q{number:03}", arguments=arguments)
    walked: list[str] = []
    from_source = BindingTable.from_source

    def counting(table: BindingTable, source: str) -> Any:
        walked.append(source)
        return from_source(table, source)

    monkeypatch.setattr(BindingTable, "from_source", counting)

    async def found() -> Any:
        async with Pace().share() as share:
            return await _targets(vhost, share)

    targets = asyncio.run(found())
    assert walked == ["dlx"]
    assert {queue.name for queue in targets} == {f"dead{number}" for number in range(5)}
    first = [f"q{number:03}" for number in range(SOURCES_MAX)]
    for queue, sources in targets.items():
        assert dead_letters._first(sources) == first, queue.name


def test_a_virtual_host_that_goes_meanwhile_takes_its_rows_along(
    running: ApiBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    vhosts = running.thread.ask(lambda broker: broker.context.vhosts)
    assert running.ask("PUT", "/vhosts/going").status_code == 201
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    assert running.ask("PUT", "/permissions/going/admin", json=rights).status_code < 300
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "target"}
    for name, given in (("target", {}), ("source", arguments)):
        answer = running.ask("PUT", f"/queues/going/{name}", json={"arguments": given})
        assert answer.status_code == 201, answer.text
    targets = dead_letters._targets

    async def then_deleted(vhost: Any, share: Any) -> Any:
        found = await targets(vhost, share)
        vhosts.pop("going", None)  # as its deletion does
        return found

    with monkeypatch.context() as patch:
        patch.setattr(dead_letters, "_targets", then_deleted)
        going = vhosts["going"]
        answer = running.ask("GET", "/hareline/dead-letters")
        vhosts["going"] = going
    assert answer.status_code == 200
    assert running.ask("DELETE", "/vhosts/going").status_code == 204


@pytest.mark.acceptance
def test_headers_that_cannot_be_read_tell_of_no_death() -> None:
    deaths = [Table({"queue": "q", "reason": "rejected"})]
    message = make_message(b"b", content_type="some", headers=Table({"x-death": deaths}))
    assert _first_death(message) == ("rejected", "q", "", "")
    content = bytearray(message.content)
    content[21] = 200  # the length of the content type
    message.content = bytes(content)
    assert _first_death(message) is None
