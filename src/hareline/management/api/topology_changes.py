"""PUT and DELETE of exchanges and queues, as RabbitMQ's API has them.

Each does what a client does with the method of the same meaning, with the rights of the user who
asks (``api.changing``): 201 for what is new, 204 for what is there and alike, 400 with AMQP's code
and text for what contradicts, 404 for what is not there.

Invariant: as of ``api.changing``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from hareline.amqp.rights import require_exchange_rights, require_queue_rights
from hareline.amqp.topology_methods import clean_name, refuse_default_exchange
from hareline.broker.exchange_types import exchange_class
from hareline.broker.exchanges.alternate import with_alternate
from hareline.management.api.answers import created, no_content
from hareline.management.api.changing import (
    Arguments,
    ArgumentsField,
    enter,
    enter_with_body,
    exchange_name_in,
    queue_name_in,
    settle_definitions,
)
from hareline.management.api.listing import flag
from hareline.management.api.openapi import body_route
from hareline.management.api.site import Site
from hareline.management.bodies import parse_body


class QueueBody(BaseModel):
    """A queue to declare; every field may be left out. An exclusive one needs a connection."""

    durable: bool = False
    auto_delete: bool = False
    exclusive: Literal[False] = False
    arguments: Arguments = ArgumentsField


class ExchangeBody(BaseModel):
    """An exchange to declare; every field may be left out."""

    type: str = "direct"
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: Arguments = ArgumentsField


_MADE: dict[int | str, dict[str, Any]] = {
    201: {"description": "Made"},
    204: {"description": "It was there, and is alike"},
}


def _conditions(*names: str) -> dict[str, Any]:
    """What OpenAPI says of a DELETE with these conditions."""
    return {
        "response_model": None,
        "status_code": 204,
        "openapi_extra": {
            "parameters": [
                {"name": name, "in": "query", "required": False, "schema": {"type": "boolean"}}
                for name in names
            ]
        },
    }


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["topology"])

    @router.put("/api/queues/{vhost}/{queue}", status_code=201, **body_route(QueueBody, _MADE))
    async def declare_queue(request: Request) -> Response:
        """Declare a queue."""
        entered, octets = await enter_with_body(site, request)
        name = clean_name(queue_name_in(request))
        asked = parse_body(QueueBody, octets or b"{}")
        entered.access.require("configure", "queue", name)
        vhost = entered.vhost
        is_new = name not in vhost.queues
        with entered.acting():
            vhost.declare_queue(
                name,
                is_durable=asked.durable,
                is_auto_delete=asked.auto_delete,
                owner=None,
                arguments=asked.arguments,
                check_rights=partial(require_queue_rights, entered.access, vhost, name),
            )
        await settle_definitions(entered)
        return created() if is_new else no_content()

    @router.delete("/api/queues/{vhost}/{queue}", **_conditions("if-unused", "if-empty"))
    async def delete_queue(request: Request) -> Response:
        """Delete a queue, with conditions if so asked."""
        entered = await enter(site, request)
        name = clean_name(queue_name_in(request))
        entered.queue(name, "configure")
        is_unused, is_empty = flag(request, "if-unused"), flag(request, "if-empty")
        with entered.acting():
            entered.vhost.delete_queue(name, None, if_unused=is_unused, if_empty=is_empty)
        await settle_definitions(entered)
        return no_content()

    @router.put(
        "/api/exchanges/{vhost}/{exchange}", status_code=201, **body_route(ExchangeBody, _MADE)
    )
    async def declare_exchange(request: Request) -> Response:
        """Declare an exchange."""
        entered, octets = await enter_with_body(site, request)
        name = clean_name(exchange_name_in(request))
        asked = parse_body(ExchangeBody, octets or b"{}")
        refuse_default_exchange(name)
        exchange_class(asked.type)
        entered.access.require("configure", "exchange", name)
        vhost = entered.vhost
        is_new = name not in vhost.exchanges
        arguments = asked.arguments
        if is_new:
            arguments = with_alternate(arguments, exchange=name, vhost=vhost.name)
            require_exchange_rights(entered.access, name, arguments)
        with entered.acting():
            vhost.declare_exchange(
                name,
                asked.type,
                is_durable=asked.durable,
                is_auto_delete=asked.auto_delete,
                is_internal=asked.internal,
                arguments=arguments,
            )
        await settle_definitions(entered)
        return created() if is_new else no_content()

    @router.delete("/api/exchanges/{vhost}/{exchange}", **_conditions("if-unused"))
    async def delete_exchange(request: Request) -> Response:
        """Delete an exchange, with a condition if so asked."""
        entered = await enter(site, request)
        name = clean_name(exchange_name_in(request))
        entered.exchange(name)
        refuse_default_exchange(name)
        entered.access.require("configure", "exchange", name)
        with entered.acting():
            entered.vhost.delete_exchange(name, if_unused=flag(request, "if-unused"))
        await settle_definitions(entered)
        return no_content()

    return router
