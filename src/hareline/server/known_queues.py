"""Facts of every queue that recovery needs before it reads the journal.

Called by ``storage.disk.opening``. Looks at the arguments of a queue as its declaration does, to
find whether its entries become objects and how messages get their level.
"""

from __future__ import annotations

from collections.abc import Mapping

from hareline.administration.policies import VhostPolicies, policies_by_vhost, type_of
from hareline.administration.policy_keys import overlaid_by_policy
from hareline.broker.making import holds_new, level_reader, make_order, retry_of
from hareline.errors import AmqpError
from hareline.queues.declare.arguments import overlaid, parse_queue_arguments
from hareline.storage.administration import PolicyRecord
from hareline.storage.definitions.sqlite import QueueDefinition, SqliteDefinitions
from hareline.storage.recovery.queue_contents import KnownQueue


def known_queues(definitions: SqliteDefinitions) -> dict[int, KnownQueue]:
    """Return every queue by its id, also of virtual hosts that are not served."""
    policies = policies_by_vhost(definitions.administration.records(PolicyRecord), _pass)
    return {
        queue.queue_id: _known(queue, vhost, policies.get(vhost))
        for vhost in definitions.vhosts()
        for queue in definitions.queues(vhost)
    }


def _pass(_vhost: str, _what: str, _problem: str) -> None:
    """Report nothing: where policies are put in force, what is wrong with them is."""


def _known(queue: QueueDefinition, vhost: str, policies: VhostPolicies | None) -> KnownQueue:
    name = f"queue '{queue.name}' in vhost '{vhost}'"
    own: Mapping[str, object] = queue.arguments
    if queue.changes:
        own = overlaid(own, queue.changes)
    if policies is not None:
        applied = policies.applied(queue.name, type_of(queue.arguments))
        own = overlaid_by_policy(own, applied.definition, applied.bounds)
    if not own:
        return KnownQueue(name)
    try:
        arguments = parse_queue_arguments(own, queue=queue.name, vhost=vhost)
    except AmqpError:
        return KnownQueue(name)  # ``server.restore`` reports what is wrong with it
    is_loaded = (
        make_order(arguments).paged is None
        or arguments.last_value_key is not None
        or arguments.message_ttl_ms is not None
        or arguments.message_group_type is not None
        or holds_new(arguments)
        or retry_of(arguments) is not None
        or bool(arguments.message_deduplication)
    )
    return KnownQueue(name, level_reader(arguments), is_loaded)
