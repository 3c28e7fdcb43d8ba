"""Policies, which give queues and exchanges arguments by patterns of their names, and parameters.

A policymaker changes those of virtual hosts that it may enter; operator policies are an
administrator's. A policy that has messages go elsewhere (a dead-letter or an alternate exchange)
needs the rights of arguments that do the same, from a user who is no administrator.

Invariant: a policy moves no message between places of which there are both now, unless its user
could move it by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, Field
from starlette.responses import Response

from hareline.administration.definitions_export import OPERATOR_POLICY, policy_value
from hareline.administration.parameters import LIMITS_NAME, VHOST_LIMITS
from hareline.administration.policies import Effect, Policy, type_of
from hareline.administration.policy_keys import KEYS, Applied, overlaid_by_policy
from hareline.amqp.rights import (
    require_all_messages_of,
    require_alternate_rights,
    require_dead_letter_rights,
    require_queue_rights,
)
from hareline.broker.exchanges.alternate import ALTERNATE_EXCHANGE
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.vhost import VirtualHost
from hareline.errors import PreconditionFailed
from hareline.management.answers import Refusal, answer, not_found
from hareline.management.api.call import Body, Call, Routes, Tag
from hareline.management.api.listing import listing
from hareline.management.api.site import Site
from hareline.management.pace import Share
from hareline.queues.declare.arguments import parse_queue_arguments
from hareline.queues.declare.table import QueueArguments
from hareline.queues.queue import Queue
from hareline.storage.administration import ParameterRecord, PolicyRecord

policy_routes = Routes("policies")
routes = Routes("parameters", needs="policymaker")

_FIELDS: Final = ("dead_letter_exchange", "dead_letter_routing_key", "alternate_binding")
#: Keys that say where dead messages of queues go.
_OF_QUEUES: Final = frozenset(
    name for name, key in KEYS.items() if key.argument is not None and key.argument.field in _FIELDS
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


class ArgumentChange(BaseModel):
    """An argument that would change; None: it is not set."""

    name: str
    before: Any
    after: Any


class PolicyEffect(BaseModel):
    """The change a policy would make to a queue.

    ``decides``: it would be one of the policies that count there; ``policy``, ``operator_policy``:
    the first of those. ``problem``: why it could not follow in one argument, which would stay.
    """

    name: str
    type: str
    decides: bool
    policy: str | None
    operator_policy: str | None
    changes: list[ArgumentChange]
    problem: str | None


def _add_rows(path: str, kind: str, tag: Tag, *, is_operator: bool) -> None:
    """The rows of policies, or of operator policies. ``tag``: who may change them."""

    async def _list(call: Call, is_listed: Callable[[str], bool]) -> Response:
        policies = call.administration.policies
        found = [each for each in policies.all(is_operator=is_operator) if is_listed(each.vhost)]
        return await listing(call, found, lambda each: _shown_policy(call, each))

    @policy_routes(f"GET {path}", lists=PolicyInfo, text=f"Every {kind} that the user sees.")
    async def policies(call: Call) -> Response:
        return await _list(call, call.who.sees)

    text = f"Every {kind} of a virtual host."

    @policy_routes(f"GET {path}/{{vhost}}", lists=PolicyInfo, text=text)
    async def policies_of_vhost(call: Call) -> Response:
        name = call.vhost.name
        return await _list(call, lambda vhost: vhost == name)

    of_one = f"{path}/{{vhost}}/{{name}}"

    @policy_routes(f"GET {of_one}", gives=PolicyInfo, text=f"One {kind}.")
    async def policy(call: Call) -> Response:
        policies, name = call.administration.policies, call.vhost.name
        found = policies.lookup(name, call.name("name"), is_operator=is_operator)
        return answer(_shown_policy(call, found))

    text = f"Make or change one {kind}; it is in force at once, or soon for many queues."

    @policy_routes(f"PUT {of_one}", body=PolicyBody, needs=tag, changes=True, text=text)
    async def put_policy(call: Call) -> Response:
        vhost = _vhost_to_change(call)
        policies, name = call.administration.policies, call.name("name")
        asked: dict[str, Any] = {**dict(call.body(PolicyBody)), "is_operator": is_operator}
        if not call.who.is_administrator:
            policy = policies.prepared(vhost.name, name, **asked)
            call.enter(vhost.name)
            async with call.pace.share() as share:
                await _require_policy_rights(call, policy, share)
            await call.take_turn()  # of many queues it takes long
            call.renew()
        return await call.put_done(policies.put(vhost.name, name, **asked, by=call.by))

    text = f"Every queue that this {kind} would match, and what would change there; sets nothing."
    preview = f"POST {path.replace('/api', '/api/hareline')}/{{vhost}}/{{name}}/preview"

    @policy_routes(preview, body=PolicyBody, lists=PolicyEffect, needs=tag, text=text)
    async def preview_policy(call: Call) -> Response:
        vhost, policies = _vhost_to_change(call), call.administration.policies
        asked: dict[str, Any] = {**dict(call.body(PolicyBody)), "is_operator": is_operator}
        policy = policies.prepared(vhost.name, call.name("name"), **asked)
        effect_on = policies.preview(policy)
        return await listing(
            call,
            list(vhost.queues.values()),
            lambda queue: _effect_json(policy.record, queue, effect_on(queue)),
            ("name",),
            name_of=lambda queue: queue.name,
            wanted=lambda queue: policies.would_concern(policy, queue),
        )

    text = f"Delete one {kind}."

    @policy_routes(f"DELETE {of_one}", needs=tag, changes=True, text=text)
    async def delete_policy(call: Call) -> Response:
        policies, vhost = call.administration.policies, _vhost_to_change(call)
        policies.delete(vhost.name, call.name("name"), is_operator=is_operator, by=call.by)
        return await call.done()


_add_rows("/api/policies", "policy", "policymaker", is_operator=False)
_add_rows("/api/operator-policies", "operator policy", "administrator", is_operator=True)


def _vhost_to_change(call: Call) -> VirtualHost:
    """The virtual host in the path, for policies and parameters. Raises Refusal.

    A policymaker needs permissions there, an administrator does not, as in RabbitMQ.
    """
    who, name = call.who, call.name("vhost")
    if not who.exists(name):
        raise Refusal(404, "not_found", "vhost_not_found")
    return who.vhost(name) if who.is_administrator else who.enter(name)


def shown(applied: Applied) -> dict[str, Any]:
    """The policies that concern a queue or exchange, as its JSON object has them."""
    policy, operator_policy = applied.policy, applied.operator_policy
    return {
        "policy": None if policy is None else policy.name,
        "operator_policy": None if operator_policy is None else operator_policy.name,
        "effective_policy_definition": dict(applied.definition),
    }


def _effect_json(record: PolicyRecord, queue: Queue, effect: Effect) -> dict[str, Any]:
    deciding = (*effect.applied.policies, *effect.applied.operator_policies)
    in_force = shown(effect.applied)
    return {
        "name": queue.name,
        "type": type_of(queue.arguments),
        "decides": record in deciding,
        "policy": in_force["policy"],
        "operator_policy": in_force["operator_policy"],
        "changes": [
            {"name": name, "before": before, "after": after}
            for name, (before, after) in effect.changes.items()
        ],
        "problem": effect.problem,
    }


def _shown_policy(call: Call, record: PolicyRecord) -> Mapping[str, Any]:
    """A policy as JSON."""
    row = {
        "vhost": record.vhost,
        "name": record.name,
        "pattern": record.pattern,
        "apply-to": record.apply_to,
        "definition": dict(record.definition),
        "priority": record.priority,
    }
    count, names = call.administration.policies.slow_names(record)
    return {**row, "slow_names": list(names), "slow_count": count} if count else row


async def _require_policy_rights(call: Call, policy: Policy, share: Share) -> None:
    """Raise AccessRefused unless the user may have messages go where the policy says."""
    definition = policy.record.definition
    vhost, access = call.vhost, call.access
    alternate = definition.get(ALTERNATE_EXCHANGE)
    if isinstance(alternate, str) and policy.is_for_exchanges:
        require_alternate_rights(access, alternate)
        for exchange in list(vhost.exchanges.values()):
            await share.pause()
            if _concerns_exchange(policy, exchange):
                require_all_messages_of(access, exchange.name)
    passing = {name: value for name, value in definition.items() if name in _OF_QUEUES}
    if not passing:
        return
    said = _arguments(call, policy.record.name, {}, passing)
    if said is not None:
        require_dead_letter_rights(access, vhost, said, said.alternate_binding)
    policies = call.administration.policies
    for queue in list(vhost.queues.values()):
        await share.pause()
        if not queue.is_deleted and policies.would_concern(policy, queue):
            own = vhost.live_arguments.own(queue)
            arguments = _arguments(call, queue.name, own, passing)
            if arguments is not None:
                require_queue_rights(access, vhost, queue.name, arguments)


def _arguments(
    call: Call, name: str, own: Mapping[str, object], definition: Mapping[str, Any]
) -> QueueArguments | None:
    """Return the arguments a queue would go by; None where they cannot be applied to it."""
    effective = overlaid_by_policy(own, definition)
    try:
        return parse_queue_arguments(effective, queue=name, vhost=call.vhost.name)
    except PreconditionFailed:
        return None


def _concerns_exchange(policy: Policy, exchange: Exchange) -> bool:
    """True if it would be the policy that gives the exchange its alternate."""
    has_own = exchange.arguments.get(ALTERNATE_EXCHANGE) is not None
    return bool(exchange.name) and not has_own and policy.matches_in_time(exchange.name)


# ---------------------------------------------------------------------------------- parameters


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


@routes("GET /api/parameters", lists=ParameterInfo)
async def parameters(call: Call) -> Response:
    """All parameters of the virtual hosts that the user sees."""
    return await _parameters(call)


@routes("GET /api/parameters/{component}", lists=ParameterInfo)
async def of_component(call: Call) -> Response:
    """The parameters of a component."""
    return await _parameters(call, call.name("component"))


@routes("GET /api/parameters/{component}/{vhost}", lists=ParameterInfo)
async def of_vhost(call: Call) -> Response:
    """The parameters of a component in a virtual host."""
    vhost = call.vhost.name
    return await _parameters(call, call.name("component"), vhost)


@routes("GET /api/parameters/{component}/{vhost}/{name}", gives=ParameterInfo)
async def parameter(call: Call) -> Response:
    """One parameter."""
    key = _key(call, call.vhost)
    for each in _all_parameters(call.site):
        if (each.component, each.vhost, each.name) == key:
            return answer(each._asdict())
    raise not_found()


@routes("PUT /api/parameters/{component}/{vhost}/{name}", body=ValueBody, changes=True)
async def put_parameter(call: Call) -> Response:
    """Set a parameter."""
    key = _key_to_change(call)
    is_new = call.administration.parameters.put(*key, call.body(ValueBody).value, by=call.by)
    done = await call.put_done(is_new)
    if key[0] != VHOST_LIMITS:
        done.headers["Warning"] = f'299 - "kept, but nothing runs a {key[0]} here"'
    return done


@routes("DELETE /api/parameters/{component}/{vhost}/{name}", changes=True)
async def delete_parameter(call: Call) -> Response:
    """Delete a parameter."""
    call.administration.parameters.delete(*_key_to_change(call), by=call.by)
    return await call.done()


@routes("GET /api/shovels", lists=LinkInfo, needs="monitoring")
@routes("GET /api/federation-links", lists=LinkInfo, needs="monitoring")
async def links(call: Call) -> Response:
    """List RabbitMQ's shovels and federation links that run: none."""
    return await listing(call, (), dict)


@routes("GET /api/shovels/{vhost}", lists=LinkInfo, needs="monitoring")
@routes("GET /api/federation-links/{vhost}", lists=LinkInfo, needs="monitoring")
async def links_of_vhost(call: Call) -> Response:
    """The same in a virtual host."""
    call.who.vhost(call.name("vhost"))
    return await listing(call, (), dict)


@routes("GET /api/global-parameters", lists=GlobalParameterInfo)
async def global_parameters(call: Call) -> Response:
    """All global parameters."""
    found = call.administration.parameters.all_global()
    return await listing(call, found, lambda each: each._asdict(), ("name",))


@routes("GET /api/global-parameters/{name}", gives=GlobalParameterInfo)
async def global_parameter(call: Call) -> Response:
    """One global parameter."""
    return answer(call.administration.parameters.lookup_global(call.name("name"))._asdict())


@routes("PUT /api/global-parameters/{name}", body=ValueBody, needs="administrator", changes=True)
async def put_global_parameter(call: Call) -> Response:
    """Set a global parameter."""
    value = call.body(ValueBody).value
    is_new = call.administration.parameters.put_global(call.name("name"), value, by=call.by)
    return await call.put_done(is_new)


@routes("DELETE /api/global-parameters/{name}", needs="administrator", changes=True)
async def delete_global_parameter(call: Call) -> Response:
    """Delete a global parameter."""
    call.administration.parameters.delete_global(call.name("name"), by=call.by)
    return await call.done()


async def _parameters(
    call: Call, component: str | None = None, vhost: str | None = None
) -> Response:
    found = (
        each._asdict()
        for each in _all_parameters(call.site)
        if component in (None, each.component)
        and vhost in (None, each.vhost)
        and call.who.sees(each.vhost)
    )
    return await listing(call, found, dict, ("component", "vhost", "name"))


def _all_parameters(site: Site) -> Iterator[ParameterRecord]:
    """All parameters, with operator policies, and the limits of virtual hosts, one each."""
    administration = site.administration
    yield from administration.parameters.all()
    for policy in administration.policies.all(is_operator=True):
        yield ParameterRecord(OPERATOR_POLICY, policy.vhost, policy.name, policy_value(policy))
    for name in list(site.vhosts):
        limits = administration.vhosts.record(name).limits
        if limits:
            yield ParameterRecord(VHOST_LIMITS, name, LIMITS_NAME, dict(limits))


def _key(call: Call, vhost: VirtualHost) -> tuple[str, str, str]:
    """Component, virtual host and name in the path."""
    return call.name("component"), vhost.name, call.name("name")


def _key_to_change(call: Call) -> tuple[str, str, str]:
    """As ``_key``; limits of virtual hosts are set over policymakers, not by them.

    Raises Refusal.
    """
    key = _key(call, _vhost_to_change(call))
    if key[0] == VHOST_LIMITS:
        call.who.require_tag("administrator")
    return key
