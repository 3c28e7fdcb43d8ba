"""Requests that are sent behind a tx.commit, without waiting for its answer, over real sockets."""

from __future__ import annotations

import threading
from typing import Final

import pytest
from pamqp import commands, frame
from pamqp.base import Frame

from hareline.settings import Settings
from tests.support.broker_process import StartDaemon
from tests.support.broker_thread import StartBroker
from tests.support.pika_calls import publish_octets
from tests.support.raw_client import RawClient

ROUNDS: Final = 200
#: What two socket buffers may hold; the rest of a flood has to be in the broker.
IN_SOCKETS_BYTES: Final = 16 << 20


def octets_of(*methods: Frame, channel: int = 1) -> bytes:
    return b"".join(frame.marshal(method, channel) for method in methods)


def names(client: RawClient, count: int) -> list[str]:
    """The next methods, without what they carry."""
    found: list[str] = []
    while len(found) < count:
        _, incoming = client.read()
        if isinstance(incoming, Frame):
            found.append(incoming.name)
    return found


@pytest.mark.acceptance
@pytest.mark.parametrize("sync", ["always", "never"])
def test_replies_of_a_durable_daemon_keep_the_order_of_the_requests(
    start_daemon: StartDaemon, sync: str
) -> None:
    daemon = start_daemon(f'[journal]\nsync = "{sync}"\n')
    with RawClient((daemon.host, daemon.port)).open(channels=(1, 2)) as client:
        client.declare("d", durable=True)
        client.call(commands.Tx.Select(), commands.Tx.SelectOk)
        one_round = publish_octets("", "d", b"x", delivery_mode=2) + octets_of(
            commands.Tx.Commit(),
            commands.Queue.Declare(queue="d", passive=True),
            commands.Basic.Get(queue="d", no_ack=True),
            commands.Tx.Rollback(),
        )
        client.send_octets(one_round * ROUNDS)
        client.send_octets(
            octets_of(
                commands.Tx.Commit(),
                commands.Channel.Close(reply_code=200, reply_text="", class_id=0, method_id=0),
            )
        )
        assert names(client, 4 * ROUNDS + 2) == [
            *["Tx.CommitOk", "Queue.DeclareOk", "Basic.GetOk", "Tx.RollbackOk"] * ROUNDS,
            "Tx.CommitOk",
            "Channel.CloseOk",
        ]


@pytest.mark.acceptance
def test_the_connection_is_closed_behind_a_commit(start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    address = daemon.host, daemon.port
    close = commands.Connection.Close(reply_code=200, reply_text="", class_id=0, method_id=0)
    with RawClient(address).open() as client:
        client.declare("d", durable=True)
        client.call(commands.Tx.Select(), commands.Tx.SelectOk)
        client.send_octets(
            (publish_octets("", "d", b"x", delivery_mode=2) + octets_of(commands.Tx.Commit())) * 10
        )
        client.send_octets(octets_of(close, channel=0))
        assert names(client, 11) == [*["Tx.CommitOk"] * 10, "Connection.CloseOk"]
        assert client.read_until_closed() == b""
    with RawClient(address).open() as client:
        assert client.ready_count("d") == 10


@pytest.mark.acceptance
def test_a_client_that_pipelines_without_end_behind_a_commit_is_not_read_from(
    disk_answers: threading.Event, start_broker: StartBroker, durable: Settings
) -> None:
    broker = start_broker(durable)
    client, other = broker.client().open(), broker.client().open()
    client.declare("d", durable=True)
    client.call(commands.Tx.Select(), commands.Tx.SelectOk)
    disk_answers.clear()
    client.send_octets(
        publish_octets("", "d", b"x", delivery_mode=2) + octets_of(commands.Tx.Commit())
    )
    request = octets_of(commands.Queue.Declare(queue="d", passive=True))
    per_send = 1000
    count = client.send_until_nobody_reads(request * per_send)
    assert count * per_send * len(request) < IN_SOCKETS_BYTES
    other.declare("t")  # the others do not wait
    disk_answers.set()
    sender = threading.Thread(target=client.send_the_rest)
    sender.start()
    expected = ["Tx.CommitOk", *["Queue.DeclareOk"] * (count + 1) * per_send]
    assert names(client, len(expected)) == expected
    sender.join()
