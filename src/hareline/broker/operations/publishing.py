"""A message that an operator publishes comes to the queues that it was routed to.

Called by ``management`` for its publishes. The rules are those of ``amqp.publishing`` for one
message with a confirm and the flag mandatory, but that the caller is told at once.

Invariant: a message that could not be stored, where one of its queues keeps it, comes to no queue.
"""

from __future__ import annotations

from collections.abc import Sequence

from hareline.errors import NotKept
from hareline.message import Message
from hareline.queues.core.enqueueing import Enqueueing, archive_message, archives_of
from hareline.queues.core.kinds import KEEPS_ALL, KEEPS_NONE, REFUSED, TAKEN
from hareline.storage.interface import MessageStore


def put_published(
    store: MessageStore,
    message: Message,
    queues: Sequence[Enqueueing],
    archives: Sequence[Enqueueing],
) -> bool:
    """True if it has come to where it was routed: no queue has refused it, and there was one.

    Raises NotKept if the store takes no new messages.
    """
    if store.refusal and any(
        each.keeps == KEEPS_ALL or (message.position and each.keeps != KEEPS_NONE)
        for each in (*queues, *archives_of(queues, archives))
    ):
        raise NotKept(f"the message cannot be stored: {store.refusal}")
    outcomes = [(queue, queue.put(message)) for queue in queues]
    archive_message(message, [queue for queue, how in outcomes if how == TAKEN], archives)
    return bool(queues) and all(how != REFUSED for _, how in outcomes)
