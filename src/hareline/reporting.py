"""Events of all layers as log messages, and how severe each of them is.

Layers below the log are handed ``report`` (``events.Report``) by ``server``; ``server``, ``daemon``
and ``recovery`` call it themselves. Invariant: an event without a row here is logged as "info".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hareline import events
from hareline.logs import get_logger

# Programs that embed a broker may have set a level under this name, so it stays.
_LOG: Final = get_logger("hareline.server")

_SEVERITIES: Final = {
    events.BROKER_FAILED: "error",
    events.CONFIGURATION_REFUSED: "error",
    events.ADMINISTRATION_REFUSED: "warning",
    events.BROKER_DEADLINE_PASSED: "warning",
    events.CHANNEL_ERROR: "warning",
    events.CONFIGURATION_NEEDS_RESTART: "warning",
    events.CONNECTION_ERROR: "warning",
    events.CONNECTION_LOST: "warning",
    events.CONNECTION_REFUSED: "warning",
    events.CONNECTION_UNUSED: "debug",  # port scans and health probes, every few seconds
    events.DEFAULT_USER_STAYS: "warning",
    events.DEFINITION_IMPOSSIBLE: "warning",
    events.DISK_ALARM_SET: "warning",
    events.HOST_NOT_KEPT: "warning",
    events.HANDSHAKE_TIMED_OUT: "warning",
    events.HEARTBEAT_MISSED: "warning",
    events.JOURNAL_DAMAGED: "error",
    events.JOURNAL_TROUBLE: "warning",
    events.RANGE_READER_LOST: "warning",
    events.MEMORY_ALARM_SET: "warning",
    events.PEER_SPEAKS_OTHERWISE: "warning",
    events.PROXY_HEADER_INVALID: "warning",
    events.QUEUE_DROPPED: "warning",
    events.QUEUE_OVERFULL: "warning",
    events.READERS_NOT_WRITTEN: "warning",
    events.STORE_FAILED: "error",
    events.TLS_CERTIFICATE_EXPIRED: "error",
    events.TLS_CERTIFICATE_EXPIRES: "warning",
    events.TLS_NOT_RELOADED: "error",
    events.TLS_REFUSED: "warning",
    events.VHOST_NOT_SERVED: "warning",
    events.WEBSOCKET_FAILED: "warning",
}


def report(event: events.Event, **fields: object) -> None:
    """Write an operational event as a log message, as severe as it is."""
    getattr(_LOG, _SEVERITIES.get(event, "info"))(event, **fields)


def report_administered(event: str, fields: Mapping[str, Any]) -> None:
    """Write a change to what is administered as a log message, where no log of changes does."""
    report(
        events.ADMINISTERED,
        act=event,
        user=fields.get("user_who_performed_action"),
        via="broker",
        address="",  # without the HTTP API nobody is connected who could do it
        name=fields.get("name", fields.get("user")),
        vhost=fields.get("vhost"),
        details={},  # of parameters they would have values, which may be secret
    )


def report_decision(rule: int, user: str, address: str, what: str) -> None:
    """An access rule that logs has decided."""
    report(events.ACCESS_DECIDED, rule=rule, user=user, address=address, what=what)


def report_lockout(network: str, user: str, wait_s: int) -> None:
    """Write that logins from a network are not looked at for a while as a log message."""
    report(events.LOGINS_LOCKED, user=user or "any user", network=network, wait_s=wait_s)


def report_trouble(problem: str) -> None:
    """Write what the journal could not do as a log message."""
    report(events.JOURNAL_TROUBLE, problem=problem)
