"""Changes of queues at run time: arguments changed by operators or policies, and pauses.

Called by ``management`` (a change, a pause), by ``administration`` (policies, through ``overlay``
and ``apply_arguments``), and by recovery. Three layers say what is in force for a queue, each over
the one before: the arguments that it was declared with, the changes that operators have made, and
what ``overlay`` makes of both. ``Queue.arguments`` stays the declaration, so that a client may
declare the queue again as it always did; ``Registry.queue_arguments`` has what is in force.

Invariant: changes and pauses of queues that the definitions keep are in the definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from hareline import events
from hareline.broker.live_settings import apply_live, check_live
from hareline.errors import PreconditionFailed, StoreError
from hareline.events import Report
from hareline.queues.declare.arguments import overlaid, parse_queue_arguments
from hareline.queues.declare.table import BY_NAME, QueueArguments
from hareline.queues.paused import is_paused, pause, resume
from hareline.queues.queue import Queue

if TYPE_CHECKING:
    from hareline.broker.making import QueueDefaults
    from hareline.broker.registry import Registry
    from hareline.storage.interface import DefinitionStore

Arguments = Mapping[str, object]
Changes = Mapping[str, object | None]
Overlay = Callable[[Queue, Arguments], Arguments]


def _as_they_are(_queue: Queue, arguments: Arguments) -> Arguments:
    return arguments


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
        """What queues of this virtual host get that do not say it themselves."""
        return self._queue_defaults()

    def changes_of(self, queue: Queue) -> Changes:
        """What operators have changed; None: an argument that was taken away."""
        return self._changes.get(queue.name, {})

    def own(self, queue: Queue) -> Arguments:
        """The declared arguments with what operators have changed."""
        changes = self._changes.get(queue.name)
        return overlaid(queue.arguments, changes) if changes else queue.arguments

    def in_force(self, queue: Queue) -> QueueArguments:
        """What the queue goes by now, with policies."""
        return self._registry.queue_arguments[queue.name]

    def refresh(self, queue: Queue) -> None:
        """Put in force what ``overlay`` says now. Raises PreconditionFailed."""
        self.apply_arguments(queue, self.overlay(queue, self.own(queue)))

    def apply_arguments(self, queue: Queue, effective: Arguments) -> None:
        """Have the queue go by these arguments at once, all of them: its own overlaid by others.

        Those with a ``live`` part in the table may differ from what is in force. Nothing of this is
        written to the definitions.

        Raises PreconditionFailed for a value that no declaration may have, and for a difference
        that cannot be made while the queue lives; nothing has changed then.
        """
        registry = self._registry
        before = registry.queue_arguments[queue.name]
        after = parse_queue_arguments(effective, queue=queue.name, vhost=registry.vhost_name)
        parts = check_live(queue, before, after, registry.vhost_name)
        apply_live(queue, parts, after, self._queue_defaults(), registry.end_queue)
        registry.queue_arguments[queue.name] = after

    def change(self, queue: Queue, changes: Changes) -> QueueArguments:
        """Change some arguments, at once and durably; returns what is in force.

        A value of None takes an argument away.

        Raises PreconditionFailed as ``apply_arguments``, and for a name that is no argument.
        """
        vhost_name = self._registry.vhost_name
        for name in changes:
            if name not in BY_NAME:
                raise PreconditionFailed(
                    f"unknown arg '{name}' for queue '{queue.name}' in vhost '{vhost_name}'"
                )
        before = self.changes_of(queue)
        after = _merged(before, changes, queue.arguments)
        self.apply_arguments(queue, self.overlay(queue, overlaid(queue.arguments, after)))
        self._set_changes(queue, after)
        try:
            self._keep(queue)
        except StoreError as error:
            self._undo(queue, before, is_paused(queue), error)
            raise
        self._definitions.undo_if_lost(partial(self._undo, queue, before, is_paused(queue)))
        return self.in_force(queue)

    def set_paused(self, queue: Queue, *, paused: bool) -> None:
        """Stop the queue's dispatch, or let it go on; durably. Raises StoreError."""
        before = is_paused(queue)
        if before == paused:
            return
        _set_pause(queue, paused)
        try:
            self._keep(queue)
        except StoreError:
            _set_pause(queue, before)
            raise
        self._definitions.undo_if_lost(partial(self._undo, queue, self.changes_of(queue), before))

    def restore(self, queue: Queue, changes: Changes, *, paused: bool) -> None:
        """What the definitions kept of a queue, before its messages are there.

        Raises PreconditionFailed.
        """
        if changes:
            self._changes[queue.name] = dict(changes)
            self.refresh(queue)
        if paused:
            pause(queue)

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
                is_paused=is_paused(queue),
                changes=self.changes_of(queue),
            )

    def _undo(self, queue: Queue, changes: Changes, paused: bool, _error: StoreError) -> None:
        """What was changed is lost: go back to what was in force before.

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
        if is_paused(queue) != paused:
            _set_pause(queue, paused)


def _set_pause(queue: Queue, paused: bool) -> None:
    if paused:
        pause(queue)
    else:
        resume(queue)


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
