"""Which arguments change while a queue lives, and the change itself.

Called by ``broker.live_arguments`` for each queue whose arguments have changed: by an operator, by
a policy, or at the start. What is in force before and afterwards is a ``QueueArguments`` each, both
read by the same readers as a declaration, so a value that no declaration may have is refused here
too. What a queue is made of (its type, its ordering, its groups, how it is kept) does not change.

Invariant: a change is refused as a whole before any of it is made.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hareline.broker.making import (
    QueueDefaults,
    dead_letters_of,
    has_qpid_limits,
    is_non_destructive,
    live_limit_of,
    make_overflow,
    resume_percent_of,
    set_delivery_limit,
)
from hareline.errors import PreconditionFailed
from hareline.queues.admission import without_hold, without_overflow
from hareline.queues.declare.table import (
    ARGUMENTS,
    BY_FIELD,
    DEFAULT_OVERFLOW,
    Live,
    QueueArguments,
)
from hareline.queues.dispatch.reading import ReadingLane
from hareline.queues.paused import working_lane
from hareline.queues.policies.expiry import Expiry
from hareline.queues.policies.hold import Hold
from hareline.queues.policies.lease import Lease
from hareline.queues.queue import Queue


def check_live(
    queue: Queue, before: QueueArguments, after: QueueArguments, vhost: str
) -> frozenset[Live]:
    """The parts of the queue that have to follow.

    Raises PreconditionFailed if an argument that differs cannot change now, and says why.
    """
    changed = {
        field: argument
        for field, argument in BY_FIELD.items()
        if getattr(before, field) != getattr(after, field)
    }
    for argument in ARGUMENTS:  # the first in the order of the table is named
        if argument.field in changed and argument.live is None:
            raise _refused(
                queue, vhost, argument.field, "delete the queue and declare it again for that"
            )
    parts = frozenset(each.live for each in changed.values() if each.live is not None)
    if "active-consumers" in parts and queue.consumer_count:
        raise _refused(
            queue,
            vhost,
            min(field for field, each in changed.items() if each.live == "active-consumers"),
            f"it has {queue.consumer_count} consumers; cancel them first",
        )
    if "hold" in parts:
        _check_hold(queue, after, vhost)
    if "limits" in parts and after.queue_type != "stream":
        _check_limits(queue, after, vhost)
    return parts


def _check_hold(queue: Queue, after: QueueArguments, vhost: str) -> None:
    if after.hold_on_publish:
        if is_non_destructive(after) and queue.paging is not None:
            raise _refused(
                queue, vhost, "hold_on_publish", "what is only read may be on disk as it is shown"
            )
    elif queue.held_count:
        raise _refused(
            queue,
            vhost,
            "hold_on_publish",
            f"it holds {queue.held_count} messages; cancel them or make them ready first",
        )


def _check_limits(queue: Queue, after: QueueArguments, vhost: str) -> None:
    """Limits by Qpid's names count headers too, and nothing has counted those of what is there."""
    counts = queue.overflow is not None and queue.overflow.counts_unacked
    if (
        _counts_unacked(after)
        and not counts
        and (queue.ready_count or queue.held_count or queue.unacked_count)
    ):
        name = BY_FIELD["max_length"].name
        raise _refused(
            queue,
            vhost,
            "max_length" if after.max_length is not None else "max_length_bytes",
            "limits by Qpid's names count the headers of messages too, from an empty queue on; "
            f"use {name} and {name}-bytes, or purge the queue first",
        )


def _counts_unacked(arguments: QueueArguments) -> bool:
    has_limits = arguments.max_length is not None or arguments.max_length_bytes is not None
    return has_limits and has_qpid_limits(arguments.raw) and not is_non_destructive(arguments)


def _refused(queue: Queue, vhost: str, field: str, reason: str) -> PreconditionFailed:
    return PreconditionFailed(
        f"arg '{BY_FIELD[field].name}' of queue '{queue.name}' in vhost '{vhost}' cannot change "
        f"now: {reason}"
    )


def apply_live(
    queue: Queue,
    parts: frozenset[Live],
    after: QueueArguments,
    defaults: QueueDefaults,
    on_expired: Callable[[Queue], None],
) -> None:
    """Have the queue do what these arguments say; ``parts`` is what ``check_live`` returned.

    A lower limit drops what is above it in shares of the next turns.

    Raises PreconditionFailed for names of dead letter targets that no message could carry; nothing
    is changed then.
    """
    environment = queue.environment
    assert environment is not None, "a queue of a virtual host has an environment"
    if "dead-letters" in parts:  # first, since it may refuse
        _change_dead_letters(queue, after, defaults)
    if "limits" in parts:
        _change_limits(queue, after)
    if "times" in parts:
        _change_times(queue, after)
    if "returns" in parts:
        # what came back already shows how often, and goes on to: the store has not the header
        was_shown = queue.shows_delivery_count
        set_delivery_limit(queue, after)
        queue.shows_delivery_count = queue.shows_delivery_count or was_shown
    if "lease" in parts:
        if queue.lease is not None:
            queue.lease.stop()
            queue.lease = None
        if after.expires_ms is not None:
            queue.lease = Lease(
                queue,
                environment,
                after.expires_ms,
                bool(after.expires_if_empty),
                partial(on_expired, queue),
            )
    if "active-consumers" in parts:
        queue.lane.consumers.live = live_limit_of(after)
    if "hold" in parts:
        if after.hold_on_publish:
            queue.install(hold=Hold(queue, environment))
        else:
            without_hold(queue)


def _change_dead_letters(queue: Queue, after: QueueArguments, defaults: QueueDefaults) -> None:
    environment, before = queue.environment, queue.dead_letters
    assert environment is not None
    letters = dead_letters_of(after, queue.name, environment, defaults)
    if letters is not None and before is not None:
        letters.take_counts_of(before)
    queue.dead_letters = letters


def _change_limits(queue: Queue, after: QueueArguments) -> None:
    environment, overflow = queue.environment, queue.overflow
    assert environment is not None
    if after.queue_type == "stream":
        lane = working_lane(queue.lane)
        if isinstance(lane, ReadingLane) and lane.retention is not None:
            lane.retention.set_limits(after.max_age_ms, after.max_length_bytes)
            queue.mark()
    elif after.max_length is None and after.max_length_bytes is None:
        if overflow is not None:
            without_overflow(queue)
    elif overflow is None:
        queue.install(overflow=make_overflow(queue, after, environment))
        assert queue.overflow is not None
        queue.overflow.enforce_limits()
    else:
        overflow.set_limits(
            max_length=after.max_length,
            max_length_bytes=after.max_length_bytes,
            policy=after.overflow or DEFAULT_OVERFLOW,
            resume_percent=resume_percent_of(after),
            counts_unacked=_counts_unacked(after),
        )


def _change_times(queue: Queue, after: QueueArguments) -> None:
    environment = queue.environment
    assert environment is not None
    expiry = queue.expiry
    if expiry is None:
        expiry = Expiry(queue, environment)
    expiry.set_bounds(
        message_ttl_ms=after.message_ttl_ms,
        min_ttl_ms=after.min_message_ttl_ms,
        max_ttl_ms=after.max_message_ttl_ms,
        sweep_ms=after.expiry_check_period_ms,
    )
    queue.install(expiry=expiry)
