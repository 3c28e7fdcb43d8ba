"""What changed lately, and who did it: the newest changes to the broker's objects.

``http_side`` makes one ``ChangeLog`` while the management port is open. The registry and the binder
of each virtual host tell it what is declared, deleted and bound, the administration what is
administered, the routes of the API what else they do; ``management.change_file`` keeps it over a
restart. What comes and goes with its clients (transient, exclusive and auto-delete queues and
exchanges, and their bindings) is not in it; the log of the broker has the connections.

What operators do over HTTP, and what is administered, becomes a log message (ADM-1001) as well:
who did what, when, from which address. Those messages are the audit log; they are not bounded, and
none has a password, a hash or the value of a parameter in it.

Invariant: at most ``KEPT_MAX`` changes are kept, each in at most ``LINE_MAX`` octets of JSON; what
others did is not put down to the caller whose request happens to run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import orjson

from hareline import events
from hareline.administration.changes import INTERNAL
from hareline.broker.change_recorder import NOBODY, ChangeRecorder, Doer
from hareline.broker.exchanges.bindings import Binding
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.vhost import VirtualHost
from hareline.events import Report
from hareline.management.strict_json import encoded
from hareline.queues.queue import Queue

KEPT_MAX: Final = 5_000
LINE_MAX: Final = 4_096
TEXT_MAX: Final = 512
_LEFT_OUT: Final = "(too long to be kept)"

#: Who asks, in the task of a request: for what the administration tells, which has no address.
CALLER: Final[ContextVar[Doer]] = ContextVar("caller", default=NOBODY)


def _report_nothing(event: events.Event, **fields: object) -> None:
    """A log of changes that no broker has made has no log beside it."""


@dataclass(frozen=True, slots=True)
class Change:
    """``event``: such as ``queue.created``. ``number``: counts up from 1."""

    number: int
    at_ms: int
    event: str
    details: Mapping[str, Any]
    by: Doer


class ChangeLog(ChangeRecorder):
    """``vhosts``: by name, to look up the ends of bindings. ``unwritten``: lines for the file."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        vhosts: Mapping[str, VirtualHost],
        report: Report = _report_nothing,
    ) -> None:
        super().__init__()
        self._report = report
        self._now_ms = now_ms
        self._vhosts = vhosts
        self._changes: deque[Change] = deque(maxlen=KEPT_MAX)
        self._number = 0
        self._is_quiet = False
        self._opened_ms = now_ms()
        self.unwritten: deque[bytes] = deque(maxlen=KEPT_MAX)

    def restore(self, changes: Iterator[Change]) -> None:
        """Begin with what an earlier run has kept, the oldest first."""
        for change in changes:
            self._changes.append(change)
            self._number = max(self._number, change.number)

    @property
    def since_ms(self) -> int:
        """From when on it knows of changes."""
        return self._changes[0].at_ms if self._changes else self._opened_ms

    def newest_first(self) -> Iterator[Change]:
        """The changes that are kept now; ones that come meanwhile are not among them."""
        return iter(list(reversed(self._changes)))

    def note(self, event: str, details: Mapping[str, object], by: Doer = NOBODY) -> None:
        """Remember a change; ``by`` NOBODY: it happened by itself."""
        line, kept = _bounded(event, details)
        if by.via in ("http", "settings"):
            self._audit(event, kept, by)
        if self._is_quiet:
            return
        self._number += 1
        change = Change(self._number, self._now_ms(), event, kept, by)
        self._changes.append(change)
        head = {"number": change.number, "at_ms": change.at_ms, "by": list(by)}
        self.unwritten.append(orjson.dumps(head)[:-1] + b"," + line[1:] + b"\n")

    def _audit(self, event: str, details: Mapping[str, Any], by: Doer) -> None:
        self._report(
            events.ADMINISTERED,
            act=event,
            user=by.user,
            via=by.via,
            address=by.address,
            name=details.get("name", details.get("user")),
            vhost=details.get("vhost"),
            details=dict(details),
        )

    def quietly(self, steps: Iterator[None]) -> Generator[None, None, None]:
        """Take these steps without remembering what each of them does: an import is one change.

        The log of the broker has each.
        """
        while True:
            self._is_quiet = True
            try:
                next(steps)
            except StopIteration:
                return
            finally:
                self._is_quiet = False
            yield

    # -------------------------------------------------------------------- who tells of what

    def on_queue(self, event: str, vhost: str, queue: Queue, details: Mapping[str, object]) -> None:
        if vhost in self._vhosts and _is_kept_queue(queue):
            found: dict[str, object] = {"vhost": vhost, "name": queue.name, **details}
            if event == "queue.created" and queue.arguments:
                found["arguments"] = queue.arguments
            self.note(event, found, self.doer)

    def on_exchange(self, event: str, vhost: str, exchange: Exchange) -> None:
        if vhost in self._vhosts and _is_kept_exchange(exchange):
            found: dict[str, object] = {"vhost": vhost, "name": exchange.name}
            if event == "exchange.created":
                found["type"] = exchange.type_name
                if exchange.arguments:
                    found["arguments"] = exchange.arguments
            self.note(event, found, self.doer)

    def on_binding(self, event: str, vhost: str, binding: Binding) -> None:
        found = self._vhosts.get(vhost)
        if found is None:
            return
        source = found.exchanges.get(binding.source)
        if binding.kind == "queue":
            queue = found.queues.get(binding.destination)
            is_kept = queue is not None and _is_kept_queue(queue)
        else:
            destination = found.exchanges.get(binding.destination)
            is_kept = destination is not None and _is_kept_exchange(destination)
        if is_kept and source is not None and _is_kept_exchange(source):
            details: dict[str, object] = {
                "vhost": vhost,
                "name": binding.destination,
                "source": binding.source,
                "destination": binding.destination,
                "destination_type": binding.kind,
                "routing_key": binding.routing_key,
            }
            if binding.arguments:
                details["arguments"] = dict(binding.arguments)
            self.note(event, details, self.doer)

    def on_alarm(self, resource: str, is_on: bool) -> None:
        """A resource has become short, or no longer is."""
        self.note("alarm.set" if is_on else "alarm.cleared", {"name": resource})

    def on_administered(self, event: str, fields: Mapping[str, Any]) -> None:
        """What the administration tells; values of parameters may be secret, and are left out."""
        user = str(fields.get("user_who_performed_action", INTERNAL))
        details = {
            name: value
            for name, value in fields.items()
            if name != "user_who_performed_action"
            and not (name == "value" and event.startswith("parameter."))
        }
        self.note(event, details, _doer_named(user))


def _doer_named(user: str) -> Doer:
    if user == INTERNAL:
        return NOBODY
    caller = CALLER.get()
    return caller if caller.user == user else Doer("http", user)


def _is_kept_queue(queue: Queue) -> bool:
    return queue.is_durable and not queue.is_auto_delete and queue.owner is None


def _is_kept_exchange(exchange: Exchange) -> bool:
    return exchange.is_durable and not exchange.is_auto_delete


# ------------------------------------------------------------------------------- as JSON


def _bounded(event: str, details: Mapping[str, object]) -> tuple[bytes, Mapping[str, Any]]:
    """The change as a JSON object, and what its details are when that is read again."""
    line = encoded({"event": event, "details": details})
    if len(line) > LINE_MAX:
        short = {name: _shortened(value) for name, value in details.items()}
        line = encoded({"event": event, "details": short})
        if len(line) > LINE_MAX:  # very many of them
            line = encoded({"event": event, "details": {"name": _LEFT_OUT}})
    return line, orjson.loads(line)["details"]


def _shortened(value: object) -> object:
    """A text with its beginning alone; anything else that is long is left out."""
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else f"{value[:TEXT_MAX]}..."
    return value if len(encoded(value)) <= TEXT_MAX else _LEFT_OUT


def change_of(line: bytes) -> Change | None:
    """A line of the file as the change that it was; None for half a line, and others' lines."""
    try:
        given = orjson.loads(line)
        by = Doer(*given["by"])
        number, at_ms = int(given["number"]), int(given["at_ms"])
        return Change(number, at_ms, str(given["event"]), dict(given["details"]), by)
    except (ValueError, TypeError, KeyError):
        return None
