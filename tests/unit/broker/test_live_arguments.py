"""Arguments of living queues: changed by operators, overlaid by policies, kept, and undone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hareline import events
from hareline.errors import PreconditionFailed, StoreError
from hareline.message import Table
from hareline.queues.paused import is_paused
from hareline.queues.queue import Queue
from tests.support.messages import make_message
from tests.support.vhosts import StoredVhost, declare

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
        ({"x-max-priority": 3}, "arg 'x-max-priority'.*cannot change now.*declare it again"),
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
    assert is_paused(queue)
    assert stand.definitions.settings["q"] == (True, {})
    stand.definitions.failure = "disk I/O error"
    with pytest.raises(StoreError):
        live.set_paused(queue, paused=False)
    assert is_paused(queue)
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
    assert not is_paused(queue)


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
    assert is_paused(queue)
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
