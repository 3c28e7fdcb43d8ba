"""A publisher that does not give up: what is not confirmed is sent again, with the same number.

The broker leaves out what it has already, by producer id and sequence. So when the publisher has
ended, message n is the n-th in the stream, whatever was killed meanwhile. A thread of its own runs
it, over sockets that know nothing of the broker's code.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from hareline.wire.properties import Properties, encode_properties
from hareline.wire.table import Table, Timestamp
from tests.support.raw_client import RawClient

#: Sent together, and then waited for: so much is unconfirmed at a kill.
_AT_ONCE: Final = 40
_PAUSE_S: Final = 0.08
_PATIENCE_S: Final = 60
_EPOCH_S: Final = 1_700_000_000
#: A second of event time has as many messages.
_PER_SECOND: Final = 40
_KEYS: Final = ("amber", "birch", "cedar", "größe")


class PersistentPublisher:
    """Publishes from `start` until `stop`."""

    def __init__(self, address: tuple[str, int], queue: str) -> None:
        self._address = address
        self._queue = queue
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="publisher")
        self._run_of: Future[None] | None = None
        self._is_ending = threading.Event()
        self._is_in_doubt = False
        #: How many are confirmed, and how often a part was sent again.
        self.confirmed = 0
        self.repeats = 0

    def start(self) -> None:
        self._run_of = self._pool.submit(self._run)

    def stop(self) -> None:
        """End when all that was sent is confirmed; raises what went wrong."""
        self._is_ending.set()
        self._pool.shutdown()
        if self._run_of is not None:
            self._run_of.result()

    def _run(self) -> None:
        """A message that is refused is an AssertionError: only what is unanswered is repeated."""
        patience = time.monotonic() + _PATIENCE_S
        while self._goes_on:
            before = self.confirmed
            try:
                with RawClient(self._address) as client:
                    client.open()
                    client.select_confirms()
                    self._publish(client)
            except (OSError, EOFError):
                # The broker was killed, or is starting.
                if self.confirmed > before:
                    patience = time.monotonic() + _PATIENCE_S
                elif time.monotonic() > patience:
                    raise
                self._is_ending.wait(_PAUSE_S)

    @property
    def _goes_on(self) -> bool:
        return self._is_in_doubt or not self._is_ending.is_set()

    def _publish(self, client: RawClient) -> None:
        sent = 0
        while self._goes_on:
            self.repeats += self._is_in_doubt
            self._is_in_doubt = True
            numbers = range(self.confirmed, self.confirmed + _AT_ONCE)
            client.send_octets(
                b"".join(
                    client.publish_octets(self._queue, body_of(number), properties_of(number))
                    for number in numbers
                )
            )
            sent += _AT_ONCE
            client.read_confirms(sent)
            self.confirmed += _AT_ONCE
            self._is_in_doubt = False
            self._is_ending.wait(_PAUSE_S)


def moment_of(number: int) -> int:
    """Event time of a message, in seconds since 1970."""
    return _EPOCH_S + number // _PER_SECOND


def key_of(number: int) -> str:
    return _KEYS[number * 7 % 11 % len(_KEYS)]


def body_of(number: int) -> bytes:
    """Number, key and value."""
    return f"{number},{key_of(number)},{number * number % 997}".encode()


def properties_of(number: int) -> bytes:
    headers = Table({"x-producer-id": "end-to-end", "x-producer-seq": number})
    return encode_properties(
        Properties(headers=headers, delivery_mode=2, timestamp=Timestamp(moment_of(number)))
    )


def totals_of(count: int, window_s: int) -> list[tuple[int, str, int, int]]:
    """Start, key, count and sum of each window that is over, in plain Python."""
    totals: dict[tuple[int, str], tuple[int, int]] = {}
    for number in range(count):
        moment = moment_of(number)
        place = (moment - moment % window_s, key_of(number))
        before = totals.get(place, (0, 0))
        totals[place] = (before[0] + 1, before[1] + number * number % 997)
    newest = moment_of(count - 1)
    return sorted(
        (start, key, *total) for (start, key), total in totals.items() if start + window_s <= newest
    )
