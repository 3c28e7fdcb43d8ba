"""RabbitMQ's management API below ``/api``: a module a resource, with its rows of ``TABLE``.

A module has its models, ``routes = Routes(...)`` (``api.call``), and a row above each handler. What
loops over something that a client can make large does so in shares (``management.pace``). A new
row is described in docs/http-api.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fastapi import APIRouter
from starlette.routing import BaseRoute

from hareline.management.api import (
    bindings,
    changes,
    connections,
    dead_letters,
    definitions,
    documentation,
    effective_arguments,
    exchanges,
    health,
    message_files,
    messages,
    metrics,
    near_limits,
    nodes,
    overview,
    policies,
    product,
    publishing,
    queue_arguments,
    queue_operations,
    queues,
    search,
    unacknowledged,
    users,
    vhosts,
)
from hareline.management.api.call import Routes
from hareline.management.api.site import Site

ROUTERS: Final[tuple[Callable[[Site], APIRouter], ...]] = (
    health.router,
    metrics.router,
    queue_arguments.router,
    search.router,
    near_limits.router,
    dead_letters.router,
    changes.router,
    effective_arguments.router,
    documentation.router,
)

#: The rows of all resources; of two that fit a path the first counts.
TABLE: Final[tuple[Routes, ...]] = (
    overview.routes,
    nodes.routes,
    connections.routes,
    connections.channel_routes,
    connections.consumer_routes,
    exchanges.routes,
    exchanges.topology_routes,
    queues.routes,
    queues.topology_routes,
    bindings.routes,
    publishing.routes,
    messages.routes,
    message_files.routes,
    unacknowledged.routes,
    queue_operations.routes,
    users.routes,
    users.permissions_routes,
    users.limits_routes,
    vhosts.routes,
    vhosts.limits_routes,
    policies.policy_routes,
    policies.routes,
    definitions.routes,
    product.routes,
    product.node_routes,
    product.whoami_routes,
)


def routes_of(site: Site) -> list[BaseRoute]:
    """All routes of a broker's API."""
    routes = [route for router in ROUTERS for route in router(site).routes]
    return [*routes, *(row.bound_to(site) for each in TABLE for row in each.rows)]
