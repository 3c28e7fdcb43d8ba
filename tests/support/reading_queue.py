"""A queue as a virtual host makes it of its arguments, for tests of readers and browsers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hareline.queues.core.credit import CreditWindow
from hareline.queues.core.start_position import FIRST, StartPosition
from hareline.selectors.selector import compile_selector
from hareline.wire.table import Table
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.timers import ManualTimers
from tests.support.turns import ManualTurn
from tests.support.vhosts import make_vhost

NON_DESTRUCTIVE = {"x-non-destructive": True}


class ReadingQueue:
    """``queue`` with a turn and a clock that the test moves by hand."""

    def __init__(self, arguments: Mapping[str, object], *, is_auto_delete: bool = False) -> None:
        self.turn = ManualTurn()
        self.timers = ManualTimers(on_rung=self.turn.run)
        self.vhost = make_vhost(self.turn, timers=self.timers)
        self.queue = self.vhost.declare_queue(
            "q", is_durable=True, is_auto_delete=is_auto_delete, owner=None, arguments=arguments
        )
        self.consumer_count = 0

    def accept(self, *bodies: bytes, **properties: Any) -> None:
        """Messages that arrive now; the turn goes on."""
        headers = properties.pop("headers", None)
        for body in bodies:
            message = make_message(
                body, headers=None if headers is None else Table(headers), **properties
            )
            message.arrival_ms = self.timers.clock.now_ms
            assert self.queue.put(message)

    def publish(self, *bodies: bytes, **properties: Any) -> None:
        """Messages that arrive now, and the end of the turn."""
        self.accept(*bodies, **properties)
        self.turn.run()

    def consume(
        self,
        prefetch_count: int = 0,
        *,
        start: StartPosition = FIRST,
        selector: str | None = None,
        acknowledges: bool = True,
        is_browser: bool = False,
        closes_at_end: bool = False,
        stream_filter: frozenset[str] | None = None,
        since_ms: int = 0,
        priority: int = 0,
        windows: tuple[CreditWindow, ...] = (),
        room: int | None = None,
    ) -> RecordingConsumer:
        """A new consumer, and the end of the turn."""
        self.consumer_count += 1
        consumer = RecordingConsumer(
            self.queue,
            f"c{self.consumer_count}",
            acknowledges=acknowledges,
            priority=priority,
            prefetch_count=prefetch_count,
            windows=windows,
            selector=None if selector is None else compile_selector(selector),
        )
        if room is not None:
            consumer.room = room
        consumer.start_position = start
        consumer.is_browser = is_browser
        consumer.closes_at_end = closes_at_end
        consumer.stream_filter = stream_filter
        consumer.since_ms = since_ms
        self.queue.add_consumer(consumer)
        self.turn.run()
        return consumer

    def browse(self, prefetch_count: int = 0, **options: Any) -> RecordingConsumer:
        return self.consume(prefetch_count, is_browser=True, **options)

    @property
    def bodies(self) -> list[bytes]:
        """What is ready, in order."""
        return [entry.message.body for entry in self.queue.lane.ready_entries()]


def numbers(start: int, stop: int) -> list[bytes]:
    return [b"%03d" % number for number in range(start, stop)]
