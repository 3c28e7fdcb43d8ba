"""Virtual hosts made of the settings: each with the store, the audit and the events of its broker.

``server`` makes one factory, and calls it at the start, at a reload, and when a virtual host is
made at run time. Invariant: every virtual host of a broker is made here, and set up before clients
can enter it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from hareline.amqp.context import Context
from hareline.broker.vhost import VirtualHost
from hareline.events import Report
from hareline.net.timers import LoopTimers
from hareline.queues.core.audit_recorder import AuditRecorder
from hareline.server import assemble
from hareline.settings import VirtualHost as VhostSettings
from hareline.storage.interface import DefinitionStore, MessageStore


class VhostFactory:
    """``events_vhost``: the virtual host with the event exchange; empty if there is none."""

    def __init__(
        self,
        context: Context,
        timers: LoopTimers,
        report: Report,
        store: MessageStore,
        definitions: DefinitionStore,
        events_vhost: str,
    ) -> None:
        self._context = context
        self._timers = timers
        self._report = report
        self._store = store
        self._definitions = definitions
        self._events_vhost = events_vhost

    def keep_in(self, store: MessageStore, definitions: DefinitionStore) -> None:
        """Have the virtual hosts that are made from now on keep what they have there."""
        self._store = store
        self._definitions = definitions

    def make(self, settings: VhostSettings) -> VirtualHost:
        """A virtual host that is not set up yet, and whose audit is not open yet."""
        context = self._context
        vhost = context.vhosts[settings.name] = VirtualHost(
            settings.name,
            context.turn,
            clock=context.clock,
            timers=self._timers,
            report=self._report,
            store=self._store,
            definitions=self._definitions,
            audit=self._audit_of(settings),
            counts=context.counts,
            whole=context.capacity,
        )
        alarms, store = context.alarms, self._store
        vhost.environment.pressure.blocks_publishers = lambda: alarms.is_on or bool(store.refusal)
        vhost.firehose.node = context.identity.node
        if context.events is not None and self._events_vhost == vhost.name:
            vhost.open_events(context.events)
        return vhost

    def take_over(
        self,
        vhosts: Iterable[VhostSettings],
        unserved: Container[str],
        is_removed: Callable[[str], bool],
    ) -> list[str]:
        """Add the missing virtual hosts and set all options; returns what needs a restart.

        ``unserved``: those that are on disk, which is only read at the start. ``is_removed``: True
        for the default one if it was deleted at run time.
        """
        waiting = []
        for each in vhosts:
            existing = self._context.vhosts.get(each.name)
            if existing is not None:
                set_up(existing, each)
            elif is_removed(each.name):
                continue
            elif each.name in unserved:
                waiting.append(f"vhosts: {each.name}")
            else:
                self.add(each)
        return waiting

    def add(self, settings: VhostSettings) -> None:
        """Have a new virtual host of the settings served."""
        vhost = self.make(settings)
        vhost.open_audit()
        self._context.listen_to(vhost)
        set_up(vhost, settings)

    def add_own(self, name: str) -> VirtualHost:
        """Have a virtual host served that is made at run time."""
        settings = VhostSettings(name=name)
        vhost = self.make(settings)
        set_up(vhost, settings)
        self._context.listen_to(vhost)
        return vhost

    def _audit_of(self, settings: VhostSettings) -> AuditRecorder | None:
        """Recorder of the audit of a virtual host; None: it has none."""
        if not settings.audit_share:
            return None
        alarms, store = self._context.alarms, self._store
        return AuditRecorder(
            self._context.turn,
            self._context.clock,
            self._timers,
            share=settings.audit_share,
            refusal=lambda: alarms.reason if alarms.is_on else store.refusal,
            stream_arguments=assemble.audit_arguments(settings),
        )


def set_up(vhost: VirtualHost, settings: VhostSettings) -> None:
    """Give a virtual host the options that can change while it is served."""
    vhost.set_default_dead_letter_exchange(
        settings.default_dead_letter_exchange or None, has_copies=settings.dead_letter_copies
    )
    vhost.default_prefetch = settings.default_prefetch
    vhost.prefetch_profile = settings.prefetch_profile
    vhost.prefetch_max = settings.prefetch_max
    if vhost.consumer_timeout_ms != settings.consumer_timeout_s * 1000:
        vhost.consumer_timeout_ms = settings.consumer_timeout_s * 1000
        vhost.environment.ruled.update(dict.fromkeys(vhost.queues.values()))
    vhost.auto_creation.set_patterns(settings.auto_create_queues, settings.virtual_topics)
    vhost.routing.mark_changed()  # a publish may make its queue now
    vhost.producers.max_count = settings.max_producers
    vhost.producers.max_age_ms = settings.producer_max_age_s * 1000
