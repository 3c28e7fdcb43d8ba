"""Held and delayed messages: listed by their times, cancelled, made due."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hareline.broker.delayed_queues import delay_queue_name
from hareline.broker.operations import holding
from hareline.broker.operations.holding import Due, cancel_held, held, make_held_due
from hareline.broker.operations.moving import Outcome
from hareline.message import Table
from hareline.queues.queue import Queue
from tests.support.messages import make_message
from tests.support.vhosts import bind, bodies, declare, declare_exchange
from tests.unit.queues.operations.test_moving import Stand

MANY = 100


def finish(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


def hold(queue: Queue, *delays_ms: int) -> None:
    for delay_ms in delays_ms:
        queue.put(make_message(b"%d" % delay_ms, headers=Table({"x-delay": delay_ms})))


def listed(queue: Queue, count: int = MANY, after: tuple[int, int] | None = None) -> list[bytes]:
    found: list[Due] = []
    finish(held(queue, found, count=count, after=after))
    return [entry.message.body for _, _, entry in found]


def test_held_messages_are_listed_by_their_times_in_pages() -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q", arguments={"x-hold-on-publish": True})
    hold(queue, 500, 100, 300, 0)
    assert queue.held_count == 3
    assert listed(queue) == [b"100", b"300", b"500"]
    found: list[Due] = []
    finish(held(queue, found, count=2))
    last = found[-1]
    assert last[0] == stand.timers.clock.now_ms + 300
    assert listed(queue, after=(last[0], last[1])) == [b"500"]
    assert listed(declare(stand.vhost, "plain")) == []


def test_cancelled_messages_are_gone_and_the_others_come_at_their_times() -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q", arguments={"x-hold-on-publish": True})
    hold(queue, 500, 100, 300)
    outcome = Outcome()
    finish(cancel_held(queue, frozenset((0, 77)), outcome))
    assert (outcome.done, outcome.offsets, queue.held_count) == (1, [0], 2)
    stand.timers.advance(1_000)
    assert sorted(bodies(queue)) == [b"100", b"300"]


def test_messages_made_due_are_ready_in_their_places() -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q", arguments={"x-hold-on-publish": True})
    hold(queue, 500, 100, 300)
    outcome = Outcome()
    finish(make_held_due(queue, None, outcome))
    assert (outcome.done, queue.held_count, queue.ready_count) == (3, 0, 3)
    assert bodies(queue) == [b"500", b"100", b"300"]
    stand.timers.advance(1_000)
    assert queue.ready_count == 3


def test_an_exchange_sends_on_what_it_delays() -> None:
    stand = Stand()
    declare_exchange(
        stand.vhost, "late", "x-delayed-message", arguments={"x-delayed-type": "fanout"}
    )
    target = declare(stand.vhost, "t")
    bind(stand.vhost, "late", target)
    delayed = stand.vhost.queues[delay_queue_name("late")]
    hold(delayed, 500, 100, 300)
    assert listed(delayed) == [b"100", b"300", b"500"]
    outcome = Outcome()
    finish(make_held_due(delayed, frozenset((0,)), outcome))
    assert bodies(target) == [b"500"]
    finish(cancel_held(delayed, None, outcome))
    assert outcome.done == 3
    stand.timers.advance(1_000)
    assert bodies(target) == [b"500"]
    assert delayed.held_count == 0


def test_many_held_messages_are_gone_over_in_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOKED_AT_ONCE", "CANCELLED_AT_ONCE", "MADE_DUE_AT_ONCE"):
        monkeypatch.setattr(holding, name, 4)
    stand = Stand()
    queue = declare(stand.vhost, "q", arguments={"x-hold-on-publish": True})
    hold(queue, *range(1_000, 1_040))
    found: list[Due] = []
    assert len(list(held(queue, found, count=3))) == 10
    outcome = Outcome()
    steps = make_held_due(queue, frozenset((39, 20, 0)), outcome)
    assert len(list(steps)) == 11  # ten looks at four each, and what is meant
    assert outcome.offsets == [0, 20, 39]
    steps = cancel_held(queue, None, outcome)
    next(steps)
    assert queue.held_count == 34  # one of the four is fired
    hold(queue, 5)  # is not meant: it came later
    stand.timers.advance(1_003)
    finish(steps)
    assert queue.held_count == 0
    assert sorted(bodies(queue)) == [b"1000", b"1020", b"1039", b"5"]


def test_what_was_made_due_does_not_stay_with_the_held_ones() -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q", arguments={"x-hold-on-publish": True})
    hold(queue, *range(10_000, 10_500))
    finish(make_held_due(queue, None, Outcome()))
    hold(queue, 20_000)
    assert queue.hold is not None
    assert len(queue.hold) == 1
    assert queue.ready_count == 500
