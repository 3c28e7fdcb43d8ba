"""Facts of every queue that recovery needs before it reads the journal.

Called by ``storage.disk.opening``. Looks at the arguments of a queue as its declaration does, to
find whether its entries become objects and how messages get their level.
"""

from __future__ import annotations

from hareline.broker.making import level_reader, make_order
from hareline.errors import AmqpError
from hareline.queues.declare.arguments import overlaid, parse_queue_arguments
from hareline.storage.definitions.sqlite import QueueDefinition, SqliteDefinitions
from hareline.storage.recovery.queue_contents import KnownQueue


def known_queues(definitions: SqliteDefinitions) -> dict[int, KnownQueue]:
    """Return every queue by its id, also of virtual hosts that are not served."""
    return {
        queue.queue_id: _known(queue, vhost)
        for vhost in definitions.vhosts()
        for queue in definitions.queues(vhost)
    }


def _known(queue: QueueDefinition, vhost: str) -> KnownQueue:
    name = f"queue '{queue.name}' in vhost '{vhost}'"
    own = overlaid(queue.arguments, queue.changes) if queue.changes else queue.arguments
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
        or bool(arguments.hold_on_publish)
    )
    return KnownQueue(name, level_reader(arguments), is_loaded)
