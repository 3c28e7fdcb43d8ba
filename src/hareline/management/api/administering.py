"""What the routes of users, permissions, virtual hosts, limits and policies have in common.

``management.app`` turns an ``AdministrationError`` into an answer by ``refusal_of``.

Invariant: a change is told to the listeners with the name of the user who asked for it.
"""

from __future__ import annotations

import json
from typing import Final, TypeVar

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from hareline.administration import Administration, AdministrationError
from hareline.broker.vhost import VirtualHost
from hareline.management.api.access import Caller
from hareline.management.api.answers import created, no_content
from hareline.management.api.site import Site
from hareline.management.bodies import parse_body
from hareline.management.paths import name_in_path
from hareline.management.refusals import Refusal

Model = TypeVar("Model", bound=BaseModel)

_STATUSES: Final = {"bad_request": 400, "not_found": 404, "conflict": 409, "protected": 412}


class Body(BaseModel):
    """A body as RabbitMQ takes it: keys that it does not know mean nothing."""

    model_config = ConfigDict(extra="ignore")


def administration_of(site: Site) -> Administration:
    """The broker's administration."""
    assert site.administration is not None, "a broker that has started has one"
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


def put_answer(is_new: bool) -> Response:
    """201 for what was made, 204 for what was there."""
    return created() if is_new else no_content()
