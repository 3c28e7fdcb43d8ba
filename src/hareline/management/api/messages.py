"""Messages of a queue: browse, move, copy, delete, retry, purge, export, import.

A user needs what AMQP would ask for the same: read on a queue to take messages from it or look at
them, write on an exchange to put them there, and on the default exchange to put them into a queue.

Invariants: what is only looked at is not disturbed; a file that was cut off has no end line, and an
import of it says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Literal

from pydantic import BaseModel, Field
from starlette.responses import Response, StreamingResponse

from hareline import events
from hareline.amqp.consumer_arguments import check_not_stream
from hareline.broker.operations.browsing import BrowsedPage, browse
from hareline.broker.operations.moving import LASTING, Outcome, as_it_came, delete, transfer
from hareline.broker.operations.positions import InvalidPosition
from hareline.broker.operations.selecting import Selection, selected
from hareline.broker.operations.targets import (
    ALARM,
    ExchangeTarget,
    OriginTarget,
    QueueTarget,
    Target,
    address_of,
)
from hareline.errors import AccessRefused, AmqpError, MalformedFrame, StoreError
from hareline.management.answers import Refusal, answer, bad_request, encoded, no_content
from hareline.management.api.call import Call, Routes, checked_name
from hareline.management.api.listing import Pieces
from hareline.management.api.message_json import (
    LONG_BYTES,
    Encoding,
    LongText,
    Shown,
    Steps,
    body_parts,
    browsed_message,
    cut_long_text,
    kept_body,
)
from hareline.management.api.publishing import check_user_id, new_message
from hareline.management.api.running import (
    BODY_MAX_BYTES,
    LINES,
    NUMBER_MAX,
    OFFSETS_MAX,
    OPERATION,
    Offset,
    OperationBody,
    OperationResult,
    SelectionBody,
    ended_early,
    in_shares,
    outcome_json,
    run,
    run_to_end,
    selection_of,
    selector_of,
)
from hareline.management.bodies import HeldBody, bodies_of, body_pieces, parse_json
from hareline.management.routes import exchange_name
from hareline.message import Message
from hareline.message.exported import (
    FORMAT,
    FORMAT_VERSION,
    InvalidLine,
    exported,
    exported_head,
    imported,
)
from hareline.queues.core.entry import QueueEntry
from hareline.queues.queue import Queue

routes = Routes("messages", enters=True)

COUNT_MAX: Final = 1_000
PAGE_BYTES_MAX: Final = 16_777_216


class BrowseBody(OperationBody):
    """The messages to show, and their form.

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
    """The target: a queue, or an exchange with the messages' routing keys or another one."""

    to_queue: str | None = None
    to_exchange: str | None = None
    routing_key: str | None = None


class PurgeBody(OperationBody):
    """The number of messages, from the head."""

    limit: int = Field(ge=1, le=NUMBER_MAX)


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
    """True if the user may publish to an exchange with these routing keys."""
    exchange = call.vhost.exchanges.get(name)
    if exchange is None or exchange.is_internal:
        return False
    return call.access.may_publish(name, keys, is_topic=exchange.type_name == "topic")


# -------------------------------------------------------------------------------- files of messages


_OFFSETS_SHOWN_MAX: Final = 1_000
_SENT_AT_ONCE: Final = 1_048_576  # characters
_LINE_PERCENT: Final = 200  # of the largest body: base64, and properties
_LINE_REST_BYTES: Final = 4_194_304


class ExportBody(OperationBody):
    """The messages; without fields all of them."""

    offsets: list[Offset] | None = Field(default=None, max_length=OFFSETS_MAX)
    selector: str | None = None
    limit: int | None = Field(default=None, ge=1, le=NUMBER_MAX)


@routes(
    "POST /api/queues/{vhost}/{queue}/export",
    body=ExportBody,
    body_max=BODY_MAX_BYTES,
    answers={200: {"content": {LINES: {"schema": {"type": "string"}}}}},
)
async def export(call: Call) -> Response:
    """The messages of a queue as lines of JSON; they stay in the queue."""
    queue, asked = call.queue_in_path("read"), call.body(ExportBody)
    selection = Selection(
        None if asked.offsets is None else frozenset(asked.offsets),
        selector_of(asked.selector),
        asked.limit,
    )
    return StreamingResponse(_exported_lines(call, queue, selection), media_type=LINES)


@routes(
    "POST /api/queues/{vhost}/{queue}/import",
    body={"content": {LINES: {"schema": {"type": "string"}}}, "required": True},
    body_max=0,
    gives=OperationResult,
    has_problems=False,
)
async def import_messages(call: Call) -> Response:
    """Put the messages of an exported file into a queue."""
    name = call.checked_name()
    call.exchange("", "write")
    queue = call.queue(name)
    call.check_open(queue)
    importing = _Import(call, queue)
    try:
        await importing.read()
        await call.wait_until_durable(importing.outcome.ticket)
    except (Refusal, AmqpError) as error:
        raise ended_early(error, outcome_json("imported", importing.outcome)) from None
    finally:
        importing.report()
    return answer(outcome_json("imported", importing.outcome))


# ------------------------------------------------------------------------------------- export


async def _exported_lines(call: Call, queue: Queue, selection: Selection) -> AsyncIterator[bytes]:
    """The head of the file, a line for each message, and the end, which says how many there are.

    A file without its end was cut off.
    """
    clock = call.vhost.environment.clock
    head = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "vhost": call.vhost.name,
        "queue": queue.name,
        "exported_ms": clock.now_ms,
    }
    yield encoded(head) + b"\n"
    written = _Written()
    steps = _export_steps(queue, selection, written)
    async with aclosing(in_shares(call, steps, watches=False, is_full=written.is_full)) as shares:
        async for _ in shares:
            for line in written.take():
                yield line
    for line in written.take():
        yield line
    if written.count:
        call.note("messages.exported", queue, messages=written.count)
    yield (
        encoded({"end": True, "messages": written.count, "unreadable": written.unreadable}) + b"\n"
    )


class _Written:
    """Lines that wait to be sent; ``count`` messages, and ``unreadable`` ones that have no line."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self.size = 0
        self.count = 0
        self.unreadable = 0

    def add(self, parts: list[bytes]) -> None:
        self._lines += parts
        self.size += sum(map(len, parts))
        self.count += 1

    def is_full(self) -> bool:
        """True if the lines should be sent before there are more."""
        return self.size >= _SENT_AT_ONCE

    def take(self) -> list[bytes]:
        """The lines, which the caller sends."""
        lines, self._lines = self._lines, []
        self.size = 0
        return lines


def _export_steps(queue: Queue, selection: Selection, written: _Written) -> Iterator[None]:
    for share in selected(queue, selection):
        for entry, message in share:
            try:
                if message is None:
                    raise StoreError("no content")
                parts = yield from _line_of(entry, as_it_came(queue, entry, message))
            except (StoreError, OSError, MalformedFrame):
                written.unreadable += 1
                continue
            written.add(parts)
            yield
        yield


def _line_of(entry: QueueEntry, message: Message) -> Steps[list[bytes]]:
    """The line of a message, in parts if it is long. Raises StoreError, OSError."""
    fields: dict[str, Any] = {
        "offset": entry.offset,
        "redelivered": entry.delivery_count > 0,
    }
    if message.size <= LONG_BYTES:
        return [encoded({**fields, **exported(message)}) + b"\n"]
    body = yield from body_parts(message, message.size, "auto")
    fields |= exported_head(message)
    fields["body_encoding"] = "utf-8" if body.encoding == "string" else body.encoding
    return [encoded(fields)[:-1] + b',"body":"', *body.parts, b'"}\n']


# ------------------------------------------------------------------------------------- import


class _Import:
    """One import: lines in, messages into the queue, until the queue takes no more."""

    def __init__(self, call: Call, queue: Queue) -> None:
        self._call = call
        self._queue = queue
        self._target = QueueTarget(call.vhost, queue)
        limits = call.site.context.limits
        self._line_max = limits.max_message_bytes * _LINE_PERCENT // 100 + _LINE_REST_BYTES
        self.outcome = Outcome()
        self._number = 0
        self._has_head = False
        self._has_ended = False
        self._lasting = ""  # why no further message comes in, so that their order is kept

    async def read(self) -> None:
        """Take the whole body. Raises Refusal for a line that is wrong; those before it are in."""
        begun = bytearray()  # of a line whose end is still to come
        request = self._call.request
        with bodies_of(request).hold(self._line_max) as held:
            async with aclosing(body_pieces(request)) as coming:
                async for piece in coming:
                    first, *others = piece.split(b"\n")
                    begun += first
                    if others:
                        *lines, rest = begun, *others
                        begun = bytearray(rest)
                        await self._import(lines)
                    if len(begun) > self._line_max:
                        self._number += 1
                        raise self._wrong("longer than a message can be")
                    held.resize(len(begun))
            await self._import([begun])
        if not self._has_head:
            raise bad_request("the body is no export: it is empty")
        if not self._has_ended:
            raise self._wrong("the file has no end line: it was cut off")

    async def _import(self, lines: Sequence[bytes | bytearray]) -> None:
        if lines:
            async with aclosing(in_shares(self._call, self._steps(lines), watches=False)) as shares:
                async for _ in shares:
                    continue

    def _steps(self, lines: Sequence[bytes | bytearray]) -> Iterator[None]:
        for line in lines:
            self._number += 1
            if not line.isspace() and line:
                yield from self._import_line(line)
                yield

    def _import_line(self, line: bytes | bytearray) -> Iterator[None]:
        try:
            line, text = yield from cut_long_text(line, "body")
            fields = parse_json(line, f"line {self._number}")
        except ValueError as error:
            raise self._wrong(str(error)) from None
        except Refusal as refusal:
            raise bad_request(refusal.reason) from None
        if not isinstance(fields, dict):
            raise self._wrong("not an object")
        if not self._has_head:
            if fields.get("format") != FORMAT or fields.get("version") != FORMAT_VERSION:
                raise self._wrong(f"not the head of a file of {FORMAT}, version {FORMAT_VERSION}")
            self._has_head = True
        elif self._has_ended:
            raise self._wrong("stands behind the end of the file")
        elif fields.get("end") is True:
            self._has_ended = True
        else:
            yield from self._import_message(fields, text)

    def _import_message(self, fields: dict[str, Any], text: LongText | None) -> Iterator[None]:
        call, outcome = self._call, self.outcome
        vhost = call.vhost
        try:
            found = imported(fields)
            pieces = [found.body]
            if text is not None and fields.get("body") == "":
                pieces = yield from _long_body(text, fields.get("body_encoding", "utf-8"))
            if "administrator" not in call.who.user.tags:
                check_user_id(call, found.properties)
            address = address_of(vhost, found.exchange, found.routing_key)
            kept = yield from kept_body(call.site.context, pieces)
            message = new_message(call, address, found.properties, kept, found.octets)
        except InvalidLine as error:
            raise self._wrong(str(error)) from None
        except AmqpError as error:
            raise self._wrong(error.explanation) from None
        except Refusal as error:
            raise self._wrong(error.reason) from None
        place = self._target.place_of(message)
        refusal = place.refusal
        if call.site.context.alarms.is_on:
            refusal = ALARM
        offset = self._queue.next_offset
        refusal = self._lasting or refusal or self._target.put(place, message)
        if refusal:
            outcome.refused[refusal] += 1
            self._lasting = refusal if refusal in LASTING else ""
            return
        outcome.done += 1
        outcome.octets += message.size
        if len(outcome.offsets) < _OFFSETS_SHOWN_MAX:
            outcome.offsets.append(offset)
        outcome.ticket = vhost.environment.store.ticket

    def _wrong(self, problem: str) -> Refusal:
        return bad_request(f"line {self._number}: {problem}")

    def report(self) -> None:
        """Write to the log what came in."""
        call = self._call
        if self.outcome.done:
            call.note("messages.imported", self._queue, messages=self.outcome.done)
        call.site.context.report(
            events.QUEUE_OPERATION,
            operation="import",
            queue=self._queue.name,
            vhost=call.vhost.name,
            user=call.by,
            messages=self.outcome.done,
            refused=self.outcome.refused.total(),
        )


def _long_body(text: LongText, encoding: str) -> Steps[list[bytes]]:
    """The pieces of the body that was cut out of a line. Raises InvalidLine."""
    try:
        if encoding == "base64":
            return (yield from text.from_base64())
        return (yield from text.decoded("strict"))
    except UnicodeEncodeError:
        raise InvalidLine("body: not valid Unicode; use base64") from None
    except ValueError:
        word = "base64" if encoding == "base64" else "JSON"
        raise InvalidLine(f"body: not valid {word}") from None
