"""RabbitMQ's management API below ``/api``: one module per resource, listed in ``ROUTERS``.

How a resource module is added:

1. It has ``def router(site: Site) -> APIRouter``; routes are functions within it. ``site``
   (``api.site``) has the broker's parts; what a route needs beyond them becomes a field there.
2. A route takes ``request: Request`` alone, begins with ``who = await caller(site, request)``
   (``api.access``; the third argument is the tag that it needs), finds a virtual host with
   ``who.vhost(name)`` to read or ``who.enter(name)`` to change, and asks ``who.require("write",
   "queue", vhost, name)`` before it touches something as AMQP would.
3. Names in paths are percent-encoded: ``name_in_path(request.path_params["vhost"])``
   (``management.paths``). A route with a body begins with ``who, octets = await caller_with_body(
   site, request)``, since much may change while it comes; ``parse_body(Model, octets)``
   (``management.bodies``) makes a pydantic model of it.
4. It answers with ``answer``, ``created`` or ``no_content`` (``api.answers``), or with ``listing``
   (``api.listing``) for a list. It raises a ``Refusal``, or lets an AmqpError pass:
   ``management.api.app`` makes the answer of both.
5. Its arguments for OpenAPI (``api.openapi``) are ``**one_route(Model)``, ``**list_route(Model)``
   or ``**body_route(Model)``. The docstring of a route is its description.
6. What loops over something that a client can make large does so in shares (``management.pace``).
7. It is added to ``ROUTERS``, and to the table in docs/http-api.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fastapi import APIRouter

from hareline.management.api import (
    binding_changes,
    bindings,
    changes,
    channels,
    connections,
    consumers,
    dead_letters,
    definitions,
    documentation,
    effective_arguments,
    exchanges,
    health,
    limits,
    message_files,
    messages,
    metrics,
    near_limits,
    nodes,
    one_node,
    overview,
    parameters,
    permissions,
    policies,
    product,
    publishing,
    queue_arguments,
    queue_operations,
    queues,
    route_test,
    search,
    topology_changes,
    unacknowledged,
    users,
    vhosts,
    whoami,
)
from hareline.management.api.site import Site

ROUTERS: Final[tuple[Callable[[Site], APIRouter], ...]] = (
    overview.router,
    nodes.router,
    one_node.router,
    connections.router,
    channels.router,
    consumers.router,
    exchanges.router,
    queues.router,
    bindings.router,
    whoami.router,
    product.router,
    health.router,
    topology_changes.router,
    binding_changes.router,
    publishing.router,
    messages.router,
    message_files.router,
    unacknowledged.router,
    queue_operations.router,
    users.router,
    permissions.router,
    vhosts.router,
    limits.router,
    parameters.router,
    policies.router,
    definitions.router,
    metrics.router,
    route_test.router,
    queue_arguments.router,
    search.router,
    near_limits.router,
    dead_letters.router,
    changes.router,
    effective_arguments.router,
    documentation.router,
)
