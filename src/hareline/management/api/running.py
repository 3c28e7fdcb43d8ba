"""Operations on many messages, run for a request: in shares, with progress, ended by its client.

An operation is a generator of small steps (``broker.operations``). ``run`` takes them within the
pace of all long answers, waits while the store does not keep up, and stops when the client closes
its connection. With ``?progress=true`` the answer is a line of JSON each half second, the last of
which is the result.

Invariants: a request that names no messages takes none; the answer comes when what was done is
durable; an operation that ends early answers with what it has done until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from hareline import events
from hareline.broker.operations.moving import Outcome
from hareline.broker.operations.selecting import Selection
from hareline.broker.operations.targets import REASONS
from hareline.errors import AmqpError
from hareline.management.answers import Refusal, amqp_refusal, answer, bad_request, encoded
from hareline.management.api.call import Call
from hareline.management.routes import parameter
from hareline.selectors.error import SelectorError
from hareline.selectors.selector import Selector, compile_selector

PROGRESS_S: Final = 0.5
STORE_PAUSE_S: Final = 0.02
LINES: Final = "application/x-ndjson"
OFFSETS_MAX: Final = 10_000
BODY_MAX_BYTES: Final = 262_144  # room for ``OFFSETS_MAX`` of the largest offsets
NUMBER_MAX: Final = 2**63 - 1
SELECTOR_MAX: Final = 16_384  # characters, which are compiled in some ms

Offset = Annotated[int, Field(ge=0, le=NUMBER_MAX)]
Model = TypeVar("Model", bound=BaseModel)


class OperationBody(BaseModel):
    """A body that takes no field that it does not know."""

    model_config = ConfigDict(extra="forbid")


class SelectionBody(OperationBody):
    """The messages: those of these offsets, for which the selector is true; the first of them.

    At least one of the fields has to be there, so that no slip takes all messages; ``all`` says
    that all are meant.
    """

    offsets: list[Offset] | None = Field(default=None, max_length=OFFSETS_MAX)
    selector: str | None = None
    limit: int | None = Field(default=None, ge=1, le=NUMBER_MAX)
    all: bool = False


class RefusedMessages(BaseModel):
    """Messages that stay where they are, and why."""

    count: int
    reason: str


class OperationResult(BaseModel):
    """``moved``, ``copied``, ``deleted``, ``retried`` or ``imported``: how many messages.

    ``offsets``: those of the first thousand of them. ``left``: had gone when it was their turn.
    """

    model_config = ConfigDict(extra="allow")

    bytes: int
    offsets: list[int]
    refused: dict[str, RefusedMessages]
    left: int


#: Of rows of operations on many messages.
OPERATION: Final[dict[str, Any]] = {
    "gives": OperationResult,
    "body_max": BODY_MAX_BYTES,
    "parameters": [
        parameter(
            "progress",
            "boolean",
            "Whether to answer with lines of JSON while the operation goes on.",
        )
    ],
}


def selection_of(asked: SelectionBody) -> Selection:
    """The messages that a request is about. Raises Refusal if it does not say which."""
    if asked.offsets is None and asked.selector is None and asked.limit is None and not asked.all:
        raise bad_request("say which messages: offsets, selector, limit, or all: true")
    return Selection(
        None if asked.offsets is None else frozenset(asked.offsets),
        selector_of(asked.selector),
        asked.limit,
    )


def selector_of(text: str | None) -> Selector | None:
    """The selector of a request; None for none. Raises Refusal for one that is not valid."""
    if text is None or not text.strip():  # JMS: an empty one selects everything
        return None
    if len(text) > SELECTOR_MAX:
        raise bad_request(f"selector: longer than {SELECTOR_MAX} characters")
    try:
        return compile_selector(text)
    except SelectorError as error:
        raise bad_request(f"selector: {error}") from None


def outcome_json(verb: str, outcome: Outcome) -> dict[str, Any]:
    """Return the outcome as JSON: ``{"moved": 3, "refused": {...}}`` and the like."""
    return {
        verb: outcome.done,
        "bytes": outcome.octets,
        "offsets": outcome.offsets,
        "refused": {
            word: {"count": count, "reason": REASONS[word]}
            for word, count in sorted(outcome.refused.items())
        },
        "left": outcome.left,
    }


async def run(
    call: Call,
    queue_name: str,
    operation: str,
    verb: str,
    steps: Iterator[None],
    outcome: Outcome,
) -> Response:
    """The answer to a request for this operation, which changes messages of a queue."""

    def result() -> dict[str, Any]:
        return outcome_json(verb, outcome)

    def report() -> None:
        queue = call.vhost.queues.get(queue_name)
        if outcome.done and queue is not None:
            event = "queue.purged" if operation == "purge" else f"messages.{verb}"
            call.note(event, queue, messages=outcome.done)
        call.site.context.report(
            events.QUEUE_OPERATION,
            operation=operation,
            queue=queue_name,
            vhost=call.vhost.name,
            user=call.by,
            messages=outcome.done,
            refused=outcome.refused.total(),
        )

    if call.flag("progress"):
        lines = _with_progress(call, steps, outcome, result, report)
        return StreamingResponse(lines, media_type=LINES)
    try:
        await run_to_end(call, steps)
        await call.wait_until_durable(outcome.ticket)
    except (Refusal, AmqpError) as error:
        raise ended_early(error, result()) from None
    finally:
        report()
    return answer(result())


def ended_early(error: Refusal | AmqpError, result: Mapping[str, Any]) -> Refusal:
    """The refusal that ends an operation, with what was done until then."""
    refusal = error if isinstance(error, Refusal) else amqp_refusal(error)
    return Refusal(
        refusal.status,
        refusal.error,
        refusal.reason,
        headers=refusal.headers,
        details={**refusal.details, **result},
    )


async def run_to_end(call: Call, steps: Iterator[None]) -> None:
    """Take all steps of something that only looks. Raises Refusal if the client has gone."""
    async with aclosing(in_shares(call, steps)) as shares:
        async for _ in shares:
            continue


async def _with_progress(
    call: Call,
    steps: Iterator[None],
    outcome: Outcome,
    result: Callable[[], Mapping[str, Any]],
    report: Callable[[], None],
) -> AsyncIterator[bytes]:
    try:
        async with aclosing(in_shares(call, steps, watches=False)) as shares:
            async for _ in shares:
                yield encoded({**result(), "offsets": [], "complete": False}) + b"\n"
        await call.wait_until_durable(outcome.ticket)
    except (Refusal, AmqpError) as error:
        refusal = ended_early(error, result())
        yield encoded({"error": refusal.error, "reason": refusal.reason, **refusal.details}) + b"\n"
        return
    finally:
        report()
    yield encoded({**result(), "complete": True}) + b"\n"


async def in_shares(
    call: Call,
    steps: Iterator[None],
    *,
    watches: bool = True,
    is_full: Callable[[], bool] = lambda: False,
) -> AsyncGenerator[None, None]:
    """Take all steps; yields now and then, for progress, and when the caller's buffer ``is_full``.

    ``watches``: look whether the client has gone; not where something else reads from it. Raises
    Refusal then, and Refusal or AccessRefused if the user may not go on (``Call.renew``).
    """
    loop = asyncio.get_running_loop()
    context, store = call.site.context, call.vhost.environment.store
    due_s = loop.time() + PROGRESS_S
    try:
        async with call.pace.share() as share:
            call.renew()
            for _ in steps:
                has_filled = is_full()
                if not has_filled and not share.is_used_up:
                    continue
                share.leave()
                await asyncio.sleep(0)
                while True:
                    if has_filled or loop.time() >= due_s:
                        yield
                        if watches and await call.request.is_disconnected():
                            raise Refusal(499, "client_gone", "the client has gone")
                        has_filled = False
                        due_s = loop.time() + PROGRESS_S
                    if not store.is_behind or store.failure:
                        break
                    await asyncio.sleep(STORE_PAUSE_S)
                await share.come_back()
                context.clock.refresh()
                call.renew()
    finally:
        if isinstance(steps, Generator):
            steps.close()
