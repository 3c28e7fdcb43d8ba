"""POST and DELETE of bindings, as RabbitMQ's API has them.

Each does what a client does with queue.bind, exchange.bind and their opposites, with the rights of
the user who asks (``api.changing``). A binding is told from others of its ends by its properties
key (``api.bindings``).

Invariant: as of ``api.changing``.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from hareline.amqp.rights import require_passing_on
from hareline.amqp.topology_methods import refuse_default_exchange
from hareline.broker.exchanges.bindings import Binding, DestinationKind
from hareline.broker.exchanges.exchange import Exchange
from hareline.management.api.answers import created, no_content, not_found
from hareline.management.api.bindings import KINDS, between, find_binding, properties_key
from hareline.management.api.changing import (
    Arguments,
    ArgumentsField,
    Entered,
    checked_name,
    enter,
    enter_with_body,
    exchange_name_in,
    settle_definitions,
)
from hareline.management.api.openapi import body_route
from hareline.management.api.site import Site
from hareline.management.bodies import parse_body
from hareline.management.paths import name_in_path, path_of_name
from hareline.queues.queue import Queue


class BindingBody(BaseModel):
    """A binding to make."""

    routing_key: str = ""
    arguments: Arguments = ArgumentsField


_GONE: dict[int | str, dict[str, Any]] = {204: {"description": "Deleted"}}


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["bindings"])

    of_pair = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"

    @router.post(
        of_pair, status_code=201, **body_route(BindingBody, {201: {"description": "Made"}})
    )
    async def bind(request: Request) -> Response:
        """Bind a queue (kind ``q``) or an exchange (``e``) to an exchange."""
        entered, octets = await enter_with_body(site, request)
        source, kind, destination = _ends(entered, request)
        asked = parse_body(BindingBody, octets or b"{}")
        routing_key = checked_name(asked.routing_key, "routing_key")
        _require_binding_rights(entered, source, kind, destination, routing_key)
        if isinstance(destination, Exchange):
            require_passing_on(entered.access, destination)
        with entered.acting():
            entered.vhost.bind(source, kind, destination, routing_key, asked.arguments)
        await settle_definitions(entered)
        made = Binding.of(source, kind, destination.name, routing_key, asked.arguments)
        # relative to the request's path; the key is encoded once more, as any name in a path
        return created("/".join(map(path_of_name, (destination.name, properties_key(made)))))

    @router.delete(f"{of_pair}/{{props}}", response_model=None, status_code=204, responses=_GONE)
    async def unbind(request: Request) -> Response:
        """End the binding that has this properties key."""
        entered = await enter(site, request)
        source, kind, destination = _ends(entered, request)
        found = await find_binding(between(entered.vhost, source, kind, destination.name), request)
        entered.renew()  # of many bindings it is found in shares, and much may go meanwhile
        source, kind, destination = _ends(entered, request)
        _require_binding_rights(entered, source, kind, destination, found.routing_key)
        with entered.acting():
            entered.vhost.unbind(source, kind, destination, found.routing_key, found.arguments)
        await settle_definitions(entered)
        return no_content()

    return router


def _ends(entered: Entered, request: Request) -> tuple[str, DestinationKind, Queue | Exchange]:
    """Source, kind and destination of the path.

    Raises Refusal for another kind, NotFound if one of the ends is missing.
    """
    vhost = entered.vhost
    kind = KINDS.get(request.path_params["kind"])
    if kind is None:
        raise not_found()
    source = vhost.exchange(exchange_name_in(request, "source")).name
    if kind == "queue":
        name = checked_name(name_in_path(request.path_params["destination"]), "queue")
        return source, kind, vhost.queue(name, None)
    return source, kind, vhost.exchange(exchange_name_in(request, "destination"))


def _require_binding_rights(
    entered: Entered,
    source: str,
    kind: DestinationKind,
    destination: Queue | Exchange,
    routing_key: str,
) -> None:
    """As ``amqp`` for bind and unbind of a queue or an exchange."""
    refuse_default_exchange(source)
    if kind == "exchange":
        refuse_default_exchange(destination.name)
    entered.access.require("write", kind, destination.name)
    entered.access.require("read", "exchange", source, routing_key)
    if entered.vhost.exchange(source).type_name == "topic":
        entered.access.require_topic("read", source, routing_key)
