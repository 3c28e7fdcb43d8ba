"""Dispatch rules: strict and least loaded, in both lanes that take messages away."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.errors import PreconditionFailed
from hareline.queues.core.credit import CreditWindow
from hareline.queues.core.lane import ENTRIES_PER_TURN
from tests.support.consumers import RecordingConsumer
from tests.support.vhosts import StoredVhost

from .selective_queue import SelectiveQueue, names

STRICT = {"x-dispatch": "strict"}
LEAST_LOADED = {"x-dispatch": "least-loaded"}
ANY = "colour IN ('red', 'blue', 'green')"  # takes the selective lane, and every message


@pytest.fixture(params=[None, ANY], ids=["plain", "selective"])
def selector(request: pytest.FixtureRequest) -> str | None:
    text: str | None = request.param
    return text


def stand(arguments: dict[str, Any], *messages: str) -> SelectiveQueue:
    made = SelectiveQueue(arguments)
    made.put(*messages)
    return made


def reds(count: int, start: int = 0) -> list[str]:
    return [f"r{number}" for number in range(start, start + count)]


def settle(place: SelectiveQueue, consumer: RecordingConsumer, count: int = 1) -> None:
    consumer.ack(count)
    place.turn.run()


def test_strict_fills_the_first_consumer_and_then_the_next(selector: str | None) -> None:
    place = stand(STRICT)
    first, second, third = (place.join(selector, 3) for _ in range(3))
    place.put(*reds(5))
    assert [names(each) for each in (first, second, third)] == [reds(3), reds(2, 3), []]
    settle(place, first, 2)  # it comes back behind the second, and is the first all the same
    place.put(*reds(3, 5))
    assert names(first) == [*reds(3), *reds(2, 5)]
    assert names(second) == reds(2, 3) + reds(1, 7)
    assert names(third) == []


def test_strict_gives_what_waited_to_the_first_that_comes_back(selector: str | None) -> None:
    place = stand(STRICT)
    first, second = place.join(selector, 1), place.join(selector, 1)
    place.put(*reds(3))
    second.ack()  # both in one turn
    settle(place, first)
    assert (names(first), names(second)) == (["r0", "r2"], ["r1"])


def test_least_loaded_is_the_one_that_holds_the_smallest_part_of_its_prefetch(
    selector: str | None,
) -> None:
    place = stand(LEAST_LOADED)
    small, large = place.join(selector, 2), place.join(selector, 8)
    place.put(*reds(5))
    assert (len(names(small)), len(names(large))) == (1, 4)
    settle(place, large, 4)
    place.put(*reds(4, 5))
    assert names(large)[4:] == reds(4, 5)
    settle(place, small)
    place.put("r9")
    assert names(small)[1:] == ["r9"]


def test_equally_loaded_consumers_are_served_in_turn(selector: str | None) -> None:
    place = stand(LEAST_LOADED)
    consumers = [place.join(selector, 10) for _ in range(3)]
    place.put(*reds(9))
    assert [names(each) for each in consumers] == [reds(9)[at::3] for at in range(3)]
    unlimited = [place.join(selector, priority=1) for _ in range(2)]
    place.put(*reds(4, 9))
    assert [len(names(each)) for each in unlimited] == [2, 2]


@pytest.mark.parametrize("arguments", [STRICT, LEAST_LOADED])
def test_priority_comes_before_the_rule(selector: str | None, arguments: dict[str, Any]) -> None:
    place = stand(arguments)
    low, high = place.join(selector, 2), place.join(selector, 2, priority=1)
    place.put(*reds(3))
    assert (names(high), names(low)) == (reds(2), reds(1, 2))


@pytest.mark.parametrize("arguments", [STRICT, LEAST_LOADED])
def test_consumers_that_are_full_or_have_windows_lose_nothing(
    selector: str | None, arguments: dict[str, Any]
) -> None:
    place = stand(arguments)
    window = CreditWindow(limit_count=2)
    first = place.join(selector, windows=(window,))
    second = place.join(selector, windows=(window,))
    third = place.join(selector)
    third.fill()
    place.put(*reds(3))
    assert sorted(names(first) + names(second)) == reds(2)
    assert place.ready == ["r2"]
    third.drain()
    place.turn.run()
    assert names(third) == ["r2"]


def test_the_first_message_of_a_group_goes_by_the_rule_and_the_rest_with_it() -> None:
    place = stand({**STRICT, "x-message-group-type": "standard"})
    first, second = place.join(prefetch_count=2), place.join(prefetch_count=2)
    place.put("r1", JMSXGroupID="a")
    place.put("r2", JMSXGroupID="b")
    place.put("r3", JMSXGroupID="c")
    settle(place, first, 2)
    place.put("r4", JMSXGroupID="c")
    assert (names(first), names(second)) == (["r1", "r2"], ["r3", "r4"])


def test_a_rule_is_changed_while_the_queue_works(selector: str | None) -> None:
    place = stand(STRICT)
    first, second = place.join(selector, 4), place.join(selector, 4)
    place.put(*reds(2))
    live = place.vhost.live_arguments
    live.change(place.queue, LEAST_LOADED)
    place.put("r2")
    assert names(second) == ["r2"]
    live.change(place.queue, {"x-dispatch": None})
    place.put("r3", "r4")
    assert (len(names(first)), len(names(second))) == (3, 2)


def test_thousands_of_consumers_make_the_share_of_a_turn_smaller() -> None:
    place = stand(LEAST_LOADED)
    for _ in range(1_600):
        place.queue.add_consumer(RecordingConsumer(place.queue, prefetch_count=10))
    place.turn.run()
    place.accept_all(*reds(100))
    place.turn.step()
    assert place.queue.unacked_count == ENTRIES_PER_TURN // (1 + 1_600 // 16) + 1
    place.turn.run()
    assert place.queue.unacked_count == 100


def test_another_word_is_refused_and_round_robin_is_a_value() -> None:
    with pytest.raises(PreconditionFailed, match="x-dispatch"):
        StoredVhost().declare("q", arguments={"x-dispatch": "random"})
    queue = StoredVhost().declare("q", arguments={"x-dispatch": "round-robin"})
    assert queue.lane.consumers.rule is None
