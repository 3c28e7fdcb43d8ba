"""Heartbeats over a real socket: ours come in time, a silent peer is given up in time.

One second is the shortest interval there is, so the tests here wait; they wait at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from pamqp.heartbeat import Heartbeat

from tests.support.broker_thread import BrokerThread, broker_in_thread
from tests.support.raw_client import RawClient

INTERVAL_S = 1
#: What a busy machine may add to any of it.
SLACK_S = 0.8
HEARTBEAT = bytes([8, 0, 0, 0, 0, 0, 0, 0xCE])


def time_until_dropped(broker: BrokerThread) -> float:
    """A peer that says nothing at all after the handshake."""
    raw = broker.client().open(heartbeat_s=INTERVAL_S)
    started = time.monotonic()
    raw.read_until_closed()
    return time.monotonic() - started


def gaps_between_heartbeats(broker: BrokerThread) -> list[float]:
    """A peer that sends heartbeats and reads: the seconds from one of the broker's to the next."""
    raw = broker.client().open(heartbeat_s=INTERVAL_S)
    gaps: list[float] = []
    last = time.monotonic()
    for _ in range(4):
        _, incoming = raw.read()
        assert isinstance(incoming, Heartbeat)
        now = time.monotonic()
        gaps.append(now - last)
        last = now
        raw.send_octets(HEARTBEAT)
    return gaps


def times_until_the_first(broker: BrokerThread) -> list[float]:
    """Peers, one after the other: the seconds from the handshake to the broker's heartbeat."""
    times: list[float] = []
    for _ in range(4):
        raw = broker.client().open(heartbeat_s=INTERVAL_S)
        started = time.monotonic()
        _, incoming = raw.read()
        assert isinstance(incoming, Heartbeat)
        times.append(time.monotonic() - started)
    return times


def outlives_three_intervals(broker: BrokerThread, talk: Callable[[RawClient], None]) -> bool:
    """A peer that says this one thing whenever it hears a heartbeat."""
    raw = broker.client().open(heartbeat_s=INTERVAL_S)
    end = time.monotonic() + 3.5 * INTERVAL_S
    while time.monotonic() < end:
        _, incoming = raw.read()
        assert isinstance(incoming, Heartbeat)
        talk(raw)
    return bool(raw.declare("", exclusive=True))


def is_kept_without_heartbeats(broker: BrokerThread) -> bool:
    """A peer that negotiated none, and is silent until another one was dropped for its silence."""
    raw = broker.client().open(heartbeat_s=0)
    time_until_dropped(broker)
    return bool(raw.declare("", exclusive=True))


def send_a_heartbeat(raw: RawClient) -> None:
    raw.send_octets(HEARTBEAT)


def publish(raw: RawClient) -> None:
    raw.publish("nowhere", b"x")


class Stories:
    """All of the above, told at once; each test here waits for one of them."""

    def __init__(self, broker: BrokerThread) -> None:
        self._pool = ThreadPoolExecutor(max_workers=7)
        submit = self._pool.submit
        self.dropped: list[Future[float]] = [submit(time_until_dropped, broker) for _ in range(3)]
        self.first: Future[list[float]] = submit(times_until_the_first, broker)
        self.gaps: Future[list[float]] = submit(gaps_between_heartbeats, broker)
        self.beating: Future[bool] = submit(outlives_three_intervals, broker, send_a_heartbeat)
        self.publishing: Future[bool] = submit(outlives_three_intervals, broker, publish)

    def end(self) -> None:
        self._pool.shutdown()


@pytest.fixture(scope="module")
def stories() -> Iterator[Stories]:
    with broker_in_thread() as broker:
        told = Stories(broker)
        yield told
        told.end()


def test_a_silent_peer_is_dropped_and_one_without_heartbeats_is_not(broker: BrokerThread) -> None:
    assert is_kept_without_heartbeats(broker)


@pytest.mark.acceptance
def test_a_silent_peer_is_dropped_between_two_and_three_intervals(stories: Stories) -> None:
    times = [told.result() for told in stories.dropped]
    assert 2 * INTERVAL_S <= min(times) <= 3 * INTERVAL_S + SLACK_S


@pytest.mark.acceptance
def test_the_first_heartbeat_comes_half_an_interval_after_the_handshake(stories: Stories) -> None:
    """A busy machine makes it later, and never earlier, so the earliest one tells."""
    assert min(stories.first.result()) <= 0.75 * INTERVAL_S


@pytest.mark.acceptance
def test_the_broker_sends_a_heartbeat_every_half_interval(stories: Stories) -> None:
    """As above; one that is late makes the next one early, so half of them tell."""
    assert sorted(stories.gaps.result())[1] <= 0.75 * INTERVAL_S


@pytest.mark.acceptance
def test_a_peer_that_sends_heartbeats_is_kept(stories: Stories) -> None:
    assert stories.beating.result()


@pytest.mark.acceptance
def test_any_octets_count_as_a_sign_of_life(stories: Stories) -> None:
    assert stories.publishing.result()
