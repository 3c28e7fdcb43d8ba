"""Queues changed while they work: arguments, pause and resume, groups, held messages, readers.

Paths of ours below ``/api/queues/{vhost}/{queue}`` (and the delayed messages of an exchange). A
change needs what declaring such a queue needs, configure on it and the rights for what its
arguments name; a look needs read. docs/queue-operations.md is the page.

Invariant: as of ``api.changing``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from hareline import events
from hareline.amqp.rights import require_queue_rights
from hareline.auth.permissions import Right
from hareline.broker.delayed_exchange import DelayedExchange
from hareline.broker.delayed_queues import delay_queue_name
from hareline.broker.live_settings import overlaid
from hareline.broker.operations.holding import Due, cancel_held, held, make_held_due
from hareline.broker.operations.moving import Outcome
from hareline.broker.operations.walking import messages_of, read_together
from hareline.broker.stream_queue import stream_of
from hareline.management.api.answers import answer, no_content
from hareline.management.api.changing import (
    Entered,
    bad_request,
    check_open,
    enter,
    enter_with_body,
    exchange_name_in,
    queue_name_in,
    settle_definitions,
)
from hareline.management.api.listing import Pieces, natural
from hareline.management.api.message_json import Shown, browsed_json
from hareline.management.api.openapi import body_route, one_route
from hareline.management.api.running import run, run_to_end
from hareline.management.api.selections import BODY_MAX_BYTES as HELD_BODY_MAX_BYTES
from hareline.management.api.selections import (
    OFFSETS_MAX,
    Offset,
    OperationBody,
    operation_route,
)
from hareline.management.api.site import Site
from hareline.management.bodies import Arguments, answer_under_way, parse_body
from hareline.management.pace import Share, pace_of
from hareline.management.refusals import Refusal
from hareline.management.strict_json import encoded
from hareline.message import Table
from hareline.queues.core.consumer import Consumer
from hareline.queues.core.entry import PARKED
from hareline.queues.core.groups import Group
from hareline.queues.declare.arguments import QueueArguments, parse_queue_arguments
from hareline.queues.dispatch.reading import ReadingLane
from hareline.queues.dispatch.selective import SelectiveLane
from hareline.queues.paused import is_paused, working_lane
from hareline.queues.queue import Queue

COUNT_MAX: Final = 1_000
_SHOWN_BYTES: Final = 50_000  # of the body of a held message
_MS_PER_S: Final = 1_000
_COUNTED_AT_ONCE: Final = 4_096  # messages of a group: some 0.2 ms


class ChangeBody(OperationBody):
    """Arguments to change: null takes one away. The others stay as they are."""

    arguments: Arguments


class ArgumentsInForce(BaseModel):
    """``arguments``: as declared. ``changes``: what operators have changed, null is taken away.
    ``effective``: what the queue goes by, with policies."""

    arguments: dict[str, Any]
    changes: dict[str, Any]
    effective: dict[str, Any]


class GroupInfo(BaseModel):
    """A message group. ``owner``: the tag of the consumer that its messages go to.

    ``outstanding``: messages that a consumer has; ``parked``: those that wait for the owner.
    """

    group: Any
    owner: str | None
    outstanding: int
    parked: int


class GroupsBody(OperationBody):
    """Groups to reset; null: all."""

    groups: list[Any] | None = None


class HeldBody(OperationBody):
    """Which held messages: these, or all."""

    offsets: list[Offset] | None = Field(default=None, max_length=OFFSETS_MAX)
    all: bool = False


class HeldPage(BaseModel):
    """Held messages, the first to be due first. ``position``: for the next page."""

    messages: list[dict[str, Any]]
    position: str | None
    held: int


class ReaderInfo(BaseModel):
    """Who reads a stream, and how far it is behind. ``kind``: ``consumer`` or ``reader``.

    Readers only: ``age_s``, seconds since the reader said where it is, and ``pin``, whether
    retention waits for it.
    """

    kind: str
    name: str
    offset: int
    lag: int
    age_s: float | None = None
    pin: bool | None = None


_COUNT_PARAMETERS: Final = [
    {"name": "count", "in": "query", "schema": {"type": "integer", "maximum": COUNT_MAX}},
    {"name": "position", "in": "query", "schema": {"type": "string"}},
]


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["queue operations"])
    of_queue = "/api/queues/{vhost}/{queue}"
    of_exchange = "/api/exchanges/{vhost}/{exchange}/delayed"

    @router.patch(of_queue, **body_route(ChangeBody, {200: {"model": ArgumentsInForce}}))
    async def change(request: Request) -> Response:
        """Change arguments of a queue while it works."""
        entered, octets = await enter_with_body(site, request)
        queue = _queue_in(entered, request, "configure")
        asked = parse_body(ChangeBody, octets)
        return answer(await _change(entered, queue, asked.arguments))

    @router.get(f"{of_queue}/arguments", **one_route(ArgumentsInForce))
    async def arguments(request: Request) -> Response:
        """What a queue was declared with, what was changed, and what it goes by."""
        entered, queue = await _queue(site, request, "read")
        return answer(_in_force(entered, queue))

    @router.api_route(f"{of_queue}/pause", methods=["POST"], response_model=None, status_code=204)
    async def pause(request: Request) -> Response:
        """Stop deliveries from a queue; publishing goes on. It stays paused over a restart."""
        return await _pause(site, request, paused=True)

    @router.api_route(f"{of_queue}/resume", methods=["POST"], response_model=None, status_code=204)
    async def resume(request: Request) -> Response:
        """Let deliveries from a paused queue go on."""
        return await _pause(site, request, paused=False)

    for path, endpoint in (("pause", pause), ("resume", resume)):  # as LavinMQ has them
        router.add_api_route(
            f"{of_queue}/{path}",
            endpoint,
            methods=["PUT"],
            response_model=None,
            status_code=204,
            name=f"put_{path}",
        )

    @router.get(f"{of_queue}/groups", **one_route(list[GroupInfo]))
    async def groups(request: Request) -> Response:
        """The message groups of a queue."""
        _, queue = await _queue(site, request, "read")
        found = Pieces()
        async with pace_of(request).share() as share:
            for group in _groups_of(queue):
                if group.owner is not None or not group.is_idle:
                    parked = await _count_parked(group, share)
                    found.add(encoded(_group_json(group, parked)))
                await share.pause()
        return found.answer(b"[", b"]")

    @router.post(
        f"{of_queue}/groups/reset", **body_route(GroupsBody, {200: {"description": "How many"}})
    )
    async def reset_groups(request: Request) -> Response:
        """Let the next message of groups go to any consumer."""
        entered, octets = await enter_with_body(site, request)
        queue = _queue_in(entered, request, "configure")
        check_open(entered, queue)
        asked = parse_body(GroupsBody, octets or b"{}")
        wanted = None if asked.groups is None else {_group_key(each) for each in asked.groups}
        count = 0
        async with pace_of(request).share() as share:
            for group in _groups_of(queue):
                lane = working_lane(queue.lane)
                if isinstance(lane, SelectiveLane) and (wanted is None or group.key in wanted):
                    count += lane.free_group(group)
                await share.pause()
        _report_change(entered, queue, f"{count} message groups were reset")
        return answer({"reset": count})

    @router.get(
        f"{of_queue}/held",
        **one_route(HeldPage),
        openapi_extra={"parameters": _COUNT_PARAMETERS},
    )
    async def held_messages(request: Request) -> Response:
        """The messages of a queue that are not valid yet."""
        entered, queue = await _queue(site, request, "read")
        return await _held_page(entered, queue, request)

    @router.post(f"{of_queue}/held/cancel", **operation_route(HeldBody))
    async def cancel(request: Request) -> Response:
        """Delete held messages."""
        entered, octets = await enter_with_body(site, request, HELD_BODY_MAX_BYTES)
        queue = _queue_in(entered, request, "read")
        return await _end_hold(entered, queue, request, octets, is_cancelled=True)

    @router.post(f"{of_queue}/held/fire", **operation_route(HeldBody))
    async def fire(request: Request) -> Response:
        """Make held messages valid now."""
        entered, octets = await enter_with_body(site, request, HELD_BODY_MAX_BYTES)
        queue = _queue_in(entered, request, "configure")
        return await _end_hold(entered, queue, request, octets, is_cancelled=False)

    @router.get(of_exchange, **one_route(HeldPage), openapi_extra={"parameters": _COUNT_PARAMETERS})
    async def delayed_messages(request: Request) -> Response:
        """The messages that an x-delayed-message exchange delays."""
        entered = await enter(site, request)
        return await _held_page(entered, _delay_queue_in(entered, request, "read"), request)

    @router.post(f"{of_exchange}/cancel", **operation_route(HeldBody))
    async def cancel_delayed(request: Request) -> Response:
        """Delete messages that an exchange delays."""
        entered, octets = await enter_with_body(site, request, HELD_BODY_MAX_BYTES)
        queue = _delay_queue_in(entered, request, "configure")
        return await _end_hold(entered, queue, request, octets, is_cancelled=True)

    @router.post(f"{of_exchange}/fire", **operation_route(HeldBody))
    async def fire_delayed(request: Request) -> Response:
        """Have an exchange send delayed messages on now."""
        entered, octets = await enter_with_body(site, request, HELD_BODY_MAX_BYTES)
        queue = _delay_queue_in(entered, request, "configure")
        return await _end_hold(entered, queue, request, octets, is_cancelled=False)

    @router.get(f"{of_queue}/readers", **one_route(list[ReaderInfo]))
    async def readers(request: Request) -> Response:
        """Who reads a stream: consumers and readers over HTTP, and how far each is behind."""
        entered, queue = await _queue(site, request, "read")
        found = Pieces()
        async with pace_of(request).share() as share:
            for row in _readers(entered, queue):
                found.add(encoded(row))
                await share.pause()
        return found.answer(b"[", b"]")

    return router


async def _queue(site: Site, request: Request, right: Right) -> tuple[Entered, Queue]:
    """The user, and the queue on which it has this right. Raises Refusal."""
    entered = await enter(site, request)
    return entered, _queue_in(entered, request, right)


def _queue_in(entered: Entered, request: Request, right: Right) -> Queue:
    """The queue of the path, on which the user has this right. Raises Refusal."""
    return entered.queue(queue_name_in(request), right)


def _delay_queue_in(entered: Entered, request: Request, right: Right) -> Queue:
    """The queue of the exchange of the path, on which the user has this right. Raises Refusal."""
    name = exchange_name_in(request)
    exchange = entered.exchange(name, right)
    if not isinstance(exchange, DelayedExchange):
        raise bad_request(f"exchange '{name}' is not of type x-delayed-message")
    queue = entered.vhost.queues.get(delay_queue_name(name))
    if queue is None:
        reason = f"exchange '{name}' has no delayed messages any more: it is being deleted"
        raise Refusal(404, "not_found", reason)
    return queue


# ----------------------------------------------------------------------------------- arguments


async def _change(entered: Entered, queue: Queue, changes: Table) -> dict[str, Any]:
    check_open(entered, queue)
    vhost = entered.vhost
    live = vhost.live_arguments
    after: QueueArguments = parse_queue_arguments(
        overlaid(live.own(queue), changes), queue=queue.name, vhost=vhost.name
    )
    require_queue_rights(entered.access, vhost, queue.name, after)
    live.change(queue, changes)
    in_force = _in_force(entered, queue)
    await settle_definitions(entered)
    entered.note("queue.changed", queue, changes=dict(changes))
    _report_change(entered, queue, ", ".join(sorted(changes)) or "nothing")
    return in_force


def _in_force(entered: Entered, queue: Queue) -> dict[str, Any]:
    live = entered.vhost.live_arguments
    return {
        "arguments": queue.arguments,
        "changes": live.changes_of(queue),
        "effective": live.in_force(queue).raw,
    }


async def _pause(site: Site, request: Request, *, paused: bool) -> Response:
    entered, queue = await _queue(site, request, "configure")
    if paused:
        check_open(entered, queue)
    is_change = is_paused(queue) != paused
    if is_change:
        entered.vhost.live_arguments.set_paused(queue, paused=paused)
    await settle_definitions(entered)
    if is_change:
        entered.note("queue.paused" if paused else "queue.resumed", queue)
        _report_change(entered, queue, "paused" if paused else "resumed")
    return no_content()


def _report_change(entered: Entered, queue: Queue, what: str) -> None:
    entered.site.context.report(
        events.QUEUE_CHANGED,
        queue=queue.name,
        vhost=entered.vhost.name,
        user=entered.user.name,
        what=what,
    )


# -------------------------------------------------------------------------------------- groups


def _groups_of(queue: Queue) -> list[Group]:
    lane = working_lane(queue.lane)
    return lane.groups() if isinstance(lane, SelectiveLane) else []


async def _count_parked(group: Group, share: Share) -> int:
    """How many of its messages wait, which may be all that are in the queue."""
    count = 0
    for parked in list(group.runs.values()):
        ranked = parked.ranked()
        for start in range(0, len(ranked), _COUNTED_AT_ONCE):
            part = ranked[start : start + _COUNTED_AT_ONCE]
            count += sum(entry.state == PARKED for _, entry in part)
            await share.pause()
    return count


def _group_json(group: Group, parked: int) -> dict[str, Any]:
    owner = group.owner
    return {
        "group": group.key if isinstance(group.key, str) else group.key[1],
        "owner": owner.tag
        if isinstance(owner, Consumer)
        else None
        if owner is None
        else str(owner),
        "outstanding": group.outstanding,
        "parked": parked,
    }


def _group_key(given: Any) -> Any:
    """The key of a group as ``GroupKeys`` reads it from a header."""
    if isinstance(given, str):
        return given
    if isinstance(given, int | float) and not isinstance(given, bool):
        return (type(given).__name__, given)
    raise bad_request("groups: each is a text or a number")


# ------------------------------------------------------------------------------- held messages


async def _held_page(entered: Entered, queue: Queue, request: Request) -> Response:
    count = natural(request, "count", 50, 1, COUNT_MAX)
    after = _held_position(request.query_params.get("position"))
    found: list[Due] = []
    await run_to_end(entered, request, held(queue, found, count=count + 1, after=after))
    page, more = found[:count], found[count:]
    times = iter([due_ms for due_ms, _, _ in page])
    shown, how = Pieces(), Shown(truncate=_SHOWN_BYTES)
    message_max = entered.site.context.limits.max_message_bytes
    with answer_under_way(request, message_max) as under_way:
        async with pace_of(request).share() as share:
            for part in read_together(queue, [entry for _, _, entry in page]):
                for entry, message in zip(part, messages_of(queue, part), strict=True):
                    row = {"due_ms": next(times), **browsed_json(entry, message, how)}
                    shown.add(encoded(row))
                    under_way.resize(shown.size)
                    await share.pause()
        position = f"{page[-1][0]}-{page[-1][1]}" if more else None
        rest = encoded({"position": position, "held": queue.held_count})
        return shown.answer(b'{"messages":[', b"]," + rest[1:], under_way)


def _held_position(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    due_ms, _, offset = text.partition("-")
    if not all(part.isascii() and part.isdigit() and len(part) <= 20 for part in (due_ms, offset)):
        raise bad_request(f"position: '{text[:80]}' is not the position of a page")
    return int(due_ms), int(offset)


async def _end_hold(
    entered: Entered, queue: Queue, request: Request, octets: bytes, *, is_cancelled: bool
) -> Response:
    asked = parse_body(HeldBody, octets or b"{}")
    if asked.offsets is None and not asked.all:
        raise bad_request("say which messages: offsets, or all: true")
    offsets = None if asked.offsets is None else frozenset(asked.offsets)
    outcome = Outcome()
    steps = (cancel_held if is_cancelled else make_held_due)(queue, offsets, outcome)
    operation, verb = ("cancel", "cancelled") if is_cancelled else ("fire", "fired")
    return await run(entered, request, queue.name, operation, verb, steps, outcome)


# ------------------------------------------------------------------------------------- readers


def _readers(entered: Entered, queue: Queue) -> Iterator[dict[str, Any]]:
    """Consumers by their tags, then readers over HTTP by their names. Raises Refusal."""
    stream, lane = stream_of(queue), working_lane(queue.lane)
    if stream is None or not isinstance(lane, ReadingLane):
        raise bad_request(f"queue '{queue.name}' is not a stream")
    end, readers = stream.next, entered.vhost.readers
    now_ms = entered.vhost.environment.clock.now_ms
    places, positions = lane.places(), sorted(readers.positions(queue).items())
    for consumer, offset in places:
        yield _reader_json("consumer", consumer.tag, offset, end)
    for name, position in positions:
        yield {
            **_reader_json("reader", name, position.offset, end),
            "age_s": max(0, now_ms - position.put_ms) / _MS_PER_S,
            "pin": readers.is_pinned(queue, position),
        }


def _reader_json(kind: str, name: str, offset: int, end: int) -> dict[str, Any]:
    return {"kind": kind, "name": name, "offset": offset, "lag": max(0, end - offset)}
