"""A queue of coloured messages, for tests of the selective lane."""

from __future__ import annotations

from typing import Any

from hareline.queues.core.consumer import Consumer
from hareline.queues.dispatch.selective import SelectiveLane
from tests.support.consumers import RecordingConsumer
from tests.support.vhosts import QueueStand

RED, BLUE = "colour = 'red'", "colour = 'blue'"

STANDARD = {"x-message-group-type": "standard"}

SHARED = {"x-message-group-type": "shared"}

COLOURS = {"r": "red", "b": "blue", "g": "green"}


class SelectiveQueue(QueueStand):
    """``put("r1", "b1")``: each message's colour goes by the first letter of its body."""

    def headers_of(self, body: str) -> dict[str, object]:
        return {"colour": COLOURS[body[0]]}

    def accept_all(self, *bodies: str, **headers: Any) -> None:
        for body in bodies:
            self.accept(body.encode(), headers={**self.headers_of(body), **headers})

    def put(self, *bodies: str, **headers: Any) -> None:
        self.accept_all(*bodies, **headers)
        self.turn.run()

    def join(
        self, selector: str | None = None, prefetch_count: int = 0, **options: Any
    ) -> RecordingConsumer:
        """A new consumer, and the end of the turn."""
        return self.consume(prefetch_count, selector=selector, **options)

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
