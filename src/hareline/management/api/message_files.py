"""Messages of a queue to a file and back: export and import, as lines of JSON.

``hareline.message.exported`` has the format of a line, docs/message-operations.md the page. An
export leaves the messages where they are. An import puts them into the queue in the order of the
file, as an operator's move would, until the queue takes no more.

Invariant: a file that was cut off has no end line, and an import of it says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Final

from pydantic import Field
from starlette.responses import Response, StreamingResponse

from hareline import events
from hareline.broker.operations.moving import LASTING, Outcome, as_it_came
from hareline.broker.operations.selecting import Selection, selected
from hareline.broker.operations.targets import ALARM, QueueTarget, address_of
from hareline.errors import AmqpError, MalformedFrame, StoreError
from hareline.management.api.answers import bad_request
from hareline.management.api.call import Call, Routes
from hareline.management.api.message_json import (
    LONG_BYTES,
    LongText,
    Steps,
    body_parts,
    cut_long_text,
    kept_body,
)
from hareline.management.api.publishing import check_user_id, new_message
from hareline.management.api.running import (
    BODY_MAX_BYTES,
    LINES,
    NUMBER_MAX,
    OFFSETS_MAX,
    Offset,
    OperationBody,
    OperationResult,
    ended_early,
    in_shares,
    outcome_json,
    selector_of,
)
from hareline.management.bodies import bodies_of, body_pieces, parse_json
from hareline.management.refusals import Refusal, answer
from hareline.management.strict_json import encoded
from hareline.message import Message
from hareline.message.exported import InvalidLine, exported, exported_head, imported
from hareline.queues.core.entry import QueueEntry
from hareline.queues.queue import Queue

routes = Routes("messages", enters=True)

FORMAT: Final = "hareline-messages"
FORMAT_VERSION: Final = 1
_OFFSETS_SHOWN_MAX: Final = 1_000
_SENT_AT_ONCE: Final = 1_048_576  # characters
_LINE_PERCENT: Final = 200  # of the largest body: base64, and properties
_LINE_REST_BYTES: Final = 4_194_304


class ExportBody(OperationBody):
    """Which messages; without fields all of them."""

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
