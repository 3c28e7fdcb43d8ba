"""Each limit on connections and channels: the last that is let in, and the first that is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hareline.amqp.context import Limits
from hareline.broker.capacity import LOW_ON_MEMORY
from hareline.wire.methods import commands
from tests.unit.amqp.peer import Peer, SteppedBroker

OPEN = commands.Connection.Open


def at_open(broker: SteppedBroker, user: str = "ann", *, is_loopback: bool = False) -> Peer:
    """A client that has only connection.open left to send."""
    peer = broker.accept(is_loopback=is_loopback)
    peer.start(user, user)
    peer.expect(commands.Connection.Tune)
    peer.send(0, commands.Connection.TuneOk, frame_max=131_072, channel_max=2047)
    return peer


def set_user_limits(broker: SteppedBroker, name: str, **limits: int) -> None:
    user = broker.users.lookup(name)
    assert user is not None
    broker.users.add(replace(user, **limits))  # type: ignore[arg-type]


@pytest.fixture
def broker() -> SteppedBroker:
    broker = SteppedBroker()
    broker.add_vhost("shop")
    for name in ("ann", "bob"):
        broker.add_user(name, name, vhosts=["/", "shop"])
    return broker


def reached(broker: SteppedBroker) -> dict[str, int]:
    return broker.context.counts.limits_reached.by_limit


def expect_limit(broker: SteppedBroker, count: int, text: str, limit: str) -> None:
    """``count`` connections of ann are let in, the next is refused, and again one for one gone."""
    peers = [broker.connect("ann") for _ in range(count)]
    for _ in range(2):
        assert at_open(broker).refused(0, OPEN, virtual_host="/") == (530, f"NOT_ALLOWED - {text}")
    assert reached(broker) == {limit: 2}
    peers[0].lose()
    broker.connect("ann")
    at_open(broker).refused(0, OPEN, virtual_host="/")


def test_connections_of_the_broker(broker: SteppedBroker) -> None:
    broker.context.set_limits(Limits(max_connections=2))
    text = "connection refused: node connection limit (2) is reached"
    expect_limit(broker, 2, text, "max_connections")


def test_connections_of_a_virtual_host(broker: SteppedBroker) -> None:
    broker.context.vhost_connection_limits["/"] = 2
    broker.connect("ann", vhost="shop")
    text = "access to vhost '/' refused for user 'ann': connection limit (2) is reached"
    expect_limit(broker, 2, text, "vhost.max-connections")


def test_connections_of_a_user(broker: SteppedBroker) -> None:
    set_user_limits(broker, "ann", max_connections=2)
    broker.connect("bob")
    text = "connection refused for user 'ann': user connection limit (2) is reached"
    expect_limit(broker, 2, text, "user.max-connections")


def test_connections_of_each_user_by_the_settings(broker: SteppedBroker) -> None:
    broker.context.set_limits(Limits(max_connections_per_user=2))
    broker.connect("bob")
    text = "connection refused for user 'ann': user connection limit (2) is reached"
    expect_limit(broker, 2, text, "user.max-connections")


def test_a_limit_of_the_user_counts_more_than_that_of_all(broker: SteppedBroker) -> None:
    broker.context.set_limits(Limits(max_connections_per_user=1, max_channels_per_user=1))
    set_user_limits(broker, "ann", max_connections=2, max_channels=3)
    peer = broker.connect("ann", channels=(1, 2))
    broker.connect("ann", channels=(1,))
    assert at_open(broker).refused(0, OPEN, virtual_host="/")[0] == 530
    peer.send(3, commands.Channel.Open)
    assert peer.refusal().code == 530


def test_a_limit_of_0_lets_a_user_in_nowhere(broker: SteppedBroker) -> None:
    set_user_limits(broker, "ann", max_connections=0)
    text = "connection refused for user 'ann': user connection limit (0) is reached"
    assert at_open(broker).refused(0, OPEN, virtual_host="/") == (530, f"NOT_ALLOWED - {text}")


def test_connections_of_an_address(broker: SteppedBroker) -> None:
    broker.context.set_limits(Limits(max_connections_per_address=2))
    broker.connect("guest")  # from another one
    text = "connection refused for address '192.0.2.7': address connection limit (2) is reached"
    expect_limit(broker, 2, text, "max_connections_per_address")


def test_a_connection_that_is_closing_counts_no_more(broker: SteppedBroker) -> None:
    broker.context.set_limits(Limits(max_connections=1))
    peer = broker.connect("ann")
    peer.send(0, commands.Connection.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    broker.connect("ann")
    peer.lose()  # its socket goes later, and is counted once
    assert broker.context.open_counts.connections == 1
    assert at_open(broker).refused(0, OPEN, virtual_host="/")[0] == 530


def test_one_that_is_refused_or_goes_in_the_handshake_was_never_counted(
    broker: SteppedBroker,
) -> None:
    broker.context.set_limits(Limits(max_connections=1))
    at_open(broker).lose()
    peer = at_open(broker)
    assert peer.refused(0, OPEN, virtual_host="nowhere")[0] == 530
    peer.lose()
    assert broker.context.open_counts.connections == 0
    broker.connect("ann")


def channel_is_refused(peer: Peer, number: int, text: str) -> None:
    peer.send(number, commands.Channel.Open)
    refusal = peer.refusal()
    assert (refusal.scope, refusal.code, refusal.text) == (
        "connection",
        530,
        f"NOT_ALLOWED - {text}",
    )


def test_channels_of_the_broker(broker: SteppedBroker) -> None:
    broker.context.set_limits(Limits(max_channels=3))
    others = broker.connect("bob", channels=(1, 2))
    text = (
        "number of channels opened on node 'hareline@localhost' has reached the maximum allowed "
        "limit of (3)"
    )
    channel_is_refused(broker.connect("ann", channels=(1,)), 2, text)
    broker.connect("ann", channels=(1,))
    others.call(1, commands.Channel.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    others.open(1)
    assert reached(broker) == {"max_channels": 1}
    channel_is_refused(others, 3, text)


@pytest.mark.parametrize("is_own", [True, False])
def test_channels_of_a_user(broker: SteppedBroker, is_own: bool) -> None:
    if is_own:
        set_user_limits(broker, "ann", max_channels=2)
    else:
        broker.context.set_limits(Limits(max_channels_per_user=2))
    text = (
        "number of channels opened for user 'ann' has reached the maximum allowed user limit of (2)"
    )
    broker.connect("bob", channels=(1, 2))
    first = broker.connect("ann", channels=(1, 2))
    channel_is_refused(broker.connect("ann", channels=()), 1, text)
    first.lose()
    broker.connect("ann", channels=(1, 2))
    assert reached(broker) == {"user.max-channels": 1}
    assert broker.context.open_counts.channels == 4


def low(act: str) -> tuple[int, str]:
    return 506, f"RESOURCE_ERROR - {act}: {LOW_ON_MEMORY}"


def test_no_client_comes_while_memory_is_far_above_the_watermark(broker: SteppedBroker) -> None:
    peer = broker.connect("ann")
    peer.declare("q")
    broker.context.capacity.on_critical(True)
    assert at_open(broker).refused(0, OPEN, virtual_host="/") == low("connection refused")
    peer.send(2, commands.Channel.Open)
    refusal = peer.refusal()
    assert (refusal.code, refusal.text) == low("channel refused")
    assert refusal.scope == "connection"
    assert reached(broker) == {"memory": 2}
    broker.context.capacity.on_critical(False)
    broker.connect("ann")


def test_what_is_new_is_refused_then_and_the_connection_goes_on(broker: SteppedBroker) -> None:
    peer = broker.connect("ann", channels=(1, 2))
    peer.declare("q")
    peer.subscribe("q", "c", number=2)
    broker.context.alarms.set("memory")
    peer.declare("at the alarm")  # as in RabbitMQ: consumers may need a queue of their own
    broker.context.capacity.on_critical(True)
    refused = peer.refused(1, commands.Queue.Declare, queue="new")
    assert refused == low("cannot declare queue 'new' in vhost '/'")
    peer.call(2, commands.Queue.Declare, queue="q")
    refused = peer.refused(2, commands.Basic.Consume, queue="q", consumer_tag="d")
    assert refused == low("cannot consume from queue 'q' in vhost '/'")
    assert peer.connection.is_running
    broker.context.capacity.on_critical(False)
    peer.open(1)
    peer.declare("new")
