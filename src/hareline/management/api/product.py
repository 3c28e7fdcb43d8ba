"""The broker as a product: its version, its cluster, its settings, and the user who asks.

Feature flags are RabbitMQ's names for behaviour that a client may rely on; those listed here name
what this broker does. Tools ask a cluster to move leaders of queues and to synchronise mirrors:
with one node both are so already.

Invariant: no answer has a password, or a hash of one.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel
from starlette.responses import Response

from hareline import __version__
from hareline.management.answers import answer, bad_request, no_content
from hareline.management.api.call import Body, Call, Routes
from hareline.management.api.connections import channels_of, open_connections_of
from hareline.management.api.listing import listing, picked_columns
from hareline.management.api.nodes import PRODUCT
from hareline.management.api.queues import find_queue
from hareline.management.pace import Share

routes = Routes("product")
node_routes = Routes("node", needs="administrator")
whoami_routes = Routes("whoami")

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

#: Of a mirrored queue of RabbitMQ; a queue here has no mirrors.
ACTIONS: Final = ("sync", "cancel_sync")


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


class WhoAmI(BaseModel):
    """A user. ``is_internal_user``: no, it was made by people."""

    name: str
    tags: list[str]
    is_internal_user: bool = False


class ActionBody(Body):
    """``action``: sync or cancel_sync."""

    action: str


@whoami_routes("GET /api/whoami", gives=WhoAmI)
async def whoami(call: Call) -> Response:
    """The user who asks."""
    user = call.who.user
    return answer(WhoAmI(name=user.name, tags=list(user.tags)).model_dump())


@routes("GET /api/cluster-name", gives=Name)
async def cluster_name(call: Call) -> Response:
    """The name of the cluster."""
    return answer({"name": call.site.context.identity.cluster_name})


@routes("PUT /api/cluster-name", status=204, body=NameBody, needs="administrator", changes=True)
async def name_cluster(call: Call) -> Response:
    """Name the cluster; new connections are told so."""
    call.administration.cluster_name.put(call.body(NameBody).name, by=call.by)
    return await call.done()


@routes("GET /api/version", gives=str)
async def version(call: Call) -> Response:
    """The RabbitMQ release whose API this is."""
    return answer(call.site.context.identity.version)


@routes("GET /api/extensions", gives=list[dict[str, Any]])
async def extensions(_call: Call) -> Response:
    """Extensions of the web UI: none."""
    return answer([])


@routes("GET /api/auth", gives=dict[str, Any], is_open=True)
async def auth(_call: Call) -> Response:
    """Tell the way to log in: HTTP basic authentication, and not OAuth. Needs no login."""
    return answer({"oauth_enabled": False})


@routes("GET /api/feature-flags", lists=FeatureFlag)
async def feature_flags(call: Call) -> Response:
    """RabbitMQ's feature flags that name what this broker does."""
    return await listing(call, FLAGS.items(), _flag, ("name",))


@routes(
    "PUT /api/feature-flags/{name}/enable",
    status=204,
    answers={200: {}},
    needs="administrator",
)
async def enable_feature_flag(call: Call) -> Response:
    """Nothing: all flags that are listed are enabled."""
    name = call.name("name")
    if name not in FLAGS:
        raise bad_request(f"there is no feature flag '{name}' here")
    return no_content()


@routes("GET /api/deprecated-features", lists=DeprecatedFeature)
async def deprecated_features(call: Call) -> Response:
    """List the features that RabbitMQ has deprecated, and if they work here."""
    return await listing(call, DEPRECATED, _deprecated, ("name",))


@routes("GET /api/deprecated-features/used", lists=DeprecatedFeature)
async def deprecated_features_used(call: Call) -> Response:
    """Those of them that are in use."""
    async with call.pace.share() as share:
        used = [name for name in DEPRECATED if await _is_used(call, name, share)]
    return await listing(call, used, _deprecated, ("name",))


@node_routes("POST /api/rebalance/queues", status=204, answers={200: {}})
async def rebalance(_call: Call) -> Response:
    """Nothing: the leaders of all queues are on the only node."""
    return no_content()


@node_routes("POST /api/queues/{vhost}/{queue}/actions", status=204, body=ActionBody)
async def act(call: Call) -> Response:
    """Nothing: a queue has no mirrors that could lag behind."""
    find_queue(call)
    action = call.body(ActionBody).action
    if action not in ACTIONS:
        known = " and ".join(ACTIONS)
        raise bad_request(f"action: '{action}' is not one of {known}")
    return no_content()


@node_routes("GET /api/config/effective", gives=dict[str, Any])
async def settings_in_force(call: Call) -> Response:
    """The settings in force, by sections and options; users are left out."""
    found = call.site.settings().model_dump(mode="json", exclude={"users"})
    return answer(picked_columns(call, found))


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


async def _is_used(call: Call, name: str, share: Share) -> bool:
    if name == "management_metrics_collection":
        return call.site.sampler is not None
    if name == "global_qos":
        for connection in open_connections_of(call.site, call.who):
            for channel in channels_of(connection):
                await share.pause()
                if channel.prefetch.window.is_limited:
                    return True
    if name == "transient_nonexcl_queues":
        for vhost in call.who.vhosts():
            for queue in list(vhost.queues.values()):
                await share.pause()
                if not queue.is_durable and queue.owner is None:
                    return True
    return False
