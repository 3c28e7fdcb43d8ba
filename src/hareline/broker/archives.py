"""Archives: the streams of a virtual host that queues and exchanges are archived to.

``x-archive-to`` of a queue or an exchange names a stream that gets a copy of what the queue or
exchange gets (docs/archiving.md). ``broker.registry`` tells ``Archives`` what comes and goes, in
any order, since a restart brings exchanges back first. ``broker.declarations`` asks whether a name
may be an archive, ``broker.vhost`` whether a queue may go; ``core.enqueueing`` puts the
messages there.

Invariant: ``archive`` of a queue or exchange is the stream that its argument names, while there is
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.routing import Routing
from hareline.errors import NotFound, PreconditionFailed
from hareline.queues.declare.table import QueueArguments
from hareline.queues.queue import Queue

ARCHIVE_TO: Final = "x-archive-to"


class Archives:
    """The archives of one virtual host; ``queues`` and ``arguments`` are its registry's."""

    __slots__ = ("_arguments", "_by_stream", "_queues", "_routing", "_vhost_name")

    def __init__(
        self,
        vhost_name: str,
        queues: Mapping[str, Queue],
        arguments: Mapping[str, QueueArguments],
        routing: Routing,
    ) -> None:
        self._vhost_name = vhost_name
        self._queues = queues
        self._arguments = arguments
        self._routing = routing
        # stream -> the queues and exchanges whose arguments name it
        self._by_stream: dict[str, dict[Queue | Exchange, None]] = {}

    def check(self, name: str, archived: str) -> None:
        """Raise NotFound or PreconditionFailed unless a stream has this name.

        ``archived``: the queue or exchange that is declared with it, for the text.
        """
        arguments = self._arguments.get(name)
        if name == self._routing.closed_queue:
            raise PreconditionFailed(
                f"invalid arg '{ARCHIVE_TO}' for {archived} in vhost '{self._vhost_name}': "
                f"the broker alone writes to queue '{name}', its audit; name another stream"
            )
        if arguments is None:
            raise NotFound(f"no queue '{name}' in vhost '{self._vhost_name}'")
        if arguments.queue_type != "stream":
            raise PreconditionFailed(
                f"invalid arg '{ARCHIVE_TO}' for {archived} in vhost '{self._vhost_name}': "
                f"queue '{name}' is not a stream; declare it with x-queue-type stream"
            )

    def check_removable(self, queue: Queue) -> None:
        """Raise PreconditionFailed for the archive of a queue or exchange, naming one of them."""
        for archived in self._by_stream.get(queue.name, ()):
            kind = "queue" if isinstance(archived, Queue) else "exchange"
            raise PreconditionFailed(
                f"queue '{queue.name}' in vhost '{self._vhost_name}' is the archive of {kind} "
                f"'{archived.name}': delete the {kind} first"
            )

    def on_exchange_added(self, exchange: Exchange) -> None:
        """Give the exchange its archive, if its argument names one."""
        name = exchange.arguments.get(ARCHIVE_TO)
        if isinstance(name, str):
            self._link(exchange, name)

    def on_queue_added(self, queue: Queue) -> None:
        """Give the queue its archive, and make it the archive of those that wait for it."""
        name = self._arguments[queue.name].archive_to
        if name is not None:
            self._link(queue, name)
        self._set_archive(queue.name, queue)

    def on_exchange_removed(self, exchange: Exchange) -> None:
        """The exchange does not need its archive any more."""
        self._unlink(exchange, exchange.arguments.get(ARCHIVE_TO))

    def on_queue_removed(self, queue: Queue, arguments: QueueArguments) -> None:
        """The queue does not need its archive any more, and is none itself."""
        self._unlink(queue, arguments.archive_to)
        self._set_archive(queue.name, None)

    def _link(self, archived: Queue | Exchange, name: str) -> None:
        self._by_stream.setdefault(name, {})[archived] = None
        archived.archive = self._queues.get(name)
        self._routing.has_archives = True

    def _unlink(self, archived: Queue | Exchange, name: object) -> None:
        if not isinstance(name, str):
            return
        archived.archive = None
        archivers = self._by_stream[name]
        del archivers[archived]
        if not archivers:
            del self._by_stream[name]
            self._routing.has_archives = bool(self._by_stream)

    def _set_archive(self, name: str, stream: Queue | None) -> None:
        for archived in self._by_stream.get(name, ()):
            archived.archive = stream
