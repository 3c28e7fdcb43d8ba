"""The messages of the operational log: one event for each kind, with a code that never changes.

``net``, ``server``, ``management`` and ``cli`` log them: ``log.info(events.CONNECTION_OPENED,
peer=..., user=..., vhost=...)``. Codes are for alerts and searches, so a code never gets
another meaning; the text may be improved. Invariant: every event is logged somewhere, with all of
its fields (kept by tests/unit/test_logs.py). Nothing is logged once per message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

REPORT_INTERVAL_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Event:
    """One kind of log message. ``text`` may quote its fields as ``{field}``."""

    code: str
    text: str
    fields: tuple[str, ...] = ()


class Report(Protocol):
    """Receives the operational events of a lower layer; ``server`` turns them into log messages."""

    def __call__(self, event: Event, **fields: object) -> None: ...


class Tally:
    """Count of something that happens too often to report each time."""

    __slots__ = ("_reported_count", "_reported_ms", "count")

    def __init__(self) -> None:
        self.count = 0
        self._reported_count = 0
        self._reported_ms = -REPORT_INTERVAL_MS

    def add(self, now_ms: int) -> bool:
        """Count one more; True if it is time for a report."""
        self.count += 1
        return now_ms - self._reported_ms >= REPORT_INTERVAL_MS

    def take(self, now_ms: int) -> int:
        """Return how many there were since the last report, which this one replaces."""
        count, self._reported_count = self.count - self._reported_count, self.count
        self._reported_ms = now_ms
        return count


BROKER_STARTING: Final = Event("BRK-1001", "starting", ("version", "build", "pid", "data_dir"))
BROKER_LISTENING: Final = Event("BRK-1002", "listening on {url}", ("url",))
BROKER_STOPPING: Final = Event("BRK-1003", "stopping: {reason}", ("reason",))
BROKER_READY: Final = Event("BRK-1004", "ready", ("startup_ms",))
BROKER_STOPPED: Final = Event("BRK-1005", "stopped")
BROKER_DEADLINE_PASSED: Final = Event(
    "BRK-1006", "clients have not closed in time, dropping their connections", ("connections",)
)
BROKER_FAILED: Final = Event("BRK-1007", "unexpected error", ("where",))

CONNECTION_OPENED: Final = Event("CON-1001", "connection opened", ("peer", "user", "vhost"))
CONNECTION_CLOSED: Final = Event("CON-1002", "connection closed", ("peer",))
CONNECTION_REFUSED: Final = Event("CON-1003", "connection refused: {reason}", ("peer", "reason"))
CONNECTION_LOST: Final = Event("CON-1004", "connection lost: {reason}", ("peer", "reason"))
CONNECTION_ERROR: Final = Event(
    "CON-1005", "connection error: {reply_text}", ("peer", "reply_code", "reply_text")
)
HANDSHAKE_TIMED_OUT: Final = Event("CON-1006", "handshake timed out", ("peer",))
HEARTBEAT_MISSED: Final = Event(
    "CON-1007", "heartbeats missed, connection dropped", ("peer", "interval_s")
)
PEER_SPEAKS_OTHERWISE: Final = Event(
    "CON-1008", "peer speaks {protocol} on the AMQP port", ("peer", "protocol")
)
CONNECTION_BLOCKED: Final = Event("CON-1009", "publishing blocked: {reason}", ("peer", "reason"))
CONNECTION_UNBLOCKED: Final = Event("CON-1010", "publishing unblocked", ("peer",))
PEER_REDIRECTED: Final = Event(
    "CON-1011", "peer asks for {protocol}, told to use 0-9-1", ("peer", "protocol")
)
PRODUCT_CHANGED: Final = Event(
    "CON-1012",
    "Qpid clients connect from {host}: it gets the product name '{product}' from now on",
    ("host", "product"),
)
HOST_NOT_KEPT: Final = Event(
    "CON-1013",
    "{host} will get the usual product name after a restart: {problem}",
    ("host", "problem"),
)
CONNECTION_UNUSED: Final = Event("CON-1014", "closed before the login began", ("peer",))
CONNECTION_CLOSED_OVER_HTTP: Final = Event(
    "CON-1015",
    "user '{user}' closes the connection over HTTP: {reason}",
    ("peer", "user", "reason"),
)
AUTHENTICATION_TIMED_OUT: Final = Event("CON-1016", "login timed out", ("peer",))
PROXY_HEADER_INVALID: Final = Event(
    "CON-1031",
    "dropped: a proxy sends no valid PROXY header: {reason}",
    ("peer", "reason"),
)
WEBSOCKET_FAILED: Final = Event("CON-1032", "WebSocket closed: {reason}", ("peer", "reason"))

ACCESS_DECIDED: Final = Event(
    "ACC-1001", "access rule {rule}: {what} user '{user}'", ("rule", "user", "address", "what")
)
CHANNEL_ERROR: Final = Event(
    "CHN-1003", "channel error: {reply_text}", ("peer", "channel", "reply_code", "reply_text")
)
REPLIES_DROPPED: Final = Event(
    "CHN-1004", "direct replies dropped: the requester does not read", ("peer", "channel")
)
CONSUMER_REVOKED: Final = Event(
    "CHN-1005", "consumer '{tag}' cancelled: {reason}", ("peer", "channel", "tag", "reason")
)

CONSUMER_SLOW: Final = Event(
    "CHN-1006",
    "consumer '{tag}' of queue '{queue}' is slow by the rule {rule}: {action}",
    ("peer", "channel", "tag", "queue", "vhost", "rule", "action"),
)

QUEUE_OVERFULL: Final = Event(
    "QUE-1003",
    "queue at its limit: {queue}",
    ("queue", "vhost", "policy", "messages", "bytes", "max_length", "max_length_bytes"),
)
QUEUE_UNDERFULL: Final = Event(
    "QUE-1004",
    "queue below its limit again: {queue}",
    ("queue", "vhost", "policy", "messages", "bytes", "max_length", "max_length_bytes"),
)
QUEUE_DROPPED: Final = Event(
    "QUE-1005",
    "{count} messages dropped or refused at the limit of a queue",
    ("queue", "vhost", "policy", "count"),
)
MESSAGES_UNREADABLE: Final = Event(
    "QUE-1006",
    "{count} messages of a queue cannot be read from disk and are skipped: {reason}",
    ("queue", "vhost", "count", "reason"),
)

DEAD_LETTER_CYCLE: Final = Event(
    "QUE-1007",
    "dead letters of queue '{queue}' dropped: they would go back to a queue in which they died",
    ("queue", "vhost"),
)

TLS_LOADED: Final = Event(
    "TLS-1001",
    "certificate of {names} in use until {expires}",
    ("file", "subject", "names", "expires"),
)
TLS_NOT_RELOADED: Final = Event(
    "TLS-1002", "certificates stay as they are: {problem}", ("problem",)
)
TLS_CERTIFICATE_EXPIRES: Final = Event(
    "TLS-1003", "certificate expires in {days} days: {file}", ("file", "subject", "days")
)
TLS_CERTIFICATE_EXPIRED: Final = Event(
    "TLS-1004", "certificate has expired: {file}", ("file", "subject")
)
TLS_REFUSED: Final = Event(
    "TLS-1005", "TLS handshake with {peer} failed: {reason}", ("peer", "reason")
)

MEMORY_ALARM_SET: Final = Event(
    "MEM-1001", "memory above the watermark, publishers blocked", ("used_bytes", "watermark_bytes")
)
MEMORY_ALARM_CLEARED: Final = Event(
    "MEM-1002",
    "memory below the watermark, publishers unblocked",
    ("used_bytes", "watermark_bytes"),
)
MEMORY_CRITICAL: Final = Event(
    "MEM-1003",
    "memory far above the watermark, new clients, consumers and declarations refused",
    ("used_bytes", "critical_bytes"),
)
MEMORY_NOT_CRITICAL: Final = Event(
    "MEM-1004",
    "memory no longer far above the watermark, nothing is refused any more",
    ("used_bytes", "critical_bytes"),
)

DISK_ALARM_SET: Final = Event(
    "DSK-1001",
    "{reason}, publishers blocked",
    ("reason", "free_bytes", "watermark_bytes"),
)
DISK_ALARM_CLEARED: Final = Event(
    "DSK-1002",
    "enough free space on the disk again, publishers unblocked",
    ("free_bytes", "watermark_bytes"),
)

TRACES_LOST: Final = Event(
    "TRC-1001",
    "{count} messages of virtual host '{vhost}' not traced: more than the firehose can take",
    ("vhost", "count"),
)
EVENTS_LOST: Final = Event(
    "TRC-1002",
    "{count} events not published to amq.rabbitmq.event: {reason}",
    ("count", "reason"),
)

PRODUCER_DUPLICATES: Final = Event(
    "PRD-1001",
    "{count} duplicates confirmed and not enqueued, the last one of producer '{producer}'",
    ("vhost", "producer", "count"),
)
PRODUCERS_FORGOTTEN: Final = Event(
    "PRD-1002",
    "{count} producers forgotten: their next message is taken for a new one",
    ("vhost", "count", "known", "max_producers"),
)
DUPLICATES: Final = Event(
    "PRD-1003",
    "{count} messages not taken by queue '{queue}', which knows their ids, the last one '{id}'",
    ("queue", "vhost", "id", "count"),
)

RECOVERY_STARTED: Final = Event("JRN-1001", "recovering from {directory}", ("directory",))
RECOVERY_PROGRESS: Final = Event("JRN-1002", "recovery: {percent} %", ("percent",))
RECOVERY_FINISHED: Final = Event(
    "JRN-1003",
    "recovered {messages} messages in {queues} queues",
    ("messages", "queues", "exchanges", "bindings", "duration_ms"),
)
JOURNAL_DAMAGED: Final = Event("JRN-1004", "journal damaged: {problem}", ("problem", "action"))
STORE_FAILED: Final = Event(
    "JRN-1005", "the store has failed, and stores nothing more: {reason}", ("reason", "directory")
)
JOURNAL_TROUBLE: Final = Event("JRN-1008", "journal: {problem}", ("problem",))
DEFINITION_IMPOSSIBLE: Final = Event(
    "JRN-1006", "not restored: {what}: {problem}", ("what", "problem", "vhost")
)
DEFINITION_NOT_DELETED: Final = Event(
    "JRN-1007", "deleted, but still on disk: {what}: {problem}", ("what", "problem", "vhost")
)
READERS_NOT_WRITTEN: Final = Event(
    "JRN-1010",
    "positions of {readers} stream readers not written, tried again: {problem}",
    ("vhost", "readers", "problem"),
)
REPLAY_ENDED: Final = Event(
    "JRN-1009",
    "{messages} messages of queue '{queue}' replayed into '{to_queue}': {outcome}",
    ("queue", "to_queue", "vhost", "user", "messages", "outcome"),
)
QUEUE_OPERATION: Final = Event(
    "QUE-1016",
    "{operation} on queue '{queue}': {messages} messages, {refused} refused",
    ("operation", "queue", "vhost", "user", "messages", "refused"),
)
QUEUE_CHANGED: Final = Event(
    "QUE-1017",
    "queue '{queue}' changed: {what}",
    ("queue", "vhost", "user", "what"),
)
RANGE_READER_LOST: Final = Event(
    "RNG-1001", "the process that reads ranges of streams has ended: {reason}", ("reason",)
)
VHOST_NOT_SERVED: Final = Event(
    "VHT-1001",
    "virtual host '{vhost}' is not in the settings: its data is kept but not served",
    ("vhost", "queues"),
)

ADMINISTERED: Final = Event(
    "ADM-1001",
    "{act} by '{user}'",
    ("act", "user", "via", "address", "name", "vhost", "details"),
)
POLICY_NOT_APPLIED: Final = Event(
    "ADM-1002", "not applied: {what}: {problem}", ("what", "problem", "vhost")
)
DEFINITIONS_IMPORTED: Final = Event(
    "ADM-1003", "definitions imported from {source}", ("source", "counts", "left_out")
)
DEFINITION_LEFT_OUT: Final = Event(
    "ADM-1004", "not imported: {what}: {problem}", ("what", "problem", "source")
)

TOKEN_KEYS_READ: Final = Event("IDP-1001", "keys of tokens read from {where}", ("where", "keys"))
TOKEN_KEYS_NOT_READ: Final = Event(
    "IDP-1002", "keys of tokens not read from {where}: {problem}", ("where", "problem")
)
AUTHORITY_FAILED: Final = Event(
    "IDP-1003", "no answer about user '{user}', so it is refused: {problem}", ("user", "problem")
)
TOKEN_KEYS_LEFT_OUT: Final = Event(
    "IDP-1004", "keys of tokens left out, from {where}: {problem}", ("where", "problem")
)
ADMINISTRATION_REFUSED: Final = Event(
    "ADM-1006",
    "refused to '{user}': {request}: {reason}",
    ("user", "address", "request", "status", "reason"),
)

CONFIGURATION_RELOADED: Final = Event("CFG-1001", "configuration reloaded", ("changed",))
CONFIGURATION_NEEDS_RESTART: Final = Event(
    "CFG-1002", "changed, but takes effect only after a restart: {options}", ("options",)
)
CONFIGURATION_REFUSED: Final = Event(
    "CFG-1003", "configuration not reloaded: {problem}", ("problem",)
)
CHANGES_NOT_KEPT: Final = Event(
    "ADM-1005", "what changed is not written to disk, and tried again: {problem}", ("problem",)
)
OPTION_OVERRIDDEN: Final = Event(
    "CFG-1004", "{option} is set by {origin}, not by {file}", ("option", "origin", "file")
)

LOGINS_LOCKED: Final = Event(
    "USR-1001",
    "too many logins as '{user}' from {network} have failed: refused for {wait_s} s",
    ("user", "network", "wait_s"),
)

PASSWORD_REHASHED: Final = Event(
    "USR-1002",
    "the password of user '{user}' is stored by argon2id from now on, not by {before}",
    ("user", "before"),
)

DEFAULT_USER_STAYS: Final = Event(
    "USR-1003",
    "user '{user}' still has the password that everybody knows, though '{other}' is an "
    "administrator: `hareline user delete {user}` removes it",
    ("user", "other"),
)

ALL: Final[tuple[Event, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Event)
)
