"""The event exchange by itself: when it publishes, in which shares, and what it cannot keep."""

from __future__ import annotations

import pytest

from hareline import events
from hareline.broker import event_exchange
from hareline.broker.event_exchange import EVENT_EXCHANGE, EventExchange
from hareline.errors import AccessRefused
from hareline.later import ITEMS_PER_LOOK
from hareline.queues.core.kinds import KEEPS_PERSISTENT
from tests.support.vhosts import VhostStand, bind, declare, declare_exchange


class Stand(VhostStand):
    """A virtual host with an event exchange, and a queue that gets all events."""

    def __init__(self) -> None:
        super().__init__()
        self.events = EventExchange(
            self.turn, self.timers.clock, self.timers, self.report, node="hareline@test"
        )
        self.vhost.open_events(self.events)
        self.queue = self.declare("events", is_durable=False)

    def bind(self, key: str = "#") -> None:
        bind(self.vhost, EVENT_EXCHANGE, self.queue, key)

    def keys(self) -> list[str]:
        self.turn.run()
        keys = []
        while (entry := self.queue.get()) is not None:
            self.queue.settle(entry)
            keys.append(entry.message.address.routing_key)
        return keys


@pytest.fixture
def stand() -> Stand:
    return Stand()


def test_the_exchange_is_a_topic_that_clients_cannot_publish_to(stand: Stand) -> None:
    exchange = stand.vhost.exchanges[EVENT_EXCHANGE]
    assert (exchange.type_name, exchange.is_internal, exchange.is_durable) == ("topic", True, True)
    with pytest.raises(AccessRefused):
        stand.vhost.delete_exchange(EVENT_EXCHANGE, if_unused=False)
    stand.vhost.open_events(stand.events)  # again, as after a reload
    assert stand.vhost.exchanges[EVENT_EXCHANGE] is exchange


def test_nothing_is_made_while_nothing_is_bound(stand: Stand) -> None:
    assert not stand.events.is_wanted
    stand.events.emit("queue.created", {"name": "q"})
    assert not stand.turn.is_armed
    stand.bind()
    assert stand.events.is_wanted


def test_a_key_decides_who_gets_an_event(stand: Stand) -> None:
    stand.bind("queue.*")
    stand.events.emit("queue.created", {})
    stand.events.emit("vhost.created", {})
    assert stand.keys() == ["queue.created"]


def test_nothing_is_published_from_within_what_it_tells_of(stand: Stand) -> None:
    stand.bind()
    stand.vhost.tell_events(stand.events)
    declare_exchange(stand.vhost, "x")
    assert stand.queue.ready_count == 0
    assert stand.keys() == ["exchange.created"]


def test_fields_without_a_value_are_left_out(stand: Stand) -> None:
    stand.bind()
    stand.events.emit("user.created", {"name": "u", "tags": None, "list": ["a"], "n": 1})
    stand.turn.run()
    entry = stand.queue.get()
    assert entry is not None
    headers = dict(entry.message.headers)
    assert headers.pop("timestamp_in_ms") == stand.timers.clock.now_ms
    assert headers == {"name": "u", "list": ["a"], "n": 1}


def test_actors_are_nested(stand: Stand) -> None:
    with stand.events.acting("one"):
        with stand.events.acting("two"):
            assert stand.events.actor == "two"
        assert stand.events.actor == "one"
    assert stand.events.actor == event_exchange.BROKER_ITSELF


def test_many_are_published_in_shares(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    stand.bind()
    times = iter(range(100_000))
    monkeypatch.setattr(stand.turn, "now", lambda: float(next(times)))
    count = 3 * ITEMS_PER_LOOK
    for number in range(count):
        stand.events.emit("queue.created", {"name": str(number)})
    stand.turn.step()
    assert stand.turn.is_behind
    assert stand.events.published_count == ITEMS_PER_LOOK
    assert len(stand.keys()) == count


def test_more_than_it_can_hold_is_lost_and_reported(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_exchange, "ITEMS_MAX", 1)
    stand.bind()
    for _ in range(3):
        stand.events.emit("queue.created", {})
    assert stand.keys() == ["queue.created"]
    stand.timers.advance(1000)
    assert stand.reports == [(events.EVENTS_LOST, {"count": 2, "reason": "too many at once"})]
    assert stand.events.lost.count == 2


def test_what_cannot_be_kept_is_lost_and_reported(stand: Stand) -> None:
    """An alarm for the disk is told of when the disk is full."""
    stand.bind()
    kept = declare(stand.vhost, "kept")
    kept.keeps = KEEPS_PERSISTENT
    bind(stand.vhost, EVENT_EXCHANGE, kept, "#")
    stand.vhost.environment.store.refuse("no room")
    stand.events.on_alarm("disk", True)
    assert stand.keys() == ["alarm.set"]
    assert kept.ready_count == 0
    stand.timers.advance(1000)
    assert stand.reports == [(events.EVENTS_LOST, {"count": 1, "reason": "no room"})]


def test_a_field_that_no_table_can_hold_costs_its_event(stand: Stand) -> None:
    stand.bind()
    stand.events.emit("parameter.set", {"value": 1 << 80})
    stand.events.emit("parameter.set", {"value": 1})
    assert stand.keys() == ["parameter.set"]
    assert stand.events.lost.count == 1
