"""A broker without sockets on a disk that forgets, and what must be left when its power goes.

``Machine`` is a virtual host over a ``DurableStore`` whose disk and thread are stepped by hand.
``Witness`` writes down what the queues hold at the end of each batch, as plain dictionaries. A
batch is atomic and batches are in order, so after a crash the queues must hold exactly what they
held at the end of some batch, and none before the last that the store has called durable.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from hareline.broker.vhost import VirtualHost
from hareline.clock import ManualClock
from hareline.message import TRANSIENT, UNWRITTEN, Message
from hareline.queues.core.entry import HELD, UNCOUNTED, QueueEntry
from hareline.queues.core.kinds import TAKEN
from hareline.queues.queue import Queue
from hareline.server.known_queues import known_queues
from hareline.server.restore import VhostRecovery
from hareline.storage.definitions.sqlite import SqliteDefinitions
from hareline.storage.journal.damage import Decision
from hareline.storage.journal.syncer import InlineSyncer
from hareline.storage.journal.writer import Sync
from hareline.storage.recovery.read_journal import JournalRecovery
from hareline.storage.recovery.reports import RecoveryListener, RecoveryProgress
from hareline.storage.store.durable import DurableStore
from tests.crash.forgetful_files import ForgetfulFiles, Operation
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.timers import ManualTimers
from tests.support.turns import ManualTurn
from tests.support.vhosts import forget_report

JOURNAL: Final = "/data/journal"
SPOOL: Final = "/data/spool"
SEGMENT_BYTES: Final = 16_384
VHOST: Final = "/"

Kept = dict[int, tuple[tuple[Any, ...], int]]  # offset to (what the message is, delivery count)
State = dict[int, Kept]  # by queue id


class Unexpected(AssertionError):
    """What came back is not what was there."""


class Listener(RecoveryListener):
    """Nothing may be damaged after a crash: whatever it leaves is a torn tail."""

    __slots__ = ()

    def on_progress(self, done: int, all_work: int) -> None:
        assert done <= all_work, (done, all_work)

    def on_damage(self, problem: str, action: str) -> None:
        raise Unexpected(f"damage after a crash: {problem}")

    def on_impossible(self, vhost: str, what: str, problem: str) -> None:
        raise Unexpected(f"{what}: {problem}")


class SocketConsumer(RecordingConsumer):
    """Knows what went out to its client: nothing does before the store has said so."""

    def __init__(self, machine: Machine, queue: Queue, prefetch_count: int) -> None:
        super().__init__(queue, prefetch_count=prefetch_count)
        self._machine = machine

    def deliver(self, entries: list[QueueEntry]) -> int:
        count = super().deliver(entries)
        for entry in entries[:count]:
            assert isinstance(self.queue, Queue)
            self._machine.put_out(self.queue, entry)
        return count


class Options(NamedTuple):
    sync: Sync = "always"
    segment_bytes: int = SEGMENT_BYTES
    retention_bytes: int = 0
    linger_ms: int = 0


class Machine:
    """``sent``: (queue id, offset) of what a client may have got in this life of the broker.

    ``delivering``: ids of queues from which anything was delivered in it. ``takers``: the queues
    that took the last publish.
    """

    def __init__(
        self,
        files: ForgetfulFiles,
        definitions: SqliteDefinitions,
        options: Options | None = None,
        now_ms: int = 1_700_000_000_000,
    ) -> None:
        self.files = files
        self.definitions = definitions
        self.options = options or Options()
        self.timers = ManualTimers(ManualClock(now_ms))
        self.turn = ManualTurn()
        self.syncer = InlineSyncer()
        self.alarms: list[bool] = []
        self.failures: list[str] = []
        self.reports: list[str] = []
        self.store = self._make_store()
        self.turn.write_pending = self.store.write_pending
        self.store.ask_for_turn = self.turn.arm
        self.vhost = VirtualHost(
            VHOST,
            self.turn,
            clock=self.timers.clock,
            timers=self.timers,
            report=forget_report,
            store=self.store,
            definitions=definitions,
        )
        self.on_step: Callable[[], None] = _nobody_looks
        self.takers: list[Queue] = []
        self.consumers: list[SocketConsumer] = []
        self.sent: set[tuple[int, int]] = set()
        self.delivering: set[int] = set()
        self._held_output: list[tuple[int, int, int]] = []
        self._recover()

    def _make_store(self) -> DurableStore:
        return DurableStore(
            JOURNAL,
            SPOOL,
            files=self.files,
            syncer=self.syncer,
            segment_bytes=self.options.segment_bytes,
            sync=self.options.sync,
            retention_bytes=self.options.retention_bytes,
            linger_ms=self.options.linger_ms,
            on_disk_full=self.alarms.append,
            on_failure=self.failures.append,
            on_segment=self._note_segment,
            report=self.reports.append,
            now_ms=lambda: self.timers.clock.now_ms,
        )

    def _note_segment(self, number: int) -> None:
        self.files.noted_segment = number

    def _recover(self) -> None:
        queues = known_queues(self.definitions)
        listener = Listener()
        progress = RecoveryProgress(listener.on_progress)
        recovery = JournalRecovery(
            self.files,
            JOURNAL,
            queues,
            Decision.FAIL,
            listener,
            progress,
            self.files.noted_segment,
        )
        for _ in recovery.read():
            continue
        next_offsets = {each: queue.next_offset for each, queue in recovery.state.queues.items()}
        self.store.start(recovery.state)
        assert self.store.content_store is not None
        restored = VhostRecovery(
            self.vhost,
            self.definitions,
            next_offsets,
            recovery.contents,
            self.store.content_store,
            listener,
            progress,
        )
        restored.restore_exchanges()
        restored.restore_queues()
        restored.restore_bindings()
        for _ in restored.restore_messages():
            continue

    # ------------------------------------------------------------------ doing things

    def declare(self, name: str, **arguments: Any) -> Queue:
        """``arguments``: those of the queue, with _ for -."""
        return self.vhost.declare_queue(
            name,
            is_durable=True,
            is_auto_delete=False,
            is_server_named=False,
            owner=None,
            arguments={key.replace("_", "-"): value for key, value in arguments.items()},
        )

    def publish(self, exchange: str, routing_key: str, body: bytes, **properties: Any) -> Message:
        """One persistent message, routed as a client's would be."""
        message = make_message(body, exchange=exchange, routing_key=routing_key, **properties)
        if properties.get("delivery_mode", 2) == 2:
            message.position = UNWRITTEN
        if "expiration" in properties:
            message = message.expiring_at(message.arrival_ms + int(properties["expiration"]))
        source = self.vhost.exchange(exchange)
        queues, _, _ = self.vhost.routing.route(source, [routing_key], message)
        self.takers = [queue for queue in queues if _takes(queue, message)]
        return message

    def consume(self, name: str, prefetch_count: int = 0) -> SocketConsumer:
        queue = self.vhost.queues[name]
        consumer = SocketConsumer(self, queue, prefetch_count)
        self.consumers.append(consumer)
        queue.add_consumer(consumer)
        return consumer

    def cancel(self, consumer: SocketConsumer) -> None:
        """Its connection goes: what it has comes back."""
        self.consumers.remove(consumer)
        if not consumer.is_cancelled:
            consumer.queue.remove_consumer(consumer)
            consumer.release()

    def reject(self, consumer: SocketConsumer, count: int) -> None:
        for entry in consumer.take_unacked(count):
            consumer.queue.reject([entry])
            consumer.restore_credit(entry.message.size)

    def put_out(self, queue: Queue, entry: QueueEntry) -> None:
        """A delivery is in a connection's output, as in ``amqp.consuming``."""
        queue_id = self.vhost.queue_ids[queue.name]
        assert queue.ledger is not None
        self.delivering.add(queue_id)
        self._held_output.append((queue.ledger.deliver_ticket, queue_id, entry.offset))
        self._write_out()

    def _write_out(self) -> None:
        """What need not wait any more goes to the sockets."""
        durable_ticket = self.store.durable_ticket
        held = []
        for ticket, queue_id, offset in self._held_output:
            if ticket <= durable_ticket:
                self.sent.add((queue_id, offset))
            else:
                held.append((ticket, queue_id, offset))
        self._held_output = held

    def finish_turn(self) -> None:
        while self.turn.is_armed:
            self.turn.step()
            self.on_step()
        self._write_out()

    def step_disk(self) -> bool:
        """The thread does its next piece of work, and the loop hears of it."""
        is_done = self.syncer.step()
        self.on_step()
        self._write_out()
        return is_done

    def settle_down(self) -> None:
        """Turns and the disk, until there is nothing more to do now."""
        self.finish_turn()
        while any(delay_s == 0.0 for delay_s, _ in self.syncer.submitted):
            self.step_disk()
            self.finish_turn()

    def retry(self) -> None:
        """Time goes by: what the store has put off is tried again."""
        for _ in list(self.syncer.submitted):
            self.step_disk()
        self.settle_down()

    def stop(self) -> None:
        """In good order."""
        for consumer in list(self.consumers):
            self.cancel(consumer)
        self.finish_turn()
        self.store.close()

    # ------------------------------------------------------------------------ looking

    def state(self) -> State:
        """What the durable queues hold that is to survive."""
        state: State = {}
        for name, queue_id in self.vhost.queue_ids.items():
            queue = self.vhost.queues[name]
            entries = queue.lane.ready_entries()
            if queue.hold is not None:
                entries = entries + [each for *_, each in queue.hold._heap if each.state == HELD]
            for consumer in self.consumers:
                if consumer.queue is queue:
                    entries = entries + consumer.unacked
            if queue.last_values is not None:
                entries = without_stale_values(entries, str(queue.arguments["x-last-value-key"]))
            state[queue_id] = {
                entry.offset: (what_it_is(entry.message), entry.delivery_count)
                for entry in entries
                if entry.message.position != TRANSIENT
            }
        return state


def without_stale_values(entries: list[QueueEntry], key: str) -> list[QueueEntry]:
    """Those that go when they come back, since there is a newer value, are as good as gone."""
    entries = sorted(entries, key=lambda entry: entry.offset)
    return list({entry.message.header(key): entry for entry in entries}.values())


def _takes(queue: Queue, message: Message) -> bool:
    if queue.needs_admission or message.expires_at_ms:
        return queue.put(message) == TAKEN
    queue.enqueue(message)
    return True


def _nobody_looks() -> None:
    """A machine without a witness."""


def what_it_is(message: Message) -> tuple[Any, ...]:
    """Everything of a message that must come back as it was."""
    return (
        message.body,
        message.property_octets,
        message.address.octets,
        message.address.blind_keys,
        message.arrival_ms,
        message.expires_at_ms,
        message.history_size,
        message.is_from_default,
        message.size,
    )


class Witness:
    """``snapshots``: what was there at the end of each batch, by its ticket.

    The store begins a new batch only in ``Machine.finish_turn`` and ``Machine.step_disk``, as the
    last thing they do to the queues; so what is there after such a step is what the batch has.
    ``highest``: by ticket, the highest offset of each queue that any batch so far has had.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        state = machine.state()
        tickets = range(machine.store.durable_ticket, machine.store.ticket)
        self.snapshots: dict[int, State] = dict.fromkeys(tickets, state)
        self.highest = dict.fromkeys(tickets, _highest({}, state))
        self._last_ticket = tickets[-1]
        self._next_ticket = machine.store.ticket
        machine.on_step = self.look

    def look(self) -> None:
        ticket = self.machine.store.ticket
        if ticket == self._next_ticket:
            return
        state = self.machine.state()
        highest = _highest(self.highest[self._last_ticket], state)
        for number in range(self._next_ticket, ticket):
            self.snapshots[number] = state
            self.highest[number] = highest
            self._last_ticket = number
        self._next_ticket = ticket

    def check(self, recovered: Machine) -> None:
        """Raises Unexpected unless this is what a crash may have left."""
        state = recovered.state()
        durable_ticket = self.machine.store.durable_ticket
        problems: list[str] = []
        for ticket, expected in self.snapshots.items():
            if ticket < durable_ticket:
                continue
            problem = self._difference(ticket, expected, state, recovered)
            if not problem:
                return
            problems.append(f"batch {ticket}: {problem}")
        raise Unexpected(
            f"batch {durable_ticket} is durable, {self.machine.store.ticket} gathers; none is what "
            f"was recovered:\n" + "\n".join(problems)
        )

    def _difference(self, ticket: int, expected: State, state: State, recovered: Machine) -> str:
        for name, queue_id in recovered.vhost.queue_ids.items():
            before, after = expected.get(queue_id, {}), state[queue_id]
            if before.keys() != after.keys():
                lost = sorted(before.keys() - after.keys())
                returned = sorted(after.keys() - before.keys())
                return f"queue {name!r}: lost {lost}, returned {returned}"
            for offset, (what, count) in before.items():
                what_after, count_after = after[offset]
                if what_after != what:
                    return f"queue {name!r}, {offset}: {what_after} instead of {what}"
                problem = self._flag_problem(queue_id, offset, count, count_after)
                if problem:
                    return f"queue {name!r}, {offset}: {problem}"
            queue = recovered.vhost.queues[name]
            ready = [entry.offset for entry in queue.lane.ready_entries()]
            if ready != _in_order(queue):
                return f"queue {name!r} is not in its order: {ready}"
            if queue.next_offset <= self.highest[ticket].get(queue_id, -1):
                return f"queue {name!r} would use offset {queue.next_offset} again"
        return ""

    def _flag_problem(self, queue_id: int, offset: int, before: int, after: int) -> str:
        if after == before and (before or (queue_id, offset) not in self.machine.sent):
            return ""
        if before == 0 and after == 1 | UNCOUNTED and queue_id in self.machine.delivering:
            return ""
        was_sent = (queue_id, offset) in self.machine.sent
        return f"delivery count {after}, was {before}, {'sent' if was_sent else 'never sent'}"


def _highest(so_far: dict[int, int], state: State) -> dict[int, int]:
    highest = dict(so_far)
    for queue_id, kept in state.items():
        highest[queue_id] = max([highest.get(queue_id, -1), *kept])
    return highest


def _in_order(queue: Queue) -> list[int]:
    """The offsets of its ready entries, as its arguments say they are to come."""
    entries = sorted(queue.lane.ready_entries(), key=lambda entry: entry.offset)
    if "x-max-priority" in queue.arguments:
        highest = int(str(queue.arguments["x-max-priority"]))
        entries.sort(key=lambda entry: -min(entry.message.priority or 0, highest))
    elif "x-sort-key" in queue.arguments:
        name = str(queue.arguments["x-sort-key"])
        entries.sort(key=lambda entry: str(entry.message.header(name)))
    return [entry.offset for entry in entries]


class WatchedFiles(ForgetfulFiles):
    """``on_operation`` is called when something has changed, and may look at a ``clone``."""

    __slots__ = ("on_operation",)

    def __init__(self, *, limit_bytes: int | None = None) -> None:
        super().__init__(limit_bytes=limit_bytes)
        self.on_operation: Callable[[Operation], None] | None = None

    def _do(self, operation: Operation, change: Callable[[], object], grows: int = 0) -> None:
        super()._do(operation, change, grows)
        if self.on_operation is not None:
            self.on_operation(operation)

    def clone(self, keep: Random | None) -> ForgetfulFiles:
        """The same disk after its power went right now."""
        twin = self.clone_running()
        twin.crash(keep)
        return twin

    def clone_running(self) -> ForgetfulFiles:
        """The same disk after the broker was killed right now: the system still knows all of it."""
        twin = ForgetfulFiles(limit_bytes=self.limit_bytes)
        twin._directories = copy.deepcopy(self._directories)
        twin.noted_segment = self.noted_segment
        return twin
