"""Destination of a routed message: a queue, or a requester waiting for a direct reply.

``amqp.publishing`` calls it for each message and each destination, so it is a base class and not a
protocol.                                                                                     [hot]
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod

from hareline.compiled import mypyc_attr, trait
from hareline.message import Message


@trait
@mypyc_attr(allow_interpreted_subclasses=True)
class Enqueueing(metaclass=ABCMeta):
    """``needs_admission``: messages must come by ``put``.

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
        """Take in a message: TAKEN, REFUSED, or DISCARDED without a word to its publisher."""
