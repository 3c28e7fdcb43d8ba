"""Destinations of a routed message: queues, requesters waiting for a direct reply, and archives.

A queue with ``x-archive-to`` has a stream as its ``archive``, and so has an exchange
(``broker.archives``). Whatever puts a routed message into queues calls ``archive_message`` behind
it, in the same callback of the loop: what one callback does is in one batch of the journal, so
queue and archive have the message after a crash, or neither has.                            [hot]
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Sequence

from hareline.compiled import mypyc_attr, trait
from hareline.message import Message


@trait
@mypyc_attr(allow_interpreted_subclasses=True)
class Enqueueing(metaclass=ABCMeta):
    """A base class and not a protocol, since the hot path calls it for each message.

    ``needs_admission``: messages must come by ``put``.

    ``keeps``: which messages go to the store: KEEPS_NONE, KEEPS_PERSISTENT or KEEPS_ALL.
    ``archive``: the stream that gets what comes here; None without ``x-archive-to``.
    """

    __slots__ = ()

    archive: Enqueueing | None
    is_deleted: bool
    needs_admission: bool
    keeps: int

    @abstractmethod
    def enqueue(self, message: Message) -> None:
        """Take in a message where no admission is needed."""

    def enqueue_run(self, messages: list[Message]) -> None:
        """Take in messages that came together, in this order, as ``enqueue`` takes in each."""
        for message in messages:
            self.enqueue(message)

    @abstractmethod
    def put(self, message: Message) -> int:
        """Take in a message: TAKEN, REFUSED, or DISCARDED without a word to its publisher, or
        DUPLICATE, by its id."""

    def has_taker(self, message: Message) -> bool:
        """True if a consumer waits that would be given this message at once (immediate)."""
        return True


def archive_message(
    message: Message, takers: Sequence[Enqueueing], passed: Sequence[Enqueueing] = ()
) -> tuple[Enqueueing, ...]:
    """Put a message into its archives; returns them.

    ``takers`` have the message by now; ``passed`` are the archives of the exchanges on its way. A
    stream gets the message once, and not again where it was routed to the stream itself.
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
