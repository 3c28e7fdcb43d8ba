"""Gathers the audit events of one virtual host, and writes them to its stream ``hareline.audit``.

Made by ``server`` for a virtual host whose setting ``audit`` is not "off", and known to its queues
as ``QueueEnvironment.audit``. Audited variants of queues, policies, publishing and consumers say
what has happened; without audit none of them is there. An event is a line of JSON, made when it
happens; the lines of a turn become one message of the stream, or one for each 64 KiB, when the turn
dispatches. What concerns one queue is put into words by ``audit.trace``.

Invariant: every event is in the stream, or counted in a later event ``lost``; nothing waits for it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from hareline.errors import PreconditionFailed
from hareline.message import Address, Table, broker_message
from hareline.turn import Dispatching, Turn

if TYPE_CHECKING:
    from hareline.clock import Clock, Timers
    from hareline.message import Message
    from hareline.queues.core.enqueueing import Enqueueing

AUDIT_STREAM: Final = "hareline.audit"
_LIMITS: Final = ("x-max-age", "x-max-length-bytes")
CONTENT_TYPE: Final = "application/x-ndjson"
COUNT_HEADER: Final = "x-event-count"
MESSAGE_BYTES_MAX: Final = 65_536  # of a message; a single event is at most some 8 KiB
RETRY_S: Final = 1.0  # after a refusal
LINES_AT_START_MAX: Final = 100_000  # while there is no stream yet to write to
PARTS_MAX: Final = 8_192  # addresses and consumer tags whose JSON is remembered


class AuditRecorder(Dispatching):
    """``share``: of the messages that are recorded, above 0; 1.0 is all. Callers see to it.

    ``refusal``: empty, or why the stream can take nothing now. ``stream_arguments``: those of the
    stream. ``now_us``: wall time in microseconds. ``lost_count``: events that no ``lost`` has told
    of yet.
    """

    __slots__ = (
        "_address_parts",
        "_clock",
        "_is_marked",
        "_is_waiting",
        "_lines",
        "_lost_reason",
        "_lost_since_us",
        "_refusal",
        "_stream",
        "_tag_parts",
        "_timers",
        "_turn",
        "lost_count",
        "now_us",
        "share",
        "stream_arguments",
    )

    def __init__(
        self,
        turn: Turn,
        clock: Clock,
        timers: Timers,
        *,
        share: float,
        refusal: Callable[[], str],
        stream_arguments: Mapping[str, object],
        now_us: Callable[[], int] | None = None,
    ) -> None:
        self._turn = turn
        self._clock = clock
        self._timers = timers
        self.share = share
        self._refusal = refusal
        self.now_us = _wall_us if now_us is None else now_us
        self.stream_arguments = stream_arguments
        self._stream: Enqueueing | None = None
        self._lines: list[str] = []
        self._is_marked = False
        self._is_waiting = False  # a timer is set
        self.lost_count = 0
        self._lost_reason = ""
        self._lost_since_us = 0
        self._address_parts: dict[bytes, str] = {}
        self._tag_parts: dict[str, str] = {}

    # ------------------------------------------------------------------------- events

    def on_published(self, address: Address, size: int, queue_count: int) -> None:
        """A client's message was routed to so many queues; none: it is unroutable as well."""
        place = f'{self.address_part(address)},"size":{size}'
        ts_us = self.now_us()
        self.add(f'{{"ts_us":{ts_us},"event":"published"{place},"queues":{queue_count}}}')
        if not queue_count:
            self.add(f'{{"ts_us":{ts_us},"event":"unroutable"{place}}}')

    def on_unroutable(self, message: Message) -> None:
        """A message that the broker itself sends on reaches no queue."""
        place = f'{self.address_part(message.address)},"size":{message.size}'
        self.add(f'{{"ts_us":{self.now_us()},"event":"unroutable"{place}}}')

    def add(self, *lines: str) -> None:
        """Gather events; ``lines``: the JSON of each, in ASCII."""
        self._lines += lines
        if not self._is_marked:
            self._is_marked = True
            self._turn.mark_queue(self)

    # ------------------------------------------------------------------ parts of a line

    def address_part(self, address: Address) -> str:
        """The JSON of exchange and routing key in an event."""
        part = self._address_parts.get(address.octets)
        if part is None:
            if len(self._address_parts) >= PARTS_MAX:
                self._address_parts.clear()
            exchange, routing_key = json.dumps(address.exchange), json.dumps(address.routing_key)
            part = f',"exchange":{exchange},"routing_key":{routing_key}'
            self._address_parts[address.octets] = part
        return part

    def tag_part(self, tag: str) -> str:
        """The JSON of a consumer tag in an event."""
        part = self._tag_parts.get(tag)
        if part is None:
            if len(self._tag_parts) >= PARTS_MAX:
                self._tag_parts.clear()
            part = self._tag_parts[tag] = f',"consumer_tag":{json.dumps(tag)}'
        return part

    # ------------------------------------------------------------------------ writing

    def open(self, stream: Enqueueing) -> None:
        """Write to this stream from now on, and first what has gathered until now."""
        self._stream = stream
        if self._lines:
            self.dispatch()

    def dispatch(self) -> bool:
        """Write what has gathered in this turn, or count it as lost; never unfinished."""
        self._is_marked = False
        stream = self._stream
        if stream is None:
            excess = len(self._lines) - LINES_AT_START_MAX
            if excess > 0:
                del self._lines[LINES_AT_START_MAX:]
                self._lose(excess, "the broker is starting")
            return False
        lines, self._lines = self._lines, []
        refusal = f"queue '{AUDIT_STREAM}' is gone" if stream.is_deleted else self._refusal()
        if refusal:
            self._lose(len(lines), refusal)
            return False
        if self.lost_count:
            lines.insert(0, self._lost_line())
        self._write(stream, lines)
        return False

    def _lose(self, count: int, reason: str) -> None:
        """Count events that cannot be written, and try again later to say so."""
        if count and not self.lost_count:
            self._lost_since_us = self.now_us()
            self._lost_reason = reason
        self.lost_count += count
        if self.lost_count and not self._is_waiting:
            self._is_waiting = True
            self._timers.call_later(RETRY_S, self._retry)

    def _retry(self) -> None:
        self._is_waiting = False
        if self.lost_count:
            self.dispatch()

    def _lost_line(self) -> str:
        count, self.lost_count = self.lost_count, 0
        return (
            f'{{"ts_us":{self.now_us()},"event":"lost","reason":{json.dumps(self._lost_reason)}'
            f',"count":{count},"since_us":{self._lost_since_us}}}'
        )

    def _write(self, stream: Enqueueing, lines: list[str]) -> None:
        start = size = 0
        for index, line in enumerate(lines):
            size += len(line) + 1
            if size > MESSAGE_BYTES_MAX and index > start:
                self._write_message(stream, lines[start:index])
                start, size = index, len(line) + 1
        if lines:
            self._write_message(stream, lines[start:])

    def _write_message(self, stream: Enqueueing, lines: list[str]) -> None:
        lines.append("")  # the last line ends like the others
        message = broker_message(
            _ADDRESS,
            "\n".join(lines).encode("ascii"),
            self._clock.now_ms,
            content_type=CONTENT_TYPE,
            headers=Table({COUNT_HEADER: len(lines) - 1}),
        )
        stream.put(message)


_ADDRESS: Final = Address.of("", AUDIT_STREAM)


def _wall_us() -> int:
    return time.time_ns() // 1000


def kept_stream_arguments(
    kept: Mapping[str, object], wanted: Mapping[str, object], owner: str | None
) -> Mapping[str, object]:
    """The arguments of the audit stream that is kept: its limits are those of the settings.

    Raises PreconditionFailed for a queue that is no stream for all, which a client has made.
    """
    if kept.get("x-queue-type") != "stream" or owner is not None:
        raise PreconditionFailed(
            "it is no stream, so no audit can be written there; switch the option 'audit' of "
            "the virtual host off, delete the queue, and switch it on again"
        )
    return {**wanted, **{key: kept[key] for key in kept if key not in _LIMITS}}
