"""Schedules of an x-delayed-message exchange: their times, copies, restarts, and refusals."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hareline.broker.restoring import restore_entries
from hareline.errors import PreconditionFailed
from hareline.message import Table, Timestamp
from hareline.queues.policies.delay import Delay
from hareline.queues.queue import Queue
from tests.support.messages import make_message
from tests.support.vhosts import bodies, make_vhost
from tests.unit.broker.test_delayed_queues import DIRECT, WAIT, Stand

MINUTE_MS = 60_000
EVERY_SECOND: Mapping[str, object] = {"x-schedule-period": 1000, "x-schedule-repeat": 2}


@pytest.fixture
def stand() -> Stand:
    stand = Stand()
    stand.exchange()
    return stand


def to_next_minute(stand: Stand) -> int:
    """Milliseconds until the minute is full, more than one."""
    return MINUTE_MS - stand.now_ms % MINUTE_MS


def send(stand: Stand, headers: Mapping[str, object], **properties: object) -> None:
    stand.send(delay=None, headers=headers, delivery_mode=2, **properties)  # type: ignore[arg-type]


def headers_in(queue: Queue) -> list[dict[str, object]]:
    return [dict(entry.message.headers) for entry in queue.lane.ready_entries()]


def numbers_in(queue: Queue) -> list[object]:
    return [headers["x-schedule-number"] for headers in headers_in(queue)]


def hold_of(stand: Stand) -> Delay:
    assert isinstance(stand.waiting.hold, Delay)
    return stand.waiting.hold


def stop(stand: Stand) -> None:
    hold_of(stand)._deadline.stop()


def restart(stand: Stand) -> Queue:
    """A new broker with what the store has of the delayed exchange; its queue q is new."""
    ledger = stand.store.ledgers[WAIT]
    kept = [(offset, 0, entry.message) for offset, entry in sorted(ledger.living.items())]
    stop(stand)
    stand.vhost = make_vhost(
        stand.turn, timers=stand.timers, store=stand.store, definitions=stand.definitions
    )
    stand.vhost.restore_exchange(
        "d", "x-delayed-message", is_auto_delete=False, is_internal=False, arguments=DIRECT
    )
    waiting = stand.vhost.restore_queue(1, WAIT, is_auto_delete=False, arguments={})
    queue = stand.vhost.restore_queue(2, "q", is_auto_delete=False, arguments={})
    stand.vhost.restore_binding("d", "queue", "q", "k", {})
    restore_entries(waiting, kept)
    revived = {entry.offset: entry for entry in hold_of(stand).entries()}
    stand.store.ledgers[WAIT].living.update(revived)
    return queue


# -------------------------------------------------------------------------------------- times


@pytest.mark.row("S12")
def test_instant_is_waited_for_and_delivered_negated(stand: Stand) -> None:
    queue = stand.queue()
    seconds = stand.now_ms // 1000 + 2
    send(stand, {"x-deliver-at": seconds * 1000 - 1})
    send(stand, {"x-deliver-at": Timestamp(seconds)}, body=b"s")
    send(stand, {"x-deliver-at": stand.now_ms - 5}, body=b"past")
    stand.timers.advance(0)
    assert bodies(queue) == [b"past"]
    stand.timers.advance(seconds * 1000 - 1 - stand.now_ms)
    assert bodies(queue) == [b"past", b"m"]
    stand.timers.advance(1)
    assert bodies(queue) == [b"past", b"m", b"s"]
    assert headers_in(queue)[2] == {"x-deliver-at": -1000 * seconds}
    assert not stand.waiting.held_count


@pytest.mark.row("S12")
def test_message_is_repeated_and_then_gone(stand: Stand) -> None:
    queue = stand.queue()
    stand.send(delay=500, headers=EVERY_SECOND, delivery_mode=2, message_id="tick")
    stand.timers.advance(499)
    assert bodies(queue) == []
    stand.timers.advance(1)
    assert headers_in(queue) == [{"x-delay": -500, "x-schedule-id": "tick", "x-schedule-number": 1}]
    stand.timers.advance(999)
    assert numbers_in(queue) == [1]
    stand.timers.advance(1)
    assert numbers_in(queue) == [1, 2]
    stand.timers.advance(5000)
    assert numbers_in(queue) == [1, 2, 3]
    assert stand.waiting.held_count == 0
    assert stand.store.ledgers[WAIT].living == {}
    assert {entry.message.properties.message_id for entry in queue.lane.ready_entries()} == {"tick"}


@pytest.mark.row("S12")
def test_cron_ranks_first_and_the_others_run_at_each_of_its_times(stand: Stand) -> None:
    queue = stand.queue()
    full_ms = to_next_minute(stand)
    send(
        stand,
        {"x-schedule-cron": "* * * * *", "x-delay": 100, **EVERY_SECOND, "x-schedule-repeat": 1},
    )
    stand.timers.advance(full_ms + 99)
    assert bodies(queue) == []
    stand.timers.advance(1)
    assert numbers_in(queue) == [1]
    stand.timers.advance(1000)
    assert numbers_in(queue) == [1, 2]
    stand.timers.advance(MINUTE_MS - 1001)
    assert numbers_in(queue) == [1, 2]
    stand.timers.advance(1)
    assert numbers_in(queue) == [1, 2, 3]


def test_delay_longer_than_the_time_between_cron_times_loses_none(stand: Stand) -> None:
    queue = stand.queue()
    full_ms = to_next_minute(stand)
    send(stand, {"x-schedule-cron": "* * * * *", "x-delay": 90_000})
    stand.timers.advance(full_ms + 90_000)
    assert numbers_in(queue) == [1]
    stand.timers.advance(3 * MINUTE_MS)
    assert numbers_in(queue) == [1, 2, 3, 4]


def test_for_ever_does_not_end(stand: Stand) -> None:
    queue = stand.queue()
    send(stand, {"x-schedule-period": 10, "x-schedule-repeat": -1})
    stand.timers.advance(4_000)
    assert numbers_in(queue) == list(range(1, 402))
    assert stand.waiting.held_count == 1
    assert len(hold_of(stand)) < 200, "what has left is forgotten"


@pytest.mark.row("S12")
def test_time_to_live_begins_at_each_firing(stand: Stand) -> None:
    queue = stand.queue()
    stand.send(delay=None, headers=EVERY_SECOND, ttl_ms=300)
    for number in (1, 2, 3):
        stand.timers.advance(0 if number == 1 else 700)
        assert numbers_in(queue) == [number]
        stand.timers.advance(299)
        assert numbers_in(queue) == [number]
        stand.timers.advance(1)
        assert numbers_in(queue) == []


def test_each_firing_goes_by_the_bindings_of_its_time(stand: Stand) -> None:
    first, second = stand.queue("first"), stand.queue("second", "other")
    send(stand, EVERY_SECOND)
    stand.timers.advance(0)
    stand.vhost.unbind("d", "queue", first, "k", {})
    stand.vhost.bind("d", "queue", second, "k", {})
    stand.timers.advance(1000)
    assert (numbers_in(first), numbers_in(second)) == ([1], [2])


def test_many_schedules_that_are_due_together_keep_their_states(stand: Stand) -> None:
    """More than one share of them, and the heap is swept meanwhile."""
    queue = stand.queue()
    for number in range(300):
        send(stand, EVERY_SECOND, body=b"%d" % number, message_id=str(number))
    stand.timers.advance(3000)
    counts = [
        (headers["x-schedule-id"], headers["x-schedule-number"]) for headers in headers_in(queue)
    ]
    assert sorted(counts) == sorted((str(n), k) for n in range(300) for k in (1, 2, 3))


# ------------------------------------------------------------------------------------ restarts


@pytest.mark.row("S12")
def test_restart_goes_on_with_the_next_firing(stand: Stand) -> None:
    stand.queue()
    send(stand, {"x-schedule-period": 1000, "x-schedule-repeat": 3})
    stand.timers.advance(1000)
    queue = restart(stand)
    assert hold_of(stand).scheduled([f"{stand.now_ms - 1000}-0"]), "it has the id that it had"
    stand.timers.advance(999)
    assert numbers_in(queue) == []
    stand.timers.advance(3000)
    assert numbers_in(queue) == [3, 4]


@pytest.mark.row("S12")
def test_firing_is_one_batch_for_the_store(stand: Stand) -> None:
    stand.queue()
    send(stand, EVERY_SECOND)
    stand.store.sync_all()
    batches = len(stand.store.batches)
    stand.timers.advance(0)
    ledger = stand.store.ledgers[WAIT]
    assert (ledger.settled, list(ledger.living)) == ([0], [1])
    assert stand.store.ledgers["q"].added == [0]
    stand.store.sync_all()
    assert len(stand.store.batches) == batches + 1


@pytest.mark.row("S12")
def test_cron_times_missed_while_the_broker_was_down_are_one_firing(stand: Stand) -> None:
    stand.queue()
    full_ms = to_next_minute(stand)
    send(stand, {"x-schedule-cron": "* * * * *"})
    stand.timers.advance(full_ms)
    stop(stand)
    stand.timers.advance(10 * MINUTE_MS + 500)
    queue = restart(stand)
    stand.timers.advance(0)
    assert numbers_in(queue) == [2]
    stand.timers.advance(MINUTE_MS - 501)
    assert numbers_in(queue) == [2]
    stand.timers.advance(1)
    assert numbers_in(queue) == [2, 3]


@pytest.mark.row("S12")
def test_no_repeat_is_lost_by_a_broker_that_was_down(stand: Stand) -> None:
    stand.queue()
    send(stand, {"x-schedule-period": 1000, "x-schedule-repeat": 3})
    stand.timers.advance(0)
    stop(stand)
    stand.timers.advance(MINUTE_MS)
    queue = restart(stand)
    stand.timers.advance(0)
    assert numbers_in(queue) == [2]
    stand.timers.advance(1999)
    assert numbers_in(queue) == [2, 3]
    stand.timers.advance(1)
    assert numbers_in(queue) == [2, 3, 4]


# --------------------------------------------------------------------------- ids, cancel and fire


@pytest.mark.row("S12")
def test_fired_now_counts_as_the_next_firing(stand: Stand) -> None:
    queue = stand.queue()
    full_ms = to_next_minute(stand)
    send(stand, {"x-schedule-cron": "* * * * *"}, message_id="c")
    hold = hold_of(stand)
    hold.make_due(hold.scheduled(["c", "unknown"]))
    assert numbers_in(queue) == [1]
    stand.timers.advance(full_ms)
    assert numbers_in(queue) == [1]
    stand.timers.advance(MINUTE_MS)
    assert numbers_in(queue) == [1, 2]


def test_an_id_is_that_of_the_message_after_a_restart_too(stand: Stand) -> None:
    stand.queue()
    for _ in range(2):
        send(stand, EVERY_SECOND, message_id="same")
    send(stand, EVERY_SECOND)
    other = f"{stand.now_ms}-2"
    hold = hold_of(stand)
    assert len(hold.scheduled(["same"])) == 2
    hold.make_due(hold.scheduled(["same"])[:1])  # it stands behind the others now
    stand.timers.advance(0)
    restart(stand)
    hold = hold_of(stand)
    assert [len(hold.scheduled([each])) for each in ("same", other)] == [2, 1]
    stand.waiting.purge()
    assert hold.scheduled(["same", other]) == []


def test_nothing_is_repeated_while_publishers_are_blocked(stand: Stand) -> None:
    queue = stand.queue()
    send(stand, EVERY_SECOND)
    is_short = True
    stand.vhost.environment.pressure.blocks_publishers = lambda: is_short
    stand.timers.advance(60_000)
    assert bodies(queue) == []
    is_short = False
    stand.timers.advance(60_000)
    assert numbers_in(queue) == [1, 2, 3]


# ------------------------------------------------------------------------------------ refusals


@pytest.mark.row("S12")
@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"x-deliver-at": "soon"}, "header 'x-deliver-at' must be an integer, not of type longstr"),
        (
            {"x-schedule-cron": "* * *"},
            "header 'x-schedule-cron' must be five fields as in crontab, not '* * *': "
            "3 fields instead of 5",
        ),
        ({"x-schedule-cron": 5}, "header 'x-schedule-cron' must be text, not of type long"),
        (
            {"x-schedule-period": 5},
            "header 'x-schedule-period' needs 'x-schedule-repeat' beside it",
        ),
        (
            {"x-schedule-repeat": 5},
            "header 'x-schedule-repeat' needs 'x-schedule-period' beside it",
        ),
        (
            {"x-schedule-period": 0, "x-schedule-repeat": 5},
            "header 'x-schedule-period' must be 1 or more, not 0",
        ),
        (
            {"x-schedule-period": 1, "x-schedule-repeat": -2},
            "header 'x-schedule-repeat' must be 0 or more, or -1 for ever, not -2",
        ),
        (
            {"x-schedule-cron": "* * * * *", "x-schedule-period": 1, "x-schedule-repeat": -1},
            "header 'x-schedule-repeat' must not be -1 beside 'x-schedule-cron': "
            "the second cron time would never come",
        ),
        ({"x-schedule-next": 1}, "header 'x-schedule-next' is set by the broker only"),
    ],
)
def test_invalid_header_is_named(stand: Stand, headers: Mapping[str, object], text: str) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        send(stand, headers)
    assert refusal.value.explanation == text
    assert not stand.waiting.held_count


def test_dead_letter_with_an_invalid_schedule_is_one_without(stand: Stand) -> None:
    queue = stand.queue("back", "dead")
    source = stand.declare(
        "source", {"x-dead-letter-exchange": "d", "x-dead-letter-routing-key": "dead"}
    )
    for delay in (0, 1000):
        wrong = {"x-delay": delay, "x-deliver-at": "soon", "x-schedule-cron": "never"}
        source.put(make_message(b"%d" % delay, exchange="", headers=Table(wrong)))
        entry = source.get()
        assert entry is not None
        source.reject([entry])
    assert bodies(queue) == [b"0"]
    stand.timers.advance(1000)
    assert bodies(queue) == [b"0", b"1000"]
    assert "x-schedule-cron" not in headers_in(queue)[1]


def test_no_dead_letter_forges_the_state_of_a_schedule(stand: Stand) -> None:
    queue = stand.queue("back", "dead")
    source = stand.declare(
        "source", {"x-dead-letter-exchange": "d", "x-dead-letter-routing-key": "dead"}
    )
    forged = {
        "x-delay": 1000,
        "x-schedule-next": stand.now_ms + 500,
        "x-schedule-number": 2**63 - 1,
        "x-schedule-id": "other",
    }
    source.put(make_message(b"m", exchange="", headers=Table({**EVERY_SECOND, **forged})))
    entry = source.get()
    assert entry is not None
    source.reject([entry])
    assert hold_of(stand).scheduled(["other"]) == []
    stand.timers.advance(10_000)
    assert bodies(queue) == [b"m"]
