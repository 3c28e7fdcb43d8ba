"""What is known of a client, what it may do, and when its rights are looked up again."""

from __future__ import annotations

import pytest

from hareline.amqp.client import Client, blocks_on_channel_flow
from hareline.auth.permissions import Permissions
from hareline.auth.users import User
from hareline.wire.methods import commands
from hareline.wire.table import Table, decode_table, encode_table

from .peer import Peer, SteppedBroker

DECLARE, CONSUME = commands.Queue.Declare, commands.Basic.Consume


# ---------------------------------------------------------------------------- client-properties


def test_connections_of_one_library_share_the_texts_of_their_properties() -> None:
    said = Table(product="Pika", port=5672, capabilities=Table({"basic.nack": True}))
    first, second = Client(), Client()
    for client in (first, second):
        client.set_properties(decode_table(encode_table(said), 0)[0])
        assert client.properties == said
        assert isinstance(client.properties["capabilities"], Table)
    pairs = list(zip(first.properties, second.properties, strict=True))
    assert len(pairs) == 3
    assert all(name is same for name, same in pairs)
    assert first.properties["product"] is second.properties["product"]


# -------------------------------------------------------------------------------- update-secret


def test_update_secret_is_accepted_from_a_user_that_exists(peer: Peer) -> None:
    peer.call(0, commands.Connection.UpdateSecret, new_secret="whatever", reason="rotation")


def test_update_secret_of_a_deleted_user_is_530(broker: SteppedBroker, peer: Peer) -> None:
    broker.users.remove("guest")
    assert peer.refused(0, commands.Connection.UpdateSecret, new_secret="x", reason="") == (
        530,
        "NOT_ALLOWED - New secret was refused by one of the backends",
    )


def test_update_secret_without_the_right_to_the_vhost_is_530(broker: SteppedBroker) -> None:
    broker.add_user("alice", "alice")
    peer = broker.connect("alice")
    broker.add_user("alice", "alice", vhosts=[])
    assert peer.refused(0, commands.Connection.UpdateSecret, new_secret="x", reason="") == (
        530,
        "NOT_ALLOWED - access to vhost '/' refused for user 'alice'",
    )


def test_update_secret_looks_the_permissions_up_anew(broker: SteppedBroker) -> None:
    broker.add_user("alice", "alice")
    peer = broker.connect("alice", channels=[1, 2])
    peer.declare("q")
    peer.fill("q", b"1")
    broker.add_user("alice", "alice", permissions=Permissions("^$", "^$", ".*"))
    peer.fill("q", b"2")  # as they were until the secret is updated
    peer.call(0, commands.Connection.UpdateSecret, new_secret="alice", reason="")
    assert peer.publish_refused(1, "q") == (
        403,
        "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' "
        "refused for user 'alice'",
    )
    assert peer.refused(2, DECLARE, queue="p")[0] == 403
    assert broker.queue("q").ready_count == 2


# -------------------------------------------------------------------------- users read again


def _replace_user(broker: SteppedBroker, *users: User) -> None:
    broker.context.users.replace(users)
    for connection in list(broker.context.connections):
        connection.renew_access()


def test_rights_that_are_taken_away_count_on_open_connections(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q")
    peer.fill("q", b"allowed")
    password_hash = peer.user.password_hash
    nothing_written = {"/": Permissions(".*", "^$", ".*")}
    _replace_user(broker, User("guest", password_hash, permissions=nothing_written))
    peer.fill("q", b"refused")
    assert "write access to exchange 'amq.default'" in peer.refusal().text
    assert broker.queue("q").ready_count == 1


def test_a_user_who_may_not_enter_the_virtual_host_any_more_is_closed(
    broker: SteppedBroker, peer: Peer
) -> None:
    _replace_user(broker, User("guest", peer.user.password_hash))
    refusal = peer.refusal()
    assert (refusal.code, refusal.scope) == (530, "connection")


# -------------------------------------------------------------------------------- properties


@pytest.mark.parametrize(
    ("properties", "blocks"),
    [
        ({"product": "RabbitMQ", "platform": "Java"}, True),
        ({"product": "Qpid JMS", "qpid.client_pid": 5}, True),
        ({"product": "qpid-cpp"}, True),
        ({"product": "", "qpid.close_when_no_route": True}, True),
        ({"product": "RabbitMQ", "platform": ".NET"}, False),
        ({"product": "Pika Python Client Library"}, False),
        ({"product": "amqplib", "platform": "Node.JS v20"}, False),
        ({"product": 5}, False),
        ({}, False),
    ],
)
def test_clients_that_block_on_channel_flow_are_known_by_their_properties(
    properties: dict[str, object], blocks: bool
) -> None:
    assert blocks_on_channel_flow(properties) is blocks
