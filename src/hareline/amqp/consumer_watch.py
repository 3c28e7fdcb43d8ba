"""Consumers that hold deliveries for too long, or work too slowly, and what is done with them.

The look of ``amqp.unacked_watch`` goes over the consumers that have such a rule once a second.
Deliveries carry no time: each consumer has a few marks of the delivery tag that was next at an
instant, so an age is never over-estimated, and under-estimated by a second and a twentieth at most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from hareline import events
from hareline.amqp.connection import Connection
from hareline.amqp.consuming import ChannelConsumer, has_rules, timeout_ms_of
from hareline.amqp.context import Context
from hareline.amqp.unacked import release_entries
from hareline.errors import AmqpError, ConnectionForced, PreconditionFailed
from hareline.queues.core.consumer import Consumer
from hareline.queues.core.rate_window import RateWindow
from hareline.queues.declare.table import QueueArguments
from hareline.queues.dispatch.reading import ReadingLane
from hareline.queues.queue import Queue

STEP: Final = 512  # consumers or delivery tags that are looked at in one step
MARKS: Final = 20  # of one duration
DURATION_MS: Final = 30_000  # ActiveMQ, AbortSlowConsumerStrategy: maxSlowDuration


class TagMarks:
    """Delivery tags by age: those below ``tag`` went out at least ``duration_s`` ago."""

    __slots__ = ("_marks", "duration_s", "tag")

    def __init__(self, duration_s: float) -> None:
        self.duration_s = duration_s
        self.tag = 0
        self._marks: deque[tuple[float, int]] = deque()

    def note(self, now_s: float, next_tag: int) -> None:
        """The next delivery will have this tag."""
        marks = self._marks
        while marks and now_s - marks[0][0] >= self.duration_s:
            self.tag = marks.popleft()[1]
        last_s, last_tag = marks[-1] if marks else (-self.duration_s, self.tag)
        if next_tag > last_tag and now_s - last_s >= self.duration_s / MARKS:
            marks.append((now_s, next_tag))


class _Watched:
    """Findings about one consumer.

    ``settled``: its deliveries that had ended at ``since_s``, when its queue had ``messages`` and
    the next one was to get ``offset``. ``is_slow``, ``has_timed_out``: it was dealt with.
    """

    __slots__ = (
        "acks",
        "consumer",
        "has_timed_out",
        "is_slow",
        "messages",
        "offset",
        "settled",
        "since_s",
        "timeouts",
    )

    def __init__(self, consumer: ChannelConsumer) -> None:
        self.consumer = consumer
        self.timeouts: TagMarks | None = None
        self.acks: TagMarks | None = None
        self.is_slow = False
        self.has_timed_out = False
        self.begin(0.0)
        self.since_s = -1.0  # nothing was looked at yet

    def begin(self, now_s: float) -> None:
        """Measure progress from now on."""
        queue = self.consumer.queue
        assert isinstance(queue, Queue), queue
        self.since_s = now_s
        self.settled = _settled(self.consumer)
        self.messages = queue.ready_count + queue.unacked_count
        self.offset = queue.next_offset


class ConsumerWatch:
    """Watches ``Context.ruled_consumers``, and those of queues in ``QueueEnvironment.ruled``."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._watched: dict[ChannelConsumer, _Watched] = {}

    def steps(self) -> Iterator[None]:
        """Look at all consumers once; yields after each step."""
        new, self._context.ruled_consumers = self._context.ruled_consumers, []
        self._add(new)
        for vhost in list(self._context.vhosts.values()):
            ruled = vhost.environment.ruled
            while ruled:
                queue = ruled.popitem()[0]
                if isinstance(queue, Queue):
                    self._add(each for each in queue.consumers if has_rules(each, vhost))
                yield
        for count, each in enumerate(list(self._watched.values()), 1):
            yield from self._look_at(each)
            if not count % STEP:
                yield

    def _add(self, consumers: Iterable[Consumer]) -> None:
        for consumer in consumers:
            if isinstance(consumer, ChannelConsumer):
                self._watched.setdefault(consumer, _Watched(consumer))

    def _look_at(self, watched: _Watched) -> Iterator[None]:
        consumer, now_s = watched.consumer, self._context.clock.monotonic_s
        vhost = consumer.channel_consumers.client.vhost
        queue, port = consumer.queue, consumer.port
        is_gone = port.is_closing or (consumer.is_cancelled and consumer.outstanding <= 0)
        arguments = None if is_gone else vhost.queue_arguments.get(queue.name)
        timeout_ms = timeout_ms_of(consumer, vhost)
        rule = None if arguments is None else arguments.slow_consumer_rule
        if arguments is None or not isinstance(queue, Queue) or not (timeout_ms or rule):
            del self._watched[consumer]
            return
        watched.timeouts = _marks(watched.timeouts, timeout_ms, now_s, port.next_tag)
        if watched.timeouts is not None:
            for tags in _held(consumer, watched.timeouts.tag):
                if tags:
                    self._time_out(watched, tags, timeout_ms)
                yield
        if rule is not None and not consumer.is_cancelled and not port.is_closing:
            if self._is_slow(watched, queue, arguments, now_s):
                self._act(watched, arguments)
            elif rule != "rate" or watched.since_s == now_s:  # a rate is known once a period
                watched.is_slow = False

    # ---------------------------------------------------------------------- consumer timeout

    def _time_out(self, watched: _Watched, tags: list[int], timeout_ms: int) -> None:
        """Give deliveries with these tags back to the queue, and cancel the consumer."""
        consumer = watched.consumer
        if not watched.has_timed_out:
            watched.has_timed_out = True
            action = "cancel" if consumer.channel_consumers.may_cancel else "close-channel"
            self._tell(watched, "timeout", action)
        port = consumer.port
        if not consumer.is_cancelled:
            text = (  # as rabbit_channel up to 4.2
                f"delivery acknowledgement on channel {port.number} timed out. Timeout value used: "
                f"{timeout_ms} ms"
            )
            self._cancel(consumer, PreconditionFailed(text, class_id=0, method_id=0))
        if not port.is_closing:
            is_counted = not consumer.channel_consumers.client.dialect.counts_rejects_only
            release_entries(port.unacked.take_back(tags), is_counted=is_counted)

    def _cancel(self, consumer: ChannelConsumer, error: AmqpError) -> None:
        """Cancel a consumer, or close its channel if its client takes no basic.cancel."""
        if consumer.channel_consumers.may_cancel:
            consumer.queue.remove_consumer(consumer)
            consumer.channel_consumers.on_cancelled(consumer)
        else:
            self._close(consumer, error)

    def _close(self, consumer: ChannelConsumer, error: AmqpError) -> None:
        """Close the channel of a consumer, or its connection, as the error says."""
        transport = consumer.channel_consumers.transport
        for connection in self._context.connections:
            if isinstance(connection, Connection) and connection.transport is transport:
                connection.on_error(consumer.port.number, error)
                return

    # ----------------------------------------------------------------------- slow consumers

    def _is_slow(
        self, watched: _Watched, queue: Queue, arguments: QueueArguments, now_s: float
    ) -> bool:
        consumer = watched.consumer
        duration_ms = arguments.slow_consumer_duration_ms or DURATION_MS
        if arguments.slow_consumer_rule == "ack-age":
            watched.acks = _marks(watched.acks, duration_ms, now_s, consumer.port.next_tag)
            return watched.acks is not None and any(_held(consumer, watched.acks.tag))
        settled = _settled(consumer)
        if arguments.slow_consumer_rule == "full":
            is_full = slow_reason(consumer) == "prefetch" and settled == watched.settled
            if not is_full or watched.since_s < 0:
                watched.begin(now_s)
            return now_s - watched.since_s >= duration_ms / 1000
        if watched.since_s < 0:
            watched.begin(now_s)
        passed_s = now_s - watched.since_s
        if passed_s < duration_ms / 1000:
            return False
        wanted = (arguments.slow_consumer_threshold or 0) * passed_s
        offered = watched.messages + queue.next_offset - watched.offset
        if isinstance(queue.lane, ReadingLane):
            could_sustain = queue.lane.has_more_for(consumer)
        else:  # Artemis, QueueImpl: neither a trickle nor a small backlog makes its consumers slow
            could_sustain = offered >= wanted * queue.consumer_count
        is_slow = could_sustain and settled - watched.settled < wanted
        watched.begin(now_s)
        return is_slow

    def _act(self, watched: _Watched, arguments: QueueArguments) -> None:
        if watched.is_slow:
            return
        watched.is_slow = True
        consumer = watched.consumer
        action = arguments.slow_consumer_action or "notify"
        if action == "cancel" and not consumer.channel_consumers.may_cancel:
            action = "close-channel"
        rule = arguments.slow_consumer_rule
        self._tell(watched, str(rule), action)
        text = f"consumer '{consumer.tag}' of queue '{consumer.queue.name}' is slow (rule {rule})"
        if action == "close-connection":
            self._close(consumer, ConnectionForced(text, class_id=0, method_id=0))
        elif action == "close-channel":
            self._close(consumer, PreconditionFailed(text, class_id=0, method_id=0))
        elif action == "cancel":
            self._cancel(consumer, PreconditionFailed(text, class_id=0, method_id=0))

    def _tell(self, watched: _Watched, rule: str, action: str) -> None:
        consumer = watched.consumer
        counts = self._context.counts.slow_consumers
        counts[rule, action] = counts.get((rule, action), 0) + 1
        consumer.channel_consumers.tell("consumer.slow", consumer, {"rule": rule, "action": action})
        self._context.report(
            events.CONSUMER_SLOW,
            peer=consumer.channel_consumers.transport.peer,
            channel=consumer.port.number,
            tag=consumer.tag,
            queue=consumer.queue.name,
            vhost=consumer.channel_consumers.client.vhost.name,
            rule=rule,
            action=action,
        )


def slow_reason(consumer: Consumer) -> str:
    """Obstacle between a consumer and messages that wait for it: "prefetch", "socket", or "".

    In a queue whose consumers take messages away, any ready message counts as one that waits for
    it, whatever its selector says.
    """
    queue = consumer.queue
    if not isinstance(queue, Queue) or not isinstance(consumer, ChannelConsumer):
        return ""
    if consumer.is_active or consumer.is_cancelled or not consumer.is_live:
        return ""
    if queue.is_paused or not _has_waiting(queue, consumer):
        return ""
    if consumer.acknowledges and (
        consumer.credit <= 0
        or any(
            consumer in each.waiting or not each.admits(1)
            for each in consumer.windows
            if not isinstance(each, RateWindow)
        )
    ):
        return "prefetch"
    return "socket" if consumer.port.output.is_socket_full else ""


def _has_waiting(queue: Queue, consumer: Consumer) -> bool:
    lane = queue.lane
    if isinstance(lane, ReadingLane):
        return lane.has_more_for(consumer)
    return queue.ready_count > 0 and not consumer.is_browser


def _settled(consumer: ChannelConsumer) -> int:
    """Deliveries of a consumer that have ended."""
    return consumer.delivered_count - consumer.outstanding


def _marks(
    marks: TagMarks | None, duration_ms: int, now_s: float, next_tag: int
) -> TagMarks | None:
    """Marks of this duration, brought up to date; None for a duration of 0."""
    if not duration_ms:
        return None
    if marks is None or marks.duration_s != duration_ms / 1000:
        marks = TagMarks(duration_ms / 1000)
    marks.note(now_s, next_tag)
    return marks


def _held(consumer: ChannelConsumer, below_tag: int) -> Iterator[list[int]]:
    """The tags below one under which a consumer holds deliveries, a step at a time."""
    unacked = consumer.port.unacked
    for tags in unacked.in_shares(0, STEP):
        if tags[0] >= below_tag:
            return
        entries = unacked.entries
        yield [
            tag
            for tag in tags
            if tag < below_tag and tag in entries and entries[tag].consumer is consumer
        ]
