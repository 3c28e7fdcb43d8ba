"""Schedules: headers by which an x-delayed-message exchange sends a message at times, or often.

The times are those of ActiveMQ's scheduler: cron times rank first, and delay, period and repeat
run at each of them. A message that repeats waits in the queue of its exchange; at each firing a
copy is sent, and the message is put back with its state in headers. docs/time.md is the page.

Invariant: each firing has one number, and the times of a schedule only grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hareline.errors import PreconditionFailed
from hareline.message import Table, Timestamp, kind_of, type_name
from hareline.queues.policies.cron import Cron, InvalidCron, parse_cron

if TYPE_CHECKING:
    from hareline.message import Message

AT_HEADER: Final = "x-deliver-at"
CRON_HEADER: Final = "x-schedule-cron"
PERIOD_HEADER: Final = "x-schedule-period"
REPEAT_HEADER: Final = "x-schedule-repeat"
ID_HEADER: Final = "x-schedule-id"
NUMBER_HEADER: Final = "x-schedule-number"  # of the last firing
NEXT_HEADER: Final = "x-schedule-next"  # epoch milliseconds; only while the message waits
FOREVER: Final = -1
INSTANT_MAX_MS: Final = (1 << 63) - 1  # a header's widest type
SHOWN_TIMES: Final = 5  # of those to come, for operators

_PREFIX: Final = b"x-schedule-"
_AT: Final = AT_HEADER.encode()
_LEFT_OUT: Final = (CRON_HEADER, PERIOD_HEADER, REPEAT_HEADER, NEXT_HEADER)  # of copies


class Schedule:
    """The times of one message, all in milliseconds.

    ``due_ms``: the next one, as an instant; ``number``: firings so far. ``repeat``: further times
    after the first, or FOREVER. ``delay_ms`` and ``period_ms``: before the first of these and
    between them. ``schedule_id``: the message-id, or another text that no other schedule of the
    exchange has.
    """

    __slots__ = ("cron", "delay_ms", "due_ms", "number", "period_ms", "repeat", "schedule_id")

    def __init__(self, cron: Cron | None, delay_ms: int, period_ms: int, repeat: int) -> None:
        self.cron = cron
        self.delay_ms = delay_ms
        self.period_ms = period_ms
        self.repeat = repeat
        self.number = 0
        self.due_ms = 0
        self.schedule_id = ""

    def begin(self, start_ms: int, at_ms: int) -> None:
        """Set the first time of a message that came at ``start_ms``; none is before ``at_ms``."""
        if self.cron is None:
            self.due_ms = max(at_ms, min(start_ms + self.delay_ms, INSTANT_MAX_MS))
        else:
            self.due_ms = self._cron_ms(max(start_ms, at_ms))

    def advance(self, now_ms: int) -> bool:
        """Count the firing that happens now, and set the next time; False: it was the last.

        Cron times that have passed meanwhile are one firing, the one that happens now; a period
        that has passed begins now. A firing before its time counts as the one it comes before.
        """
        self.number += 1
        if self.repeat == FOREVER or self.number % (self.repeat + 1):
            next_ms = self.due_ms + self.period_ms
            if next_ms <= now_ms:
                next_ms = now_ms + self.period_ms
            self.due_ms = min(next_ms, INSTANT_MAX_MS)
            return True
        if self.cron is None:
            return False
        self.due_ms = self._cron_ms(max(self.due_ms, now_ms) - self.delay_ms)
        return True

    def _cron_ms(self, after_ms: int) -> int:
        assert self.cron is not None
        time_ms = self.cron.next_ms(after_ms)
        return INSTANT_MAX_MS if time_ms is None else min(time_ms + self.delay_ms, INSTANT_MAX_MS)

    def times(self, count: int) -> list[int]:
        """The next times in epoch milliseconds, at most ``count``."""
        ahead = Schedule(self.cron, self.delay_ms, self.period_ms, self.repeat)
        ahead.number, ahead.due_ms = self.number, self.due_ms
        found = [ahead.due_ms]
        while len(found) < count and ahead.advance(ahead.due_ms):
            found.append(ahead.due_ms)
        return found

    def copy_of(self, message: Message) -> Message:
        """The copy to send for the firing that was counted last, without its schedule."""
        headers = Table(message.headers)
        for name in _LEFT_OUT:
            headers.pop(name, None)
        return self._marked(message, headers)

    def waiting(self, message: Message) -> Message:
        """The message as it waits for the time that is set now."""
        headers = Table(message.headers)
        headers[NEXT_HEADER] = self.due_ms
        return self._marked(message, headers)

    def _marked(self, message: Message, headers: Table) -> Message:
        headers[ID_HEADER] = self.schedule_id
        headers[NUMBER_HEADER] = self.number
        return message.with_headers(headers)


def has_schedule(octets: bytes) -> bool:
    """True if property octets may have one of the headers; False: they have none."""
    return _PREFIX in octets or _AT in octets


def check_schedule(headers: Mapping[str, object]) -> bool:
    """True if a message that is published with these headers has a schedule.

    Raises PreconditionFailed, which names the header, for values that make none.
    """
    if headers.get(NEXT_HEADER) is not None:
        raise PreconditionFailed(f"header '{NEXT_HEADER}' is set by the broker only")
    return _read(headers, 0) is not None or deliver_at_ms(headers.get(AT_HEADER)) > 0


def schedule_of(message: Message, delay_ms: int, start_ms: int) -> tuple[int, Schedule | None]:
    """Due time of a message that waits, and its schedule unless it is sent only once.

    ``start_ms``: when it came, ``delay_ms``: its x-delay. Raises PreconditionFailed, for what an
    earlier version took in.
    """
    headers = message.headers
    at_ms = max(0, deliver_at_ms(headers.get(AT_HEADER)))
    schedule = _read(headers, delay_ms)
    if schedule is None:
        return max(at_ms, start_ms + delay_ms), None
    next_ms, number, given = (headers.get(n) for n in (NEXT_HEADER, NUMBER_HEADER, ID_HEADER))
    if isinstance(next_ms, int) and isinstance(number, int) and isinstance(given, str):
        schedule.due_ms, schedule.number, schedule.schedule_id = int(next_ms), int(number), given
    else:
        schedule.begin(start_ms, at_ms)
    return schedule.due_ms, schedule


def deliver_at_ms(value: object) -> int:
    """The instant that an x-deliver-at means, in epoch milliseconds.

    0 without one, and below 0 where it is over. A timestamp counts seconds, as AMQP says. Raises
    PreconditionFailed.
    """
    if value is None:
        return 0
    instant = value * 1000 if isinstance(value, Timestamp) else _integer(AT_HEADER, value)
    return min(instant, INSTANT_MAX_MS)


def without_forged_schedule(message: Message) -> Message:
    """The message as it is, unless an exchange would have refused its schedule."""
    try:
        check_schedule(message.headers)
    except PreconditionFailed:
        return without_schedule(message)
    return message


def without_schedule(message: Message) -> Message:
    """The message as one of no schedule."""
    headers = Table(
        {
            name: value
            for name, value in message.headers.items()
            if name != AT_HEADER and not name.startswith(_PREFIX.decode())
        }
    )
    return message.with_headers(headers)


def _read(headers: Mapping[str, object], delay_ms: int) -> Schedule | None:
    text, period, repeat = (headers.get(n) for n in (CRON_HEADER, PERIOD_HEADER, REPEAT_HEADER))
    if text is None and period is None and repeat is None:
        return None
    cron = None if text is None else _cron(text)
    for name, value, other in (
        (PERIOD_HEADER, period, REPEAT_HEADER),
        (REPEAT_HEADER, repeat, PERIOD_HEADER),
    ):
        if value is None and headers.get(other) is not None:
            raise PreconditionFailed(f"header '{other}' needs '{name}' beside it")
    period_ms = 0 if period is None else _integer(PERIOD_HEADER, period)
    times = 0 if repeat is None else _integer(REPEAT_HEADER, repeat)
    if period is not None and period_ms < 1:
        raise PreconditionFailed(f"header '{PERIOD_HEADER}' must be 1 or more, not {period_ms}")
    if times < FOREVER:
        raise PreconditionFailed(
            f"header '{REPEAT_HEADER}' must be 0 or more, or -1 for ever, not {times}"
        )
    if times == FOREVER and cron is not None:
        raise PreconditionFailed(
            f"header '{REPEAT_HEADER}' must not be -1 beside '{CRON_HEADER}': "
            "the second cron time would never come"
        )
    return Schedule(cron, delay_ms, period_ms, times)


def _cron(text: object) -> Cron:
    if not isinstance(text, str):
        raise PreconditionFailed(
            f"header '{CRON_HEADER}' must be text, not of type {type_name(kind_of(text))}"
        )
    try:
        return parse_cron(text)
    except InvalidCron as error:
        raise PreconditionFailed(
            f"header '{CRON_HEADER}' must be five fields as in crontab, not '{text[:80]}': {error}"
        ) from None


def _integer(name: str, value: object) -> int:
    if isinstance(value, bool | Timestamp) or not isinstance(value, int):
        raise PreconditionFailed(
            f"header '{name}' must be an integer, not of type {type_name(kind_of(value))}"
        )
    return int(value)
