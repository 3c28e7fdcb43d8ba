"""Resource alarms: while one is on, connections that publish are blocked.

Consumers are never affected (RabbitMQ's rule: memory is freed by consuming). Connections are called
once when the first resource is short, and once after the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, Protocol

from hareline.clock import Clock

Resource = Literal["memory", "disk"]


class Blockable(Protocol):
    def on_alarm(self) -> None: ...

    def on_alarm_cleared(self) -> None: ...


class Alarms:
    """``on_changed``: called with each resource that becomes short (True), or no longer is.

    ``why``: of resources that are short, how much there is and how much is needed, where known.
    """

    def __init__(self, connections: Iterable[Blockable], clock: Clock | None = None) -> None:
        self._connections = connections
        self._resources: dict[Resource, int] = {}  # since when, in epoch milliseconds
        self.why: dict[Resource, str] = {}
        self.clock = Clock() if clock is None else clock
        self.on_changed: list[Callable[[str, bool], None]] = []

    @property
    def is_on(self) -> bool:
        return bool(self._resources)

    @property
    def resources(self) -> list[str]:
        return sorted(self._resources)

    @property
    def since_ms(self) -> Mapping[Resource, int]:
        """The resources that are short, and since when each is."""
        return dict(self._resources)

    @property
    def reason(self) -> str:
        """``low on memory & disk`` and the like; the text of connection.blocked."""
        return "low on " + " & ".join(sorted(self._resources, reverse=True))

    def set(self, resource: Resource) -> None:
        was_on = self.is_on
        if resource not in self._resources:
            self.clock.refresh()
            self._resources[resource] = self.clock.now_ms
            self._tell(resource, True)
        if not was_on:
            for connection in list(self._connections):
                connection.on_alarm()

    def clear(self, resource: Resource) -> None:
        was_on = self.is_on
        self.why.pop(resource, None)
        if self._resources.pop(resource, None) is not None:
            self._tell(resource, False)
        if was_on and not self.is_on:
            for connection in list(self._connections):
                connection.on_alarm_cleared()

    def _tell(self, resource: Resource, is_short: bool) -> None:
        for listener in self.on_changed:
            listener(resource, is_short)
