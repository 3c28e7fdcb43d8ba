"""``/api/policies`` and ``/api/operator-policies``: arguments by patterns of names.

Invariant: a policymaker changes the policies of virtual hosts that it may enter, and has messages
go only where ``api.policy_rights`` lets it; operator policies are an administrator's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from hareline.administration.policy_matching import Applied
from hareline.management.api.access import Tag, caller
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
from hareline.management.api.answers import answer
from hareline.management.api.changing import entered_by
from hareline.management.api.listing import listing
from hareline.management.api.openapi import body_route, list_route, one_route
from hareline.management.api.policy_rights import require_policy_rights
from hareline.management.api.site import Site
from hareline.management.pace import pace_of
from hareline.storage.administration import PolicyRecord

_PATHS: tuple[tuple[str, bool, Tag], ...] = (
    ("/api/policies", False, "policymaker"),
    ("/api/operator-policies", True, "administrator"),
)


class PolicyInfo(BaseModel):
    """A policy. ``apply-to``: all, exchanges, queues, or queues of one type.

    ``slow_names``: names for which the pattern took too long, the first of them, so that the policy
    is not applied to these; ``slow_count``: how many. Only there if there are any.
    """

    vhost: str
    name: str
    pattern: str
    apply_to: str = Field(alias="apply-to")
    definition: dict[str, Any]
    priority: int
    slow_names: list[str] | None = None
    slow_count: int | None = None


class PolicyBody(Body):
    """A policy to be made or changed."""

    pattern: Any
    definition: Any
    priority: Any = 0
    apply_to: Any = Field(default=None, alias="apply-to")


def router(site: Site) -> APIRouter:
    """The routes of both kinds."""
    router = APIRouter(tags=["policies"])
    for path, is_operator, tag in _PATHS:
        _add(router, site, path, is_operator, tag)
    return router


def _add(router: APIRouter, site: Site, path: str, is_operator: bool, tag: Tag) -> None:
    kind = "operator policy" if is_operator else "policy"

    def describe(record: PolicyRecord) -> Mapping[str, Any]:
        count, names = administration_of(site).policies.slow_names(record)
        shown = describe_policy(record)
        return {**shown, "slow_names": list(names), "slow_count": count} if count else shown

    async def policies(request: Request) -> Response:
        who = await caller(site, request)
        found = [
            each
            for each in administration_of(site).policies.all(is_operator=is_operator)
            if who.sees(each.vhost)
        ]
        return await listing(request, found, describe)

    async def policies_of_vhost(request: Request) -> Response:
        who = await caller(site, request)
        vhost = who.vhost(name_of(request, "vhost"))
        found = [
            each
            for each in administration_of(site).policies.all(is_operator=is_operator)
            if each.vhost == vhost.name
        ]
        return await listing(request, found, describe)

    async def policy(request: Request) -> Response:
        who = await caller(site, request)
        vhost = who.vhost(name_of(request, "vhost"))
        found = administration_of(site).policies.lookup(
            vhost.name, name_of(request, "name"), is_operator=is_operator
        )
        return answer(describe(found))

    async def put_policy(request: Request) -> Response:
        who, octets = await changer_with_body(site, request, tag)
        vhost = vhost_to_change(who, request)
        body = body_of(PolicyBody, octets)
        policies, name = administration_of(site).policies, name_of(request, "name")
        asked: dict[str, Any] = {
            "pattern": body.pattern,
            "definition": body.definition,
            "priority": body.priority,
            "apply_to": body.apply_to,
            "is_operator": is_operator,
        }
        if not who.is_administrator:
            policy = policies.prepared(vhost.name, name, **asked)
            entered = entered_by(site, request, who, vhost.name)
            async with pace_of(request).share() as share:
                await require_policy_rights(entered, policy, share)
            who = await changer(site, request, tag)  # of many queues it takes long
            entered.renew()
        return await answer_put(site, policies.put(vhost.name, name, **asked, by=who.user.name))

    async def delete_policy(request: Request) -> Response:
        who = await changer(site, request, tag)
        vhost = vhost_to_change(who, request)
        administration_of(site).policies.delete(
            vhost.name, name_of(request, "name"), is_operator=is_operator, by=who.user.name
        )
        return await answer_done(site)

    of_all, of_vhost, of_one = path, f"{path}/{{vhost}}", f"{path}/{{vhost}}/{{name}}"
    described = f"Every {kind} that the user sees."
    router.get(of_all, description=described, **list_route(PolicyInfo))(policies)
    described = f"Every {kind} of a virtual host."
    router.get(of_vhost, description=described, **list_route(PolicyInfo))(policies_of_vhost)
    router.get(of_one, description=f"One {kind}.", **one_route(PolicyInfo))(policy)
    described = f"Make or change one {kind}; it is in force at once, or soon for many queues."
    router.put(of_one, description=described, **body_route(PolicyBody))(put_policy)
    described = f"Delete one {kind}."
    router.delete(of_one, description=described, **one_route(None))(delete_policy)


def shown(applied: Applied) -> dict[str, Any]:
    """The policies that concern a queue or exchange, as its JSON object has them."""
    policy, operator_policy = applied.policy, applied.operator_policy
    return {
        "policy": None if policy is None else policy.name,
        "operator_policy": None if operator_policy is None else operator_policy.name,
        "effective_policy_definition": dict(applied.definition),
    }


def describe_policy(record: PolicyRecord) -> Mapping[str, Any]:
    """A policy as JSON."""
    return {
        "vhost": record.vhost,
        "name": record.name,
        "pattern": record.pattern,
        "apply-to": record.apply_to,
        "definition": dict(record.definition),
        "priority": record.priority,
    }
