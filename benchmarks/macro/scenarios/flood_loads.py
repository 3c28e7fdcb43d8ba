"""Publishers that never wait and never read, and bystanders that time other clients' calls.

Used by ``fanout_flood``. Each is a thread of this process: the publishers' one sleeps while all
sockets are full, so it takes next to nothing from the bystanders.
"""

from __future__ import annotations

import contextlib
import selectors
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Final

from pamqp import commands

from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import Address, Tape
from benchmarks.macro.traffic import POLL_INTERVAL_S, Publisher

#: between the answer to a bystander's call and its next call
PAUSE_S: Final = 0.02
SELECT_TIMEOUT_S: Final = 0.1


class Worker(threading.Thread, ABC):
    """A thread whose failure is kept for the scenario to look at."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._error: Exception | None = None
        self._is_over = threading.Event()

    @abstractmethod
    def work(self) -> None:
        """Return soon after `_is_over` is set."""

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:
            self._error = error

    def finish(self) -> None:
        """Begin nothing new. What has begun may take as long as the broker lets it."""
        self._is_over.set()

    def check(self) -> None:
        """:raises BenchmarkError: the thread has failed."""
        if self._error is not None:
            raise BenchmarkError(f"{self.name}: {self._error}") from self._error


class Flood(Worker):
    """Publishes to one exchange on all `clients` as fast as their sockets take it.

    Nothing is ever read, so a connection.close of the broker is not answered either.
    """

    def __init__(self, clients: Sequence[Client], exchange: str, body_size: int) -> None:
        super().__init__("a flooding publisher")
        self._publishers = [
            Publisher(
                client,
                Tape([Address("", exchange)], body_size, client.frame_max),
                (),
                confirms=False,
            )
            for client in clients
        ]
        self._may_break = False

    @property
    def published(self) -> int:
        """Messages the sockets took; the broker may not have read all of them."""
        return sum(publisher.published for publisher in self._publishers)

    def allow_breaks(self) -> None:
        """From now on the broker may close connections: it is about to be stopped."""
        self._may_break = True

    def work(self) -> None:
        with selectors.DefaultSelector() as selector:
            for publisher in self._publishers:
                selector.register(publisher.sock, selectors.EVENT_WRITE, publisher)
            while selector.get_map() and not self._is_over.is_set():
                for key, _ in selector.select(SELECT_TIMEOUT_S):
                    if not self._send(key.data):
                        selector.unregister(key.fileobj)
                time.sleep(POLL_INTERVAL_S)

    def _send(self, publisher: Publisher) -> bool:
        """Send at most one lap of its tape; False if the connection is gone and may be."""
        try:
            publisher.publish_up_to(publisher.published + publisher.tape.count)
        except OSError:
            if not self._may_break:
                raise
            return False
        return True


class Bystander(Worker):
    """Makes one kind of call again and again, and keeps how long each took, in seconds."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._lock = threading.Lock()
        self._taken: list[float] = []
        self._begun: float | None = None

    @abstractmethod
    def call(self) -> None:
        """One call; what counts of it is `timed`."""

    def work(self) -> None:
        while not self._is_over.is_set():
            self.call()
            self._is_over.wait(PAUSE_S)

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        begun = time.monotonic()
        with self._lock:
            self._begun = begun
        yield
        taken = time.monotonic() - begun
        with self._lock:
            self._taken.append(taken)
            self._begun = None

    def ascending(self) -> list[float]:
        """How long each call took, the quickest first.

        A call that is not answered yet counts with the time it has waited so far.
        """
        with self._lock:
            taken = list(self._taken)
            if self._begun is not None:
                taken.append(time.monotonic() - self._begun)
        return sorted(taken)


class Declarer(Bystander):
    """Asks one queue after the other for its depth, with passive queue.declare."""

    def __init__(self, client: Client, queues: Sequence[str]) -> None:
        super().__init__("the client that declares queues")
        self._client = client
        self._queues = queues
        self._next = 0
        #: ready messages of the queue asked last, and the instant of the answer
        self._last: tuple[int, float] | None = None

    def call(self) -> None:
        queue = self._queues[self._next % len(self._queues)]
        self._next += 1
        with self.timed():
            depth = self._client.ready_count(queue)
        self._last = depth, time.monotonic()

    def entries_per_s(self, begun: float) -> float:
        """Entries put into all queues since `begun` (monotonic), when they were empty.

        The queue asked last stands for all, as a fanout gives each the same. Asking them all would
        take a minute where a declare takes 60 ms, and the flood goes on meanwhile.

        :raises BenchmarkError: no call was answered.
        """
        if self._last is None:
            raise BenchmarkError("no queue.declare was answered during the flood")
        depth, answered = self._last
        return depth * len(self._queues) / (answered - begun)


class Connector(Bystander):
    """Opens a connection, up to connection.open-ok, and closes it without waiting."""

    def __init__(self, url: str) -> None:
        super().__init__("the client that connects")
        self._url = url

    def call(self) -> None:
        with self.timed():
            client = Client(self._url, with_channel=False)
        with client.sock:
            client.send(commands.Connection.Close(200, "bye", 0, 0), channel=0)
