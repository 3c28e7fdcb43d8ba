"""Publish one message and get some, by RabbitMQ's routes: for people who try something.

A publish goes the way of a client's: the same rights, checks and routing, and it is answered when
the message is where it has to be, on disk if it is kept. A get takes messages as a consumer does,
so that nothing else has them meanwhile, and then ends that as its ``ackmode`` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import BaseModel, Field, model_validator
from starlette.responses import Response

from hareline.amqp.consumer_arguments import check_not_stream
from hareline.amqp.context import Context
from hareline.amqp.inspection import array_keys, initial_position, parse_expiration
from hareline.amqp.reply_to import REPLY_TO_NAME, REPLY_TO_PREFIX
from hareline.amqp.routes import check_copies
from hareline.broker.operations.browsing import BrowsedPage, browse
from hareline.broker.operations.publishing import put_published
from hareline.broker.operations.taking import AckMode, acknowledge, give_back, take
from hareline.broker.operations.targets import address_of
from hareline.broker.vhost import audit_only
from hareline.errors import AccessRefused, AmqpError, PreconditionFailed
from hareline.management.answers import Refusal, answer, bad_request, not_found
from hareline.management.api.call import Call, Routes, checked_name
from hareline.management.api.listing import Pieces
from hareline.management.api.message_json import (
    Encoding,
    Shown,
    Steps,
    cut_long_text,
    kept_body,
    taken_message,
)
from hareline.management.bodies import (
    ANSWER_BYTES_MAX,
    HeldBody,
    bodies_of,
    parse_body,
    read_long_body,
    table_of,
)
from hareline.management.pace import Share
from hareline.message import (
    Address,
    BlindAddress,
    LargeBody,
    Message,
    Table,
    Timestamp,
    large_message,
    made_message,
)
from hareline.octets import octets_of_base64
from hareline.queues.core.enqueueing import Enqueueing
from hareline.queues.core.entry import QueueEntry
from hareline.queues.dispatch.reading import ReadingLane
from hareline.queues.policies.expiry import expires_at_ms
from hareline.queues.queue import Queue
from hareline.wire.constants import FRAME_OVERHEAD
from hareline.wire.encoder import header_frame
from hareline.wire.properties import Properties, encode_properties, replace_headers

routes = Routes("messages", enters=True)

GET_COUNT_MAX: Final = 10_000
WAIT_MS_MAX: Final = 30_000
_POLL_S: Final = 0.02
_TAKING: Final = ("ack_requeue_false", "reject_requeue_false")
_ENDED_AT_ONCE: Final = 256  # messages that are acknowledged between two pauses
_PERCENT_OF_BODY: Final = 140  # base64, and some more for the rest of a request
_REST_BYTES: Final = 1_048_576
_HEADER_FRAME_REST: Final = FRAME_OVERHEAD + 12  # class, weight and size of the body

_TEXTS: Final = (
    *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration"),
    *("message_id", "type", "user_id", "app_id", "cluster_id"),
)
_NUMBERS: Final = {"delivery_mode": 255, "priority": 255, "timestamp": 2**64 - 1}


class PublishBody(BaseModel):
    """A message. ``properties``: by their names in AMQP, with ``headers`` as an object."""

    properties: dict[str, Any] | list[Any]
    routing_key: str
    payload: str
    payload_encoding: Literal["string", "base64"]


class Published(BaseModel):
    """``routed``: a queue has taken the message."""

    routed: bool


class GetBody(BaseModel):
    """The number of messages, what becomes of them, and the form in which they are shown.

    ``max_bytes``: octets of bodies, but one message in any case. ``wait_ms``: how long to wait for
    a first message. ``requeue`` is what old clients send in place of ``ackmode``.
    """

    count: int = Field(ge=0, le=GET_COUNT_MAX)
    ackmode: AckMode = "ack_requeue_true"
    encoding: Encoding = "auto"
    truncate: int | None = Field(default=None, ge=0)
    max_bytes: int = Field(default=ANSWER_BYTES_MAX, ge=0, le=ANSWER_BYTES_MAX)
    wait_ms: int = Field(default=0, ge=0, le=WAIT_MS_MAX)

    @model_validator(mode="before")
    @classmethod
    def _of_old_clients(cls, given: Any) -> Any:
        if isinstance(given, dict) and "ackmode" not in given and "requeue" in given:
            is_requeued = str(given["requeue"]).lower() == "true"
            mode = "ack_requeue_true" if is_requeued else "ack_requeue_false"
            return {**given, "ackmode": mode}
        return given


class TakenMessage(BaseModel):
    """A message as RabbitMQ shows it; ``message_count``: how many were left in the queue."""

    payload_bytes: int
    redelivered: bool
    exchange: str
    routing_key: str
    message_count: int
    properties: dict[str, Any]
    payload: Any
    payload_encoding: str


@routes(
    "POST /api/exchanges/{vhost}/{exchange}/publish", body=PublishBody, body_max=0, gives=Published
)
async def publish(call: Call) -> Response:
    """Publish a message to an exchange."""
    context = call.site.context
    max_bytes = context.limits.max_message_bytes * _PERCENT_OF_BODY // 100 + _REST_BYTES
    try:
        with bodies_of(call.request).hold(max_bytes) as held:
            octets = await read_long_body(call.request, max_bytes, held)
            asked, body = await call.pace.run(_read_publish(context, octets))
        # what the user may do and where is looked at again: the body may have come slowly
        await call.check()
        is_routed = await _publish(call, call.exchange_name(), asked, body)
    except AmqpError as error:  # as RabbitMQ has it, whatever the error
        raise bad_request(f"{error.reply_code} {error.reply_text}") from None
    return answer({"routed": is_routed})


@routes("POST /api/queues/{vhost}/{queue}/get", body=GetBody, gives=list[TakenMessage])
async def get(call: Call) -> Response:
    """Get messages of a queue, which are put back or not as ``ackmode`` says."""
    asked = parse_body(GetBody, call.octets)
    name, vhost = call.checked_name(), call.vhost
    call.require("read", "queue", name)
    queue = vhost.queue(name, None)
    check_not_stream(vhost.queue_arguments[name], "basic.get", queue=name, vhost=vhost.name)
    await _wait_for_message(call, queue, asked.wait_ms / 1000)
    shown = Pieces()
    with call.held_answer() as held:
        async with call.pace.share() as share:
            if queue.is_deleted:
                raise not_found()
            call.renew()
            call.site.context.clock.refresh()
            if isinstance(queue.lane, ReadingLane):
                await _read(queue, asked, shown, share, held)
            else:
                await _take(queue, asked, shown, share, held)
                if shown.count and asked.ackmode in _TAKING:
                    call.note("messages.taken", queue, messages=shown.count)
        held.resize(shown.size)
        return shown.answer(b"[", b"]", held)


# ----------------------------------------------------------------------------------------- get


async def _wait_for_message(call: Call, queue: Queue, wait_s: float) -> None:
    """Return when the queue has a ready message, at the latest after so long."""
    loop = asyncio.get_running_loop()
    due_s = loop.time() + wait_s
    while not queue.ready_count and not queue.is_deleted and loop.time() < due_s:
        await asyncio.sleep(min(_POLL_S, max(0.0, due_s - loop.time())))
        if await call.request.is_disconnected():
            raise Refusal(499, "client_gone", "the client has gone")


async def _take(queue: Queue, asked: GetBody, shown: Pieces, share: Share, held: HeldBody) -> None:
    """Take messages and add them as JSON; they are acknowledged when all of it is there.

    One that cannot be shown as a whole goes back to its place, whatever ``ackmode`` says. So do all
    where other answers leave no room (Refusal).
    """
    size = 0
    how = Shown(asked.encoding, asked.truncate)
    taken: list[QueueEntry] = []
    hidden: list[QueueEntry] = []
    try:
        for entry in take(queue, asked.count, asked.max_bytes):
            taken.append(entry)
            size += entry.message.size
            held.resize(size)
            await share.pause()
        left = queue.ready_count + len(taken)
        for number, entry in enumerate(taken, 1):
            steps = taken_message(entry, entry.delivery_count > 0, left - number, how)
            found = await share.take(steps)
            if not found.is_whole:
                hidden.append(entry)
            shown.add_parts(found.parts)
            held.resize(size + shown.size)
    except BaseException:
        give_back(queue, taken)
        raise
    acknowledge(queue, hidden, "ack_requeue_true")
    is_hidden = set(map(id, hidden))
    rest = [entry for entry in taken if id(entry) not in is_hidden]
    try:
        while rest:
            some = rest[:_ENDED_AT_ONCE]
            del rest[:_ENDED_AT_ONCE]
            acknowledge(queue, some, asked.ackmode)
            await share.pause()
    except BaseException:
        give_back(queue, rest)
        raise


async def _read(queue: Queue, asked: GetBody, shown: Pieces, share: Share, held: HeldBody) -> None:
    """Add the first messages of a queue that is only read; ``ackmode`` changes nothing there."""
    page = BrowsedPage()
    for _ in browse(queue, page, count=asked.count, max_bytes=asked.max_bytes):
        held.resize(page.size)
        await share.pause()
    how = Shown(asked.encoding, asked.truncate)
    left = queue.ready_count
    for number, found in enumerate(page.found, 1):
        if found.message is not None:
            steps = taken_message(found.entry, found.entry.delivery_count > 0, left - number, how)
            shown.add_parts((await share.take(steps)).parts)
            held.resize(page.size + shown.size)


# ------------------------------------------------------------------------------------- publish


def _read_publish(
    context: Context, octets: bytes | bytearray
) -> Steps[tuple[PublishBody, bytes | LargeBody]]:
    """Read the request, and the body as messages have it. Raises Refusal, AmqpError."""
    try:
        octets, text = yield from cut_long_text(octets, "payload")
    except ValueError as error:
        raise bad_request(f"body: {error}") from None
    asked = parse_body(PublishBody, octets)
    is_base64 = asked.payload_encoding == "base64"
    try:
        if text is None or asked.payload:  # the last of two counts, as in JSON
            pieces = [_octets_of(asked.payload, is_base64)]
        else:
            pieces = yield from (
                text.from_base64() if is_base64 else text.decoded("surrogateescape")
            )
    except UnicodeEncodeError:
        raise bad_request("payload: not valid Unicode; use base64") from None
    except ValueError:
        problem = "not valid base64" if is_base64 else "not valid JSON"
        raise bad_request(f"payload: {problem}") from None
    kept = yield from kept_body(context, pieces)
    return asked, kept


def _octets_of(payload: str, is_base64: bool) -> bytes:
    """Raises ValueError."""
    if is_base64:
        return octets_of_base64(payload)
    return payload.encode("utf-8", "surrogateescape")


async def _publish(
    call: Call, exchange_name: str, asked: PublishBody, body: bytes | LargeBody
) -> bool:
    """True if a queue has taken the message, durably if it keeps it."""
    site, vhost = call.site, call.vhost
    routing_key = checked_name(asked.routing_key, "routing_key")
    properties = properties_of(asked.properties)
    call.access.require("write", "exchange", exchange_name, routing_key)
    if site.context.alarms.is_on:
        raise Refusal(503, "blocked", f"publishing is blocked: {site.context.alarms.reason}")
    exchange = vhost.exchange(exchange_name)
    if exchange.is_internal:
        raise AccessRefused(
            f"cannot publish to internal exchange '{exchange_name}' in vhost '{vhost.name}'"
        )
    if not exchange_name and routing_key == vhost.routing.closed_queue:
        raise AccessRefused(audit_only(routing_key, vhost.name))
    check_user_id(call, properties)
    headers = properties.headers or Table()
    keys = [routing_key, *array_keys(headers, "CC"), *array_keys(headers, "BCC")]
    check_copies(call.access, exchange, keys)
    address = address_of(vhost, exchange_name, routing_key)
    message = new_message(call, address, properties, body)
    queues: Sequence[Enqueueing]
    archives: Sequence[Enqueueing]
    if not exchange_name and routing_key.startswith(REPLY_TO_PREFIX):
        waiting = vhost.reply_queues.get(routing_key)
        queues, archives = [] if waiting is None else [waiting], ()
    else:
        queues, _, archives = vhost.routing.route(exchange, keys, message)
    message.forget_properties()
    store = vhost.environment.store
    is_taken = put_published(store, message, queues, archives)
    if is_taken:
        await call.wait_until_durable(store.ticket if _may_be_kept(queues, archives) else 0)
    return is_taken


def _may_be_kept(queues: Sequence[Enqueueing], archives: Sequence[Enqueueing]) -> bool:
    return any(isinstance(each, Queue) and each.ledger is not None for each in (*queues, *archives))


def new_message(
    call: Call,
    address: Address,
    properties: Properties,
    body: bytes | LargeBody,
    octets: bytes = b"",
) -> Message:
    """A message that came over HTTP, with its time to live. ``body``: as of ``kept_body``.

    ``octets``: those of the properties, if they are known. Raises Refusal, and PreconditionFailed
    as a publish by AMQP does.
    """
    clock = call.vhost.environment.clock
    if properties.reply_to == REPLY_TO_NAME:
        raise PreconditionFailed("fast reply consumer does not exist")
    expiration_ms = None
    if properties.expiration is not None:
        expiration_ms = parse_expiration(properties.expiration)
    try:
        octets = octets or encode_properties(properties)
    except (ValueError, TypeError, OverflowError) as error:
        raise bad_request(f"properties: {error}") from None
    properties_max = call.site.context.limits.frame_max_bytes - _HEADER_FRAME_REST
    if len(octets) > properties_max:  # they could not be delivered
        size = len(octets)
        raise bad_request(f"properties: {size} octets, of which a frame holds {properties_max}")
    if properties.headers is not None and "BCC" in properties.headers:
        address = BlindAddress(address, tuple(array_keys(properties.headers, "BCC")))
        headers = Table(properties.headers)
        del headers["BCC"]
        octets = replace_headers(octets, headers)
    now_ms = clock.now_ms
    position = initial_position(octets)
    if isinstance(body, LargeBody):
        header = header_frame(0, octets, body.size)
        message = large_message(address, header, body, now_ms, position)
    else:
        message = made_message(address, octets, body, now_ms, position)
    if expiration_ms is not None:
        message = message.expiring_at(expires_at_ms(expiration_ms, now_ms))
    return message


def check_user_id(call: Call, properties: Properties) -> None:
    """Raise PreconditionFailed for a user id that is not this user's."""
    if properties.user_id is not None:
        call.site.users.check_user_id(call.who.user, properties.user_id)


def properties_of(given: Mapping[str, Any] | Sequence[Any]) -> Properties:
    """Properties of a message from JSON. Raises Refusal, which names the one that is wrong."""
    properties = Properties()
    if isinstance(given, list):
        if given:
            raise bad_request("properties: not an object")
        return properties
    assert isinstance(given, Mapping)
    for name, value in given.items():
        if value is None:
            continue
        if name == "headers":
            properties.headers = _headers_of(value)
        elif name in _TEXTS:
            setattr(properties, name, _short_text(name, value))
        elif name in _NUMBERS:
            number = _number(name, value)
            setattr(properties, name, Timestamp(number) if name == "timestamp" else number)
        else:
            known = ", ".join(("headers", *_TEXTS, *_NUMBERS))
            raise bad_request(f"properties: there is no '{name}'; known are: {known}")
    return properties


def _headers_of(value: object) -> Table:
    if value == []:  # RabbitMQ's own page sends this for none
        return Table()
    if not isinstance(value, Mapping):
        raise bad_request("properties: headers: not an object")
    return table_of(value)


def _short_text(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise bad_request(f"properties: {name}: not a text")
    return checked_name(str(value), f"properties: {name}")


def _number(name: str, value: object) -> int:
    """A number, or its decimal digits: forms send texts."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_request(f"properties: {name}: not a whole number")
    if not 0 <= value <= _NUMBERS[name]:
        raise bad_request(f"properties: {name}: not from 0 to {_NUMBERS[name]}")
    return value
