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

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

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
from hareline.management.api.answers import no_content
from hareline.management.api.changing import (
    Entered,
    bad_request,
    check_open,
    checked_name,
    enter,
    queue_name_in,
    wait_until_durable,
)
from hareline.management.api.listing import Pieces
from hareline.management.api.message_json import Encoding, Shown, browsed_message
from hareline.management.api.openapi import body_route
from hareline.management.api.running import run, run_to_end
from hareline.management.api.selections import (
    OperationBody,
    SelectionBody,
    begin,
    operation_route,
    selection_of,
    selector_of,
)
from hareline.management.api.site import Site
from hareline.management.bodies import HeldBody, answer_under_way
from hareline.management.pace import pace_of
from hareline.management.paths import exchange_name
from hareline.management.refusals import Refusal
from hareline.management.strict_json import encoded
from hareline.queues.queue import Queue

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


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["messages"])
    of_queue = "/api/queues/{vhost}/{queue}"

    @router.post(f"{of_queue}/browse", **body_route(BrowseBody, {200: {"model": Browsed}}))
    async def browse_queue(request: Request) -> Response:
        """Show messages without disturbing them, from the head or the end on, by pages."""
        entered, queue, asked = await begin(site, request, BrowseBody)
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
        message_max = site.context.limits.max_message_bytes
        with answer_under_way(request, message_max) as held:
            try:
                await run_to_end(entered, request, counted_steps(steps, page, held))
            except InvalidPosition as error:
                raise Refusal(400, "bad_request", f"position: {error}") from None
            async with pace_of(request).share() as share:
                for each in page.found:
                    made = browsed_message(each.entry, each.message, shown)
                    found.add_parts((await share.take(made)).parts)
                    held.resize(page.size + found.size)
            held.resize(found.size)
            rest = encoded({"position": page.position, "ready": queue.ready_count})
            return found.answer(b'{"messages":[', b"]," + rest[1:], held)

    @router.post(f"{of_queue}/move", **operation_route(TransferBody))
    async def move(request: Request) -> Response:
        """Move messages to another queue or to an exchange."""
        return await _transfer(site, request, "move", "moved")

    @router.post(f"{of_queue}/copy", **operation_route(TransferBody))
    async def copy(request: Request) -> Response:
        """Copy messages to another queue or to an exchange."""
        return await _transfer(site, request, "copy", "copied")

    @router.post(f"{of_queue}/delete", **operation_route(SelectionBody))
    async def delete_messages(request: Request) -> Response:
        """Delete messages; they are not dead-lettered."""
        entered, queue, asked = await begin(site, request, SelectionBody)
        outcome = Outcome()
        steps = delete(queue, selection_of(asked), outcome)
        return await run(entered, request, queue.name, "delete", "deleted", steps, outcome)

    @router.post(f"{of_queue}/purge", **operation_route(PurgeBody))
    async def purge_first(request: Request) -> Response:
        """Delete the first messages; ``DELETE .../contents`` deletes all."""
        entered, queue, asked = await begin(site, request, PurgeBody)
        outcome = Outcome()
        steps = delete(queue, Selection(limit=asked.limit), outcome)
        return await run(entered, request, queue.name, "purge", "deleted", steps, outcome)

    @router.delete(f"{of_queue}/contents", response_model=None, status_code=204)
    async def purge(request: Request) -> Response:
        """Delete all messages that no consumer has."""
        entered = await enter(site, request)
        name = queue_name_in(request)
        queue = entered.queue(name, "read")
        arguments = entered.vhost.queue_arguments[name]
        check_not_stream(arguments, "queue.purge", queue=name, vhost=entered.vhost.name)
        queue.deliver_due()
        entered.note("queue.purged", queue, messages=queue.purge())
        store = entered.vhost.environment.store
        await wait_until_durable(entered.vhost, 0 if queue.ledger is None else store.ticket)
        return no_content()

    @router.post(f"{of_queue}/retry", **operation_route(SelectionBody))
    async def retry(request: Request) -> Response:
        """Send dead letters back to the queue in which they died first."""
        entered, queue, asked = await begin(site, request, SelectionBody)
        outcome = Outcome()
        target = OriginTarget(entered.vhost, queue, partial(_may_publish, entered))
        alarms = site.context.alarms
        steps = transfer(queue, target, selection_of(asked), outcome, shortage=lambda: alarms.is_on)
        return await run(entered, request, queue.name, "retry", "retried", steps, outcome)

    return router


def counted_steps(steps: Iterator[None], page: BrowsedPage, held: HeldBody) -> Iterator[None]:
    """The steps that fill a page, with what it has counted after each. Raises Refusal."""
    for _ in steps:
        held.resize(page.size)
        yield


async def _transfer(site: Site, request: Request, operation: str, verb: str) -> Response:
    entered, queue, asked = await begin(site, request, TransferBody)
    outcome = Outcome()
    alarms = site.context.alarms
    steps = transfer(
        queue,
        _target(entered, queue, asked),
        selection_of(asked),
        outcome,
        is_copy=operation == "copy",
        shortage=lambda: alarms.is_on,
    )
    return await run(entered, request, queue.name, operation, verb, steps, outcome)


def _target(entered: Entered, queue: Queue, asked: TransferBody) -> Target:
    if (asked.to_queue is None) == (asked.to_exchange is None):
        raise bad_request("give either to_queue or to_exchange")
    vhost = entered.vhost
    if asked.to_queue is not None:
        if asked.routing_key is not None:
            raise bad_request("routing_key: is for to_exchange only")
        name = checked_name(asked.to_queue, "to_queue")
        entered.exchange("", "write")
        target = entered.queue(name, field="to_queue")
        if target is queue:
            raise bad_request("to_queue: is the queue that the messages are in")
        check_open(entered, target)
        return QueueTarget(vhost, target, queue)
    name = exchange_name(checked_name(asked.to_exchange or "", "to_exchange"))
    entered.require("write", "exchange", name)
    exchange = entered.exchange(name, field="to_exchange")
    if exchange.is_internal:
        raise AccessRefused(f"cannot publish to internal exchange '{name}' in vhost '{vhost.name}'")
    key = asked.routing_key
    if key is not None:
        key = checked_name(key, "routing_key")
    if exchange.type_name == "topic" and entered.access.has_topics(name):
        if key is None:
            raise bad_request(
                "routing_key: needed, because topic permissions limit which you may use"
            )
        entered.access.require_topic("write", name, key)
    return ExchangeTarget(vhost, exchange, key, queue)


def _may_publish(entered: Entered, name: str, keys: Sequence[str]) -> bool:
    """Whether the user may publish to an exchange with these routing keys."""
    exchange = entered.vhost.exchanges.get(name)
    if exchange is None or exchange.is_internal:
        return False
    return entered.access.may_publish(name, keys, is_topic=exchange.type_name == "topic")
