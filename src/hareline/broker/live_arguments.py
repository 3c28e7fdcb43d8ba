"""Changes of queues at run time: arguments changed by operators or policies, and pauses.

Three layers say what is in force for a queue, each over the one before: the arguments that it was
declared with, the changes that operators have made, and what ``overlay`` makes of both.
``Queue.arguments`` stays the declaration; ``Registry.queue_arguments`` has what is in force.

Invariant: changes and pauses of queues that the definitions keep are in the definitions; a change
is refused as a whole before any of it is made. What policies say is in force as far as the queue
can follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from hareline import events
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.making import (
    QueueDefaults,
    dead_letters_of,
    has_qpid_limits,
    holds_new,
    is_non_destructive,
    live_limit_of,
    make_lease,
    make_overflow,
    resume_percent_of,
    set_deduplication,
    set_delivery_limit,
    set_dispatch,
    set_hold,
    set_order,
    set_times,
    set_unused_rules,
)
from hareline.broker.registry import Registry
from hareline.errors import PreconditionFailed, StoreError
from hareline.events import Report
from hareline.queues.core.environment import QueueEnvironment
from hareline.queues.declare.arguments import (
    check_auto_delete,
    overlaid,
    parse_queue_arguments,
)
from hareline.queues.declare.table import (
    ARGUMENTS,
    BY_FIELD,
    BY_NAME,
    DEFAULT_OVERFLOW,
    Live,
    QueueArguments,
)
from hareline.queues.dispatch.reading import ReadingLane
from hareline.queues.queue import Queue
from hareline.storage.interface import DefinitionStore

#: Ready messages that are put into another order, at once: some ten milliseconds.
RESORTED_MAX: Final = 8_192
#: Parts of which one alone would contradict the other.
_SHAPE: Final[tuple[Live, ...]] = ("order", "kind")
_KIND: Final = tuple(field for field, row in BY_FIELD.items() if row.live == "kind")
Arguments = Mapping[str, object]
Changes = Mapping[str, object | None]
Overlay = Callable[[Queue, Arguments], Arguments]


def _as_they_are(_queue: Queue, arguments: Arguments) -> Arguments:
    return arguments


class CannotChangeNow(PreconditionFailed):
    """Raised for arguments that a queue cannot follow as it is. ``fields``: all that go with it."""

    def __init__(self, text: str, fields: frozenset[str]) -> None:
        super().__init__(text)
        self.fields = fields


class LiveArguments:
    """``overlay``: a queue and its own arguments -> those to be in force; set by whoever has
    policies, who calls ``refresh`` for each queue when they change."""

    def __init__(
        self,
        registry: Registry,
        definitions: DefinitionStore,
        queue_defaults: Callable[[], QueueDefaults],
        report: Report,
    ) -> None:
        self._registry = registry
        self._report = report
        self._definitions = definitions
        self._queue_defaults = queue_defaults
        self._changes: dict[str, Changes] = {}  # by the names of queues that have any
        self.overlay: Overlay = _as_they_are

    @property
    def defaults(self) -> QueueDefaults:
        """Values for queues of this virtual host that do not set them."""
        return self._queue_defaults()

    def changes_of(self, queue: Queue) -> Changes:
        """Changes of operators; None: an argument that was taken away."""
        return self._changes.get(queue.name, {})

    def own(self, queue: Queue) -> Arguments:
        """The declared arguments with what operators have changed."""
        changes = self._changes.get(queue.name)
        return overlaid(queue.arguments, changes) if changes else queue.arguments

    def in_force(self, queue: Queue) -> QueueArguments:
        """The arguments that the queue goes by now, with policies."""
        return self._registry.queue_arguments[queue.name]

    def refresh(self, queue: Queue) -> None:
        """Put in force what ``overlay`` says now.

        Raises PreconditionFailed; CannotChangeNow if all but the arguments that it names are in
        force.
        """
        effective, refusal = self._possible(queue, self.overlay(queue, self.own(queue)))
        self.apply_arguments(queue, effective)
        if refusal is not None:
            raise refusal

    def _possible(
        self, queue: Queue, effective: Arguments
    ) -> tuple[Arguments, CannotChangeNow | None]:
        """These arguments, but what is in force where the queue cannot follow, and why not."""
        in_force = self.in_force(queue).raw
        first: CannotChangeNow | None = None
        reverted: frozenset[str] = frozenset()
        while True:
            try:
                self.checked(queue, effective)
            except CannotChangeNow as refusal:
                if reverted >= refusal.fields:
                    raise
                first = first or refusal
                reverted |= refusal.fields
                kept: dict[str, object | None] = {}
                for names in (BY_FIELD[field].names for field in refusal.fields):
                    kept[names[0]] = None
                    kept |= {name: in_force[name] for name in names if name in in_force}
                effective = overlaid(effective, kept)
            else:
                return effective, first

    def apply_arguments(self, queue: Queue, effective: Arguments) -> None:
        """Have the queue go by these arguments at once, all of them: its own overlaid by others.

        Those with a ``live`` part in the table may differ from what is in force. Nothing of this is
        written to the definitions.

        Raises PreconditionFailed for a value that no declaration may have, and for a difference
        that cannot be made while the queue lives; nothing has changed then.
        """
        after, parts = self.checked(queue, effective)
        self._apply(queue, parts, after)
        self._registry.queue_arguments[queue.name] = after

    def checked(self, queue: Queue, effective: Arguments) -> tuple[QueueArguments, frozenset[Live]]:
        """The arguments, read, and the parts of the queue that would follow them now.

        Raises PreconditionFailed as ``apply_arguments``.
        """
        registry = self._registry
        before = registry.queue_arguments[queue.name]
        after = parse_queue_arguments(effective, queue=queue.name, vhost=registry.vhost_name)
        return after, self._parts_to_change(queue, before, after)

    def change(self, queue: Queue, changes: Changes) -> QueueArguments:
        """Change some arguments, at once and durably; returns what is in force.

        A value of None takes an argument away.

        Raises PreconditionFailed as ``apply_arguments``, and for a name that is no argument.
        """
        vhost_name = self._registry.vhost_name
        if isinstance(queue.owner, Exchange):
            raise PreconditionFailed(
                f"queue '{queue.name}' in vhost '{vhost_name}' is for an exchange alone, "
                "whose arguments it goes by"
            )
        for name in changes:
            if name not in BY_NAME:
                raise PreconditionFailed(
                    f"unknown arg '{name}' for queue '{queue.name}' in vhost '{vhost_name}'"
                )
        check_auto_delete(
            changes, queue=queue.name, vhost=vhost_name, is_auto_delete=queue.is_auto_delete
        )
        before = self.changes_of(queue)
        after = _merged(before, changes, queue.arguments)
        effective = self.overlay(queue, overlaid(queue.arguments, after))
        possible, refusal = self._possible(queue, effective)
        if refusal is not None and refusal.fields & {BY_NAME[name].field for name in changes}:
            raise refusal
        self.apply_arguments(queue, possible)
        self._set_changes(queue, after)
        try:
            self._keep(queue)
        except StoreError as error:
            self._undo(queue, before, queue.is_paused, error)
            raise
        self._definitions.undo_if_lost(partial(self._undo, queue, before, queue.is_paused))
        return self.in_force(queue)

    def set_paused(self, queue: Queue, *, paused: bool) -> None:
        """Stop the queue's dispatch, or let it go on; durably. Raises StoreError."""
        before = queue.is_paused
        if before == paused:
            return
        queue.set_paused(paused)
        try:
            self._keep(queue)
        except StoreError:
            queue.set_paused(before)
            raise
        self._definitions.undo_if_lost(partial(self._undo, queue, self.changes_of(queue), before))

    def restore(self, queue: Queue, changes: Changes, *, paused: bool) -> None:
        """Put in force what the definitions kept of a queue, before its messages are there.

        Raises PreconditionFailed.
        """
        if changes:
            self._changes[queue.name] = dict(changes)
            self.apply_arguments(queue, self.own(queue))
            with suppress(PreconditionFailed):  # who has policies reports it, and tries again
                self.refresh(queue)
        if paused:
            queue.set_paused(True)

    def on_queue_removed(self, queue: Queue) -> None:
        """The queue is deleted."""
        self._changes.pop(queue.name, None)

    def _set_changes(self, queue: Queue, changes: Changes) -> None:
        if changes:
            self._changes[queue.name] = changes
        else:
            self._changes.pop(queue.name, None)

    def _keep(self, queue: Queue) -> None:
        registry = self._registry
        if queue.name in registry.queue_ids:
            self._definitions.set_queue_settings(
                registry.vhost_name,
                queue.name,
                is_paused=queue.is_paused,
                changes=self.changes_of(queue),
            )

    def _undo(self, queue: Queue, changes: Changes, paused: bool, _error: StoreError) -> None:
        """Go back to what was in force before, since the change is lost.

        A queue that cannot, such as one that holds messages by now, keeps the change until the
        next start. Never raises: what others have changed meanwhile is undone too.
        """
        if self._registry.queues.get(queue.name) is not queue:
            return
        self._set_changes(queue, changes)
        try:
            self.refresh(queue)
        except PreconditionFailed as error:
            self._report(
                events.DEFINITION_IMPOSSIBLE,
                what=f"arguments of queue '{queue.name}'",
                problem=error.explanation,
                vhost=self._registry.vhost_name,
            )
        if queue.is_paused != paused:
            queue.set_paused(paused)

    # ------------------------------------------------------------------- what follows a change

    def _parts_to_change(
        self, queue: Queue, before: QueueArguments, after: QueueArguments
    ) -> frozenset[Live]:
        """The parts of the queue that have to follow.

        Raises PreconditionFailed if an argument that differs cannot change now, and says why.
        """
        changed = {
            field: argument
            for field, argument in BY_FIELD.items()
            if getattr(before, field) != getattr(after, field)
        }
        for argument in ARGUMENTS:  # the first in the order of checks is named
            if argument.field in changed and argument.live is None:
                raise self._refused(
                    queue, [argument.field], "delete the queue and declare it again for that"
                )
        parts = {each.live for each in changed.values() if each.live is not None}
        if "non_destructive" in changed:
            parts.add("limits")  # what is only read is counted otherwise
        if "active-consumers" in parts and queue.consumer_count:
            raise self._refused(
                queue,
                [field for field, each in changed.items() if each.live == "active-consumers"],
                f"it has {queue.consumer_count} consumers; cancel them first",
            )
        if "hold" in parts or "kind" in parts:
            self._check_hold(queue, before, after)
        for part in _SHAPE:
            reason = _why_in_the_way(queue, part, before, after) if part in parts else None
            if reason is not None:
                fields = [field for field, each in changed.items() if each.live == part]
                others = [field for field, each in changed.items() if each.live in _SHAPE]
                raise self._refused(queue, fields, reason, others)
        if "limits" in parts and after.queue_type != "stream":
            self._check_limits(queue, after)
        return frozenset(parts)

    def _check_hold(self, queue: Queue, before: QueueArguments, after: QueueArguments) -> None:
        reason = None
        if holds_new(after):
            if is_non_destructive(after) and queue.paging is not None:
                reason = "what is only read may be on disk as it is shown"
        elif queue.held_count:
            reason = f"it holds {queue.held_count} messages; cancel them or make them ready first"
        if reason is not None:
            names = ("hold_on_publish", "hold_until_header")
            given = [each for each in names if getattr(before, each) or getattr(after, each)]
            raise self._refused(queue, given, reason, _KIND)

    def _check_limits(self, queue: Queue, after: QueueArguments) -> None:
        """Refuse limits that count headers if nothing has counted those of what is there."""
        counts = queue.overflow is not None and queue.overflow.counts_unacked
        is_empty = not (queue.ready_count or queue.held_count or queue.unacked_count)
        if _counts_unacked(after) and not counts and not is_empty:
            name = BY_FIELD["max_length"].name
            raise self._refused(
                queue,
                ["max_length" if after.max_length is not None else "max_length_bytes"],
                "limits by Qpid's names count the headers of messages too, from an empty queue on; "
                f"use {name} and {name}-bytes, or purge the queue first",
                [field for field, each in BY_FIELD.items() if each.live == "limits"],
            )

    def _refused(
        self, queue: Queue, fields: Sequence[str], reason: str, others: Sequence[str] = ()
    ) -> CannotChangeNow:
        """The refusal of the first of these fields, by name; ``others`` cannot change either."""
        return CannotChangeNow(
            f"arg '{BY_FIELD[min(fields)].name}' of queue '{queue.name}' in vhost "
            f"'{self._registry.vhost_name}' cannot change now: {reason}",
            frozenset((*fields, *others)),
        )

    def _apply(self, queue: Queue, parts: frozenset[Live], after: QueueArguments) -> None:
        """Have these parts of the queue do what the arguments say.

        A lower limit drops what is above it in shares of the next turns.

        Raises PreconditionFailed for names of dead letter targets that no message could carry;
        nothing is changed then.
        """
        environment = queue.environment
        assert environment is not None, "a queue of a virtual host has an environment"
        if "dead-letters" in parts:  # first, since it may refuse
            letters = dead_letters_of(after, queue.name, environment, self._queue_defaults())
            if letters is not None and queue.dead_letters is not None:
                letters.take_counts_of(queue.dead_letters)
            queue.dead_letters = letters
        if not parts.isdisjoint(_SHAPE):
            set_order(queue, after, environment)
        if "limits" in parts:
            _change_limits(queue, after, environment)
        if "deduplication" in parts:
            set_deduplication(queue, after, environment)
        if "times" in parts:
            set_times(queue, after, environment)
        if "returns" in parts:
            # what came back already shows how often, and goes on to: the store has not the header
            was_shown = queue.shows_delivery_count
            set_delivery_limit(queue, after)
            queue.shows_delivery_count = queue.shows_delivery_count or was_shown
        if "lease" in parts:
            if queue.lease is not None:
                queue.lease.stop()
            queue.lease = make_lease(queue, after, environment, self._registry.end_queue)
        if "unused" in parts:
            set_unused_rules(queue, after, environment, self._registry.end_queue)
        if "active-consumers" in parts:
            queue.lane.consumers.live = live_limit_of(after)
        if "dispatch" in parts:
            set_dispatch(queue, after, environment)
        if "consumer-rules" in parts:
            environment.ruled[queue] = None
        if not parts.isdisjoint(("hold", "retry", "kind")):
            set_hold(queue, after, environment)


def _why_in_the_way(
    queue: Queue, part: Live, before: QueueArguments, after: QueueArguments
) -> str | None:
    """The reason why the queue cannot have another "order" or be of another "kind" now."""
    ready = queue.ready_count
    count = ready + queue.held_count + queue.unacked_count
    if part == "kind" or is_non_destructive(before):
        if count or queue.consumer_count:
            return (
                f"it has {count} messages and {queue.consumer_count} consumers; "
                "it can only while it has none"
            )
    elif before.sort_key is not None or after.sort_key is not None:
        if count:
            return f"it has {count} messages; it can only while it has none"
    elif count and before.message_group_type not in (None, "none"):
        return f"it has {count} messages in groups; it can only while it has none"
    elif queue.browsers is not None:
        return "it is being browsed"
    elif ready > RESORTED_MAX or (queue.paging is not None and queue.paging.is_paged):
        return (
            f"it has {ready} messages ready, more than {RESORTED_MAX}, or some of them are on disk"
        )
    return None


def _change_limits(queue: Queue, after: QueueArguments, environment: QueueEnvironment) -> None:
    overflow = queue.overflow
    if after.queue_type == "stream":
        lane = queue.lane
        if isinstance(lane, ReadingLane) and lane.retention is not None:
            lane.retention.set_limits(after.max_age_ms, after.max_length_bytes)
            queue.mark()
    elif after.max_length is None and after.max_length_bytes is None:
        if overflow is not None:
            queue.remove_overflow()
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


def _counts_unacked(arguments: QueueArguments) -> bool:
    has_limits = arguments.max_length is not None or arguments.max_length_bytes is not None
    return has_limits and has_qpid_limits(arguments.raw) and not is_non_destructive(arguments)


def _merged(before: Changes, changes: Changes, declared: Arguments) -> dict[str, object | None]:
    """Earlier changes with newer ones in their place; without what the declaration says anyway."""
    merged: dict[str, object | None] = dict(before)
    for name, value in changes.items():
        names = BY_NAME[name].names
        for other in names:
            merged.pop(other, None)
        given = {other: declared[other] for other in names if other in declared}
        if (value is None and not given) or given == {name: value}:
            continue
        merged[name] = value
    return merged
