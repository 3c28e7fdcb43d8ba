"""A handful of real queues that dead-letter into one another, with a clock moved by hand.

Used by the unit tests of dead-lettering. What routes here is a table of bindings and no virtual
host, so that a test says in one line where a key leads. The exchange ``headers`` looks at the
headers.
"""

from __future__ import annotations

from typing import Any

from hareline.message import Message, Table
from hareline.queues.dead_letters.dead_letters import DeadLetters
from hareline.queues.dead_letters.targets import find_targets
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.policies.overflow import Overflow
from hareline.queues.queue import Queue
from tests.support.messages import make_message
from tests.support.timers import ManualTimers, queue_environment
from tests.support.turns import ManualTurn


class SmallBroker:
    """``bind`` and ``queue`` build it; ``die`` publishes, takes and drops one message."""

    def __init__(self) -> None:
        self.turn = ManualTurn()
        self.timers = ManualTimers()
        self.queues: dict[str, Queue] = {}
        self.bindings: dict[str, dict[str, list[Queue]]] = {}
        self.routed: list[tuple[str, list[str], Message]] = []
        self.environment = queue_environment(
            self.timers, route=lambda *asked: (self.route(*asked), ())
        )

    def route(self, exchange: str, keys: list[str], message: Message) -> tuple[Queue, ...]:
        self.routed.append((exchange, list(keys), message))
        if exchange == "headers":
            assert "x-death" in message.headers
        if exchange == "":
            return tuple(self.queues[key] for key in keys if key in self.queues)
        bindings = self.bindings.get(exchange, {})
        found = [queue for key in (*keys, "#") for queue in bindings.get(key, [])]
        return tuple(dict.fromkeys(found))

    def queue(
        self, name: str, *, max_length: int | None = None, policy: Any = "drop-head", **options: Any
    ) -> Queue:
        """A queue of this name; ``options``: of ``dead_letters``, if there are any.

        ``max_length`` and ``policy``: of its ``Overflow``.
        """
        queue = Queue(name, FifoOrder(), self.turn, environment=self.environment)
        if options:
            queue.dead_letters = self.dead_letters(name, **options)
        if max_length is not None:
            queue.overflow = Overflow(
                queue,
                self.environment,
                max_length=max_length,
                max_length_bytes=None,
                policy=policy,
            )
            queue.install()
        self.queues[name] = queue
        return queue

    def dead_letters(
        self, name: str, *, takes_transient: bool = True, **targets: Any
    ) -> DeadLetters:
        """Those of a queue of this name; ``targets``: options of ``find_targets``."""
        return DeadLetters(
            name,
            self.environment,
            find_targets(name, self.environment.vhost_name, **targets),
            takes_transient=takes_transient,
        )

    def bind(self, exchange: str, key: str, *queues: Queue) -> None:
        """``key`` "#" is every key."""
        self.bindings.setdefault(exchange, {}).setdefault(key, []).extend(queues)

    def advance(self, milliseconds: int) -> None:
        self.timers.advance(milliseconds)


def publish(queue: Queue, body: bytes = b"", **properties: Any) -> None:
    """To ``queue``, by default with its name as the routing key."""
    properties.setdefault("routing_key", queue.name)
    message = make_message(body, **properties)
    assert queue.put(message)


def take(queue: Queue) -> Message:
    """Acquire the next message and settle it; there must be one."""
    (entry,) = queue.acquire(1)
    queue.settle(entry)
    return entry.message


def reject(queue: Queue, count: int = 1) -> None:
    entries = queue.acquire(count)
    assert len(entries) == count
    queue.reject(entries)


def drop(queue: Queue, reason: Any, count: int = 1) -> None:
    """The first entries die where they stand, for a reason that the queue found itself."""
    entries = queue.acquire(count)
    assert len(entries) == count
    queue.restore(entries)
    queue.drop(entries, reason)


def deaths(message: Message) -> list[Table]:
    found = message.headers["x-death"]
    assert isinstance(found, list)
    return found


def summary(message: Message) -> list[tuple[object, object, object]]:
    """Queue, reason and count of each death, the latest first."""
    return [(death["queue"], death["reason"], death["count"]) for death in deaths(message)]
