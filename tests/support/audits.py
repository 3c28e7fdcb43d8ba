"""A virtual host with audit, and what its audit stream says, for tests of the model.

The turn and the clock are the test's. ``refusal`` is what the stream refuses events with.
"""

from __future__ import annotations

import json
from typing import Any

from hareline.broker.vhost import VirtualHost
from hareline.clock import Clock, Timers
from hareline.queues.core.audit_recorder import AUDIT_STREAM, AuditRecorder
from hareline.queues.queue import Queue
from hareline.storage.interface import DefinitionStore, MessageStore
from hareline.turn import Turn
from tests.support.messages import make_message
from tests.support.timers import ManualTimers
from tests.support.turns import ManualTurn
from tests.support.vhosts import declare, make_vhost

STREAM_ARGUMENTS: dict[str, object] = {"x-queue-type": "stream"}
Event = dict[str, Any]


class AuditLog:
    """The recorder of a virtual host, and the events of its stream, each once."""

    def __init__(self, turn: Turn, clock: Clock, timers: Timers, *, share: float = 1.0) -> None:
        self.refusal = ""
        self.recorder = AuditRecorder(
            turn,
            clock,
            timers,
            share=share,
            refusal=lambda: self.refusal,
            stream_arguments=STREAM_ARGUMENTS,
            now_us=lambda: clock.now_ms * 1000,
        )
        self._next_offset = 0

    def read(self, vhost: VirtualHost) -> list[Event]:
        """The events that were written since the last call, in order."""
        events: list[Event] = []
        for body in self.read_bodies(vhost):
            assert body.endswith(b"\n")
            events += [json.loads(line) for line in body.splitlines()]
        return events

    def read_bodies(self, vhost: VirtualHost) -> list[bytes]:
        """The bodies of the messages that were written since the last call."""
        stream = vhost.queues[AUDIT_STREAM]
        new = [entry for entry in stream.order if entry.offset >= self._next_offset]
        self._next_offset = stream.next_offset
        return [entry.message.body for entry in new]


class AuditStand:
    """``events`` are those since the last look, without their times, which ``now_us`` is."""

    def __init__(
        self,
        *,
        share: float = 1.0,
        store: MessageStore | None = None,
        definitions: DefinitionStore | None = None,
    ) -> None:
        self.turn = ManualTurn()
        self.timers = ManualTimers(on_rung=self.turn.run)
        self.log = AuditLog(self.turn, self.timers.clock, self.timers, share=share)
        self.vhost = make_vhost(
            self.turn,
            timers=self.timers,
            store=store,
            definitions=definitions,
            audit=self.log.recorder,
        )
        self.vhost.open_audit()

    @property
    def now_us(self) -> int:
        return self.timers.clock.now_ms * 1000

    def queue(self, name: str = "q", **arguments: object) -> Queue:
        """A queue; ``x_max_length=3`` is the argument ``x-max-length``."""
        return declare(
            self.vhost,
            name,
            is_durable=arguments.get("x_queue_type", "classic") != "classic",
            arguments={key.replace("_", "-"): value for key, value in arguments.items()},
        )

    def put(self, queue: Queue, *bodies: bytes, **properties: Any) -> None:
        """Messages come to the queue, published to it by its name."""
        for body in bodies:
            message = make_message(body, routing_key=queue.name, **properties)
            message.arrival_ms = self.timers.clock.now_ms
            queue.put(message)

    def events(self) -> list[Event]:
        self.turn.run()
        events = self.log.read(self.vhost)
        for event in events:
            assert event.pop("ts_us") <= self.now_us
        return events
