"""``/api/health/checks/...`` and ``/api/aliveness-test/{vhost}``: RabbitMQ's checks for monitoring.

Each check answers 200 with ``{"status": "ok"}``, or 503 with ``"failed"`` and a reason. Unlike
``/api/health``, which containers use, they need a login with the tag management.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from hareline.management.api.access import caller
from hareline.management.api.answers import PROBLEMS, answer, not_found
from hareline.management.api.site import ListenerFacts, Site
from hareline.management.paths import name_in_path
from hareline.management.refusals import Refusal
from hareline.message import Address, Table, broker_message
from hareline.statistics.facts import TlsFacts

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

Check = Callable[[Request], dict[str, Any]]


class CheckResult(BaseModel):
    """``status`` is ok or failed; ``reason``: what is wrong."""

    model_config = ConfigDict(extra="allow")

    status: str
    reason: str = ""


_ANSWERS: Final[dict[str, Any]] = {
    "response_model": None,
    "responses": {200: {"model": CheckResult}, 503: {"model": CheckResult}, **PROBLEMS},
}


class Checks:
    """Each method is a check: the fields of its answer, with a reason if something is wrong."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def alarms(self, _request: Request) -> dict[str, Any]:
        """No resource alarm is on."""
        resources = self._site.context.alarms.resources
        if not resources:
            return {}
        return {
            "reason": "There are alarms in effect in the cluster",
            "alarms": [
                {"node": self._site.node.name, "resource": resource} for resource in resources
            ],
        }

    def local_alarms(self, request: Request) -> dict[str, Any]:
        """No resource alarm is on; there is one node."""
        failure = self.alarms(request)
        return failure and failure | {"reason": "There are alarms in effect"}

    def certificates(self, request: Request) -> dict[str, Any]:
        """No certificate expires within this time: of the broker, or of its clients' authorities.

        ``within`` and ``unit``: such as 30 and days; weeks, months and years are known too.
        """
        within, unit = request.path_params["within"], request.path_params["unit"]
        if not (within.isascii() and within.isdigit()):
            raise Refusal(400, "bad_request", "Invalid expiration value.")
        if unit not in _UNIT_DAYS:
            raise Refusal(400, "bad_request", "Time unit not recognised.")
        tls = self._site.node.tls()
        due_ms = time.time() * 1000 + int(within[:9]) * _UNIT_DAYS[unit] * _DAY_MS
        if tls is None or all(each.not_after_ms > due_ms for each in tls.certificates):
            return {}
        found = [
            self._expiring(port, tls, due_ms)
            for port in self._site.node.listeners()
            if port.has_tls
        ]
        return {"reason": "Certificates expiring", "expired": found}

    def _expiring(self, port: ListenerFacts, tls: TlsFacts, due_ms: float) -> dict[str, Any]:
        """A port whose certificates expire, and which they are."""
        row: dict[str, Any] = {
            "node": self._site.node.name,
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

    def port(self, request: Request) -> dict[str, Any]:
        """This port is listened on."""
        text = request.path_params["port"]
        if not (text.isascii() and text.isdigit()):
            raise Refusal(400, "bad_request", "Invalid port")
        port = int(text[:9])
        ports = [each.port for each in self._site.node.listeners()]
        if port in ports:
            return {"port": port}
        return {"reason": "No active listener", "missing": port, "ports": ports}

    def protocol(self, request: Request) -> dict[str, Any]:
        """There is a port for this protocol."""
        given = name_in_path(request.path_params["protocol"])
        wanted = _PROTOCOLS.get(given.lower())
        protocols = [each.protocol for each in self._site.node.listeners()]
        if wanted in protocols:
            return {"protocol": given}
        return {"reason": "No active listener", "missing": given, "protocols": protocols}

    def virtual_hosts(self, _request: Request) -> dict[str, Any]:
        """All virtual hosts work: the store takes what is to be kept."""
        health = self._site.node.health()
        if health.store != "failed":
            return {}
        names = sorted(self._site.vhosts)
        return {"reason": "Some virtual hosts are down", "virtual-hosts": names}

    def in_service(self, _request: Request) -> dict[str, Any]:
        """The broker works, and is not being stopped."""
        health = self._site.node.health()
        if health.status == "ok":
            return {}
        reason = health.reason or "the broker is stopping"
        return {"reason": f"this rabbit is {health.status}: {reason}"}

    def ready(self, request: Request) -> dict[str, Any]:
        """Clients can connect and publish what is to be kept."""
        has_port = any(each.protocol == "amqp" for each in self._site.node.listeners())
        return self.in_service(request) or (
            {} if has_port else {"reason": "no AMQP listener is open yet"}
        )

    def connection_limit(self, _request: Request) -> dict[str, Any]:
        """There are fewer connections than ``limits.max_connections``; 0 is no limit."""
        context = self._site.context
        limit, count = context.limits.max_connections, len(context.connections)
        if not limit or count < limit:
            return {}
        return {
            "reason": "node connection limit is reached",
            "limit": limit,
            "connections": count,
        }

    def one_node(self, _request: Request) -> dict[str, Any]:
        """True of a single node at all times."""
        return {}


def _result(found: dict[str, Any]) -> Response:
    """200, or 503 if there is a reason."""
    if "reason" in found:
        return answer({"status": "failed", **found}, 503)
    return answer({"status": "ok", **found})


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["health"])
    checks = Checks(site)

    def endpoint(check: Check) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def checked(request: Request) -> Response:
            await caller(site, request)
            return _result(check(request))

        return checked

    for path, check in (
        ("alarms", checks.alarms),
        ("local-alarms", checks.local_alarms),
        ("certificate-expiration/{within}/{unit}", checks.certificates),
        ("port-listener/{port}", checks.port),
        ("protocol-listener/{protocol}", checks.protocol),
        ("virtual-hosts", checks.virtual_hosts),
        ("is-in-service", checks.in_service),
        ("ready-to-serve-clients", checks.ready),
        ("below-node-connection-limit", checks.connection_limit),
        ("node-is-quorum-critical", checks.one_node),
        ("node-is-mirror-sync-critical", checks.one_node),
        ("quorum-queues-without-elected-leaders/all-vhosts", checks.one_node),
        ("quorum-queues-without-elected-leaders/vhost/{vhost}", checks.one_node),
        ("quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}", checks.one_node),
        ("quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}", checks.one_node),
        ("reached-target-cluster-size", checks.one_node),
        ("metadata-store/initialized", checks.one_node),
        ("metadata-store/initialized/with-data", checks.one_node),
    ):
        router.add_api_route(
            f"/api/health/checks/{path}",
            endpoint(check),
            methods=["GET"],
            name=path,
            description=check.__doc__,
            **_ANSWERS,
        )

    @router.get("/api/healthchecks/node", **_ANSWERS)
    async def node(request: Request) -> Response:
        """The old check of RabbitMQ: the broker works and no alarm is on."""
        await caller(site, request)
        found = checks.in_service(request) or checks.alarms(request)
        return answer({"status": "failed" if found else "ok", **found})

    @router.get("/api/healthchecks/node/{node}", **_ANSWERS)
    async def named_node(request: Request) -> Response:
        """The same, of the node by its name."""
        if name_in_path(request.path_params["node"]) != site.node.name:
            raise not_found()
        return await node(request)

    @router.get("/api/aliveness-test/{vhost}", **_ANSWERS)
    async def aliveness(request: Request) -> Response:
        """Declare a queue, publish to it and get the message back."""
        who = await caller(site, request)
        vhost = who.enter(name_in_path(request.path_params["vhost"]))
        for right in ("configure", "write", "read"):
            who.require(right, "queue", vhost.name, ALIVENESS_QUEUE)
        queue = vhost.declare_queue(
            ALIVENESS_QUEUE, is_durable=False, is_auto_delete=False, owner=None, arguments={}
        )
        vhost.environment.clock.refresh()
        now_ms = vhost.environment.clock.now_ms
        address = Address.of("", ALIVENESS_QUEUE)
        queue.put(
            broker_message(
                address, b"test_message", now_ms, content_type="text/plain", headers=Table()
            )
        )
        entry = queue.get()
        if entry is None:
            return answer({"status": "failed", "reason": "the message did not come back"}, 503)
        entry.queue.settle(entry)
        return answer({"status": "ok"})

    return router
