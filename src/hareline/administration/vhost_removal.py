"""A deleted virtual host taken apart in memory, in shares.

Started by ``administration.vhosts`` when it is deleted on disk and no client can reach it. Its
queues give back what they hold in the journal and in memory.

Invariant: nothing is written to the definitions, which have nothing of it.
"""

from __future__ import annotations

from hareline.broker.vhost import VirtualHost
from hareline.clock import Clock
from hareline.later import Job


class VhostRemoval(Job):
    """Deletes one queue after the other."""

    __slots__ = ("_clock", "_vhost")

    def __init__(self, vhost: VirtualHost, clock: Clock) -> None:
        self._vhost = vhost
        self._clock = clock
        vhost.begin_removal()

    def run(self, until_s: float) -> bool:
        while self._vhost.forget_a_queue():
            if self._clock.running_s() >= until_s:
                return False
        return True
