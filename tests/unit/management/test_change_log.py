"""What the log of changes sees of virtual hosts, alarms and settings, and what it leaves out."""

from __future__ import annotations

import pytest

from hareline.broker.vhost import VirtualHost
from hareline.management import change_log
from hareline.management.change_log import KEPT_MAX, SHARE, Change, ChangeLog, ChangeWatch
from hareline.management.pace import Pace
from tests.support.turns import ManualTurn
from tests.support.vhosts import ME, bind, declare, declare_exchange, make_vhost, unbind
from tests.support.waiting import until


class World:
    """A virtual host that is watched, alarms and settings that tests change, and the clock."""

    def __init__(self) -> None:
        self.vhost = make_vhost(ManualTurn())
        self.vhosts: dict[str, VirtualHost] = {"/": self.vhost}
        self.alarms: list[str] = []
        self.settings: object = "first"
        self.now_ms = 1_000
        declare(self.vhost, "old", is_durable=True)
        self.log = ChangeLog(lambda: self.now_ms)
        self.watch = ChangeWatch(self.log, self.vhosts, lambda: self.alarms, lambda: self.settings)

    def seen(self) -> list[Change]:
        """The changes of one look, in their order."""
        before = {change.number for change in self.log.newest_first()}
        for _ in self.watch.look():
            continue
        found = [change for change in self.log.newest_first() if change.number not in before]
        return found[::-1]

    def events(self) -> list[tuple[str, object]]:
        return [(change.event, change.details.get("name")) for change in self.seen()]


@pytest.fixture
def world() -> World:
    return World()


def test_what_was_there_before_is_no_change(world: World) -> None:
    assert world.events() == []


def test_a_durable_queue_comes_and_goes(world: World) -> None:
    declare(world.vhost, "new", is_durable=True, arguments={"x-max-length": 3})
    world.now_ms = 2_000
    (change,) = world.seen()
    assert (change.event, change.at_ms) == ("queue.created", 2_000)
    assert change.details == {"vhost": "/", "name": "new", "arguments": {"x-max-length": 3}}
    world.vhost.delete_queue("new", ME)
    assert world.events() == [("queue.deleted", "new")]


def test_a_queue_that_was_made_again_is_another_one(world: World) -> None:
    world.vhost.delete_queue("old", ME)
    declare(world.vhost, "old", is_durable=True)
    assert world.events() == [("queue.deleted", "old"), ("queue.created", "old")]


@pytest.mark.parametrize("kind", ["is_auto_delete", "is_exclusive", "transient"])
def test_what_comes_and_goes_with_clients_is_left_out(world: World, kind: str) -> None:
    declare(
        world.vhost,
        "passing",
        is_durable=kind != "transient",
        is_auto_delete=kind == "is_auto_delete",
        is_exclusive=kind == "is_exclusive",
    )
    assert world.events() == []


def test_exchanges_and_their_bindings(world: World) -> None:
    declare_exchange(world.vhost, "made", "topic", is_durable=True)
    assert world.events() == [("exchange.created", "made")]
    queue = world.vhost.queues["old"]
    bind(world.vhost, "made", queue, "a")
    bind(world.vhost, "made", queue, "b")
    (change,) = world.seen()
    assert change.event == "binding.created"
    assert (change.details["before"], change.details["bindings"]) == (0, 2)
    unbind(world.vhost, "made", queue, "a")
    assert world.events() == [("binding.deleted", "made")]
    world.vhost.delete_exchange("made", if_unused=False)
    assert world.events() == [("exchange.deleted", "made")]


def test_arguments_in_force_that_change(world: World) -> None:
    world.vhost.queue_arguments["old"] = world.vhost.queue_arguments["old"].__class__(
        raw={}, max_length=5
    )
    world.vhost.routing.mark_changed()
    assert world.events() == [("queue.changed", "old")]


def test_alarms_and_settings(world: World) -> None:
    world.alarms = ["memory"]
    assert world.events() == [("alarm.set", "memory")]
    world.alarms = []
    world.settings = "second"
    assert world.events() == [("alarm.cleared", "memory"), ("settings.changed", None)]
    assert world.events() == []


def test_what_a_new_virtual_host_begins_with_is_no_change(world: World) -> None:
    other = make_vhost(ManualTurn(), "other")
    declare(other, "begins", is_durable=True)
    world.vhosts["other"] = other
    assert world.events() == []
    declare(other, "later", is_durable=True)
    assert world.events() == [("queue.created", "later")]
    del world.vhosts["other"]
    assert world.events() == []


def test_a_look_pauses_in_a_large_virtual_host_and_takes_nothing_in_an_unchanged(
    world: World,
) -> None:
    for number in range(SHARE * 2):
        declare(world.vhost, f"q{number}")
    assert len(list(world.watch.look())) >= 2
    assert list(world.watch.look()) == []


def test_a_look_pauses_among_many_exchanges_and_changes(world: World) -> None:
    for number in range(SHARE * 2):
        declare_exchange(world.vhost, f"e{number}", is_durable=True)
    assert len(list(world.watch.look())) >= 5
    assert len(list(world.log.newest_first())) == SHARE * 2


def test_values_of_parameters_are_not_kept() -> None:
    log = ChangeLog(lambda: 7)
    log.note("parameter.set", {"component": "shovel", "name": "s", "value": {"uri": "secret"}})
    (change,) = log.newest_first()
    assert change.details == {"component": "shovel", "name": "s"}


def test_the_oldest_changes_give_way() -> None:
    log = ChangeLog(lambda: 7)
    for number in range(KEPT_MAX + 3):
        log.note("user.created", {"name": f"u{number}"})
    kept = list(log.newest_first())
    assert len(kept) == KEPT_MAX
    assert (kept[0].number, kept[-1].number) == (KEPT_MAX + 3, 4)


async def test_it_looks_by_itself_until_it_is_stopped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "WATCH_S", 0.0)
    declare(world.vhost, "new", is_durable=True)
    world.watch.start(Pace())
    await until(lambda: list(world.log.newest_first()), "the change")
    await world.watch.stop()
    await world.watch.stop()
