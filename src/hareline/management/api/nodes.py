"""``/api/nodes``: the process that the broker is, as the only node of its cluster.

``memory`` says where memory goes as far as that is known: what messages and objects take is an
estimate, the rest is the interpreter's. Needs the tag monitoring, as in RabbitMQ.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from hareline import __version__
from hareline.management.api.access import caller
from hareline.management.api.answers import answer, not_found
from hareline.management.api.listing import listing, picked_columns
from hareline.management.api.openapi import list_route, one_route
from hareline.management.api.overview import PRODUCT, RATES_MODE, contexts, exchange_types
from hareline.management.api.queues import type_of
from hareline.management.api.rates import Rates
from hareline.management.api.site import Site
from hareline.management.pace import Share, pace_of
from hareline.management.paths import name_in_path
from hareline.statistics.readings import queue_facts
from hareline.statistics.unacked import Deliveries

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


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["nodes"])

    def check_name(request: Request) -> None:
        if name_in_path(request.path_params["node"]) != site.node.name:
            raise not_found()

    @router.get("/api/nodes", **list_route(NodeInfo))
    async def nodes(request: Request) -> Response:
        """All nodes, which is one."""
        await caller(site, request, "monitoring")
        rates = Rates(site, request)
        return await listing(request, [site], lambda found: describe(found, rates), ("name",))

    @router.get("/api/nodes/{node}", **one_route(NodeInfo))
    async def node(request: Request) -> Response:
        """The node."""
        await caller(site, request, "monitoring")
        check_name(request)
        row = describe(site, Rates(site, request))
        if request.query_params.get("memory", "").lower() == "true":
            async with pace_of(request).share() as share:
                row["memory"] = await _memory(site, share)
        return answer(picked_columns(request, row))

    @router.get("/api/nodes/{node}/memory", **one_route(NodeMemory))
    async def memory(request: Request) -> Response:
        """What the memory of the node is used for."""
        await caller(site, request, "monitoring")
        check_name(request)
        async with pace_of(request).share() as share:
            return answer({"memory": await _memory(site, share)})

    @router.get("/api/nodes/{node}/memory/relative", **one_route(NodeMemory))
    async def relative_memory(request: Request) -> Response:
        """The same in percent of the total."""
        await caller(site, request, "monitoring")
        check_name(request)
        async with pace_of(request).share() as share:
            return answer({"memory": _relative(await _memory(site, share))})

    @router.get("/api/auth/attempts/{node}", **one_route(list[LoginAttempts]))
    async def attempts(request: Request) -> Response:
        """How many logins there were over AMQP, and how many of them have failed."""
        await caller(site, request, "monitoring")
        check_name(request)
        counts = site.context.counts
        found = LoginAttempts(
            auth_attempts=counts.auth_attempts,
            auth_attempts_failed=counts.auth_attempts_failed,
            auth_attempts_succeeded=counts.auth_attempts - counts.auth_attempts_failed,
        )
        return answer([found.model_dump()])

    @router.get("/api/auth/attempts/{node}/source", **one_route(list[LoginAttempts]))
    async def attempts_by_source(request: Request) -> Response:
        """None: logins are not counted by address and user, as in RabbitMQ unless told so."""
        await caller(site, request, "monitoring")
        check_name(request)
        return answer([])

    return router


async def _memory(site: Site, share: Share) -> dict[str, Any]:
    """Octets by what they are for, in RabbitMQ's names; queues are an estimate.

    What is not measured by itself is 0, and among ``other_system``.
    """
    total = left = site.node.memory().bytes_now
    queues, deliveries = dict.fromkeys(_QUEUE_MEMORY.values(), 0), Deliveries()
    for vhost in list(site.vhosts.values()):
        for queue in list(vhost.queues.values()):
            await share.pause()
            size = min(queue_facts(queue, deliveries=deliveries).memory, left)
            queues[_QUEUE_MEMORY[type_of(queue)]] += size
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
