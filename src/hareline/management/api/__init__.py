"""RabbitMQ's management API below ``/api``: a module a resource, with its rows of ``TABLE``.

A module has its models, ``routes = Routes(...)`` (``api.call``), and a row above each handler. What
loops over something that a client can make large does so in shares (``management.pace``). A new
row is described in docs/http-api.md.
"""

from __future__ import annotations

from typing import Final

from hareline.management.api import (
    arguments,
    bindings,
    changes,
    connections,
    dead_letters,
    definitions,
    documentation,
    exchanges,
    health,
    messages,
    metrics,
    near_limits,
    nodes,
    policies,
    product,
    publishing,
    queue_operations,
    queues,
    search,
    unacknowledged,
    users,
    vhosts,
)
from hareline.management.api.call import Routes
from hareline.management.api.site import Site
from hareline.management.routes import Route

#: The rows of all resources; of two that fit a path the first counts.
TABLE: Final[tuple[Routes, ...]] = (
    nodes.overview_routes,
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
    unacknowledged.routes,
    queue_operations.routes,
    health.routes,
    changes.routes,
    dead_letters.routes,
    documentation.routes,
    search.routes,
    near_limits.routes,
    arguments.routes,
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


def routes_of(site: Site) -> list[Route]:
    """All routes of a broker's API, and of its metrics if it has any."""
    tables = TABLE if site.metrics is None else (*TABLE, metrics.routes)
    return [row.bound_to(site) for each in tables for row in each.rows]
