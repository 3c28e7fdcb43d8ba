"""Common parts of the routes of users, permissions, virtual hosts, limits and policies.

``management.api.app`` turns an ``AdministrationError`` into an answer by ``refusal_of``. A route
that changes something begins with ``changer`` or ``changer_with_body``, which wait until no other
change is under way, changes without an ``await`` behind that, and ends with ``answer_put`` or
``answer_done``, which wait until the change is durable. ``run_changes`` does so for many of them.

Invariant: a change is told to the listeners with the name of the user who asked for it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from typing import Final, TypeVar

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from hareline.administration import Administration, AdministrationError
from hareline.broker.vhost import VirtualHost
from hareline.management.api.access import Caller, Tag, caller
from hareline.management.api.answers import created, no_content
from hareline.management.api.changing import settle
from hareline.management.api.site import Site
from hareline.management.bodies import parse_body, read_body
from hareline.management.pace import pace_of
from hareline.management.paths import name_in_path
from hareline.management.refusals import Refusal
from hareline.management.settling import idle

Model = TypeVar("Model", bound=BaseModel)

_OVER: Final = object()
_STATUSES: Final = {"bad_request": 400, "not_found": 404, "conflict": 409, "protected": 412}


class Body(BaseModel):
    """A body as RabbitMQ takes it: keys that it does not know mean nothing."""

    model_config = ConfigDict(extra="ignore")


def administration_of(site: Site) -> Administration:
    """The broker's administration."""
    return site.administration


def refusal_of(error: AdministrationError) -> Refusal:
    """The answer to an administrative act that was not done."""
    if error.kind == "not_found":
        return Refusal(404, "Object Not Found", "Not Found")
    error_name = "precondition_failed" if error.kind == "protected" else error.kind
    return Refusal(_STATUSES[error.kind], error_name, error.reason)


def name_of(request: Request, place: str) -> str:
    """A name in the path."""
    return name_in_path(request.path_params[place])


def vhost_to_change(who: Caller, request: Request) -> VirtualHost:
    """The virtual host in the path, for policies and parameters. Raises Refusal.

    A policymaker needs permissions there, an administrator does not, as in RabbitMQ.
    """
    name = name_of(request, "vhost")
    if not who.exists(name):
        raise Refusal(404, "not_found", "vhost_not_found")
    return who.vhost(name) if who.is_administrator else who.enter(name)


def body_of(model: type[Model], octets: bytes) -> Model:
    """The body of a request; an empty one is an empty object. Raises Refusal."""
    octets = octets or b"{}"
    check_unicode(octets)
    return parse_body(model, octets)


def check_unicode(octets: bytes) -> None:
    """Raise Refusal for JSON with half a character (``\\ud800``), which no name can hold."""
    if b"\\ud" not in octets.lower():
        return
    try:
        json.dumps(json.loads(octets), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Refusal(400, "bad_request", "body: a text in it is not Unicode") from None
    except (ValueError, RecursionError):
        return  # the parser of the body says what is wrong


async def changer(site: Site, request: Request, tag: Tag = "administrator") -> Caller:
    """Wait until no other change is under way; returns the caller, checked after that."""
    changes = administration_of(site).changes
    while True:
        found = await caller(site, request, tag)
        if not changes.is_pending:
            return found
        await idle(changes)  # that change may have been about this caller


async def changer_with_body(
    site: Site, request: Request, tag: Tag = "administrator"
) -> tuple[Caller, bytes]:
    """Return the caller as ``changer`` does, and the body; see ``caller_with_body``."""
    await caller(site, request, tag)
    octets = await read_body(request)
    return await changer(site, request, tag), octets


async def settle_change(site: Site, lost: str = "so not done") -> None:
    """Return when what was changed is durable. Raises Refusal, which has ``lost``, if it is not."""
    await settle(administration_of(site).changes.when_settled, lost)


async def answer_put(site: Site, is_new: bool) -> Response:
    """201 for what was made, 204 for what was there, when it is durable. Raises Refusal."""
    await settle_change(site)
    return created() if is_new else no_content()


async def answer_done(site: Site) -> Response:
    """204 when what was done is durable. Raises Refusal if it is lost."""
    return await answer_put(site, is_new=False)


async def run_changes(
    site: Site, request: Request, steps: Generator[None, None, None], lost: str
) -> None:
    """Take steps that each make changes. Raises Refusal, which has ``lost``, if one is not durable.

    Changes of others go between the steps.
    """
    changes = administration_of(site).changes
    async with pace_of(request).share() as share:
        is_over = False
        while not is_over:
            while changes.is_pending:
                await share.wait_for(idle(changes))
            is_over = next(steps, _OVER) is _OVER
            await share.wait_for(settle(changes.when_settled, lost))
            await share.wait_for(asyncio.sleep(0))  # changes that wait go before the next step
