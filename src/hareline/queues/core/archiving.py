"""The way of a message into the archives of what it has reached.

A queue with ``x-archive-to`` has a stream as its ``archive``, and so has an exchange
(``broker.archives``). Whatever puts a routed message into queues calls ``archive_message`` behind
it: ``amqp.publishing``, dead letters, delayed messages, replays. It does so in the same callback of
the loop, and what one callback does is in one batch of the journal: queue and archive have the
message after a crash, or neither has.

Invariant: a stream gets a message once, however many of its archivers got it, and not again where
the message was routed to the stream itself.                                                 [hot]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hareline.message import Message
from hareline.queues.core.enqueueing import Enqueueing

Taker = TypeVar("Taker", bound=Enqueueing)


def archive_message(
    message: Message, takers: Sequence[Enqueueing], passed: Sequence[Enqueueing] = ()
) -> tuple[Enqueueing, ...]:
    """Put a message into its archives; returns them.

    ``takers`` have the message by now; ``passed`` are the archives of the exchanges on its way.
    """
    archives = archives_of(takers, passed)
    for stream in archives:
        stream.put(message)
    return archives


def archives_of(
    takers: Sequence[Enqueueing], passed: Sequence[Enqueueing] = ()
) -> tuple[Enqueueing, ...]:
    """The streams that get a message of these queues, each once; without the queues themselves.

    An archive may have an archive in turn.
    """
    for queue in takers:
        if queue.archive is not None:
            break
    else:
        if not passed:
            return ()  # as nearly always
    found = dict.fromkeys(passed)
    pending: list[Enqueueing] = [*takers, *passed]
    for queue in pending:
        stream = queue.archive
        if stream is not None and stream not in found:
            found[stream] = None
            pending.append(stream)
    for queue in takers:
        found.pop(queue, None)
    return tuple(found)
