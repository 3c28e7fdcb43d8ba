"""The limits of a queue, and what happens at them.

The queue asks before it takes a message in (``refuses``, ``discards``), calls ``enforce`` when one
has come in or came back, and ``on_departed`` for every entry that leaves.

==================  ============================================================================
policy              at the limit
==================  ============================================================================
drop-head           the least of the ready entries goes, until the rest is within the limit
reject-publish      the new message is refused; its publisher is told
reject-publish-dlx  the same, and it is dead-lettered
discard             the new message is dropped, and its publisher is not told
flow-control        the message is taken, and its publisher stopped until there is room again
flow-to-disk        the message is taken, and what is above the limits leaves memory (``paging``)
none                only a line in the log
==================  ============================================================================

Whatever the policy, consumers come first: what they would get at the end of this turn is delivered
before the queue is called full.

Far below the limits a message costs two subtractions: ``_room_count`` and ``_room_bytes`` are how
much more fits for certain, and the true depth is measured when that is used up.

Invariant: nothing of this is logged once per message. A queue is *overfull* from the first message
that its limit cost something until its depth has fallen to the resume percentage; the log has one
line for the beginning and one for the end, and none for an episode that begins again so soon that
it would fill the log.                                                                      [hot]
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from math import ceil
from typing import TYPE_CHECKING, Final

from hareline import events
from hareline.message import stored_bytes
from hareline.queues.core.part_ports import OverflowPort
from hareline.queues.core.ports import QueuePort

if TYPE_CHECKING:
    from hareline.clock import Timer
    from hareline.message import Message
    from hareline.queues.core.entry import QueueEntry
    from hareline.queues.core.environment import QueueEnvironment
    from hareline.queues.declare.table import OverflowPolicy

REPORT_INTERVAL_S: Final = 10.0
DROPPED_AT_ONCE: Final = 2048  # some milliseconds; the rest is dropped in the next turns
RESUME_PERCENT: Final = 80.0  # Broker-J: queue.queueFlowResumeLimit

_NO_LIMIT: Final = sys.maxsize


class StoppedPublisher:
    """A publisher that waits for room in queues with the policy flow-control.

    No ABC, as the ports of ``hareline.turn``.
    """

    __slots__ = ()

    @abstractmethod
    def on_underfull(self, overflow: Overflow) -> None:
        """This queue has room again, or is gone, or does not stop publishers any more."""


class Overflow(OverflowPort):
    """``max_length`` counts messages, ``max_length_bytes`` octets; None is no limit, 0 is one.

    With RabbitMQ's names (``counts_unacked`` False) the depth is that of the ready entries, and
    octets are those of bodies. With Qpid's names everything counts that is not settled, and octets
    include the header (``stored_bytes``); such limits must be set while the queue is empty.
    ``resume_percent``: how far both depths must fall until the queue is not overfull any more.

    ``stops_publishers``: a publisher to this queue is to be given to ``stop_publisher`` now.
    """

    __slots__ = (
        "_environment",
        "_given_up",
        "_is_enforcing",
        "_is_reported",
        "_is_trimming",
        "_limit_bytes",
        "_limit_count",
        "_queue",
        "_refuses",
        "_resume_bytes",
        "_resume_count",
        "_room_bytes",
        "_room_count",
        "_stopped",
        "_stored_bytes",
        "_timer",
        "counts_unacked",
        "is_overfull",
        "policy",
        "queue_name",
        "stops_publishers",
    )

    def __init__(
        self,
        queue: QueuePort,
        environment: QueueEnvironment,
        *,
        max_length: int | None,
        max_length_bytes: int | None,
        policy: OverflowPolicy,
        resume_percent: float = RESUME_PERCENT,
        counts_unacked: bool = False,
    ) -> None:
        assert not counts_unacked or not (queue.ready_count or queue.unacked_count), queue
        self._queue: QueuePort | None = queue  # None: the queue is deleted
        self.queue_name = queue.name
        self._environment = environment
        self._stored_bytes = 0  # kept only if ``counts_unacked``
        self._note_limits(max_length, max_length_bytes, policy, resume_percent, counts_unacked)
        self._stopped: dict[StoppedPublisher, None] = {}
        self._is_enforcing = False
        self._is_trimming = False  # a lower limit has more to drop than one call may
        self.is_overfull = False
        self.stops_publishers = False
        self._is_reported = False
        self._given_up = 0  # messages dropped or refused, not reported yet
        self._timer: Timer | None = None

    def _note_limits(
        self,
        max_length: int | None,
        max_length_bytes: int | None,
        policy: OverflowPolicy,
        resume_percent: float,
        counts_unacked: bool,
    ) -> None:
        self.policy = policy
        self._refuses = policy in ("reject-publish", "reject-publish-dlx")
        self.counts_unacked = counts_unacked
        self._limit_count = _NO_LIMIT if max_length is None else max_length
        self._limit_bytes = _NO_LIMIT if max_length_bytes is None else max_length_bytes
        self._resume_count = self._resume_depth(max_length, resume_percent)
        self._resume_bytes = self._resume_depth(max_length_bytes, resume_percent)
        self._room_count = 0  # until the depth is measured
        self._room_bytes = 0

    def _resume_depth(self, limit: int | None, percent: float) -> int:
        if limit is None:
            return _NO_LIMIT
        depth = ceil(limit * percent / 100)
        if self.policy in ("none", "flow-control", "flow-to-disk"):
            return depth
        return min(depth, limit - 1)  # these never get above the limit: at it they are full

    def set_limits(
        self,
        *,
        max_length: int | None,
        max_length_bytes: int | None,
        policy: OverflowPolicy,
        resume_percent: float,
        counts_unacked: bool,
    ) -> None:
        """Go by other limits from now on; what is above them is dropped in shares.

        ``counts_unacked`` may become True only while the queue is empty.
        """
        if not counts_unacked:
            self._stored_bytes = 0
        self._is_trimming = False
        self._note_limits(max_length, max_length_bytes, policy, resume_percent, counts_unacked)
        if self.is_overfull:
            self._end_episode_if_underfull()
        if self.stops_publishers and policy != "flow-control":
            self._let_publish()
        self.stops_publishers = self.is_overfull and policy == "flow-control"
        self.enforce_limits()

    def enforce_limits(self) -> None:
        """Begin to drop what is above the limits, where the policy says so."""
        queue = self._queue
        if queue is None or not self._is_over():
            return
        if not self.is_overfull:
            self._begin_episode()
        if self.policy == "drop-head":
            self._is_trimming = True
        queue.mark()  # the dispatch comes first, and then ``on_delivered``

    # ------------------------------------------------------- before a message is taken

    def refuses(self, message: Message) -> bool:
        """True if this message is refused; asked once for each, since it may be dead-lettered."""
        if not self._refuses:
            return False
        queue = self._queue
        if queue is None or not self._is_full_for(queue, message):
            return False
        if self.policy == "reject-publish-dlx" and queue.dead_letters is not None:
            queue.dead_letters.publish_message(message, "maxlen")
        return True

    def discards(self, message: Message) -> bool:
        """True if this message is dropped, and its publisher is not told."""
        if self.policy != "discard":
            return False
        queue = self._queue
        return queue is not None and self._is_full_for(queue, message)

    def _is_full_for(self, queue: QueuePort, message: Message) -> bool:
        """True if the queue would be above a limit with this message; that is then counted."""
        if not self.would_exceed(message):
            return False
        queue.deliver_due()
        if not self.would_exceed(message):
            return False
        if not self.is_overfull:
            self._begin_episode()
        self._give_up(1)
        return True

    def would_exceed(self, message: Message) -> bool:
        """True if the queue would be above a limit with this message."""
        size = stored_bytes(message) if self.counts_unacked else message.size
        if self._room_count >= 1 and self._room_bytes >= size:
            return False
        self._measure()
        return self._room_count < 1 or self._room_bytes < size

    # ------------------------------------------------- after something came in or left

    def enforce(self, entry: QueueEntry | None) -> None:
        """``entry`` has just been added; None: entries came back, or their time has come."""
        if entry is not None:
            size = entry.message.size
            if self.counts_unacked:
                size = stored_bytes(entry.message)
                self._stored_bytes += size
            self._room_count -= 1
            self._room_bytes -= size
            if self._room_count >= 0 and self._room_bytes >= 0:
                return
        queue = self._queue
        if queue is not None and self._is_over() and not self._is_enforcing:
            self._is_enforcing = True
            try:
                self._enforce(queue, entry)
            finally:
                self._is_enforcing = False

    def _enforce(self, queue: QueuePort, entry: QueueEntry | None) -> None:
        # Entries that came back may not be delivered here: their channel may be about to end.
        drops = self.policy == "drop-head"
        if entry is not None and queue.consumer_count and (drops or not self.is_overfull):
            victim = None if queue.is_paused else queue.lane.least()
            if victim is not None and queue.lane.may_deliver(victim):
                queue.deliver_due()
                if not self._is_over():
                    return
        if not self.is_overfull:
            self._begin_episode()
        if drops and not self._is_trimming:
            self._drop_least(queue)

    def _drop_least(self, queue: QueuePort) -> None:
        """Drop the least ready entries until the rest is within the limits.

        RabbitMQ drops a message that is too large on its own; Qpid keeps it, over the limit. What
        is dead-lettered to this very queue comes in between, and is dropped here as well. What a
        lower limit leaves above it may be much: the rest is dropped when the next dispatch is done.
        """
        self._is_trimming = False
        for _ in range(DROPPED_AT_ONCE):
            victim = queue.lane.least()
            if victim is None or (self.counts_unacked and queue.ready_count == 1):
                return
            self._give_up(1)
            queue.drop([victim], "maxlen")
            if not self._is_over():
                return
        self._is_trimming = True
        queue.mark()

    def _trim(self, queue: QueuePort) -> None:
        self._is_enforcing = True
        try:
            if self._is_over():
                self._drop_least(queue)
            else:
                self._is_trimming = False
        finally:
            self._is_enforcing = False

    def on_departed(self, entry: QueueEntry) -> None:
        """An entry was settled."""
        if self.counts_unacked:
            self._stored_bytes -= stored_bytes(entry.message)
        if self.is_overfull and not self._is_enforcing:
            queue = self._queue
            if queue is not None and not queue.is_delivering:
                self._end_episode_if_underfull()

    def on_changed(self, before: Message, after: Message) -> None:
        """An entry that is not settled has another message now."""
        if self.counts_unacked:
            growth = stored_bytes(after) - stored_bytes(before)
            self._stored_bytes += growth
            self._room_bytes -= growth

    def on_pages_dropped(self, octets: int) -> None:
        """Entries of this many octets with metadata were settled, without being read."""
        if self.counts_unacked:
            self._stored_bytes -= octets

    def on_delivered(self) -> None:
        """Consumers or a basic.get may have taken entries."""
        if self.is_overfull and not self._is_enforcing:
            if self._is_trimming and self._queue is not None:
                self._trim(self._queue)
            self._end_episode_if_underfull()

    # ------------------------------------------------------------------------ publishers

    def stop_publisher(self, publisher: StoppedPublisher) -> None:
        """Call its ``on_underfull`` once, when there is room; unless it is forgotten before."""
        self._stopped[publisher] = None

    def forget_publisher(self, publisher: StoppedPublisher) -> None:
        """The publisher is gone."""
        self._stopped.pop(publisher, None)

    def stop(self) -> None:
        """The queue is deleted, or has other limits from now on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._given_up:
            self._report_given_up()
        self.is_overfull = False
        self._let_publish()
        self._queue = None  # a reference back: the queue is freed without the collector

    def _let_publish(self) -> None:
        self.stops_publishers = False
        stopped, self._stopped = self._stopped, {}
        for publisher in stopped:
            publisher.on_underfull(self)

    # -------------------------------------------------------------------------- episodes

    def _begin_episode(self) -> None:
        self.is_overfull = True
        self.stops_publishers = self.policy == "flow-control"
        if self._timer is None:  # else an episode has just ended: this one is reported if it lasts
            self._report_overfull()
            self._arm()

    def _end_episode_if_underfull(self) -> None:
        if self.depth_count > self._resume_count or self.depth_bytes > self._resume_bytes:
            return
        self.is_overfull = False
        if self._is_reported:
            self._is_reported = False
            self._report_underfull()
        self._let_publish()

    def _give_up(self, count: int) -> None:
        self._given_up += count
        if self._timer is None:
            self._arm()

    def _arm(self) -> None:
        self._timer = self._environment.timers.call_later(REPORT_INTERVAL_S, self._on_interval)

    def _on_interval(self) -> None:
        """Report what was put off; if there was something, go on counting for another interval."""
        self._timer = None
        is_unreported = self.is_overfull and not self._is_reported
        if is_unreported or self._given_up:
            self._arm()
        if is_unreported:
            self._report_overfull()
        if self._given_up:
            self._report_given_up()

    def _report_overfull(self) -> None:
        self._is_reported = True
        self._environment.report(
            events.QUEUE_OVERFULL,
            queue=self.queue_name,
            vhost=self._environment.vhost_name,
            policy=self.policy,
            messages=self.depth_count,
            bytes=self.depth_bytes,
            max_length=self.max_length,
            max_length_bytes=self.max_length_bytes,
        )

    def _report_underfull(self) -> None:
        self._environment.report(
            events.QUEUE_UNDERFULL,
            queue=self.queue_name,
            vhost=self._environment.vhost_name,
            policy=self.policy,
            messages=self.depth_count,
            bytes=self.depth_bytes,
            max_length=self.max_length,
            max_length_bytes=self.max_length_bytes,
        )

    def _report_given_up(self) -> None:
        count, self._given_up = self._given_up, 0
        self._environment.report(
            events.QUEUE_DROPPED,
            queue=self.queue_name,
            vhost=self._environment.vhost_name,
            policy=self.policy,
            count=count,
        )

    # --------------------------------------------------------------------------- reading

    def _is_over(self) -> bool:
        self._measure()
        return self._room_count < 0 or self._room_bytes < 0

    def _measure(self) -> None:
        self._room_count = self._limit_count - self.depth_count
        self._room_bytes = self._limit_bytes - self.depth_bytes

    @property
    def depth_count(self) -> int:
        """Messages, as they count against ``max_length``."""
        queue = self._queue
        if queue is None:
            return 0
        if self.counts_unacked:
            return queue.ready_count + queue.held_count + queue.unacked_count
        return queue.ready_count

    @property
    def depth_bytes(self) -> int:
        """Octets, as they count against ``max_length_bytes``."""
        if self.counts_unacked:
            return self._stored_bytes
        return 0 if self._queue is None else self._queue.ready_bytes

    @property
    def memory_window(self) -> tuple[int, int] | None:
        """The ready messages and octets that stay in memory by this policy; None: no limit."""
        if self.policy != "flow-to-disk" or self._queue is None:
            return None
        limit_count = self._limit_count
        if self.counts_unacked:
            limit_count = max(0, limit_count - self._queue.unacked_count)
        return limit_count, self._limit_bytes

    @property
    def place(self) -> str:
        """The name of this queue, for texts."""
        return f"queue '{self.queue_name}' in vhost '{self._environment.vhost_name}'"

    @property
    def max_length(self) -> int | None:
        return None if self._limit_count == _NO_LIMIT else self._limit_count

    @property
    def max_length_bytes(self) -> int | None:
        return None if self._limit_bytes == _NO_LIMIT else self._limit_bytes

    @property
    def explanation(self) -> str:
        """The reason of a refusal, for its publisher; Broker-J's words, -1 being no limit."""
        max_length, max_length_bytes = self.max_length, self.max_length_bytes
        return (
            f"Maximum depth exceeded on '{self.queue_name}' : "
            f"current=[count: {self.depth_count}, size: {self.depth_bytes}], "
            f"max=[count: {-1 if max_length is None else max_length}, "
            f"size: {-1 if max_length_bytes is None else max_length_bytes}]"
        )

    def __repr__(self) -> str:
        limits = f"{self.max_length} messages, {self.max_length_bytes} octets"
        return f"<Overflow {self.policy}, {limits}>"
