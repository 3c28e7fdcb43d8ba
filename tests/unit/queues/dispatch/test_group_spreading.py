"""Message groups in buckets, groups that move to consumers that come, and the first of a group."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.errors import PreconditionFailed
from hareline.queues.dispatch import selective
from hareline.wire.table import Table
from tests.support.consumers import RecordingConsumer
from tests.support.vhosts import StoredVhost

from .selective_queue import SHARED, STANDARD, SelectiveQueue, names

BUCKETS = "x-message-group-buckets"
REBALANCE = "x-message-group-rebalance"
FIRST_KEY = "x-message-group-first-key"
FIRST = "JMSXGroupFirstForConsumer"


def put_group(place: SelectiveQueue, group: str, *bodies: str, **headers: Any) -> None:
    place.put(*bodies, JMSXGroupID=group, **headers)


def firsts(consumer: RecordingConsumer) -> list[object]:
    """The header of the first, as each delivery has it."""
    return [entry.message.header(FIRST) for batch in consumer.batches for entry in batch]


def settle(place: SelectiveQueue, consumer: RecordingConsumer, count: int = 1) -> None:
    consumer.ack(count)
    place.turn.run()


# ---------------------------------------------------------------------------------- buckets


@pytest.mark.parametrize("arguments", [STANDARD, SHARED])
def test_groups_are_put_together_into_buckets(arguments: dict[str, Any]) -> None:
    place = SelectiveQueue({**arguments, BUCKETS: 4})
    consumers = [place.join(prefetch_count=1_000) for _ in range(4)]
    for number in range(200):
        put_group(place, f"g{number}", "r1")
    groups = place.lane.groups()
    assert {group.key for group in groups} == {("int", bucket) for bucket in range(4)}
    assert sorted(group.outstanding for group in groups) == sorted(
        len(each.bodies) for each in consumers
    )


def test_one_bucket_is_one_group_and_what_has_no_group_goes_anywhere() -> None:
    place = SelectiveQueue({**STANDARD, BUCKETS: 1})
    first, second = place.join(), place.join()
    for number in range(6):
        put_group(place, str(number), f"r{number}")
    place.put("b1", "b2")
    assert names(first) == [f"r{number}" for number in range(6)] + ["b2"]
    assert names(second) == ["b1"]


# -------------------------------------------------------------------------------- rebalance


@pytest.mark.parametrize("rebalance", ["off", "on", "pause"])
def test_groups_of_which_nothing_is_unacked_move_if_they_are_to(rebalance: str) -> None:
    place = SelectiveQueue({**STANDARD, REBALANCE: rebalance})
    first = place.join()
    for group in "abcd":
        put_group(place, group, f"r{group}1")
    settle(place, first, 4)
    second = place.join()
    for group in "abcd":
        put_group(place, group, f"r{group}2")
    if rebalance == "off":
        assert names(second) == []
    else:
        assert len(names(second)) == 2
    assert sorted(names(first) + names(second)) == sorted(f"r{g}{n}" for g in "abcd" for n in "12")


def test_on_leaves_a_group_whose_messages_are_unacked() -> None:
    place = SelectiveQueue({**STANDARD, REBALANCE: "on"})
    first = place.join()
    put_group(place, "a", "r1")
    second = place.join()
    put_group(place, "a", "r2")
    settle(place, first, 2)
    put_group(place, "a", "r3")
    assert (names(first), names(second)) == (["r1", "r2", "r3"], [])


def test_pause_holds_a_group_back_until_it_is_settled_and_keeps_its_order() -> None:
    place = SelectiveQueue({**STANDARD, REBALANCE: "pause"})
    first = place.join()
    put_group(place, "a", "r1", "r2")
    second = place.join()
    put_group(place, "a", "r3")
    put_group(place, "b", "b1")
    assert names(first) + names(second) == ["r1", "r2", "b1"]
    assert place.ready == ["r3"]
    settle(place, first)
    assert place.ready == ["r3"]
    first.release(1)  # r2, which comes before what waits
    place.turn.run()
    assert place.ready == []
    assert names(first)[-2:] == ["r2", "r3"] or names(second)[-2:] == ["r2", "r3"]


@pytest.mark.pure("a constant is replaced")
def test_many_groups_move_in_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selective, "REBALANCED_AT_ONCE", 10)
    place = SelectiveQueue({**STANDARD, REBALANCE: "on"})
    first = place.join()
    for number in range(25):
        put_group(place, str(number), "r1")
    settle(place, first, 25)
    place.queue.add_consumer(RecordingConsumer(place.queue))
    free = []
    for _ in range(3):
        place.turn.step()
        free.append(sum(group.owner is None for group in place.lane.groups()))
    assert free == [10, 20, 25]
    assert not place.queue.dispatch()


# -------------------------------------------------------------------------------- the first


@pytest.mark.parametrize("arguments", [STANDARD, SHARED])
def test_the_first_that_a_consumer_gets_of_a_group_says_so(arguments: dict[str, Any]) -> None:
    place = SelectiveQueue({**arguments, FIRST_KEY: FIRST})
    consumer = place.join()
    put_group(place, "a", "r1", "r2")
    put_group(place, "b", "r3")
    assert firsts(consumer) == [True, None, True]
    assert isinstance(firsts(consumer)[0], bool)
    settle(place, consumer, 3)
    put_group(place, "a", "r4")
    assert firsts(consumer)[3] is (True if arguments is SHARED else None)


def test_the_first_of_a_group_that_moves_says_so_again() -> None:
    place = SelectiveQueue({**STANDARD, FIRST_KEY: FIRST})
    first, second = place.join(), place.join()
    put_group(place, "a", "r1")
    settle(place, first)
    place.leave(first)
    put_group(place, "a", "r2", "r3", mine=7)
    assert firsts(second) == [True, None]
    headers = second.batches[0][0].message.headers
    assert headers == Table({"colour": "red", "mine": 7, "JMSXGroupID": "a", FIRST: True})


def test_without_the_argument_and_without_a_group_nothing_is_changed() -> None:
    plain = SelectiveQueue(STANDARD)
    consumer = plain.join()
    put_group(plain, "a", "r1")
    assert firsts(consumer) == [None]
    place = SelectiveQueue({**STANDARD, FIRST_KEY: FIRST})
    consumer = place.join()
    place.put("r1")
    assert firsts(consumer) == [None]


def test_limits_by_octets_stay_right() -> None:
    arguments = {**STANDARD, FIRST_KEY: FIRST, "qpid.max_size": 2_000, "qpid.policy_type": "ring"}
    fresh, used = SelectiveQueue(arguments), SelectiveQueue(arguments)
    consumer = used.join()
    for number in range(50):
        put_group(used, f"{number}", "r1")
    settle(used, consumer, 50)
    used.leave(consumer)
    for place in (fresh, used):
        put_group(place, "a", *("r1",) * 100)
    assert 0 < len(used.ready) < 100
    assert len(used.ready) == len(fresh.ready)


# ---------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("name", "value"),
    [(BUCKETS, 0), (BUCKETS, "many"), (REBALANCE, "sometimes"), (FIRST_KEY, ""), (FIRST_KEY, 1)],
)
def test_other_values_are_refused(name: str, value: object) -> None:
    with pytest.raises(PreconditionFailed, match=name):
        StoredVhost().declare("q", arguments={**STANDARD, name: value})


@pytest.mark.parametrize(("name", "value"), [(BUCKETS, 8), (REBALANCE, "on"), (FIRST_KEY, FIRST)])
def test_they_need_groups(name: str, value: object) -> None:
    with pytest.raises(PreconditionFailed, match="but_no_message_groups_defined"):
        StoredVhost().declare("q", arguments={name: value})
