"""``/api/exchanges``: exchanges, declared and deleted, and where a message would go, and why.

Each change does what a client does with the method of the same meaning, with the rights of the user
who asks. The default exchange has an empty name in JSON and is ``amq.default`` in paths, as in
RabbitMQ. A route test publishes and counts nothing; ``broker.route_explanation`` is its walk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from hareline.administration.checks import table_json
from hareline.amqp.rights import require_exchange_rights
from hareline.amqp.topology_methods import clean_name, refuse_default_exchange
from hareline.broker.exchange_types import exchange_class
from hareline.broker.exchanges.alternate import with_alternate
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.route_explanation import RouteExplanation, Step, Verdict, explain
from hareline.broker.vhost import VirtualHost
from hareline.management.answers import answer, bad_request, created, no_content, not_found
from hareline.management.api.call import Call, Routes
from hareline.management.api.listing import listing, picked_columns
from hareline.management.api.policies import shown
from hareline.management.api.rates import Keys, Rates
from hareline.management.api.site import Site
from hareline.management.bodies import Arguments, ArgumentsField, parse_body
from hareline.management.routes import exchange_name, parameter
from hareline.message.probe import probe_message

routes = Routes("exchanges")
topology_routes = Routes("topology", enters=True)

Place = tuple[VirtualHost, Exchange]

_COPIES: Final = ("CC", "BCC")
_KEYS_MAX: Final = 1_000
_MADE: Final[dict[int, dict[str, Any]]] = {
    201: {"description": "Made"},
    204: {"description": "It was there, and is alike"},
}


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


class ExchangeBody(BaseModel):
    """An exchange to declare; every field may be left out."""

    type: str = "direct"
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: Arguments = ArgumentsField


def find_exchange(call: Call) -> Place:
    """The exchange in the path. Raises Refusal: 404 if missing, 401 if it is not seen."""
    vhost = call.vhost
    exchange = vhost.exchanges.get(exchange_name(call.name("exchange")))
    if exchange is None:
        raise not_found()
    return vhost, exchange


def describe(site: Site, rates: Rates) -> Callable[[Place], dict[str, Any]]:
    """Return the function that makes the JSON object of an exchange."""
    policies = site.administration.policies

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
        if exchange.retained is not None:
            row["retained_messages"] = exchange.retained.ready_count
        if rates.is_wanted:
            counts = exchange.counts.as_dict()
            row |= rates.object_stats("exchange", (vhost.name, exchange.name), counts)
        return row

    return described


def exchange_keys(rates: Rates) -> Keys[Place]:
    """Columns of exchanges that a list is sorted by without describing them."""
    return {
        "name": lambda place: place[1].name,
        "vhost": lambda place: place[0].name,
        "type": lambda place: place[1].type_name,
        "durable": lambda place: place[1].is_durable,
        "auto_delete": lambda place: place[1].is_auto_delete,
        "internal": lambda place: place[1].is_internal,
        "message_stats.publish_in": lambda place: place[1].counts.publish_in,
        "message_stats.publish_out": lambda place: place[1].counts.publish_out,
        **rates.keys(
            "exchange",
            lambda place: (place[0].name, place[1].name),
            ("publish_in", "publish_out"),
            "message_stats.{}_details.rate",
        ),
    }


async def _exchanges(call: Call, vhosts: list[VirtualHost]) -> Response:
    rates = Rates(call)
    return await listing(
        call,
        ((vhost, each) for vhost in vhosts for each in list(vhost.exchanges.values())),
        describe(call.site, rates),
        name_of=lambda place: place[1].name,
        keys=exchange_keys(rates),
    )


@routes("GET /api/exchanges", lists=ExchangeInfo)
async def exchanges(call: Call) -> Response:
    """The exchanges of all virtual hosts that the user sees."""
    return await _exchanges(call, call.who.vhosts())


@routes("GET /api/exchanges/{vhost}", lists=ExchangeInfo)
async def exchanges_of_vhost(call: Call) -> Response:
    """The exchanges of a virtual host."""
    return await _exchanges(call, [call.vhost])


@routes("GET /api/exchanges/{vhost}/{exchange}", gives=ExchangeInfo)
async def exchange(call: Call) -> Response:
    """One exchange; ``amq.default`` is the default exchange."""
    row = describe(call.site, Rates(call))(find_exchange(call))
    # which channel brought what, and which queue got it, is not counted (rates_mode basic)
    row["incoming"] = []
    row["outgoing"] = []
    return answer(picked_columns(call, row))


@topology_routes(
    "PUT /api/exchanges/{vhost}/{exchange}", status=201, body=ExchangeBody, answers=_MADE
)
async def declare_exchange(call: Call) -> Response:
    """Declare an exchange."""
    name = clean_name(call.exchange_name())
    asked = call.body(ExchangeBody)
    refuse_default_exchange(name)
    exchange_class(asked.type)
    call.access.require("configure", "exchange", name)
    vhost, arguments = call.vhost, asked.arguments
    is_new = name not in vhost.exchanges
    if is_new:
        arguments = with_alternate(arguments, exchange=name, vhost=vhost.name)
        require_exchange_rights(call.access, name, arguments)
    with call.acting():
        vhost.declare_exchange(
            name,
            asked.type,
            is_durable=asked.durable,
            is_auto_delete=asked.auto_delete,
            is_internal=asked.internal,
            arguments=arguments,
        )
    await call.settle_definitions()
    return created() if is_new else no_content()


@topology_routes(
    "DELETE /api/exchanges/{vhost}/{exchange}",
    status=204,
    parameters=[parameter("if-unused", "boolean")],
    has_problems=False,
)
async def delete_exchange(call: Call) -> Response:
    """Delete an exchange, with a condition if so asked."""
    name = clean_name(call.exchange_name())
    call.exchange(name)
    refuse_default_exchange(name)
    call.access.require("configure", "exchange", name)
    with call.acting():
        call.vhost.delete_exchange(name, if_unused=call.flag("if-unused"))
    await call.settle_definitions()
    return no_content()


# ------------------------------------------------------------------------------- the route test


class RouteTest(BaseModel):
    """The message. ``headers`` may have CC and BCC, lists of further routing keys."""

    model_config = ConfigDict(extra="forbid")

    routing_key: str = ""
    headers: dict[str, Any] = {}
    properties: dict[str, Any] = {}


class RouteBinding(BaseModel):
    """The decision of one binding on the message, and the reason.

    ``outcome``: taken, possible (by chance), not_chosen, filtered, no_match or replaced.
    """

    destination: str
    destination_type: str
    routing_key: str
    arguments: dict[str, Any]
    outcome: str
    reason: str


class RouteStep(BaseModel):
    """One exchange on the way. ``reached_from``: the exchange before it; null for the first."""

    exchange: str
    type: str
    reached_from: str | None
    by_alternate: bool
    is_certain: bool
    routing_keys: list[str]
    binding_count: int
    bindings: list[RouteBinding]
    alternate: str | None
    alternate_reason: str
    archive: str | None


class RouteTestAnswer(BaseModel):
    """Queues that get the message, and those that may get it by chance."""

    queues: list[str]
    possible: list[str]
    archives: list[str]
    delay_ms: int
    steps: list[RouteStep]


@routes(
    "POST /api/exchanges/{vhost}/{exchange}/route-test",
    gives=RouteTestAnswer,
    body=RouteTest,
)
async def route_test(call: Call) -> Response:
    """Say which queues would get a message, by which bindings, selectors and alternates."""
    vhost = call.vhost
    exchange = vhost.exchange(exchange_name(call.name("exchange")))
    asked = parse_body(RouteTest, call.octets)
    copies, headers = _copies(asked.headers)
    try:
        message = probe_message(
            exchange.name,
            asked.routing_key,
            properties=asked.properties,
            headers=headers,
            arrival_ms=call.site.context.clock.now_ms,
        )
    except ValueError as problem:
        raise bad_request(str(problem)) from None
    walk = explain(vhost, exchange, [asked.routing_key, *copies], message)
    return answer(_described(await call.pace.run(walk)))


def _copies(headers: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Further routing keys, and the headers without BCC, which is taken off before routing."""
    copies: list[str] = []
    for name in _COPIES:
        keys = headers.get(name, [])
        if not isinstance(keys, list):
            raise bad_request(f"headers.{name}: must be a list of routing keys")
        copies += [key for key in keys if isinstance(key, str)]
    if len(copies) > _KEYS_MAX:
        raise bad_request(f"headers: more than {_KEYS_MAX} routing keys")
    return copies, {name: value for name, value in headers.items() if name != "BCC"}


def _described(explanation: RouteExplanation) -> dict[str, Any]:
    return {
        "queues": explanation.queues,
        "possible": explanation.possible,
        "archives": explanation.archives,
        "delay_ms": explanation.delay_ms,
        "steps": [_step(step) for step in explanation.steps],
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "exchange": step.exchange,
        "type": step.type_name,
        "reached_from": step.reached_from,
        "by_alternate": step.by_alternate,
        "is_certain": step.is_certain,
        "routing_keys": list(step.routing_keys),
        "binding_count": sum(step.counts.values()),
        "bindings": [_verdict(verdict) for verdict in step.verdicts],
        "alternate": step.alternate,
        "alternate_reason": step.alternate_reason,
        "archive": step.archive,
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    binding = verdict.binding
    return {
        "destination": binding.destination,
        "destination_type": binding.kind,
        "routing_key": binding.routing_key,
        "arguments": dict(binding.arguments),
        "outcome": verdict.outcome,
        "reason": verdict.reason,
    }
