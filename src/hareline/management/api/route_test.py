"""``POST /api/exchanges/{vhost}/{exchange}/route-test``: where a message would go, and why.

Nothing is published or counted. The walk is ``broker.route_explanation``; users see it in the
virtual hosts that they see, as they see the bindings there.
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from hareline.broker.route_explanation import RouteExplanation, Step, Verdict, explain
from hareline.management.api.access import caller_with_body
from hareline.management.api.answers import answer
from hareline.management.api.openapi import body_route
from hareline.management.api.site import Site
from hareline.management.bodies import parse_body
from hareline.management.pace import pace_of
from hareline.management.paths import exchange_name, name_in_path
from hareline.management.refusals import Refusal
from hareline.message.probe import probe_message

_COPIES: Final = ("CC", "BCC")
_KEYS_MAX: Final = 1_000


class RouteTest(BaseModel):
    """The message. ``headers`` may have CC and BCC, lists of further routing keys."""

    model_config = ConfigDict(extra="forbid")

    routing_key: str = ""
    headers: dict[str, Any] = {}
    properties: dict[str, Any] = {}


class RouteBinding(BaseModel):
    """What one binding does with the message, and why.

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


def router(site: Site) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["exchanges"])

    @router.post(
        "/api/exchanges/{vhost}/{exchange}/route-test",
        **body_route(RouteTest, {200: {"model": RouteTestAnswer}}),
    )
    async def route_test(request: Request) -> Response:
        """Say which queues would get a message, by which bindings, selectors and alternates."""
        who, octets = await caller_with_body(site, request)
        vhost = who.vhost(name_in_path(request.path_params["vhost"]))
        exchange = vhost.exchange(exchange_name(name_in_path(request.path_params["exchange"])))
        asked = parse_body(RouteTest, octets)
        copies, headers = _copies(asked.headers)
        try:
            message = probe_message(
                exchange.name,
                asked.routing_key,
                properties=asked.properties,
                headers=headers,
                arrival_ms=site.context.clock.now_ms,
            )
        except ValueError as problem:
            raise Refusal(400, "bad_request", str(problem)) from None
        walk = explain(vhost, exchange, [asked.routing_key, *copies], message)
        return answer(_described(await pace_of(request).run(walk)))

    return router


def _copies(headers: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Further routing keys, and the headers without BCC, which is taken off before routing."""
    copies: list[str] = []
    for name in _COPIES:
        keys = headers.get(name, [])
        if not isinstance(keys, list):
            raise Refusal(400, "bad_request", f"headers.{name}: must be a list of routing keys")
        copies += [key for key in keys if isinstance(key, str)]
    if len(copies) > _KEYS_MAX:
        raise Refusal(400, "bad_request", f"headers: more than {_KEYS_MAX} routing keys")
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
