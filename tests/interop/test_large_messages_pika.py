"""Messages of 64 MiB, with pika: whole at every client, and never whole in the broker's memory.

The broker's memory is what the system says of its process (VmRSS). One such message, held as a
whole even once, would show as 64 MiB more.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.exceptions import UnroutableError

from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_for

from .conftest import StartBroker

MIB = 1_048_576
SIZE = 64 * MIB
#: What the broker may grow by while one goes through: buffers of sockets, pieces, and all else.
GROWTH_MAX = 16 * MIB
DEADLINE_S = 60.0


def make_body(seed: int = 0) -> bytes:
    """64 MiB that are not alike anywhere."""
    block = hashlib.shake_128(bytes([seed])).digest(MIB)
    return b"".join(index.to_bytes(4, "big") + block[4:] for index in range(SIZE // MIB))


BODY = make_body()


def large_files(broker: BrokerProcess) -> list[str]:
    return [path.name for path in (broker.data_dir / "large").iterdir()]


def no_file_is_left(broker: BrokerProcess) -> None:
    wait_for(lambda: not large_files(broker), DEADLINE_S, "the end of the body's file")


@contextmanager
def staying_flat(broker: BrokerProcess) -> Iterator[None]:
    """The broker's memory is looked at all the time while the block runs."""
    has_ended = threading.Event()
    before = broker.resident_bytes

    def watch() -> int:
        highest = 0
        while not has_ended.wait(0.005):
            highest = max(highest, broker.resident_bytes)
        return highest

    with ThreadPoolExecutor(max_workers=1) as pool:
        highest = pool.submit(watch)
        try:
            yield
        finally:
            has_ended.set()
    growth = highest.result() - before
    assert growth < GROWTH_MAX, f"the broker grew by {growth // MIB} MiB"


def connect(broker: BrokerProcess) -> pika.BlockingConnection:
    parameters = pika.URLParameters(broker.url)
    parameters.heartbeat = 600
    return pika.BlockingConnection(parameters)


@pytest.fixture
def own_broker(start_broker: StartBroker) -> BrokerProcess:
    return start_broker('[limits]\nmax_message_bytes = "128MiB"\n')


@pytest.fixture
def client(own_broker: BrokerProcess) -> Iterator[pika.BlockingConnection]:
    connection = connect(own_broker)
    yield connection
    if connection.is_open:
        connection.close()


PERSISTENT = pika.BasicProperties(delivery_mode=2, headers={"kind": "large"})
TRANSIENT = pika.BasicProperties(headers={"kind": "large"})
either_mode = pytest.mark.parametrize("properties", [TRANSIENT, PERSISTENT], ids=["1", "2"])


@pytest.mark.acceptance
@either_mode
def test_it_goes_in_and_out_again(
    own_broker: BrokerProcess,
    client: pika.BlockingConnection,
    properties: pika.BasicProperties,
) -> None:
    channel = client.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    with staying_flat(own_broker):
        channel.basic_publish("", "q", BODY, properties)
        method, got, body = next(channel.consume("q", inactivity_timeout=DEADLINE_S))
        assert body == BODY
        assert got.headers == {"kind": "large"}
        assert len(large_files(own_broker)) == 1
        channel.basic_ack(method.delivery_tag)
        channel.cancel()
    no_file_is_left(own_broker)


@pytest.mark.acceptance
@either_mode
def test_it_is_got_put_back_and_got_again(
    own_broker: BrokerProcess,
    client: pika.BlockingConnection,
    properties: pika.BasicProperties,
) -> None:
    channel = client.channel()
    channel.queue_declare("q", durable=True)
    with staying_flat(own_broker):
        channel.basic_publish("", "q", BODY, properties)
        for is_redelivered in (False, True):
            method, _, body = channel.basic_get("q")
            assert method is not None
            assert (method.redelivered, body == BODY) == (is_redelivered, True)
            channel.basic_nack(method.delivery_tag, requeue=True)
        channel.queue_purge("q")
    no_file_is_left(own_broker)


@pytest.mark.acceptance
@either_mode
def test_three_queues_have_it_in_one_file(
    own_broker: BrokerProcess,
    client: pika.BlockingConnection,
    properties: pika.BasicProperties,
) -> None:
    channel = client.channel()
    for name in ("a", "b", "c"):
        channel.queue_declare(name, durable=True)
        channel.queue_bind(name, "amq.fanout")
    with staying_flat(own_broker):
        channel.basic_publish("amq.fanout", "", BODY, properties)
        for name in ("a", "b", "c"):
            method, _, body = channel.basic_get(name)
            assert method is not None
            assert body == BODY
            assert len(large_files(own_broker)) == 1
            channel.basic_ack(method.delivery_tag)
    no_file_is_left(own_broker)


@pytest.mark.acceptance
@either_mode
def test_a_rejected_one_is_dead_lettered(
    own_broker: BrokerProcess,
    client: pika.BlockingConnection,
    properties: pika.BasicProperties,
) -> None:
    channel = client.channel()
    channel.queue_declare("dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("q", durable=True, arguments=arguments)
    with staying_flat(own_broker):
        channel.basic_publish("", "q", BODY, properties)
        method, _, body = channel.basic_get("q")
        assert method is not None
        channel.basic_reject(method.delivery_tag, requeue=False)
        method, got, body = channel.basic_get("dead")
        assert method is not None
        assert body == BODY
        assert got.headers["x-first-death-reason"] == "rejected"
        assert len(large_files(own_broker)) == 1
        channel.basic_ack(method.delivery_tag)
    no_file_is_left(own_broker)


@pytest.mark.acceptance
def test_an_unroutable_one_comes_back(
    own_broker: BrokerProcess, client: pika.BlockingConnection
) -> None:
    channel = client.channel()
    channel.confirm_delivery()
    with staying_flat(own_broker), pytest.raises(UnroutableError) as caught:
        channel.basic_publish("", "nowhere", BODY, PERSISTENT, mandatory=True)
    (returned,) = caught.value.messages
    assert returned.body == BODY
    assert returned.method.reply_code == 312
    no_file_is_left(own_broker)


@pytest.mark.acceptance
def test_a_persistent_one_survives_a_restart_and_a_transient_one_leaves_nothing(
    own_broker: BrokerProcess, client: pika.BlockingConnection
) -> None:
    channel = client.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", make_body(1), TRANSIENT)
    channel.basic_publish("", "q", BODY, PERSISTENT)
    client.close()
    own_broker.restart()
    wait_for(lambda: len(large_files(own_broker)) == 1, DEADLINE_S, "the transient one's end")
    again = connect(own_broker)
    channel = again.channel()
    with staying_flat(own_broker):
        method, got, body = channel.basic_get("q")
        assert method is not None
        assert body == BODY
        assert got.headers == {"kind": "large"}
        channel.basic_ack(method.delivery_tag)
    no_file_is_left(own_broker)
    again.close()


@pytest.mark.acceptance
def test_a_confirmed_one_survives_a_kill(
    own_broker: BrokerProcess, client: pika.BlockingConnection
) -> None:
    channel = client.channel()
    channel.confirm_delivery()
    for name in ("a", "b"):
        channel.queue_declare(name, durable=True)
        channel.queue_bind(name, "amq.fanout")
    channel.basic_publish("amq.fanout", "", BODY, PERSISTENT)
    method, _, _ = channel.basic_get("a")
    assert method is not None
    channel.basic_ack(method.delivery_tag)
    channel.basic_publish("", "a", b"small", PERSISTENT)  # confirmed, so the ack is on disk too
    client.close()
    own_broker.kill()
    own_broker.start()
    again = connect(own_broker)
    channel = again.channel()
    assert channel.basic_get("a", auto_ack=True)[2] == b"small"
    assert channel.basic_get("b", auto_ack=True)[2] == BODY
    no_file_is_left(own_broker)
    again.close()


@pytest.mark.acceptance
def test_a_publisher_that_dies_half_way_leaves_nothing(own_broker: BrokerProcess) -> None:
    with RawClient((own_broker.host, own_broker.port)) as client:
        client.open()
        queue = client.declare()
        client.send_octets(client.publish_octets(queue, BODY[: 16 * MIB])[: 8 * MIB])
        wait_for(lambda: large_files(own_broker), DEADLINE_S, "the file of the first half")
    no_file_is_left(own_broker)


@pytest.mark.acceptance
def test_a_client_that_does_not_read_costs_no_memory(
    own_broker: BrokerProcess, client: pika.BlockingConnection
) -> None:
    channel = client.channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    with staying_flat(own_broker):
        for _ in range(3):
            channel.basic_publish("", "q", BODY, TRANSIENT)
        sleeping = connect(own_broker)
        sleeping.channel().basic_consume("q", lambda *_: None)  # and never looks again
        wait_for(
            lambda: channel.queue_declare("q", passive=True).method.message_count < 3,
            DEADLINE_S,
            "a delivery",
        )
        for _ in range(20):
            channel.queue_declare("q", passive=True)
    client.process_data_events(0)
    sleeping.close()


@pytest.mark.acceptance
def test_others_are_confirmed_meanwhile(
    own_broker: BrokerProcess, client: pika.BlockingConnection
) -> None:
    channel = client.channel()
    channel.queue_declare("q", durable=True)
    channel.queue_declare("small", durable=True)
    confirmed = 0

    def move_large_ones() -> None:
        connection = connect(own_broker)
        large = connection.channel()
        for _ in range(3):
            large.basic_publish("", "q", BODY, PERSISTENT)
            assert large.basic_get("q", auto_ack=True)[2] == BODY
        connection.close()

    with staying_flat(own_broker), ThreadPoolExecutor(max_workers=1) as pool:
        mover = pool.submit(move_large_ones)
        channel.confirm_delivery()
        while not mover.done():
            channel.basic_publish("", "small", b"x" * 1000, PERSISTENT)
            confirmed += 1
            if confirmed % 100 == 0:
                channel.queue_purge("small")
        mover.result()
    assert confirmed > 20  # and not one for each of the large ones
