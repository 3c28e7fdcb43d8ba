"""``GET /api/hareline/queue-arguments``: every queue argument and policy key, explained for forms.

Made of ``queues.declare.descriptions`` and of the keys that policies may have
(``administration.policy_keys``), so that a form offers what the broker takes and nothing else.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from pydantic import BaseModel
from starlette.responses import Response

from hareline.administration.policy_keys import KEYS, PolicyKey
from hareline.broker.exchanges.alternate import ALTERNATE_EXCHANGE
from hareline.broker.live_settings import LIVE_NAMES
from hareline.management.api.call import Call, Routes
from hareline.management.refusals import answer
from hareline.queues.declare.descriptions import DESCRIPTIONS, GROUPS, Description
from hareline.queues.declare.table import BY_NAME

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


_ALTERNATE: Final = DescribedKey(
    name=ALTERNATE_EXCHANGE,
    group="type",
    title="Alternate exchange",
    input="text",
    summary="Of exchanges: where messages go that no binding takes.",
    example="unrouted",
    page="exchanges",
    choices=[],
    minimum=None,
    maximum=None,
)


def described_arguments() -> DescribedArguments:
    """All of it; the same for every request."""
    keys_of = {key.argument.name: name for name, key in KEYS.items() if key.argument is not None}
    described = {each.name: each for each in DESCRIPTIONS}
    arguments = [
        DescribedArgument(
            **_common(each),
            queue_types=each.queue_types,
            aliases=each.aliases,
            field=BY_NAME[each.name].field,
            has_effect=each.has_effect,
            needs=each.needs,
            policy_key=keys_of.get(each.name),
            is_live=each.name in LIVE_NAMES,
        )
        for each in DESCRIPTIONS
    ]
    keys = [_ALTERNATE]
    for name, key in KEYS.items():
        if key.argument is not None:
            keys.append(_key(name, key, described[key.argument.name]))
    return DescribedArguments(groups=list(GROUPS), arguments=arguments, policy_keys=keys)


def _common(description: Description) -> dict[str, Any]:
    fields = asdict(description)
    fields["choices"] = [
        Choice(value=value, meaning=meaning) for value, meaning in description.choices
    ]
    return fields


def _key(name: str, key: PolicyKey, description: Description) -> DescribedKey:
    fields = _common(description)
    fields["name"] = name
    # RabbitMQ's key has fewer words than the argument, some of which are not for policies
    fields["choices"] = [each for each in fields["choices"] if key.is_valid(each.value)]
    if not key.is_valid(fields["example"]) and fields["choices"]:
        fields["example"] = fields["choices"][0].value
    if description.input == "list":
        fields["choices"] = _common(description)["choices"]
    return DescribedKey(**fields, is_operator=key.is_operator)


_DESCRIBED: Final = described_arguments().model_dump()


@routes("GET /api/hareline/queue-arguments", gives=DescribedArguments)
async def queue_arguments(_call: Call) -> Response:
    """Every queue argument and policy key: what it does, and what it may be."""
    return answer(_DESCRIBED)
