"""What a queue's policies need of the broker around it; the virtual host hands one to each queue.

Invariant: nothing here knows a frame or a socket.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hareline.broker.queues.dead_letter_post import DeadLetterPost
from hareline.broker.queues.pressure import MemoryPressure
from hareline.clock import Clock, Timers
from hareline.events import Report
from hareline.storage.store import MessageStore

if TYPE_CHECKING:
    from hareline.broker.queues.queue import Queue
    from hareline.message import Message

# exchange, routing keys, message -> the queues it reaches; () where the exchange does not exist
Route = Callable[[str, list[str], "Message"], "tuple[Queue, ...]"]


@dataclass(frozen=True, slots=True)
class QueueEnvironment:
    """``route`` finds the queues for a message that the broker itself publishes.

    ``on_guard_changed`` is to be called when a queue becomes guarded or stops being it, since
    publishers remember which lane a queue takes. ``store`` keeps what must survive, and contents
    that have left memory. All dead letters go by ``dead_letter_post``. ``pressure`` says whether
    memory is short.
    """

    clock: Clock
    timers: Timers
    report: Report
    route: Route
    on_guard_changed: Callable[[], None]
    vhost_name: str
    store: MessageStore
    dead_letter_post: DeadLetterPost = field(default_factory=DeadLetterPost, compare=False)
    pressure: MemoryPressure = field(default_factory=MemoryPressure, compare=False)
