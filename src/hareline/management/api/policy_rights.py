"""Which rights a policy needs that has messages go elsewhere: those of arguments that do the same.

``api.policies`` asks before a policymaker sets a policy that names a dead-letter or an alternate
exchange. It needs write where these lead to, and read on each queue and exchange that the policy
would send messages from. An administrator, who gives rights, needs none.

Invariant: a policy moves no message between places of which there are both now, unless its user
could move it by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hareline.administration.policies import matches_in_time
from hareline.administration.policy_keys import KEYS, overlaid_by_policy
from hareline.administration.policy_matching import Policy
from hareline.amqp.rights import (
    require_all_messages_of,
    require_alternate_rights,
    require_dead_letter_rights,
    require_queue_rights,
)
from hareline.broker.exchanges.alternate import ALTERNATE_EXCHANGE
from hareline.broker.exchanges.exchange import Exchange
from hareline.errors import PreconditionFailed
from hareline.management.api.administering import administration_of
from hareline.management.api.changing import Entered
from hareline.management.pace import Share
from hareline.queues.declare.arguments import parse_queue_arguments
from hareline.queues.declare.table import QueueArguments

_FIELDS: Final = ("dead_letter_exchange", "dead_letter_routing_key", "alternate_binding")
#: Keys that say where dead messages of queues go.
_OF_QUEUES: Final = frozenset(
    name for name, key in KEYS.items() if key.argument is not None and key.argument.field in _FIELDS
)


async def require_policy_rights(entered: Entered, policy: Policy, share: Share) -> None:
    """Raise AccessRefused unless the user may have messages go where the policy says."""
    definition = policy.record.definition
    vhost, access = entered.vhost, entered.access
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
    said = _arguments(entered, policy.record.name, {}, passing)
    if said is not None:
        require_dead_letter_rights(access, vhost, said, said.alternate_binding)
    policies = administration_of(entered.site).policies
    for queue in list(vhost.queues.values()):
        await share.pause()
        if not queue.is_deleted and policies.would_concern(policy, queue):
            own = vhost.live_arguments.own(queue)
            arguments = _arguments(entered, queue.name, own, passing)
            if arguments is not None:
                require_queue_rights(access, vhost, queue.name, arguments)


def _arguments(
    entered: Entered, name: str, own: Mapping[str, object], definition: Mapping[str, Any]
) -> QueueArguments | None:
    """What a queue would go by; None where the definition cannot be applied to it."""
    effective = overlaid_by_policy(own, definition)
    try:
        return parse_queue_arguments(effective, queue=name, vhost=entered.vhost.name)
    except PreconditionFailed:
        return None


def _concerns_exchange(policy: Policy, exchange: Exchange) -> bool:
    """Whether it would be the policy that gives the exchange its alternate."""
    has_own = exchange.arguments.get(ALTERNATE_EXCHANGE) is not None
    return bool(exchange.name) and not has_own and matches_in_time(policy, exchange.name)
