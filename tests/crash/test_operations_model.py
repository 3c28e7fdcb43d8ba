"""What operators do to queues, in any order, among all that clients do, crashes and restarts.

To the lives of ``test_lives_model`` come browse, move, copy, delete, retry, purge of the first,
held messages fired and cancelled, pause and resume, live changes of arguments, and policies.
Operations go on bit by bit between everything else, as they do in a broker.

``expected`` says which message is in which queue how often. It follows from what clients sent and
acknowledged, what queues gave up and for which reason, and what operations say that they have done;
whatever else comes or goes is a message lost, or one too many. After a crash the witness says what
may be there: whole batches, so each message that was moved is in one place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from hareline.administration.changes import Changes
from hareline.administration.policies import Policies
from hareline.amqp.context import Context
from hareline.broker.operations import holding, moving
from hareline.broker.operations.browsing import BrowsedPage, browse
from hareline.broker.operations.holding import cancel_held, make_held_due
from hareline.broker.operations.moving import Outcome, delete, transfer
from hareline.broker.operations.selecting import Selection
from hareline.broker.operations.targets import (
    ExchangeTarget,
    OriginTarget,
    QueueTarget,
    Target,
)
from hareline.errors import PreconditionFailed
from hareline.later import Shares
from hareline.message import Message
from hareline.queues.books import QueueBooks
from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.kinds import DeathReason
from hareline.queues.queue import Queue
from hareline.selectors.selector import Selector, compile_selector
from hareline.storage.administration import PolicyRecord
from hareline.wire.table import Table
from tests.crash.test_lives_model import HOUR_MS, QUEUES, Lives, counts, names, seeds
from tests.support.examples import examples
from tests.support.vhosts import forget_report

DEAD: Final = "dead"
LATE: Final = "late"
EXCHANGE: Final = "to"
#: Where the exchange leads, by routing key.
BOUND: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(QUEUES, ("fan-a",)),
    "line": ("line", "rank"),
    "late": ("fan-b",),
}
OPERATIONS_MAX: Final = 3

#: All but the one for dead letters, which is to get them all.
lives = st.sampled_from([name for name in (*QUEUES, LATE) if name != DEAD])
alls = st.sampled_from([*QUEUES, LATE])
TO_DEAD: Final = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
#: Without drop-head, by which what consumers have when a crash comes is dropped as it comes back,
#: and without delivery limits, whose headers are not in the store.
CHANGES: Final[tuple[dict[str, Any], ...]] = (
    {"x-max-length": 2, "x-overflow": "reject-publish"},
    {"x-max-length": 2, "x-overflow": "discard"},
    {"x-max-length": 2, "x-overflow": "none"},
    {"x-max-length-bytes": 1_000, "x-overflow": "reject-publish"},
    {"x-max-length": None, "x-max-length-bytes": None, "x-overflow": None},
    {"x-max-consumers": 1},
    {"x-max-consumers": None},
    {"x-message-ttl": HOUR_MS},
    {"x-hold-on-publish": True},
    {"x-hold-on-publish": None},
    TO_DEAD,
    dict.fromkeys(TO_DEAD),
)
DEFINITIONS: Final[tuple[dict[str, Any], ...]] = (
    {"max-length": 3},
    {"max-length": 4, "overflow": "reject-publish"},
    {"max-length-bytes": 500},
    {"message-ttl": HOUR_MS},
    {"dead-letter-exchange": "", "dead-letter-routing-key": DEAD, "max-length": 2},
)
PATTERNS: Final = ("^line$", "^(rank|last)$", "^work$", "^fan-", "^late$", "^[a-z]{4}$(?<!dead)")
SELECTOR: Final = compile_selector("key = 'a'")

#: Places of messages in their queue, a selector, a limit.
Chosen = tuple[set[int] | None, Selector | None, int | None]
selections = st.tuples(
    st.none() | st.none() | st.sets(st.integers(0, 5), min_size=1),
    st.sampled_from((None, None, None, SELECTOR)),
    st.sampled_from((None, None, 1, 3)),
)
steps = st.sampled_from((0, 2, 5, 20))

Place = tuple[str, int]  # queue, message


@dataclass(frozen=True)
class Standing:
    """A message in a queue as it was before a step."""

    number: int
    routing_key: str
    origin: str | None


@dataclass(eq=False)
class Running:
    """An operation under way. ``goes_to``: where a message of its queue goes; nowhere: it ends."""

    queue: Queue
    steps: Iterator[None]
    outcome: Outcome
    goes_to: Callable[[Standing], tuple[str, ...]]
    stays: bool
    seen: int = 0


class OperatedLives(Lives):
    def __init__(self) -> None:
        super().__init__()
        self.expected: Counter[Place] = Counter()
        self.running: list[Running] = []
        self.paused: set[str] = set()
        self.delivered_before: dict[str, int] = {}

    @initialize(
        retention_bytes=st.sampled_from((0, 60_000)),
        linger_ms=st.sampled_from((0, 5)),
        is_paging=st.booleans(),
    )
    def begin(self, retention_bytes: int, linger_ms: int, *, is_paging: bool) -> None:
        patch = self._patch
        for module, name in (
            (moving, "_PER_STEP"),
            (holding, "CANCELLED_AT_ONCE"),
            (holding, "MADE_DUE_AT_ONCE"),
        ):
            patch.setattr(module, name, 1)
        patch.setattr(QueueBooks, "settle", self._noting_settled(QueueBooks.settle))
        patch.setattr(Queue, "_finish_dropped", self._noting_dead(Queue._finish_dropped))
        super().begin(retention_bytes, linger_ms, is_paging=is_paging)
        machine = self.machine
        machine.declare(LATE, x_hold_on_publish=True)
        machine.vhost.declare_exchange(
            EXCHANGE,
            "direct",
            is_durable=True,
            is_auto_delete=False,
            is_internal=False,
            arguments={},
        )
        for key, targets in BOUND.items():
            for target in targets:
                machine.vhost.bind(EXCHANGE, "queue", machine.vhost.queues[target], key, {})

    def _start(self) -> None:
        if hasattr(self, "machine"):
            self.now_ms = max(self.now_ms, self.machine.timers.clock.now_ms)
        super()._start()
        machine = self.machine
        context = SimpleNamespace(
            vhosts={machine.vhost.name: machine.vhost},
            shares=Shares(machine.turn, machine.timers.clock),
            clock=machine.timers.clock,
            report=forget_report,
        )
        self.policies = Policies(cast("Context", context), Changes(self.definitions.administration))
        self.policies.attach(machine.vhost)

    # ---------------------------------------------------------------------- the books

    def _noting_settled(self, settle: Callable[..., None]) -> Callable[..., None]:
        def noting(queue: Queue, entry: QueueEntry) -> None:
            self.expected[queue.name, number_of(entry.message)] -= 1
            settle(queue, entry)

        return noting

    def _noting_dead(self, finish: Callable[..., None]) -> Callable[..., None]:
        def noting(queue: Queue, entries: list[QueueEntry], reason: DeathReason) -> None:
            letters = queue.dead_letters
            for entry in entries:
                number = number_of(entry.message)
                self.expected[queue.name, number] -= 1
                if letters is not None and letters.wants(reason):
                    self.expected[DEAD, number] += 1
            finish(queue, entries, reason)

        return noting

    def _publish(self, name: str, size: int, *, is_persistent: bool = True) -> None:
        super()._publish(name, size, is_persistent=is_persistent)
        self._note_taken()

    def _note_taken(self) -> None:
        for queue in self.machine.takers:
            self.expected[queue.name, self.number] += 1

    def entries(self, queue: Queue) -> list[QueueEntry]:
        """Everything in a queue: ready, held, and with its consumers."""
        entries = queue.lane.ready_entries()
        if queue.hold is not None:
            entries = entries + queue.hold.entries()
        for consumer in self.machine.consumers:
            if consumer.queue is queue:
                entries = entries + consumer.unacked
        return entries

    def contents(self) -> Counter[Place]:
        return Counter(
            (queue.name, number_of(entry.message))
            for queue in self.machine.vhost.queues.values()
            for entry in self.entries(queue)
        )

    @invariant()
    def nothing_is_lost_and_nothing_is_doubled(self) -> None:
        if self.machine.turn.is_armed:
            return
        contents, expected = self.contents(), +self.expected
        assert contents == expected, (contents - expected, expected - contents)
        assert min(self.expected.values(), default=0) >= 0

    @invariant()
    def limits_in_force_hold(self) -> None:
        if self.machine.turn.is_armed:
            return
        vhost = self.machine.vhost
        for queue in vhost.queues.values():
            in_force = vhost.live_arguments.in_force(queue)
            if in_force.overflow in (None, "drop-head"):
                if in_force.max_length is not None:
                    assert queue.ready_count <= in_force.max_length
                if in_force.max_length_bytes is not None:
                    assert queue.ready_bytes <= in_force.max_length_bytes

    @invariant()
    def a_paused_queue_delivers_nothing(self) -> None:
        for name in self.paused:
            queue = self.machine.vhost.queues[name]
            assert queue.is_paused
            assert queue.delivered_count <= self.delivered_before[name]

    # ----------------------------------------------------------- what clients do, too

    @rule(name=names)
    def purge(self, name: str) -> None:
        queue = self.machine.vhost.queues[name]
        held = [] if queue.hold is None else queue.hold.entries()
        gone = [number_of(each.message) for each in queue.lane.ready_entries() + held]
        assert queue.purge() == len(gone)
        self.expected.subtract((name, number) for number in gone)

    def delete_and_declare(self, name: str) -> None:
        """Not a rule here: the machine's other model has it."""

    @rule(delay_ms=st.sampled_from((50, 200, 5_000)), count=counts)
    def publish_late(self, delay_ms: int, count: int) -> None:
        for _ in range(count):
            self.number += 1
            self.machine.publish(
                "",
                LATE,
                b"%d|" % self.number,
                delivery_mode=2,
                headers=Table({"x-delay": delay_ms, "key": "abc"[self.number % 3]}),
            )
            self._note_taken()

    @rule(milliseconds=st.sampled_from((10, 100, 300)))
    def time_passes(self, milliseconds: int) -> None:
        self.machine.timers.advance(milliseconds)

    # -------------------------------------------------------------- what operators do

    @rule(name=alls, backwards=st.booleans(), count=st.integers(1, 4))
    def browse(self, name: str, backwards: bool, count: int) -> None:
        """By pages; nothing is different afterwards."""
        queue = self.machine.vhost.queues[name]
        before = self._facts(queue)
        shown: list[int] = []
        position: str | None = None
        while True:
            page = BrowsedPage()
            for _ in browse(
                queue,
                page,
                count=count,
                position=position,
                is_backwards=backwards,
                max_bytes=1 << 20,
            ):
                continue
            shown += [number_of(cast("Message", each.message)) for each in page.found]
            position = page.position
            if position is None:
                break
        ready = [number_of(entry.message) for entry in queue.lane.ready_entries()]
        assert shown == (ready[::-1] if backwards else ready)
        assert self._facts(queue) == before

    def _facts(self, queue: Queue) -> list[tuple[int, int, int]]:
        return [
            (entry.offset, entry.delivery_count, entry.state) for entry in self.entries(queue)
        ] + [(queue.delivered_count, queue.settled_count, queue.next_offset)]

    @precondition(lambda self: len(self.running) < OPERATIONS_MAX)
    @rule(
        source=alls,
        to_name=st.sampled_from((*QUEUES, LATE, EXCHANGE, EXCHANGE)),
        selection=selections,
        is_copy=st.booleans(),
        fresh=counts,
        steps=steps,
    )
    def move_or_copy(
        self,
        source: str,
        to_name: str,
        selection: Chosen,
        is_copy: bool,
        fresh: int,
        steps: int,
    ) -> None:
        if to_name == source:
            return
        vhost = self.machine.vhost
        queue, outcome = self._filled(source, fresh), Outcome()
        to: Target
        goes_to: Callable[[Standing], tuple[str, ...]] = _by_exchange
        if to_name == EXCHANGE:
            to = ExchangeTarget(vhost, vhost.exchange(EXCHANGE), None, queue)
        else:
            to = QueueTarget(vhost, vhost.queues[to_name], queue)
            goes_to = _always(to_name)
        moves = transfer(queue, to, self._selection(queue, selection), outcome, is_copy=is_copy)
        self._begin(Running(queue, moves, outcome, goes_to, is_copy), steps)

    @precondition(lambda self: len(self.running) < OPERATIONS_MAX)
    @rule(source=alls, selection=selections, fresh=counts, steps=steps)
    def delete_some(self, source: str, selection: Chosen, fresh: int, steps: int) -> None:
        queue, outcome = self._filled(source, fresh), Outcome()
        deletes = delete(queue, self._selection(queue, selection), outcome)
        self._begin(Running(queue, deletes, outcome, _nowhere, False), steps)

    @precondition(lambda self: len(self.running) < OPERATIONS_MAX)
    @rule(
        source=st.sampled_from((DEAD, DEAD, "line", "work")),
        selection=selections,
        dying=counts,
        steps=steps,
    )
    def retry(self, source: str, selection: Chosen, dying: int, steps: int) -> None:
        vhost = self.machine.vhost
        work = self._filled("work", dying)
        got = [entry for _ in range(dying) if (entry := work.get())]
        for entry in got:
            self.machine.put_out(work, entry)
        work.reject(got)
        self.machine.finish_turn()  # dead letters are there at its end
        queue, outcome = vhost.queues[source], Outcome()
        to = OriginTarget(vhost, queue, lambda *_: True)
        moves = transfer(queue, to, self._selection(queue, selection), outcome)
        self._begin(Running(queue, moves, outcome, _to_origin, False), steps)

    def _filled(self, name: str, count: int) -> Queue:
        """The queue, with as many new messages, where it takes them."""
        for _ in range(count):
            self._publish(name, 100)
        return self.machine.vhost.queues[name]

    def _selection(self, queue: Queue, chosen: Chosen) -> Selection:
        which, selector, limit = chosen
        offsets = _chosen(which, [entry.offset for entry in self.entries(queue)])
        return Selection(offsets, selector, limit)

    @rule(name=alls, limit=counts)
    def purge_first(self, name: str, limit: int) -> None:
        queue, outcome = self.machine.vhost.queues[name], Outcome()
        deletes = delete(queue, Selection(limit=limit), outcome)
        ready = queue.ready_count
        running = Running(queue, deletes, outcome, _nowhere, False)
        self._begin(running, 1)
        while running in self.running:
            self._step(running)
        assert outcome.done == min(limit, ready)

    @rule(
        fires=st.booleans(),
        which=st.none() | st.sets(st.integers(0, 5), min_size=1),
        steps=steps,
    )
    def end_hold(self, fires: bool, which: set[int] | None, steps: int) -> None:
        """Held messages become ready now, or are cancelled."""
        self.publish_late(5_000, 2)
        queue, outcome = self.machine.vhost.queues[LATE], Outcome()
        held = [] if queue.hold is None else [entry.offset for entry in queue.hold.entries()]
        end = make_held_due if fires else cancel_held
        goes_to = _always(LATE) if fires else _nowhere
        ends = end(queue, _chosen(which, held), outcome)
        self._begin(Running(queue, ends, outcome, goes_to, False), steps)

    @precondition(lambda self: self.running)
    @rule(which=seeds, steps=st.integers(1, 10))
    def go_on(self, which: int, steps: int) -> None:
        self.running.insert(0, self.running.pop(which % len(self.running)))
        self._take_steps(steps)

    def _begin(self, running: Running, steps: int) -> None:
        self.running.insert(0, running)
        self._take_steps(steps)

    def _take_steps(self, count: int) -> None:
        for _ in range(count):
            if self.running:
                self._step(self.running[0])

    def _step(self, running: Running) -> None:
        """The next bit of an operation, and what follows from its outcome."""
        queue = running.queue
        standing = {
            entry.offset: Standing(
                number_of(entry.message),
                entry.message.address.routing_key,
                cast("str | None", entry.message.header("x-first-death-queue")),
            )
            for entry in self.entries(queue)
        }
        try:
            next(running.steps)
        except StopIteration:
            self.running.remove(running)
        outcome = running.outcome
        done, running.seen = outcome.offsets[running.seen :], len(outcome.offsets)
        for offset in done:
            message = standing[offset]
            if not running.stays:
                self.expected[queue.name, message.number] -= 1
            for target in running.goes_to(message):
                self.expected[target, message.number] += 1

    @rule(name=alls)
    def pause_or_resume(self, name: str) -> None:
        queue = self.machine.vhost.queues[name]
        is_to_pause = name not in self.paused
        self.machine.vhost.live_arguments.set_paused(queue, paused=is_to_pause)
        if is_to_pause:
            self.paused.add(name)
            self.delivered_before[name] = queue.delivered_count
        else:
            self.paused.remove(name)

    @rule(name=lives, changes=st.sampled_from(CHANGES))
    def change(self, name: str, changes: dict[str, Any]) -> None:
        live = self.machine.vhost.live_arguments
        queue = self.machine.vhost.queues[name]
        before = live.in_force(queue)
        try:
            live.change(queue, changes)
        except PreconditionFailed:
            assert live.in_force(queue) == before
        self._settle_limits()

    @rule(
        name=st.sampled_from("ab"),
        pattern=st.sampled_from(PATTERNS),
        definition=st.sampled_from(DEFINITIONS),
        priority=st.integers(0, 1),
    )
    def put_policy(
        self, name: str, pattern: str, definition: dict[str, Any], priority: int
    ) -> None:
        self.policies.put(
            "/", name, pattern=pattern, definition=definition, priority=priority, apply_to="queues"
        )
        self._settle_limits()

    @rule(pattern=st.sampled_from(PATTERNS), length=st.integers(0, 4))
    def put_operator_policy(self, pattern: str, length: int) -> None:
        definition = {"max-length": length}
        self.policies.put("/", "o", pattern=pattern, definition=definition, is_operator=True)
        self._settle_limits()

    @rule(which=seeds)
    def delete_policy(self, which: int) -> None:
        there = self._all_policies()
        if there:
            chosen = there[which % len(there)]
            self.policies.delete("/", chosen.name, is_operator=chosen.is_operator)
        self._settle_limits()

    def _all_policies(self) -> list[PolicyRecord]:
        return [*self.policies.all(is_operator=False), *self.policies.all(is_operator=True)]

    def _settle_limits(self) -> None:
        """Definitions are on disk at once: what a lower limit drops is to be there too, or else a
        recovery drops it again and the witness finds less than any batch had."""
        self.machine.settle_down()

    # ------------------------------------------------------------------- what ends it

    @rule(seed=seeds, keeps=st.booleans(), further_crash_after=st.integers(0, 20))
    def crash(self, seed: int, keeps: bool, further_crash_after: int) -> None:
        self.running.clear()
        if self._all_policies():  # a life in between may drop what is above their limits
            further_crash_after = 0
        super().crash(seed, keeps, further_crash_after)
        self._begin_life()

    @rule()
    def kill(self) -> None:
        self.running.clear()
        super().kill()
        self._begin_life()

    @rule()
    def stop(self) -> None:
        """In the middle of operations, as any end."""
        self.running.clear()
        super().stop()
        self._begin_life()

    def _begin_life(self) -> None:
        """What is there, the witness has recognised."""
        vhost = self.machine.vhost
        self.expected = self.contents()
        paused = {queue.name for queue in vhost.queues.values() if queue.is_paused}
        assert paused == self.paused, "pauses are kept"
        for name in paused:
            self.delivered_before[name] = vhost.queues[name].delivered_count


def number_of(message: Message) -> int:
    """Which publish it is."""
    return int(message.body.split(b"|")[0])


def _chosen(which: set[int] | None, offsets: list[int]) -> frozenset[int] | None:
    """Some of these offsets, and one that never was; None: all are meant."""
    if which is None:
        return None
    return frozenset([offsets[each] for each in which if each < len(offsets)] + [1 << 40])


def _nowhere(_message: Standing) -> tuple[str, ...]:
    return ()


def _always(name: str) -> Callable[[Standing], tuple[str, ...]]:
    return lambda _message: (name,)


def _by_exchange(message: Standing) -> tuple[str, ...]:
    return BOUND[message.routing_key]


def _to_origin(message: Standing) -> tuple[str, ...]:
    assert message.origin is not None
    return (message.origin,)


TestOperatedLives = OperatedLives.TestCase
TestOperatedLives.settings = settings(max_examples=examples(0.3), stateful_step_count=50)
TestOperatedLives = pytest.mark.pure("replaces methods of a compiled class")(TestOperatedLives)
