"""Access to streams: what a read asks of the broker, and for how long it asks again.

``client`` asks the management port, ``amqp_client`` consumes over AMQP. Sentences for users that
both need are here. Invariant: `StreamAccess.chunks` gives the messages it was asked for, in order,
or raises an error that names what is missing.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from hareline.spark.errors import BrokerUnreachable
from hareline.spark.shared.options import Connection
from hareline.wire.stream_chunks import ChunkHeader

_PAUSE_MIN_S: Final = 0.1
_PAUSE_MAX_S: Final = 2.0


class Patience:
    """Repeats of a failing request: for ``retries`` times ``timeout_s`` without an answer."""

    def __init__(self, where: str, options: str, timeout_s: float, retries: int) -> None:
        """``where`` is asked; ``options`` are those that say so. Both are for the error."""
        self._where = where
        self._options = options
        self._limit_s = timeout_s * retries
        self._retries = retries
        self.reset()

    def reset(self) -> None:
        """Begin to count again, since something was answered."""
        self._failing_since: float | None = None
        self._failures = 0
        self._pause_s = _PAUSE_MIN_S

    def interrupted(self, problem: Exception) -> None:
        """Pause before the next attempt. Raises BrokerUnreachable if the time is over."""
        if not self.pause():
            why = str(problem) or type(problem).__name__
            raise BrokerUnreachable(
                f"{self._where} did not answer in {self._failures} attempts: {why}; check that the "
                f"broker runs and that {self._options} is right, or raise retries"
            ) from None

    def pause(self) -> bool:
        """Pause before the next attempt; False at once if the time is over."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        self._failures += 1
        left_s = self._failing_since + self._limit_s - now
        if left_s <= 0:
            return False
        time.sleep(min(left_s, self._pause_s * random.uniform(0.5, 1)))
        self._pause_s = min(_PAUSE_MAX_S, 2 * self._pause_s)
        return True

    def may_repeat(self) -> bool:
        """Count an answer that is of no use; False once there were more than ``retries``."""
        self._failures += 1
        return self._failures <= self._retries


#: Rows, and octets of bodies, of a record batch or of a chunk that is gathered for one.
ROWS_MAX: Final = 10_000
OCTETS_MAX: Final = 8 << 20
#: Octets of a body that Spark takes as one row without ending the whole session.
MESSAGE_MAX: Final = 256 << 20


@dataclass(frozen=True)
class StreamState:
    """A stream as the broker describes it."""

    queue: str
    #: Empty if the broker is asked over AMQP, which does not tell it.
    incarnation: str
    #: Offset of the oldest message that is kept; ``next`` if there is none.
    first: int
    #: One past the last message that may be read.
    next: int
    #: Octets of the bodies that are kept.
    octets: int
    #: False if the stream is empty and it is not known which offset comes next.
    is_end_known: bool = True

    def octets_of(self, rows: int) -> int:
        """About how many octets the bodies of that many messages have."""
        kept = self.next - self.first
        return self.octets * rows // kept if kept > 0 else 0


class Chunk(NamedTuple):
    """Messages that follow each other; ``columns`` are as in ``wire.stream_chunks``."""

    header: ChunkHeader
    columns: bytearray


class StreamAccess(ABC):
    """Streams of one virtual host. Can be sent to tasks; is a context manager, to be closed."""

    def __init__(
        self, connection: Connection, timeout_s: float, retries: int, where: str, options: str
    ) -> None:
        """``where`` is asked; ``options`` are those that say so. Both are for errors."""
        self._connection = connection
        self._timeout_s = timeout_s
        self._retries = retries
        self._where = where
        self._where_options = options

    @abstractmethod
    def described(self, queues: Sequence[str]) -> dict[str, StreamState]:
        """Each of these streams as it is now. Raises the refusal of one that is not there."""

    @abstractmethod
    def tail(self, queue: str, after: int | None = None, wait_ms: int = 0) -> StreamState:
        """The stream now, or as soon as its ``next`` is above ``after``, or after ``wait_ms``."""

    @abstractmethod
    def offset_at(self, queue: str, timestamp_ms: int) -> int:
        """The offset of the first message that arrived then or later; its ``next`` if none."""

    @abstractmethod
    def chunks(self, queue: str, start: int, end: int, incarnation: str) -> Iterator[Chunk]:
        """The messages ``start`` to ``end`` - 1. Raises what is wrong; never ends early."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what only this one uses; the next call opens it again."""

    def patience(self) -> Patience:
        """Begin to count the repeats of a question that the options allow."""
        return Patience(self._where, self._where_options, self._timeout_s, self._retries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def gone_text(queue: str, wanted: int, first: int) -> str:
    """Sentence on messages that retention dropped before they were read."""
    return (
        f"stream {queue!r}: messages {wanted} to {first - 1} were dropped by its retention before "
        f"they were read, it begins at {first} now; set failOnDataLoss=false to go on from there; "
        "more retention prevents it, or pinRetention=true with transport=http"
    )


def lost_text(queue: str, end: int, next_: object) -> str:
    """Sentence on a stream that ends before what is to be read of it."""
    return (
        f"stream {queue!r}: messages up to {end - 1} were promised, and now it ends "
        f"before {next_}: the broker lost them; compare the journal with "
        "its backup, or begin again with a new checkpointLocation"
    )


def too_large_text(queue: str, at: int, size: int, size_max: int) -> str:
    """Sentence on a message whose body does not fit into a row."""
    return (
        f"stream {queue!r}, message {at}: its body has {size} octets and a row may "
        f"have {size_max}; read around it with startingOffsets and endingOffsets"
    )


def not_a_stream_text(queue: str, reason: str) -> str:
    """Sentence on a queue that is not a stream, with what to do."""
    hint = "; declare it with the argument x-archive-to, and read the stream it names"
    return (
        f"queue {queue!r} cannot be read again: {reason}{'' if 'x-archive-to' in reason else hint}"
    )


def no_right_text(user: str, queue: str, vhost: str, reason: str) -> str:
    """Sentence on a stream that the user may not read."""
    return (
        f"user {user!r} may not read {queue!r} in virtual host "
        f"{vhost!r}: {reason}; give the user the read right on it"
    )
