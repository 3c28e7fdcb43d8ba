"""What the log of changes is told of virtual hosts and users, by whom, and what it keeps."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson
import pytest

from hareline.broker.change_recorder import NOBODY, Doer
from hareline.broker.vhost import VirtualHost
from hareline.events import ADMINISTERED, Event
from hareline.management.change_log import (
    CALLER,
    KEPT_MAX,
    LINE_MAX,
    Change,
    ChangeLog,
    change_of,
)
from hareline.message import Table
from tests.support.turns import ManualTurn
from tests.support.vhosts import ME, bind, declare, declare_exchange, make_vhost, unbind

ANN = Doer("amqp", "ann", "10.0.0.7:41234")
BOB = Doer("http", "bob", "10.0.0.8:5")


class World:
    """A virtual host whose changes are noted, and the clock."""

    def __init__(self) -> None:
        self.vhost = make_vhost(ManualTurn())
        self.vhosts: dict[str, VirtualHost] = {"/": self.vhost}
        self.now_ms = 1_000
        declare(self.vhost, "old", is_durable=True)
        self.log = ChangeLog(lambda: self.now_ms, self.vhosts)
        self.vhost.tell_events(None, self.log)
        self._seen = 0

    def seen(self) -> list[Change]:
        """The changes since the last call, in their order."""
        found = [each for each in self.log.newest_first() if each.number > self._seen]
        self._seen += len(found)
        return found[::-1]

    def events(self) -> list[tuple[str, object]]:
        return [(change.event, change.details.get("name")) for change in self.seen()]


@pytest.fixture
def world() -> World:
    return World()


# ------------------------------------------------------------------------------------- the audit


def audited(vhosts: dict[str, VirtualHost]) -> tuple[ChangeLog, list[dict[str, object]]]:
    """A log of changes, and what the broker's log has of them."""
    told: list[dict[str, object]] = []

    def report(event: Event, **fields: object) -> None:
        assert event is ADMINISTERED
        told.append(fields)

    return ChangeLog(lambda: 1_000, vhosts, report), told


def test_what_operators_do_is_in_the_log_of_the_broker_with_who_and_from_where(
    world: World,
) -> None:
    log, told = audited(world.vhosts)
    log.note("queue.purged", {"vhost": "/", "name": "q", "messages": 3}, BOB)
    log.note("settings.changed", {}, Doer("settings", ""))
    log.note("queue.created", {"vhost": "/", "name": "of a client"}, ANN)
    log.note("alarm.set", {"name": "memory"})
    assert told == [
        {
            "act": "queue.purged",
            "user": "bob",
            "via": "http",
            "address": "10.0.0.8:5",
            "name": "q",
            "vhost": "/",
            "details": {"vhost": "/", "name": "q", "messages": 3},
        },
        {
            "act": "settings.changed",
            "user": "",
            "via": "settings",
            "address": "",
            "name": None,
            "vhost": None,
            "details": {},
        },
    ]


def test_the_audit_has_each_item_of_an_import_and_no_value_of_a_parameter(world: World) -> None:
    log, told = audited(world.vhosts)

    def run() -> None:
        CALLER.set(BOB)
        acts: list[tuple[str, dict[str, object]]] = [
            ("user.created", {"name": "new"}),
            ("parameter.set", {"name": "shovel", "component": "x", "value": "amqp://u:secret@h"}),
        ]
        for event, fields in acts:
            told_fields = {**fields, "user_who_performed_action": "bob"}
            list(log.quietly(iter_once(partial(log.on_administered, event, told_fields))))

    contextvars.copy_context().run(run)
    assert [(each["act"], each["name"], each["address"]) for each in told] == [
        ("user.created", "new", "10.0.0.8:5"),
        ("parameter.set", "shovel", "10.0.0.8:5"),
    ]
    assert "secret" not in repr(told)
    assert list(log.newest_first()) == []


def iter_once(step: Callable[[], None]) -> Iterator[None]:
    step()
    yield


def test_what_was_there_before_is_no_change(world: World) -> None:
    assert world.events() == []
    assert world.log.since_ms == 1_000


def test_a_durable_queue_comes_and_goes_and_who_did_it(world: World) -> None:
    world.now_ms = 2_000
    with world.log.acting(ANN):
        declare(world.vhost, "new", is_durable=True, arguments={"x-max-length": 3})
    (change,) = world.seen()
    assert change == Change(
        1,
        2_000,
        "queue.created",
        {"vhost": "/", "name": "new", "arguments": {"x-max-length": 3}},
        ANN,
    )
    world.vhost.delete_queue("new", ME)  # a lease has ended, say
    (change,) = world.seen()
    assert (change.event, change.by) == ("queue.deleted", NOBODY)


def test_a_declaration_that_finds_the_queue_is_no_change(world: World) -> None:
    declare(world.vhost, "old", is_durable=True)
    assert world.events() == []


@pytest.mark.parametrize("kind", ["is_auto_delete", "is_exclusive", "transient"])
def test_what_comes_and_goes_with_clients_is_left_out(world: World, kind: str) -> None:
    queue = declare(
        world.vhost,
        "passing",
        is_durable=kind != "transient",
        is_auto_delete=kind == "is_auto_delete",
        is_exclusive=kind == "is_exclusive",
    )
    bind(world.vhost, "amq.direct", queue)
    declare_exchange(world.vhost, "for-a-while", is_durable=True, is_auto_delete=True)
    bind(world.vhost, "for-a-while", world.vhost.queues["old"])
    world.vhost.delete_queue("passing", ME)
    assert world.events() == []


def test_exchanges_and_their_bindings(world: World) -> None:
    made = declare_exchange(world.vhost, "made", "topic", is_durable=True)
    (change,) = world.seen()
    assert change.details == {"vhost": "/", "name": "made", "type": "topic"}
    queue = world.vhost.queues["old"]
    with world.log.acting(ANN):
        bind(world.vhost, "made", queue, "a", {"x-filter": "b"})
        bind(world.vhost, "made", queue, "a", {"x-filter": "b"})  # is there already
        bind(world.vhost, "amq.fanout", made)
    to_queue, to_exchange = world.seen()
    assert to_queue.details == {
        "vhost": "/",
        "name": "old",
        "source": "made",
        "destination": "old",
        "destination_type": "queue",
        "routing_key": "a",
        "arguments": {"x-filter": "b"},
    }
    assert (to_exchange.details["destination_type"], to_exchange.by) == ("exchange", ANN)
    unbind(world.vhost, "made", queue, "a", {"x-filter": "b"})
    assert world.events() == [("binding.deleted", "old")]


def test_bindings_that_end_with_their_queue_are_part_of_that_change(world: World) -> None:
    queue = world.vhost.queues["old"]
    for key in ("a", "b"):
        bind(world.vhost, "amq.direct", queue, key)
    world.seen()
    world.vhost.delete_queue("old", ME)
    assert world.events() == [("queue.deleted", "old")]


def test_a_virtual_host_that_is_deleted_is_one_change(world: World) -> None:
    del world.vhosts["/"]
    world.vhost.delete_queue("old", ME)
    declare_exchange(world.vhost, "late", is_durable=True)
    assert world.events() == []


def test_administration_is_put_down_to_the_caller_with_its_address(world: World) -> None:
    log = world.log
    fields = {"name": "bob", "user_who_performed_action": "ann"}

    def in_a_request(user: str) -> None:
        CALLER.set(Doer("http", user, "127.0.0.1:5"))
        log.on_administered("user.created", fields)

    for user in ("ann", "eve"):
        contextvars.copy_context().run(in_a_request, user)
    log.on_administered("user.created", {**fields, "user_who_performed_action": "rmq-internal"})
    found = world.seen()
    assert [each.details for each in found] == [{"name": "bob"}] * 3
    assert [each.by for each in found] == [
        Doer("http", "ann", "127.0.0.1:5"),
        Doer("http", "ann", ""),
        NOBODY,
    ]


def test_values_of_parameters_are_not_kept(world: World) -> None:
    fields = {"component": "shovel", "name": "s", "value": {"src-uri": "amqp://u:secret@h"}}
    world.log.on_administered("parameter.set", fields)
    (change,) = world.seen()
    assert change.details == {"component": "shovel", "name": "s"}
    assert b"secret" not in world.log.unwritten[-1]


def test_alarms(world: World) -> None:
    world.log.on_alarm("memory", True)
    world.log.on_alarm("memory", False)
    assert world.events() == [("alarm.set", "memory"), ("alarm.cleared", "memory")]


def test_an_import_is_one_change(world: World) -> None:
    def steps() -> Any:
        for number in range(3):
            declare(world.vhost, f"imported{number}", is_durable=True)
            yield

    for _ in world.log.quietly(steps()):
        declare(world.vhost, f"meanwhile{len(world.vhost.queues)}", is_durable=True)
    names = [name for _, name in world.events()]
    assert len(names) == 3
    assert all(str(name).startswith("meanwhile") for name in names)


def test_an_import_that_fails_leaves_the_log_on(world: World) -> None:
    def steps() -> Any:
        yield from map(int, ["broken"])

    with pytest.raises(ValueError, match="invalid literal"):
        list(world.log.quietly(steps()))
    declare(world.vhost, "after", is_durable=True)
    assert world.events() == [("queue.created", "after")]


def test_the_oldest_changes_give_way(world: World) -> None:
    log = world.log
    for number in range(KEPT_MAX + 3):
        log.note("user.created", {"name": f"u{number}"})
    kept = list(log.newest_first())
    assert len(kept) == KEPT_MAX
    assert (kept[0].number, kept[-1].number) == (KEPT_MAX + 3, 4)
    assert len(log.unwritten) == KEPT_MAX


def test_a_line_is_the_change_again(world: World) -> None:
    arguments = Table({"x": b"\xff", "n": Table({"m": [1, 2]}), "f": 1.5})
    with world.log.acting(ANN):
        declare(world.vhost, "new", is_durable=True, arguments=arguments)
    (change,) = world.seen()
    assert change_of(world.log.unwritten[-1]) == change
    assert change.details["arguments"] == {
        "x": "Not UTF-8, base64 is: /w==",
        "n": {"m": [1, 2]},
        "f": 1.5,
    }


@pytest.mark.parametrize("details", [{"name": "half \ud800"}, {"big": 1 << 70}])
def test_what_json_has_not_is_kept_as_well_as_it_can(world: World, details: Any) -> None:
    world.log.note("queue.created", details)
    (change,) = world.seen()
    again = change_of(world.log.unwritten[-1])
    assert again is not None
    assert set(again.details) == set(details)
    assert again.details == change.details


def test_long_details_are_cut(world: World) -> None:
    world.log.note("queue.created", {"name": "n" * 9_000, "arguments": {"x": "y" * 9_000}, "k": 1})
    world.log.note("queue.created", {f"name{number}": "n" * 500 for number in range(100)})
    first, second = world.seen()
    assert first.details["name"] == "n" * 512 + "..."
    assert (first.details["arguments"], first.details["k"]) == ("(too long to be kept)", 1)
    assert second.details == {"name": "(too long to be kept)"}
    for line in world.log.unwritten:
        assert len(orjson.dumps(orjson.loads(line)["details"])) <= LINE_MAX


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b'{"number":1,',
        b"[]",
        b'{"number":1}',
        b'{"number":1,"at_ms":2,"by":[1],"event":3}',
    ],
)
def test_lines_that_are_no_change_are_none(line: bytes) -> None:
    assert change_of(line) is None


def test_numbers_go_on_after_what_was_kept(world: World) -> None:
    kept = Change(41, 500, "user.created", {"name": "u"}, ANN)
    world.log.restore(iter([kept]))
    assert world.log.since_ms == 500
    world.log.note("user.deleted", {"name": "u"})
    newest, oldest = world.log.newest_first()
    assert (newest.number, oldest) == (42, kept)
