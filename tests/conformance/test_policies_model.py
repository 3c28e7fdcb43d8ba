"""All policies of a queue at once, as its arguments combine them, against what is always true.

A queue of any order, limit, time to live, delivery limit and grouping, with or without held
messages and a single active consumer, dead-letters into a second one, maybe so small that it
dead-letters back. After every step: no message is lost or there twice, books are right, nothing
expired is ready or was delivered, limits hold, there is one last value, deaths have their cause,
nobody who could receive is left waiting, and what was delivered came in the queue's order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hareline.broker.making import QueueDefaults, make_queue
from hareline.clock import Clock
from hareline.message import Message, Table
from hareline.queues import books, wiring
from hareline.queues.core import lane as lane_module
from hareline.queues.core.credit import UNLIMITED
from hareline.queues.core.entry import (
    ACQUIRED,
    HELD,
    PARKED,
    READY,
    SETTLED,
    QueueEntry,
    RankedEntry,
)
from hareline.queues.core.kinds import DeathReason
from hareline.queues.dead_letters.dead_letters import DeadLetters
from hareline.queues.declare.arguments import parse_queue_arguments
from hareline.queues.dispatch import placing
from hareline.queues.dispatch.selective import SelectiveLane
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.order import EntryOrder
from hareline.queues.policies import expiry
from hareline.queues.queue import Queue
from hareline.selectors.selector import compile_selector
from hareline.storage.interface import MessageStore
from hareline.storage.memory import MemoryStore
from tests.support.consumers import RecordingConsumer
from tests.support.examples import examples
from tests.support.messages import make_message
from tests.support.timers import ManualTimers, queue_environment
from tests.support.turns import ManualTurn

from .orderings import ORDERINGS, Ordering

Arguments = dict[str, object]

#: What makes each of the orderings that are tried here.
ORDERS: Final[dict[str, Arguments]] = {
    "fifo": {},
    "max-priority-5": {"x-max-priority": 5},
    "sorted": {"x-sort-key": "k"},
    "last-value": {"x-last-value-key": "k"},
}
LIMIT: Final = 4
BODY_BYTES: Final = 6
LIMITS: Final[tuple[Arguments, ...]] = (
    {},
    {"x-max-length": LIMIT},
    {"x-max-length-bytes": LIMIT * BODY_BYTES + 1},
    {"x-max-length": LIMIT, "x-overflow": "reject-publish"},
    {"x-max-length": LIMIT, "x-overflow": "reject-publish-dlx"},
    {"x-max-length": LIMIT, "x-overflow": "discard"},
    {"x-max-length": LIMIT, "x-overflow": "flow-control"},
    {"qpid.max_count": LIMIT, "qpid.policy_type": "ring"},
    {"qpid.max_count": LIMIT, "qpid.policy_type": "reject"},
)
TIMES: Final[tuple[Arguments, ...]] = (
    {},
    {"x-message-ttl": 40},
    {"x-min-message-ttl": 20, "x-max-message-ttl": 60},
)
OTHERS: Final[tuple[Arguments, ...]] = (
    {},
    {"x-hold-on-publish": True},
    {"x-delivery-limit": 1},
    {"x-single-active-consumer": True},
    {"x-hold-on-publish": True, "x-delivery-limit": 2},
)
GROUPS: Final[tuple[Arguments, ...]] = (
    {},
    {},
    {"x-message-group-type": "standard"},
    {"x-message-group-type": "shared"},
)
USUAL: Final = frozenset(("rejected", "expired", "maxlen", "delivery_limit"))
#: Where the dead go, and which of them.
LETTERS: Final[tuple[tuple[Arguments, frozenset[str]], ...]] = (
    ({"x-dead-letter-exchange": "to-dead"}, USUAL),
    (
        {
            "x-dead-letter-exchange": "to-dead",
            "x-dead-letter-reasons": "rejected,expired,maxlen,delivery_limit,replaced",
        },
        USUAL | {"replaced"},
    ),
    (
        {"alternateBinding": '{"destination": "to-dead"}', "expiryPolicy": "ROUTE_TO_ALTERNATE"},
        frozenset(("rejected", "delivery_limit", "expired", "deleted")),
    ),
)
SELECTORS: Final = (None, None, "colour = 'red'", "JMSRedelivered")

MESSAGES: Final = st.fixed_dictionaries(
    {"colour": st.sampled_from(["red", "blue"]), "priority": st.integers(0, 6)},
    optional={
        "JMSXGroupID": st.sampled_from("ab"),
        "k": st.sampled_from("xyz"),
        "ttl_ms": st.sampled_from([0, 1, 10, 30]),
        "x-delay": st.sampled_from([1, 15, 50]),
    },
)


@dataclass(frozen=True)
class Death:
    """``entry`` is None for a message that was refused and dead-lettered; ``at_ms``: when."""

    entry: QueueEntry | None
    message: Message
    reason: DeathReason
    at_ms: int


class Witness:
    """Stands before a queue's dead letters and writes down all deaths, wanted there or not."""

    def __init__(self, letters: DeadLetters | None, clock: Clock) -> None:
        self.letters = letters
        self.clock = clock
        self.deaths: list[Death] = []

    def publish(
        self, entries: list[QueueEntry], reason: DeathReason, ledger: object = None
    ) -> None:
        now_ms = self.clock.now_ms
        self.deaths += [Death(entry, entry.message, reason, now_ms) for entry in entries]
        if self.letters is not None:
            self.letters.publish(entries, reason)

    def wants(self, reason: DeathReason) -> bool:
        return self.letters is not None and self.letters.wants(reason)

    def publish_all(self, entries: Iterator[QueueEntry], reason: DeathReason) -> None:
        self.publish(list(entries), reason)

    def publish_message(self, message: Message, reason: DeathReason) -> None:
        self.deaths.append(Death(None, message, reason, self.clock.now_ms))
        if self.letters is not None:
            self.letters.publish_message(message, reason)


class TimedConsumer(RecordingConsumer):
    """Writes down when each delivery was."""

    clock: Clock

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.delivered: list[tuple[QueueEntry, int]] = []

    def deliver(self, entries: list[QueueEntry]) -> int:
        count = super().deliver(entries)
        if not self.acknowledges:
            for entry in entries[:count]:  # the queue sees to that only if it looks at it again
                entry.state = SETTLED
        self.delivered += [(entry, self.clock.now_ms) for entry in entries[:count]]
        return count


class PoliciesModel(RuleBasedStateMachine):
    """``entries`` is every entry that ``queue`` ever made, ``ends`` and ``valid_from`` when each
    expires (None: never) and is ready at the earliest."""

    ordering: Ordering

    @initialize(
        limit=st.sampled_from(LIMITS),
        times=st.sampled_from(TIMES),
        others=st.sampled_from(OTHERS),
        groups=st.sampled_from(GROUPS),
        letters=st.sampled_from(LETTERS),
        comes_back=st.booleans(),
    )
    def start(
        self,
        limit: Arguments,
        times: Arguments,
        others: Arguments,
        groups: Arguments,
        letters: tuple[Arguments, frozenset[str]],
        comes_back: bool,
    ) -> None:
        self.patch = pytest.MonkeyPatch()
        for module, name, value in (
            (lane_module, "ENTRIES_PER_TURN", 12),
            (placing, "LOOKS_PER_TURN", 20),
            (placing, "BATCH_ENTRIES", 4),
            (placing, "TAKEN_AT_ONCE", 5),
            (expiry, "DROPS_PER_TURN", 3),
            (books, "RankedEntry", self._new_ranked_entry),
            (wiring, "RankedEntry", self._new_ranked_entry),
            (EntryOrder, "entry_class", self._new_ranked_entry),
            (FifoOrder, "entry_class", self._new_entry),
        ):
            self.patch.setattr(module, name, value)
        self.turn = ManualTurn()
        self.timers = ManualTimers(on_rung=self.turn.run)
        self.clock = self.timers.clock
        self.environment = queue_environment(
            self.timers,
            route=lambda *asked: (self._route(*asked), ()),
            store=self.make_store(),
        )
        self.wanted = letters[1]
        self.arguments = {
            **ORDERS[str(self.ordering)],
            **limit,
            **times,
            **others,
            **groups,
            **letters[0],
        }
        self.comes_back = comes_back
        self.published = 0
        self._declare()

    def _declare(self) -> None:
        self.entries: list[QueueEntry] = []
        self.ends: dict[QueueEntry, int | None] = {}
        self.valid_from: dict[QueueEntry, int] = {}
        self.consumers: list[TimedConsumer] = []
        self.departed: list[TimedConsumer] = []
        self.got: list[QueueEntry] = []
        self.accepted = 0
        small: Arguments = {"x-max-length": 2, "x-dead-letter-exchange": "to-q"}
        self.dead, self.dead_witness = self._make("dead", small if self.comes_back else {})
        self.queue, self.witness = self._make("q", self.arguments)

    def _make(self, name: str, arguments: Arguments) -> tuple[Queue, Witness]:
        made = make_queue(
            name,
            parse_queue_arguments(arguments, queue=name, vhost="/"),
            self.turn,
            self.environment,
            QueueDefaults(),
            is_durable=True,
            is_auto_delete=False,
            owner=None,
            on_unused=None,
            on_expired=self._on_expired,
        )
        self.keep(made)
        witness = Witness(made.dead_letters, self.clock)
        made.dead_letters = cast("DeadLetters", witness)
        return made, witness

    def make_store(self) -> MessageStore:
        return MemoryStore()

    def keep(self, made: Queue) -> None:
        """Called with each queue that was made."""

    def prepare(self, message: Message) -> None:
        """Called with each message before it is published."""

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    # ------------------------------------------------------------- around the queue

    def _on_expired(self, expired: Queue) -> None:
        raise AssertionError(f"{expired} has no lease")

    def _route(self, exchange: str, keys: list[str], message: Message) -> tuple[Queue, ...]:
        if exchange == "to-dead":
            return (self.dead,)
        return (self.queue,) if exchange == "to-q" else ()

    def _new_entry(self, made_by: Queue, message: Message, offset: int) -> QueueEntry:
        entry = QueueEntry(made_by, message, offset)
        self._remember(entry)
        return entry

    def _new_ranked_entry(self, made_by: Queue, message: Message, offset: int) -> RankedEntry:
        entry = RankedEntry(made_by, message, offset)
        self._remember(entry)
        return entry

    def _remember(self, entry: QueueEntry) -> None:
        if entry.queue is not self.queue:
            return
        self.entries.append(entry)
        now_ms = self.clock.now_ms
        arguments: dict[str, Any] = self.arguments
        ends = [entry.message.expires_at_ms] if entry.message.expires_at_ms else []
        if "x-message-ttl" in arguments:
            ends.append(now_ms + arguments["x-message-ttl"])
        if ends and "x-min-message-ttl" in arguments:
            ends = [max(end, now_ms + arguments["x-min-message-ttl"]) for end in ends]
        if "x-max-message-ttl" in arguments:
            ends.append(now_ms + arguments["x-max-message-ttl"])
        self.ends[entry] = min(ends, default=None)
        delay_ms: Any = entry.message.headers.get("x-delay", 0)
        self.valid_from[entry] = now_ms + (delay_ms if "x-hold-on-publish" in arguments else 0)

    # ------------------------------------------------------------------ messages

    @rule(many=st.lists(MESSAGES, min_size=1, max_size=8))
    def publish_many(self, many: list[dict[str, Any]]) -> None:
        for headers in many:
            self._publish(headers)
        self._finish(is_ordered=False)

    @rule(headers=MESSAGES)
    def publish(self, headers: dict[str, Any]) -> None:
        self._publish(headers)
        self._finish()

    def _publish(self, fields: dict[str, Any]) -> None:
        headers = dict(fields)
        priority = headers.pop("priority")
        ttl_ms = headers.pop("ttl_ms", None)
        body = b"%06d" % self.published
        assert len(body) == BODY_BYTES
        message = make_message(body, headers=Table(headers), priority=priority)
        self.published += 1
        self.prepare(message)
        if ttl_ms is not None:
            message = message.expiring_at(self.clock.now_ms + ttl_ms)
        before = self.queue.next_offset
        if not (self.queue.needs_admission or message.expires_at_ms):
            self.queue.enqueue(message)
        elif not self.queue.put(message):
            self._check_refusal()
            return
        if self.comes_back:
            self.accepted += 1
        elif self.queue.next_offset == before:
            assert self.arguments["x-overflow"] == "discard"
            self._check_refusal()
        else:
            self.accepted += 1
            self._check_acceptance()

    def _check_refusal(self) -> None:
        """Only a full queue refuses."""
        if "qpid.max_count" in self.arguments:
            assert self._depth() >= LIMIT
        elif not self.comes_back:
            assert self.queue.ready_count >= LIMIT

    def _check_acceptance(self) -> None:
        """A full queue refuses."""
        policy = self.arguments.get("x-overflow", self.arguments.get("qpid.policy_type"))
        if policy in ("reject-publish", "reject-publish-dlx", "discard"):
            assert self.queue.ready_count <= LIMIT
        elif policy == "reject":
            assert self._depth() <= LIMIT

    def _depth(self) -> int:
        return self.queue.ready_count + self.queue.held_count + self.queue.unacked_count

    @rule(milliseconds=st.sampled_from([1, 5, 9, 10, 25, 60, 12_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.timers.advance(milliseconds)
        self._finish(is_ordered=False)

    @rule()
    def purge(self) -> None:
        gone = self.queue.ready_count + self.queue.held_count
        assert self.queue.purge() == gone
        assert (self.queue.ready_count, self.queue.held_count, self.queue.ready_bytes) == (0, 0, 0)
        self._finish()

    @rule()
    def get(self) -> None:
        holders = self._holders()
        candidates = [one for one in self._ready() if self._group(one) not in holders]
        entry = self.queue.get()
        assert entry is min(candidates, key=self.ordering.place, default=None)
        if entry is not None:
            self.got.append(entry)
        self._finish()

    @precondition(lambda self: self.got)
    @rule(data=st.data(), how=st.sampled_from(["settle", "release", "reject"]))
    def answer_what_was_got(self, data: st.DataObject, how: str) -> None:
        entry = self.got.pop(data.draw(st.integers(0, len(self.got) - 1)))
        if how == "settle":
            self.queue.settle(entry)
        elif how == "release":
            self.queue.release([entry])
        else:
            self.queue.reject([entry])
        self._finish()

    # ----------------------------------------------------------------- consumers

    @rule(
        selector=st.sampled_from(SELECTORS),
        prefetch=st.sampled_from([0, 1, 2, 5]),
        priority=st.sampled_from([0, 0, 0, 1]),
        room=st.sampled_from([UNLIMITED, UNLIMITED, -1, 150]),
        acknowledges=st.sampled_from([True, True, True, False]),
    )
    def consume(
        self, selector: str | None, prefetch: int, priority: int, room: int, acknowledges: bool
    ) -> None:
        consumer = TimedConsumer(
            self.queue,
            f"c{len(self.consumers) + len(self.departed)}",
            prefetch_count=prefetch,
            priority=priority,
            acknowledges=acknowledges,
            selector=None if selector is None else compile_selector(selector),
        )
        consumer.clock = self.clock
        consumer.room = room
        self.queue.add_consumer(consumer)
        self.consumers.append(consumer)
        self._finish()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), is_released=st.booleans())
    def cancel(self, data: st.DataObject, is_released: bool) -> None:
        """By basic.cancel, which leaves the unacked ones with the channel, or by its end."""
        consumer = data.draw(st.sampled_from(self.consumers))
        self.consumers.remove(consumer)
        self.queue.remove_consumer(consumer)
        if is_released:
            consumer.release()
        else:
            self.departed.append(consumer)
        self._finish()

    @precondition(lambda self: any(one.unacked for one in self.consumers + self.departed))
    @rule(
        data=st.data(),
        count=st.integers(1, 6),
        how=st.sampled_from(["settle", "release", "reject"]),
    )
    def answer(self, data: st.DataObject, count: int, how: str) -> None:
        busy = [one for one in self.consumers + self.departed if one.unacked]
        consumer = data.draw(st.sampled_from(busy))
        consumer.unacked = data.draw(st.permutations(consumer.unacked))
        if how == "settle":
            consumer.ack(count)
        elif how == "release":
            consumer.release(count)
        else:
            entries = consumer.take_unacked(count)
            for entry in entries:
                consumer.restore_credit(entry.message.size)
            self.queue.reject(entries)
        self._finish()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), room=st.sampled_from([UNLIMITED, -1, 150]))
    def output_changes(self, data: st.DataObject, room: int) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        if room < 0:
            consumer.fill()
        else:
            consumer.drain(room)
        self._finish()

    @rule()
    def delete_and_declare(self) -> None:
        """It takes along what is ready, and what comes back; nobody holds on to anything."""
        old, witness = self.queue, self.witness
        there = [one for one in self.entries if one.state not in (SETTLED, ACQUIRED)]
        told = old.delete()
        assert told == self.consumers
        assert all(one.state == SETTLED for one in there)
        if not witness.wants("deleted"):
            there = []  # they are just gone
        deleted = [death.entry for death in witness.deaths if death.reason == "deleted"]
        assert sorted(map(id, deleted)) == sorted(map(id, there))
        assert (old.ready_count, old.held_count, old.ready_bytes) == (0, 0, 0)
        unacked = self._acquired()
        for consumer in self.consumers + self.departed:
            consumer.release()
        for entry in self.got:
            old.release([entry])
        deleted = [death.entry for death in witness.deaths if death.reason == "deleted"]
        assert len(deleted) == len(there) + len(unacked)
        assert old.unacked_count == 0
        self.turn.run()
        if not self.comes_back:
            self._check_letters()
        self.dead.delete()
        self.turn.run()
        assert not self.timers.pending, "a timer of a deleted queue"
        self._declare()

    # ------------------------------------------------------------------ the rules

    def _ready(self) -> list[QueueEntry]:
        return [entry for entry in self.entries if entry.state in (READY, PARKED)]

    def _acquired(self) -> list[QueueEntry]:
        held = [entry for one in self.consumers + self.departed for entry in one.unacked]
        return held + self.got

    def _group(self, entry: QueueEntry) -> str | None:
        group_type = self.arguments.get("x-message-group-type")
        key = entry.message.headers.get("JMSXGroupID")
        if group_type is None or (key is None and group_type == "standard"):
            return None
        return "the default group" if key is None else str(key)

    def _holders(self) -> dict[str, object]:
        """Who alone may have messages of a group."""
        holders: dict[str, object] = {}
        lane = self.queue.lane
        if self.arguments.get("x-message-group-type") == "standard":
            assert isinstance(lane, SelectiveLane)
            assert lane._groups is not None
            for found in lane._groups.by_key.values():
                if isinstance(found.owner, RecordingConsumer):
                    assert found.owner in self.consumers, "a group of somebody who has left"
                    holders[str(found.key)] = found.owner
        for entry in self._acquired():
            group = self._group(entry)
            if group is not None:
                holders[group] = entry.consumer or "basic.get"
        return holders

    def _may_have(
        self, consumer: RecordingConsumer, entry: QueueEntry, holders: dict[str, object]
    ) -> bool:
        selector = consumer.selector
        if selector is not None and not selector.matches(entry.message, entry.delivery_count > 0):
            return False
        group = self._group(entry)
        holder = None if group is None else holders.get(group)
        return holder is None or holder is consumer

    def _finish(self, *, is_ordered: bool = True) -> None:
        before = {consumer: len(consumer.delivered) for consumer in self.consumers}
        if self.comes_back:  # what comes back is delivered when it comes
            is_ordered = False
        self.turn.run()
        self.timers.advance(0)  # what expires at once while it is held
        self._check_times(before)
        self._check_deliveries(before, is_ordered)
        self._check_deaths()
        self._check_limits()
        self._check_last_values()
        self._check_books()
        if not self.comes_back:
            self._check_letters()

    def _check_times(self, before: dict[TimedConsumer, int]) -> None:
        now_ms = self.clock.now_ms
        for consumer in self.consumers:
            for entry, at_ms in consumer.delivered[before[consumer] :]:
                end_ms = self.ends[entry]
                assert end_ms is None or end_ms >= at_ms, "expired"
                assert self.valid_from[entry] <= at_ms, "not valid yet"
        for entry in self.entries:
            end_ms = self.ends[entry]
            if entry.state in (READY, PARKED, HELD):
                assert end_ms is None or end_ms > now_ms, "still there"
                assert (entry.state == HELD) == (self.valid_from[entry] > now_ms)

    def _check_deliveries(self, before: dict[TimedConsumer, int], is_ordered: bool) -> None:
        ready = self._ready()
        holders = self._holders()
        # a group is somebody's until the hand-over, and nobody's after it
        has_fleeting = not all(one.acknowledges for one in self.consumers)
        for consumer in self.consumers:
            new = [entry for entry, _ in consumer.delivered[before[consumer] :]]
            places = [self.ordering.place(entry) for entry in new]
            left = [entry for entry in ready if self._may_have(consumer, entry, holders)]
            if consumer.credit > 0 and consumer.room == UNLIMITED and consumer.is_live:
                assert not left, f"{consumer} could have {left}"
            if is_ordered and consumer.room == UNLIMITED:
                assert places == sorted(places), "out of order"
            if is_ordered and places and left and not has_fleeting:
                first_left = min(self.ordering.place(entry) for entry in left)
                assert first_left > places[-1], "a later one was preferred"
        if self.arguments.get("x-single-active-consumer"):
            assert sum(one.is_live for one in self.consumers) == bool(self.consumers)

    def _check_deaths(self) -> None:
        limit = cast("int", self.arguments.get("x-delivery-limit", 1_000))
        for entry in self._ready():
            assert entry.delivery_count <= limit
        for death in self.witness.deaths:
            if death.entry is None:
                assert self.arguments["x-overflow"] == "reject-publish-dlx"
                continue
            assert death.entry.state == SETTLED
            end_ms = self.ends[death.entry]
            if death.reason == "expired":
                assert end_ms is not None
                assert end_ms <= death.at_ms
            elif death.reason == "delivery_limit":
                assert death.entry.delivery_count == limit + 1
            elif death.reason == "replaced":
                assert str(self.ordering) == "last-value"
            else:
                assert death.reason in ("rejected", "maxlen")
        entries = [death.entry for death in self.witness.deaths if death.entry is not None]
        assert len(set(entries)) == len(entries), "it died twice"

    def _check_limits(self) -> None:
        arguments, now = self.arguments, self.queue
        if arguments.get("qpid.policy_type") == "ring":
            assert self._depth() <= LIMIT or now.ready_count <= 1
        elif "x-max-length-bytes" in arguments:
            assert now.ready_bytes <= cast("int", arguments["x-max-length-bytes"])
        elif "x-max-length" in arguments and "x-overflow" not in arguments:
            assert now.ready_count <= LIMIT
        if arguments.get("x-overflow") == "flow-control":
            overflow = now.overflow
            assert overflow is not None
            if now.ready_count > LIMIT:
                assert overflow.stops_publishers
            if now.ready_count <= LIMIT * 8 // 10:
                assert not overflow.is_overfull
        assert self.dead.ready_count <= 2 or not self.comes_back

    def _check_last_values(self) -> None:
        if str(self.ordering) != "last-value":
            return
        keys = [entry.message.headers.get("k") for entry in self._ready()]
        keys = [key for key in keys if key is not None]
        assert len(set(keys)) == len(keys), "two values of one key"

    def _check_books(self) -> None:
        states = [entry.state for entry in self.entries]
        ready = self._ready()
        now = self.queue
        assert now.next_offset == len(self.entries)
        assert now.ready_count == len(ready)
        assert now.ready_bytes == sum(entry.message.size for entry in ready)
        assert now.held_count == states.count(HELD)
        assert now.unacked_count == states.count(ACQUIRED)
        assert now.settled_count == len(states) - now.ready_count - now.held_count - len(
            self._acquired()
        )
        assert sorted(entry.offset for entry in self._acquired()) == sorted(
            entry.offset for entry in self.entries if entry.state == ACQUIRED
        )
        assert now.lane.ready_entries() == sorted(ready, key=self.ordering.place)
        if self.comes_back:
            letters = self.dead_witness.letters
            assert letters is not None
            assert now.next_offset <= self.accepted + letters.published_count
        else:
            assert now.next_offset == self.accepted

    def _check_letters(self) -> None:
        """Every death that is asked for, and no other, is in the other queue, in order."""
        dead = [death.message.body for death in self.witness.deaths if death.reason in self.wanted]
        assert [entry.message.body for entry in self.dead.lane.ready_entries()] == dead


@pytest.mark.hypothesis
@pytest.mark.pure("writes down each entry where its queue makes it")
@pytest.mark.parametrize("chosen", [one for one in ORDERINGS if str(one) in ORDERS], ids=str)
def test_policies_go_together(chosen: Ordering) -> None:
    class Machine(PoliciesModel):
        ordering = chosen

    long = settings(max_examples=examples(0.5), stateful_step_count=40)
    run_state_machine_as_test(Machine, settings=long)
