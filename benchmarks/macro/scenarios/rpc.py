"""Request and reply over direct reply-to: a requester, and a server that answers each request.

Requests and replies are slices of two tapes of one length, so the server answers the k-th request
with the k-th reply without reading it; both sides check that they got the right one.
"""

from __future__ import annotations

import selectors
import time
from typing import Final

from pamqp import commands

from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import Address, Tape, publish_octets, stamped_body
from benchmarks.macro.scenario import (
    Bench,
    Better,
    Metric,
    Outcome,
    Scenario,
    Stopwatch,
    collector_off,
    temporary_queue,
)
from benchmarks.macro.traffic import AckMode, Consumer, Publisher

REPLY_TO: Final = "amq.rabbitmq.reply-to"
TAPE_LENGTH: Final = 500
PROBE_INDEX: Final = 0xFFFF_FFFF
DRAIN_TIMEOUT_S: Final = 30.0
BODY_SIZE: Final = 100


class DirectReplyTo(Scenario):
    """At most `outstanding` requests are unanswered at any time; one is a plain round trip."""

    def __init__(self, outstanding: int) -> None:
        super().__init__(
            f"request_reply_direct_outstanding_{outstanding}_100B",
            f"direct reply-to, 1 requester, 1 server, at most {outstanding} unanswered",
            (Metric("replies", "msg/s", Better.HIGHER),),
        )
        self._outstanding = outstanding

    def run(self, bench: Bench) -> Outcome:
        with (
            bench.control() as control,
            temporary_queue(control, "requests") as queue,
            Client(bench.url) as requesting,
            Client(bench.url) as serving,
        ):
            pair = _Pair(requesting, serving, queue, self._outstanding)
            try:
                with collector_off():
                    pair.run_for(bench.warm_up_s)
                    before = pair.answered
                    watch = Stopwatch(bench.pid)
                    pair.run_for(bench.seconds)
                    watch.stop()
                answered = pair.answered - before
                pair.drain()
            finally:
                pair.close()
            return watch.outcome({"replies": answered / watch.elapsed_s})


class _Pair:
    """The requester and the server, joined by one selector."""

    def __init__(self, requesting: Client, serving: Client, queue: str, outstanding: int) -> None:
        self._outstanding = outstanding
        serving.consume(queue)
        requesting.consume(REPLY_TO)
        body = stamped_body(BODY_SIZE, PROBE_INDEX)
        probe = Address(queue, properties=_properties(0, REPLY_TO))
        requesting.sock.sendall(publish_octets(probe, body, requesting.frame_max))
        request = serving.read_content()
        reply_to = request.properties.reply_to
        if not reply_to or reply_to == REPLY_TO or request.body != body:
            raise BenchmarkError(f"the broker gave the request the reply-to {reply_to!r}")
        answer = Address(reply_to, properties=_properties(0))
        serving.sock.sendall(publish_octets(answer, body, serving.frame_max))
        reply = requesting.read_content()
        if reply.body != body:
            raise BenchmarkError("the first reply is not what was published")
        numbers = range(TAPE_LENGTH)
        requests = Tape(
            [Address(queue, properties=_properties(number, REPLY_TO)) for number in numbers],
            BODY_SIZE,
            requesting.frame_max,
        )
        replies = Tape(
            [Address(reply_to, properties=_properties(number)) for number in numbers],
            BODY_SIZE,
            serving.frame_max,
        )
        taken = requests.meter(request.shape, first_tag=2)
        self._taken = Consumer(serving, taken, AckMode.AUTO)
        returned = replies.meter(reply.shape, first_tag=None)
        self._returned = Consumer(requesting, returned, AckMode.AUTO)
        self._requester = Publisher(requesting, requests, [self._returned], confirms=False)
        self._server = Publisher(serving, replies, [self._taken], confirms=False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(serving.sock, selectors.EVENT_READ, self._taken)
        self._selector.register(requesting.sock, selectors.EVENT_READ, self._returned)

    @property
    def answered(self) -> int:
        return self._returned.received

    def run_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._requester.publish_up_to(self._returned.received + self._outstanding)
            self._step()

    def drain(self) -> None:
        """Wait for the last replies. :raises BenchmarkError: more or fewer than requests came."""
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while not self._requester.is_complete and time.monotonic() < deadline:
            self._requester.publish_up_to(self._requester.published)
            self._step()
        self._step()
        self._requester.verify_end()

    def close(self) -> None:
        self._selector.close()

    def _step(self) -> None:
        for key, _ in self._selector.select(0.02):
            key.data.receive()
        self._server.publish_up_to(self._taken.received)


def _properties(number: int, reply_to: str | None = None) -> commands.Basic.Properties:
    return commands.Basic.Properties(correlation_id=f"{number:08d}", reply_to=reply_to)


def scenarios() -> list[Scenario]:
    return [DirectReplyTo(1), DirectReplyTo(100)]
