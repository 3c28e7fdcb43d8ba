"""A user that may only publish at a rate: what is taken at once, what waits, and for how long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hareline.amqp import limits
from hareline.amqp.context import Limits
from hareline.amqp.limits import PublishRates
from hareline.auth.users import User
from hareline.clock import ManualClock
from hareline.counts import ReachedLimits
from hareline.statistics.blocking import why_connection_waits
from hareline.statistics.readings import connection_state
from hareline.wire.methods import commands
from tests.unit.amqp.peer import Peer, SteppedBroker, publish_octets


def limited(broker: SteppedBroker, name: str, **limits: Any) -> None:
    user = broker.users.lookup(name)
    assert user is not None
    broker.users.add(replace(user, **limits))
    for connection in list(broker.context.connections):
        connection.renew_access()


@pytest.fixture
def broker() -> SteppedBroker:
    broker = SteppedBroker()
    for name in ("ann", "bob"):
        broker.add_user(name, name)
    broker.connect("bob").declare("q")
    return broker


def publish_at_once(peer: Peer, count: int, body: bytes = b"x") -> None:
    """In one read, as a client that waits for nothing sends them."""
    peer.send_octets(publish_octets(1, "q", body) * count)
    peer.broker.run_turns()


def depth(broker: SteppedBroker) -> int:
    return broker.queue("q").ready_count


def test_as_many_as_the_rate_pass_at_once_and_then_one_after_the_other(
    broker: SteppedBroker,
) -> None:
    limited(broker, "ann", max_publish_rate=10)
    peer = broker.connect("ann")
    publish_at_once(peer, 10)
    assert depth(broker) == 10
    assert peer.is_read_from()
    publish_at_once(peer, 3)
    assert depth(broker) == 10
    assert not peer.is_read_from()
    broker.advance(0.05)
    assert depth(broker) == 10
    for count in (11, 12, 13):
        broker.advance(0.1)
        assert depth(broker) == count
    assert peer.is_read_from()
    assert broker.context.counts.limits_reached.by_limit == {"user.max-publish-rate": 3}


def test_a_whole_read_of_publishes_takes_the_time_that_the_rate_says(
    broker: SteppedBroker,
) -> None:
    limited(broker, "ann", max_publish_rate=100)
    peer = broker.connect("ann")
    publish_at_once(peer, 600)
    assert depth(broker) == 100
    broker.advance(2.5)
    assert depth(broker) == pytest.approx(350, abs=2)
    broker.advance(2.6)
    assert depth(broker) == 600


def test_all_connections_of_a_user_share_its_rate_and_those_of_others_do_not(
    broker: SteppedBroker,
) -> None:
    limited(broker, "ann", max_publish_rate=10)
    first, second, other = (broker.connect(name) for name in ("ann", "ann", "bob"))
    publish_at_once(first, 8)
    publish_at_once(second, 8)
    assert depth(broker) == 10
    assert first.is_read_from()
    assert not second.is_read_from()
    publish_at_once(other, 1000)
    assert depth(broker) == 1010
    assert other.is_read_from()
    broker.advance(0.61)
    assert depth(broker) == 1016


def test_connecting_again_fills_no_bucket(broker: SteppedBroker) -> None:
    limited(broker, "ann", max_publish_rate=5)
    peer = broker.connect("ann")
    publish_at_once(peer, 5)
    peer.lose()
    publish_at_once(broker.connect("ann"), 5)
    assert depth(broker) == 5


def test_the_rate_of_the_settings_is_that_of_each_user_without_one_of_its_own(
    broker: SteppedBroker,
) -> None:
    limited(broker, "bob", max_publish_rate=7)
    ann, bob = broker.connect("ann"), broker.connect("bob")
    publish_at_once(ann, 1)  # its lane is open by now
    publish_at_once(ann, 1)
    broker.context.set_limits(Limits(publish_rate_per_user=3))
    publish_at_once(ann, 10)
    assert depth(broker) == 5
    publish_at_once(bob, 10)
    assert depth(broker) == 12
    broker.context.set_limits(Limits())
    broker.advance(1)
    publish_at_once(ann, 100)
    assert depth(broker) >= 113


def test_a_limit_that_is_set_and_lifted_reaches_open_connections(broker: SteppedBroker) -> None:
    peer = broker.connect("ann")
    publish_at_once(peer, 3)
    assert peer.connection._decoder.publish_lanes
    limited(broker, "ann", max_publish_rate=5)
    publish_at_once(peer, 9)
    assert depth(broker) == 8
    assert not peer.connection._decoder.publish_lanes
    limited(broker, "ann", max_publish_rate=None)
    broker.advance(0.3)
    assert depth(broker) == 12
    publish_at_once(peer, 100)
    assert depth(broker) == 112
    assert peer.connection._decoder.publish_lanes


def test_octets_are_those_of_reads_of_connections_that_publish(broker: SteppedBroker) -> None:
    limited(broker, "ann", max_publish_bytes_rate=1000)
    peer, consumer = broker.connect("ann"), broker.connect("ann", channels=(1, 2))
    octets = publish_octets(1, "q", bytes(1000))
    peer.send_octets(octets)
    broker.run_turns()
    assert depth(broker) == 1
    assert not peer.is_read_from()
    wait_s = (len(octets) - 1000) / 1000
    broker.advance(wait_s - 0.01)
    assert not peer.is_read_from()
    broker.advance(0.02)
    assert peer.is_read_from()
    for _ in range(50):  # who does not publish has no rate
        consumer.call(2, commands.Queue.Declare, queue="q")
    assert consumer.is_read_from()
    assert broker.context.counts.limits_reached.by_limit == {"user.max-publish-bytes-rate": 1}


def test_who_waits_says_why_and_is_not_taken_for_dead(broker: SteppedBroker) -> None:
    limited(broker, "ann", max_publish_rate=1)
    peer = broker.connect("ann", heartbeat_s=2)
    publish_at_once(peer, 40)
    assert connection_state(peer.connection) == "flow"
    (why,) = why_connection_waits(peer.connection)
    assert (why.reason, why.text) == ("rate", "its user publishes faster than it may")
    broker.advance(20)
    assert peer.connection.is_running
    assert depth(broker) == pytest.approx(21, abs=1)


def test_a_publish_in_a_transaction_and_behind_a_commit_counts_as_well(
    broker: SteppedBroker,
) -> None:
    limited(broker, "ann", max_publish_rate=4)
    peer = broker.connect("ann")
    peer.call(1, commands.Tx.Select)
    publish_at_once(peer, 3)
    peer.call(1, commands.Tx.Commit)
    publish_at_once(peer, 3)
    peer.send(1, commands.Tx.Commit)
    broker.run_turns()
    assert depth(broker) == 3
    broker.advance(1)
    assert depth(broker) == 6


def test_a_connection_that_goes_while_it_waits_leaves_no_timer(broker: SteppedBroker) -> None:
    limited(broker, "ann", max_publish_rate=1)
    peer = broker.connect("ann")
    publish_at_once(peer, 5)
    peer.lose()
    assert all(timer.is_done for timer in broker.timers)
    broker.advance(10)
    assert depth(broker) == 1


def test_the_broker_can_close_a_connection_that_waits(broker: SteppedBroker) -> None:
    limited(broker, "ann", max_publish_rate=1)
    peer = broker.connect("ann")
    publish_at_once(peer, 5)
    peer.connection.force_close("bye")
    assert peer.refusal().code == 320
    peer.send(0, commands.Connection.CloseOk)
    broker.advance(10)
    assert peer.transport.state == "closed"
    assert depth(broker) == 1


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_full_buckets_are_forgotten_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "USERS_MAX", 3)
    clock = ManualClock()
    rates = PublishRates(clock, ReachedLimits())
    rates.per_user = 10
    busy = rates.of(User("busy", ""))
    assert busy is not None
    assert busy.messages is not None
    busy.messages.take(50, 0.0)
    idle = rates.of(User("idle", ""))
    rates.of(User("idle too", ""))
    rates.of(User("new", ""))
    assert rates.of(User("busy", "")) is busy
    assert rates.of(User("idle", "")) is not idle
    assert rates.of(None) is None
