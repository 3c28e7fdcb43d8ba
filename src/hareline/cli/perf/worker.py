"""One process of a load test: its producers and consumers, each a connection of pika on one loop.

It says ``ready`` when all connections stand, begins at the word ``go``, and sends its counts every
quarter of a second; `stop` ends it. Invariant: a producer never has more than the plan's messages
in flight; whatever happens, the last thing that is sent is ``done`` or ``failed``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import takewhile
from typing import Any, Final

import pika
from pika.adapters.select_connection import IOLoop

from hareline.cli.amqp_client import parameters_of
from hareline.cli.perf.plan import STAMP_OCTETS, Part, Pattern, Plan, Role, headers_of, ids_of
from hareline.cli.perf.result import Histogram
from hareline.cli.target import Target

#: Without confirms: octets that wait for the socket before a producer pauses.
_WAITING_OCTETS: Final = 256 * 1024
#: Messages that a producer sends before others on the same loop have their turn.
_SHARE: Final = 100
_PAUSE_S: Final = 0.001
_AGE_MAX_NS: Final = 3600 * 10**9
_DIRECT_REPLY: Final = "amq.rabbitmq.reply-to"


class Counters:
    """Counts of one role; ``latency`` is of what a consumer got, or of round trips.

    ``blocked``: why the broker blocks the connection now, empty if it does not.
    """

    def __init__(self, blocked: str = "") -> None:
        self.blocked = blocked
        self.sent = 0
        self.confirmed = 0
        self.refused = 0
        self.returned = 0
        self.received = 0
        self.latency = Histogram()
        self.confirm_latency = Histogram()


class Client:
    """A connection with one channel. ``failure``: why it ended, empty while it has not."""

    def __init__(self, plan: Plan, parameters: Any, loop: Any, on_failed: Callable[[str], None]):
        self.plan = plan
        self.counters = Counters()
        self.is_ready = False
        self._loop = loop
        self._on_failed = on_failed
        self._is_closing = False
        self._channel: Any = None
        self._connection = pika.SelectConnection(
            parameters,
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
            on_open_error_callback=self._ended,
            on_close_callback=self._ended,
            custom_ioloop=loop,
        )
        self._connection.add_on_connection_blocked_callback(
            lambda _, frame: self._note_blocked(frame.method.reason)
        )
        self._connection.add_on_connection_unblocked_callback(lambda *_: self._note_blocked(""))

    def close(self) -> None:
        """Say goodbye to the broker."""
        self._is_closing = True
        if self._connection.is_open:
            self._connection.close()

    @property
    def is_closed(self) -> bool:
        return bool(self._connection.is_closed)

    def count_received(self, body: bytes) -> None:
        """Count a message, and its age if it has one: others may be in the same queue."""
        counters = self.counters
        counters.received += 1
        age = time.monotonic_ns() - int.from_bytes(body[:STAMP_OCTETS], "big")
        if 0 <= age < _AGE_MAX_NS:
            counters.latency.add(age)

    def _note_blocked(self, reason: str) -> None:
        self.counters.blocked = reason

    def _opened(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_close_callback(self._ended)
        self.on_channel(channel)

    def on_channel(self, channel: Any) -> None:
        """Prepare the channel; sets ``is_ready`` when all that is asked for is there."""
        raise NotImplementedError

    def _ended(self, _: Any, error: Any) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._on_failed(getattr(error, "reply_text", None) or str(error) or repr(error))


class Producer(Client):
    """Sends messages as fast as the plan lets it."""

    def __init__(self, plan: Plan, parameters: Any, loop: Any, on_failed: Any, number: int):
        super().__init__(plan, parameters, loop, on_failed)
        self._number = number
        self._next = 0
        self._answered = 0
        self._sent_ns: dict[int, int] = {}  # by the tag of what is not confirmed yet, in order
        self._begun_ns = 0
        self._is_stopped = False
        self._fillings = [b"x" * max(0, size - STAMP_OCTETS) for size in plan.sizes]
        self._is_request = plan.pattern is Pattern.request
        self._has_confirms = plan.in_flight > 0 and not self._is_request
        mode = 2 if plan.is_persistent else 1
        self._plain = pika.BasicProperties(
            delivery_mode=mode, reply_to=_DIRECT_REPLY if self._is_request else None
        )
        self._mode = mode

    @property
    def is_done(self) -> bool:
        """True if it has sent all that it has to, and all of it is answered."""
        has_sent_all = self._is_stopped or 0 < self.plan.count <= self._next
        return has_sent_all and not self._in_flight()

    def on_channel(self, channel: Any) -> None:
        channel.add_on_return_callback(self._on_returned)
        if self._is_request:
            channel.basic_consume(
                _DIRECT_REPLY, self._on_answer, auto_ack=True, callback=self._on_ready
            )
        elif self._has_confirms:
            channel.confirm_delivery(self._on_confirm, callback=self._on_ready)
        else:
            self.is_ready = True

    def start(self) -> None:
        """Begin to send."""
        self._begun_ns = time.monotonic_ns()
        self._send()

    def stop(self) -> None:
        self._is_stopped = True

    def _on_ready(self, _: Any) -> None:
        self.is_ready = True

    def _in_flight(self) -> int:
        return self._next - self._answered if self._is_request else len(self._sent_ns)

    def _send(self) -> None:
        """Send what may be sent now, and come back."""
        plan = self.plan
        if self._is_stopped or self._is_closing:
            return
        room = _SHARE
        if plan.count:
            room = min(room, plan.count - self._next)
        if plan.in_flight:
            room = min(room, plan.in_flight - self._in_flight())
        elif self._connection._get_write_buffer_size() > _WAITING_OCTETS:
            room = 0
        if plan.rate:
            due = int((time.monotonic_ns() - self._begun_ns) / 1e9 * plan.rate) + 1
            room = min(room, due - self._next)
        for _ in range(room):
            self._send_one()
        if plan.count and self._next >= plan.count:
            return
        self._loop.call_later(0 if room == _SHARE else _PAUSE_S, self._send)

    def _send_one(self) -> None:
        plan, number = self.plan, self._next
        now = time.monotonic_ns()
        filling = self._fillings[number % len(self._fillings)]
        properties = self._plain
        if plan.variety:
            properties = pika.BasicProperties(
                delivery_mode=self._mode,
                reply_to=_DIRECT_REPLY if self._is_request else None,
                headers=headers_of(number, plan.variety),
                **ids_of(self._number, number),
            )
        body = now.to_bytes(STAMP_OCTETS, "big") + filling
        self._channel.basic_publish(
            plan.exchange, plan.key, body, properties, mandatory=self._has_confirms
        )
        self._next += 1
        self.counters.sent += 1
        if self._has_confirms:
            self._sent_ns[self._next] = now

    def _on_confirm(self, frame: Any) -> None:
        """An ack or nack of one message or of all up to it."""
        method, unconfirmed = frame.method, self._sent_ns
        now, tag, counters = time.monotonic_ns(), frame.method.delivery_tag, self.counters
        tags = [tag]
        if method.multiple:
            tags = list(takewhile(lambda each: each <= tag, unconfirmed))
        for each in tags:
            sent = unconfirmed.pop(each, None)
            if sent is not None:
                counters.confirm_latency.add(now - sent)
                if method.NAME == "Basic.Ack":
                    counters.confirmed += 1
                else:
                    counters.refused += 1

    def _on_returned(self, *_: Any) -> None:
        self.counters.returned += 1

    def _on_answer(self, _channel: Any, _method: Any, _properties: Any, body: bytes) -> None:
        self._answered += 1
        self.count_received(body)


class Consumer(Client):
    """Takes messages of one queue; answers them if the pattern is request."""

    def __init__(self, plan: Plan, parameters: Any, loop: Any, on_failed: Any, number: int):
        super().__init__(plan, parameters, loop, on_failed)
        self._queue = plan.queues[number % len(plan.queues)]
        self._unacked = 0
        self._last_tag = 0

    def on_channel(self, channel: Any) -> None:
        channel.basic_qos(prefetch_count=self.plan.prefetch, callback=self._consume)

    def flush(self) -> None:
        """Acknowledge what was received; called by the worker now and then."""
        if self._unacked and self._channel.is_open:
            self._channel.basic_ack(self._last_tag, multiple=True)
            self._unacked = 0

    def _consume(self, _: Any) -> None:
        answer = self.plan.pattern is Pattern.request
        self._channel.basic_consume(
            self._queue,
            self._on_request if answer else self._on_message,
            auto_ack=self.plan.is_auto_ack,
            callback=self._on_ready,
        )

    def _on_ready(self, _: Any) -> None:
        self.is_ready = True

    def _on_message(self, _channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self.count_received(body)
        self._acknowledge(method.delivery_tag)

    def _on_request(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        answer = pika.BasicProperties(correlation_id=properties.correlation_id)
        channel.basic_publish("", properties.reply_to, body, answer)
        self._acknowledge(method.delivery_tag)

    def _acknowledge(self, tag: int) -> None:
        if self.plan.is_auto_ack:
            return
        self._last_tag = tag
        self._unacked += 1
        if self._unacked >= self.plan.ack_every:
            self.flush()


_REPORT_S: Final = 0.25
_FLUSH_S: Final = 0.05
_DRAIN_S: Final = 5.0
_OPEN_S: Final = 30.0
_CLOSE_S: Final = 3.0


def run_part(part: Part, target: Target, vhost: str, pipe: Any) -> None:
    """The life of a process. ``pipe``: a connection of multiprocessing."""
    # SIGINT is ignored since ``command`` started this process: Ctrl-C is for that one alone.
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
