"""One process of a load test: runs its producers and consumers, and reports now and then.

Started by ``command`` with a pipe. It says ``ready`` when all connections stand, begins at the word
``go``, and sends its counts every quarter of a second; `stop` ends it. Invariant: whatever happens,
the last thing it sends is ``done`` or ``failed``.
"""

from __future__ import annotations

import time
from typing import Any, Final

from pika.adapters.select_connection import IOLoop

from hareline.cli.amqp_client import parameters_of, silence_pika
from hareline.cli.perf.plan import Part, Role
from hareline.cli.perf.roles import Client, Consumer, Counters, Producer
from hareline.cli.target import Target

_REPORT_S: Final = 0.25
_FLUSH_S: Final = 0.05
_DRAIN_S: Final = 5.0
_OPEN_S: Final = 30.0
_CLOSE_S: Final = 3.0


def run_part(part: Part, target: Target, vhost: str, pipe: Any) -> None:
    """The life of a process. ``pipe``: a connection of multiprocessing."""
    # SIGINT is ignored since ``command`` started this process: Ctrl-C is for that one alone.
    silence_pika()
    try:
        _Run(part, parameters_of(target, vhost, "hareline perf"), pipe).run()
    except (EOFError, BrokenPipeError):
        pass  # the first process has ended
    except Exception as error:
        pipe.send(("failed", f"{type(error).__name__}: {error}"))


class _Run:
    def __init__(self, part: Part, parameters: Any, pipe: Any) -> None:
        self._pipe = pipe
        self._plan = part.plan
        self._loop = IOLoop()
        self._loop.activate_poller()
        self._failure = ""
        self._producers = [
            Producer(part.plan, parameters, self._loop, self._fail, number)
            for role, number in part.roles
            if role is Role.producer
        ]
        self._consumers = [
            Consumer(part.plan, parameters, self._loop, self._fail, number)
            for role, number in part.roles
            if role is Role.consumer
        ]
        self._clients: list[Client] = [*self._producers, *self._consumers]

    def run(self) -> None:
        self._serve_until(lambda: all(each.is_ready for each in self._clients), _OPEN_S)
        if not all(each.is_ready for each in self._clients):
            self._failure = self._failure or f"not connected within {_OPEN_S:.0f} s"
        if self._failure:
            self._pipe.send(("failed", self._failure))
            return
        self._pipe.send(("ready", None))
        while self._word() != "go":  # consumers are served before producers begin
            self._turn(_FLUSH_S)
        for producer in self._producers:
            producer.start()
        self._work()
        self._end()

    def _work(self) -> None:
        next_report = time.monotonic() + _REPORT_S
        has_said_idle = False
        while not self._failure:
            self._turn(_FLUSH_S)
            for consumer in self._consumers:
                consumer.flush()
            word = self._word()
            if word == "stop":
                return
            if word == "reset":
                for client in self._clients:
                    client.counters = Counters(client.counters.blocked)
            if time.monotonic() >= next_report:
                next_report += _REPORT_S
                self._pipe.send(("counts", self._counts()))
            is_idle = bool(self._producers) and all(each.is_done for each in self._producers)
            if is_idle and not has_said_idle:
                has_said_idle = True
                self._pipe.send(("idle", None))

    def _end(self) -> None:
        # What is on its way is heard out, and not counted.
        result = [client.counters for client in self._clients]
        for client in self._clients:
            client.counters = Counters()
        for producer in self._producers:
            producer.stop()
        self._serve_until(lambda: all(each.is_done for each in self._producers), _DRAIN_S)
        for consumer in self._consumers:
            consumer.flush()
        failure = self._failure
        for client in self._clients:
            client.close()
        self._serve_until(lambda: all(each.is_closed for each in self._clients), _CLOSE_S)
        self._pipe.send(("failed", failure) if failure else ("done", result))

    def _counts(self) -> tuple[int, int]:
        sent = sum(each.counters.sent for each in self._clients)
        return sent, sum(each.counters.received for each in self._clients)

    def _word(self) -> str | None:
        return self._pipe.recv() if self._pipe.poll() else None

    def _turn(self, seconds: float) -> None:
        """One round of the loop, which waits at most so long."""
        timer = self._loop.call_later(seconds, _nothing)
        self._loop.poll()
        self._loop.process_timeouts()
        self._loop.remove_timeout(timer)

    def _serve_until(self, is_done: Any, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not is_done() and not self._failure and time.monotonic() < end:
            self._turn(_FLUSH_S)

    def _fail(self, reason: str) -> None:
        self._failure = self._failure or reason


def _nothing() -> None:
    """Ends a wait of the loop."""
