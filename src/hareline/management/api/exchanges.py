"""``/api/exchanges``: the exchanges of the virtual hosts that a user sees; for reading.

The default exchange has an empty name in JSON and is ``amq.default`` in paths, as in RabbitMQ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from hareline.administration.terms import table_json
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.vhost import VirtualHost
from hareline.management.api.access import Caller, caller
from hareline.management.api.administering import administration_of
from hareline.management.api.answers import answer, not_found
from hareline.management.api.listing import listing, picked_columns
from hareline.management.api.openapi import list_route, one_route
from hareline.management.api.policies import shown
from hareline.management.api.rates import Rates
from hareline.management.api.site import Site
from hareline.management.api.sorting import exchange_keys
from hareline.management.paths import exchange_name, name_in_path

Place = tuple[VirtualHost, Exchange]


class ExchangeInfo(BaseModel):
    """An exchange."""

    model_config = ConfigDict(extra="allow")

    name: str
    vhost: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: dict[str, Any]
    message_stats: dict[str, Any] = {}


def find_exchange(who: Caller, request: Request) -> Place:
    """The exchange in the path. Raises Refusal: 404 if missing, 401 if it is not seen."""
    vhost = who.vhost(name_in_path(request.path_params["vhost"]))
    exchange = vhost.exchanges.get(exchange_name(name_in_path(request.path_params["exchange"])))
    if exchange is None:
        raise not_found()
    return vhost, exchange


def describe(site: Site, rates: Rates) -> Callable[[Place], dict[str, Any]]:
    """What makes the JSON object of an exchange."""
    policies = administration_of(site).policies

    def described(place: Place) -> dict[str, Any]:
        vhost, exchange = place
        is_ours = exchange.name == "" or exchange.name.startswith("amq.")
        row: dict[str, Any] = {
            "name": exchange.name,
            "vhost": vhost.name,
            "type": exchange.type_name,
            "durable": exchange.is_durable,
            "auto_delete": exchange.is_auto_delete,
            "internal": exchange.is_internal,
            "arguments": table_json(exchange.arguments),
            "policy": shown(policies.of_exchange(vhost.name, exchange))["policy"],
            "user_who_performed_action": "rmq-internal" if is_ours else "",
        }
        if rates.is_wanted:
            counts = exchange.counts.as_dict()
            row |= rates.object_stats("exchange", (vhost.name, exchange.name), counts)
        return row

    return described


def _keys(rates: Rates) -> Mapping[str, Callable[[Place], Any]]:
    def rate(name: str) -> Callable[[Place], float]:
        return lambda place: rates.rate("exchange", (place[0].name, place[1].name), name)

    return {
        **_KEYS,
        **exchange_keys(),
        "message_stats.publish_in_details.rate": rate("publish_in"),
        "message_stats.publish_out_details.rate": rate("publish_out"),
    }


_KEYS: Final[Mapping[str, Callable[[Place], Any]]] = {
    "name": lambda place: place[1].name,
    "vhost": lambda place: place[0].name,
    "type": lambda place: place[1].type_name,
    "durable": lambda place: place[1].is_durable,
    "auto_delete": lambda place: place[1].is_auto_delete,
    "internal": lambda place: place[1].is_internal,
}


def _places(vhosts: list[VirtualHost]) -> Iterator[Place]:
    for vhost in vhosts:
        for exchange in list(vhost.exchanges.values()):
            yield vhost, exchange


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["exchanges"])

    async def exchange_list(request: Request, vhosts: list[VirtualHost]) -> Response:
        rates = Rates(site, request)
        return await listing(
            request,
            _places(vhosts),
            describe(site, rates),
            ("vhost", "name"),
            name_of=lambda place: place[1].name,
            keys=_keys(rates),
        )

    @router.get("/api/exchanges", **list_route(ExchangeInfo))
    async def exchanges(request: Request) -> Response:
        """The exchanges of all virtual hosts that the user sees."""
        return await exchange_list(request, (await caller(site, request)).vhosts())

    @router.get("/api/exchanges/{vhost}", **list_route(ExchangeInfo))
    async def exchanges_of_vhost(request: Request) -> Response:
        """The exchanges of a virtual host."""
        who = await caller(site, request)
        return await exchange_list(request, [who.vhost(name_in_path(request.path_params["vhost"]))])

    @router.get("/api/exchanges/{vhost}/{exchange}", **one_route(ExchangeInfo))
    async def exchange(request: Request) -> Response:
        """One exchange; ``amq.default`` is the default exchange."""
        who = await caller(site, request)
        place = find_exchange(who, request)
        row = describe(site, Rates(site, request))(place)
        # which channel brought what, and which queue got it, is not counted (rates_mode basic)
        row["incoming"] = []
        row["outgoing"] = []
        return answer(picked_columns(request, row))

    return router
