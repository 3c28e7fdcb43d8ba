"""Resource alarms: while one is on, connections that publish are blocked.

``net`` watches the resource and calls ``set`` and ``clear``; ``amqp.flow_control`` blocks a
connection at its first publish after that, and sends it ``reason``. Consumers are never affected
(RabbitMQ's rule: memory is freed by consuming).

Invariant: connections are called once when the first resource is short, and once after the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, Protocol

Resource = Literal["memory", "disk"]


class Blockable(Protocol):
    def on_alarm(self) -> None: ...

    def on_alarm_cleared(self) -> None: ...


class Alarms:
    """``on_changed``: told of each resource that becomes short, or no longer is; may be None."""

    def __init__(self, connections: Iterable[Blockable]) -> None:
        self._connections = connections
        self._resources: set[Resource] = set()
        self.on_changed: Callable[[str, bool], None] | None = None

    @property
    def is_on(self) -> bool:
        return bool(self._resources)

    @property
    def resources(self) -> list[str]:
        return sorted(self._resources)

    @property
    def reason(self) -> str:
        """``low on memory & disk`` and the like; the text of connection.blocked."""
        return "low on " + " & ".join(sorted(self._resources, reverse=True))

    def set(self, resource: Resource) -> None:
        was_on = self.is_on
        if self.on_changed is not None and resource not in self._resources:
            self.on_changed(resource, True)
        self._resources.add(resource)
        if not was_on:
            for connection in list(self._connections):
                connection.on_alarm()

    def clear(self, resource: Resource) -> None:
        was_on = self.is_on
        if self.on_changed is not None and resource in self._resources:
            self.on_changed(resource, False)
        self._resources.discard(resource)
        if was_on and not self.is_on:
            for connection in list(self._connections):
                connection.on_alarm_cleared()
