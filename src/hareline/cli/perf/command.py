"""``hareline perf``: options to a plan, a plan to processes, their counts to a result.

The queues of a test are declared here and deleted at the end, unless --queue names one. Invariant:
every process that was started is ended, also after Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from click import argument, option

from hareline.cli.command import Number, OneOf, Session, Whole, client_command, typed_pairs
from hareline.cli.completing import complete_queue
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.perf.plan import STAMP_OCTETS, Part, Pattern, Plan, Role, shared_out
from hareline.cli.perf.result import result_lines, result_of, why_nothing_moved
from hareline.cli.target import Target

_START_S: Final = 60.0
_END_S: Final = 15.0
_EXIT_S: Final = 2.0
#: After the last message was sent: how long to wait for consumers without any progress.
_PATIENCE_S: Final = 2.0
_POLL_S: Final = 0.1


@client_command()
@argument(
    "pattern",
    type=OneOf(Pattern),
    default=Pattern.work,
    metavar="[PATTERN]",
    help="work, fanout or request; by default work.",
)
@option("--producers", "-p", type=Whole(0), default=1, help="Producers.")
@option("--consumers", "-c", type=Whole(0), default=1, help="Consumers.")
@option(
    "--size",
    metavar="OCTETS",
    default="100",
    help="Of bodies, at least 8; several, as 100,1000, in turn.",
)
@option(
    "--rate", type=Number(0), metavar="N", default=0, help="Messages a second of all; 0: no limit."
)
@option("--duration", type=Number(0.1), default=10, help="How long to measure.")
@option("--warm-up", type=Number(0), default=1, help="Not measured, before.")
@option(
    "--count",
    type=Whole(0),
    default=0,
    help="End after N messages of each producer, without a warm-up; 0: no limit.",
)
@option(
    "--in-flight",
    type=Whole(0),
    default=1000,
    help="Unconfirmed messages, or open requests, of a producer; 0: no confirms.",
)
@option("--persistent", is_flag=True, help="Messages and queues survive a restart.")
@option("--prefetch", type=Whole(1), default=500, help="Of each consumer.")
@option("--auto-ack", is_flag=True, help="Consumers do not acknowledge.")
@option(
    "--variety",
    type=Whole(0),
    default=0,
    help="Give messages ids of their own, and headers of N kinds.",
)
@option(
    "--queue",
    metavar="NAME",
    shell_complete=complete_queue,
    help="Use this queue, for work and request.",
)
@option(
    "--argument",
    "-a",
    multiple=True,
    metavar="NAME=VALUE",
    help="An argument of the queues, as x-queue-type=quorum; may be given again.",
)
@option(
    "--processes",
    type=Whole(1),
    help="Processes; by default as many as there are processors, and 2 at least.",
)
def perf(
    session: Session,
    pattern: Pattern,
    producers: int,
    consumers: int,
    size: str,
    rate: float,
    duration: float,
    warm_up: float,
    count: int,
    in_flight: int,
    persistent: bool,
    prefetch: int,
    auto_ack: bool,
    variety: int,
    queue: str | None,
    argument: tuple[str, ...],
    processes: int | None,
) -> None:
    """Put load on a broker, and measure rates and latencies.

    work: producers send to one queue, each message goes to one consumer. fanout: each consumer
    gets all messages. request: consumers answer, and producers measure the round trip.
    """
    if pattern is Pattern.request and not (producers and consumers and in_flight):
        raise CommandFailed(
            "request needs producers, consumers and --in-flight above 0", ExitStatus.USAGE
        )
    if not producers + consumers:
        raise CommandFailed("neither producers nor consumers", ExitStatus.USAGE)
    if queue is not None and pattern is Pattern.fanout:
        raise CommandFailed("--queue goes with work and request", ExitStatus.USAGE)
    name = f"hareline-perf-{uuid.uuid4().hex[:8]}"
    fans = [f"{name}-{n}" for n in range(consumers)]
    is_fanout = pattern is Pattern.fanout
    plan = Plan(
        pattern,
        exchange=name if is_fanout else "",
        key="" if is_fanout else queue or name,
        queues=tuple(fans) if is_fanout else (queue or name,),
        sizes=_sizes(size),
        rate=rate / producers if producers else 0.0,
        in_flight=in_flight,
        count=count,
        variety=variety,
        is_persistent=persistent,
        prefetch=prefetch,
        is_auto_ack=auto_ack,
        ack_every=max(1, min(50, prefetch // 2)),
        duration_s=duration,
        warm_up_s=0.0 if count else warm_up,
    )
    hands = processes or max(2, os.cpu_count() or 1)
    parts = shared_out(producers, consumers, min(hands, producers + consumers))
    target = session.target.with_password(session.target.password())
    arguments = typed_pairs(argument, "--argument")
    with (
        _topology(target, session.one_vhost, plan, arguments, is_ours=queue is None),
        _Processes([Part(roles, plan) for roles in parts], target, session.one_vhost) as running,
    ):
        counters, seconds = running.measure(plan)
    roles = {"producers": producers, "consumers": consumers, "processes": len(parts)}
    result = result_of(plan, counters, seconds, roles)
    if session.out.is_json:
        session.out.json(result)
    else:
        for line in result_lines(result):
            session.out.line(line)
    if problem := why_nothing_moved(result):
        raise CommandFailed(f"no message was moved: {problem}")


def _sizes(text: str) -> tuple[int, ...]:
    sizes = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) >= STAMP_OCTETS for part in sizes):
        raise CommandFailed(
            f"--size: '{text}' is not a number from {STAMP_OCTETS}, or several with commas",
            ExitStatus.USAGE,
        )
    return tuple(map(int, sizes))


@contextmanager
def _topology(
    target: Target, vhost: str, plan: Plan, arguments: dict[str, Any], *, is_ours: bool
) -> Iterator[None]:
    """Declare the queues of the test, and delete them at the end."""
    from hareline.cli.amqp_client import opened_channel

    if not is_ours:
        yield
        return
    with opened_channel(target, vhost, "hareline perf") as channel:
        if plan.exchange:
            channel.exchange_declare(plan.exchange, "fanout", auto_delete=False)
        for queue in plan.queues:
            channel.queue_declare(queue, durable=plan.is_persistent, arguments=arguments)
            if plan.exchange:
                channel.queue_bind(queue, plan.exchange)
    try:
        yield
    finally:
        with opened_channel(target, vhost, "hareline perf") as channel:
            for queue in plan.queues:
                channel.queue_delete(queue)
            if plan.exchange:
                channel.exchange_delete(plan.exchange)


class _Processes:
    """The processes of a test, and the pipes to them."""

    def __init__(self, parts: list[Part], target: Target, vhost: str) -> None:
        self._parts = parts
        self._target = target
        self._vhost = vhost
        self._running: list[tuple[Any, Any]] = []
        self._counts: dict[int, tuple[int, int]] = {}
        self._idle: set[int] = set()
        self._done: dict[int, list[Any]] = {}
        self._ready: set[int] = set()

    def __enter__(self) -> _Processes:
        import multiprocessing

        from hareline.cli.perf.worker import run_part

        # A process that is forked would share pika's and rich's threads and sockets.
        context = multiprocessing.get_context("spawn")
        # Ctrl-C goes to the whole group of processes; it is for this one, which ends the others.
        # A new program keeps what is ignored; a mask would be undone by multiprocessing.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for part in self._parts:
                here, there = context.Pipe()
                process = context.Process(
                    target=run_part, args=(part, self._target, self._vhost, there), daemon=True
                )
                process.start()
                there.close()
                self._running.append((process, here))
        except BaseException:
            self._end()
            raise
        finally:
            signal.signal(signal.SIGINT, before)
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def measure(self, plan: Plan) -> tuple[list[Any], float]:
        """Run the test; the counters of each role, and the seconds that were measured."""
        self._wait_for(self._ready, _START_S, "to connect")
        self._tell("go")
        with ExitStack() as stack:
            show = stack.enter_context(_Screen())
            began = time.monotonic()
            if plan.warm_up_s:
                self._watch(began + plan.warm_up_s, show, began)
                self._tell("reset")
                began = time.monotonic()
            self._watch(began + plan.duration_s, show, began)
            seconds = time.monotonic() - began
            self._tell("stop")
        self._wait_for(self._done, _END_S, "to end")
        return [each for counters in self._done.values() for each in counters], seconds

    def _watch(self, until: float, show: Any, began: float) -> None:
        """Gather counts until a time, or until all was sent and received."""
        last, last_change = (-1, -1), time.monotonic()
        producing = {
            number
            for number, part in enumerate(self._parts)
            if any(role is Role.producer for role, _ in part.roles)
        }
        while (now := time.monotonic()) < until:
            self._hear(min(_POLL_S, until - now))
            totals = self._totals()
            if totals != last:
                last, last_change = totals, now
            show(totals, now - began)
            if producing and producing <= self._idle and now - last_change > _PATIENCE_S:
                return

    def _totals(self) -> tuple[int, int]:
        counts = self._counts.values()
        return sum(sent for sent, _ in counts), sum(received for _, received in counts)

    def _wait_for(self, heard_of: Collection[int], seconds: float, what: str) -> None:
        """Wait until all processes are in a collection that `_hear` adds to."""
        end = time.monotonic() + seconds
        while len(heard_of) < len(self._parts):
            if time.monotonic() > end:
                raise CommandFailed(f"a process took longer than {seconds:.0f} s {what}")
            self._hear(_POLL_S)

    def _hear(self, seconds: float) -> None:
        """Take in what processes say, for so long at most."""
        from multiprocessing.connection import wait

        pipes: dict[Any, int] = {
            pipe: n for n, (_, pipe) in enumerate(self._running) if n not in self._done
        }
        pipe: Any
        for pipe in wait(list(pipes), seconds):
            number = pipes[pipe]
            try:
                kind, data = pipe.recv()
            except (EOFError, ConnectionResetError):
                raise CommandFailed("a process of the test has ended") from None
            match kind:
                case "ready":
                    self._ready.add(number)
                case "counts":
                    self._counts[number] = data
                case "idle":
                    self._idle.add(number)
                case "done":
                    self._done[number] = data
                case _:
                    raise CommandFailed(f"{self._target.amqp}: {data}")

    def _tell(self, word: str) -> None:
        for _, pipe in self._running:
            pipe.send(word)

    def _end(self) -> None:
        for process, pipe in self._running:
            pipe.close()
            process.join(_EXIT_S if self._done else 0)
            if process.is_alive():
                process.terminate()
                process.join()


class _Screen:
    """A line with the rates so far, on a terminal's standard error."""

    def __init__(self) -> None:
        self._status: Any = None

    def __enter__(self) -> Any:
        import sys

        if not sys.stderr.isatty():
            return lambda *_: None
        from hareline.cli.output import console

        self._status = console(is_for_errors=True).status("connected")
        self._status.start()
        return self._show

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def _show(self, totals: tuple[int, int], seconds: float) -> None:
        sent, received = totals
        each = max(seconds, 0.1)
        self._status.update(
            f"{seconds:.0f} s: sent {sent:,} ({sent / each:,.0f}/s), "
            f"received {received:,} ({received / each:,.0f}/s)"
        )
