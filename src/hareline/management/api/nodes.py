"""``/api/overview`` and ``/api/nodes``: the broker at a glance, and the process, the only node.

Numbers of the overview are of the virtual hosts that the user sees, and connections of the user;
with the tag monitoring of all. Depths are those of now, rates and counters of messages those of the
last sample. What messages and objects take of the memory is an estimate.
"""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from hareline import __version__
from hareline.administration.policies import type_of
from hareline.broker.exchange_types import EXCHANGE_TYPES
from hareline.management.answers import answer, not_found
from hareline.management.api.call import Call, Routes
from hareline.management.api.connections import connections_of
from hareline.management.api.listing import listing, picked_columns
from hareline.management.api.rates import Rates
from hareline.management.api.site import Site
from hareline.management.pace import Share
from hareline.statistics.history import BASIC, GLOBAL, Retention
from hareline.statistics.readings import queue_facts
from hareline.statistics.unacked import Deliveries

overview_routes = Routes("overview")

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
    """Return the ages that samples reach, in seconds, of the whole broker and of single objects."""

    def spans(retention: Retention) -> list[int]:
        return [level.span_s for level in retention]

    return {"global": spans(GLOBAL), "basic": spans(BASIC), "detailed": []}


@overview_routes("GET /api/overview", gives=Overview)
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


# ----------------------------------------------------------------------------------------- the node


routes = Routes("nodes", needs="monitoring")

#: Plugins of RabbitMQ that do what this broker does by itself.
PLUGINS: Final = (
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_delayed_message_exchange",
    "rabbitmq_jms_topic_exchange",
    "rabbitmq_management",
    "rabbitmq_random_exchange",
)
#: Type of queues -> the part of the memory that they are.
_QUEUE_MEMORY: Final = {
    "classic": "queue_procs",
    "quorum": "quorum_queue_procs",
    "stream": "stream_queue_procs",
}
#: Parts in which RabbitMQ counts the memory of Erlang; here they are not told from the rest.
_MEMORY_NOT_MEASURED: Final = (
    *("connection_readers", "connection_writers", "connection_channels", "connection_other"),
    *("quorum_queue_dlx_procs", "stream_queue_replica_reader_procs"),
    *("stream_queue_coordinator_procs", "plugins", "metadata_store", "other_proc", "metrics"),
    *("mgmt_db", "mnesia", "quorum_ets", "metadata_store_ets", "other_ets", "binary"),
    *("msg_index", "code", "atom", "allocated_unused", "reserved_unallocated"),
)
#: Nothing is limited by these here; RabbitMQ's are processes and run queues of Erlang.
_PROCESSES: Final = 1_048_576


class NodeInfo(BaseModel):
    """The node. ``fd_total``, ``mem_limit`` ...: what ``fd_used``, ``mem_used`` may reach."""

    model_config = ConfigDict(extra="allow")

    name: str
    type: str
    running: bool
    uptime: int
    os_pid: str
    processors: int
    run_queue: int
    mem_used: int
    mem_limit: int
    mem_alarm: bool
    disk_free: int
    disk_free_limit: int
    disk_free_alarm: bool
    disk_free_alarm_reason: str
    fd_used: int
    fd_total: int
    sockets_used: int
    sockets_total: int
    proc_used: int
    proc_total: int
    rates_mode: str
    being_drained: bool
    enabled_plugins: list[str]


class LoginAttempts(BaseModel):
    """Logins since the broker has started."""

    protocol: str = "amqp091"
    auth_attempts: int
    auth_attempts_failed: int
    auth_attempts_succeeded: int


class NodeMemory(BaseModel):
    """Octets by what they are for; ``total`` as three ways of counting them see it.

    Of ``relative`` they are percent of the total.
    """

    memory: dict[str, Any]


def describe(site: Site, rates: Rates) -> dict[str, Any]:
    """The JSON object of the node."""
    node, settings = site.node, site.settings()
    memory, disk, facts = node.memory(), node.disk(), node.numbers()
    alarms = site.context.alarms.resources
    row: dict[str, Any] = {
        "name": node.name,
        "type": "disc",
        "running": True,
        "being_drained": False,
        "partitions": [],
        "cluster_links": [],
        "os_pid": str(os.getpid()),
        "uptime": int((time.monotonic() - node.started_s) * 1000),
        "processors": os.cpu_count() or 1,
        "run_queue": 0,
        "mem_limit": memory.watermark_bytes,
        "mem_alarm": "memory" in alarms,
        "mem_calculation_strategy": "rss",
        "disk_free_limit": disk.watermark_bytes,
        "disk_free_alarm": "disk" in alarms,
        "disk_free_alarm_reason": site.context.alarms.why.get("disk", ""),
        "fd_total": facts.fd_total,
        "sockets_total": facts.sockets_total,
        "proc_total": _PROCESSES,
        "rates_mode": RATES_MODE,
        "net_ticktime": 60,
        "auth_mechanisms": [
            {"name": name, "description": f"SASL {name} authentication mechanism", "enabled": True}
            for name in settings.auth.mechanisms
        ],
        "exchange_types": exchange_types(),
        "enabled_plugins": list(PLUGINS),
        "applications": [{"name": "hareline", "description": PRODUCT, "version": __version__}],
        "contexts": contexts(site),
        "db_dir": "" if node.data_dir is None else str(node.data_dir),
        "log_files": [],
        "config_files": [],
        "default_queue_type": "classic",
        "ra_open_file_metrics": {},
    }
    numbers = {
        "mem_used": memory.bytes_now,
        "disk_free": disk.bytes_now,
        "fd_used": facts.fd_used,
        "sockets_used": facts.sockets_used,
        "proc_used": 1,
        "gc_num": facts.gc_num,
    }
    if rates.is_wanted:
        row |= rates.with_details("node", (), numbers, "node_stats")
        row["loop_lag_us"] = facts.loop_lag_us
        row["loop_lag_max_us"] = facts.loop_lag_max_us
        row["turn_max_us"] = facts.turn_max_us
        row["gc_max_us"] = facts.gc_max_us
    return row


@routes("GET /api/nodes", lists=NodeInfo)
async def nodes(call: Call) -> Response:
    """All nodes, which is one."""
    rates = Rates(call)
    return await listing(call, [call.site], lambda site: describe(site, rates), ("name",))


@routes("GET /api/nodes/{node}", gives=NodeInfo)
async def node(call: Call) -> Response:
    """The node."""
    check_node(call)
    row = describe(call.site, Rates(call))
    if call.flag("memory"):
        row["memory"] = await _memory(call)
    return answer(picked_columns(call, row))


@routes("GET /api/nodes/{node}/memory", gives=NodeMemory)
async def memory(call: Call) -> Response:
    """Tell the uses of the node's memory."""
    check_node(call)
    return answer({"memory": await _memory(call)})


@routes("GET /api/nodes/{node}/memory/relative", gives=NodeMemory)
async def relative_memory(call: Call) -> Response:
    """The same in percent of the total."""
    check_node(call)
    return answer({"memory": _relative(await _memory(call))})


@routes("GET /api/auth/attempts/{node}", gives=list[LoginAttempts])
async def attempts(call: Call) -> Response:
    """Count the logins over AMQP, and those that have failed."""
    check_node(call)
    counts = call.site.context.counts
    found = LoginAttempts(
        auth_attempts=counts.auth_attempts,
        auth_attempts_failed=counts.auth_attempts_failed,
        auth_attempts_succeeded=counts.auth_attempts - counts.auth_attempts_failed,
    )
    return answer([found.model_dump()])


@routes("GET /api/auth/attempts/{node}/source", gives=list[LoginAttempts])
async def attempts_by_source(call: Call) -> Response:
    """None: logins are not counted by address and user, as in RabbitMQ unless told so."""
    check_node(call)
    return answer([])


def check_node(call: Call) -> None:
    """Raise Refusal unless the path names the node."""
    if call.name("node") != call.site.node.name:
        raise not_found()


async def _memory(call: Call) -> dict[str, Any]:
    """Octets by what they are for, in RabbitMQ's names; queues are an estimate.

    What is not measured by itself is 0, and among ``other_system``.
    """
    site = call.site
    total = left = site.node.memory().bytes_now
    queues, deliveries = dict.fromkeys(_QUEUE_MEMORY.values(), 0), Deliveries()
    async with call.pace.share() as share:
        for vhost in list(site.vhosts.values()):
            for queue in list(vhost.queues.values()):
                await share.pause()
                size = min(queue_facts(queue, deliveries=deliveries).memory, left)
                queues[_QUEUE_MEMORY[type_of(queue.arguments)]] += size
                left -= size
    return {
        "strategy": "rss",
        **queues,
        **dict.fromkeys(_MEMORY_NOT_MEASURED, 0),
        "other_system": left,
        "total": {"rss": total, "allocated": total, "erlang": total},
    }


def _relative(memory: Mapping[str, Any]) -> dict[str, int]:
    """Percent of the total, as RabbitMQ rounds them: what is there is never 0."""
    total = memory["total"]["rss"]
    parts = {name: size for name, size in memory.items() if isinstance(size, int)}
    shown = {name: round(100 * size / total) or int(size > 0) for name, size in parts.items()}
    return {"total": 100, **shown}
