"""Product facts: version, name of the cluster, extensions, feature flags.

Feature flags are RabbitMQ's names for behaviour that a client may rely on; those listed here name
what this broker does. Deprecated features are RabbitMQ's too: what it still permits, and whether
it is in use.
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from hareline import __version__
from hareline.management.api.access import Caller, caller
from hareline.management.api.administering import (
    Body,
    administration_of,
    answer_done,
    body_of,
    changer_with_body,
    name_of,
)
from hareline.management.api.answers import answer, no_content
from hareline.management.api.listing import listing
from hareline.management.api.live import channels_of, open_connections_of
from hareline.management.api.openapi import body_route, list_route, one_route
from hareline.management.api.overview import PRODUCT
from hareline.management.api.site import Site
from hareline.management.pace import Share, pace_of
from hareline.management.refusals import Refusal

_PERMITTED: Final = "permitted_by_default"

#: Name -> what it is, of the flags of RabbitMQ that describe what this broker does.
FLAGS: Final = {
    "classic_queue_type_delivery_support": "Support for classic queue delivery using v2 protocol",
    "detailed_queues_endpoint": "Queues with all their numbers by `/api/queues/detailed`",
    "direct_exchange_routing_v2": "v2 direct exchange routing implementation",
    "drop_unroutable_metric": "Count unroutable publishes to be dropped in stats",
    "empty_basic_get_metric": "Count AMQP `basic.get` on empty queues in stats",
    "implicit_default_bindings": "Default bindings are implicit, instead of stored",
    "quorum_queue": "Support queues of type `quorum`",
    "stream_queue": "Support queues of type `stream`",
    "virtual_host_metadata": "Virtual host metadata (description, tags, etc)",
}

#: Name -> phase and what it is.
DEPRECATED: Final = {
    "global_qos": (_PERMITTED, "basic.qos with global=true limits a channel and not a consumer"),
    "transient_nonexcl_queues": (_PERMITTED, "queues that are neither durable nor exclusive"),
    "management_metrics_collection": (_PERMITTED, "rates and samples in the management API"),
    "classic_queue_mirroring": ("removed", "copies of classic queues on other nodes"),
    "ram_node_type": ("removed", "nodes that keep definitions in memory alone"),
}


class Name(BaseModel):
    """A name."""

    name: str


class NameBody(Body):
    """A name to give."""

    name: str


class FeatureFlag(BaseModel):
    """A feature flag; all are enabled, and none can be switched off."""

    name: str
    desc: str
    doc_url: str
    state: str
    stability: str
    provided_by: str


class DeprecatedFeature(BaseModel):
    """A deprecated feature; ``state`` is permitted or denied."""

    name: str
    desc: str
    doc_url: str
    deprecation_phase: str
    state: str
    provided_by: str


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["product"])

    @router.get("/api/cluster-name", **one_route(Name))
    async def cluster_name(request: Request) -> Response:
        """The name of the cluster."""
        await caller(site, request)
        return answer({"name": site.context.identity.cluster_name})

    @router.put("/api/cluster-name", status_code=204, **body_route(NameBody))
    async def name_cluster(request: Request) -> Response:
        """Name the cluster; new connections are told so."""
        who, octets = await changer_with_body(site, request)
        body = body_of(NameBody, octets)
        administration_of(site).cluster_name.put(body.name, by=who.user.name)
        return await answer_done(site)

    @router.get("/api/version", **one_route(str))
    async def version(request: Request) -> Response:
        """The RabbitMQ release whose API this is."""
        await caller(site, request)
        return answer(site.context.identity.version)

    @router.get("/api/extensions", **one_route(list[dict[str, Any]]))
    async def extensions(request: Request) -> Response:
        """Extensions of the web UI: none."""
        await caller(site, request)
        return answer([])

    @router.get("/api/auth", **one_route(dict[str, Any]))
    async def auth(_request: Request) -> Response:
        """How to log in: by HTTP basic authentication, and not by OAuth. Needs no login."""
        return answer({"oauth_enabled": False})

    @router.get("/api/feature-flags", **list_route(FeatureFlag))
    async def feature_flags(request: Request) -> Response:
        """RabbitMQ's feature flags that name what this broker does."""
        await caller(site, request)
        return await listing(request, FLAGS.items(), _flag, ("name",))

    @router.put("/api/feature-flags/{name}/enable", status_code=204, **one_route(None))
    async def enable_feature_flag(request: Request) -> Response:
        """Nothing: all flags that are listed are enabled."""
        await caller(site, request, "administrator")
        name = name_of(request, "name")
        if name not in FLAGS:
            raise Refusal(400, "bad_request", f"there is no feature flag '{name}' here")
        return no_content()

    @router.get("/api/deprecated-features", **list_route(DeprecatedFeature))
    async def deprecated_features(request: Request) -> Response:
        """What RabbitMQ has deprecated, and whether it works here."""
        await caller(site, request)
        return await listing(request, DEPRECATED, _deprecated, ("name",))

    @router.get("/api/deprecated-features/used", **list_route(DeprecatedFeature))
    async def deprecated_features_used(request: Request) -> Response:
        """Those of them that are in use."""
        who = await caller(site, request)
        async with pace_of(request).share() as share:
            used = [name for name in DEPRECATED if await _is_used(site, who, name, share)]
        return await listing(request, used, _deprecated, ("name",))

    return router


def _flag(item: tuple[str, str]) -> dict[str, Any]:
    name, description = item
    return {
        "name": name,
        "desc": description,
        "doc_url": "",
        "state": "enabled",
        "stability": "required",
        "provided_by": f"{PRODUCT} {__version__}",
    }


def _deprecated(name: str) -> dict[str, Any]:
    phase, description = DEPRECATED[name]
    return {
        "name": name,
        "desc": description,
        "doc_url": "",
        "deprecation_phase": phase,
        "state": "permitted" if phase == _PERMITTED else "denied",
        "provided_by": f"{PRODUCT} {__version__}",
    }


async def _is_used(site: Site, who: Caller, name: str, share: Share) -> bool:
    if name == "management_metrics_collection":
        return site.sampler is not None
    if name == "global_qos":
        for connection in open_connections_of(site, who):
            for channel in channels_of(connection):
                await share.pause()
                if channel.prefetch.window.is_limited:
                    return True
    if name == "transient_nonexcl_queues":
        for vhost in who.vhosts():
            for queue in list(vhost.queues.values()):
                await share.pause()
                if not queue.is_durable and queue.owner is None:
                    return True
    return False
