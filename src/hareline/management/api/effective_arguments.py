"""``GET /api/hareline/queues/{vhost}/{queue}/effective-arguments``: which argument counts, and why.

For each argument of a queue that is in force: its value, and whether the declaration, an operator,
a policy, an operator policy or a default decided it, with what was overridden. Every user who sees
the queue may ask, also those who may not list the policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel
from starlette.responses import Response

from hareline.administration.policy_keys import Decision, Origin, decisions
from hareline.management.api.call import Call, Routes
from hareline.management.api.queues import find_queue
from hareline.management.refusals import answer
from hareline.queues.declare.table import ROWS
from hareline.storage.administration import PolicyRecord

routes = Routes("hareline")


class PolicyInForce(BaseModel):
    """A policy that concerns the queue, whether or not anything of it counts."""

    name: str
    pattern: str
    priority: int
    definition: dict[str, Any]


class OverriddenArgument(BaseModel):
    """What else was said of an argument, and why it does not count."""

    origin: Origin
    origin_name: str | None
    value: Any
    because: str


class EffectiveArgument(BaseModel):
    """An argument in force. ``origin_name``: of the policy. ``has_effect`` False: taken, and means
    nothing here."""

    name: str
    value: Any
    origin: Origin
    origin_name: str | None
    has_effect: bool
    overridden: list[OverriddenArgument]


class EffectiveArguments(BaseModel):
    """Arguments that something was said of, in the order of forms, and then those by default."""

    vhost: str
    name: str
    policy: PolicyInForce | None
    operator_policy: PolicyInForce | None
    arguments: list[EffectiveArgument]


_ORDER: Final = {each.name: number for number, each in enumerate(ROWS)}


@routes("GET /api/hareline/queues/{vhost}/{queue}/effective-arguments", gives=EffectiveArguments)
async def effective_arguments(call: Call) -> Response:
    """Each argument in force of a queue, and who decided it."""
    vhost, queue = find_queue(call)
    applied = call.administration.policies.of_queue(vhost.name, queue)
    found = sorted(decisions(vhost.live_arguments, queue, applied), key=_place)
    return answer(
        {
            "vhost": vhost.name,
            "name": queue.name,
            "policy": _policy_json(applied.policy),
            "operator_policy": _policy_json(applied.operator_policy),
            "arguments": _json_of(found),
        }
    )


def _place(decision: Decision) -> tuple[bool, int, str]:
    is_default = decision.source.origin in ("default", "vhost_default") and not decision.overridden
    return is_default, _ORDER.get(decision.name, len(_ORDER)), decision.name


def _json_of(found: Sequence[Decision]) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "value": each.source.value,
            "origin": each.source.origin,
            "origin_name": each.source.policy,
            "has_effect": each.has_effect,
            "overridden": [
                {
                    "origin": other.source.origin,
                    "origin_name": other.source.policy,
                    "value": other.source.value,
                    "because": other.because,
                }
                for other in each.overridden
            ],
        }
        for each in found
    ]


def _policy_json(record: PolicyRecord | None) -> dict[str, Any] | None:
    if record is None:
        return None
    return {
        "name": record.name,
        "pattern": record.pattern,
        "priority": record.priority,
        "definition": dict(record.definition),
    }
