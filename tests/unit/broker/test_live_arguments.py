"""Arguments of living queues: changed by operators, overlaid by policies, kept, and undone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hareline import events
from hareline.broker import live_arguments
from hareline.errors import PreconditionFailed, StoreError
from hareline.message import Table
from hareline.queues.core.kinds import DUPLICATE, TAKEN
from hareline.queues.policies import overflow
from hareline.queues.queue import Queue
from hareline.selectors.selector import compile_selector
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.timers import ManualTimers
from tests.support.turns import ManualTurn
from tests.support.vhosts import StoredVhost, bodies, declare, make_vhost

LIMIT = {"x-max-length": 10}


def fill(queue: Queue, count: int) -> None:
    for number in range(count):
        queue.put(make_message(b"%d" % number))


def redeclare(stand: StoredVhost, arguments: Mapping[str, object]) -> Queue:
    return stand.declare("q", arguments=arguments)


def test_a_change_is_in_force_kept_and_does_not_change_the_declaration() -> None:
    stand = StoredVhost()
    queue = stand.declare("q", arguments=LIMIT)
    live = stand.vhost.live_arguments
    live.change(queue, {"x-max-length": 3, "x-overflow": "reject-publish"})
    assert live.in_force(queue).max_length == 3
    assert stand.definitions.settings["q"] == (
        False,
        {"x-max-length": 3, "x-overflow": "reject-publish"},
    )
    assert queue.arguments == LIMIT
    assert redeclare(stand, LIMIT) is queue
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-max-length'"):
        redeclare(stand, {"x-max-length": 3})
    live.change(queue, {"x-max-length": None, "x-overflow": None})
    assert live.in_force(queue).max_length is None
    assert queue.overflow is None
    live.change(queue, {"x-max-length": 10})
    assert live.changes_of(queue) == {}
    assert stand.definitions.settings["q"] == (False, {})


def test_a_name_takes_the_place_of_its_other_names() -> None:
    stand = StoredVhost()
    queue = stand.declare("q", arguments={"qpid.max_count": 5, "qpid.policy_type": "ring"})
    live = stand.vhost.live_arguments
    live.change(queue, {"x-max-length": 7})
    assert live.own(queue) == {"qpid.policy_type": "ring", "x-max-length": 7}
    live.change(queue, {"maximumQueueDepthMessages": 9})
    assert live.changes_of(queue) == {"maximumQueueDepthMessages": 9}
    assert live.in_force(queue).max_length == 9


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"x-nonsense": 1}, "unknown arg 'x-nonsense'"),
        ({"x-max-length": -1}, "invalid arg 'x-max-length'.*value_negative"),
        ({"x-archive-to": "s"}, "arg 'x-archive-to'.*cannot change now.*declare it again"),
        ({"x-dead-letter-routing-key": "k"}, "routing_key_but_no_dlx_defined"),
        ({"x-queue-type": "quorum"}, "arg 'x-queue-type'.*cannot change"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(changes: dict[str, Any], text: str) -> None:
    stand = StoredVhost()
    queue = stand.declare("q", arguments=LIMIT)
    live = stand.vhost.live_arguments
    with pytest.raises(PreconditionFailed, match=text):
        live.change(queue, {**changes, "x-message-ttl": 5})
    assert live.changes_of(queue) == {}
    assert live.in_force(queue).message_ttl_ms is None
    assert "q" not in stand.definitions.settings


def test_an_overlay_wins_and_goes_without_a_trace() -> None:
    stand = StoredVhost()
    queue = stand.declare("q", arguments=LIMIT)
    live = stand.vhost.live_arguments
    policy: dict[str, object] = {"x-max-length": 2}
    live.overlay = lambda _queue, own: {**own, **policy}
    fill(queue, 10)
    live.refresh(queue)
    stand.turn.run()
    assert queue.ready_count == 2
    live.change(queue, {"x-max-length": 8, "x-message-ttl": 1000})
    assert live.in_force(queue).max_length == 2
    policy.clear()
    live.refresh(queue)
    assert (live.in_force(queue).max_length, live.in_force(queue).message_ttl_ms) == (8, 1000)
    assert stand.definitions.settings["q"][1] == {"x-max-length": 8, "x-message-ttl": 1000}


def test_a_pause_is_kept_and_taken_back_when_it_cannot_be() -> None:
    stand = StoredVhost()
    queue = stand.declare("q")
    live = stand.vhost.live_arguments
    live.set_paused(queue, paused=True)
    assert queue.is_paused
    assert stand.definitions.settings["q"] == (True, {})
    stand.definitions.failure = "disk I/O error"
    with pytest.raises(StoreError):
        live.set_paused(queue, paused=False)
    assert queue.is_paused
    with pytest.raises(StoreError):
        live.change(queue, LIMIT)
    assert queue.overflow is None
    assert live.changes_of(queue) == {}


def test_what_a_turn_has_lost_is_not_in_force() -> None:
    stand = StoredVhost()
    queue = stand.declare("q")
    live = stand.vhost.live_arguments
    stand.definitions.gathers = True
    stand.definitions.loss = "no room"
    live.change(queue, LIMIT)
    live.set_paused(queue, paused=True)
    stand.definitions.commit()
    assert live.changes_of(queue) == {}
    assert queue.overflow is None
    assert not queue.is_paused


def test_a_transient_queue_changes_in_memory_and_takes_it_along() -> None:
    stand = StoredVhost()
    queue = stand.declare("q", is_durable=False)
    live = stand.vhost.live_arguments
    live.change(queue, LIMIT)
    assert stand.definitions.settings == {}
    stand.vhost.delete_queue("q", None)
    again = declare(stand.vhost, "q")
    assert live.changes_of(again) == {}
    assert again.overflow is None


def test_what_was_kept_is_in_force_again_before_messages_come() -> None:
    stand = StoredVhost()
    queue = stand.declare("q", arguments=LIMIT)
    stand.vhost.live_arguments.restore(queue, {"x-max-length": 4}, paused=True)
    assert queue.is_paused
    fill(queue, 9)
    assert queue.ready_count == 4


def test_what_cannot_be_undone_is_reported_and_the_rest_is_undone() -> None:
    stand = StoredVhost()
    held, other = stand.declare("held"), stand.declare("other")
    live = stand.vhost.live_arguments
    stand.definitions.gathers = True
    stand.definitions.loss = "no room"
    live.change(other, LIMIT)
    live.change(held, {"x-hold-on-publish": True})
    held.put(make_message(b"later", headers=Table({"x-delay": 10_000})))
    assert held.held_count == 1
    stand.definitions.commit()
    assert other.overflow is None
    assert live.changes_of(held) == {}
    assert held.hold is not None
    ((event, fields),) = [each for each in stand.reports if each[1].get("what")]
    assert event is events.DEFINITION_IMPOSSIBLE
    assert fields["what"] == "arguments of queue 'held'"
    assert "it holds 1 messages" in str(fields["problem"])


# ------------------------------------------------------------------------- each argument at once


class Living:
    def __init__(self) -> None:
        self.turn = ManualTurn()
        self.timers = ManualTimers(on_rung=self.turn.run)
        self.vhost = make_vhost(self.turn, timers=self.timers)
        self.dead = declare(self.vhost, "dead")

    def queue(self, **arguments: Any) -> Queue:
        return declare(self.vhost, "q", arguments=names(arguments))

    def change(self, **changes: Any) -> None:
        self.vhost.live_arguments.change(self.vhost.queues["q"], names(changes))


def names(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "-"): value for name, value in arguments.items()}


def put(queue: Queue, count: int, size: int = 10) -> list[int]:
    return [queue.put(make_message(b"%d" % number + b"." * (size - 1))) for number in range(count)]


def stops_publishers(queue: Queue) -> bool:
    return queue.overflow is not None and queue.overflow.stops_publishers


@pytest.fixture
def stand() -> Living:
    return Living()


@pytest.mark.parametrize("paged", [False, True])
def test_a_lower_limit_trims_in_shares(
    stand: Living, monkeypatch: pytest.MonkeyPatch, paged: bool
) -> None:
    monkeypatch.setattr(overflow, "DROPPED_AT_ONCE", 10)
    queue = stand.queue(
        **({"x_max_length": 1000} if paged else {}),
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="dead",
    )
    put(queue, 100)
    stand.turn.run()
    stand.change(x_max_length=5)
    assert queue.ready_count == 100
    stand.turn.step()
    assert queue.ready_count == 90
    put(queue, 1)  # is no reason to drop all the rest at once
    assert queue.ready_count == 91
    stand.turn.run()
    assert queue.ready_count == 5
    assert stand.dead.ready_count == 96
    put(queue, 1)
    assert queue.ready_count == 5


def test_a_lower_limit_of_octets_counts_what_was_there(stand: Living) -> None:
    queue = stand.queue()
    put(queue, 10)
    stand.change(x_max_length_bytes=45)
    stand.turn.run()
    assert queue.ready_count == 4
    stand.change(x_max_length_bytes=None)
    put(queue, 20)
    assert queue.ready_count == 24
    assert not queue.needs_admission


def test_the_policy_at_the_limit_changes(stand: Living) -> None:
    queue = stand.queue(x_max_length=2)
    put(queue, 3)
    stand.change(x_overflow="reject-publish")
    assert put(queue, 1) == [0]
    stand.change(x_overflow="none")
    assert put(queue, 2) == [1, 1]
    assert queue.ready_count == 4
    stand.change(x_overflow="drop-head")
    stand.turn.run()
    assert queue.ready_count == 2


def test_a_limit_that_is_lifted_lets_stopped_publishers_go_on(stand: Living) -> None:
    queue = stand.queue(x_max_length=2, x_overflow="flow-control")
    put(queue, 3)
    assert stops_publishers(queue)
    stand.change(x_max_length=10)
    assert not stops_publishers(queue)
    put(queue, 9)
    assert stops_publishers(queue)
    stand.change(x_overflow="none")
    assert not stops_publishers(queue)


def test_limits_by_qpids_names_begin_with_an_empty_queue(stand: Living) -> None:
    queue = stand.queue()
    put(queue, 1)
    with pytest.raises(PreconditionFailed, match=r"from an empty queue on.*purge the queue"):
        stand.change(maximumQueueDepthMessages=5)
    queue.purge()
    stand.change(maximumQueueDepthMessages=2, overflowPolicy="RING")
    put(queue, 3)
    assert queue.ready_count == 2
    stand.change(maximumQueueDepthMessages=1)
    stand.turn.run()
    assert queue.ready_count == 1


def test_a_time_to_live_is_for_messages_that_come(stand: Living) -> None:
    queue = stand.queue()
    put(queue, 2)
    stand.change(x_message_ttl=100)
    put(queue, 3)
    stand.timers.advance(200)
    assert queue.ready_count == 2
    stand.change(x_message_ttl=None)
    put(queue, 1)
    stand.timers.advance(200)
    assert queue.ready_count == 3


def test_dead_letters_go_to_another_place(stand: Living) -> None:
    queue = stand.queue()
    put(queue, 3)
    entries = [entry for _ in range(3) if (entry := queue.get()) is not None]
    queue.reject(entries[:1])
    stand.change(x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    queue.reject(entries[1:2])
    assert stand.dead.ready_count == 1
    assert queue.dead_letters is not None
    stand.change(x_dead_letter_routing_key="nowhere")
    assert queue.dead_letters.published_count == 1
    queue.reject(entries[2:])
    assert stand.dead.ready_count == 1
    stand.change(x_dead_letter_exchange=None, x_dead_letter_routing_key=None)
    assert queue.dead_letters is None


def test_a_delivery_limit_counts_what_came_back_before(stand: Living) -> None:
    queue = stand.queue()
    put(queue, 1)
    for _ in range(3):
        entry = queue.get()
        assert entry is not None
        queue.release([entry])
    stand.change(x_delivery_limit=3)
    entry = queue.get()
    assert entry is not None
    queue.release([entry])
    assert queue.ready_count == 0


def test_a_lease_begins_is_longer_and_ends(stand: Living) -> None:
    stand.queue()
    stand.change(x_expires=1_000)
    stand.timers.advance(900)
    stand.change(x_expires=5_000)
    stand.timers.advance(4_900)
    assert "q" in stand.vhost.queues
    stand.change(x_expires=None)
    stand.timers.advance(60_000)
    assert "q" in stand.vhost.queues
    stand.change(x_expires=1_000)
    stand.timers.advance(1_001)
    assert "q" not in stand.vhost.queues


def test_a_retry_begins_and_ends_at_any_time(stand: Living) -> None:
    queue = stand.queue()
    queue.enqueue(make_message(b"m"))
    consumer = RecordingConsumer(queue)
    queue.add_consumer(consumer)
    stand.turn.run()
    stand.change(x_delayed_retry_min=1_000)
    consumer.release()
    stand.turn.run()
    assert queue.held_count == 1
    stand.change(x_delayed_retry_min=None)
    assert queue.held_count == 1  # until its time
    stand.timers.advance(1_000)
    consumer.release()
    stand.turn.run()
    assert consumer.bodies == [b"m"] * 3
    assert queue.held_count == 0


def test_a_hold_begins_and_ends_when_nothing_is_held(stand: Living) -> None:
    queue = stand.queue()
    stand.change(x_hold_on_publish=True)
    queue.put(make_message(b"m", headers=Table({"x-delay": 100})))
    assert (queue.held_count, queue.ready_count) == (1, 0)
    with pytest.raises(PreconditionFailed, match="it holds 1 messages"):
        stand.change(x_hold_on_publish=False)
    stand.timers.advance(101)
    stand.change(x_hold_on_publish=False)
    queue.put(make_message(b"m", headers=Table({"x-delay": 100})))
    assert (queue.held_count, queue.ready_count) == (0, 2)
    stand.change(x_hold_until_header="eta")
    queue.put(make_message(b"m", headers=Table({"eta": stand.timers.clock.now_ms + 100})))
    assert (queue.held_count, queue.ready_count) == (1, 2)
    with pytest.raises(PreconditionFailed, match=r"'x-hold-until-header' .* it holds 1 messages"):
        stand.change(x_hold_until_header=None)
    stand.timers.advance(100)
    assert (queue.held_count, queue.ready_count) == (0, 3)


def test_single_active_consumer_changes_without_consumers(stand: Living) -> None:
    queue = stand.queue()
    first = RecordingConsumer(queue)
    queue.add_consumer(first)
    with pytest.raises(PreconditionFailed, match="it has 1 consumers; cancel them first"):
        stand.change(x_single_active_consumer=True)
    queue.remove_consumer(first)
    stand.change(x_single_active_consumer=True)
    consumers = [RecordingConsumer(queue) for _ in range(2)]
    for consumer in consumers:
        queue.add_consumer(consumer)
    assert [consumer.is_live for consumer in consumers] == [True, False]


def test_a_stream_keeps_less(stand: Living) -> None:
    queue = declare(stand.vhost, "q", is_durable=True, arguments={"x-queue-type": "stream"})
    put(queue, 10)
    stand.turn.run()
    stand.change(x_max_length_bytes=50)
    stand.turn.run()
    assert queue.ready_count == 5
    stand.change(x_max_age="1s")
    stand.turn.run()
    stand.timers.advance(2_000)
    assert queue.ready_count == 0


# ------------------------------------------------------------------------- in which order, and what


def put_of(queue: Queue, *priorities: int) -> None:
    for priority in priorities:
        queue.put(make_message(b"%d" % priority, priority=priority))


def taken(queue: Queue) -> list[int]:
    """Take all that is ready, in order."""
    found = []
    while (entry := queue.get()) is not None:
        found.append(int(entry.message.body))
    return found


@pytest.mark.row("C5")
def test_what_is_there_is_put_into_the_order_of_priorities_and_back(stand: Living) -> None:
    queue = stand.queue()
    put_of(queue, 1, 3, 2, 3)
    held = queue.get()  # an entry of a plain queue, which has no room for a rank
    assert held is not None
    stand.change(x_max_priority=5)
    put_of(queue, 2, 5)
    queue.release([held])
    assert [int(body) for body in bodies(queue)] == [5, 3, 3, 2, 2, 1]
    first = queue.get()
    assert first is not None
    stand.change(x_max_priority=None)
    queue.release([first])
    put_of(queue, 4)
    assert taken(queue) == [1, 3, 2, 3, 2, 5, 4]


@pytest.mark.row("C5")
def test_what_was_delivered_by_other_levels_comes_back_to_the_new_ones(stand: Living) -> None:
    queue = stand.queue(x_max_priority=9)
    put_of(queue, 1, 9, 5)
    highest = queue.get()
    assert highest is not None
    stand.change(x_max_priority=1)
    put_of(queue, 0)
    queue.release([highest])
    assert taken(queue) == [1, 9, 5, 0]
    assert (queue.ready_count, queue.unacked_count) == (0, 4)


def test_consumers_with_selectors_go_on_in_another_order(stand: Living) -> None:
    queue = stand.queue()
    consumer = RecordingConsumer(queue, selector=compile_selector("n > 0"))
    consumer.fill()
    queue.add_consumer(consumer)
    for priority, number in ((1, 1), (2, 0), (3, 1)):
        queue.put(make_message(b"%d" % priority, priority=priority, headers=Table({"n": number})))
    stand.turn.run()
    stand.change(x_max_priority=5)
    consumer.drain()
    stand.turn.run()
    assert consumer.bodies == [b"3", b"1"]
    assert bodies(queue) == [b"2"]


@pytest.mark.parametrize(
    ("arguments", "changes", "text"),
    [
        ({}, {"x_sort_key": "n"}, "'x-sort-key'.*it has 3 messages; it can only while it has none"),
        ({}, {"x_last_value_key": "n"}, "'x-last-value-key'.*3 messages and 1 consumers"),
        ({}, {"x_max_priority": 2}, "'x-max-priority'.*it has 3 messages ready, more than 2"),
        (
            {"x_message_group_key": "g"},
            {"x_max_priority": 2},
            "'x-max-priority'.*it has 3 messages in groups",
        ),
        ({"x_non_destructive": True}, {"x_max_priority": 2}, "'x-max-priority'.*3 messages and 1"),
    ],
)
def test_an_order_that_cannot_be_made_now_is_refused(
    stand: Living,
    monkeypatch: pytest.MonkeyPatch,
    arguments: dict[str, Any],
    changes: dict[str, Any],
    text: str,
) -> None:
    monkeypatch.setattr(live_arguments, "RESORTED_MAX", 2)
    queue = stand.queue(**arguments)
    consumer = RecordingConsumer(queue)
    consumer.fill()
    queue.add_consumer(consumer)
    put(queue, 3)
    with pytest.raises(PreconditionFailed, match=text):
        stand.change(**changes)
    assert len(bodies(queue)) == 3


def test_a_queue_without_messages_becomes_one_of_another_kind(stand: Living) -> None:
    queue = stand.queue(x_max_length=5, x_single_active_consumer=True)
    stand.change(x_last_value_key="k")
    for number in range(3):
        queue.put(make_message(b"%d" % number, headers=Table({"k": "same"})))
    assert bodies(queue) == [b"2"]
    queue.purge()
    stand.change(x_last_value_key=None, x_sort_key="n", x_sort_type="number")
    for number in (3, 1, 2):
        queue.put(make_message(b"%d" % number, headers=Table({"n": number})))
    assert taken(queue) == [1, 2, 3]
    with pytest.raises(PreconditionFailed, match="it has 3 messages"):
        stand.change(x_sort_key=None, x_sort_type=None)


def test_what_is_possible_of_an_overlay_is_in_force_and_the_rest_is_named() -> None:
    stand = StoredVhost()
    queue = stand.declare("q")
    fill(queue, 3)
    live = stand.vhost.live_arguments
    policy: dict[str, object] = {"x-last-value-key": "k", "x-max-length": 2}
    live.overlay = lambda _queue, own: {**own, **policy}
    with pytest.raises(PreconditionFailed, match=r"'x-last-value-key'.*it has 3 messages"):
        live.refresh(queue)
    assert (live.in_force(queue).max_length, live.in_force(queue).last_value_key) == (2, None)
    live.change(queue, {"x-message-ttl": 5})  # an operator may go on
    assert live.in_force(queue).message_ttl_ms == 5
    with pytest.raises(PreconditionFailed, match="'x-last-value-key'"):
        live.change(queue, {"x-last-value-key": "other"})
    queue.purge()
    live.refresh(queue)
    assert live.in_force(queue).last_value_key == "k"
    fill(queue, 1)
    policy.clear()
    with pytest.raises(PreconditionFailed, match="'x-last-value-key'"):
        live.refresh(queue)
    assert live.in_force(queue).max_length is None
    assert live.in_force(queue).last_value_key == "k"


def test_an_overlay_that_contradicts_itself_keeps_no_queue_from_coming_back() -> None:
    stand = StoredVhost()
    queue = stand.declare("q")
    live = stand.vhost.live_arguments
    live.overlay = lambda _queue, own: {**own, "x-sort-key": "k", "x-max-priority": 3}
    live.restore(queue, {"x-max-length": 4}, paused=False)
    assert (live.in_force(queue).max_length, live.in_force(queue).sort_key) == (4, None)


def test_ids_of_another_header_are_no_ids(stand: Living) -> None:
    queue = stand.queue(x_message_deduplication=True)
    queue.put(make_message(b"m", message_id="1"))
    stand.change(x_deduplication_header="h")
    assert queue.put(make_message(b"n", headers=Table({"h": "1"}))) == TAKEN
    assert queue.put(make_message(b"n", headers=Table({"h": "1"}))) == DUPLICATE


def test_limits_of_qpid_count_as_in_a_queue_declared_so(stand: Living) -> None:
    qpid = {"qpid.max_count": 3, "qpid.policy_type": "ring"}
    queue = declare(stand.vhost, "q", arguments=qpid)
    stand.change(x_non_destructive=True)
    assert queue.overflow is not None
    assert not queue.overflow.counts_unacked


def test_a_queue_becomes_one_that_is_only_read_and_back(stand: Living) -> None:
    queue = stand.queue(x_single_active_consumer=True)
    stand.change(x_non_destructive=True)
    put(queue, 2)
    reader = RecordingConsumer(queue)
    queue.add_consumer(reader)
    stand.turn.run()
    assert (len(reader.bodies), queue.ready_count) == (2, 2)
    reader.ack()
    queue.remove_consumer(reader)
    queue.purge()
    stand.change(x_non_destructive=None)
    consumers = [RecordingConsumer(queue) for _ in range(2)]
    for consumer in consumers:
        queue.add_consumer(consumer)
    put(queue, 2)
    stand.turn.run()
    assert [len(consumer.bodies) for consumer in consumers] == [2, 0]
    assert queue.ready_count == 0


def test_a_queue_begins_to_look_at_ids_remembers_them_and_stops(stand: Living) -> None:
    queue = stand.queue()

    def publish() -> int:
        return queue.put(make_message(b"m", message_id="a"))

    assert publish() == TAKEN
    stand.change(x_message_deduplication=True)
    assert (publish(), publish()) == (TAKEN, DUPLICATE)  # the one before is not compared
    stand.change(x_cache_size=5)
    assert (publish(), publish()) == (TAKEN, DUPLICATE)
    queue.purge()
    stand.change(x_cache_ttl=1_000)  # a cache goes on with the ids that it has
    assert publish() == DUPLICATE
    stand.change(x_message_deduplication=None, x_cache_size=None, x_cache_ttl=None)
    assert (publish(), queue.needs_admission) == (TAKEN, False)
