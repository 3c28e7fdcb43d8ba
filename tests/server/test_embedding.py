"""The broker inside somebody else's test suite: ``running_broker`` and ``EmbeddedBroker``.

Their fixtures are in test_pytest_plugin.py.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path

import aio_pika
import pika
import pika.exceptions
import pytest
from pydantic import SecretStr

from hareline.server.broker import Broker
from hareline.settings import Limits, Listener, Management, Permission, Settings, User, VirtualHost
from hareline.testing import EmbeddedBroker, running_broker

ALL = {"configure": ".*", "write": ".*", "read": ".*"}
DURABLE = pika.BasicProperties(delivery_mode=2)


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


def test_users_may_do_everything_in_every_virtual_host() -> None:
    users = {"an@na": "p:ss/word", "bert": "secret"}
    with EmbeddedBroker(users=users, vhosts=["my/app", "other"]) as broker:
        assert broker.url == broker.url_for("an@na", "my/app")
        urls = {broker.url_for(user, vhost) for user in users for vhost in ("my/app", "other")}
        assert len(urls) == 4
        assert [echo(url) for url in urls] == [b"hello"] * 4
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            echo(broker.url.replace("p%3Ass%2Fword", "wrong"))


def test_guest_may_do_everything_in_virtual_hosts_that_are_given() -> None:
    with running_broker(vhosts=["shop"]) as url:
        assert url.startswith("amqp://guest:guest@127.0.0.1:")
        assert url.endswith("/shop")
        assert echo(url) == b"hello"


def test_what_is_given_by_name_outweighs_the_settings() -> None:
    settings = Settings(vhosts=(VirtualHost(name="old"),), limits=Limits(channel_max=3))
    with EmbeddedBroker(settings, users={"ann": "secret"}, vhosts=["new"]) as broker:
        assert broker.url_for("ann", "new") == broker.url
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        assert connection._impl.params.channel_max == 3
        connection.close()
        with pytest.raises(ValueError, match="no virtual host 'old', only: new"):
            broker.url_for(vhost="old")
        with pytest.raises(ValueError, match="no user 'guest' with a password, only: ann"):
            broker.url_for("guest")


@pytest.mark.parametrize("vhosts", [[], [""], ["same", "same"]])
def test_virtual_hosts_that_cannot_be_are_refused(vhosts: list[str]) -> None:
    with pytest.raises(ValueError, match="vhosts"):
        EmbeddedBroker(vhosts=vhosts)


def test_a_data_directory_keeps_what_is_durable_and_the_port_stays(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path / "data") as broker:
        url = broker.url
        publish_durably(url, "orders", b"kept")
        broker.restart()
        assert broker.url == url
        assert get(url, "orders") == b"kept"
        publish_durably(url, "orders", b"kept again")
    with running_broker(data_dir=str(tmp_path / "data")) as url:
        assert get(url, "orders") == b"kept again"


def test_two_brokers_cannot_use_one_data_directory(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path), pytest.raises(RuntimeError, match=str(tmp_path)):
        EmbeddedBroker(data_dir=tmp_path).start()


def test_without_a_data_directory_a_restart_loses_everything() -> None:
    with EmbeddedBroker() as broker:
        publish_durably(broker.url, "orders", b"gone")
        broker.restart()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
            get(broker.url, "orders")


def test_between_stop_and_start_nobody_can_connect() -> None:
    with EmbeddedBroker() as broker:
        broker.stop()
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            echo(broker.url)
        broker.stop()
        broker.start()
        assert echo(broker.url) == b"hello"
        with pytest.raises(RuntimeError, match="runs already"):
            broker.start()


def test_a_port_that_was_taken_meanwhile_is_named() -> None:
    with EmbeddedBroker() as broker:
        port = pika.URLParameters(broker.url).port
        broker.stop()
        with (
            socket.create_server(("127.0.0.1", port)),
            pytest.raises(RuntimeError, match=f"did not start: .*{port}"),
        ):
            broker.start()
        broker.start()
        assert echo(broker.url) == b"hello"


def test_a_broker_that_has_not_started_has_no_url() -> None:
    broker = EmbeddedBroker()
    broker.stop()
    with pytest.raises(RuntimeError, match="no URL"):
        _ = broker.url


def publish_durably(url: str, queue: str, body: bytes) -> None:
    """Returns when the broker has confirmed the message."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", queue, body, DURABLE)


def get(url: str, queue: str) -> bytes:
    """Takes the first message of the queue; raises ChannelClosedByBroker without such a queue."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        body: bytes = connection.channel().basic_get(queue, auto_ack=True)[2]
    return body


def test_ports_in_the_settings_are_not_used() -> None:
    settings = Settings(listener=Listener(port=1), management=Management(port=2))
    with running_broker(settings) as url:
        assert echo(url) == b"hello"


def test_tls_of_the_settings_is_left_out() -> None:
    settings = Settings.model_validate(
        {
            "tls": {
                "certificate": "absent.pem",
                "client_authorities": "absent.pem",
                "verify_clients": "required",
            },
            "metrics": {"listener": True, "tls": True},
            "auth": {"mechanisms": ["EXTERNAL", "PLAIN"]},
            "listener": {"enabled": False},
        }
    )
    with running_broker(settings) as url:
        assert url.startswith("amqp://guest:guest@127.0.0.1:")


def test_connections_left_open_are_closed_with_320() -> None:
    with running_broker() as url:
        connection = pika.BlockingConnection(pika.URLParameters(url))
        waiting = threading.Thread(target=wait_for_the_end, args=(connection,))
        waiting.start()
    waiting.join(60)
    assert not waiting.is_alive()
    assert connection.is_closed


def wait_for_the_end(connection: pika.BlockingConnection) -> None:
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="320"):
        serve_for_ever(connection)


def serve_for_ever(connection: pika.BlockingConnection) -> None:
    while True:
        connection.process_data_events(60)


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

    monkeypatch.setattr("hareline.server.broker.Broker", Hopeless)
    with (
        pytest.raises(RuntimeError, match="did not start: no ports left") as failure,
        running_broker(),
    ):
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
