"""Audit events of the messages of one queue.

Called by ``audit.queue``, ``audit.policies`` and ``amqp.consuming``, and hands lines to
``queues.core.audit_recorder``. docs/audit.md has the table of events and fields.

Invariant: whether an entry is recorded depends on its queue's name and its offset alone, so a
sampled message has all of its events, after a restart too.                                  [hot]
"""

from __future__ import annotations

import json
from random import random
from typing import TYPE_CHECKING, Final
from zlib import crc32

from hareline.queues.core.entry import RETURNS_MAX

if TYPE_CHECKING:
    from hareline.message import Message
    from hareline.queues.core.audit_recorder import AuditRecorder
    from hareline.queues.core.entry import QueueEntry


# The sample is a rotation by the golden ratio: each stretch of offsets has its share, whatever
# period the traffic has, and it is cheap to work out where most messages are not in it.
STEP: Final = 2_654_435_769
MASK: Final = 0xFFFF_FFFF


class QueueTrace:
    """The events of one queue.

    ``salt``, ``limit``: an offset is in the sample if ``offset * STEP + salt``, masked, is below
    the limit, so it always is where all are recorded.
    """

    __slots__ = ("_audit", "_queue_part", "limit", "salt")

    def __init__(self, audit: AuditRecorder, queue_name: str) -> None:
        self._audit = audit
        self._queue_part = f',"queue":{json.dumps(queue_name)}'
        self.salt = crc32(queue_name.encode("utf-8", "surrogateescape"))
        self.limit = max(1, round(audit.share * (MASK + 1)))

    def takes(self, offset: int) -> bool:
        """True if this message is recorded, which is so for all of its life."""
        return (offset * STEP + self.salt) & MASK < self.limit

    def routed(self, offset: int, message: Message) -> None:
        """A message of the sample gets its place in the queue."""
        audit = self._audit
        audit.add(
            f'{{"ts_us":{audit.now_us()},"event":"routed"{self._queue_part},"offset":{offset}'
            f'{audit.address_part(message.address)},"size":{message.size}}}'
        )

    def happened(
        self, event: str, entries: list[QueueEntry], *, tag: str = "", reason: str = ""
    ) -> None:
        """The same happens to all of these entries now; ``tag``: of the consumer that has them."""
        limit, salt = self.limit, self.salt
        if limit <= MASK:
            entries = [entry for entry in entries if (entry.offset * STEP + salt) & MASK < limit]
            if not entries:
                return
        audit = self._audit
        head = f'{{"ts_us":{audit.now_us()},"event":"{event}"{self._queue_part},"offset":'
        tag_part = audit.tag_part(tag) if tag else ""
        reason_part = f',"reason":"{reason}"' if reason else ""
        lines = []
        last_address = None
        address_part = ""
        for entry in entries:
            message = entry.message
            address = message.address
            if address is not last_address:
                last_address = address
                address_part = audit.address_part(address)
            lines.append(
                f'{head}{entry.offset}{address_part}{tag_part},"size":{message.size}{reason_part}'
                f',"delivery_count":{entry.delivery_count & RETURNS_MAX}}}'
            )
        audit.add(*lines)

    def happened_without_entry(
        self,
        event: str,
        message: Message,
        reason: str,
        *,
        offset: int | None = None,
        returns: int = 0,
    ) -> None:
        """Something happens to a message that has no entry here.

        ``offset``, ``returns``: of the entry that it had; None: it never had one.
        """
        audit = self._audit
        place = count = ""
        if offset is None:
            is_taken = random() < audit.share
        else:
            is_taken = self.takes(offset)
            place, count = f',"offset":{offset}', f',"delivery_count":{returns}'
        if is_taken:
            audit.add(
                f'{{"ts_us":{audit.now_us()},"event":"{event}"{self._queue_part}{place}'
                f'{audit.address_part(message.address)},"size":{message.size}'
                f',"reason":"{reason}"{count}}}'
            )

    def dropped_together(
        self, reason: str, count: int, *, first: int | None = None, last: int | None = None
    ) -> None:
        """Many entries leave at once, which are not looked at one by one; whatever the sample.

        ``first``, ``last``: offsets between which they are, as far as they are known.
        """
        places = "" if first is None else f',"offset":{first}'
        if last is not None:
            places += f',"last_offset":{last}'
        self._audit.add(
            f'{{"ts_us":{self._audit.now_us()},"event":"dropped"{self._queue_part}{places}'
            f',"reason":"{reason}","count":{count}}}'
        )
