"""Queues that wait for several consumers, or for a time, before they deliver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hareline.errors import PreconditionFailed
from tests.support.vhosts import QueueStand, StoredVhost

if TYPE_CHECKING:
    from tests.support.consumers import RecordingConsumer

COUNT = "x-consumers-before-dispatch"
DELAY = "x-delay-before-dispatch"


def leave(place: QueueStand, *consumers: RecordingConsumer) -> None:
    for consumer in consumers:
        place.queue.remove_consumer(consumer)
    place.turn.run()


def test_nothing_is_delivered_until_all_are_there_and_then_in_turn() -> None:
    place = QueueStand({COUNT: 3})
    place.publish(b"0", b"1", b"2", b"3")
    first, second = place.consume(), place.consume()
    place.timers.advance(3_600_000)
    assert (first.bodies, second.bodies) == ([], [])
    third = place.consume()
    assert [each.bodies for each in (first, second, third)] == [[b"0", b"3"], [b"1"], [b"2"]]


def test_the_wait_ends_after_the_delay_and_begins_with_the_first_consumer() -> None:
    place = QueueStand({COUNT: 3, DELAY: 1_000})
    place.publish(b"0", b"1")
    place.timers.advance(5_000)
    first = place.consume()
    place.timers.advance(600)
    second = place.consume()
    place.timers.advance(399)
    assert (first.bodies, second.bodies) == ([], [])
    place.timers.advance(1)
    assert (first.bodies, second.bodies) == ([b"0"], [b"1"])
    assert not place.timers.pending


def test_the_wait_begins_again_when_all_have_left_and_only_then() -> None:
    place = QueueStand({COUNT: 2, DELAY: 1_000})
    first, second = place.consume(), place.consume()
    leave(place, first)
    place.publish(b"0")
    assert second.bodies == [b"0"]
    leave(place, second)
    place.publish(b"1")
    third = place.consume()
    place.timers.advance(900)
    leave(place, third)  # and the time is forgotten
    fourth = place.consume()
    place.timers.advance(999)
    assert (third.bodies, fourth.bodies) == ([], [])
    place.timers.advance(1)
    assert fourth.bodies == [b"1"]


def test_a_delay_alone_waits_with_any_number_of_consumers() -> None:
    place = QueueStand({DELAY: 50})
    consumers = [place.consume() for _ in range(9)]
    place.publish(*(b"%d" % number for number in range(9)))
    assert not any(each.bodies for each in consumers)
    place.timers.advance(50)
    assert all(each.bodies for each in consumers)


def test_browsers_and_gets_do_not_wait_and_do_not_count() -> None:
    place = QueueStand({COUNT: 2})
    place.publish(b"0", b"1")
    browser = place.browse()
    assert browser.bodies == [b"0", b"1"]
    consumer = place.consume()
    assert consumer.bodies == []
    assert place.queue.get() is not None
    assert place.bodies == [b"1"]
    place.consume()
    assert consumer.bodies == [b"1"]


@pytest.mark.parametrize("arguments", [{"x-message-group-type": "standard"}, {}])
def test_consumers_with_selectors_and_groups_wait_too(arguments: dict[str, object]) -> None:
    place = QueueStand({COUNT: 2, **arguments})
    place.accept(b"0", headers={"JMSXGroupID": "a", "colour": "red"})
    place.publish(b"1", headers={"JMSXGroupID": "b", "colour": "red"})
    first = place.consume(selector="colour = 'red'")
    assert first.bodies == []
    second = place.consume(selector="colour = 'red'")
    assert sorted(first.bodies + second.bodies) == [b"0", b"1"]
    assert len(first.bodies) == 1


def test_a_message_for_a_consumer_at_once_finds_none_while_the_queue_waits() -> None:
    place = QueueStand({COUNT: 2})
    place.consume()
    message = place.host.message(b"0")
    assert not place.queue.has_taker(message)
    place.consume()
    assert place.queue.has_taker(message)


def test_rules_change_while_the_queue_waits_and_while_it_works() -> None:
    place = QueueStand({COUNT: 3})
    change = place.vhost.live_arguments.change
    first = place.consume()
    place.publish(b"0")
    change(place.queue, {COUNT: 1})
    place.turn.run()
    assert first.bodies == [b"0"]
    change(place.queue, {COUNT: 5})
    place.publish(b"1")
    assert first.bodies == [b"0", b"1"]
    leave(place, first)
    second = place.consume()
    place.publish(b"2")
    assert second.bodies == []
    change(place.queue, {COUNT: None})
    place.turn.run()
    assert second.bodies == [b"2"]


def test_other_changes_leave_the_delay_as_it_runs() -> None:
    place = QueueStand({DELAY: 1_000})
    consumer = place.consume()
    place.publish(b"0")
    place.timers.advance(900)
    place.vhost.live_arguments.change(place.queue, {"x-dispatch": "strict", "x-max-rate": 1_000})
    place.timers.advance(100)
    assert consumer.bodies == [b"0"]


def test_a_deleted_queue_leaves_no_timer() -> None:
    place = QueueStand({DELAY: 60_000})
    place.consume()
    assert place.timers.pending
    place.vhost.delete_queue("q", object())
    assert not place.timers.pending


@pytest.mark.parametrize(("name", "value"), [(COUNT, 0), (COUNT, "two"), (DELAY, 0), (DELAY, -1)])
def test_other_values_are_refused(name: str, value: object) -> None:
    with pytest.raises(PreconditionFailed, match=name):
        StoredVhost().declare("q", arguments={name: value})
