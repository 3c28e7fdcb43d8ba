"""``/api/definitions``: all definitions as one file, out and in.

Invariant: an import that leaves something out says what, and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from hareline.administration.definitions_export import Export
from hareline.administration.definitions_import import Import, report_import
from hareline.administration.definitions_rabbitmq import ForRabbitMQ
from hareline.broker.vhost import VirtualHost
from hareline.management.api.access import caller
from hareline.management.api.administering import administration_of, changer, name_of, run_changes
from hareline.management.api.answers import answer, no_content
from hareline.management.api.definitions_body import definitions_in
from hareline.management.api.listing import flag
from hareline.management.api.openapi import body_route, one_route
from hareline.management.api.site import Site
from hareline.management.bodies import bodies_of, read_body
from hareline.management.change_log import CALLER
from hareline.management.pace import pace_of
from hareline.management.refusals import Refusal
from hareline.management.strict_json import encoded
from hareline.octets import NOT_UTF8, exact, with_texts

BODY_MAX_BYTES: Final = 20 << 20  # RabbitMQ's limit
#: Of one note in the header Warning, and of all: clients limit what a header may have.
WARNING_MAX_CHARS: Final = 1_000
WARNINGS_MAX_CHARS: Final = 4_000
_NOT_UTF8: Final = NOT_UTF8.encode()


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


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["definitions"])
    imported: dict[int | str, dict[str, Any]] = {
        200: {
            "model": Imported,
            "description": "Something was left out, or a report was asked for",
        },
        204: {"description": "All was taken over"},
    }

    @router.get("/api/definitions", **one_route(Definitions))
    async def definitions(request: Request) -> Response:
        """All definitions."""
        await caller(site, request, "administrator")
        return await _exported(site, request)

    @router.get("/api/all-configuration", **one_route(Definitions))
    async def all_configuration(request: Request) -> Response:
        """All definitions, by the older name of the route."""
        await caller(site, request, "administrator")
        return await _exported(site, request)

    @router.get("/api/definitions/{vhost}", **one_route(Definitions))
    async def definitions_of_vhost(request: Request) -> Response:
        """The definitions of a virtual host."""
        who = await caller(site, request, "administrator")
        return await _exported(site, request, who.vhost(name_of(request, "vhost")))

    @router.post("/api/definitions", **body_route(Definitions, imported))
    async def import_definitions(request: Request) -> Response:
        """Take definitions over; nothing is deleted. With ``report=true`` the answer says what."""
        await caller(site, request, "administrator")
        return await _imported(site, request)

    @router.post("/api/all-configuration", **body_route(Definitions, imported))
    async def import_configuration(request: Request) -> Response:
        """Take definitions over, by the older name of the route."""
        await caller(site, request, "administrator")
        return await _imported(site, request)

    @router.post("/api/definitions/{vhost}", **body_route(Definitions, imported))
    async def import_into_vhost(request: Request) -> Response:
        """Take definitions over into a virtual host."""
        who = await caller(site, request, "administrator")
        vhost = who.vhost(name_of(request, "vhost"))
        return await _imported(site, request, vhost.name)

    return router


async def _exported(site: Site, request: Request, vhost: VirtualHost | None = None) -> Response:
    """The definitions, hashes of passwords among them, so that it is noted who has them."""
    site.note("definitions.exported", **({} if vhost is None else {"vhost": vhost.name}))
    export = Export(site.context, administration_of(site), vhost)
    for_rabbitmq = _for_rabbitmq(request)
    head = export.head()
    parts = [encoded(head if for_rabbitmq is None else for_rabbitmq.head(head))[:-1]]
    async with pace_of(request).share() as share:
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
    download = request.query_params.get("download")
    if download is not None:
        file_name = "".join(
            each for each in download if (each.isascii() and each.isalnum()) or each in "-_."
        )
        headers["Content-Disposition"] = f'attachment; filename="{file_name or "definitions.json"}"'
    return Response(b"".join(parts), headers=headers, media_type="application/json")


def _for_rabbitmq(request: Request) -> ForRabbitMQ | None:
    """None: the form of this broker's own. Raises Refusal."""
    name = request.query_params.get("format", "")
    if name not in ("", "rabbitmq"):
        raise Refusal(400, "bad_request", f"format: '{name}' is not rabbitmq")
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


async def _imported(site: Site, request: Request, vhost: str | None = None) -> Response:
    """Take over what the body has; its end is when the user has to be an administrator."""
    pace = pace_of(request)
    with bodies_of(request).hold(BODY_MAX_BYTES) as held:
        octets = await read_body(request, BODY_MAX_BYTES, held)
        try:
            given = await pace.run(definitions_in(octets, request.headers.get("Content-Type", "")))
        except ValueError as error:
            raise Refusal(400, "bad_request", str(error)) from None
    who = await changer(site, request)
    if vhost is not None:
        who.vhost(vhost)
    by = who.user.name
    done = Import(site.context, administration_of(site), given, vhost=vhost, by=by)
    log = site.changes
    steps = done.steps() if log is None else log.quietly(done.steps())
    await run_changes(site, request, steps, "so a restart lacks the last items")
    if log is not None:
        details = {"counts": done.done, "left_out": len(done.left_out)}
        log.note(
            "definitions.imported", details | ({"vhost": vhost} if vhost else {}), CALLER.get()
        )
    report_import(site.context.report, done, f"HTTP by '{by}'")
    if not done.left_out and not flag(request, "report"):
        return no_content()
    left_out = [each._asdict() for each in done.left_out]
    return answer({"done": done.done, "left_out": left_out})
