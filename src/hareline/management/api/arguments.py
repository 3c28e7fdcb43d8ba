"""Queue arguments, for forms and for operators: what each may be, and which counts for a queue.

Made of the rows of ``queues.declare.table`` and of the keys that policies may have, so that a form
offers what the broker takes and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel
from starlette.responses import Response

from hareline.administration.policy_keys import KEYS, MERGE, Decision, Origin, decisions
from hareline.broker.auto_creation import QUEUES_KEY, TOPICS_KEY
from hareline.broker.exchanges.alternate import ALTERNATE_EXCHANGE
from hareline.management.answers import answer
from hareline.management.api.call import Call, Routes
from hareline.management.api.queues import find_queue
from hareline.queues.declare.table import GROUPS, ROWS, Argument, PolicyKey
from hareline.storage.administration import PolicyRecord

routes = Routes("hareline")


class Choice(BaseModel):
    """One word that an argument may be."""

    value: str
    meaning: str


class DescribedKey(BaseModel):
    """A policy key; those that set a queue argument are described as it is.

    ``input``: integer, duration_ms, bytes, text, choice, flag, number, list or json. ``page``: of
    the documentation. ``is_operator``: operator policies may have it too.
    """

    name: str
    group: str
    title: str
    input: str
    summary: str
    example: Any
    page: str
    choices: list[Choice]
    minimum: int | None
    maximum: int | None
    is_operator: bool = False


class DescribedArgument(DescribedKey):
    """A queue argument. ``aliases``: names that mean the same. ``needs``: a field it goes with.

    ``is_live``: it can be changed while the queue works.
    """

    queue_types: list[str]
    aliases: list[str]
    field: str | None
    has_effect: bool
    needs: str | None
    policy_key: str | None
    is_live: bool


class DescribedArguments(BaseModel):
    """``groups``: id and title, in the order in which a form shows them."""

    groups: list[tuple[str, str]]
    arguments: list[DescribedArgument]
    policy_keys: list[DescribedKey]


def _key(
    name: str,
    title: str,
    summary: str,
    example: str | bool,
    page: str,
    *,
    is_operator: bool = False,
) -> DescribedKey:
    return DescribedKey(
        name=name,
        group="type",
        title=title,
        input="flag" if isinstance(example, bool) else "text",
        summary=summary,
        example=example,
        page=page,
        choices=[],
        minimum=None,
        maximum=None,
        is_operator=is_operator,
    )


#: Keys that set no argument of queues.
_OTHER_KEYS: Final = (
    _key(
        ALTERNATE_EXCHANGE,
        "Alternate exchange",
        "Of exchanges: where messages go that no binding takes.",
        "unrouted",
        "exchanges",
    ),
    _key(
        MERGE,
        "Merge",
        "Policies of lower priority set the keys that this one does not.",
        True,
        "administration#policies",
        is_operator=True,
    ),
    _key(
        QUEUES_KEY,
        "Make queues",
        "A queue with such a name is made when a client first uses it.",
        True,
        "auto-creation",
    ),
    _key(
        TOPICS_KEY,
        "Virtual topics",
        "Of exchanges: a queue Consumer.GROUP.EXCHANGE is made for each group of consumers.",
        True,
        "auto-creation#virtual-topics",
    ),
)


def described_arguments() -> DescribedArguments:
    """All of it; the same for every request."""
    arguments = [
        DescribedArgument(
            **_described(row),
            queue_types=sorted(row.queue_types),
            aliases=[alias.name for alias in row.aliases],
            field=row.field,
            has_effect=row.field is not None,
            needs=None if row.needs is None else row.needs[0],
            policy_key=row.key if row.live else None,
            is_live=row.live is not None,
        )
        for row in ROWS
    ]
    keys = [_described_key(key.argument, key) for key in KEYS.values() if key.argument is not None]
    groups = [(group.name, group.title) for group in GROUPS]
    return DescribedArguments(groups=groups, arguments=arguments, policy_keys=[*_OTHER_KEYS, *keys])


def _described(row: Argument) -> dict[str, Any]:
    minimum, maximum = row.bounds
    return {
        "name": row.name,
        "group": row.group.name,
        "title": row.title,
        "input": row.input,
        "summary": row.summary,
        "example": row.example,
        "page": row.page,
        "choices": [Choice(value=word, meaning=meaning) for word, meaning in row.choices.items()],
        "minimum": minimum,
        "maximum": maximum,
    }


def _described_key(row: Argument, key: PolicyKey) -> DescribedKey:
    described = DescribedKey(**{**_described(row), "name": row.key, "is_operator": key.is_operator})
    if row.input == "choice":
        # RabbitMQ's key has fewer words than the argument, some of which are not for policies
        described.choices = [each for each in described.choices if key.is_valid(each.value)]
    return described


_DESCRIBED: Final = described_arguments().model_dump()


@routes("GET /api/hareline/queue-arguments", gives=DescribedArguments)
async def queue_arguments(_call: Call) -> Response:
    """Every queue argument and policy key: what it does, and what it may be."""
    return answer(_DESCRIBED)


# ------------------------------------------------------------------------------- arguments in force


class PolicyInForce(BaseModel):
    """A policy that concerns the queue, whether or not anything of it counts."""

    name: str
    pattern: str
    priority: int
    definition: dict[str, Any]


class OverriddenArgument(BaseModel):
    """A value given for an argument that does not count, and the reason."""

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
