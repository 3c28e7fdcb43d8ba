"""The broker inside somebody else's test suite: ``running_broker`` and the fixture."""

from __future__ import annotations

import asyncio
import threading

import aio_pika
import pika
import pika.exceptions
import pytest
from pydantic import SecretStr

from hareline import testing
from hareline.server import Broker
from hareline.settings import Limits, Listener, Management, Permission, Settings, User, VirtualHost
from hareline.testing import running_broker

ALL = {"configure": ".*", "write": ".*", "read": ".*"}


def echo(url: str, body: bytes = b"hello") -> bytes:
    """Send one message through the broker and back."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_publish("", queue, body)
    received: bytes = channel.basic_get(queue, auto_ack=True)[2]
    connection.close()
    return received


def broker_threads() -> list[str]:
    return [
        thread.name for thread in threading.enumerate() if thread.name.startswith("hareline-broker")
    ]


def test_a_broker_runs_as_long_as_its_block() -> None:
    before = broker_threads()
    with running_broker() as url:
        assert url.startswith("amqp://guest:guest@127.0.0.1:")
        assert echo(url) == b"hello"
    assert broker_threads() == before
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        echo(url)


def test_the_fixture_gives_a_url(amqp_broker: str) -> None:
    assert echo(amqp_broker) == b"hello"


def test_the_fixture_runs_one_broker_for_the_session(
    amqp_broker: str, request: pytest.FixtureRequest
) -> None:
    assert request.getfixturevalue("amqp_broker") == amqp_broker
    assert echo(amqp_broker, b"again") == b"again"


def test_two_brokers_at_once_know_nothing_of_each_other() -> None:
    with running_broker() as first, running_broker() as second:
        assert first != second
        connection = pika.BlockingConnection(pika.URLParameters(first))
        connection.channel().queue_declare("only-here")
        other = pika.BlockingConnection(pika.URLParameters(second))
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
            other.channel().queue_declare("only-here", passive=True)
        connection.close()
        other.close()


def test_settings_may_give_users_virtual_hosts_and_limits() -> None:
    settings = Settings(
        vhosts=(VirtualHost(name="my/app"), VirtualHost(name="other")),
        users=(
            User(
                name="an@na",
                password=SecretStr("p:ss/word"),
                permissions=(Permission(vhost="my/app", **ALL),),
            ),
        ),
        limits=Limits(channel_max=3),
    )
    with running_broker(settings) as url:
        assert "an%40na:p%3Ass%2Fword@127.0.0.1" in url
        assert url.endswith("/my%2Fapp")
        assert echo(url) == b"hello"
        parameters = pika.URLParameters(url)
        parameters.virtual_host = "other"
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError):
            pika.BlockingConnection(parameters)


def test_ports_in_the_settings_are_not_used() -> None:
    settings = Settings(listener=Listener(port=1), management=Management(port=2))
    with running_broker(settings) as url:
        assert echo(url) == b"hello"


def test_connections_left_open_are_closed_with_320() -> None:
    with running_broker() as url:
        connection = pika.BlockingConnection(pika.URLParameters(url))
        waiting = threading.Thread(target=wait_for_the_end, args=(connection,))
        waiting.start()
    waiting.join(30)
    assert not waiting.is_alive()
    assert connection.is_closed


def wait_for_the_end(connection: pika.BlockingConnection) -> None:
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="320"):
        serve_for_ever(connection)


def serve_for_ever(connection: pika.BlockingConnection) -> None:
    while True:
        connection.process_data_events(30)


def test_a_block_that_fails_ends_the_broker_too() -> None:
    before = broker_threads()

    def fail() -> None:
        with running_broker():
            raise KeyError("the test's own")

    with pytest.raises(KeyError, match="the test's own"):
        fail()
    assert broker_threads() == before


def test_a_broker_that_cannot_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hopeless(Broker):
        async def start(self) -> None:
            raise OSError("no ports left")

    monkeypatch.setattr(testing, "Broker", Hopeless)
    with pytest.raises(RuntimeError, match="did not start") as failure, running_broker():
        pass
    assert str(failure.value.__cause__) == "no ports left"


async def test_it_runs_beside_an_event_loop() -> None:
    with running_broker() as url:
        connection = await aio_pika.connect(url)
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            await channel.default_exchange.publish(
                aio_pika.Message(b"hello"), routing_key=queue.name
            )
            message = await queue.get()
            assert message.body == b"hello"
            await message.ack()


async def test_many_brokers_start_and_stop_from_coroutines() -> None:
    def come_and_go(number: int) -> bytes:
        with running_broker() as url:
            return echo(url, b"%d" % number)

    echoes = await asyncio.gather(*[asyncio.to_thread(come_and_go, n) for n in range(4)])
    assert echoes == [b"0", b"1", b"2", b"3"]
