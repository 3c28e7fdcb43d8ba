"""``/api/parameters`` and ``/api/global-parameters``: values of components, and of all.

Invariant: a user sees the parameters of virtual hosts that it may enter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from hareline.administration.definitions_export import OPERATOR_POLICY, policy_value
from hareline.administration.parameters import LIMITS_NAME, VHOST_LIMITS
from hareline.broker.vhost import VirtualHost
from hareline.management.api.access import Caller, caller
from hareline.management.api.administering import (
    Body,
    administration_of,
    answer_done,
    answer_put,
    body_of,
    changer,
    changer_with_body,
    name_of,
    vhost_to_change,
)
from hareline.management.api.answers import answer, not_found
from hareline.management.api.listing import listing
from hareline.management.api.openapi import body_route, list_route, one_route
from hareline.management.api.site import Site
from hareline.storage.administration import ParameterRecord


class ParameterInfo(BaseModel):
    """A parameter of a component in a virtual host."""

    component: str
    vhost: str
    name: str
    value: Any


class GlobalParameterInfo(BaseModel):
    """A parameter of no virtual host."""

    name: str
    value: Any


class LinkInfo(BaseModel):
    """A shovel or a federation link that runs; there is none."""


class ValueBody(Body):
    """The value, any JSON."""

    value: Any


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["parameters"])

    async def parameters_of(
        request: Request, who: Caller, component: str | None = None, vhost: str | None = None
    ) -> Response:
        found = (
            each._asdict()
            for each in all_parameters(site)
            if component in (None, each.component)
            and vhost in (None, each.vhost)
            and who.sees(each.vhost)
        )
        return await listing(request, found, dict, ("component", "vhost", "name"))

    @router.get("/api/parameters", **list_route(ParameterInfo))
    async def parameters(request: Request) -> Response:
        """All parameters of the virtual hosts that the user sees."""
        return await parameters_of(request, await caller(site, request, "policymaker"))

    @router.get("/api/parameters/{component}", **list_route(ParameterInfo))
    async def of_component(request: Request) -> Response:
        """The parameters of a component."""
        who = await caller(site, request, "policymaker")
        return await parameters_of(request, who, name_of(request, "component"))

    @router.get("/api/parameters/{component}/{vhost}", **list_route(ParameterInfo))
    async def of_vhost(request: Request) -> Response:
        """The parameters of a component in a virtual host."""
        who = await caller(site, request, "policymaker")
        vhost = who.vhost(name_of(request, "vhost"))
        return await parameters_of(request, who, name_of(request, "component"), vhost.name)

    @router.get("/api/parameters/{component}/{vhost}/{name}", **one_route(ParameterInfo))
    async def parameter(request: Request) -> Response:
        """One parameter."""
        who = await caller(site, request, "policymaker")
        key = _key(request, who.vhost(name_of(request, "vhost")))
        for each in all_parameters(site):
            if (each.component, each.vhost, each.name) == key:
                return answer(each._asdict())
        raise not_found()

    @router.put("/api/parameters/{component}/{vhost}/{name}", **body_route(ValueBody))
    async def put_parameter(request: Request) -> Response:
        """Set a parameter."""
        who, octets = await changer_with_body(site, request, "policymaker")
        key = _key_to_change(request, who)
        body = body_of(ValueBody, octets)
        is_new = administration_of(site).parameters.put(*key, body.value, by=who.user.name)
        done = await answer_put(site, is_new)
        if key[0] != VHOST_LIMITS:
            done.headers["Warning"] = f'299 - "kept, but nothing runs a {key[0]} here"'
        return done

    @router.delete("/api/parameters/{component}/{vhost}/{name}", **one_route(None))
    async def delete_parameter(request: Request) -> Response:
        """Delete a parameter."""
        who = await changer(site, request, "policymaker")
        key = _key_to_change(request, who)
        administration_of(site).parameters.delete(*key, by=who.user.name)
        return await answer_done(site)

    @router.get("/api/shovels", **list_route(LinkInfo))
    @router.get("/api/federation-links", **list_route(LinkInfo))
    async def links(request: Request) -> Response:
        """What runs of RabbitMQ's shovels and federation links: nothing."""
        await caller(site, request, "monitoring")
        return await listing(request, (), dict)

    @router.get("/api/shovels/{vhost}", **list_route(LinkInfo))
    @router.get("/api/federation-links/{vhost}", **list_route(LinkInfo))
    async def links_of_vhost(request: Request) -> Response:
        """The same in a virtual host."""
        who = await caller(site, request, "monitoring")
        who.vhost(name_of(request, "vhost"))
        return await listing(request, (), dict)

    @router.get("/api/global-parameters", **list_route(GlobalParameterInfo))
    async def global_parameters(request: Request) -> Response:
        """All global parameters."""
        await caller(site, request, "policymaker")
        found = administration_of(site).parameters.all_global()
        return await listing(request, found, _as_dict, ("name",))

    @router.get("/api/global-parameters/{name}", **one_route(GlobalParameterInfo))
    async def global_parameter(request: Request) -> Response:
        """One global parameter."""
        await caller(site, request, "policymaker")
        parameters = administration_of(site).parameters
        return answer(parameters.lookup_global(name_of(request, "name"))._asdict())

    @router.put("/api/global-parameters/{name}", **body_route(ValueBody))
    async def put_global_parameter(request: Request) -> Response:
        """Set a global parameter."""
        who, octets = await changer_with_body(site, request)
        body = body_of(ValueBody, octets)
        is_new = administration_of(site).parameters.put_global(
            name_of(request, "name"), body.value, by=who.user.name
        )
        return await answer_put(site, is_new)

    @router.delete("/api/global-parameters/{name}", **one_route(None))
    async def delete_global_parameter(request: Request) -> Response:
        """Delete a global parameter."""
        who = await changer(site, request)
        administration_of(site).parameters.delete_global(name_of(request, "name"), by=who.user.name)
        return await answer_done(site)

    return router


def all_parameters(site: Site) -> Iterator[ParameterRecord]:
    """All parameters, with operator policies, and the limits of virtual hosts, one each."""
    administration = administration_of(site)
    yield from administration.parameters.all()
    for policy in administration.policies.all(is_operator=True):
        yield ParameterRecord(OPERATOR_POLICY, policy.vhost, policy.name, policy_value(policy))
    for name in list(site.vhosts):
        limits = administration.vhosts.record(name).limits
        if limits:
            yield ParameterRecord(VHOST_LIMITS, name, LIMITS_NAME, dict(limits))


def _key(request: Request, vhost: VirtualHost) -> tuple[str, str, str]:
    """Component, virtual host and name in the path."""
    return name_of(request, "component"), vhost.name, name_of(request, "name")


def _key_to_change(request: Request, who: Caller) -> tuple[str, str, str]:
    """As ``_key``; limits of virtual hosts are set over policymakers, not by them.

    Raises Refusal.
    """
    key = _key(request, vhost_to_change(who, request))
    if key[0] == VHOST_LIMITS:
        who.require_tag("administrator")
    return key


def _as_dict(record: Any) -> Mapping[str, Any]:
    return dict(record._asdict())
