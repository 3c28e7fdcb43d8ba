"""Move, copy, delete, retry, take: what goes where, what stays, and what is counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hareline.broker.operations.moving import Outcome, as_it_came, delete, transfer
from hareline.broker.operations.publishing import put_published
from hareline.broker.operations.selecting import Selection
from hareline.broker.operations.taking import AckMode, acknowledge, give_back, take
from hareline.broker.operations.targets import (
    ALARM,
    FULL,
    GONE,
    KNOWN,
    NO_ORIGIN,
    NOT_ALLOWED,
    NOT_STORED,
    REASONS,
    UNROUTABLE,
    ExchangeTarget,
    OriginTarget,
    QueueTarget,
    Target,
    address_of,
    is_full_for,
)
from hareline.errors import NotKept, PreconditionFailed
from hareline.message import UNWRITTEN, Table
from hareline.queues.queue import Queue
from hareline.selectors.selector import compile_selector
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.stores import FakeStore
from tests.support.turns import ManualTurn
from tests.support.vhosts import VhostStand, bind, bodies, declare, declare_exchange, make_vhost

# ------------------------------------------------------------------------------------------ moving


ALL = Selection()
TYPES: dict[str, dict[str, Any]] = {
    "fifo": {},
    "priority": {"x-max-priority": 9},
    "sorted": {"x-sort-key": "k"},
    "last-value": {"x-last-value-key": "one"},
    "groups": {"x-message-group-key": "g"},
    "log": {"x-non-destructive": True},
    "expiring": {"x-message-ttl": 100_000},
}


class Stand(VhostStand):
    def fill(self, queue: Queue, count: int, **properties: Any) -> None:
        """Publish so many messages in one turn."""
        for number in range(count):
            headers = {"n": number, "k": f"{number:03}", "g": f"g{number % 3}"}
            message = self.message(
                b"%03d" % number, exchange="x", routing_key="r", headers=headers, **properties
            )
            message.position = UNWRITTEN
            assert queue.put(message)
        self.turn.run()


@pytest.fixture
def stand() -> Stand:
    return Stand()


def finish(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


def moved(queue: Queue, target: Target, selection: Selection = ALL, **options: Any) -> Outcome:
    outcome = Outcome()
    finish(transfer(queue, target, selection, outcome, **options))
    return outcome


@pytest.mark.parametrize("name", TYPES)
def test_all_messages_of_any_queue_move_in_their_order(stand: Stand, name: str) -> None:
    source, target = declare(stand.vhost, "s", arguments=TYPES[name]), declare(stand.vhost, "t")
    stand.fill(source, 50)
    expected = bodies(source)
    outcome = moved(source, QueueTarget(stand.vhost, target, source))
    assert (outcome.done, outcome.octets, outcome.refused.total(), outcome.left) == (50, 150, 0, 0)
    assert (source.ready_count, source.ready_bytes, source.unacked_count) == (0, 0, 0)
    assert bodies(target) == expected
    assert source.delivered_count == 0


@pytest.mark.parametrize("name", TYPES)
def test_a_selector_offsets_and_a_limit_choose(stand: Stand, name: str) -> None:
    source, target = declare(stand.vhost, "s", arguments=TYPES[name]), declare(stand.vhost, "t")
    stand.fill(source, 50)
    selector = compile_selector("n >= 10 AND n < 20")
    to = QueueTarget(stand.vhost, target, source)
    assert moved(source, to, Selection(selector=selector, limit=4)).done == 4
    assert bodies(target) == [b"%03d" % number for number in range(10, 14)]
    outcome = moved(source, to, Selection(offsets=frozenset((3, 11, 40, 99))))
    assert sorted(outcome.offsets) == [3, 40]
    outcome = Outcome()
    finish(delete(source, Selection(limit=2), outcome))
    assert outcome.done == 2
    assert source.ready_count == 50 - 4 - 2 - 2


def test_a_copy_leaves_the_messages_and_shares_nothing(stand: Stand) -> None:
    source, target = declare(stand.vhost, "s"), declare(stand.vhost, "t")
    stand.fill(source, 3)
    stand.timers.clock.advance(1_000)
    outcome = moved(source, QueueTarget(stand.vhost, target, source), is_copy=True)
    assert outcome.done == 3
    assert bodies(source) == bodies(target)
    mine, copied = source.lane.ready_entries()[0].message, target.lane.ready_entries()[0].message
    assert mine is not copied
    assert copied.property_octets == mine.property_octets
    assert (copied.address.exchange, copied.address.routing_key) == ("x", "r")
    assert copied.arrival_ms == stand.timers.clock.now_ms


def test_what_a_consumer_has_is_not_touched(stand: Stand) -> None:
    source, target = declare(stand.vhost, "s"), declare(stand.vhost, "t")
    consumer = RecordingConsumer(source, prefetch_count=2)
    source.add_consumer(consumer)
    stand.fill(source, 5)
    offsets = Selection(offsets=frozenset(range(5)))
    outcome = moved(source, QueueTarget(stand.vhost, target, source), offsets)
    assert outcome.done == 3
    assert source.unacked_count == 2
    assert bodies(target) == [b"002", b"003", b"004"]
    source.release(consumer.unacked)
    assert source.ready_count + source.unacked_count == 2


def test_a_consumer_that_takes_a_message_between_two_steps_wins(stand: Stand) -> None:
    source, target = declare(stand.vhost, "s"), declare(stand.vhost, "t")
    stand.fill(source, 40)
    outcome = Outcome()
    steps = transfer(source, QueueTarget(stand.vhost, target, source), ALL, outcome)
    next(steps)
    consumer = RecordingConsumer(source, acknowledges=False)
    source.add_consumer(consumer)
    stand.turn.run()
    finish(steps)
    assert sorted(consumer.bodies + bodies(target)) == [b"%03d" % number for number in range(40)]
    assert outcome.done + outcome.left == 40
    assert outcome.left == len(consumer.bodies) > 0


@pytest.mark.parametrize("policy", ["drop-head", "reject-publish", "reject-publish-dlx", "discard"])
def test_a_full_target_takes_no_more_and_loses_nothing(stand: Stand, policy: str) -> None:
    dead = declare(stand.vhost, "dead")
    source = declare(stand.vhost, "s")
    target = declare(
        stand.vhost,
        "t",
        arguments={
            "x-max-length": 4,
            "x-overflow": policy,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        },
    )
    stand.fill(source, 10)
    outcome = moved(source, QueueTarget(stand.vhost, target, source))
    assert (outcome.done, dict(outcome.refused)) == (4, {FULL: 6})
    assert bodies(target) == [b"%03d" % number for number in range(4)]
    assert bodies(source) == [b"%03d" % number for number in range(4, 10)]
    assert dead.ready_count == 0


def test_consumers_of_a_full_target_make_room(stand: Stand) -> None:
    source = declare(stand.vhost, "s")
    target = declare(
        stand.vhost, "t", arguments={"x-max-length": 2, "x-overflow": "reject-publish"}
    )
    consumer = RecordingConsumer(target, acknowledges=False)
    target.add_consumer(consumer)
    stand.fill(source, 10)
    assert moved(source, QueueTarget(stand.vhost, target, source)).done == 10
    stand.turn.run()
    assert consumer.bodies == [b"%03d" % number for number in range(10)]


def test_an_alarm_stops_the_rest(stand: Stand) -> None:
    source, target = declare(stand.vhost, "s"), declare(stand.vhost, "t")
    stand.fill(source, 10)
    looks = iter([False] * 3 + [True] * 10)
    outcome = moved(source, QueueTarget(stand.vhost, target, source), shortage=lambda: next(looks))
    assert (outcome.done, dict(outcome.refused)) == (3, {ALARM: 7})
    assert source.ready_count == 7


def test_an_exchange_routes_by_the_messages_keys_or_by_one(stand: Stand) -> None:
    vhost = stand.vhost
    source, one, two = (declare(vhost, name) for name in ("s", "one", "two"))
    declare_exchange(vhost, "to")
    bind(vhost, "to", one, "r")
    bind(vhost, "to", two, "other")
    stand.fill(source, 4)
    first = Selection(limit=2)
    assert moved(source, ExchangeTarget(vhost, vhost.exchange("to"), None, source), first).done == 2
    assert (
        moved(
            source, ExchangeTarget(vhost, vhost.exchange("to"), "other", source), Selection(limit=1)
        ).done
        == 1
    )
    assert (one.ready_count, two.ready_count) == (2, 1)
    address = two.lane.ready_entries()[0].message.address
    assert (address.exchange, address.routing_key) == ("to", "other")
    outcome = moved(source, ExchangeTarget(vhost, vhost.exchange("to"), "nowhere", source))
    assert dict(outcome.refused) == {UNROUTABLE: 1}
    assert source.ready_count == 1


def test_what_one_of_several_queues_refuses_stays(stand: Stand) -> None:
    """It had room until the other queue of the place dead-lettered to it."""
    vhost = stand.vhost
    source = declare(vhost, "s")
    declare_exchange(vhost, "to", "fanout")
    first = declare(
        vhost,
        "first",
        arguments={
            "x-last-value-key": "one",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "second",
            "x-dead-letter-reasons": "replaced",
        },
    )
    second = declare(vhost, "second", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    for queue in (first, second):
        bind(vhost, "to", queue)
    first.put(make_message(b"old", headers=Table({"one": "x"})))
    source.put(make_message(b"new", headers=Table({"one": "x"})))
    outcome = moved(source, ExchangeTarget(vhost, vhost.exchange("to"), None, source))
    stand.turn.run()
    assert (outcome.done, dict(outcome.refused)) == (0, {FULL: 1})
    assert bodies(second) == [b"old"]
    assert bodies(source) == bodies(first) == [b"new"]


def test_a_target_that_is_gone_ends_it(stand: Stand) -> None:
    source, target = declare(stand.vhost, "s"), declare(stand.vhost, "t")
    stand.fill(source, 40)
    outcome = Outcome()
    steps = transfer(source, QueueTarget(stand.vhost, target, source), ALL, outcome)
    next(steps)
    stand.vhost.delete_queue("t", None)
    finish(steps)
    assert outcome.done + outcome.refused[GONE] == 40
    assert source.ready_count == outcome.refused[GONE] > 0


# ----------------------------------------------------------------------------------- retry


class Dead(Stand):
    """Messages of queue ``work``, published to ``x`` with key ``r``, that were rejected."""

    def __init__(self, count: int = 3, **arguments: Any) -> None:
        super().__init__()
        self.dead = declare(self.vhost, "dead")
        declare_exchange(self.vhost, "x")
        self.work = declare(
            self.vhost,
            "work",
            arguments={
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "dead",
                **arguments,
            },
        )
        self.fill(self.work, count)
        self.work.reject([entry for _ in range(count) if (entry := self.work.get())])
        assert self.dead.ready_count == count

    def retried(self, may_write: bool = True) -> Outcome:
        target = OriginTarget(self.vhost, self.dead, lambda *_: may_write)
        return moved(self.dead, target)


def test_dead_letters_go_back_to_the_queue_where_they_died() -> None:
    dead = Dead()
    bystander = declare(dead.vhost, "bystander")  # was served when the message was published
    bind(dead.vhost, "x", bystander, "r")
    assert dead.retried().done == 3
    assert (dead.dead.ready_count, dead.work.ready_count, bystander.ready_count) == (0, 3, 0)
    assert bodies(dead.work) == [b"000", b"001", b"002"]
    address = dead.work.lane.ready_entries()[0].message.address
    assert (address.exchange, address.routing_key) == ("x", "r")


def test_a_retried_message_can_die_again_and_be_retried_again() -> None:
    dead = Dead(count=1)
    for count in (1, 2, 3):
        (entry,) = dead.dead.lane.ready_entries()
        deaths: Any = entry.message.headers["x-death"]
        assert deaths[0]["count"] == count
        assert dead.retried().done == 1
        again = dead.work.get()
        assert again is not None
        dead.work.reject([again])


def test_without_its_queue_a_dead_letter_goes_by_the_exchange_before() -> None:
    dead = Dead()
    dead.vhost.delete_queue("work", None)
    heir = declare(dead.vhost, "heir")
    outcome = dead.retried()
    assert (outcome.done, dict(outcome.refused)) == (0, {UNROUTABLE: 3})
    bind(dead.vhost, "x", heir, "r")
    assert dead.retried().done == 3
    assert heir.ready_count == 3


def test_without_queue_and_exchange_a_dead_letter_stays() -> None:
    dead = Dead()
    dead.vhost.delete_queue("work", None)
    dead.vhost.delete_exchange("x", if_unused=False)
    outcome = dead.retried()
    assert (outcome.done, dict(outcome.refused)) == (0, {NO_ORIGIN: 3})
    assert dead.dead.ready_count == 3


def test_what_was_moved_back_to_where_it_died_stays_there() -> None:
    """Its routing key may lead elsewhere: it came to that queue by a move."""
    dead = Dead(count=0)
    other = declare(dead.vhost, "other")
    dead.work.put(make_message(b"x", routing_key="other"))
    entry = dead.work.get()
    assert entry is not None
    dead.work.reject([entry])
    assert moved(dead.dead, QueueTarget(dead.vhost, dead.work, dead.dead)).done == 1
    outcome = moved(dead.work, OriginTarget(dead.vhost, dead.work, lambda *_: True))
    assert (outcome.done, dict(outcome.refused)) == (0, {NO_ORIGIN: 1})
    assert (dead.work.ready_count, other.ready_count) == (1, 0)


def test_what_never_died_and_what_may_not_be_written_stays() -> None:
    dead = Dead()
    assert dict(dead.retried(may_write=False).refused) == {NOT_ALLOWED: 3}
    dead.fill(dead.dead, 2)
    outcome = dead.retried()
    assert (outcome.done, dict(outcome.refused)) == (3, {NO_ORIGIN: 2})
    assert dead.dead.ready_count == 2


def forged(**headers: Any) -> Any:
    """A message that says of itself where it died."""
    return make_message(b"forged", headers=Table({"x-first-death-queue": "gone", **headers}))


def deaths(*keys: str) -> list[Table]:
    return [Table({"queue": "gone", "reason": "rejected", "routing-keys": list(keys)})]


def test_rights_are_asked_for_the_exchange_with_each_key_before_anything_is_put() -> None:
    stand = Stand()
    dead, secret = declare(stand.vhost, "dead"), declare(stand.vhost, "secret")
    declare_exchange(stand.vhost, "topics", "topic")
    bind(stand.vhost, "topics", secret, "#")
    headers = {"x-first-death-exchange": "topics", "x-death": deaths("open", "closed.key")}
    dead.put(forged(**headers))
    asked: list[tuple[str, list[str]]] = []

    def may_publish(exchange: str, keys: list[str]) -> bool:
        asked.append((exchange, keys))
        return "closed.key" not in keys

    outcome = moved(dead, OriginTarget(stand.vhost, dead, may_publish))
    assert (outcome.done, dict(outcome.refused)) == (0, {NOT_ALLOWED: 1})
    assert asked == [("topics", ["open", "closed.key"])]
    assert (dead.ready_count, secret.ready_count) == (1, 0)


@pytest.mark.parametrize(
    "headers",
    [
        {"x-first-death-exchange": "e" * 256},
        {"x-first-death-exchange": "amq.topic", "x-death": deaths("k" * 256)},
        {"x-first-death-exchange": "amq.topic", "x-death": deaths("\u00e9" * 128)},
        {"x-first-death-queue": "q" * 256},
        {"x-first-death-queue": 5},
    ],
)
def test_names_that_no_frame_has_room_for_are_no_origin(headers: dict[str, Any]) -> None:
    stand = Stand()
    dead = declare(stand.vhost, "dead")
    dead.put(forged(**headers))
    outcome = moved(dead, OriginTarget(stand.vhost, dead, lambda *_: True))
    assert (outcome.done, dict(outcome.refused)) == (0, {NO_ORIGIN: 1})
    assert dead.ready_count == 1


def test_the_longest_key_is_an_origin() -> None:
    stand = Stand()
    dead, heir = declare(stand.vhost, "dead"), declare(stand.vhost, "heir")
    bind(stand.vhost, "amq.topic", heir, "#")
    key = "\u00e9" * 127 + "k"
    dead.put(forged(**{"x-first-death-exchange": "amq.topic", "x-death": deaths(key)}))
    assert moved(dead, OriginTarget(stand.vhost, dead, lambda *_: True)).done == 1
    assert heir.lane.ready_entries()[0].message.address.routing_key == key


# ------------------------------------------------------------------------- what must not be


def test_a_stream_keeps_its_messages_and_copies_lose_its_header(stand: Stand) -> None:
    stream = declare(stand.vhost, "stream", is_durable=True, arguments={"x-queue-type": "stream"})
    target = declare(stand.vhost, "t")
    stand.fill(stream, 5)
    for steps in (
        delete(stream, ALL, Outcome()),
        transfer(stream, QueueTarget(stand.vhost, target, stream), ALL, Outcome()),
    ):
        with pytest.raises(PreconditionFailed, match="is a stream"):
            next(steps)
    to = QueueTarget(stand.vhost, target, stream)
    assert moved(stream, to, is_copy=True).done == 5
    assert "x-stream-offset" not in target.lane.ready_entries()[0].message.headers
    assert target.lane.ready_entries()[0].message.headers["n"] == 0


def test_the_header_of_returns_is_not_moved_along(stand: Stand) -> None:
    source = declare(stand.vhost, "s", arguments={"x-delivery-limit": 5})
    stand.fill(source, 1)
    entry = source.get()
    assert entry is not None
    source.release([entry])
    assert entry.message.headers["x-delivery-count"] == 1
    assert "x-delivery-count" not in as_it_came(source, entry, entry.message).headers


def test_a_deletion_is_no_death(stand: Stand) -> None:
    dead = declare(stand.vhost, "dead")
    source = declare(
        stand.vhost,
        "s",
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
    )
    stand.fill(source, 3)
    finish(delete(source, ALL, Outcome()))
    assert (source.ready_count, dead.ready_count) == (0, 0)


# ----------------------------------------------------------------------------------------- targets


MESSAGE = make_message(b"12345", routing_key="r")


def test_a_queue_that_is_deleted_takes_nothing() -> None:
    stand = Stand()
    target = QueueTarget(stand.vhost, declare(stand.vhost, "t"))
    stand.vhost.delete_queue("t", None)
    assert target.place_of(MESSAGE).refusal == GONE


def test_one_full_queue_refuses_for_all() -> None:
    stand = Stand()
    vhost = stand.vhost
    declare_exchange(vhost, "to", "fanout")
    free = declare(vhost, "free")
    full = declare(vhost, "full", arguments={"x-max-length-bytes": 4})
    for queue in (free, full):
        bind(vhost, "to", queue)
    target = ExchangeTarget(vhost, vhost.exchange("to"), None, None)
    assert target.place_of(MESSAGE).refusal == FULL
    place = target.place_of(make_message(b"1234", routing_key="r"))
    assert set(place.queues) == {free, full}
    assert free.ready_count == 0


def test_policies_that_take_whatever_comes_are_never_full() -> None:
    stand = Stand()
    for number, policy in enumerate(("none", "flow-to-disk", "flow-control", "discard")):
        queue = declare(
            stand.vhost, f"q{number}", arguments={"x-max-length": 0, "x-overflow": policy}
        )
        assert is_full_for(queue, MESSAGE) == (policy in ("flow-control", "discard"))


def test_what_could_not_be_stored_is_refused_where_it_is_kept() -> None:
    store = FakeStore()
    vhost = make_vhost(ManualTurn(), store=store)
    kept = declare(vhost, "kept", is_durable=True)
    loose = declare(vhost, "loose")
    store.refuse("no room on the disk")
    persistent = make_message(b"p")
    persistent.position = UNWRITTEN
    assert QueueTarget(vhost, kept).place_of(persistent).refusal == NOT_STORED
    assert QueueTarget(vhost, loose).place_of(persistent).refusal == ""
    assert QueueTarget(vhost, kept).place_of(MESSAGE).refusal == ""


def test_archives_get_what_is_put() -> None:
    stand = Stand()
    archive = declare(stand.vhost, "archive", is_durable=True, arguments={"x-queue-type": "stream"})
    queue = declare(stand.vhost, "q", arguments={"x-archive-to": "archive"})
    target = QueueTarget(stand.vhost, queue)
    assert target.put(target.place_of(MESSAGE), MESSAGE) == ""
    assert (queue.ready_count, archive.ready_count) == (1, 1)


def test_a_queue_that_is_full_by_now_refuses_and_archives_nothing() -> None:
    stand = Stand()
    archive = declare(stand.vhost, "archive", is_durable=True, arguments={"x-queue-type": "stream"})
    arguments = {"x-archive-to": "archive", "x-max-length": 1, "x-overflow": "reject-publish"}
    queue = declare(stand.vhost, "q", arguments=arguments)
    target = QueueTarget(stand.vhost, queue)
    place = target.place_of(MESSAGE)
    queue.put(make_message(b"first"))
    assert target.put(place, MESSAGE) == FULL
    assert (queue.ready_count, archive.ready_count) == (1, 0)


def test_a_message_stays_where_it_is_if_the_target_knows_its_id(stand: Stand) -> None:
    by_id = {"x-message-deduplication": True}
    source, other = (declare(stand.vhost, name, arguments=by_id) for name in "so")
    for queue in (source, other):
        queue.put(make_message(b"m", message_id="a"))
    for target in (other, source):
        outcome = moved(source, QueueTarget(stand.vhost, target))
        assert (outcome.done, dict(outcome.refused)) == (0, {KNOWN: 1})
        assert (source.ready_count, other.ready_count) == (1, 1)


def test_another_exchange_of_the_name_gets_nothing() -> None:
    stand = Stand()
    vhost = stand.vhost
    declare_exchange(vhost, "to")
    target = ExchangeTarget(vhost, vhost.exchange("to"), None, None)
    vhost.delete_exchange("to", if_unused=False)
    assert target.place_of(MESSAGE).refusal == GONE
    declare_exchange(vhost, "to", "fanout", is_internal=True)
    bind(vhost, "to", declare(vhost, "t"))
    assert target.place_of(MESSAGE).refusal == GONE


def test_an_address_is_the_one_that_publishers_have() -> None:
    stand = Stand()
    first = address_of(stand.vhost, "x", "k\udcff")
    assert address_of(stand.vhost, "x", "k\udcff") is first
    assert first.octets == b"\x01x\x02k\xff"


def test_each_reason_has_a_sentence() -> None:
    assert all(len(sentence) > 10 for sentence in REASONS.values())


# ------------------------------------------------------------------------------------------ taking


DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.mark.parametrize("is_paused", [False, True])
@pytest.mark.parametrize(
    ("mode", "left", "dead", "returns"),
    [
        ("ack_requeue_true", 5, 0, 0),
        ("reject_requeue_true", 5, 0, 1),
        ("ack_requeue_false", 3, 0, 0),
        ("reject_requeue_false", 3, 2, 0),
    ],
)
def test_each_mode(mode: AckMode, left: int, dead: int, returns: int, is_paused: bool) -> None:
    stand = Stand()
    dead_queue = declare(stand.vhost, "dead")
    queue = declare(stand.vhost, "q", arguments=DEAD)
    stand.fill(queue, 5)
    if is_paused:
        queue.set_paused(True)
    entries = list(take(queue, 2))
    assert [entry.message.body for entry in entries] == [b"000", b"001"]
    assert queue.unacked_count == 2
    acknowledge(queue, entries, mode)
    assert (queue.ready_count, queue.unacked_count, dead_queue.ready_count) == (left, 0, dead)
    first = queue.lane.ready_entries()[0]
    assert first.returns == returns
    assert (first.delivery_count > 0) == (left == 5)
    if left == 5:
        assert bodies(queue)[:2] == [b"000", b"001"]


def test_octets_bound_what_is_taken_but_one_comes_in_any_case() -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q")
    stand.fill(queue, 5)
    entries = list(take(queue, 5, 7))
    assert len(entries) == 2
    assert queue.ready_count == 3
    acknowledge(queue, entries, "ack_requeue_false")
    assert queue.lane.ready_entries()[0].delivery_count == 0
    assert len(list(take(queue, 5, 0))) == 1


def test_what_is_due_to_consumers_is_theirs_and_an_expired_message_nobodys() -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q", arguments={"x-message-ttl": 50})
    stand.fill(queue, 2)
    queue.set_paused(True)
    stand.timers.clock.advance(100)
    assert list(take(queue, 5)) == []
    assert queue.ready_count == 0
    other = declare(stand.vhost, "other")
    consumer = RecordingConsumer(other, acknowledges=False)
    other.add_consumer(consumer)
    stand.fill(other, 1)
    assert list(take(other, 1)) == []
    assert consumer.bodies == [b"000"]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_what_nobody_was_shown_goes_back_as_if_it_had_not_been_taken(is_deleted: bool) -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q")
    stand.fill(queue, 3)
    taking = take(queue, 3)
    taken = [next(taking), next(taking)]
    if is_deleted:
        stand.vhost.delete_queue("q", None)
        assert list(taking) == []
        give_back(queue, taken)
        assert queue.unacked_count == 0
        return
    give_back(queue, taken)
    assert bodies(queue) == [b"000", b"001", b"002"]
    assert queue.unacked_count == 0
    assert not any(entry.delivery_count for entry in queue.lane.ready_entries())


# -------------------------------------------------------------------------------------- publishing


def test_a_message_is_taken_by_all_queues_or_said_not_to_be() -> None:
    store = FakeStore()
    vhost = make_vhost(ManualTurn(), store=store)
    free = declare(vhost, "free")
    full = declare(vhost, "full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    message = make_message(b"m")
    assert not put_published(store, message, (), ())
    assert put_published(store, message, (free, full), ())
    assert not put_published(store, message, (free, full), ())
    assert (free.ready_count, full.ready_count) == (2, 1)


def test_a_store_without_room_keeps_a_persistent_message_out_everywhere() -> None:
    store = FakeStore()
    vhost = make_vhost(ManualTurn(), store=store)
    kept, loose = declare(vhost, "kept", is_durable=True), declare(vhost, "loose")
    store.refuse("no room on the disk")
    message = make_message(b"m")
    message.position = UNWRITTEN
    with pytest.raises(NotKept, match="no room on the disk"):
        put_published(store, message, (loose, kept), ())
    assert (loose.ready_count, kept.ready_count) == (0, 0)
    assert put_published(store, message, (loose,), ())
