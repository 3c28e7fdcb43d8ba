"""``POST /api/replay``: put messages that a queue got in a span of time into a queue again.

Threads search and read the journal, piece by piece (``replaying.range``); the messages
are published here, on the loop, at most ``CHUNK_MESSAGES`` at a time, by the same calls
as a client's publishes. A replay waits where publishers would: for the store, for an alarm, for a
queue that stops them. docs/replay.md is its page.

Invariant: messages that the answer calls replayed are in the target queue, durably if they are
persistent; a replay that cannot go on says where it stopped, and why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
)
from starlette.requests import Request
from starlette.responses import Response

from hareline import events
from hareline.auth.users import User
from hareline.broker.vhost import VirtualHost, audit_only
from hareline.errors import AmqpError, NotFound, StoreError
from hareline.events import Report
from hareline.management.answers import Refusal, answer
from hareline.management.authentication import Authenticator
from hareline.management.bodies import parse_body, read_body
from hareline.management.routes import Route
from hareline.queues.core.enqueueing import archive_message, archives_of
from hareline.queues.core.kinds import DUPLICATE, KEEPS_ALL, KEEPS_NONE, TAKEN
from hareline.queues.queue import Queue
from hareline.selectors.error import SelectorError
from hareline.selectors.selector import Selector, compile_selector
from hareline.storage.replaying.range import PROBLEMS_MAX, Replayable, ReplayRange, TooManyMatches
from hareline.storage.replaying.source import ReplaySource, replayed
from hareline.wire.constants import SHORTSTR_MAX_OCTETS

PAUSE_S: Final = 0.05  # between two checks whether publishers may go on
_MS_PER_S: Final = 1000

T = TypeVar("T")


def instant_ms(value: object) -> int:
    """Epoch milliseconds from a client's value: a number of them, or ISO 8601 with a zone.

    Raises ValueError.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise ValueError("must be epoch milliseconds or ISO 8601 with a zone")
    if value.isascii() and value.isdigit():
        return int(value)
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(
            f"'{value}' is neither epoch milliseconds nor ISO 8601, such as 2026-01-05T10:00:00Z"
        ) from None
    if instant.tzinfo is None:
        raise ValueError(f"'{value}' has no zone: append Z for UTC, or an offset such as +01:00")
    since_epoch = instant - datetime.fromtimestamp(0, UTC)
    return (since_epoch.days * 86_400 + since_epoch.seconds) * _MS_PER_S + (
        since_epoch.microseconds // _MS_PER_S
    )


def _name(value: object) -> str:
    """A valid short string; octets that are not UTF-8 are surrogates, as in the broker."""
    if not isinstance(value, str):
        raise ValueError("should be a string")
    try:
        octets = value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ValueError("has characters that are not allowed in a name") from None
    if len(octets) > SHORTSTR_MAX_OCTETS:
        raise ValueError(f"is longer than {SHORTSTR_MAX_OCTETS} octets")
    return value


def _name_or_none(value: object) -> str | None:
    return None if value is None else _name(value)


Instant = Annotated[int, BeforeValidator(instant_ms)]
# Plain validators, because pydantic's own refuse surrogates.
Name = Annotated[str, PlainValidator(_name), WithJsonSchema({"type": "string"})]
MaybeName = Annotated[str | None, PlainValidator(_name_or_none), WithJsonSchema({"type": "string"})]


class ReplayRequest(BaseModel):
    """The body of a request; what each field means is in docs/replay.md."""

    model_config = ConfigDict(extra="forbid", strict=True)

    vhost: Name = "/"
    queue: Name
    from_ms: Instant = Field(alias="from", ge=0)
    to_ms: Instant = Field(alias="to", ge=0)
    to_queue: Name
    exchange: MaybeName = None
    routing_key: MaybeName = None
    selector: str | None = None
    limit: int | None = Field(default=None, ge=1)


@dataclass(slots=True)
class Outcome:
    """The end of a replay. ``first_ms``, ``last_ms``: arrivals of the replayed messages."""

    replayed: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    unreadable: int = 0
    kept_since_ms: int = 0
    problems: list[str] = field(default_factory=list)

    def fields(self) -> dict[str, Any]:
        return {
            "replayed": self.replayed,
            "first": _shown(self.first_ms),
            "last": _shown(self.last_ms),
            "unreadable": self.unreadable,
            "kept_since": _shown(self.kept_since_ms or None),
            "problems": self.problems,
        }


class ReplayService:
    """``source`` is None if nothing is on disk. ``is_paused``: publishers must wait."""

    def __init__(
        self,
        authenticator: Authenticator,
        vhosts: Mapping[str, VirtualHost],
        source: ReplaySource | None,
        is_paused: Callable[[], bool],
        report: Report,
    ) -> None:
        self._authenticator = authenticator
        self._vhosts = vhosts
        self._source = source
        self._is_paused = is_paused
        self._report = report
        self._is_busy = False

    def routes(self) -> list[Route]:
        text = self.replay.__doc__
        return [
            Route("POST /api/replay", self.replay, name="replay", text=text, body=ReplayRequest)
        ]

    async def replay(self, request: Request) -> Response:
        """Replay messages of a queue, of a span of time, into another queue."""
        await self._authenticator.administrator(request)
        try:
            wanted = parse_body(ReplayRequest, await read_body(request))
            user = await self._authenticator.administrator(request)  # the body may come slowly
            selector = _selector(wanted.selector)
            vhost, queue, queue_ids, source = self._find(wanted)
            if self._is_busy:
                raise Refusal(409, "busy", "another replay is running; ask again when it has ended")
            self._is_busy = True
            try:
                history = source.open(queue_ids, wanted.from_ms, wanted.to_ms)
                run = _Run(wanted, selector, vhost, queue, source, history)
                outcome = await self._run(run, user, request)
            finally:
                self._is_busy = False
        except Refusal as refusal:
            return refusal.answer()
        return answer(outcome.fields())

    def _find(self, wanted: ReplayRequest) -> tuple[VirtualHost, Queue, list[int], ReplaySource]:
        if wanted.from_ms >= wanted.to_ms:
            raise Refusal(400, "bad_request", "from: not before to")
        vhost = self._vhosts.get(wanted.vhost)
        if vhost is None:
            raise Refusal(404, "not_found", f"no vhost '{wanted.vhost}'")
        try:
            queue = vhost.queue(wanted.to_queue, None)
        except NotFound as error:
            raise Refusal(404, "not_found", f"to_queue: {error}") from None
        except AmqpError as error:
            raise Refusal(400, "bad_request", f"to_queue: {error}") from None
        if wanted.to_queue == vhost.routing.closed_queue:
            raise Refusal(403, "access_refused", f"to_queue: {audit_only(queue.name, vhost.name)}")
        source = self._source
        if source is None:
            raise Refusal(409, "not_kept", "storage.kind is memory: nothing is kept for a replay")
        if not source.is_kept:
            raise Refusal(
                409,
                "not_kept",
                "journal.retention_age_s and journal.retention_bytes are both 0: "
                "nothing is kept for a replay",
            )
        queue_ids = source.queue_ids(wanted.vhost, wanted.queue)
        if not queue_ids:
            reason = f"queue: no durable queue '{wanted.queue}' is or was in vhost '{wanted.vhost}'"
            raise Refusal(404, "not_found", reason)
        return vhost, queue, queue_ids, source

    async def _run(self, run: _Run, user: User, request: Request) -> Outcome:
        """All steps. Raises Refusal, with what was done until then, if it cannot go on."""
        wanted, outcome = run.wanted, run.outcome
        ended = "stopped with the broker"
        try:
            await run.look()
            while await run.publish_next():
                await self._wait_for_room(run, request)
            await run.wait_until_durable()
            ended = "complete"
        except (StoreError, TooManyMatches) as error:
            ended = str(error)
            status = 400 if isinstance(error, TooManyMatches) else 500
            word = "bad_request" if status == 400 else "journal_unreadable"
            raise Refusal(status, word, ended, details=outcome.fields()) from None
        except Refusal as refusal:
            ended = refusal.reason
            refusal.details |= outcome.fields()
            raise
        finally:
            run.close()
            self._report(
                events.REPLAY_ENDED,
                queue=wanted.queue,
                to_queue=wanted.to_queue,
                vhost=wanted.vhost,
                user=user.name,
                messages=outcome.replayed,
                outcome=ended,
            )
        return outcome

    async def _wait_for_room(self, run: _Run, request: Request) -> None:
        """Wait as a publisher would; stop if the client has disconnected."""
        while True:
            if await request.is_disconnected():
                raise Refusal(499, "client_gone", "the client has gone")
            if not self._is_paused() and not run.must_wait:
                return
            await asyncio.sleep(PAUSE_S)


class _Run:
    """One replay, step by step."""

    def __init__(
        self,
        wanted: ReplayRequest,
        selector: Selector | None,
        vhost: VirtualHost,
        queue: Queue,
        source: ReplaySource,
        history: ReplayRange,
    ) -> None:
        self.wanted = wanted
        self.outcome = Outcome()
        self._selector = selector
        self._clock = vhost.environment.clock
        self._store = vhost.environment.store
        self._queue = queue
        self._source = source
        self._history = history
        self._step: asyncio.Future[Any] | None = None
        self._ticket = 0

    def close(self) -> None:
        """Release the files once no thread reads them."""
        if self._step is not None and not self._step.done():
            self._step.add_done_callback(lambda _: self._history.close())
        else:
            self._history.close()

    async def _in_thread(self, step: Callable[[], T]) -> T:
        running = asyncio.ensure_future(asyncio.to_thread(step))
        self._step = running
        return await asyncio.shield(running)

    # ------------------------------------------------------------------------- looking

    async def look(self) -> None:
        """Find the messages of the span in the journal."""
        history, outcome = self._history, self.outcome
        while await self._in_thread(history.look):
            continue
        outcome.kept_since_ms = history.kept_since_ms
        if history.kept_since_ms > self.wanted.from_ms:
            kept_since = _shown(history.kept_since_ms)
            outcome.problems.append(
                f"what arrived before {kept_since} may not all be kept any more"
            )

    # ---------------------------------------------------------------------- publishing

    @property
    def must_wait(self) -> bool:
        overflow = self._queue.overflow
        return self._store.is_behind or (overflow is not None and overflow.stops_publishers)

    async def publish_next(self) -> bool:
        """Read a piece and publish it; False when that was all."""
        records = await self._in_thread(self._history.read)
        self._note_problems()
        if records is None:
            return False
        self._clock.refresh()
        for record in records:
            if self.wanted.limit is not None and self.outcome.replayed >= self.wanted.limit:
                return False
            self._publish(record)
        return True

    def _publish(self, record: Replayable) -> None:
        wanted, outcome = self.wanted, self.outcome
        try:
            message = self._source.message_of(record)
            address = message.address
            if (
                (wanted.exchange is not None and address.exchange != wanted.exchange)
                or (wanted.routing_key is not None and address.routing_key != wanted.routing_key)
                or (self._selector is not None and not self._selector.matches(message))
            ):
                return
            arrival_ms = message.arrival_ms
            message = replayed(message, wanted.queue, self._clock.now_ms)
        except AmqpError as error:  # damaged, or without its large body
            outcome.unreadable += 1
            self._complain(str(error))
            return
        queue = self._queue
        before = f"stopped before the message that arrived at {_shown(arrival_ms)}: "
        self._check_target(message.position != 0, before)
        taken = queue.put(message)
        if taken == DUPLICATE:
            return
        if taken != TAKEN:
            raise Refusal(409, "refused", f"{before}queue '{queue.name}' is at its limit")
        archive_message(message, (queue,))
        outcome.replayed += 1
        outcome.last_ms = arrival_ms
        if outcome.first_ms is None:
            outcome.first_ms = arrival_ms
        self._ticket = self._store.ticket

    def _check_target(self, is_persistent: bool, before: str) -> None:
        queue, store = self._queue, self._store
        if queue.is_deleted:
            raise Refusal(404, "not_found", f"{before}queue '{queue.name}' is gone")
        is_kept = any(
            each.keeps == KEEPS_ALL or (is_persistent and each.keeps != KEEPS_NONE)
            for each in (queue, *archives_of((queue,)))
        )
        if is_kept and store.refusal:
            raise Refusal(503, "not_stored", f"{before}it cannot be stored: {store.refusal}")

    def _note_problems(self) -> None:
        history = self._history
        for problem in history.problems:
            self._complain(problem)
        history.problems.clear()
        self.outcome.unreadable += history.unreadable
        history.unreadable = 0

    def _complain(self, problem: str) -> None:
        if len(self.outcome.problems) < PROBLEMS_MAX:
            self.outcome.problems.append(problem)

    async def wait_until_durable(self) -> None:
        """Raises Refusal if the messages are only in memory, because the store has failed."""
        is_durable = asyncio.Event()
        if self._ticket:
            self._store.when_durable(self._ticket, is_durable.set)
            await is_durable.wait()
        if self._store.failure:
            raise Refusal(503, "not_stored", f"not stored durably: {self._store.failure}")


def _selector(text: str | None) -> Selector | None:
    if text is None or not text.strip():  # JMS: an empty one selects everything
        return None
    try:
        return compile_selector(text)
    except SelectorError as error:
        raise Refusal(400, "bad_request", f"selector: {error}") from None


def _shown(epoch_ms: int | None) -> str | None:
    """ISO 8601 in UTC, with milliseconds."""
    if epoch_ms is None:
        return None
    try:
        instant = datetime.fromtimestamp(epoch_ms // _MS_PER_S, UTC)
    except (OverflowError, ValueError, OSError):  # a clock gone mad
        return str(epoch_ms)
    return f"{instant:%Y-%m-%dT%H:%M:%S}.{epoch_ms % _MS_PER_S:03}Z"
