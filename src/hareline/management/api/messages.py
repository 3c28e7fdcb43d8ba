"""Messages of a queue: browse, move, copy, delete, retry, purge.

Paths of ours below ``/api/queues/{vhost}/{queue}/``, and RabbitMQ's ``DELETE .../contents``. A user
needs what AMQP would ask for the same: read on a queue to take messages from it or look at them,
write on an exchange to put them there, and on the default exchange to put them into a queue.
docs/message-operations.md is the page.

Invariant: as of ``api.running``; and what is only looked at is not disturbed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, Literal

from pydantic import BaseModel, Field
from starlette.responses import Response

from hareline.amqp.consumer_arguments import check_not_stream
from hareline.broker.operations.browsing import BrowsedPage, browse
from hareline.broker.operations.moving import Outcome, delete, transfer
from hareline.broker.operations.positions import InvalidPosition
from hareline.broker.operations.selecting import Selection
from hareline.broker.operations.targets import (
    ExchangeTarget,
    OriginTarget,
    QueueTarget,
    Target,
)
from hareline.errors import AccessRefused
from hareline.management.api.answers import bad_request, no_content
from hareline.management.api.call import Call, Routes, checked_name
from hareline.management.api.listing import Pieces
from hareline.management.api.message_json import Encoding, Shown, browsed_message
from hareline.management.api.running import (
    BODY_MAX_BYTES,
    OPERATION,
    OperationBody,
    SelectionBody,
    run,
    run_to_end,
    selection_of,
    selector_of,
)
from hareline.management.bodies import HeldBody
from hareline.management.paths import exchange_name
from hareline.management.strict_json import encoded
from hareline.queues.queue import Queue

routes = Routes("messages", enters=True)

COUNT_MAX: Final = 1_000
PAGE_BYTES_MAX: Final = 16_777_216
_NUMBER_MAX: Final = 2**63 - 1


class BrowseBody(OperationBody):
    """Which messages to show, and how.

    ``position``: where an earlier page ended; it wins over ``start``. ``truncate``: octets of each
    body; null: all. ``max_bytes``: octets of all bodies of the page, but one message in any case.
    """

    count: int = Field(default=50, ge=1, le=COUNT_MAX)
    start: Literal["head", "end"] = "head"
    position: str | None = None
    selector: str | None = None
    encoding: Encoding = "auto"
    truncate: int | None = Field(default=50_000, ge=0)
    max_bytes: int = Field(default=PAGE_BYTES_MAX, ge=0, le=PAGE_BYTES_MAX)


class MessageInfo(BaseModel):
    """A message of a queue; ``offset`` is what it is called by in other requests."""

    offset: int
    payload_bytes: int
    redelivered: bool
    delivery_count: int
    exchange: str
    routing_key: str
    arrival_ms: int
    expires_at_ms: int | None
    properties: dict[str, Any] = {}
    payload: Any = None
    payload_encoding: str | None = None
    truncated: bool = False
    problem: str | None = None


class BrowsedMessage(MessageInfo):
    """A message where it stands."""

    state: Literal["ready", "held"]


class Browsed(BaseModel):
    """A page. ``position``: for the next one; null: there is no more on this side."""

    messages: list[BrowsedMessage]
    position: str | None
    ready: int


class TransferBody(SelectionBody):
    """Where to: a queue, or an exchange with the messages' routing keys or another one."""

    to_queue: str | None = None
    to_exchange: str | None = None
    routing_key: str | None = None


class PurgeBody(OperationBody):
    """How many messages, from the head."""

    limit: int = Field(ge=1, le=_NUMBER_MAX)


_OF_QUEUE: Final = "/api/queues/{vhost}/{queue}"


@routes(f"POST {_OF_QUEUE}/browse", body=BrowseBody, body_max=BODY_MAX_BYTES, gives=Browsed)
async def browse_queue(call: Call) -> Response:
    """Show messages without disturbing them, from the head or the end on, by pages."""
    queue, asked = call.queue_in_path("read"), call.body(BrowseBody)
    page = BrowsedPage()
    steps = browse(
        queue,
        page,
        count=asked.count,
        position=asked.position,
        is_backwards=asked.start == "end",
        selector=selector_of(asked.selector),
        max_bytes=asked.max_bytes,
    )
    shown = Shown(asked.encoding, asked.truncate)
    found = Pieces()
    with call.held_answer() as held:
        try:
            await run_to_end(call, counted_steps(steps, page, held))
        except InvalidPosition as error:
            raise bad_request(f"position: {error}") from None
        async with call.pace.share() as share:
            for each in page.found:
                made = browsed_message(each.entry, each.message, shown)
                found.add_parts((await share.take(made)).parts)
                held.resize(page.size + found.size)
        held.resize(found.size)
        rest = encoded({"position": page.position, "ready": queue.ready_count})
        return found.answer(b'{"messages":[', b"]," + rest[1:], held)


@routes(f"POST {_OF_QUEUE}/move", body=TransferBody, **OPERATION)
async def move(call: Call) -> Response:
    """Move messages to another queue or to an exchange."""
    return await _transfer(call, "move", "moved")


@routes(f"POST {_OF_QUEUE}/copy", body=TransferBody, **OPERATION)
async def copy(call: Call) -> Response:
    """Copy messages to another queue or to an exchange."""
    return await _transfer(call, "copy", "copied")


@routes(f"POST {_OF_QUEUE}/delete", body=SelectionBody, **OPERATION)
async def delete_messages(call: Call) -> Response:
    """Delete messages; they are not dead-lettered."""
    queue, asked = call.queue_in_path("read"), call.body(SelectionBody)
    return await _delete(call, queue, "delete", selection_of(asked))


@routes(f"POST {_OF_QUEUE}/purge", body=PurgeBody, **OPERATION)
async def purge_first(call: Call) -> Response:
    """Delete the first messages; ``DELETE .../contents`` deletes all."""
    queue, asked = call.queue_in_path("read"), call.body(PurgeBody)
    return await _delete(call, queue, "purge", Selection(limit=asked.limit))


@routes(f"DELETE {_OF_QUEUE}/contents", status=204, has_problems=False)
async def purge(call: Call) -> Response:
    """Delete all messages that no consumer has."""
    queue = call.queue_in_path("read")
    arguments = call.vhost.queue_arguments[queue.name]
    check_not_stream(arguments, "queue.purge", queue=queue.name, vhost=call.vhost.name)
    queue.deliver_due()
    call.note("queue.purged", queue, messages=queue.purge())
    store = call.vhost.environment.store
    await call.wait_until_durable(0 if queue.ledger is None else store.ticket)
    return no_content()


@routes(f"POST {_OF_QUEUE}/retry", body=SelectionBody, **OPERATION)
async def retry(call: Call) -> Response:
    """Send dead letters back to the queue in which they died first."""
    queue, asked = call.queue_in_path("read"), call.body(SelectionBody)
    outcome = Outcome()
    target = OriginTarget(call.vhost, queue, partial(_may_publish, call))
    alarms = call.site.context.alarms
    steps = transfer(queue, target, selection_of(asked), outcome, shortage=lambda: alarms.is_on)
    return await run(call, queue.name, "retry", "retried", steps, outcome)


async def _delete(call: Call, queue: Queue, operation: str, selection: Selection) -> Response:
    outcome = Outcome()
    steps = delete(queue, selection, outcome)
    return await run(call, queue.name, operation, "deleted", steps, outcome)


def counted_steps(steps: Iterator[None], page: BrowsedPage, held: HeldBody) -> Iterator[None]:
    """The steps that fill a page, with what it has counted after each. Raises Refusal."""
    for _ in steps:
        held.resize(page.size)
        yield


async def _transfer(call: Call, operation: str, verb: str) -> Response:
    queue, asked = call.queue_in_path("read"), call.body(TransferBody)
    outcome = Outcome()
    alarms = call.site.context.alarms
    steps = transfer(
        queue,
        _target(call, queue, asked),
        selection_of(asked),
        outcome,
        is_copy=operation == "copy",
        shortage=lambda: alarms.is_on,
    )
    return await run(call, queue.name, operation, verb, steps, outcome)


def _target(call: Call, queue: Queue, asked: TransferBody) -> Target:
    if (asked.to_queue is None) == (asked.to_exchange is None):
        raise bad_request("give either to_queue or to_exchange")
    vhost = call.vhost
    if asked.to_queue is not None:
        if asked.routing_key is not None:
            raise bad_request("routing_key: is for to_exchange only")
        name = checked_name(asked.to_queue, "to_queue")
        call.exchange("", "write")
        target = call.queue(name, field="to_queue")
        if target is queue:
            raise bad_request("to_queue: is the queue that the messages are in")
        call.check_open(target)
        return QueueTarget(vhost, target, queue)
    name = exchange_name(checked_name(asked.to_exchange or "", "to_exchange"))
    call.require("write", "exchange", name)
    exchange = call.exchange(name, field="to_exchange")
    if exchange.is_internal:
        raise AccessRefused(f"cannot publish to internal exchange '{name}' in vhost '{vhost.name}'")
    key = asked.routing_key
    if key is not None:
        key = checked_name(key, "routing_key")
    if exchange.type_name == "topic" and call.access.has_topics(name):
        if key is None:
            raise bad_request(
                "routing_key: needed, because topic permissions limit which you may use"
            )
        call.access.require_topic("write", name, key)
    return ExchangeTarget(vhost, exchange, key, queue)


def _may_publish(call: Call, name: str, keys: Sequence[str]) -> bool:
    """Whether the user may publish to an exchange with these routing keys."""
    exchange = call.vhost.exchanges.get(name)
    if exchange is None or exchange.is_internal:
        return False
    return call.access.may_publish(name, keys, is_topic=exchange.type_name == "topic")
