"""``/api/bindings``, and the bindings of one exchange, one queue or one pair; bind and unbind.

Each queue has a binding of the default exchange with its own name, which is listed too. Of one
pair of ends a binding is told by its ``properties_key``. A change does what a client does with
queue.bind, exchange.bind and their opposites, with the rights of the user who asks.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote_plus

from pydantic import BaseModel
from starlette.responses import Response

from hareline.administration.checks import table_json
from hareline.amqp.rights import require_passing_on
from hareline.amqp.topology_methods import refuse_default_exchange
from hareline.broker.exchanges.bindings import Binding, DestinationKind
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.vhost import VirtualHost
from hareline.management.answers import answer, created, no_content, not_found
from hareline.management.api.call import Call, Routes, checked_name
from hareline.management.api.exchanges import find_exchange
from hareline.management.api.listing import listing
from hareline.management.api.queues import find_queue
from hareline.management.bodies import Arguments, ArgumentsField
from hareline.management.routes import exchange_name, path_of_name
from hareline.queues.queue import Queue

routes = Routes("bindings")

Place = tuple[VirtualHost, Binding]
KINDS: Final[Mapping[str, DestinationKind]] = {"q": "queue", "e": "exchange"}
_OF_PAIR: Final = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"
_SORT: Final = (
    *("vhost", "source", "destination_type", "destination", "routing_key", "properties_key"),
)


class BindingInfo(BaseModel):
    """A binding; the source is an exchange."""

    source: str
    vhost: str
    destination: str
    destination_type: str
    routing_key: str
    arguments: dict[str, Any]
    properties_key: str


class BindingBody(BaseModel):
    """A binding to make."""

    routing_key: str = ""
    arguments: Arguments = ArgumentsField


def properties_key(binding: Binding) -> str:
    """Return the key of a binding among those of the same ends: RabbitMQ's, but for the digest.

    The routing key, encoded as in a form and with ``~`` as ``%7E``, then ``~`` and a digest of the
    arguments if there are any. ``~`` stands for an empty key without arguments.
    """
    key = quote_plus(binding.routing_key, safe="", errors="surrogateescape").replace("~", "%7E")
    if not binding.key:
        return key or "~"
    octets = repr(binding.key).encode("utf-8", "backslashreplace")
    digest = hashlib.blake2b(octets, digest_size=16).digest()
    return f"{key}~{base64.urlsafe_b64encode(digest).rstrip(b'=').decode('ascii')}"


async def _find(call: Call, bindings: Iterator[Binding]) -> Binding:
    """The one of these that the path names by its properties key. Raises Refusal (404).

    The key is percent-encoded in the path like any name; clients that leave that out are understood
    too.
    """
    wanted = {call.request.path_params["props"], call.name("props")}
    async with call.pace.share() as share:
        for binding in bindings:
            if properties_key(binding) in wanted:
                return binding
            await share.pause()
    raise not_found()


def _between(
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


_KEYS: Final[Mapping[str, Callable[[Place], Any]]] = {
    "vhost": lambda place: place[0].name,
    "source": lambda place: place[1].source,
    "destination": lambda place: place[1].destination,
    "destination_type": lambda place: place[1].kind,
    "routing_key": lambda place: place[1].routing_key,
    "properties_key": lambda place: properties_key(place[1]),
}


def _seen_pair(call: Call) -> tuple[VirtualHost, Iterator[Binding]]:
    """The virtual host in the path, and the bindings of the pair; its ends may be missing.

    Raises Refusal for the virtual host, or another kind than ``q`` and ``e``.
    """
    vhost, kind = call.vhost, _kind(call)
    source, destination = exchange_name(call.name("source")), call.name("destination")
    if kind == "exchange":
        destination = exchange_name(destination)
    return vhost, _between(vhost, source, kind, destination)


def _kind(call: Call) -> DestinationKind:
    kind = KINDS.get(call.request.path_params["kind"])
    if kind is None:
        raise not_found()
    return kind


async def _bindings(call: Call, vhost: VirtualHost, found: Iterator[Binding]) -> Response:
    return await _list(call, ((vhost, each) for each in found))


async def _list(call: Call, places: Iterator[Place]) -> Response:
    return await listing(
        call,
        places,
        describe,
        _SORT,
        name_of=lambda place: place[1].destination,
        keys=_KEYS,
    )


@routes("GET /api/bindings", lists=BindingInfo)
async def bindings(call: Call) -> Response:
    """The bindings of all virtual hosts that the user sees."""
    return await _list(call, _all(call.who.vhosts()))


@routes("GET /api/bindings/{vhost}", lists=BindingInfo)
async def bindings_of_vhost(call: Call) -> Response:
    """The bindings of a virtual host."""
    return await _list(call, _all([call.vhost]))


@routes("GET /api/exchanges/{vhost}/{exchange}/bindings/source", lists=BindingInfo)
async def bindings_from_exchange(call: Call) -> Response:
    """The bindings of which an exchange is the source."""
    vhost, exchange = find_exchange(call)
    return await _bindings(call, vhost, _from(vhost, exchange.name))


@routes("GET /api/exchanges/{vhost}/{exchange}/bindings/destination", lists=BindingInfo)
async def bindings_to_exchange(call: Call) -> Response:
    """The bindings of which an exchange is the destination."""
    vhost, exchange = find_exchange(call)
    return await _bindings(call, vhost, _to(vhost, "exchange", exchange.name))


@routes("GET /api/queues/{vhost}/{queue}/bindings", lists=BindingInfo)
async def bindings_of_queue(call: Call) -> Response:
    """The bindings of a queue."""
    vhost, queue = find_queue(call)
    return await _bindings(call, vhost, _to(vhost, "queue", queue.name))


@routes(f"GET {_OF_PAIR}", lists=BindingInfo)
async def bindings_of_pair(call: Call) -> Response:
    """The bindings from an exchange to a queue (kind ``q``) or an exchange (``e``)."""
    return await _bindings(call, *_seen_pair(call))


@routes(f"GET {_OF_PAIR}/{{props}}", gives=BindingInfo)
async def binding(call: Call) -> Response:
    """One binding, by its properties key."""
    vhost, found = _seen_pair(call)
    return answer(describe((vhost, await _find(call, found))))


@routes(
    f"POST {_OF_PAIR}",
    status=201,
    body=BindingBody,
    answers={201: {"description": "Made"}},
    enters=True,
)
async def bind(call: Call) -> Response:
    """Bind a queue (kind ``q``) or an exchange (``e``) to an exchange."""
    source, kind, destination = _ends(call)
    asked = call.body(BindingBody)
    routing_key = checked_name(asked.routing_key, "routing_key")
    _require_binding_rights(call, source, kind, destination, routing_key)
    if isinstance(destination, Exchange):
        require_passing_on(call.access, destination)
    with call.acting():
        call.vhost.bind(source, kind, destination, routing_key, asked.arguments)
    await call.settle_definitions()
    made = Binding.of(source, kind, destination.name, routing_key, asked.arguments)
    # relative to the request's path; the key is encoded once more, as any name in a path
    return created("/".join(map(path_of_name, (destination.name, properties_key(made)))))


@routes(
    f"DELETE {_OF_PAIR}/{{props}}",
    status=204,
    answers={204: {"description": "Deleted"}},
    has_problems=False,
    enters=True,
)
async def unbind(call: Call) -> Response:
    """End the binding that has this properties key."""
    source, kind, destination = _ends(call)
    found = await _find(call, _between(call.vhost, source, kind, destination.name))
    call.renew()  # of many bindings it is found in shares, and much may go meanwhile
    source, kind, destination = _ends(call)
    _require_binding_rights(call, source, kind, destination, found.routing_key)
    with call.acting():
        call.vhost.unbind(source, kind, destination, found.routing_key, found.arguments)
    await call.settle_definitions()
    return no_content()


def _ends(call: Call) -> tuple[str, DestinationKind, Queue | Exchange]:
    """Source, kind and destination of the path.

    Raises Refusal for another kind, NotFound if one of the ends is missing.
    """
    vhost, kind = call.vhost, _kind(call)
    source = vhost.exchange(call.exchange_name("source")).name
    if kind == "queue":
        return source, kind, vhost.queue(checked_name(call.name("destination"), "queue"), None)
    return source, kind, vhost.exchange(call.exchange_name("destination"))


def _require_binding_rights(
    call: Call,
    source: str,
    kind: DestinationKind,
    destination: Queue | Exchange,
    routing_key: str,
) -> None:
    """As ``amqp`` for bind and unbind of a queue or an exchange."""
    refuse_default_exchange(source)
    if kind == "exchange":
        refuse_default_exchange(destination.name)
    call.access.require("write", kind, destination.name)
    call.access.require("read", "exchange", source, routing_key)
    if call.vhost.exchange(source).type_name == "topic":
        call.access.require_topic("read", source, routing_key)
