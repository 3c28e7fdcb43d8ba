"""Environment of a queue's parts: what they need of the broker, given by the virtual host.

Invariant: nothing here knows a frame or a socket.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hareline.clock import Clock, Timers
from hareline.events import Report
from hareline.queues.core.dead_letter_scheduler import DeadLetterScheduler
from hareline.queues.core.enqueueing import Enqueueing
from hareline.queues.core.ports import QueuePort
from hareline.storage.interface import MessageStore

if TYPE_CHECKING:
    from hareline.message import Message
    from hareline.queues.core.audit_recorder import AuditRecorder

# exchange, routing keys, message -> the queues that it reaches, and the archives of the exchanges
# on its way; both are () where the exchange does not exist
Route = Callable[[str, list[str], "Message"], tuple[tuple[QueuePort, ...], tuple[Enqueueing, ...]]]


def _blocks_none() -> bool:
    return False


class MemoryPressure:
    """``is_high``: memory is above the mark from which the contents of messages are spooled.

    ``net.memory`` notices, ``orders.window.set_spooling`` sets it for the queues of a virtual host,
    and each queue's paging reads it at the end of its dispatches. The mark is below the one at
    which publishers are blocked. ``blocks_publishers``: tells whether they are, for want of memory
    or disk.
    """

    __slots__ = ("blocks_publishers", "is_high")

    def __init__(self) -> None:
        self.is_high = False
        self.blocks_publishers: Callable[[], bool] = _blocks_none


@dataclass(frozen=True, slots=True)
class QueueEnvironment:
    """``route`` finds the queues for a message that the broker itself publishes.

    ``on_admission_changed`` is to be called when a queue begins or ceases to need admission, since
    publishers remember which way into a queue they take. ``store`` keeps what must survive, and
    contents that have left memory. All dead letters go by ``dead_letter_scheduler``, which each
    environment makes for itself. ``audit`` is told what happens to messages, None without audit; it
    is looked at when a queue, a channel or a consumer is made, and never for a message.
    ``ruled``: queues, as keys, whose rules for consumers have changed, until
    ``amqp.consumer_watch`` takes them. ``duplicate_counts``: messages that were not taken for their
    ids, by what knew them, also by queues that are gone.
    """

    clock: Clock
    timers: Timers
    report: Report
    route: Route
    on_admission_changed: Callable[[], None]
    vhost_name: str
    store: MessageStore
    dead_letter_scheduler: DeadLetterScheduler = field(init=False, compare=False)
    pressure: MemoryPressure = field(default_factory=MemoryPressure, compare=False)
    audit: AuditRecorder | None = field(default=None, compare=False)
    ruled: dict[QueuePort, None] = field(default_factory=dict, compare=False)
    duplicate_counts: dict[str, int] = field(default_factory=lambda: {"queue": 0}, compare=False)

    def __post_init__(self) -> None:
        scheduler = DeadLetterScheduler(self.clock, self.timers)
        object.__setattr__(self, "dead_letter_scheduler", scheduler)
