"""``/api/definitions``: all definitions as one file, out and in.

A file has up to 20 MiB, for which a parser would hold the loop some hundred ms. So the outermost
object and its lists are read here, and the parser is given one item after the other.

Invariant: an import that leaves something out says what, and why; what is read of a body is what
``json.loads`` would have made of it, or a ValueError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

from pydantic import BaseModel
from starlette.responses import Response

from hareline.administration.definitions_export import Export
from hareline.administration.definitions_import import Import, report_import
from hareline.administration.definitions_rabbitmq import ForRabbitMQ
from hareline.broker.vhost import VirtualHost
from hareline.management.answers import answer, bad_request, encoded, no_content
from hareline.management.api.call import Call, Routes
from hareline.management.bodies import bodies_of, read_body
from hareline.management.change_log import CALLER
from hareline.octets import NOT_UTF8, exact, with_texts

routes = Routes("definitions", needs="administrator")

BODY_MAX_BYTES: Final = 20 << 20  # RabbitMQ's limit
#: Of one note in the header Warning, and of all: clients limit what a header may have.
WARNING_MAX_CHARS: Final = 1_000
WARNINGS_MAX_CHARS: Final = 4_000
_NOT_UTF8: Final = NOT_UTF8.encode()
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_HEAD_MAX_BYTES: Final = 16_384  # of a part of a form
_BOUNDARY: Final = re.compile(r'boundary=(?:"([^"]{1,200})"|([^\s;"]{1,200}))', re.IGNORECASE)
_FILE: Final = re.compile(
    rb'\nContent-Disposition:[^\r\n]*;[ \t]*name=(?:"file"|file)(?=[;\s]|\Z)', re.IGNORECASE
)

Steps = Generator[None, None, object]


class Definitions(BaseModel):
    """Definitions in RabbitMQ's format; each key may be missing."""

    rabbit_version: str = ""
    users: list[dict[str, Any]] = []
    vhosts: list[dict[str, Any]] = []
    permissions: list[dict[str, Any]] = []
    topic_permissions: list[dict[str, Any]] = []
    parameters: list[dict[str, Any]] = []
    global_parameters: list[dict[str, Any]] = []
    policies: list[dict[str, Any]] = []
    queues: list[dict[str, Any]] = []
    exchanges: list[dict[str, Any]] = []
    bindings: list[dict[str, Any]] = []


class LeftOutItem(BaseModel):
    """An item that was not taken over, or has no effect here."""

    what: str
    name: str
    vhost: str
    reason: str


class Imported(BaseModel):
    """``done``: how many items of each list were taken over."""

    done: dict[str, int]
    left_out: list[LeftOutItem]


_IMPORTED: Final[dict[int, dict[str, Any]]] = {
    200: {"model": Imported, "description": "Something was left out, or a report was asked for"},
    204: {"description": "All was taken over"},
}


@routes("GET /api/definitions", gives=Definitions)
async def definitions(call: Call) -> Response:
    """All definitions."""
    return await _exported(call)


@routes("GET /api/all-configuration", gives=Definitions)
async def all_configuration(call: Call) -> Response:
    """All definitions, by the older name of the route."""
    return await _exported(call)


@routes("GET /api/definitions/{vhost}", gives=Definitions)
async def definitions_of_vhost(call: Call) -> Response:
    """The definitions of a virtual host."""
    return await _exported(call, call.vhost)


@routes("POST /api/definitions", body=Definitions, body_max=0, answers=_IMPORTED)
async def import_definitions(call: Call) -> Response:
    """Take definitions over; nothing is deleted. With ``report=true`` the answer says what."""
    return await _imported(call)


@routes("POST /api/all-configuration", body=Definitions, body_max=0, answers=_IMPORTED)
async def import_configuration(call: Call) -> Response:
    """Take definitions over, by the older name of the route."""
    return await _imported(call)


@routes("POST /api/definitions/{vhost}", body=Definitions, body_max=0, answers=_IMPORTED)
async def import_into_vhost(call: Call) -> Response:
    """Take definitions over into a virtual host."""
    return await _imported(call, call.vhost.name)


async def _exported(call: Call, vhost: VirtualHost | None = None) -> Response:
    """The definitions, hashes of passwords among them, so that it is noted who has them."""
    call.site.note("definitions.exported", **({} if vhost is None else {"vhost": vhost.name}))
    export = Export(call.site.context, call.administration, vhost)
    for_rabbitmq = _for_rabbitmq(call)
    head = export.head()
    parts = [encoded(head if for_rabbitmq is None else for_rabbitmq.head(head))[:-1]]
    async with call.pace.share() as share:
        for name, items in export.lists():
            texts = []
            for item in items if for_rabbitmq is None else for_rabbitmq.items(name, items):
                texts.append(_exactly(item) if for_rabbitmq is None else encoded(item))
                await share.pause()
            parts.append(b',"%b":[%b]' % (name.encode(), b",".join(texts)))
    parts.append(b"}")
    headers = {}
    notes = [] if for_rabbitmq is None else for_rabbitmq.notes()
    if notes:
        headers["Warning"] = ", ".join(warnings_of(notes))
    download = call.query.get("download")
    if download is not None:
        file_name = "".join(
            each for each in download if (each.isascii() and each.isalnum()) or each in "-_."
        )
        headers["Content-Disposition"] = f'attachment; filename="{file_name or "definitions.json"}"'
    return Response(b"".join(parts), headers=headers, media_type="application/json")


def _for_rabbitmq(call: Call) -> ForRabbitMQ | None:
    """None: the form of this broker's own. Raises Refusal."""
    name = call.query.get("format", "")
    if name not in ("", "rabbitmq"):
        raise bad_request(f"format: '{name}' is not rabbitmq")
    return ForRabbitMQ() if name else None


def warnings_of(notes: Sequence[str]) -> Iterator[str]:
    """Values of the header Warning; of very many notes the first ones, and how many more."""
    room = WARNINGS_MAX_CHARS
    for index, note in enumerate(notes):
        value = _warning(note)
        room -= len(value)
        if room < 0:
            yield _warning(f"and {len(notes) - index} notes more")
            return
        yield value


def _warning(note: str) -> str:
    """The note as a value of the header, in ASCII and without control characters."""
    text = note.encode("unicode_escape").decode("ascii")[:WARNING_MAX_CHARS]
    text = text.replace("\\", r"\\").replace('"', r"\"")
    return f'299 Hareline "{text}"'


def _exactly(item: object) -> bytes:
    """An item as JSON, from which an import has each text again, UTF-8 or not."""
    text = encoded(item)
    return encoded(with_texts(item, exact)) if _NOT_UTF8 in text else text


async def _imported(call: Call, vhost: str | None = None) -> Response:
    """Take over what the body has; its end is when the user has to be an administrator."""
    request, site = call.request, call.site
    with bodies_of(request).hold(BODY_MAX_BYTES) as held:
        octets = await read_body(request, BODY_MAX_BYTES, held)
        try:
            content_type = request.headers.get("Content-Type", "")
            given = await call.pace.run(definitions_in(octets, content_type))
        except ValueError as error:
            raise bad_request(str(error)) from None
    await call.take_turn()
    if vhost is not None:
        call.who.vhost(vhost)
    done = Import(site.context, call.administration, given, vhost=vhost, by=call.by)
    log = site.changes
    steps = done.steps() if log is None else log.quietly(done.steps())
    await call.run_changes(steps, "so a restart lacks the last items")
    if log is not None:
        details = {"counts": done.done, "left_out": len(done.left_out)}
        log.note(
            "definitions.imported", details | ({"vhost": vhost} if vhost else {}), CALLER.get()
        )
    report_import(site.context.report, done, f"HTTP by '{call.by}'")
    if not done.left_out and not call.flag("report"):
        return no_content()
    left_out = [each._asdict() for each in done.left_out]
    return answer({"done": done.done, "left_out": left_out})


# ------------------------------------------------------------------------------------ the body


def definitions_in(octets: bytes, content_type: str) -> Steps:
    """The JSON of a body, which may be a form with a ``file``.

    Raises ValueError with a sentence for the client.
    """
    if content_type.lower().startswith("multipart/form-data"):
        octets = _file_in_form(content_type, octets)
    try:
        text = octets.decode(json.detect_encoding(octets))
        yield
        return (yield from _Reader(text).read()) if text else {}
    except _NotUnicodeError:
        raise ValueError("body: a text in it is not Unicode") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"definitions: not JSON: {error}") from None


class _NotUnicodeError(Exception):
    """A text has half a character (``\\ud800``), which no name can hold."""


class _Reader:
    """Reads one text; ``at`` is how far it is."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._decoder = json.JSONDecoder()

    def read(self) -> Steps:
        self._skip()
        found = (yield from self._object()) if self._next_is("{") else self._value()
        self._skip()
        if self._at < len(self._text):
            raise self._wrong("Extra data")
        return found

    def _object(self) -> Generator[None, None, dict[str, Any]]:
        """The outermost object, item by item of its lists."""
        found: dict[str, Any] = {}
        self._take("{", "an object")
        if self._next_is("}"):
            self._take("}", "")
            return found
        while True:
            if not self._next_is('"'):
                raise self._wrong("Expecting property name enclosed in double quotes")
            name = self._value()
            self._take(":", "':' delimiter")
            found[name] = (yield from self._list()) if self._next_is("[") else self._value()
            yield
            if self._next_is("}"):
                self._take("}", "")
                return found
            self._take(",", "',' delimiter")

    def _list(self) -> Generator[None, None, list[Any]]:
        items: list[Any] = []
        self._take("[", "")
        if self._next_is("]"):
            self._take("]", "")
            return items
        while True:
            items.append(self._value())
            yield
            if self._next_is("]"):
                self._take("]", "")
                return items
            self._take(",", "',' delimiter")

    def _value(self) -> Any:
        """The value that comes next. Raises ValueError, RecursionError and ``_NotUnicodeError``."""
        start = self._at
        value, self._at = self._decoder.raw_decode(self._text, start)
        if self._text.find("\\u", start, self._at) >= 0:
            try:
                json.dumps(value, ensure_ascii=False).encode()
            except UnicodeEncodeError:
                raise _NotUnicodeError from None
        self._skip()
        return value

    def _take(self, character: str, what: str) -> None:
        if not self._next_is(character):
            raise self._wrong(f"Expecting {what}")
        self._at += 1
        self._skip()

    def _next_is(self, character: str) -> bool:
        return self._text.startswith(character, self._at)

    def _skip(self) -> None:
        space = _SPACE.match(self._text, self._at)
        assert space is not None, "it may be empty"
        self._at = space.end()

    def _wrong(self, problem: str) -> json.JSONDecodeError:
        return json.JSONDecodeError(problem, self._text, self._at)


def _file_in_form(content_type: str, octets: bytes) -> bytes:
    """The part of a form that is called ``file``. Raises ValueError."""
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        raise ValueError("form: its Content-Type has no boundary")
    delimiter = b"\r\n--" + (boundary[1] or boundary[2]).encode("latin-1", "replace")
    octets = b"\r\n" + octets
    at = octets.find(delimiter)
    while at >= 0:
        start = at + len(delimiter)
        end = octets.find(delimiter, start)
        if end < 0:
            break
        head_end = octets.find(b"\r\n\r\n", start, min(end, start + _HEAD_MAX_BYTES))
        if head_end >= 0 and _FILE.search(octets, start, head_end):
            return octets[head_end + 4 : end]
        at = end
    raise ValueError("form: there is no part 'file'")
