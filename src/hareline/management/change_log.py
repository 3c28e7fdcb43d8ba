"""What changed lately: the newest changes to the broker's objects, for ``api.changes``.

``http_side`` has one ``ChangeLog``, which is told by the administration of each of its changes, and
a ``ChangeWatch``, which looks every ``WATCH_S`` at what else there is: virtual hosts whose
``Routing.version`` is another one than before, alarms, and settings. So declaring and binding cost
nothing more, and a change is seen a few seconds later. What comes and goes with its clients
(transient, exclusive and auto-delete queues) is not in it; the log has the connections.

Invariant: at most ``KEPT_MAX`` changes are kept; of virtual hosts that did not change nothing is
looked at.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.queues.queue import Queue
from hareline.broker.vhost import VirtualHost
from hareline.management.pace import Pace

KEPT_MAX: Final = 5_000
WATCH_S: Final = 5.0
_SECRET: Final = "value"
#: Objects that are compared between two pauses.
SHARE: Final = 512


@dataclass(frozen=True, slots=True)
class Change:
    """``event``: such as ``queue.created``. ``number``: counts up from 1."""

    number: int
    at_ms: int
    event: str
    details: Mapping[str, Any]


class ChangeLog:
    """``since_ms``: from when on it knows of changes."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._changes: deque[Change] = deque(maxlen=KEPT_MAX)
        self._number = 0
        self.since_ms = now_ms()

    def note(self, event: str, details: Mapping[str, Any]) -> None:
        """Remember a change, but no value of a parameter, which may have passwords in it.

        Fits ``Administration.on_event``.
        """
        self._number += 1
        kept = {name: value for name, value in details.items() if name != _SECRET}
        self._changes.append(Change(self._number, self._now_ms(), event, kept))

    def newest_first(self) -> Iterator[Change]:
        """The changes that are kept now; ones that come meanwhile are not among them."""
        return iter(list(reversed(self._changes)))


@dataclass(slots=True)
class _Seen:
    """A virtual host as it was. Objects are compared by identity: one of the same name is new."""

    version: int = -1
    queues: dict[str, Queue] = field(default_factory=dict)
    arguments: Mapping[str, object] = field(default_factory=dict)
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    bindings: Counter[str] = field(default_factory=Counter)


class ChangeWatch:
    """``alarms``: the resources that are short now. ``settings``: those in force."""

    def __init__(
        self,
        log: ChangeLog,
        vhosts: Mapping[str, VirtualHost],
        alarms: Callable[[], list[str]],
        settings: Callable[[], object],
    ) -> None:
        self._log = log
        self._vhosts = vhosts
        self._alarms = alarms
        self._settings = settings
        self._task: asyncio.Task[None] | None = None
        self._seen: dict[str, _Seen] = {}
        self._alarms_seen = set(alarms())
        self._settings_seen = settings()
        for _ in self.look(is_first=True):
            continue

    def start(self, pace: Pace) -> None:
        """Look every ``WATCH_S`` from now on, within the pace of long answers."""
        self._task = asyncio.create_task(self._run(pace))

    async def stop(self) -> None:
        """Look no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, pace: Pace) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            async with pace.share() as share:
                for _ in self.look():
                    await share.pause()

    def look(self, *, is_first: bool = False) -> Iterator[None]:
        """Note what is different from the last look; yields where others may have their turn.

        ``is_first``: what is there now was there before.
        """
        self._look_at_the_rest()
        for name in [name for name in self._seen if name not in self._vhosts]:
            del self._seen[name]
        for name, vhost in list(self._vhosts.items()):
            is_new = name not in self._seen
            seen = self._seen.setdefault(name, _Seen())
            version = vhost.routing.version
            if seen.version != version:
                seen.version = version
                yield from self._compare(vhost, seen, is_silent=is_first or is_new)

    def _look_at_the_rest(self) -> None:
        alarms = set(self._alarms())
        for resource in sorted(alarms - self._alarms_seen):
            self._log.note("alarm.set", {"name": resource})
        for resource in sorted(self._alarms_seen - alarms):
            self._log.note("alarm.cleared", {"name": resource})
        self._alarms_seen = alarms
        settings = self._settings()
        if settings is not self._settings_seen:
            self._settings_seen = settings
            self._log.note("settings.changed", {})

    def _compare(self, vhost: VirtualHost, seen: _Seen, *, is_silent: bool) -> Iterator[None]:
        queues: dict[str, Queue] = {}
        for number, (name, queue) in enumerate(list(vhost.queues.items()), 1):
            if queue.is_durable and not queue.is_auto_delete and queue.owner is None:
                queues[name] = queue
            if number % SHARE == 0:
                yield
        exchanges: dict[str, Exchange] = {}
        bindings: Counter[str] = Counter()
        for number, (name, exchange) in enumerate(list(vhost.exchanges.items()), 1):
            if exchange.is_durable and not exchange.is_auto_delete:
                exchanges[name] = exchange
                bindings[name] = vhost.bindings.count_from(name) if name else 0
            if number % SHARE == 0:
                yield
        arguments = {name: vhost.queue_arguments.get(name) for name in queues}
        yield
        if not is_silent:
            yield from self._note_lost_and_new(
                "queue", vhost.name, seen.queues, queues, _queue_facts
            )
            yield from self._note_lost_and_new(
                "exchange", vhost.name, seen.exchanges, exchanges, _exchange_facts
            )
            for number, (name, before) in enumerate(seen.arguments.items(), 1):
                if number % SHARE == 0:
                    yield
                if (
                    name in arguments
                    and before != arguments[name]
                    and seen.queues.get(name) is queues.get(name)
                ):
                    self._log.note("queue.changed", {"vhost": vhost.name, "name": name})
            for number, name in enumerate(exchanges, 1):
                if number % SHARE == 0:
                    yield
                was, now = seen.bindings[name], bindings[name]
                if was != now and name in seen.exchanges:
                    event = "binding.created" if now > was else "binding.deleted"
                    details = {"vhost": vhost.name, "name": name, "bindings": now, "before": was}
                    self._log.note(event, details)
        seen.queues, seen.exchanges = queues, exchanges
        seen.arguments, seen.bindings = arguments, bindings

    def _note_lost_and_new(
        self,
        kind: str,
        vhost_name: str,
        before: Mapping[str, Any],
        now: Mapping[str, Any],
        facts: Callable[[Any], dict[str, Any]],
    ) -> Iterator[None]:
        for number, (name, one) in enumerate(before.items(), 1):
            if number % SHARE == 0:
                yield
            if now.get(name) is not one:
                self._log.note(f"{kind}.deleted", {"vhost": vhost_name, "name": name})
        for number, (name, one) in enumerate(now.items(), 1):
            if number % SHARE == 0:
                yield
            if before.get(name) is not one:
                details = {"vhost": vhost_name, "name": name, **facts(one)}
                self._log.note(f"{kind}.created", details)


def _queue_facts(queue: Queue) -> dict[str, Any]:
    return {"arguments": dict(queue.arguments)} if queue.arguments else {}


def _exchange_facts(exchange: Exchange) -> dict[str, Any]:
    return {"type": exchange.type_name}
