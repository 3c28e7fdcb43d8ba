"""``/api/bindings`` and the bindings of one exchange, one queue or one pair; for reading.

Each queue has a binding of the default exchange with its own name, which is listed too. Of one
pair of ends a binding is told by its ``properties_key``.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote_plus

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from hareline.administration.terms import table_json
from hareline.broker.exchanges.bindings import Binding, DestinationKind
from hareline.broker.vhost import VirtualHost
from hareline.management.api.access import Caller, caller
from hareline.management.api.answers import answer, not_found
from hareline.management.api.exchanges import find_exchange
from hareline.management.api.listing import listing
from hareline.management.api.openapi import list_route, one_route
from hareline.management.api.queues import find_queue
from hareline.management.api.site import Site
from hareline.management.pace import pace_of
from hareline.management.paths import exchange_name, name_in_path

Place = tuple[VirtualHost, Binding]
KINDS: Final[Mapping[str, DestinationKind]] = {"q": "queue", "e": "exchange"}


class BindingInfo(BaseModel):
    """A binding; the source is an exchange."""

    source: str
    vhost: str
    destination: str
    destination_type: str
    routing_key: str
    arguments: dict[str, Any]
    properties_key: str


def properties_key(binding: Binding) -> str:
    """What tells a binding from others of the same ends: RabbitMQ's, but for the digest.

    The routing key, encoded as in a form and with ``~`` as ``%7E``, then ``~`` and a digest of the
    arguments if there are any. ``~`` stands for an empty key without arguments.
    """
    key = quote_plus(binding.routing_key, safe="", errors="surrogateescape").replace("~", "%7E")
    if not binding.key:
        return key or "~"
    octets = repr(binding.key).encode("utf-8", "backslashreplace")
    digest = hashlib.blake2b(octets, digest_size=16).digest()
    return f"{key}~{base64.urlsafe_b64encode(digest).rstrip(b'=').decode('ascii')}"


async def find_binding(bindings: Iterator[Binding], request: Request) -> Binding:
    """The one of these that the path names by its properties key. Raises Refusal (404).

    The key is percent-encoded in the path like any name; clients that leave that out are understood
    too.
    """
    given = request.path_params["props"]
    wanted = {given, name_in_path(given)}
    async with pace_of(request).share() as share:
        for binding in bindings:
            if properties_key(binding) in wanted:
                return binding
            await share.pause()
    raise not_found()


def between(
    vhost: VirtualHost, source: str, kind: DestinationKind, destination: str
) -> Iterator[Binding]:
    """The bindings of this pair of ends."""
    for binding in _to(vhost, kind, destination):
        if binding.source == source:
            yield binding


def describe(place: Place) -> dict[str, Any]:
    """The JSON object of a binding."""
    vhost, binding = place
    return {
        "source": binding.source,
        "vhost": vhost.name,
        "destination": binding.destination,
        "destination_type": binding.kind,
        "routing_key": binding.routing_key,
        "arguments": table_json(binding.arguments),
        "properties_key": properties_key(binding),
    }


def _default(queue_name: str) -> Binding:
    """The binding of the default exchange that each queue has."""
    return Binding.of("", "queue", queue_name, queue_name, {})


def _to(vhost: VirtualHost, kind: DestinationKind, name: str) -> Iterator[Binding]:
    if kind == "queue" and name in vhost.queues:
        yield _default(name)
    yield from vhost.bindings.to_destination(kind, name)


def _from(vhost: VirtualHost, name: str) -> Iterator[Binding]:
    if name:
        yield from vhost.bindings.from_source(name)
    else:
        yield from map(_default, list(vhost.queues))


def _all(vhosts: list[VirtualHost]) -> Iterator[Place]:
    for vhost in vhosts:
        for name in list(vhost.exchanges):
            for binding in _from(vhost, name):
                yield vhost, binding


_SORT: Final = (
    *("vhost", "source", "destination_type", "destination", "routing_key", "properties_key"),
)
_KEYS: Final[Mapping[str, Callable[[Place], Any]]] = {
    "vhost": lambda place: place[0].name,
    "source": lambda place: place[1].source,
    "destination": lambda place: place[1].destination,
    "destination_type": lambda place: place[1].kind,
    "routing_key": lambda place: place[1].routing_key,
    "properties_key": lambda place: properties_key(place[1]),
}


def ends_in_path(who: Caller, request: Request) -> tuple[VirtualHost, str, DestinationKind, str]:
    """Virtual host, source, kind and name of the destination; the ends may be missing.

    Raises Refusal for the virtual host, or another kind than ``q`` and ``e``.
    """
    vhost = who.vhost(name_in_path(request.path_params["vhost"]))
    kind = KINDS.get(request.path_params["kind"])
    if kind is None:
        raise not_found()
    source = exchange_name(name_in_path(request.path_params["source"]))
    destination = name_in_path(request.path_params["destination"])
    return vhost, source, kind, destination if kind == "queue" else exchange_name(destination)


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["bindings"])

    async def binding_list(request: Request, places: Iterator[Place]) -> Response:
        return await listing(
            request,
            places,
            describe,
            _SORT,
            name_of=lambda place: place[1].destination,
            keys=_KEYS,
        )

    @router.get("/api/bindings", **list_route(BindingInfo))
    async def bindings(request: Request) -> Response:
        """The bindings of all virtual hosts that the user sees."""
        return await binding_list(request, _all((await caller(site, request)).vhosts()))

    @router.get("/api/bindings/{vhost}", **list_route(BindingInfo))
    async def bindings_of_vhost(request: Request) -> Response:
        """The bindings of a virtual host."""
        who = await caller(site, request)
        vhost = who.vhost(name_in_path(request.path_params["vhost"]))
        return await binding_list(request, _all([vhost]))

    @router.get("/api/exchanges/{vhost}/{exchange}/bindings/source", **list_route(BindingInfo))
    async def bindings_from_exchange(request: Request) -> Response:
        """The bindings of which an exchange is the source."""
        vhost, exchange = find_exchange(await caller(site, request), request)
        found = _from(vhost, exchange.name)
        return await binding_list(request, ((vhost, each) for each in found))

    @router.get("/api/exchanges/{vhost}/{exchange}/bindings/destination", **list_route(BindingInfo))
    async def bindings_to_exchange(request: Request) -> Response:
        """The bindings of which an exchange is the destination."""
        vhost, exchange = find_exchange(await caller(site, request), request)
        found = _to(vhost, "exchange", exchange.name)
        return await binding_list(request, ((vhost, each) for each in found))

    @router.get("/api/queues/{vhost}/{queue}/bindings", **list_route(BindingInfo))
    async def bindings_of_queue(request: Request) -> Response:
        """The bindings of a queue."""
        vhost, queue = find_queue(await caller(site, request), request)
        found = _to(vhost, "queue", queue.name)
        return await binding_list(request, ((vhost, each) for each in found))

    of_pair = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"

    @router.get(of_pair, **list_route(BindingInfo))
    async def bindings_of_pair(request: Request) -> Response:
        """The bindings from an exchange to a queue (kind ``q``) or an exchange (``e``)."""
        vhost, source, kind, destination = ends_in_path(await caller(site, request), request)
        found = between(vhost, source, kind, destination)
        return await binding_list(request, ((vhost, each) for each in found))

    @router.get(f"{of_pair}/{{props}}", **one_route(BindingInfo))
    async def binding(request: Request) -> Response:
        """One binding, by its properties key."""
        vhost, source, kind, destination = ends_in_path(await caller(site, request), request)
        found = await find_binding(between(vhost, source, kind, destination), request)
        return answer(describe((vhost, found)))

    return router
