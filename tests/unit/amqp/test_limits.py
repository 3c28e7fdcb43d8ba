"""Counts of what is open, and rates over time: what fits in, and how long to wait."""

from __future__ import annotations

import pytest

from hareline.amqp.limits import OpenCounts
from hareline.clock import TokenBucket

# ------------------------------------------------------------------------------------- open counts


ANN, BOB = ("internal", "ann"), ("oauth2", "bob")


def test_what_is_open_is_counted_by_each_of_its_names() -> None:
    counts = OpenCounts()
    counts.count_connection(1, "/", ANN, "192.0.2.1")
    counts.count_connection(1, "shop", ANN, "192.0.2.2")
    counts.count_channel(1, ANN)
    counts.count_channel(1, BOB)
    assert (counts.connections, counts.channels) == (2, 2)
    assert counts.by_vhost == {"/": 1, "shop": 1}
    assert counts.by_user == {ANN: 2}
    assert counts.by_address == {"192.0.2.1": 1, "192.0.2.2": 1}
    assert counts.channels_by_user == {ANN: 1, BOB: 1}


def test_names_with_nothing_open_are_forgotten() -> None:
    counts = OpenCounts()
    for by in (1, -1):
        counts.count_connection(by, "/", ANN, "192.0.2.1")
        counts.count_channel(by, ANN)
    assert (counts.connections, counts.channels) == (0, 0)
    assert not counts.by_vhost
    assert not counts.by_user
    assert not counts.by_address
    assert not counts.channels_by_user


# ------------------------------------------------------------------------------------ token bucket


def test_as_many_as_come_in_a_second_can_be_taken_at_once_and_no_more() -> None:
    bucket = TokenBucket(5, now_s=100.0)
    assert [bucket.take(1, 100.0) for _ in range(5)] == [0.0] * 5
    assert bucket.take(1, 100.0) == pytest.approx(0.2)
    assert bucket.take(1, 100.0) == pytest.approx(0.4)


def test_those_who_wait_have_their_tokens_one_after_the_other() -> None:
    bucket = TokenBucket(2, now_s=0.0)
    waits = [bucket.take(1, 0.0) for _ in range(6)]
    assert waits == pytest.approx([0, 0, 0.5, 1.0, 1.5, 2.0])
    assert bucket.take(1, 2.0) == pytest.approx(0.5)
    assert bucket.take(1, 10.0) == 0


def test_no_more_gathers_than_fits_in() -> None:
    bucket = TokenBucket(3, now_s=0.0)
    bucket.take(3, 0.0)
    assert not bucket.is_full(0.9)
    assert bucket.is_full(1.0)
    assert bucket.take(4, 1000.0) == pytest.approx(1 / 3)


def test_a_slow_rate_lets_one_pass_at_once() -> None:
    bucket = TokenBucket(0.1, now_s=0.0)
    assert bucket.take(1, 0.0) == 0
    assert bucket.take(1, 0.0) == pytest.approx(10)


def test_what_is_given_back_was_never_taken() -> None:
    bucket = TokenBucket(1, now_s=0.0)
    bucket.take(1, 0.0)
    assert bucket.take(1, 0.0) == 1
    bucket.give_back(1)
    assert bucket.take(1, 1.0) == 0
    bucket.give_back(50)
    assert [bucket.take(1, 1.0), bucket.take(1, 1.0)] == [0, 1]


def test_another_rate_keeps_what_was_taken() -> None:
    bucket = TokenBucket(10, now_s=0.0)
    bucket.take(15, 0.0)
    bucket.set_rate(1, 0.0)
    assert bucket.take(0, 0.0) == pytest.approx(5)
    bucket.set_rate(100, 5.0)
    assert bucket.take(0, 5.0) == 0
    assert bucket.take(100, 6.0) == 0


def test_a_clock_that_goes_back_fills_nothing() -> None:
    bucket = TokenBucket(1, now_s=10.0)
    bucket.take(1, 10.0)
    assert bucket.take(0, 5.0) == 0
    assert bucket.take(1, 5.0) == 1
    assert bucket.take(0, 10.5) == pytest.approx(0.5)
