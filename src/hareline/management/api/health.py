"""``/api/health/checks/...`` and ``/api/aliveness-test/{vhost}``: RabbitMQ's checks for monitoring.

Each check answers 200 with ``{"status": "ok"}``, or 503 with ``"failed"`` and a reason. Unlike
``/api/health``, which containers use, they need a login with the tag management.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from hareline.management.answers import answer, bad_request
from hareline.management.api.call import Call, Routes
from hareline.management.api.nodes import check_node
from hareline.management.api.site import ListenerFacts
from hareline.message import Address, Table, broker_message
from hareline.statistics.facts import TlsFacts

routes = Routes("health")

ALIVENESS_QUEUE: Final = "aliveness-test"
_PROTOCOLS: Final = {
    "amqp": "amqp",
    "amqp091": "amqp",
    "amqp0.9.1": "amqp",
    "amqp/ssl": "amqp/ssl",
    "amqps": "amqp/ssl",
    "http": "http",
    "https": "https",
    "management": "http",
}

_DAY_MS: Final = 86_400_000
_UNIT_DAYS: Final = {"days": 1, "weeks": 7, "months": 365 / 12, "years": 365}

Check = Callable[[Call], dict[str, Any]]


class CheckResult(BaseModel):
    """``status`` is ok or failed; ``reason``: what is wrong."""

    model_config = ConfigDict(extra="allow")

    status: str
    reason: str = ""


_FAILED: Final[dict[int, dict[str, Any]]] = {503: {"model": CheckResult}}


# ---------------------------- checks: the fields of an answer, with a reason if something is wrong


def alarms(call: Call) -> dict[str, Any]:
    """No resource alarm is on."""
    resources = call.site.context.alarms.resources
    if not resources:
        return {}
    return {
        "reason": "There are alarms in effect in the cluster",
        "alarms": [{"node": call.site.node.name, "resource": resource} for resource in resources],
    }


def local_alarms(call: Call) -> dict[str, Any]:
    """No resource alarm is on; there is one node."""
    failure = alarms(call)
    return failure and failure | {"reason": "There are alarms in effect"}


def certificates(call: Call) -> dict[str, Any]:
    """No certificate expires within this time: of the broker, or of its clients' authorities.

    ``within`` and ``unit``: such as 30 and days; weeks, months and years are known too.
    """
    within, unit = call.request.path_params["within"], call.request.path_params["unit"]
    if not (within.isascii() and within.isdigit()):
        raise bad_request("Invalid expiration value.")
    if unit not in _UNIT_DAYS:
        raise bad_request("Time unit not recognised.")
    tls = call.site.node.tls()
    due_ms = time.time() * 1000 + int(within[:9]) * _UNIT_DAYS[unit] * _DAY_MS
    if tls is None or all(each.not_after_ms > due_ms for each in tls.certificates):
        return {}
    found = [
        _expiring(call.site.node.name, port, tls, due_ms)
        for port in call.site.node.listeners()
        if port.has_tls
    ]
    return {"reason": "Certificates expiring", "expired": found}


def _expiring(node: str, port: ListenerFacts, tls: TlsFacts, due_ms: float) -> dict[str, Any]:
    """A port whose certificates expire, and which they are."""
    row: dict[str, Any] = {
        "node": node,
        "protocol": port.protocol,
        "interface": port.host,
        "port": port.port,
    }
    for prefix, is_authority in (("certfile", False), ("cacertfile", True)):
        found = [
            each
            for each in tls.certificates
            if each.is_authority is is_authority and each.not_after_ms <= due_ms
        ]
        row[prefix] = [each.file for each in found]
        row[f"{prefix}_expires_on"] = [
            datetime.fromtimestamp(each.not_after_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
            for each in found
        ]
    return row


def port(call: Call) -> dict[str, Any]:
    """This port is listened on."""
    text = call.request.path_params["port"]
    if not (text.isascii() and text.isdigit()):
        raise bad_request("Invalid port")
    port = int(text[:9])
    ports = [each.port for each in call.site.node.listeners()]
    if port in ports:
        return {"port": port}
    return {"reason": "No active listener", "missing": port, "ports": ports}


def protocol(call: Call) -> dict[str, Any]:
    """There is a port for this protocol."""
    given = call.name("protocol")
    wanted = _PROTOCOLS.get(given.lower())
    protocols = [each.protocol for each in call.site.node.listeners()]
    if wanted in protocols:
        return {"protocol": given}
    return {"reason": "No active listener", "missing": given, "protocols": protocols}


def virtual_hosts(call: Call) -> dict[str, Any]:
    """All virtual hosts work: the store takes what is to be kept."""
    health = call.site.node.health()
    if health.store != "failed":
        return {}
    names = sorted(call.site.vhosts)
    return {"reason": "Some virtual hosts are down", "virtual-hosts": names}


def in_service(call: Call) -> dict[str, Any]:
    """The broker works, and is not being stopped."""
    health = call.site.node.health()
    if health.status == "ok":
        return {}
    reason = health.reason or "the broker is stopping"
    return {"reason": f"this rabbit is {health.status}: {reason}"}


def ready(call: Call) -> dict[str, Any]:
    """Clients can connect and publish what is to be kept."""
    has_port = any(each.protocol == "amqp" for each in call.site.node.listeners())
    return in_service(call) or ({} if has_port else {"reason": "no AMQP listener is open yet"})


def connection_limit(call: Call) -> dict[str, Any]:
    """There are fewer connections than ``limits.max_connections``; 0 is no limit."""
    context = call.site.context
    limit, count = context.limits.max_connections, len(context.connections)
    if not limit or count < limit:
        return {}
    return {
        "reason": "node connection limit is reached",
        "limit": limit,
        "connections": count,
    }


def one_node(call: Call) -> dict[str, Any]:
    """True of a single node at all times."""
    return {}


def _add_row(path: str, check: Check) -> None:
    """Answer with 200, or 503 if there is a reason."""

    async def checked(call: Call) -> Response:
        found = check(call)
        if "reason" in found:
            return answer({"status": "failed", **found}, 503)
        return answer({"status": "ok", **found})

    add = routes(
        f"GET /api/health/checks/{path}",
        name=path,
        text=check.__doc__,
        gives=CheckResult,
        answers=_FAILED,
    )
    add(checked)


for _path, _check in (
    ("alarms", alarms),
    ("local-alarms", local_alarms),
    ("certificate-expiration/{within}/{unit}", certificates),
    ("port-listener/{port}", port),
    ("protocol-listener/{protocol}", protocol),
    ("virtual-hosts", virtual_hosts),
    ("is-in-service", in_service),
    ("ready-to-serve-clients", ready),
    ("below-node-connection-limit", connection_limit),
    ("node-is-quorum-critical", one_node),
    ("node-is-mirror-sync-critical", one_node),
    ("quorum-queues-without-elected-leaders/all-vhosts", one_node),
    ("quorum-queues-without-elected-leaders/vhost/{vhost}", one_node),
    ("quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}", one_node),
    ("quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}", one_node),
    ("reached-target-cluster-size", one_node),
    ("metadata-store/initialized", one_node),
    ("metadata-store/initialized/with-data", one_node),
):
    _add_row(_path, _check)


@routes("GET /api/healthchecks/node", gives=CheckResult, answers=_FAILED)
async def node(call: Call) -> Response:
    """The old check of RabbitMQ: the broker works and no alarm is on."""
    found = in_service(call) or alarms(call)
    return answer({"status": "failed" if found else "ok", **found})


@routes("GET /api/healthchecks/node/{node}", gives=CheckResult, answers=_FAILED, is_open=True)
async def named_node(call: Call) -> Response:
    """The same, of the node by its name."""
    check_node(call)  # before the login
    await call.check("management")
    return await node(call)


@routes("GET /api/aliveness-test/{vhost}", gives=CheckResult, answers=_FAILED, enters=True)
async def aliveness(call: Call) -> Response:
    """Declare a queue, publish to it and get the message back."""
    vhost = call.vhost
    for right in ("configure", "write", "read"):
        call.access.require(right, "queue", ALIVENESS_QUEUE)
    queue = vhost.declare_queue(
        ALIVENESS_QUEUE, is_durable=False, is_auto_delete=False, owner=None, arguments={}
    )
    vhost.environment.clock.refresh()
    now_ms = vhost.environment.clock.now_ms
    address = Address.of("", ALIVENESS_QUEUE)
    queue.put(
        broker_message(address, b"test_message", now_ms, content_type="text/plain", headers=Table())
    )
    entry = queue.get()
    if entry is None:
        return answer({"status": "failed", "reason": "the message did not come back"}, 503)
    entry.queue.settle(entry)
    return answer({"status": "ok"})
