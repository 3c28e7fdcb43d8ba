"""Message groups: what a message says of its group, whose the group is, and when that ends."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from hareline.queues.core import groups as groups_module
from hareline.queues.core.entry import PARKED, SETTLED, RankedEntry
from hareline.queues.core.groups import (
    DEFAULT_GROUP,
    GETTER,
    LEAVER,
    RUN_HEAP_MAX,
    Group,
    GroupKeys,
    Groups,
    GroupTag,
    ParkedRun,
)
from hareline.queues.core.parking import Parking
from hareline.queues.queue import Queue
from hareline.wire.table import Table
from tests.support.messages import make_message

from .selective_queue import SHARED, STANDARD, SelectiveQueue, names

BOTH = pytest.mark.parametrize("arguments", [STANDARD, SHARED], ids=["standard", "shared"])


def tag(
    headers: dict[str, Any] | None, *, header: str | None = None, default: str | None = None
) -> GroupTag:
    table = None if headers is None else Table(headers)
    return GroupKeys(header, default)(make_message(b"", headers=table))


# ---------------------------------------------------------------------------- the key


@pytest.mark.parametrize("name", ["JMSXGroupID", "JMSXGroupId"])
@pytest.mark.row("A7")
def test_the_key_is_a_header_in_either_spelling(name: str) -> None:
    assert tag({"x": 1, name: "cart-7"}).key == "cart-7"


@pytest.mark.row("A7")
def test_of_both_spellings_the_one_that_clients_write_counts() -> None:
    assert tag({"JMSXGroupId": "book", "JMSXGroupID": "code"}).key == "code"
    assert tag({"JMSXGroupId": "book", "JMSXGroupID": None}).key == "book"


@pytest.mark.row("A7")
def test_the_key_is_the_header_that_the_queue_names() -> None:
    assert tag({"cart": "7", "JMSXGroupID": "x"}, header="cart").key == "7"
    assert tag({"JMSXGroupID": "x"}, header="cart").key is None


@pytest.mark.parametrize("headers", [None, {}, {"other": "x"}])
@pytest.mark.row("A10")
def test_a_message_may_have_no_group(headers: dict[str, Any] | None) -> None:
    assert tag(headers) == (None, 0)
    assert tag(headers, default="qpid.no-group") == ("qpid.no-group", 0)


@pytest.mark.parametrize("value", [Decimal("1.5"), [1], Table({"a": 1}), None])
def test_what_cannot_be_a_key_is_none(value: object) -> None:
    assert tag({"JMSXGroupID": value}).key is None
    assert tag({"JMSXGroupID": value}, default="d").key == "d"


def test_an_empty_text_is_a_key_like_any_other() -> None:
    assert tag({"JMSXGroupID": ""}, default="d").key == ""


def test_keys_of_different_types_are_different_groups() -> None:
    keys = [tag({"g": value}, header="g").key for value in ("1", 1, 1.0, True, b"1")]
    assert len(set(keys)) == 5
    assert keys[1] == tag({"g": 1}, header="g").key


@pytest.mark.parametrize(("value", "sequence"), [(1, 1), (-1, -1), (7, 7), ("1", 0), (None, 0)])
def test_a_message_may_say_where_in_its_group_it_stands(value: object, sequence: int) -> None:
    assert tag({"JMSXGroupID": "g", "JMSXGroupSeq": value}).sequence == sequence


# ------------------------------------------------------------------ the table of groups


def test_a_group_is_made_once_for_each_key() -> None:
    groups = Groups("standard")
    assert groups.get("a") is groups.get("a")
    assert groups.get("a") is not groups.get("b")
    assert len(groups) == 2


@pytest.mark.row("A10")
def test_the_default_group_is_for_shared_ones() -> None:
    message = make_message(b"")
    assert Groups("standard", default="mine").keys(message).key is None
    assert Groups("shared").keys(message).key == DEFAULT_GROUP == "qpid.no-group"
    assert Groups("shared", default="mine").keys(message).key == "mine"


def test_groups_are_found_by_owner() -> None:
    groups = Groups("standard")
    for key in "abcd":
        groups.get(key).owner = GETTER if key in "bd" else LEAVER
    assert [group.key for group in groups.owned_by(GETTER)] == ["b", "d"]
    assert groups.owned_by("nobody") == []


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_idle_groups_are_forgotten_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch, queue: Queue
) -> None:
    monkeypatch.setattr(groups_module, "IDLE_GROUPS_MAX", 100)
    groups, parking = Groups("standard"), Parking(queue.order.worth)
    busy, waiting = groups.get("busy"), groups.get("waiting")
    busy.outstanding = 1
    entry = RankedEntry(queue, make_message(b""), 0)
    entry.state = PARKED
    parking.park(0, entry, 1, waiting)
    for number in range(1_000):
        groups.get(number).owner = GETTER
        assert len(groups) <= 100
    assert groups.get("busy") is busy
    assert groups.get("waiting") is waiting
    assert groups.get(999).owner is GETTER
    assert groups.get(0).owner is None


def test_groups_that_are_all_busy_are_not_looked_through_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups_module, "IDLE_GROUPS_MAX", 100)
    looked_at = 0

    class WatchedGroup(Group):
        @property
        def is_idle(self) -> bool:
            nonlocal looked_at
            looked_at += 1
            return super().is_idle

    monkeypatch.setattr(groups_module, "Group", WatchedGroup)
    groups = Groups("shared")
    for number in range(5_000):
        groups.get(number).outstanding = 1
    assert len(groups) == 5_000
    assert looked_at <= 2 * 5_000


def test_groups_and_who_owns_them_show_themselves() -> None:
    group = Group("g")
    group.owner = GETTER
    assert repr(group) == "<Group 'g' of <basic.get>, 0 outstanding>"
    assert repr(LEAVER) == "<a consumer that has left>"


# -------------------------------------------------------------------- runs of parked ones


def test_runs_of_one_rank_have_an_order() -> None:
    one, other = ParkedRun(1, None), ParkedRun(1, None)
    assert (one < other) != (other < one)


def test_a_run_gives_its_entries_by_rank_and_passes_over_settled_ones(queue: Queue) -> None:
    run = ParkedRun(1, None)
    ranks = [5, 3, *range(10, 10 + 2 * RUN_HEAP_MAX), 1]  # long enough to have a line
    entries = {rank: RankedEntry(queue, make_message(b""), rank) for rank in ranks}
    for rank in ranks:
        run.add(rank, entries[rank])
    for rank in (1, 11):
        entries[rank].state = SETTLED
    assert {entry.offset for entry in run.entries()} == set(ranks) - {1, 11}
    given = []
    while run.head() is not None:
        given.append(run.take().offset)
    assert given == sorted(set(ranks) - {1, 11})
    assert run.is_empty


# -------------------------------------------------------------------- groups in a queue


class GroupQueue(SelectiveQueue):
    """``put("a1", "b1")`` publishes a message for each, of the group of its first letter."""

    def headers_of(self, body: str) -> dict[str, object]:
        return {} if body[0] == "-" else {"JMSXGroupID": body[0]}

    def got(self) -> bytes | None:
        entry = self.queue.get()
        self.last = entry
        return None if entry is None else entry.message.body

    @property
    def groups(self) -> Groups:
        groups = self.lane._groups
        assert groups is not None
        return groups


MakeQueue = Callable[..., GroupQueue]


@pytest.fixture
def standard() -> GroupQueue:
    return GroupQueue(STANDARD)


@pytest.fixture
def shared() -> GroupQueue:
    return GroupQueue(SHARED)


@pytest.mark.row("A8")
def test_a_standard_group_stays_with_its_consumer_though_all_is_acked(
    standard: GroupQueue,
) -> None:
    first, second = standard.consume(), standard.consume()
    standard.put("a1", "b1")
    for number in range(2, 6):
        first.ack()
        second.ack()
        standard.put(f"b{number}", f"a{number}")
    assert names(first) == ["a1", "a2", "a3", "a4", "a5"]
    assert names(second) == ["b1", "b2", "b3", "b4", "b5"]


@pytest.mark.row("A8")
def test_a_standard_group_waits_for_its_consumer(standard: GroupQueue) -> None:
    first, second = standard.consume(1), standard.consume(1)
    standard.put("a1", "a2", "a3", "b1")
    assert (names(first), names(second)) == (["a1"], ["b1"])
    second.ack()
    standard.turn.run()
    assert names(second) == ["b1"]
    first.ack()
    standard.turn.run()
    assert names(first) == ["a1", "a2"]


def test_new_groups_are_dealt_out_in_turn(standard: GroupQueue) -> None:
    consumers = [standard.consume() for _ in range(3)]
    standard.put(*[f"{letter}{number}" for number in (1, 2) for letter in "abcdef"])
    assert [names(one) for one in consumers] == [
        ["a1", "d1", "a2", "d2"],
        ["b1", "e1", "b2", "e2"],
        ["c1", "f1", "c2", "f2"],
    ]


@pytest.mark.row("A9")
def test_a_shared_group_is_pinned_only_while_something_of_it_is_unacked(
    shared: GroupQueue,
) -> None:
    first, second = shared.consume(2), shared.consume(2)
    shared.put("a1", "a2", "a3")
    assert (names(first), names(second)) == (["a1", "a2"], [])
    first.ack(1)
    shared.turn.run()
    assert (names(first), names(second)) == (["a1", "a2", "a3"], [])
    first.take_unacked(0)
    first.ack()
    shared.put("a4")
    assert (names(first), names(second)) == (["a1", "a2", "a3"], ["a4"])


@pytest.mark.row("A9")
def test_a_freed_shared_group_goes_to_who_is_willing(shared: GroupQueue) -> None:
    first, second = shared.consume(1), shared.consume(1)
    shared.put("a1", "a2")
    entry = first.take_unacked()[0]
    shared.queue.settle(entry)  # and its credit does not come back yet
    shared.turn.run()
    assert (names(first), names(second)) == (["a1"], ["a2"])


def test_groups_that_become_free_at_once_are_dealt_out_in_turn(shared: GroupQueue) -> None:
    first = shared.consume(20)
    others = [shared.consume() for _ in range(4)]
    for other in others:
        other.fill()
    shared.put(*[f"{letter}{number}" for number in (1, 2) for letter in "abcdefghijklmnopqrst"])
    assert len(first.bodies) == 20
    for other in others:
        other.drain()
    shared.queue.remove_consumer(first)
    shared.turn.run()
    assert [len(other.bodies) for other in others] == [0, 0, 0, 0]
    first.ack()
    shared.turn.run()
    assert all(4 <= len(other.bodies) <= 6 for other in others)


@BOTH
@pytest.mark.row("A12")
def test_a_busy_group_holds_up_nobody_behind_it(arguments: dict[str, object]) -> None:
    queue = GroupQueue(arguments)
    slow, other = queue.consume(1), queue.consume(1)
    queue.put("a0", *[f"a{number}" for number in range(1, 10_000)], "b1")
    assert (names(slow), names(other)) == (["a0"], ["b1"])
    for number in range(1, 50):
        slow.ack()
        queue.turn.run()
        assert names(slow)[-1] == f"a{number}"


@pytest.mark.row("A10")
def test_a_message_without_a_group_goes_to_anybody_in_a_standard_queue(
    standard: GroupQueue,
) -> None:
    first, second = standard.consume(), standard.consume()
    standard.put("a1", "-1", "-2", "-3")
    assert (names(first), names(second)) == (["a1", "-2"], ["-1", "-3"])


@pytest.mark.row("A10")
def test_messages_without_a_group_are_one_group_in_a_shared_queue(shared: GroupQueue) -> None:
    first, second = shared.consume(), shared.consume()
    shared.put("-1", "-2", "a1", "-3")
    assert (names(first), names(second)) == (["-1", "-2", "-3"], ["a1"])
    assert "qpid.no-group" in shared.groups.by_key


@pytest.mark.row("A10")
def test_the_default_group_may_be_named() -> None:
    queue = GroupQueue({**SHARED, "x-message-group-default": "a"})
    first, second = queue.consume(), queue.consume()
    queue.put("a1", "-1", "b1")
    assert (names(first), names(second)) == (["a1", "-1"], ["b1"])


@pytest.mark.row("A7", "A9")
def test_qpid_s_names_make_the_same_queues() -> None:
    queue = GroupQueue({"qpid.group_header_key": "cart", "qpid.shared_msg_group": 1})
    first, second = queue.consume(), queue.consume()
    for body, cart in ((b"1", "x"), (b"2", "y"), (b"3", "x")):
        queue.publish(body, headers={"cart": cart})
    assert (first.bodies, second.bodies) == ([b"1", b"3"], [b"2"])
    first.ack()
    second.fill()
    queue.publish(b"4", headers={"cart": "y"})
    assert first.bodies == [b"1", b"3"]


@BOTH
@pytest.mark.row("A13")
def test_a_cart_is_never_with_two_consumers(arguments: dict[str, object]) -> None:
    queue = GroupQueue(arguments)
    consumers = [queue.consume(1) for _ in range(4)]
    carts = "abcdefghij"
    queue.accept_all(*[f"{cart}+" for cart in carts], *[f"{cart}-" for cart in carts])
    queue.turn.run()
    order: dict[str, list[str]] = {cart: [] for cart in carts}
    speed = (1, 2, 3, 5)  # acks every so many rounds
    for step in range(200):
        held = [body.message.body.decode()[0] for one in consumers for body in one.unacked]
        assert len(held) == len(set(held))
        for consumer, rounds in zip(consumers, speed, strict=True):
            if consumer.unacked and step % rounds == 0:
                body = consumer.unacked[0].message.body.decode()
                order[body[0]].append(body[1])
                consumer.ack(1)
        queue.turn.run()
    assert all(operations == ["+", "-"] for operations in order.values())
    assert queue.queue.ready_count == queue.queue.unacked_count == 0


@BOTH
def test_a_released_message_keeps_its_place_in_the_group(arguments: dict[str, object]) -> None:
    queue = GroupQueue(arguments)
    first, second = queue.consume(2), queue.consume(2)
    queue.put("a1", "a2", "a3")
    first.release()
    queue.turn.run()
    receiver = max(first, second, key=lambda one: len(one.unacked))
    received = [name for one in (first, second) for name in names(one)]
    assert received == ["a1", "a2", "a1", "a2"]
    receiver.ack()
    queue.turn.run()
    assert sorted(names(first) + names(second)) == ["a1", "a1", "a2", "a2", "a3"]
    assert queue.queue.ready_count == 0


@pytest.mark.row("A8")
def test_a_standard_group_comes_back_to_who_released_it(standard: GroupQueue) -> None:
    first, second = standard.consume(2), standard.consume(2)
    standard.put("a1", "a2")
    first.release(1)
    standard.turn.run()
    assert (names(first), names(second)) == (["a1", "a2", "a1"], [])


@pytest.mark.row("A9")
def test_a_consumer_that_does_not_acknowledge_pins_no_shared_group(shared: GroupQueue) -> None:
    first, second = shared.consume(acknowledges=False), shared.consume(acknowledges=False)
    shared.put("a1", "a2")  # in one turn, and so to one of them
    assert (names(first), names(second)) == (["a1", "a2"], [])
    shared.put("a3")
    assert (names(first), names(second)) == (["a1", "a2"], ["a3"])
    assert shared.groups.by_key["a"].owner is None
    assert shared.queue.unacked_count == 0


@pytest.mark.row("A9")
def test_what_waited_for_a_group_goes_on_when_it_is_handed_over_without_acks(
    shared: GroupQueue,
) -> None:
    """``slow`` has the group; behind it one is waiting that takes all there is."""
    slow = shared.consume(1)
    shared.put("a1")
    fast = shared.consume(acknowledges=False)
    shared.put("a2", "a3", "b1")
    assert names(fast) == ["b1"]
    shared.leave(slow)
    slow.ack()
    shared.turn.run()
    assert names(fast) == ["b1", "a2", "a3"]


@pytest.mark.row("A9")
def test_a_group_that_is_freed_by_a_full_output_goes_on_at_once(shared: GroupQueue) -> None:
    """What it had was settled when it was handed over, and it can take no more."""
    full = shared.consume(acknowledges=False, room=1)
    other = shared.consume()
    shared.put("a1", "a2")
    assert (names(full), names(other)) == (["a1"], ["a2"])


# -------------------------------------------------------------------- a consumer leaves


@BOTH
def test_a_group_is_pinned_until_what_a_leaver_has_is_settled(
    arguments: dict[str, object],
) -> None:
    queue = GroupQueue(arguments)
    leaver, other = queue.consume(2), queue.consume(1)
    queue.put("a1", "a2", "a3")
    queue.leave(leaver)
    assert names(other) == []
    leaver.ack(1)
    queue.turn.run()
    assert names(other) == []
    leaver.ack(1)
    queue.turn.run()
    assert names(other) == ["a3"]


@BOTH
def test_what_a_leaver_had_goes_to_another_in_order(arguments: dict[str, object]) -> None:
    queue = GroupQueue(arguments)
    leaver, other = queue.consume(2), queue.consume()
    queue.put("a1", "a2", "a3", "a4")
    queue.leave(leaver)
    leaver.release()
    queue.turn.run()
    assert names(other) == ["a1", "a2", "a3", "a4"]
    assert other.redelivered == [True, True, False, False]


@pytest.mark.row("A8")
def test_the_idle_groups_of_a_leaver_are_anybody_s(standard: GroupQueue) -> None:
    leaver, other = standard.consume(1), standard.consume()
    standard.put("a1", "b1")
    leaver.ack()
    standard.put("a2", "a3")
    leaver.ack()
    standard.leave(leaver)
    assert names(other) == ["b1", "a3"]
    assert standard.groups.by_key["a"].owner is other
    assert not standard.groups.owned_by(leaver)


# ------------------------------------------------------------------------- JMSXGroupSeq


def test_the_last_of_a_group_frees_it(standard: GroupQueue) -> None:
    first, second = standard.consume(), standard.consume()
    standard.put("a1")
    standard.put("a2", JMSXGroupSeq=-1)
    standard.put("a3")
    assert (names(first), names(second)) == (["a1", "a2"], ["a3"])


def test_the_first_of_a_group_finds_it_a_new_owner(standard: GroupQueue) -> None:
    first, second = standard.consume(), standard.consume()
    standard.put("a1", JMSXGroupSeq=1)
    standard.put("b1")
    first.ack()
    standard.put("c1")  # to ``first``, so that the next in turn is ``second``
    standard.put("a2", JMSXGroupSeq=1)
    assert (names(first), names(second)) == (["a1", "c1"], ["b1", "a2"])


def test_a_group_is_not_taken_from_who_has_something_of_it(standard: GroupQueue) -> None:
    first, second = standard.consume(), standard.consume()
    standard.put("a1")
    standard.put("a2", JMSXGroupSeq=1)
    assert (names(first), names(second)) == (["a1", "a2"], [])


def test_what_waited_for_the_end_of_a_group_goes_before_what_came_later(
    standard: GroupQueue,
) -> None:
    first = standard.consume(selector="kind = 1")
    second = standard.consume(selector="kind = 2")
    standard.put("a1", kind=1)
    standard.put("-1", kind=2)
    standard.put("a2", kind=2)
    standard.accept_all("-2", kind=2)
    standard.accept_all("a3", kind=1, JMSXGroupSeq=-1)
    standard.accept_all("-3", kind=2)
    standard.turn.run()
    assert names(first) == ["a1", "a3"]
    assert names(second) == ["-1", "-2", "a2", "-3"]


def test_the_last_of_a_parked_group_frees_it(standard: GroupQueue) -> None:
    first, second = standard.consume(1), standard.consume(1)
    standard.put("a1", "b1")
    standard.put("a2", JMSXGroupSeq=-1)
    standard.put("a3")
    second.ack()
    standard.turn.run()
    assert names(second) == ["b1"]
    first.ack()
    standard.turn.run()
    assert (names(first), names(second)) == (["a1", "a2"], ["b1", "a3"])


# ---------------------------------------------------------------------------- basic.get


@BOTH
def test_a_get_takes_what_nobody_has(arguments: dict[str, object]) -> None:
    queue = GroupQueue(arguments)
    consumer = queue.consume(1)
    queue.put("a1", "a2", "b1", "b2")
    assert names(consumer) == ["a1"]
    assert queue.got() == b"b1"
    assert queue.got() is None
    assert queue.queue.ready_count == 2


@BOTH
def test_a_group_is_a_getter_s_until_that_is_settled(arguments: dict[str, object]) -> None:
    queue = GroupQueue(arguments)
    queue.put("a1", "a2")
    assert queue.got() == b"a1"
    entry = queue.last
    assert entry is not None
    consumer = queue.consume()
    assert names(consumer) == []
    queue.queue.settle(entry)
    queue.turn.run()
    assert names(consumer) == ["a2"]


@BOTH
def test_what_a_getter_releases_is_the_first_again(arguments: dict[str, object]) -> None:
    queue = GroupQueue(arguments)
    queue.put("a1", "a2")
    assert queue.got() == b"a1"
    assert queue.got() is None
    entry = queue.last
    assert entry is None
    released = [one for one in queue.groups.by_key.values() if one.outstanding]
    assert [one.owner for one in released] == [GETTER]


@BOTH
def test_gets_without_acks_go_through_a_group_in_order(arguments: dict[str, object]) -> None:
    queue = GroupQueue(arguments)
    queue.put("a1", "a2", "b1", "a3")
    for expected in (b"a1", b"a2", b"b1", b"a3"):
        assert queue.got() == expected
        assert queue.last is not None
        queue.queue.settle(queue.last)
    assert queue.got() is None


def test_what_a_get_has_passed_over_is_still_delivered(standard: GroupQueue) -> None:
    """It parks what is a getter's group; the rest of the queue is untouched."""
    standard.put("a1", "a2", "-1")
    assert standard.got() == b"a1"
    first = standard.last
    assert standard.got() == b"-1"
    assert standard.lane.parking.count == 1
    assert [entry.message.body for entry in standard.queue.lane.ready_entries()] == [b"a2"]
    assert first is not None
    standard.queue.release([first])
    assert standard.got() == b"a1"


# ----------------------------------------------------------------------- other policies


@BOTH
@pytest.mark.row("A11")
def test_browsers_see_every_group(arguments: dict[str, object]) -> None:
    queue = GroupQueue(arguments)
    owner, idle = queue.consume(1), queue.consume(1)
    queue.put("a1", "a2", "b1", "b2", "a3")
    browser = queue.browse()
    assert names(browser) == ["a2", "b2", "a3"]
    queue.put("a4", "c1")
    assert names(browser) == ["a2", "b2", "a3", "a4", "c1"]
    assert (names(owner), names(idle)) == (["a1"], ["b1"])


def test_a_consumer_of_higher_priority_gets_the_new_groups(standard: GroupQueue) -> None:
    low, high = standard.consume(), standard.consume(2, priority=5)
    standard.put("a1", "b1", "c1", "a2", "c2")
    assert (names(high), names(low)) == (["a1", "b1"], ["c1", "c2"])
    high.ack()
    standard.turn.run()
    assert names(high) == ["a1", "b1", "a2"]


def test_a_freed_group_goes_to_the_highest_priority(shared: GroupQueue) -> None:
    owner = shared.consume(1)
    shared.put("a1", "a2")
    low, high = shared.consume(), shared.consume(priority=5)
    shared.leave(owner)
    owner.ack()
    shared.turn.run()
    assert (names(low), names(high)) == ([], ["a2"])


@BOTH
def test_parked_messages_are_purged_and_dropped_with_the_books_right(
    arguments: dict[str, object],
) -> None:
    queue = GroupQueue(arguments)
    owner, _ = queue.consume(1), queue.consume(1)
    queue.put("a1", "b1", "a2", "a3", "b2")
    assert queue.lane.parking.count == 0  # nobody has credit, so nobody has looked
    third = queue.consume()
    assert (queue.lane.parking.count, queue.queue.ready_count) == (3, 3)
    queue.queue.drop([queue.queue.lane.ready_entries()[0]], "expired")
    assert queue.queue.ready_count == queue.lane.parking.count == 2
    assert queue.queue.ready_bytes == 4
    assert queue.queue.purge() == 2
    assert queue.queue.ready_count == queue.queue.ready_bytes == queue.lane.parking.count == 0
    owner.ack()
    queue.put("a4")
    assert "a4" in names(owner) + names(third)


def test_a_dropped_head_is_not_delivered_to_its_group(standard: GroupQueue) -> None:
    owner, _ = standard.consume(1), standard.consume()
    standard.put("a1", "a2", "a3")
    standard.queue.drop([standard.queue.lane.ready_entries()[0]], "expired")
    owner.ack()
    standard.turn.run()
    assert names(owner) == ["a1", "a3"]


def test_a_full_queue_gives_up_the_oldest_though_it_is_parked() -> None:
    queue = GroupQueue({**STANDARD, "x-max-length": 2})
    owner, other = queue.consume(1), queue.consume(1)
    queue.put("a1", "b1")
    third = queue.consume()
    queue.put("a2", "a3", "b2")
    assert names(third) == []
    assert [entry.message.body for entry in queue.queue.lane.ready_entries()] == [b"a3", b"b2"]
    owner.ack()
    other.ack()
    queue.turn.run()
    assert (names(owner), names(other)) == (["a1", "a3"], ["b1", "b2"])


@BOTH
@pytest.mark.pure("replaces a constant, which is compiled in")
def test_many_groups_that_are_done_with_are_forgotten(
    arguments: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups_module, "IDLE_GROUPS_MAX", 50)
    queue = GroupQueue(arguments)
    queue.groups._sweep_at = 50
    first, second = queue.consume(), queue.consume()
    for number in range(500):
        queue.publish(b"%d" % number, headers={"JMSXGroupID": f"g{number}"})
        first.ack()
        second.ack()
        assert len(queue.groups) <= 50
    assert len(first.bodies) + len(second.bodies) == 500
