"""``GET /api/overview``: what the broker is, how much is in it, and how fast it moves.

Numbers are of the virtual hosts that the user sees, and connections of the user; with the tag
monitoring of all. Depths are those of now, rates and counters of messages those of the last sample.
"""

from __future__ import annotations

import platform
from collections import Counter
from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from hareline import __version__
from hareline.broker.exchange_types import EXCHANGE_TYPES
from hareline.management.api.call import Call, Routes
from hareline.management.api.connections import connections_of
from hareline.management.api.listing import picked_columns
from hareline.management.api.rates import Rates
from hareline.management.api.site import Site
from hareline.management.pace import Share
from hareline.management.refusals import answer
from hareline.statistics.history import BASIC, GLOBAL, Retention

routes = Routes("overview")

PRODUCT: Final = "Hareline"
#: What stands where RabbitMQ tells of Erlang.
RUNTIME: Final = f"{platform.python_implementation()} {platform.python_version()}"
RATES_MODE: Final = "basic"

_TYPES: Final = {
    "direct": "AMQP direct exchange, as per the AMQP specification",
    "fanout": "AMQP fanout exchange, as per the AMQP specification",
    "topic": "AMQP topic exchange, as per the AMQP specification",
    "headers": "AMQP headers exchange, as per the AMQP specification",
    "x-consistent-hash": "Consistent Hashing Exchange",
    "x-random": "Random exchange: one of the bound queues for each message",
    "x-local-random": "Local random exchange: one of the bound classic queues for each message",
    "x-jms-topic": "JMS topic exchange",
    "x-delayed-message": "Delayed Message Exchange",
}


class Overview(BaseModel):
    """The broker at a glance."""

    model_config = ConfigDict(extra="allow")

    management_version: str
    rabbitmq_version: str
    product_name: str
    product_version: str
    cluster_name: str
    node: str
    erlang_version: str
    erlang_full_version: str
    rates_mode: str
    exchange_types: list[dict[str, Any]]
    message_stats: dict[str, Any]
    churn_rates: dict[str, Any]
    queue_totals: dict[str, Any]
    object_totals: dict[str, int]
    listeners: list[dict[str, Any]]
    contexts: list[dict[str, Any]]


def exchange_types() -> list[dict[str, Any]]:
    """The types that exchange.declare takes."""
    return [
        {"name": name, "description": _TYPES.get(name, ""), "enabled": True}
        for name in sorted(EXCHANGE_TYPES)
    ]


def listeners(site: Site) -> list[dict[str, Any]]:
    """The ports, as RabbitMQ lists them."""
    return [
        {
            "node": site.node.name,
            "protocol": each.protocol,
            "ip_address": each.host,
            "port": each.port,
            "socket_opts": {},
            "tls": each.has_tls,
        }
        for each in site.node.listeners()
    ]


def contexts(site: Site) -> list[dict[str, Any]]:
    """The applications on HTTP ports."""
    return [
        {
            "node": site.node.name,
            "description": "Hareline management",
            "path": "/",
            "cowboy_opts": "[]",
            "ssl_opts": [],
            "ip": each.host,
            "port": str(each.port),
            "protocol": each.protocol,
        }
        for each in site.node.listeners()
        if each.protocol in ("http", "https")
    ]


def policies_of_samples() -> dict[str, list[int]]:
    """How far back samples go, in seconds, of the whole broker and of single objects."""

    def spans(retention: Retention) -> list[int]:
        return [level.span_s for level in retention]

    return {"global": spans(GLOBAL), "basic": spans(BASIC), "detailed": []}


@routes("GET /api/overview", gives=Overview)
async def overview(call: Call) -> Response:
    """The broker at a glance."""
    site, rates = call.site, Rates(call)
    row = _product(site)
    if rates.is_wanted:
        async with call.pace.share() as share:
            row |= await _numbers(call, rates, share)
    if call.who.is_monitor:
        row["listeners"] = listeners(site)
        row["contexts"] = contexts(site)
    return answer(picked_columns(call, row))


def _product(site: Site) -> dict[str, Any]:
    identity = site.context.identity
    return {
        "management_version": identity.version,
        "rates_mode": RATES_MODE,
        "sample_retention_policies": policies_of_samples(),
        "exchange_types": exchange_types(),
        "product_version": __version__,
        "product_name": PRODUCT,
        "rabbitmq_version": identity.version,
        "cluster_name": identity.cluster_name,
        "cluster_tags": {},
        "node_tags": {},
        "erlang_version": RUNTIME,
        "erlang_full_version": RUNTIME,
        "crypto_lib_version": "",
        "release_series_support_status": "supported",
        "disable_stats": False,
        "is_op_policy_updating_enabled": True,
        "enable_queue_totals": False,
        "default_queue_type": "classic",
        "message_stats": {},
        "churn_rates": {},
        "queue_totals": {},
        "object_totals": {},
        "statistics_db_event_queue": 0,
        "node": site.node.name,
        "listeners": [],
        "contexts": [],
    }


async def _numbers(call: Call, rates: Rates, share: Share) -> dict[str, Any]:
    site, who = call.site, call.who
    depths = {"messages": 0, "messages_ready": 0, "messages_unacknowledged": 0}
    objects = {"channels": 0, "connections": 0, "consumers": 0, "exchanges": 0, "queues": 0}
    vhosts = who.vhosts()
    for vhost in vhosts:
        objects["exchanges"] += len(vhost.exchanges)
        for queue in list(vhost.queues.values()):
            await share.pause()
            ready, unacked = queue.ready_count, queue.unacked_count
            depths["messages"] += ready + unacked
            depths["messages_ready"] += ready
            depths["messages_unacknowledged"] += unacked
            objects["consumers"] += queue.consumer_count
            objects["queues"] += 1
    for connection in connections_of(site, who):
        await share.pause()
        objects["connections"] += 1
        objects["channels"] += len(connection.channels.by_number)
    if who.is_monitor:
        totals = rates.with_details("overview", (), depths, "lengths")
        stats = rates.message_stats("overview", (), rates.message_counts("overview", ()))
    else:
        names = [vhost.name for vhost in vhosts]
        totals, stats = _sums(rates, names, depths)
    return {
        "queue_totals": totals,
        "object_totals": objects,
        "message_stats": stats,
        "churn_rates": rates.with_details(
            "overview", (), site.context.counts.churn.as_dict(), "msg_rates"
        )
        if who.is_monitor
        else {},
    }


def _sums(
    rates: Rates, vhost_names: list[str], depths: dict[str, int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Depths and counters over some virtual hosts; rates are sums, and there are no samples."""
    counts: Counter[str] = Counter()
    for name in vhost_names:
        counts.update(rates.message_counts("vhost", (name,)))

    def rated(numbers: dict[str, int]) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for key, value in numbers.items():
            rate = sum(rates.rate("vhost", (name,), key) for name in vhost_names)
            row[key] = value
            row[f"{key}_details"] = {"rate": rate}
        return row

    return rated(depths), rated(dict(counts)) if any(counts.values()) else {}
