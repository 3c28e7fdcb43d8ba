"""Queues changed while they work: arguments, pause and resume, groups, held messages, readers.

Paths of ours below ``/api/queues/{vhost}/{queue}`` (and the delayed messages of an exchange). A
change needs what declaring such a queue needs, configure on it and the rights for what its
arguments name; a look needs read. docs/queue-operations.md is the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel, Field
from starlette.responses import Response

from hareline import events
from hareline.amqp.rights import require_queue_rights
from hareline.auth.permissions import Right
from hareline.broker.delayed_exchange import DelayedExchange
from hareline.broker.delayed_queues import delay_queue_name
from hareline.broker.operations.holding import Due, cancel_held, held, make_held_due
from hareline.broker.operations.moving import Outcome
from hareline.broker.operations.walking import messages_of, read_together
from hareline.broker.stream_queue import stream_of
from hareline.management.answers import answer, bad_request, encoded, no_content, not_found
from hareline.management.api.call import Call, Routes
from hareline.management.api.listing import Pieces
from hareline.management.api.message_json import Shown, browsed_json
from hareline.management.api.running import (
    OFFSETS_MAX,
    OPERATION,
    Offset,
    OperationBody,
    run,
    run_to_end,
)
from hareline.management.bodies import Arguments, parse_body
from hareline.management.pace import Share
from hareline.message import Table
from hareline.queues.core.consumer import Consumer
from hareline.queues.core.entry import PARKED
from hareline.queues.core.groups import Group
from hareline.queues.declare.arguments import overlaid, parse_queue_arguments
from hareline.queues.declare.table import QueueArguments
from hareline.queues.dispatch.reading import ReadingLane
from hareline.queues.dispatch.selective import SelectiveLane
from hareline.queues.policies.delay import Delay
from hareline.queues.policies.schedule import SHOWN_TIMES, Schedule
from hareline.queues.queue import Queue

routes = Routes("queue operations", enters=True)

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
    """The held messages: these, and those of these schedules; or all."""

    offsets: list[Offset] | None = Field(default=None, max_length=OFFSETS_MAX)
    schedules: list[str] | None = Field(default=None, max_length=OFFSETS_MAX)
    all: bool = False


class HeldPage(BaseModel):
    """Held messages, the first to be due first. ``position``: for the next page.

    A message that an exchange sends again and again has its times in ``schedule``.
    """

    messages: list[dict[str, Any]]
    position: str | None
    held: int


class ReaderInfo(BaseModel):
    """A reader of a stream, and its distance from the end. ``kind``: ``consumer`` or ``reader``.

    Readers only: ``age_s``, seconds since the reader said where it is, and ``pin``, whether
    retention waits for it.
    """

    kind: str
    name: str
    offset: int
    lag: int
    age_s: float | None = None
    pin: bool | None = None


_COUNT: Final = (
    {"name": "count", "in": "query", "schema": {"type": "integer", "maximum": COUNT_MAX}},
    {"name": "position", "in": "query", "schema": {"type": "string"}},
)
_OF_QUEUE: Final = "/api/queues/{vhost}/{queue}"
_DELAYED: Final = "/api/exchanges/{vhost}/{exchange}/delayed"


@routes(f"PATCH {_OF_QUEUE}", body=ChangeBody, gives=ArgumentsInForce)
async def change(call: Call) -> Response:
    """Change arguments of a queue while it works."""
    queue = call.queue_in_path("configure")
    asked = parse_body(ChangeBody, call.octets)
    return answer(await _change(call, queue, asked.arguments))


@routes(f"GET {_OF_QUEUE}/arguments", gives=ArgumentsInForce)
async def arguments(call: Call) -> Response:
    """Tell the arguments a queue was declared with, those changed, and those it goes by."""
    return answer(_in_force(call, call.queue_in_path("read")))


@routes(f"PUT {_OF_QUEUE}/pause", name="put_pause", status=204, has_problems=False)
@routes(f"POST {_OF_QUEUE}/pause", status=204, has_problems=False)
async def pause(call: Call) -> Response:
    """Stop deliveries from a queue; publishing goes on. It stays paused over a restart."""
    return await _pause(call, paused=True)


@routes(f"PUT {_OF_QUEUE}/resume", name="put_resume", status=204, has_problems=False)
@routes(f"POST {_OF_QUEUE}/resume", status=204, has_problems=False)
async def resume(call: Call) -> Response:
    """Let deliveries from a paused queue go on."""
    return await _pause(call, paused=False)


@routes(f"GET {_OF_QUEUE}/groups", gives=list[GroupInfo])
async def groups(call: Call) -> Response:
    """The message groups of a queue."""
    queue = call.queue_in_path("read")
    found = Pieces()
    async with call.pace.share() as share:
        for group in _groups_of(queue):
            if group.owner is not None or not group.is_idle:
                parked = await _count_parked(group, share)
                found.add(encoded(_group_json(group, parked)))
            await share.pause()
    return found.answer(b"[", b"]")


@routes(
    f"POST {_OF_QUEUE}/groups/reset", body=GroupsBody, answers={200: {"description": "How many"}}
)
async def reset_groups(call: Call) -> Response:
    """Let the next message of groups go to any consumer."""
    queue = call.queue_in_path("configure")
    call.check_open(queue)
    asked = call.body(GroupsBody)
    wanted = None if asked.groups is None else {_group_key(each) for each in asked.groups}
    count = 0
    async with call.pace.share() as share:
        for group in _groups_of(queue):
            lane = queue.lane
            if isinstance(lane, SelectiveLane) and (wanted is None or group.key in wanted):
                count += lane.free_group(group)
            await share.pause()
    _report_change(call, queue, f"{count} message groups were reset")
    return answer({"reset": count})


@routes(f"GET {_OF_QUEUE}/held", gives=HeldPage, parameters=_COUNT)
async def held_messages(call: Call) -> Response:
    """The messages of a queue that are not valid yet."""
    return await _held_page(call, call.queue_in_path("read"))


@routes(f"POST {_OF_QUEUE}/held/cancel", body=HeldBody, **OPERATION)
async def cancel(call: Call) -> Response:
    """Delete held messages."""
    return await _end_hold(call, call.queue_in_path("read"), is_cancelled=True)


@routes(f"POST {_OF_QUEUE}/held/fire", body=HeldBody, **OPERATION)
async def fire(call: Call) -> Response:
    """Make held messages valid now."""
    return await _end_hold(call, call.queue_in_path("configure"), is_cancelled=False)


@routes(f"GET {_DELAYED}", gives=HeldPage, parameters=_COUNT)
async def delayed_messages(call: Call) -> Response:
    """The messages that an x-delayed-message exchange delays."""
    return await _held_page(call, _delay_queue(call, "read"))


@routes(f"POST {_DELAYED}/cancel", body=HeldBody, **OPERATION)
async def cancel_delayed(call: Call) -> Response:
    """Delete messages that an exchange delays."""
    return await _end_hold(call, _delay_queue(call, "configure"), is_cancelled=True)


@routes(f"POST {_DELAYED}/fire", body=HeldBody, **OPERATION)
async def fire_delayed(call: Call) -> Response:
    """Have an exchange send delayed messages on now."""
    return await _end_hold(call, _delay_queue(call, "configure"), is_cancelled=False)


@routes(f"GET {_OF_QUEUE}/readers", gives=list[ReaderInfo])
async def readers(call: Call) -> Response:
    """List the readers of a stream: consumers, readers over HTTP, and how far each is behind."""
    queue = call.queue_in_path("read")
    found = Pieces()
    async with call.pace.share() as share:
        for row in _readers(call, queue):
            found.add(encoded(row))
            await share.pause()
    return found.answer(b"[", b"]")


def _delay_queue(call: Call, right: Right) -> Queue:
    """The queue of the exchange of the path, on which the user has this right. Raises Refusal."""
    name = call.exchange_name()
    exchange = call.exchange(name, right)
    if not isinstance(exchange, DelayedExchange):
        raise bad_request(f"exchange '{name}' is not of type x-delayed-message")
    queue = call.vhost.queues.get(delay_queue_name(name))
    if queue is None:
        raise not_found(f"exchange '{name}' has no delayed messages any more: it is being deleted")
    return queue


# ----------------------------------------------------------------------------------- arguments


async def _change(call: Call, queue: Queue, changes: Table) -> dict[str, Any]:
    call.check_open(queue)
    vhost = call.vhost
    live = vhost.live_arguments
    after: QueueArguments = parse_queue_arguments(
        overlaid(live.own(queue), changes), queue=queue.name, vhost=vhost.name
    )
    require_queue_rights(call.access, vhost, queue.name, after)
    live.change(queue, changes)
    in_force = _in_force(call, queue)
    await call.settle_definitions()
    call.note("queue.changed", queue, changes=dict(changes))
    _report_change(call, queue, ", ".join(sorted(changes)) or "nothing")
    return in_force


def _in_force(call: Call, queue: Queue) -> dict[str, Any]:
    live = call.vhost.live_arguments
    return {
        "arguments": queue.arguments,
        "changes": live.changes_of(queue),
        "effective": live.in_force(queue).raw,
    }


async def _pause(call: Call, *, paused: bool) -> Response:
    queue = call.queue_in_path("configure")
    if paused:
        call.check_open(queue)
    is_change = queue.is_paused != paused
    if is_change:
        call.vhost.live_arguments.set_paused(queue, paused=paused)
    await call.settle_definitions()
    if is_change:
        call.note("queue.paused" if paused else "queue.resumed", queue)
        _report_change(call, queue, "paused" if paused else "resumed")
    return no_content()


def _report_change(call: Call, queue: Queue, what: str) -> None:
    call.site.context.report(
        events.QUEUE_CHANGED,
        queue=queue.name,
        vhost=call.vhost.name,
        user=call.by,
        what=what,
    )


# -------------------------------------------------------------------------------------- groups


def _groups_of(queue: Queue) -> list[Group]:
    lane = queue.lane
    return lane.groups() if isinstance(lane, SelectiveLane) else []


async def _count_parked(group: Group, share: Share) -> int:
    """Count its waiting messages, which may be all that are in the queue."""
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


async def _held_page(call: Call, queue: Queue) -> Response:
    count = call.number("count", 50, 1, COUNT_MAX)
    after = _held_position(call.query.get("position"))
    found: list[Due] = []
    await run_to_end(call, held(queue, found, count=count + 1, after=after))
    page, more = found[:count], found[count:]
    times = iter([due_ms for due_ms, _, _ in page])
    shown, how = Pieces(), Shown(truncate=_SHOWN_BYTES)
    with call.held_answer() as under_way:
        async with call.pace.share() as share:
            for part in read_together(queue, [entry for _, _, entry in page]):
                for entry, message in zip(part, messages_of(queue, part), strict=True):
                    row = {"due_ms": next(times), **browsed_json(entry, message, how)}
                    hold = queue.hold
                    schedule = hold.schedule_of(entry) if isinstance(hold, Delay) else None
                    if schedule is not None:
                        row["schedule"] = _schedule_json(schedule)
                    shown.add(encoded(row))
                    under_way.resize(shown.size)
                    await share.pause()
        position = f"{page[-1][0]}-{page[-1][1]}" if more else None
        rest = encoded({"position": position, "held": queue.held_count})
        return shown.answer(b'{"messages":[', b"]," + rest[1:], under_way)


def _schedule_json(schedule: Schedule) -> dict[str, Any]:
    return {
        "id": schedule.schedule_id,
        "cron": None if schedule.cron is None else schedule.cron.text,
        "delay_ms": schedule.delay_ms,
        "period_ms": schedule.period_ms,
        "repeat": schedule.repeat,
        "fired": schedule.number,
        "next_ms": schedule.times(SHOWN_TIMES),
    }


def _held_position(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    due_ms, _, offset = text.partition("-")
    if not all(part.isascii() and part.isdigit() and len(part) <= 20 for part in (due_ms, offset)):
        raise bad_request(f"position: '{text[:80]}' is not the position of a page")
    return int(due_ms), int(offset)


async def _end_hold(call: Call, queue: Queue, *, is_cancelled: bool) -> Response:
    asked = call.body(HeldBody)
    if asked.offsets is None and asked.schedules is None and not asked.all:
        raise bad_request("say which messages: offsets, schedules, or all: true")
    if asked.schedules and not isinstance(queue.hold, Delay):
        raise bad_request("schedules: only an x-delayed-message exchange has some")
    is_all = asked.offsets is None and asked.schedules is None
    offsets = None if is_all else frozenset(asked.offsets or ())
    outcome = Outcome()
    operate = cancel_held if is_cancelled else make_held_due
    steps = operate(queue, offsets, outcome, asked.schedules or ())
    operation, verb = ("cancel", "cancelled") if is_cancelled else ("fire", "fired")
    return await run(call, queue.name, operation, verb, steps, outcome)


# ------------------------------------------------------------------------------------- readers


def _readers(call: Call, queue: Queue) -> Iterator[dict[str, Any]]:
    """Consumers by their tags, then readers over HTTP by their names. Raises Refusal."""
    stream, lane = stream_of(queue), queue.lane
    if stream is None or not isinstance(lane, ReadingLane):
        raise bad_request(f"queue '{queue.name}' is not a stream")
    end, readers = stream.next, call.vhost.readers
    now_ms = call.vhost.environment.clock.now_ms
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
