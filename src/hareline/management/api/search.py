"""``GET /api/hareline/search``: names that contain a text, in everything that the user may see.

For the search of the web UI. Consumers are found by their tags, bindings by their routing keys,
once for each exchange. A name that begins with the text comes before one that contains it; what is
fewest, such as virtual hosts, comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel
from starlette.responses import Response

from hareline.management.answers import answer, bad_request
from hareline.management.api.call import Call, Caller, Routes
from hareline.management.api.connections import channels_of, open_connections_of, user_name
from hareline.management.api.site import Site
from hareline.management.pace import Share
from hareline.management.routes import integer, parameter

routes = Routes("hareline")

LIMIT: Final = 20
LIMIT_MAX: Final = 100
TEXT_MAX: Final = 255

Candidate = tuple[str, str, str | None, str | None, str]  # kind, name, vhost, note, searched text


class Hit(BaseModel):
    """An object. ``kind``: queue, stream, exchange, binding, connection, channel, consumer, policy,
    vhost or user.

    ``name``: of a binding its routing key. ``note``: of a binding its exchange, of a connection its
    user and the name that it gave itself, of a channel its user, of a consumer its queue, of an
    exchange its type, of a policy its pattern.
    """

    kind: str
    name: str
    vhost: str | None = None
    note: str | None = None


class Hits(BaseModel):
    """``is_complete``: False if there are more than were asked for."""

    items: list[Hit]
    is_complete: bool


@routes(
    "GET /api/hareline/search",
    gives=Hits,
    parameters=[
        parameter(
            "q",
            {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
            "What the name contains, in any case.",
            required=True,
        ),
        parameter("limit", integer(1, LIMIT_MAX, LIMIT), "How many objects at most."),
    ],
)
async def search(call: Call) -> Response:
    """Objects of all kinds with this in a name, an address, a consumer tag or a routing key."""
    text = call.query.get("q", "").strip().lower()
    if not text or len(text) > TEXT_MAX:
        raise bad_request(f"q: must have 1 to {TEXT_MAX} characters")
    limit = call.number("limit", LIMIT, 1, LIMIT_MAX)
    async with call.pace.share() as share:
        return answer(await _found(call.site, call.who, text, limit, share))


async def _found(site: Site, who: Caller, text: str, limit: int, share: Share) -> dict[str, Any]:
    exact: list[Candidate] = []
    begins: list[Candidate] = []
    contains: list[Candidate] = []
    for candidate in _candidates(site, who):
        await share.pause()
        searched = candidate[4].lower()
        if text not in searched:
            continue
        place = exact if searched == text else begins if searched.startswith(text) else contains
        if len(place) <= limit and candidate not in place:  # bindings of one key and exchange
            place.append(candidate)
    found = [*exact, *begins, *contains]
    return {
        "items": [
            {"kind": kind, "name": name, "vhost": vhost, "note": note}
            for kind, name, vhost, note, _ in found[:limit]
        ],
        "is_complete": len(found) <= limit,
    }


def _candidates(site: Site, who: Caller) -> Iterator[Candidate]:
    """All objects that the user sees, what is fewest first."""
    for vhost in who.vhosts():
        yield "vhost", vhost.name, None, None, vhost.name
    if who.is_administrator:
        for user in list(site.users):
            yield "user", user.name, None, None, user.name
    for vhost in who.vhosts():
        for exchange in list(vhost.exchanges.values()):
            if exchange.name:
                note = exchange.type_name
                yield "exchange", exchange.name, vhost.name, note, exchange.name
    for is_operator in (False, True):
        for policy in site.administration.policies.all(is_operator=is_operator):
            if who.sees(policy.vhost):
                yield "policy", policy.name, policy.vhost, policy.pattern, policy.name
    for connection in open_connections_of(site, who):
        name, client = connection.transport.connection_name, connection.client
        login = user_name(connection)
        given = client.properties.get("connection_name")
        note = f"{login} {given}" if isinstance(given, str) else login
        yield "connection", name, client.vhost.name, note, f"{name} {note}"
    for connection in open_connections_of(site, who):
        client = connection.client
        for channel in channels_of(connection):
            name = channel.port.channel_name
            yield "channel", name, client.vhost.name, user_name(connection), name
            for consumer in list(channel.consumers.by_tag.values()):
                yield "consumer", consumer.tag, client.vhost.name, consumer.queue.name, consumer.tag
    for vhost in who.vhosts():
        for queue in list(vhost.queues.values()):
            arguments = vhost.queue_arguments.get(queue.name)  # None: deleted since the list
            if arguments is None:
                continue
            kind = "stream" if arguments.queue_type == "stream" else "queue"
            yield kind, queue.name, vhost.name, None, queue.name
    for vhost in who.vhosts():
        for source in list(vhost.exchanges):
            for binding in vhost.bindings.from_source(source):
                if binding.routing_key:
                    yield "binding", binding.routing_key, vhost.name, source, binding.routing_key
