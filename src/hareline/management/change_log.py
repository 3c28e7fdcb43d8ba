"""Changes to the broker's objects, the newest, and who made them; in memory and in two files.

What comes and goes with its clients (transient, exclusive and auto-delete queues and exchanges, and
their bindings) is not in it. What operators do over HTTP, and what is administered, becomes a log
message (ADM-1001) as well: the audit log, which has no password, hash or value of a parameter. The
files are not synced: a few lines lost to a power failure do no harm, and a damaged one is skipped.

Invariants: at most ``KEPT_MAX`` changes are kept, each in at most ``LINE_MAX`` octets of JSON; what
others did is not put down to the caller whose request happens to run; nothing here waits for the
disk on the event loop once the broker has started, and no error of the disk stops anything.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson

from hareline import events
from hareline.administration.changes import INTERNAL
from hareline.broker.change_recorder import NOBODY, ChangeRecorder, Doer
from hareline.broker.exchanges.bindings import Binding
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.vhost import VirtualHost
from hareline.events import Report
from hareline.management.answers import encoded
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
        """The time from which on it knows of changes."""
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
        """Note an administrative change; values of parameters may be secret, and are left out."""
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


# ------------------------------------------------------------------------------------------ on disk


FILE_NAME: Final = "changes.jsonl"
OLDER_NAME: Final = "changes.older.jsonl"
WRITE_S: Final = 1.0
_MODE: Final = 0o640
_READ_MAX: Final = 2 * LINE_MAX  # of a line, with what stands around the details


class ChangeFile:
    """``count``: lines in the file that is written to."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._older = directory / OLDER_NAME
        self._is_torn = False  # it ends with half a line
        self.count = 0

    def read(self) -> Iterator[Change]:
        """All that is kept, the oldest first; lines that are damaged are left out."""
        for path in (self._older, self._path):
            self.count, self._is_torn = 0, False
            try:
                lines = path.open("rb")
            except OSError:
                continue  # the first start, or one that may not read it: ``append`` will say so
            with lines:
                while line := lines.readline(_READ_MAX):
                    self.count += 1
                    self._is_torn = not line.endswith(b"\n")
                    change = change_of(line)
                    if change is not None:
                        yield change

    def append(self, lines: list[bytes]) -> None:
        """Write lines; the file is begun again when it is full. Raises OSError."""
        if self.count + len(lines) > KEPT_MAX and self.count:
            self._path.replace(self._older)
            self.count, self._is_torn = 0, False
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with os.fdopen(os.open(self._path, flags, _MODE), "wb") as file:
            file.write(b"\n" * self._is_torn + b"".join(lines))
        self.count, self._is_torn = self.count + len(lines), False


class ChangeKeeper:
    """Writes what the log has not written yet, and looks for new settings, every ``WRITE_S``.

    ``directory`` None: nothing is kept.
    """

    def __init__(
        self,
        log: ChangeLog,
        directory: Path | None,
        settings: Callable[[], object],
        report: Report,
    ) -> None:
        self._log = log
        self._file = None if directory is None else ChangeFile(directory)
        self._settings = settings
        self._settings_seen = settings()
        self._report = report
        self._is_failing = False
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read what is kept, and write from now on."""
        if self._file is not None:
            self._log.restore(self._file.read())
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Write the rest."""
        task, self._task = self._task, None
        self._stopping.set()
        if task is not None:
            await task

    async def _run(self) -> None:
        is_last = False
        while not is_last:
            with suppress(TimeoutError):
                is_last = await asyncio.wait_for(self._stopping.wait(), WRITE_S)
            self.look_at_settings()
            await self.write()

    def look_at_settings(self) -> None:
        """Note it if the settings were read again."""
        settings = self._settings()
        if settings is not self._settings_seen:
            self._settings_seen = settings
            self._log.note("settings.changed", {}, Doer("settings", ""))

    async def write(self) -> None:
        """Write what is not written yet, in a thread of its own; what fails is tried again."""
        unwritten, file = self._log.unwritten, self._file
        if file is None:
            unwritten.clear()
            return
        lines = list(islice(unwritten, KEPT_MAX))
        if not lines:
            return
        try:
            await asyncio.to_thread(file.append, lines)
        except OSError as error:
            if not self._is_failing:
                self._is_failing = True
                self._report(events.CHANGES_NOT_KEPT, problem=str(error))
            return
        self._is_failing = False
        for line in lines:
            if unwritten and unwritten[0] is line:  # it may have been pushed out meanwhile
                unwritten.popleft()
