"""pika's callback adapters against the broker: SelectConnection and AsyncioConnection.

Each test is a script of callbacks that ends by closing its connection; what it saw is judged
afterwards, because an assertion inside an event loop's callback would only be logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel

from tests.support.broker_process import BrokerProcess, BrokerUnderTest

SCRIPT_DEADLINE_S = 60.0


class CallbackSession:
    """One callback connection with one channel, run until the connection is closed."""

    def __init__(self, adapter: str, broker: BrokerUnderTest) -> None:
        options: dict[str, Any] = {
            "parameters": pika.URLParameters(broker.url),
            "on_open_callback": self._on_open,
            "on_open_error_callback": self._on_end,
            "on_close_callback": self._on_end,
        }
        self._loop: asyncio.AbstractEventLoop | None = None
        if adapter == "asyncio":
            self._loop = asyncio.new_event_loop()
            self.connection = AsyncioConnection(custom_ioloop=self._loop, **options)
        else:
            self.connection = pika.SelectConnection(**options)
        self._script: Callable[[Channel], object] = print
        self.end: BaseException | str | None = None
        self.is_late = False

    def run(self, script: Callable[[Channel], object]) -> None:
        """Call ``script`` with the open channel and serve callbacks until the connection ends."""
        self._script = script
        ioloop = self.connection.ioloop
        deadline = ioloop.call_later(SCRIPT_DEADLINE_S, self._on_deadline)
        if self._loop is None:
            ioloop.start()
            ioloop.remove_timeout(deadline)
        else:
            self._loop.run_forever()
        ioloop.close()
        assert not self.is_late, f"the script did not end within {SCRIPT_DEADLINE_S:g} s"

    def finish(self) -> None:
        """Close the connection, which ends ``run``."""
        self.connection.close()

    def _on_open(self, connection: pika.connection.Connection) -> None:
        connection.channel(on_open_callback=self._script)

    def _on_end(self, _: object, reason: BaseException | str) -> None:
        self.end = reason
        self._stop()

    def _on_deadline(self) -> None:
        self.is_late = True
        self._stop()

    def _stop(self) -> None:
        if self._loop is None:
            self.connection.ioloop.stop()
        else:
            self._loop.stop()


@pytest.fixture(params=["select", "asyncio"])
def adapter(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def session(adapter: str, broker: BrokerUnderTest) -> CallbackSession:
    return CallbackSession(adapter, broker)


def test_every_publish_is_confirmed_once_and_consumed_in_order(
    session: CallbackSession, name: str
) -> None:
    count = 1000
    confirmed: list[int] = []
    received: list[bytes] = []

    def on_open(channel: Channel) -> None:
        channel.confirm_delivery(on_confirm, callback=lambda _: declare(channel))

    def declare(channel: Channel) -> None:
        channel.queue_declare(name, exclusive=True, callback=lambda _: start(channel))

    def start(channel: Channel) -> None:
        channel.basic_consume(name, on_message)
        for n in range(count):
            channel.basic_publish("", name, b"%d" % n)

    def on_confirm(frame: Any) -> None:
        last = frame.method.delivery_tag
        first = (max(confirmed, default=0) + 1) if frame.method.multiple else last
        confirmed.extend(range(first, last + 1))
        finish_when_complete()

    def on_message(channel: Channel, method: Any, _: Any, body: bytes) -> None:
        received.append(body)
        if len(received) % 100 == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
        finish_when_complete()

    def finish_when_complete() -> None:
        if len(confirmed) >= count and len(received) >= count:
            session.finish()

    session.run(on_open)
    assert sorted(confirmed) == list(range(1, count + 1))
    assert received == [b"%d" % n for n in range(count)]


def test_return_comes_before_its_confirm(session: CallbackSession, name: str) -> None:
    events: list[tuple[str, object]] = []

    def on_open(channel: Channel) -> None:
        channel.add_on_return_callback(
            lambda _ch, method, _props, body: events.append(("return", (method.reply_code, body)))
        )
        channel.confirm_delivery(on_confirm, callback=lambda _: publish(channel))

    def publish(channel: Channel) -> None:
        channel.basic_publish("", name, b"lost", mandatory=True)

    def on_confirm(frame: Any) -> None:
        events.append((frame.method.NAME, frame.method.delivery_tag))
        session.finish()

    session.run(on_open)
    assert events == [("return", (312, b"lost")), ("Basic.Ack", 1)]


def test_deleted_queue_cancels_its_consumer(session: CallbackSession, name: str) -> None:
    cancelled: list[str] = []

    def on_open(channel: Channel) -> None:
        channel.queue_declare(name, exclusive=True, callback=lambda _: consume(channel))

    def consume(channel: Channel) -> None:
        channel.add_on_cancel_callback(on_cancel)
        channel.basic_consume(
            name,
            lambda *_: None,
            consumer_tag="mine",
            callback=lambda _: channel.queue_delete(name),
        )

    def on_cancel(frame: Any) -> None:
        cancelled.append(frame.method.consumer_tag)
        session.finish()

    session.run(on_open)
    assert cancelled == ["mine"]


def test_channel_error_is_reported_and_a_new_channel_opens(
    session: CallbackSession, name: str
) -> None:
    reasons: list[pika.exceptions.ChannelClosedByBroker] = []
    second: list[bool] = []

    def on_open(channel: Channel) -> None:
        channel.add_on_close_callback(on_channel_closed)
        channel.queue_declare(name, passive=True)

    def on_channel_closed(_: Channel, reason: Any) -> None:
        reasons.append(reason)
        session.connection.channel(on_open_callback=on_second)

    def on_second(channel: Channel) -> None:
        second.append(channel.is_open)
        session.finish()

    session.run(on_open)
    [reason] = reasons
    assert (reason.reply_code, reason.reply_text.split(" - ")[0]) == (404, "NOT_FOUND")
    assert second == [True]


def test_client_cancel_stops_deliveries(session: CallbackSession, name: str) -> None:
    late: list[bytes] = []
    counts: list[int] = []

    def on_open(channel: Channel) -> None:
        channel.queue_declare(name, exclusive=True, callback=lambda _: consume(channel))

    def consume(channel: Channel) -> None:
        channel.basic_consume(
            name,
            lambda _ch, _method, _props, body: late.append(body),
            consumer_tag="mine",
            callback=lambda _: channel.basic_cancel("mine", callback=lambda _: publish(channel)),
        )

    def publish(channel: Channel) -> None:
        channel.confirm_delivery(
            lambda _: channel.queue_declare(name, passive=True, callback=on_count),
            callback=lambda _: channel.basic_publish("", name, b"stays"),
        )

    def on_count(frame: Any) -> None:
        counts.append(frame.method.message_count)
        session.finish()

    session.run(on_open)
    assert (late, counts) == ([], [1])


def test_normal_close_is_answered(session: CallbackSession) -> None:
    session.run(lambda _: session.finish())
    assert isinstance(session.end, pika.exceptions.ConnectionClosedByClient)
    assert session.end.reply_code == 200


def test_second_use_of_a_consumer_tag_closes_the_connection(
    session: CallbackSession, name: str
) -> None:
    def on_open(channel: Channel) -> None:
        channel.queue_declare(name, exclusive=True, callback=lambda _: consume(channel))

    def consume(channel: Channel) -> None:
        for _ in range(2):  # pika's own check looks at another copy of the tag
            channel._send_method(pika.spec.Basic.Consume(queue=name, consumer_tag="mine"))

    session.run(on_open)
    assert isinstance(session.end, pika.exceptions.ConnectionClosedByBroker)
    assert (session.end.reply_code, session.end.reply_text) == (
        530,
        "NOT_ALLOWED - attempt to reuse consumer tag 'mine'",
    )


@pytest.mark.acceptance
def test_shutdown_is_announced_with_320(own_broker: BrokerProcess, adapter: str) -> None:
    session = CallbackSession(adapter, own_broker)
    with ThreadPoolExecutor(max_workers=1) as pool:
        session.run(lambda _: pool.submit(own_broker.restart))
    assert isinstance(session.end, pika.exceptions.ConnectionClosedByBroker)
    assert session.end.reply_code == 320
    assert session.end.reply_text.startswith("CONNECTION_FORCED - ")
