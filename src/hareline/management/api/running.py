"""Operations on many messages, run for a request: in shares, with progress, ended by its client.

An operation is a generator of small steps (``broker.operations``). ``run`` takes its steps
within the pace of all long answers, waits while the store does not keep up, and stops when the
client closes its connection: what was done until then stays done, and is in the log. With
``?progress=true`` the answer is a line of JSON each half second, the last of which is the result.

Invariant: the answer comes when what was done is durable. An operation that ends early, because a
right, its user or its virtual host is gone, answers with what it has done until then too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final

from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from hareline import events
from hareline.broker.operations.moving import Outcome
from hareline.broker.operations.targets import REASONS
from hareline.errors import AmqpError
from hareline.management.api.answers import amqp_refusal, answer
from hareline.management.api.changing import Entered, wait_until_durable
from hareline.management.api.listing import flag
from hareline.management.pace import pace_of
from hareline.management.refusals import Refusal
from hareline.management.strict_json import encoded

PROGRESS_S: Final = 0.5
STORE_PAUSE_S: Final = 0.02
LINES: Final = "application/x-ndjson"


def outcome_json(verb: str, outcome: Outcome) -> dict[str, Any]:
    """What was done: ``{"moved": 3, "refused": {...}}`` and the like."""
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
    entered: Entered,
    request: Request,
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
        queue = entered.vhost.queues.get(queue_name)
        if outcome.done and queue is not None:
            event = "queue.purged" if operation == "purge" else f"messages.{verb}"
            entered.note(event, queue, messages=outcome.done)
        entered.site.context.report(
            events.QUEUE_OPERATION,
            operation=operation,
            queue=queue_name,
            vhost=entered.vhost.name,
            user=entered.user.name,
            messages=outcome.done,
            refused=outcome.refused.total(),
        )

    if flag(request, "progress"):
        lines = _with_progress(entered, request, steps, outcome, result, report)
        return StreamingResponse(lines, media_type=LINES)
    try:
        await run_to_end(entered, request, steps)
        await wait_until_durable(entered.vhost, outcome.ticket)
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


async def run_to_end(entered: Entered, request: Request, steps: Iterator[None]) -> None:
    """Take all steps of something that only looks. Raises Refusal if the client has gone."""
    async with aclosing(in_shares(entered, request, steps)) as shares:
        async for _ in shares:
            continue


async def _with_progress(
    entered: Entered,
    request: Request,
    steps: Iterator[None],
    outcome: Outcome,
    result: Callable[[], Mapping[str, Any]],
    report: Callable[[], None],
) -> AsyncIterator[bytes]:
    try:
        async with aclosing(in_shares(entered, request, steps, watches=False)) as shares:
            async for _ in shares:
                yield encoded({**result(), "offsets": [], "complete": False}) + b"\n"
        await wait_until_durable(entered.vhost, outcome.ticket)
    except (Refusal, AmqpError) as error:
        refusal = ended_early(error, result())
        yield encoded({"error": refusal.error, "reason": refusal.reason, **refusal.details}) + b"\n"
        return
    finally:
        report()
    yield encoded({**result(), "complete": True}) + b"\n"


async def in_shares(
    entered: Entered,
    request: Request,
    steps: Iterator[None],
    *,
    watches: bool = True,
    is_full: Callable[[], bool] = lambda: False,
) -> AsyncGenerator[None, None]:
    """Take all steps; yields now and then, for progress, and when the caller's buffer ``is_full``.

    ``watches``: look whether the client has gone; not where something else reads from it. Raises
    Refusal then, and Refusal or AccessRefused if the user may not go on (``Entered.renew``).
    """
    loop = asyncio.get_running_loop()
    context, store = entered.site.context, entered.vhost.environment.store
    due_s = loop.time() + PROGRESS_S
    try:
        async with pace_of(request).share() as share:
            entered.renew()
            for _ in steps:
                has_filled = is_full()
                if not has_filled and not share.is_used_up:
                    continue
                share.leave()
                await asyncio.sleep(0)
                while True:
                    if has_filled or loop.time() >= due_s:
                        yield
                        if watches and await request.is_disconnected():
                            raise Refusal(499, "client_gone", "the client has gone")
                        has_filled = False
                        due_s = loop.time() + PROGRESS_S
                    if not store.is_behind or store.failure:
                        break
                    await asyncio.sleep(STORE_PAUSE_S)
                await share.come_back()
                context.clock.refresh()
                entered.renew()
    finally:
        if isinstance(steps, Generator):
            steps.close()
