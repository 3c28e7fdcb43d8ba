"""The clients of the crash harness: each plays one connection and tells the book all it does.

``step`` does what the client wants to do now, ``take`` what it does about what has come; the
harness calls both until the broker is killed. What a client does is drawn from a ``Random`` of its
own, so a story can be told again by its seed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

from pamqp import commands

from tests.crash.book import Book, Copy, Receiver, Sent, Undivided
from tests.crash.peer import Event, Peer

WINDOW_MAX: Final = 500
COMMIT_SIZE: Final = 10
OUTPUT_MAX_OCTETS: Final = 1 << 20
_BURST: Final = 40

# What one publish is: a message that is filled in, and the queues it goes to.
Target = Callable[["Publications", Random], tuple[Sent, list[str]]]


class Publications:
    """Numbers the messages of one publisher; ``publisher`` is one that nobody had before."""

    def __init__(self, publisher: int) -> None:
        self.publisher = publisher
        self.count = 0

    def message(
        self,
        rng: Random,
        exchange: str,
        routing_key: str,
        *,
        size: int,
        **properties: object,
    ) -> Sent:
        """A persistent message whose id says who sent it, with a body of its own."""
        self.count += 1
        values = commands.Basic.Properties(
            content_type="application/octet-stream",
            delivery_mode=2,
            message_id=f"{self.publisher}.{self.count}",
        )
        for name, value in properties.items():
            setattr(values, name, value)
        body = rng.randbytes(size)
        return Sent(self.publisher, self.count, exchange, routing_key, body, values)


class Client(ABC):
    def __init__(self, book: Book, peer: Peer, rng: Random) -> None:
        self.book = book
        self.peer = peer
        self.rng = rng

    @abstractmethod
    def step(self) -> None:
        """Do what is to be done unasked."""

    @abstractmethod
    def take(self, event: Event) -> None:
        """Something has come."""

    def hang_up(self) -> None:
        """The connection is cut without a word."""
        self.peer.drop()
        self.book.disconnect(self.peer.number)


class Publisher(Client):
    """Publishes with confirms, at most ``window`` unconfirmed."""

    def __init__(
        self, book: Book, peer: Peer, rng: Random, targets: list[Target], publisher: int
    ) -> None:
        super().__init__(book, peer, rng)
        self._targets = targets
        self._publications = Publications(publisher)
        self._window = rng.choice((1, 10, 100, WINDOW_MAX))
        self._unconfirmed: deque[tuple[int, Sent]] = deque()
        self._sequence = 0
        peer.select_confirms()

    def step(self) -> None:
        for _ in range(_BURST):
            if len(self._unconfirmed) >= self._window:
                return
            if self.peer.unsent_octets > OUTPUT_MAX_OCTETS:
                return
            sent, queues = self.rng.choice(self._targets)(self._publications, self.rng)
            self.book.publish(sent, queues, self.peer.number)
            self._sequence += 1
            self._unconfirmed.append((self._sequence, sent))
            self.peer.put_publish(sent.exchange, sent.routing_key, sent.properties, sent.body)

    def take(self, event: Event) -> None:
        method = event.method
        assert isinstance(method, commands.Basic.Ack), method
        tag = method.delivery_tag or 0
        assert tag <= self._sequence, f"{tag} is confirmed, {self._sequence} were published"
        if method.multiple:
            while self._unconfirmed and self._unconfirmed[0][0] <= tag:
                self.book.confirm(self._unconfirmed.popleft()[1])
            return
        found = next(pair for pair in self._unconfirmed if pair[0] == tag)
        self._unconfirmed.remove(found)
        self.book.confirm(found[1])


class Committer(Client):
    """Publishes in transactions of ten; some of them it takes back."""

    def __init__(
        self, book: Book, peer: Peer, rng: Random, targets: list[Target], publisher: int
    ) -> None:
        super().__init__(book, peer, rng)
        self._targets = targets
        self._publications = Publications(publisher)
        self._open: Undivided | None = None
        self._committed_at = 0
        peer.call(commands.Tx.Select(), commands.Tx.SelectOk)

    def step(self) -> None:
        if self._open is not None:
            return
        self._open = undivided = self.book.begin()
        for _ in range(COMMIT_SIZE):
            sent, queues = self.rng.choice(self._targets)(self._publications, self.rng)
            self.book.publish_within(undivided, sent, queues, self.peer.number)
            self.peer.put_publish(sent.exchange, sent.routing_key, sent.properties, sent.body)
        if self.rng.random() < 0.1:
            self.book.withdraw(undivided)
            self.peer.put(commands.Tx.Rollback())
        else:
            self._committed_at = self.book.tick()
            self.peer.put(commands.Tx.Commit())

    def take(self, event: Event) -> None:
        assert self._open is not None
        if isinstance(event.method, commands.Tx.CommitOk):
            self.book.confirm_commit(self._open, self._committed_at, self.peer.number)
        else:
            assert isinstance(event.method, commands.Tx.RollbackOk), event.method
        self._open = None


class Mover(Client):
    """Takes from one queue and publishes to another, both in one transaction."""

    def __init__(
        self, book: Book, peer: Peer, rng: Random, source: str, target: Target, publisher: int
    ) -> None:
        super().__init__(book, peer, rng)
        self._source = source
        self._target = target
        self._publications = Publications(publisher)
        self._receiver = Receiver(peer.number)
        self._held: list[tuple[int, Copy]] = []
        self._open: Undivided | None = None
        self._committed_at = 0
        peer.call(commands.Tx.Select(), commands.Tx.SelectOk)
        _consume(peer, book, source, prefetch=2 * COMMIT_SIZE)

    def step(self) -> None:
        if self._open is not None or len(self._held) < COMMIT_SIZE:
            return
        self._open = undivided = self.book.begin()
        moved, self._held = self._held[:COMMIT_SIZE], self._held[COMMIT_SIZE:]
        for tag, copy in moved:
            sent, queues = self._target(self._publications, self.rng)
            self.book.publish_within(undivided, sent, queues, self.peer.number)
            self.peer.put_publish(sent.exchange, sent.routing_key, sent.properties, sent.body)
            self.book.accept_within(undivided, copy, self.peer.number)
            self.peer.put(commands.Basic.Ack(delivery_tag=tag))
        self._committed_at = self.book.tick()
        self.peer.put(commands.Tx.Commit())

    def take(self, event: Event) -> None:
        method = event.method
        if isinstance(method, commands.Basic.Deliver):
            copy = self.book.receive(
                self._source, self._receiver, method, event.properties, event.body
            )
            self._held.append((method.delivery_tag or 0, copy))
            return
        assert isinstance(method, commands.Tx.CommitOk), method
        assert self._open is not None
        self.book.confirm_commit(self._open, self._committed_at, self.peer.number)
        self._open = None


class Consumer(Client):
    """Accepts most of what it gets, gives some back, rejects where that leads on, keeps some.

    ``appetite`` is the share that it accepts at once; ``rejects`` of the rest are rejected.
    """

    def __init__(
        self, book: Book, peer: Peer, rng: Random, queue: str, *, appetite: float, rejects: float
    ) -> None:
        super().__init__(book, peer, rng)
        self._queue = queue
        self._appetite = appetite
        self._rejects = rejects
        self._receiver = Receiver(peer.number)
        self._held: dict[int, Copy] = {}  # by tag, ascending
        self._asked: deque[int] = deque()
        _consume(peer, book, queue, prefetch=rng.choice((1, 20, 200)))

    def step(self) -> None:
        """Now and then: accept all so far at once, or give it back, or ask something."""
        chance = self.rng.random()
        if chance < 0.05:
            self._asked.append(self.book.tick())
            self.peer.put(commands.Basic.Qos(prefetch_count=self.rng.choice((5, 50))))
        elif chance < 0.10 and self._held:
            last = max(self._held)
            for copy in self._held.values():
                self.book.accept(copy, self.peer.number)
            self._held.clear()
            self.peer.put(commands.Basic.Ack(delivery_tag=last, multiple=True))
        elif chance < 0.12 and self._held:
            last = max(self._held)
            for copy in self._held.values():
                self.book.release(copy)
            self._held.clear()
            self.peer.put(commands.Basic.Nack(delivery_tag=last, multiple=True, requeue=True))

    def take(self, event: Event) -> None:
        method = event.method
        if isinstance(method, commands.Basic.QosOk):
            self.book.on_round_trip(self.peer.number, self._asked.popleft())
            return
        assert isinstance(method, commands.Basic.Deliver), method
        copy = self.book.receive(self._queue, self._receiver, method, event.properties, event.body)
        tag = method.delivery_tag or 0
        chance = self.rng.random()
        if chance < self._appetite:
            self.book.accept(copy, self.peer.number)
            self.peer.put(commands.Basic.Ack(delivery_tag=tag))
        elif chance < self._appetite + (1 - self._appetite) * self._rejects:
            self.book.reject(copy, self.peer.number)
            self.peer.put(commands.Basic.Reject(delivery_tag=tag, requeue=False))
        elif chance < 0.97:
            self._held[tag] = copy
        else:
            self.book.release(copy)
            self.peer.put(commands.Basic.Nack(delivery_tag=tag, requeue=True))


class Getter(Client):
    """Asks for one message after the other, and accepts it."""

    def __init__(self, book: Book, peer: Peer, rng: Random, queue: str) -> None:
        super().__init__(book, peer, rng)
        self._queue = queue
        self._receiver = Receiver(peer.number)
        self._is_waiting = False
        self._asked_at = 0
        book.expose(queue)

    def step(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._asked_at = self.book.tick()
            self.peer.put(commands.Basic.Get(queue=self._queue))

    def take(self, event: Event) -> None:
        method = event.method
        self._is_waiting = False
        self.book.on_round_trip(self.peer.number, self._asked_at)
        if isinstance(method, commands.Basic.GetOk):
            copy = self.book.receive(
                self._queue, self._receiver, method, event.properties, event.body
            )
            self.book.accept(copy, self.peer.number)
            self.peer.put(commands.Basic.Ack(delivery_tag=method.delivery_tag or 0))
        else:
            assert isinstance(method, commands.Basic.GetEmpty), method


def _consume(peer: Peer, book: Book, queue: str, *, prefetch: int) -> None:
    book.expose(queue)
    peer.call(commands.Basic.Qos(prefetch_count=prefetch), commands.Basic.QosOk)
    peer.call(commands.Basic.Consume(queue=queue, consumer_tag="crash"), commands.Basic.ConsumeOk)
