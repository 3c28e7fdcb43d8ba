"""A sync that does not come back: who waits for it, who does not, and what is there afterwards."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pamqp import commands
from pamqp.heartbeat import Heartbeat

from hareline.server import broker as server
from hareline.settings import Settings
from hareline.storage.definitions.file import DefinitionTransaction
from hareline.storage.store.durable import BEHIND_BYTES
from tests.support.broker_thread import broker_in_thread
from tests.support.hanging import hanging_while_cleared
from tests.support.raw_client import RawClient

BODIES = [b"%d" % number for number in range(20)]
#: The octets of properties that have a delivery mode only.
PERSISTENT = b"\x10\x00\x02"
HEARTBEAT = b"\x08\0\0\0\0\0\0\xce"
#: How long the broker waits for a disk that hangs when it is told to stop.
STOP_S = 0.3


def publish(client: RawClient, *bodies: bytes) -> None:
    """Persistent messages."""
    for body in bodies:
        client.send_octets(client.publish_octets("d", body, PERSISTENT))


def test_only_those_wait_who_asked_for_something_durable(
    durable: Settings, disk_answers: threading.Event
) -> None:
    with broker_in_thread(durable) as broker:
        publisher = broker.client().open(heartbeat_s=1)
        publisher.declare("d", durable=True)
        publisher.select_confirms()
        consumer, other = broker.client().open(), broker.client().open()
        disk_answers.clear()
        publish(publisher, *BODIES)
        for _ in range(3):  # the publisher has heartbeats, and no confirm
            assert isinstance(publisher.read()[1], Heartbeat)
            publisher.send_octets(HEARTBEAT)
        other.declare("t")
        for body in BODIES:
            other.publish("t", body)
        other.consume("t", no_ack=False)
        assert other.read_bodies(len(BODIES)) == BODIES
        other.send(commands.Basic.Ack(delivery_tag=len(BODIES), multiple=True))
        assert other.ready_count("t") == 0
        consumer.send(commands.Basic.Get(queue="d", no_ack=True))
        disk_answers.set()
        publisher.read_confirms(len(BODIES))
        assert consumer.read_content()[1] == BODIES[0]


def test_a_flood_waits_in_its_socket_and_not_in_memory(
    durable: Settings, disk_answers: threading.Event
) -> None:
    with broker_in_thread(durable) as broker, ThreadPoolExecutor(1) as pool:
        publisher, other = broker.client().open(), broker.client().open()
        publisher.declare("d", durable=True)
        disk_answers.clear()
        count = 3 * BEHIND_BYTES // 60_000
        octets = publisher.publish_octets("d", bytes(60_000), PERSISTENT)
        flood = pool.submit(publisher.send_octets, octets * count)
        broker.wait_until(lambda inside: inside.context.turn.is_store_behind, "too much to write")
        other.declare("", exclusive=True)
        taken = broker.ask_queue("d", lambda queue: queue.ready_bytes)
        assert taken < 2 * BEHIND_BYTES
        for _ in range(3):
            other.declare("", exclusive=True)
        assert broker.ask_queue("d", lambda queue: queue.ready_bytes) == taken
        disk_answers.set()
        flood.result()
        broker.wait_until(
            lambda inside: inside.context.vhosts["/"].queues["d"].ready_count == count, "all of it"
        )
        broker.wait_until(lambda inside: not inside.context.turn.is_store_behind, "the disk")


def test_a_commit_waits_and_is_whole_afterwards(
    durable: Settings, disk_answers: threading.Event
) -> None:
    with broker_in_thread(durable) as broker:
        client = broker.client().open()
        client.declare("d", durable=True)
        client.call(commands.Tx.Select(), commands.Tx.SelectOk)
        disk_answers.clear()
        publish(client, *BODIES)
        client.send(commands.Tx.Commit())
        broker.wait_until(
            lambda inside: inside.context.vhosts["/"].queues["d"].ready_count == len(BODIES),
            "the commit to be under way",
        )
        client.drop()  # it will never know
        disk_answers.set()
    with broker_in_thread(durable) as broker:
        assert broker.client().open().ready_count("d") == len(BODIES)


def test_definitions_that_hang_hold_those_who_change_them_and_who_relies_on_that(
    durable: Settings,
) -> None:
    with (
        hanging_while_cleared(DefinitionTransaction, "run") as definitions_answer,
        broker_in_thread(durable) as broker,
    ):
        client, reliant = broker.client().open(), broker.client().open()
        beating = broker.client().open(heartbeat_s=1)
        beating.declare("there", durable=True)
        definitions_answer.clear()
        client.send(commands.Queue.Declare(queue="d", durable=True))
        broker.wait_until(lambda inside: "d" in inside.context.vhosts["/"].queues, "the queue")
        reliant.send(commands.Queue.Declare(queue="d", durable=True))
        beating.declare("there", durable=True)
        reply_queue = beating.declare("", exclusive=True)
        beating.call(
            commands.Queue.Bind(queue=reply_queue, exchange="amq.direct", routing_key="r"),
            commands.Queue.BindOk,
        )
        for body in BODIES:
            beating.publish(reply_queue, body)
        assert beating.ready_count(reply_queue) == len(BODIES)
        assert isinstance(beating.read()[1], Heartbeat)
        definitions_answer.set()
        for each in (client, reliant):
            each.expect(commands.Queue.DeclareOk)
    with broker_in_thread(durable) as broker:
        assert broker.client().open().ready_count("d") == 0


@pytest.mark.parametrize("is_back_in_time", [True, False])
def test_a_stop_waits_for_the_disk_no_longer_than_it_may(
    durable: Settings,
    disk_answers: threading.Event,
    is_back_in_time: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was confirmed is there in any case; what was not may be."""
    monkeypatch.setattr(server, "STORAGE_CLOSE_MIN_S", 60.0 if is_back_in_time else STOP_S)
    with broker_in_thread(durable) as thread:
        client = thread.client().open()
        client.declare("d", durable=True)
        client.select_confirms()
        publish(client, *BODIES)
        client.read_confirms(len(BODIES))
        disk_answers.clear()
        publish(client, b"never confirmed")
        thread.wait_until(
            lambda inside: inside.context.vhosts["/"].queues["d"].ready_count == len(BODIES) + 1,
            "the message",
        )
        thread.begin_to_stop(STOP_S)
        if is_back_in_time:
            disk_answers.set()
        thread.wait_until_stopped()
        disk_answers.set()
    if not is_back_in_time:  # its directory stays locked until the process ends
        return
    with broker_in_thread(durable) as broker:
        client = broker.client().open()
        assert client.ready_count("d") == len(BODIES) + 1
        client.consume("d")
        assert client.read_bodies(len(BODIES)) == BODIES
