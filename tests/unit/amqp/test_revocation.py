"""What a connection may do changes while it is open: its consumers, its routes, its handshake."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hareline import events
from hareline.amqp.channels import Revocation
from hareline.amqp.connection import Connection
from hareline.auth.permissions import Permissions, TopicPermissions
from hareline.wire.methods import commands

from .peer import Peer, Refusal, SteppedBroker

BASIC = commands.Basic
CANCELS: dict[str, object] = {"consumer_cancel_notify": True}


def change(broker: SteppedBroker, read: str, **more: Any) -> None:
    """Let alice read these queues from now on."""
    broker.add_user("alice", "alice", permissions=Permissions(".*", ".*", read), **more)
    for connection in list(broker.context.connections):
        connection.renew_access()
    broker.run_turns()


@pytest.fixture
def alice(broker: SteppedBroker, peer: Peer) -> Peer:
    broker.add_user("alice", "alice")
    for name in ("kept", "lost"):
        peer.declare(name)
    return broker.connect("alice", channels=[1, 2], capabilities=CANCELS)


def test_a_consumer_ends_with_the_right_to_read_its_queue(
    broker: SteppedBroker, peer: Peer, alice: Peer
) -> None:
    alice.subscribe("kept", "a")
    alice.subscribe("lost", "b")
    alice.subscribe("lost", "c", number=2)
    peer.fill("lost", b"1")
    assert alice.bodies() == [b"1"]
    change(broker, "^kept$")
    told = alice.receive()
    assert [each.name for each in told] == ["basic.cancel"] * 2
    assert [(each.channel, each.method.consumer_tag) for each in told] == [(1, "b"), (2, "c")]
    peer.fill("lost", b"2")
    peer.fill("kept", b"3")
    assert alice.bodies() == [b"3"]
    assert broker.queue("lost").consumer_count == 0
    assert broker.queue("lost").ready_count == 1
    assert broker.queue("lost").unacked_count == 1  # it may still be acknowledged
    reported = broker.reported(events.CONSUMER_REVOKED)
    assert [each["tag"] for each in reported] == ["b", "c"]
    assert "read access to queue 'lost'" in str(reported[0]["reason"])
    assert alice.refused(1, BASIC.Consume, queue="lost")[0] == 403


def test_a_client_that_takes_no_cancel_has_its_channel_closed(
    broker: SteppedBroker, peer: Peer
) -> None:
    broker.add_user("alice", "alice")
    peer.declare("lost")
    plain = broker.connect("alice", capabilities={})
    plain.subscribe("lost", "a")
    plain.subscribe("lost", "b")
    change(broker, "^kept$")
    text = "ACCESS_REFUSED - read access to queue 'lost' in vhost '/' refused for user 'alice'"
    assert plain.refusal() == Refusal("channel", 403, text, 60, 20)
    assert broker.queue("lost").consumer_count == 0


def test_consumers_stay_where_something_else_of_the_user_has_changed(
    broker: SteppedBroker, peer: Peer, alice: Peer
) -> None:
    alice.subscribe("kept", "a")
    change(broker, "kept", tags=["management"])
    alice.expect_nothing()
    peer.fill("kept", b"1")
    assert alice.bodies() == [b"1"]


def test_many_consumers_are_looked_at_in_shares(broker: SteppedBroker, alice: Peer) -> None:
    for number in range(5):
        alice.subscribe("lost", str(number))
    [connection] = [
        each
        for each in broker.context.connections
        if isinstance(each, Connection) and each is alice.connection
    ]
    broker.add_user("alice", "alice", permissions=Permissions("", "", "^$"))
    connection.client.renew(broker.context.users)
    job = Revocation(connection.channels.by_number.values())
    assert not job.run(-math.inf)
    assert broker.queue("lost").consumer_count == 4
    alice.send(1, BASIC.Cancel, consumer_tag="1")  # gone before its turn
    assert job.run(math.inf)
    assert broker.queue("lost").consumer_count == 0


def test_topic_permissions_are_asked_again_for_a_route_that_is_known(
    broker: SteppedBroker, peer: Peer, alice: Peer
) -> None:
    peer.bind("kept", "amq.topic", "#")
    alice.publish(1, "k", b"1", exchange="amq.topic")
    alice.publish(1, "k", b"2", exchange="amq.topic")
    change(broker, ".*", topics={"amq.topic": TopicPermissions("^other$", ".*")})
    assert alice.publish_refused(1, "k", exchange="amq.topic")[0] == 403
    assert peer.drain("kept") == [b"1", b"2"]


@pytest.mark.parametrize(
    ("permissions", "code"), [(Permissions("", "^never$", ""), 403), (None, 530)]
)
def test_rights_that_change_between_login_and_open_count(
    broker: SteppedBroker, permissions: Permissions | None, code: int
) -> None:
    broker.add_user("alice", "alice")
    peer = broker.accept(is_loopback=False)
    peer.start("alice", "alice")
    peer.expect(commands.Connection.Tune)
    vhosts = () if permissions is None else ("/",)
    broker.add_user(
        "alice", "alice", permissions=permissions or Permissions("", "", ""), vhosts=vhosts
    )
    for connection in list(broker.context.connections):
        connection.renew_access()
    peer.send(0, commands.Connection.TuneOk, channel_max=10, frame_max=131_072, heartbeat=0)
    peer.send(0, commands.Connection.Open, virtual_host="/")
    if permissions is None:
        assert peer.refusal().code == code
        return
    peer.expect(commands.Connection.OpenOk)
    peer.open(1)
    assert peer.publish_refused(1, "q")[0] == code
