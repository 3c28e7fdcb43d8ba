"""Virtual hosts at run time: made, changed, limited, deleted.

A virtual host that is deleted is deleted on disk first, and once more when no client can reach it,
so none of it comes back; what of it is in memory goes in shares.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Final

from hareline.administration.changes import INTERNAL, Changes
from hareline.administration.checks import (
    AdministrationError,
    bad_request,
    check_limit,
    check_name,
    in_force,
)
from hareline.administration.origins import Origins, VhostOrigin
from hareline.amqp.context import Context
from hareline.amqp.ports import LiveConnection
from hareline.broker.vhost import VirtualHost
from hareline.later import Job
from hareline.storage.administration import RemovedDefault, VhostRecord

#: RabbitMQ has the first two.
VHOST_LIMITS: Final = ("max-connections", "max-queues", "max-exchanges", "max-bindings")
QUEUE_TYPES: Final = ("classic", "quorum", "stream")

_NOTHING: Final = VhostOrigin()
_ENDED_AT_ONCE: Final = 50  # connections: some ms


class Vhosts:
    """``make``: has a new virtual host served. ``forget``: drops what else is known of a name.

    ``origins`` is replaced by a reload, followed by ``apply_all``.
    """

    def __init__(
        self,
        context: Context,
        changes: Changes,
        origins: Origins,
        make: Callable[[str], VirtualHost],
        forget: Callable[[str], None],
    ) -> None:
        self._context = context
        self._changes = changes
        self.origins = origins
        self._make = make
        self._forget = forget
        store = changes.store
        self._records = {record.name: record for record in store.records(VhostRecord)}
        removed = store.records(RemovedDefault)
        self._removed = {each.name for each in removed if each.kind == "vhost"}

    def own_names(self) -> list[str]:
        """Virtual hosts that exist because of a record, and not of the settings."""
        return [
            name
            for name, record in self._records.items()
            if record.is_own and not self.origins.fixes_vhost(name)
        ]

    def is_removed(self, name: str) -> bool:
        """True for a default virtual host that was deleted, and not made again."""
        return (
            name in self._removed
            and not self.origins.fixes_vhost(name)
            and name not in self.own_names()
        )

    def apply_all(self) -> None:
        for name in list(self._context.vhosts):
            self._apply(name)

    def _apply(self, name: str) -> None:
        vhost = self._context.vhosts[name]
        record = self.record(name)
        limits = self._context.vhost_connection_limits
        fixed = self.origins.vhosts.get(name, _NOTHING).limits
        connections, queues, exchanges, bindings = (
            fixed.get(limit, in_force(record.limits.get(limit))) for limit in VHOST_LIMITS
        )
        if connections is None:
            limits.pop(name, None)
        else:
            limits[name] = connections
        vhost.capacity.max_queues = queues
        vhost.capacity.max_exchanges = exchanges
        vhost.capacity.max_bindings = bindings
        vhost.default_queue_type = record.default_queue_type
        self._context.set_tracing(vhost, self.is_traced(name))

    def is_traced(self, name: str) -> bool:
        """True if the firehose of a virtual host is to be on, by the settings or at run time."""
        origin = self.origins.vhosts.get(name, _NOTHING)
        return origin.is_traced or self.record(name).is_traced

    def record(self, name: str) -> VhostRecord:
        """Metadata and limits of a virtual host, as set at run time."""
        record = self._records.get(name)
        return VhostRecord(name, "", (), "", False, False, {}, False) if record is None else record

    def lookup(self, name: str) -> VirtualHost:
        """Raises AdministrationError if there is no such virtual host."""
        vhost = self._context.vhosts.get(name)
        if vhost is None:
            raise AdministrationError("not_found", f"no virtual host '{name}'")
        return vhost

    def put(
        self,
        name: str,
        *,
        description: str | None = None,
        tags: Iterable[str] | None = None,
        default_queue_type: str | None = None,
        tracing: bool | None = None,
        is_protected: bool | None = None,
        by: str = INTERNAL,
    ) -> bool:
        """Make or change a virtual host; True if it was made. None keeps what was set before."""
        check_name("virtual host", name)
        if default_queue_type and default_queue_type not in QUEUE_TYPES:
            known = ", ".join(QUEUE_TYPES)
            raise bad_request(
                f"Unsupported default queue type '{default_queue_type}' (known: {known})"
            )
        is_new = name not in self._context.vhosts
        limit = self._context.limits.max_vhosts
        if is_new and limit and len(self._context.vhosts) >= limit:
            self._context.counts.limits_reached.count("max_vhosts")
            raise bad_request(f"cannot create vhost '{name}': vhost limit of {limit} is reached")
        if is_new and name not in self._records and self._changes.store.has_definitions(name):
            raise AdministrationError(
                "conflict",
                f"virtual host '{name}' is on disk from an earlier start and not served: list it "
                f"in {self.origins.where} under [[vhosts]] and start the broker again to have "
                "its queues back",
            )
        before = self.record(name)
        if tracing is not None and self.origins.vhosts.get(name, _NOTHING).is_traced:
            if not tracing:
                raise self.origins.tracing_is_fixed(name)
            tracing = None  # it is so already, and as long as the settings say it
        record = VhostRecord(
            name,
            before.description if description is None else description,
            before.tags if tags is None else tuple(dict.fromkeys(tags)),
            before.default_queue_type if default_queue_type is None else default_queue_type,
            before.is_traced if tracing is None else tracing,
            before.is_protected if is_protected is None else is_protected,
            before.limits,
            is_own=before.is_own or not self.origins.fixes_vhost(name),
        )

        def apply() -> None:
            self._records[name] = record
            if name not in self._context.vhosts:
                self._make(name)
            self._apply(name)
            if is_new:
                self._changes.tell("vhost.created", by, name=name)
            elif _metadata(record) != _metadata(before):
                self._changes.tell(
                    "vhost.metadata.set",
                    by,
                    name=name,
                    description=record.description,
                    tags=list(record.tags),
                    default_queue_type=record.default_queue_type,
                    protected_from_deletion=record.is_protected,
                )
            if record.is_traced != before.is_traced:
                self._changes.tell("vhost.tracing.set", by, name=name, tracing=record.is_traced)

        self._changes.write(apply, put=[record])
        return is_new

    def end_connections(self, name: str) -> Generator[None, None, None]:
        """Close the connections to a virtual host that is about to be deleted, one a step.

        Some may be left, for ``delete`` to close: clients connect again. Raises
        AdministrationError as ``delete`` does.
        """
        vhost = self._deletable(name)
        while len(found := self._connections_in(vhost)) > _ENDED_AT_ONCE:
            for connection in found:
                self._end(connection, vhost)
                yield

    def delete(self, name: str, *, by: str = INTERNAL) -> None:
        """Delete a virtual host with all that is in it; its connections are closed.

        Raises AdministrationError: there is none, it is protected, or the settings name it.
        """
        vhost = self._deletable(name)
        removed = [RemovedDefault("vhost", name)] if name in self.origins.vhosts else []

        def apply() -> None:
            self._removed.update(each.name for each in removed)
            self._records.pop(name, None)
            for connection in self._connections_in(vhost):
                self._end(connection, vhost)
            del self._context.vhosts[name]
            self._context.vhost_connection_limits.pop(name, None)
            self._context.shares.start(_Removal(vhost, self._context))
            self._forget(name)
            self._changes.tell("vhost.deleted", by, name=name)
            self._changes.sweep(name)  # what clients have declared meanwhile

        self._changes.write(apply, vhost=name, put=removed)

    def _deletable(self, name: str) -> VirtualHost:
        """The virtual host. Raises AdministrationError unless it is there and may be deleted."""
        vhost = self.lookup(name)
        if self.origins.fixes_vhost(name):
            raise self.origins.vhost_is_fixed(name)
        if self.record(name).is_protected:
            raise AdministrationError(
                "protected",
                f"Refused to delete virtual host '{name}' because it is protected from deletion",
            )
        return vhost

    def _connections_in(self, vhost: VirtualHost) -> list[LiveConnection]:
        return [
            each
            for each in self._context.connections
            if each.is_running and each.client.vhost is vhost
        ]

    def _end(self, connection: LiveConnection, vhost: VirtualHost) -> None:
        """Close a connection to a virtual host that is being deleted, unless it is closed."""
        if connection.is_running and connection.client.vhost is vhost:
            connection.force_close(f"vhost '{vhost.name}' is deleted")

    # --------------------------------------------------------------------------------- limits

    def limits(self, name: str) -> Mapping[str, int]:
        """The limits of a virtual host, by RabbitMQ's names; a negative one means no limit."""
        return {**self.record(name).limits, **self.origins.vhosts.get(name, _NOTHING).limits}

    def set_limit(self, name: str, limit: str, value: object, *, by: str = INTERNAL) -> None:
        """Set one limit of a virtual host. Raises AdministrationError."""
        self.set_limits(name, {**self.record(name).limits, limit: value}, by=by)

    def set_limits(self, name: str, limits: Mapping[str, object], *, by: str = INTERNAL) -> None:
        """Set all limits of a virtual host. Raises AdministrationError."""
        self.lookup(name)
        checked = {
            limit: check_limit("limits", limit, value, VHOST_LIMITS)
            for limit, value in limits.items()
        }
        for limit, value in checked.items():
            self._check_not_fixed(name, limit, value)
        self._put_limits(name, checked, "vhost.limits.set", by, **checked)

    def clear_limit(self, name: str, limit: str, *, by: str = INTERNAL) -> None:
        """Lift one limit of a virtual host, if it is set."""
        self.lookup(name)
        self._check_not_fixed(name, limit, None)
        limits = {key: value for key, value in self.record(name).limits.items() if key != limit}
        self._put_limits(name, limits, "vhost.limits.cleared", by)

    def _check_not_fixed(self, name: str, limit: str, value: int | None) -> None:
        fixed = self.origins.vhosts.get(name, _NOTHING).limits
        if fixed.get(limit) not in (None, value):
            raise self.origins.limit_is_fixed(name, limit)

    def _put_limits(
        self, name: str, limits: Mapping[str, int], event: str, by: str, **told: object
    ) -> None:
        before = self.record(name)
        is_own = before.is_own or not self.origins.fixes_vhost(name)
        record = before._replace(limits=limits, is_own=is_own)

        def apply() -> None:
            self._records[name] = record
            self._apply(name)
            self._changes.tell(event, by, name="limits", vhost=name, **told)

        self._changes.write(apply, put=[record])


def _metadata(record: VhostRecord) -> tuple[object, ...]:
    return record.description, record.tags, record.default_queue_type, record.is_protected


class _Removal(Job):
    """A virtual host taken apart in memory: its queues give back what they hold, one by one."""

    __slots__ = ("_clock", "_vhost")

    def __init__(self, vhost: VirtualHost, context: Context) -> None:
        self._vhost = vhost
        self._clock = context.clock
        vhost.begin_removal()

    def run(self, until_s: float) -> bool:
        while self._vhost.forget_a_queue():
            if self._clock.running_s() >= until_s:
                return False
        return True
