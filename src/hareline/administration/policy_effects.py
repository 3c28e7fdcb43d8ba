"""Policies put in force for all exchanges and queues of a virtual host, in shares.

Started by ``administration.policies`` when a policy has changed, and at the start. Each queue is
asked again what is in force for it (``broker.live_arguments``).

Invariant: a queue that cannot follow keeps what it has, and is reported; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable

from hareline.amqp.context import Context
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.vhost import VirtualHost
from hareline.errors import PreconditionFailed
from hareline.later import Job
from hareline.queues.queue import Queue


class Refresh(Job):
    """``set_alternate``: has an exchange follow. ``report``: called with the name of a queue that
    cannot follow, and the reason."""

    __slots__ = ("_context", "_is_over", "_report", "_set_alternate", "_vhost", "_waiting")

    def __init__(
        self,
        vhost: VirtualHost,
        context: Context,
        set_alternate: Callable[[Exchange], None],
        report: Callable[[str, str], None],
    ) -> None:
        self._vhost = vhost
        self._context = context
        self._set_alternate = set_alternate
        self._report = report
        self._waiting: dict[Exchange | Queue, None] = {}
        self._is_over = False
        self.begin_again()

    def goes_on_for(self, vhost: VirtualHost) -> bool:
        """True if it has work left, for this very virtual host."""
        return not self._is_over and self._vhost is vhost

    def begin_again(self) -> None:
        """Policies have changed: all have to follow again, those first that waited already."""
        vhost = self._vhost
        self._waiting.update(dict.fromkeys(vhost.exchanges.values()))
        self._waiting.update(dict.fromkeys(vhost.queues.values()))

    def run(self, until_s: float) -> bool:
        self._is_over = True  # also by an error that nothing here expects
        context, vhost, waiting = self._context, self._vhost, self._waiting
        while waiting and context.vhosts.get(vhost.name) is vhost:
            first = next(iter(waiting))
            del waiting[first]
            self._refresh(first)
            if context.clock.running_s() >= until_s:
                break
        else:
            return True
        self._is_over = not waiting
        return self._is_over

    def _refresh(self, found: Exchange | Queue) -> None:
        vhost = self._vhost
        if isinstance(found, Exchange):
            if vhost.exchanges.get(found.name) is found:
                self._set_alternate(found)
        elif not found.is_deleted:
            try:
                vhost.live_arguments.refresh(found)
            except PreconditionFailed as error:
                self._report(found.name, error.explanation)
