"""Policies put in force for all queues of a virtual host, in shares.

Started by ``administration.policies`` when a policy has changed, and at the start. Each queue is
asked again what is in force for it (``broker.live_arguments``).

Invariant: a queue that cannot follow keeps what it has, and is reported; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable

from hareline.amqp.shares import Job
from hareline.broker.vhost import VirtualHost
from hareline.clock import Clock
from hareline.errors import PreconditionFailed


class Refresh(Job):
    """``report``: called with the name of a queue that cannot follow, and the reason."""

    __slots__ = ("_clock", "_report", "_vhost", "_waiting")

    def __init__(
        self, vhost: VirtualHost, clock: Clock, report: Callable[[str, str], None]
    ) -> None:
        self._vhost = vhost
        self._clock = clock
        self._report = report
        self._waiting = list(vhost.queues.values())

    def run(self, until_s: float) -> bool:
        waiting, live = self._waiting, self._vhost.live_arguments
        while waiting:
            queue = waiting.pop()
            if queue.is_deleted:
                continue
            try:
                live.refresh(queue)
            except PreconditionFailed as error:
                self._report(queue.name, error.explanation)
            if self._clock.running_s() >= until_s:
                break
        return not waiting
