"""Browsers of ordinary queues: they see everything, take nothing and are in nobody's way."""

from __future__ import annotations

import pytest

from hareline.queues.core.start_position import NEXT, StartPosition
from tests.support.vhosts import QueueStand, numbers


@pytest.fixture
def plain() -> QueueStand:
    return QueueStand({})


@pytest.mark.row("A14")
def test_a_browser_sees_all_and_removes_nothing(plain: QueueStand) -> None:
    plain.publish(*numbers(0, 5))
    browser = plain.browse()
    plain.publish(*numbers(5, 7))
    assert browser.bodies == numbers(0, 7)
    browser.ack()
    assert plain.bodies == numbers(0, 7)
    assert plain.queue.unacked_count == 0


@pytest.mark.row("A14")
def test_a_browser_blocks_nobody(plain: QueueStand) -> None:
    browser = plain.browse(room=-1)
    consumer = plain.consume()
    plain.publish(*numbers(0, 5))
    assert browser.bodies == []
    assert consumer.bodies == numbers(0, 5)


@pytest.mark.row("A14")
def test_a_browser_sees_new_messages_before_they_are_taken(plain: QueueStand) -> None:
    consumer, browser = plain.consume(acknowledges=False), plain.browse()
    plain.publish(*numbers(0, 5))
    assert browser.bodies == consumer.bodies == numbers(0, 5)


@pytest.mark.row("A14")
def test_what_was_taken_meanwhile_is_not_shown(plain: QueueStand) -> None:
    plain.publish(*numbers(0, 6))
    browser = plain.browse(2)
    consumer = plain.consume(4)
    browser.ack()
    plain.turn.run()
    assert consumer.bodies == numbers(0, 4)
    assert browser.bodies == numbers(0, 2) + numbers(4, 6)


def test_what_comes_back_is_not_shown_again(plain: QueueStand) -> None:
    plain.publish(*numbers(0, 3))
    consumer = plain.consume(2)
    browser = plain.browse()
    consumer.release()
    plain.queue.remove_consumer(consumer)
    plain.turn.run()
    assert browser.bodies == [b"002"]
    assert plain.browse().bodies == numbers(0, 3)


def test_what_a_browser_acknowledges_gives_its_credit_back(plain: QueueStand) -> None:
    plain.publish(*numbers(0, 5))
    browser = plain.browse(2)
    assert browser.bodies == numbers(0, 2)
    browser.ack(1)
    browser.release()
    plain.turn.run()
    assert browser.bodies == numbers(0, 4)
    assert plain.queue.ready_count == 5
    assert plain.queue.unacked_count == 0


@pytest.mark.row("A14")
def test_a_browser_is_let_go_at_the_end(plain: QueueStand) -> None:
    plain.publish(*numbers(0, 3))
    browser = plain.browse(closes_at_end=True)
    assert browser.bodies == numbers(0, 3)
    assert browser.is_told_of_end
    assert plain.queue.consumers == []
    plain.publish(b"later")
    assert browser.bodies == numbers(0, 3)


@pytest.mark.row("A14")
def test_a_browser_of_an_empty_queue_is_let_go_at_once(plain: QueueStand) -> None:
    assert plain.browse(closes_at_end=True).is_told_of_end


@pytest.mark.row("A14")
def test_a_browser_with_a_limit_is_let_go_when_it_has_seen_all(plain: QueueStand) -> None:
    plain.publish(*numbers(0, 3))
    browser = plain.browse(2, closes_at_end=True)
    assert not browser.is_told_of_end
    browser.ack()
    plain.turn.run()
    assert browser.bodies == numbers(0, 3)
    assert browser.is_told_of_end


def test_the_last_browser_that_goes_at_the_end_takes_an_auto_delete_queue_along() -> None:
    queue = QueueStand({}, is_auto_delete=True)
    queue.publish(*numbers(0, 3))
    browser = queue.browse(closes_at_end=True)
    assert browser.bodies == numbers(0, 3)
    assert browser.is_told_of_end
    assert "q" not in queue.vhost.queues


def test_one_that_goes_at_the_end_leaves_the_others(plain: QueueStand) -> None:
    plain.publish(*numbers(0, 3))
    stays, goes = plain.browse(), plain.browse(closes_at_end=True)
    plain.publish(b"003")
    assert stays.bodies == numbers(0, 4)
    assert goes.bodies == numbers(0, 3)
    assert plain.queue.consumers == [stays]


def test_browsers_are_consumers_of_their_queue(plain: QueueStand) -> None:
    consumer, browser = plain.consume(), plain.browse()
    assert plain.queue.consumers == [consumer, browser]
    plain.queue.remove_consumer(consumer)
    assert plain.queue.consumers == [browser]


def test_publishers_take_the_short_lane_again_when_the_last_browser_has_left(
    plain: QueueStand,
) -> None:
    lanes = [(plain.queue.needs_admission, plain.vhost.routing.version)]
    browser = plain.browse()
    lanes.append((plain.queue.needs_admission, plain.vhost.routing.version))
    plain.queue.remove_consumer(browser)
    lanes.append((plain.queue.needs_admission, plain.vhost.routing.version))
    assert [needs_admission for needs_admission, _ in lanes] == [False, True, False]
    assert len({version for _, version in lanes}) == 3


def test_a_browser_may_select(plain: QueueStand) -> None:
    for number in range(6):
        plain.accept(b"%03d" % number, headers={"k": number})
    assert plain.browse(selector="k > 3").bodies == numbers(4, 6)
    assert plain.queue.ready_count == 6


@pytest.mark.row("A17")
def test_a_browser_may_begin_later(plain: QueueStand) -> None:
    plain.publish(*numbers(0, 2))
    plain.timers.advance(1000)
    plain.publish(*numbers(2, 4))
    plain.timers.advance(1000)
    recent = plain.browse(start=StartPosition("time", plain.timers.clock.now_ms - 1500))
    new = plain.browse(start=NEXT)
    plain.publish(b"004")
    assert recent.bodies == numbers(2, 5)
    assert new.bodies == [b"004"]


def test_a_browser_sees_priorities_in_their_order() -> None:
    queue = QueueStand({"x-max-priority": 9})
    for number in range(5):
        queue.accept(b"%d" % number, priority=number)
    browser = queue.browse(2)
    queue.publish(b"9", priority=9)
    browser.ack()
    queue.turn.run()
    assert browser.bodies == [b"4", b"3", b"9", b"2"]


@pytest.mark.row("A11")
@pytest.mark.parametrize("group_type", ["standard", "shared"])
def test_groups_do_not_concern_browsers(group_type: str) -> None:
    queue = QueueStand({"x-message-group-type": group_type})
    for number in range(4):
        queue.accept(b"%03d" % number, headers={"JMSXGroupID": "g"})
    consumer = queue.consume(1)
    other = queue.consume()
    assert len(consumer.bodies) + len(other.bodies) == 1
    browser = queue.browse()
    assert browser.bodies == numbers(1, 4)
    assert queue.queue.ready_count == 3


@pytest.mark.row("A11")
def test_parked_messages_are_shown_in_their_places() -> None:
    queue = QueueStand({})
    for number in range(6):
        queue.accept(b"%03d" % number, headers={"k": number % 2})
    consumer = queue.consume(1, selector="k = 1")
    assert consumer.bodies == [b"001"]
    browser = queue.browse()
    assert browser.bodies == [b"000", *numbers(2, 6)]
    consumer.ack()
    queue.turn.run()
    assert consumer.bodies == [b"001", b"003"]


def test_a_browser_does_not_wait_for_the_single_active_consumer() -> None:
    queue = QueueStand({"x-single-active-consumer": True})
    queue.publish(*numbers(0, 3))
    active, waiting = queue.consume(1), queue.consume(1)
    assert queue.browse().bodies == numbers(1, 3)
    assert active.bodies == [b"000"]
    assert waiting.bodies == []


def test_browsers_of_a_deleted_queue_are_told(plain: QueueStand) -> None:
    browser = plain.browse()
    consumers = plain.queue.delete()
    assert consumers == [browser]
    assert browser.is_cancelled
    browser.restore_credit(0)


def test_a_browser_that_stands_still_keeps_no_more_than_the_queue(plain: QueueStand) -> None:
    browser = plain.browse(1)
    plain.consume(acknowledges=False)
    for number in range(2000):
        plain.publish(b"%d" % number)
    assert plain.queue.browsers is not None
    assert len(plain.queue.browsers._by_consumer[browser].heap) < 200
