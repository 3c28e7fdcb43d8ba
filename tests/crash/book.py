"""What a broker that was killed must still have, may have, and must not have any more.

The harness tells the book whatever its clients sent and received; after each restart everything
the queues hold is held against it. The book believes only what the broker said: a publish counts
from its confirm on, an acknowledgement from the moment a confirm came for something that the
broker cannot have read before it.

Terms: a ``Sent`` message has one ``Copy`` in each queue it went to; an ``Undivided`` is a publish,
or a transaction, of which a crash leaves all or nothing.

Invariant: every check that fails raises ``BrokenPromise`` with the message, the queue, and what the
client knew of it.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, Final

from pamqp import commands

# How far the end (ack or reject) of a copy has come.
OPEN: Final = "open"
ENDING: Final = "ending"  # we asked for it
ENDED: Final = "ended"  # it is durable, or a restart has shown that it is gone


class BrokenPromise(AssertionError):
    """The broker lost, repeated, reordered or changed something that it may not."""


@dataclass(frozen=True, slots=True)
class QueueKind:
    """``chain``: the names of the queues that reject into one another, this one among them.

    ``keeps_order``: messages of one publisher and one rank come in the order of their publishes.
    ``replaces``: a last value queue.
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    chain: tuple[str, ...] = ()
    keeps_order: bool = True
    replaces: bool = False

    @property
    def deaths(self) -> int:
        """How often a message that is here was rejected before."""
        return self.chain.index(self.name) if self.chain else 0


class Sent:
    """One publish. ``rank`` is what its queues order by, ``value_key`` what they replace by."""

    __slots__ = (
        "body",
        "connection",
        "copies",
        "exchange",
        "number",
        "properties",
        "publisher",
        "rank",
        "routing_key",
        "sent_at",
        "undivided",
        "value_key",
    )

    def __init__(
        self,
        publisher: int,
        number: int,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: commands.Basic.Properties,
    ) -> None:
        self.publisher = publisher
        self.number = number
        self.exchange = exchange
        self.routing_key = routing_key
        self.body = body
        self.properties = properties
        self.rank: Any = 0
        self.value_key = ""
        self.connection = 0
        self.sent_at = 0
        self.copies: list[Copy] = []
        self.undivided = Undivided()

    @property
    def name(self) -> str:
        return f"{self.publisher}.{self.number}"

    def __repr__(self) -> str:
        state = "confirmed" if self.undivided.is_confirmed else "not confirmed"
        return f"message {self.name} of {len(self.body)} octets, {state}"


class Copy:
    """A message in one queue.

    ``place``: its place among what an earlier audit found there, -1 for none. ``is_exposed``: it
    may have been on its way to a consumer. ``is_accepted``: its end is an ack and no reject.
    ``held_by``: the connection that has it unacknowledged.
    """

    __slots__ = (
        "end",
        "end_at",
        "end_by",
        "end_life",
        "held_by",
        "is_accepted",
        "is_exposed",
        "place",
        "queue",
        "received",
        "sent",
    )

    def __init__(self, sent: Sent, queue: QueueKind, *, is_exposed: bool) -> None:
        self.sent = sent
        self.queue = queue
        self.is_exposed = is_exposed
        self.forget()

    def forget(self) -> None:
        """As if it had never been in the queue."""
        self.received = 0
        self.end = OPEN
        self.end_at = 0
        self.end_by = 0
        self.end_life = 0
        self.is_accepted = False
        self.held_by = 0
        self.place = -1

    def __repr__(self) -> str:
        text = f"{self.sent!r}, in queue {self.queue.name!r}: received {self.received} times"
        return text if self.end == OPEN else f"{text}, its end is {self.end}"


class Undivided:
    """Publishes and ends of which a crash leaves all or nothing."""

    __slots__ = ("ends", "is_confirmed", "publishes")

    def __init__(self) -> None:
        self.publishes: list[Sent] = []
        self.ends: list[Copy] = []
        self.is_confirmed = False


@dataclass(slots=True)
class Receiver:
    """One consumer or basic.get channel: what it saw last of each publisher and rank."""

    connection: int
    is_browser: bool = False
    last: dict[tuple[str, int, Any], int] = field(default_factory=dict)


class Book:
    """``now`` counts what happened, so that before and after can be told apart."""

    def __init__(self, queues: list[QueueKind]) -> None:
        self.queues = {queue.name: queue for queue in queues}
        self.life = 0
        self.now = 0
        self.confirmed_count = 0
        self.received_count = 0
        self.ended_count = 0
        self._messages: dict[str, Sent] = {}
        self._undivided: list[Undivided] = []
        self._exposed: set[str] = set()
        # Ends that were asked for, by connection, and those that the broker has surely read.
        self._ending: dict[int, deque[Copy]] = defaultdict(deque)
        self._read: deque[tuple[int, Copy]] = deque()

    # ---------------------------------------------------------------- publishing

    def publish(self, sent: Sent, queues: list[str], connection: int) -> None:
        """It goes out now, alone."""
        self._register(sent, queues, connection)
        sent.undivided.publishes.append(sent)
        self._undivided.append(sent.undivided)

    def begin(self) -> Undivided:
        """A transaction."""
        undivided = Undivided()
        self._undivided.append(undivided)
        return undivided

    def publish_within(
        self, undivided: Undivided, sent: Sent, queues: list[str], connection: int
    ) -> None:
        self._register(sent, queues, connection)
        sent.undivided = undivided
        undivided.publishes.append(sent)

    def withdraw(self, undivided: Undivided) -> None:
        """Rolled back before anything was sent for good: nobody may ever see it."""
        for sent in undivided.publishes:
            for copy in sent.copies:
                copy.end = ENDED
        self._undivided.remove(undivided)

    def accept_within(self, undivided: Undivided, copy: Copy, connection: int) -> None:
        """Acknowledged in a transaction, whose commit goes out in the same breath."""
        self._end(copy, connection, is_accepted=True)
        undivided.ends.append(copy)

    def confirm(self, sent: Sent) -> None:
        if not sent.undivided.is_confirmed:
            sent.undivided.is_confirmed = True
            self.confirmed_count += 1
        self._advance(sent.sent_at, sent.connection)

    def confirm_commit(self, undivided: Undivided, committed_at: int, connection: int) -> None:
        """tx.commit-ok for the commit that was sent then."""
        undivided.is_confirmed = True
        self.confirmed_count += len(undivided.publishes)
        for copy in undivided.ends:
            copy.end = ENDED
        self._advance(committed_at, connection)

    def _register(self, sent: Sent, queues: list[str], connection: int) -> None:
        sent.sent_at = self.tick()
        sent.connection = connection
        self._messages[sent.name] = sent
        for name in queues:
            for each in self.queues[name].chain or (name,):
                copy = Copy(sent, self.queues[each], is_exposed=each in self._exposed)
                sent.copies.append(copy)

    def tick(self) -> int:
        self.now += 1
        return self.now

    # ----------------------------------------------------------------- consuming

    def expose(self, queue: str) -> None:
        """Somebody begins to consume from it."""
        self._exposed.add(queue)
        for sent in self._messages.values():
            for copy in sent.copies:
                if copy.queue.name == queue:
                    copy.is_exposed = True

    def receive(
        self,
        queue: str,
        receiver: Receiver,
        method: commands.Basic.Deliver | commands.Basic.GetOk,
        properties: commands.Basic.Properties,
        body: bytes,
    ) -> Copy:
        """A delivery has come; returns what it is. Raises BrokenPromise."""
        copy = self._find(queue, properties)
        sent = copy.sent
        if body != sent.body:
            raise BrokenPromise(f"the body came back changed: {copy}")
        _check_properties(copy, method, properties)
        is_redelivered = bool(method.redelivered)
        self._check_return(copy)
        if copy.received and not is_redelivered:
            raise BrokenPromise(f"received again without the redelivered flag: {copy}")
        if is_redelivered and not copy.is_exposed:
            raise BrokenPromise(f"redelivered, though nobody ever consumed: {copy}")
        if not is_redelivered:
            self._check_sequence(copy, receiver)
        if not receiver.is_browser:
            copy.received += 1
            copy.is_exposed = True
            copy.end = OPEN
            copy.held_by = receiver.connection
            self.received_count += 1
        return copy

    def _find(self, queue: str, properties: commands.Basic.Properties) -> Copy:
        sent = self._messages.get(properties.message_id or "")
        if sent is None:
            raise BrokenPromise(
                f"queue {queue!r} has message {properties.message_id!r}, never published, or "
                f"one whose end was durable in all its queues"
            )
        for copy in sent.copies:
            if copy.queue.name == queue:
                return copy
        raise BrokenPromise(f"{sent!r} came out of queue {queue!r}, where it was never routed")

    def _check_return(self, copy: Copy) -> None:
        if copy.end == ENDED:
            raise BrokenPromise(f"came back although its end was durable: {copy}")
        if copy.end == ENDING and copy.end_life == self.life and copy.end_by:
            raise BrokenPromise(f"came back although it was acknowledged in this life: {copy}")
        if copy.held_by:
            raise BrokenPromise(f"delivered while another consumer had it: {copy}")

    def _check_sequence(self, copy: Copy, receiver: Receiver) -> None:
        sent = copy.sent
        if not copy.queue.keeps_order:
            return
        key = (copy.queue.name, sent.publisher, sent.rank)
        last = receiver.last.get(key, -1)
        if sent.number <= last:
            raise BrokenPromise(f"first delivered after number {last} of its publisher: {copy}")
        receiver.last[key] = sent.number

    def accept(self, copy: Copy, connection: int) -> None:
        """Acknowledged on this connection."""
        self._end(copy, connection, is_accepted=True)
        self._ending[connection].append(copy)

    def reject(self, copy: Copy, connection: int) -> None:
        """Rejected on this connection, not to be put back: on to the next queue of its chain."""
        self._end(copy, connection, is_accepted=False)
        self._ending[connection].append(copy)

    def _end(self, copy: Copy, connection: int, *, is_accepted: bool) -> None:
        copy.end = ENDING
        copy.is_accepted = is_accepted
        copy.end_at = self.tick()
        copy.end_by = connection
        copy.end_life = self.life
        copy.held_by = 0

    def release(self, copy: Copy) -> None:
        """Given back to the queue."""
        copy.held_by = 0

    def on_round_trip(self, connection: int, asked_at: int) -> None:
        """The broker has answered what was asked here then, so it has read all before."""
        ending = self._ending[connection]
        while ending and ending[0].end_at < asked_at:
            self._read.append((self.tick(), ending.popleft()))

    def disconnect(self, connection: int) -> None:
        """What was said last on it may never have been read, what it held goes back."""
        for copy in self._ending.pop(connection, ()):
            if copy.end == ENDING:
                copy.end_by = 0
        for sent in self._messages.values():
            for copy in sent.copies:
                if copy.held_by == connection:
                    copy.held_by = 0

    def _advance(self, sent_at: int, connection: int) -> None:
        """What was sent then on this connection is durable; so is all that was read before it."""
        ending = self._ending[connection]
        while ending and ending[0].end_at < sent_at:
            self._make_ended(ending.popleft())
        while self._read and self._read[0][0] < sent_at:
            self._make_ended(self._read.popleft()[1])

    def _make_ended(self, copy: Copy) -> None:
        if copy.end == ENDING:
            copy.end = ENDED
            self.ended_count += 1

    # ------------------------------------------------------------------- crashes

    def crash(self) -> None:
        """The broker is gone, and with it all connections."""
        self.life += 1
        self._ending.clear()
        self._read.clear()
        self._exposed.clear()
        for sent in self._messages.values():
            for copy in sent.copies:
                copy.held_by = 0

    def audit(self, found: dict[str, list[Copy]]) -> None:
        """All that the queues had after a restart, in their order; then this is what there is.

        Raises BrokenPromise.
        """
        present: set[int] = set()
        for name, copies in found.items():
            if len(set(map(id, copies))) != len(copies):
                twice = next(copy for copy in copies if copies.count(copy) > 1)
                raise BrokenPromise(f"twice in its queue: {twice}")
            _check_order(self.queues[name], copies)
            present.update(map(id, copies))
        for undivided in self._undivided:
            _check_undivided(undivided, present)
        self._check_values(found)
        self._settle_accounts(found, present)

    def _check_values(self, found: dict[str, list[Copy]]) -> None:
        """Last value queues: one for each key, and none older than what must be there."""
        kept: dict[tuple[str, str], Copy] = {}
        for name, copies in found.items():
            if not self.queues[name].replaces:
                continue
            for copy in copies:
                twin = kept.setdefault((name, copy.sent.value_key), copy)
                if twin is not copy:
                    raise BrokenPromise(f"two values of one key: {twin}, and {copy}")
        values: dict[tuple[str, str], list[Copy]] = defaultdict(list)
        for sent in self._messages.values():
            for copy in sent.copies:
                if copy.queue.replaces:
                    values[copy.queue.name, sent.value_key].append(copy)
        for key, copies in values.items():
            needed = _newest_needed(copies)
            there = kept.get(key)
            if needed is not None and (there is None or there.sent.number < needed.sent.number):
                raise BrokenPromise(f"lost: {needed}; its key has {there}")

    def _settle_accounts(self, found: dict[str, list[Copy]], present: set[int]) -> None:
        """What is there is durable, what is not is gone for good."""
        for copies in found.values():
            for place, copy in enumerate(copies):
                copy.place = place
        self._undivided.clear()
        for name, sent in list(self._messages.items()):
            there = [copy for copy in sent.copies if id(copy) in present]
            if not there:
                del self._messages[name]
                continue
            sent.undivided = Undivided()
            sent.undivided.is_confirmed = True
            sent.undivided.publishes.append(sent)
            self._undivided.append(sent.undivided)
            for copy in sent.copies:
                if id(copy) in present:
                    copy.end = OPEN
                elif _is_yet_to_die(copy, there):
                    copy.forget()
                else:
                    copy.end = ENDED


def _is_yet_to_die(copy: Copy, there: list[Copy]) -> bool:
    """Further down a chain than where the message is now."""
    return any(
        copy.queue.chain == other.queue.chain and copy.queue.deaths > other.queue.deaths
        for other in there
        if other.queue.chain
    )


def _newest_needed(copies: list[Copy]) -> Copy | None:
    """Of the values of one key, published one after the other: this one or a newer is there."""
    for copy in reversed(copies):
        if copy.end != OPEN:
            return None
        if copy.sent.undivided.is_confirmed:
            return copy
    return None


def _check_undivided(undivided: Undivided, present: set[int]) -> None:
    """All of it or nothing; all of it, where it was confirmed."""
    done: list[Copy] = []
    undone: list[Copy] = []
    for sent in undivided.publishes:
        chain = [copy for copy in sent.copies if copy.queue.chain]
        if chain:
            _check_chain(chain, present, done, undone)
        for copy in sent.copies:
            if copy.queue.chain or copy.queue.replaces:
                continue
            if id(copy) in present:
                done.append(copy)
            elif copy.end == OPEN:
                undone.append(copy)
    undone += [copy for copy in undivided.ends if id(copy) in present]
    if undone and undivided.is_confirmed:
        raise BrokenPromise(f"lost: {undone[0]}")
    if undone and done:
        raise BrokenPromise(f"a crash left a part of it: done {done[0]}; undone {undone[0]}")


def _check_chain(
    chain: list[Copy], present: set[int], done: list[Copy], undone: list[Copy]
) -> None:
    """It is in one queue of the chain, and in each before that it was rejected."""
    there = [copy for copy in chain if id(copy) in present]
    if len(there) > 1:
        raise BrokenPromise(f"in two queues of a chain: {there[0]}, and {there[1]}")
    if there:
        done.append(there[0])
        for copy in chain[: chain.index(there[0])]:
            if copy.end == OPEN:
                raise BrokenPromise(f"dead without having been rejected: {copy}")
    elif not any(copy.is_accepted for copy in chain):
        undone.append(next((copy for copy in chain if copy.end == OPEN), chain[-1]))


def _check_order(queue: QueueKind, copies: list[Copy]) -> None:
    if any(earlier.sent.rank > later.sent.rank for earlier, later in itertools.pairwise(copies)):
        ranks = [copy.sent.rank for copy in copies]
        raise BrokenPromise(f"queue {queue.name!r} is not in its order: {ranks}")
    last: dict[tuple[int, Any], Copy] = {}
    last_placed: dict[Any, Copy] = {}
    new: dict[Any, Copy] = {}
    for copy in copies:
        sent = copy.sent
        before = last.get((sent.publisher, sent.rank))
        if queue.keeps_order and before is not None and before.sent.number > sent.number:
            raise BrokenPromise(f"out of order: {before} stands before {copy}")
        last[sent.publisher, sent.rank] = copy
        if copy.place < 0:
            new[sent.rank] = copy
            continue
        if sent.rank in new:
            raise BrokenPromise(f"newer stands before older: {new[sent.rank]}, before {copy}")
        neighbour = last_placed.get(sent.rank)
        if neighbour is not None and neighbour.place > copy.place:
            raise BrokenPromise(f"the order has changed: {neighbour} stands before {copy}")
        last_placed[sent.rank] = copy


def _check_properties(
    copy: Copy,
    method: commands.Basic.Deliver | commands.Basic.GetOk,
    properties: commands.Basic.Properties,
) -> None:
    sent = copy.sent
    deaths = copy.queue.deaths
    expected: dict[str, Any] = dict(sent.properties)
    actual: dict[str, Any] = dict(properties)
    headers = dict(actual.pop("headers", None) or {})
    history = headers.pop("x-death", [])
    for name in [name for name in headers if name.startswith(("x-first-death", "x-last-death"))]:
        del headers[name]
    if headers != dict(expected.pop("headers", None) or {}) or actual != expected:
        raise BrokenPromise(f"the properties came back changed: {copy}: {properties!r}")
    address = (sent.exchange, sent.routing_key) if not deaths else ("", copy.queue.name)
    if (method.exchange, method.routing_key) != address:
        raise BrokenPromise(f"address {method.exchange!r}, {method.routing_key!r}: {copy}")
    places = [(death["queue"], death["reason"], death["count"]) for death in history]
    if places != [(name, "rejected", 1) for name in reversed(copy.queue.chain[:deaths])]:
        raise BrokenPromise(f"x-death is {history!r}: {copy}")
