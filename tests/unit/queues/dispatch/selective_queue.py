"""A queue of coloured messages, for tests of the selective lane."""

from __future__ import annotations

from typing import Any

from hareline.queues.core.consumer import Consumer
from hareline.queues.core.entry import QueueEntry
from hareline.queues.dispatch.selective import SelectiveLane
from hareline.selectors.selector import compile_selector
from tests.support.consumers import RecordingConsumer
from tests.support.reading_queue import ReadingQueue

RED, BLUE = "colour = 'red'", "colour = 'blue'"

STANDARD = {"x-message-group-type": "standard"}

SHARED = {"x-message-group-type": "shared"}

COLOURS = {"r": "red", "b": "blue", "g": "green"}


class ChannelConsumer(RecordingConsumer):
    """``channel`` takes down what all consumers of it were given, in order."""

    channel: list[bytes] | None = None

    @property
    def delivery_port(self) -> object:
        return self if self.channel is None else id(self.channel)

    def deliver(self, entries: list[QueueEntry]) -> int:
        count = super().deliver(entries)
        if self.channel is not None:
            self.channel += [entry.message.body for entry in entries[:count]]
        return count


class SelectiveQueue(ReadingQueue):
    """``put("r1", "b1")``: each message's colour goes by the first letter of its body."""

    def accept_all(self, *bodies: str, **headers: Any) -> None:
        for body in bodies:
            self.accept(body.encode(), headers={"colour": COLOURS[body[0]], **headers})

    def put(self, *bodies: str, **headers: Any) -> None:
        self.accept_all(*bodies, **headers)
        self.turn.run()

    def join(
        self,
        selector: str | None = None,
        prefetch_count: int = 0,
        *,
        since_ms: int = 0,
        channel: list[bytes] | None = None,
        **options: Any,
    ) -> RecordingConsumer:
        """A new consumer, and the end of the turn."""
        self.consumer_count += 1
        consumer = ChannelConsumer(
            self.queue,
            f"c{self.consumer_count}",
            prefetch_count=prefetch_count,
            selector=None if selector is None else compile_selector(selector),
            **options,
        )
        consumer.since_ms = since_ms
        consumer.channel = channel
        self.queue.add_consumer(consumer)
        self.turn.run()
        return consumer

    def leave(self, consumer: Consumer) -> None:
        self.queue.remove_consumer(consumer)
        self.turn.run()

    def is_selective(self) -> bool:
        return isinstance(self.queue.lane, SelectiveLane)

    @property
    def lane(self) -> SelectiveLane:
        lane = self.queue.lane
        assert isinstance(lane, SelectiveLane)
        return lane

    @property
    def ready(self) -> list[str]:
        return [body.decode() for body in self.bodies]


def names(consumer: RecordingConsumer) -> list[str]:
    return [body.decode() for body in consumer.bodies]
