"""pika against the broker: the exchange type x-delayed-message.

Nothing here waits longer than a delay lasts; what must not come early is told by the clock, or by
a message that was sent later and comes first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pamqp import commands, frame
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.support.broker_process import BrokerProcess, BrokerUnderTest
from tests.support.pika_calls import (
    DELIVERY_DEADLINE_S,
    channel_to,
    get_all,
    publish_octets,
    raw_to,
    ready_count,
    receive,
    worked_s,
)
from tests.support.waiting import wait_for

from .conftest import PikaConnect

# differs: plugins
pytestmark = pytest.mark.usefixtures("only_hareline")

ROUNDING_S = 0.02  # wall time in milliseconds here and there, and timers of whole milliseconds


@pytest.fixture
def exchange(channel: BlockingChannel, name: str) -> Iterator[str]:
    """A delayed direct exchange."""
    yield declare(channel, name)
    if channel.is_open:
        channel.exchange_delete(name)


def declare(channel: BlockingChannel, name: str, inner: str = "direct", **options: Any) -> str:
    arguments = {"x-delayed-type": inner, **options.pop("arguments", {})}
    channel.exchange_declare(name, "x-delayed-message", arguments=arguments, **options)
    return name


def publish(
    channel: BlockingChannel,
    exchange: str,
    body: bytes,
    delay: object,
    *,
    key: str = "k",
    mandatory: bool = False,
    headers: dict[str, object] | None = None,
    **properties: Any,
) -> None:
    headers = {**({} if delay is None else {"x-delay": delay}), **(headers or {})}
    channel.basic_publish(
        exchange, key, body, pika.BasicProperties(headers=headers, **properties), mandatory
    )


def delayed_octets(
    exchange: str, body: bytes, delay: int | None, properties: dict[str, Any]
) -> bytes:
    headers = {} if delay is None else {"x-delay": delay}
    return publish_octets(exchange, "k", body, headers=headers, **properties)


def publish_at_once(
    broker: BrokerUnderTest, *messages: tuple[str, bytes, int | None, dict[str, Any]]
) -> None:
    """Exchange, body, delay and properties of each; all delays begin at the same time."""
    with raw_to(broker) as raw:
        raw.send_octets(b"".join(delayed_octets(*each) for each in messages))


def publish_and_delete(broker: BrokerUnderTest, exchange: str, body: bytes, delay: int) -> None:
    """A persistent message, and the end of its exchange before it is due."""
    with raw_to(broker) as raw:
        delete = frame.marshal(commands.Exchange.Delete(exchange=exchange), 1)
        raw.send_octets(delayed_octets(exchange, body, delay, {"delivery_mode": 2}) + delete)
        raw.expect(commands.Exchange.DeleteOk)


def bodies(received: list[tuple[Any, pika.BasicProperties, bytes]]) -> list[bytes]:
    return [body for _, _, body in received]


# --------------------------------------------------------------------------------- routing


@pytest.mark.acceptance
@pytest.mark.row("S9")
def test_a_message_comes_at_its_time_with_its_delay_negated(
    broker: BrokerUnderTest, channel: BlockingChannel, exchange: str, queue: str
) -> None:
    channel.queue_bind(queue, exchange, "k")
    start_s = time.monotonic()
    named = {"message_id": "id", "content_type": "text/plain"}
    publish_at_once(broker, (exchange, b"later", 300, named), (exchange, b"now", None, {}))
    now, (method, properties, body) = receive(channel, queue, 2)
    assert time.monotonic() - start_s >= 0.3 - ROUNDING_S
    assert (now[2], body) == (b"now", b"later")
    assert properties.headers == {"x-delay": -300}
    assert (properties.message_id, properties.content_type) == ("id", "text/plain")
    assert (method.exchange, method.routing_key, method.redelivered) == (exchange, "k", False)


@pytest.mark.acceptance
@pytest.mark.row("S9")
def test_messages_come_in_the_order_of_their_times(
    broker: BrokerUnderTest, channel: BlockingChannel, exchange: str, queue: str
) -> None:
    """The plugin's own test of order."""
    channel.queue_bind(queue, exchange, "k")
    delays = (500, 100, 300, 200, 101, 400)
    publish_at_once(broker, *[(exchange, b"%d" % delay, delay, {}) for delay in delays])
    received = [int(body) for body in bodies(receive(channel, queue, 6))]
    assert received == [100, 101, 200, 300, 400, 500]


@pytest.mark.row("S9")
@pytest.mark.parametrize(
    ("inner", "binding_key", "conditions"),
    [
        ("direct", "a.b", None),
        ("topic", "a.*", None),
        ("fanout", "", None),
        ("headers", "", {"a": "yes"}),
        ("x-consistent-hash", "1", None),
        ("x-random", "", None),
    ],
)
def test_it_routes_as_the_type_it_was_declared_with(
    channel: BlockingChannel,
    queue: str,
    name: str,
    inner: str,
    binding_key: str,
    conditions: dict[str, Any] | None,
) -> None:
    declare(channel, name, inner, auto_delete=True)
    channel.queue_bind(queue, name, binding_key, conditions)
    if inner in ("direct", "topic"):
        publish(channel, name, b"elsewhere", 20, key="b.a")
    if inner == "headers":
        publish(channel, name, b"elsewhere", 20, headers={"a": "no"})
    publish(channel, name, b"m", 50, key="a.b", headers={"a": "yes"})
    assert bodies(receive(channel, queue, 1)) == [b"m"]


@pytest.mark.row("S9")
def test_exchanges_can_be_bound_to_it_and_it_to_them(
    broker: BrokerUnderTest, channel: BlockingChannel, exchange: str, queue: str, name: str
) -> None:
    first, last = f"{name}-first", f"{name}-last"
    channel.exchange_declare(first, "fanout", auto_delete=True)
    channel.exchange_declare(last, "topic", auto_delete=True)
    channel.exchange_bind(exchange, first)
    channel.exchange_bind(last, exchange, "k")
    channel.queue_bind(queue, last, "#")
    publish_at_once(broker, (first, b"later", 100, {}), (first, b"now", 0, {}))
    assert bodies(receive(channel, queue, 2)) == [b"now", b"later"]


@pytest.mark.row("S9")
def test_the_delays_of_the_jms_client_reach_the_exchange_of_the_destination(
    channel: BlockingChannel, queue: str, name: str
) -> None:
    """What RabbitMQ's JMS client declares, binds and sends for a message with a delivery delay."""
    delays, destinations = f"{name}-delays", f"{name}-destinations"
    declare(channel, delays, "headers", durable=True)
    channel.exchange_declare(destinations, "direct", durable=True)
    channel.exchange_bind(destinations, delays, "", {"delayed-exchange": destinations})
    channel.queue_bind(queue, destinations, "work")
    headers: dict[str, object] = {"delayed-exchange": destinations}
    publish(channel, delays, b"m", 100, key="work", headers=headers)
    ((method, properties, body),) = receive(channel, queue, 1)
    assert body == b"m"
    assert properties.headers == {"x-delay": -100, "delayed-exchange": destinations}
    assert method.routing_key == "work"
    channel.exchange_delete(delays)
    channel.exchange_delete(destinations)


@pytest.mark.row("S9")
def test_a_mandatory_message_is_not_returned_while_it_is_delayed(
    channel: BlockingChannel, exchange: str
) -> None:
    channel.confirm_delivery()
    # differs: delay-mandatory
    publish(channel, exchange, b"m", 50, mandatory=True)
    with pytest.raises(pika.exceptions.UnroutableError):
        publish(channel, exchange, b"m", None, mandatory=True)


def test_the_alternate_exchange_is_asked_at_its_time_and_no_earlier(
    channel: BlockingChannel, queue: str, name: str
) -> None:
    declare(channel, name, arguments={"alternate-exchange": "amq.fanout"})
    # differs: delay-alternate
    channel.queue_bind(queue, "amq.fanout")
    start_s = time.monotonic()
    publish(channel, name, b"m", 150)
    assert bodies(receive(channel, queue, 1)) == [b"m"]
    assert time.monotonic() - start_s >= 0.15 - ROUNDING_S
    channel.exchange_delete(name)


def test_copies_are_routed_at_its_time_too(
    channel: BlockingChannel, exchange: str, queue: str
) -> None:
    for key in ("main", "cc", "bcc"):
        channel.queue_bind(queue, exchange, key)
        channel.exchange_bind(exchange, exchange, key)  # a circle harms nobody
        headers: dict[str, object] = {"CC": ["cc", "other"], "BCC": ["bcc"]}
        publish(channel, exchange, b"m", 20, key="main", headers=headers)
        ((_, properties, body),) = receive(channel, queue, 1, auto_ack=True)
        channel.cancel()
        assert body == b"m"
        assert properties.headers == {"x-delay": -20, "CC": ["cc", "other"]}
        channel.queue_unbind(queue, exchange, key)


@pytest.mark.acceptance
@pytest.mark.row("S9")
def test_the_time_to_live_begins_at_the_end_of_the_delay(
    channel: BlockingChannel, exchange: str, queue: str
) -> None:
    dying = channel.queue_declare(
        "",
        exclusive=True,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue},
    ).method.queue
    channel.queue_bind(dying, exchange, "k")
    start_s = time.monotonic()
    publish(channel, exchange, b"m", 200, expiration="100")
    ((_, properties, _),) = receive(channel, queue, 1)
    assert time.monotonic() - start_s >= 0.3 - ROUNDING_S
    (death,) = properties.headers["x-death"]
    assert (death["reason"], death["queue"]) == ("expired", dying)
    assert properties.headers["x-delay"] == -200


def test_a_transaction_delays_from_its_commit_on(
    channel: BlockingChannel, exchange: str, queue: str, connection: pika.BlockingConnection
) -> None:
    channel.queue_bind(queue, exchange, "k")
    sending = connection.channel()
    sending.tx_select()
    publish(sending, exchange, b"rolled back", 10)
    sending.tx_rollback()
    publish(sending, exchange, b"committed", 50)
    sending.tx_commit()
    assert bodies(receive(channel, queue, 1)) == [b"committed"]


@pytest.mark.row("S12")
def test_a_schedule_repeats_and_ends(channel: BlockingChannel, exchange: str, queue: str) -> None:
    channel.queue_bind(queue, exchange, "k")
    headers = {"x-schedule-period": 20, "x-schedule-repeat": 2}
    properties = pika.BasicProperties(message_id="tick", headers=headers)
    channel.basic_publish(exchange, "k", b"m", properties)
    at = datetime.fromtimestamp(int(time.time()) - 1, UTC)
    for name, instant in (("past", at), ("now", int(time.time() * 1000) + 20)):
        channel.basic_publish(
            exchange, "k", name.encode(), pika.BasicProperties(headers={"x-deliver-at": instant})
        )
    received = receive(channel, queue, 5)
    ticks = [each.headers for _, each, body in received if body == b"m"]
    assert ticks == [{"x-schedule-id": "tick", "x-schedule-number": n} for n in (1, 2, 3)]
    assert {b"past", b"now"} < set(bodies(received))


@pytest.mark.row("S12")
def test_a_schedule_that_makes_no_sense_is_refused(channel: BlockingChannel, exchange: str) -> None:
    channel.confirm_delivery()
    headers = {"x-schedule-cron": "0 0 30 2 *"}
    with pytest.raises(ChannelClosedByBroker) as refusal:
        channel.basic_publish(exchange, "k", b"m", pika.BasicProperties(headers=headers))
    assert (refusal.value.reply_code, refusal.value.reply_text) == (
        406,
        "PRECONDITION_FAILED - header 'x-schedule-cron' must be five fields as in crontab, "
        "not '0 0 30 2 *': no such day in any month",
    )


# --------------------------------------------------------------------------------- refusals


@pytest.mark.row("S9")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        ({"x-delayed-type": "fnord"}, "unknown exchange type 'fnord'"),
        (
            {"x-delayed-type": "x-delayed-message"},
            "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'",
        ),
    ],
)
def test_a_wrong_inner_type_is_refused(
    channel: BlockingChannel, name: str, arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(ChannelClosedByBroker) as refusal:
        channel.exchange_declare(name, "x-delayed-message", arguments=arguments)
    assert refusal.value.reply_code == 406
    assert text in refusal.value.reply_text


def test_no_method_reaches_the_queue_of_the_exchange(connect: PikaConnect, exchange: str) -> None:
    waiting = f"amq.delayed.{exchange}"
    connection = connect()

    def refused(call: Any) -> int:
        channel = connection.channel()
        with pytest.raises(ChannelClosedByBroker) as refusal:
            call(channel)
        return int(refusal.value.reply_code)

    assert {
        refused(lambda channel: channel.queue_declare(waiting, passive=True)),
        refused(lambda channel: channel.queue_declare(waiting)),
        refused(lambda channel: channel.queue_declare(waiting, exclusive=True)),
        refused(lambda channel: channel.basic_get(waiting)),
        refused(lambda channel: channel.basic_consume(waiting, print)),
        refused(lambda channel: channel.queue_purge(waiting)),
        refused(lambda channel: channel.queue_bind(waiting, "amq.fanout")),
        refused(lambda channel: channel.queue_delete(waiting)),
    } == {405}
    channel = connection.channel()
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", waiting, b"m", mandatory=True)


def test_what_is_delayed_is_gone_with_the_exchange(
    broker: BrokerUnderTest, channel: BlockingChannel, queue: str, name: str
) -> None:
    declare(channel, name)
    channel.queue_bind(queue, name, "k")
    publish_and_delete(broker, name, b"gone", 50)
    declare(channel, name)
    channel.queue_bind(queue, name, "k")
    publish(channel, name, b"kept", 100)  # due when the other one has been for a while
    assert bodies(receive(channel, queue, 1)) == [b"kept"]
    channel.exchange_delete(name)


# -------------------------------------------------------------------------------- restarts


def set_up(channel: BlockingChannel) -> None:
    declare(channel, "d", durable=True)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "d", "k")


def stop(daemon: BrokerProcess) -> None:
    daemon.stop()


def kill(daemon: BrokerProcess) -> None:
    daemon.kill()


@pytest.mark.acceptance
@pytest.mark.row("S9")
@pytest.mark.parametrize("end", [stop, kill], ids=["stop", "kill"])
def test_what_is_delayed_survives_and_comes_at_its_time(
    own_broker: BrokerProcess, end: Any
) -> None:
    """Nothing confirmed is lost, nothing comes twice or early; transient messages are gone."""
    delays_ms = [1, 700, 1400, *range(1500, 3000, 100)]
    with channel_to(own_broker.url) as channel:
        set_up(channel)
        publish(channel, "d", b"transient", 1950, delivery_mode=1)
        start_s = time.time()
        for delay_ms in delays_ms:
            publish(channel, "d", b"%d" % delay_ms, delay_ms, delivery_mode=2)
        wait_for(lambda: ready_count(channel, "q"), DELIVERY_DEADLINE_S, "the first message")
    end(own_broker)
    own_broker.start()
    due: dict[int, float] = {}
    with channel_to(own_broker.url) as channel:
        while len(due) < len(delays_ms):
            ((method, properties, body),) = receive(channel, "q", 1)
            channel.basic_ack(method.delivery_tag)
            assert int(body) not in due, "it came twice"
            assert properties.headers == {"x-delay": -int(body)}
            due[int(body)] = time.time() - start_s
        channel.cancel()
        assert get_all(channel, "q") == []
    assert list(due) == delays_ms, "lost, or not in order"
    early = [delay_ms for delay_ms, age_s in due.items() if age_s < delay_ms / 1000 - ROUNDING_S]
    assert not early


@pytest.mark.acceptance
@pytest.mark.row("S9")
def test_deleting_the_exchange_is_not_undone_by_a_crash(own_broker: BrokerProcess) -> None:
    with channel_to(own_broker.url) as channel:
        set_up(channel)
        publish_and_delete(own_broker, "d", b"gone", 600)
        set_up(channel)
        publish(channel, "d", b"kept", 1200, delivery_mode=2)
    own_broker.kill()
    own_broker.start()
    with channel_to(own_broker.url) as channel:
        set_up(channel)  # both are equivalent
        assert bodies(receive(channel, "q", 1)) == [b"kept"]


@pytest.mark.acceptance
def test_bindings_and_delays_work_after_a_restart(own_broker: BrokerProcess) -> None:
    with channel_to(own_broker.url) as channel:
        set_up(channel)
    own_broker.restart()
    with channel_to(own_broker.url) as channel:
        durable = {"delivery_mode": 2}
        publish_at_once(own_broker, ("d", b"later", 50, durable), ("d", b"now", None, durable))
        assert bodies(receive(channel, "q", 2)) == [b"now", b"later"]


# ------------------------------------------------------------------------------ many at once


@pytest.mark.acceptance
def test_many_that_are_due_at_once_stop_nobody(
    broker: BrokerUnderTest,
    connect: PikaConnect,
    channel: BlockingChannel,
    exchange: str,
    name: str,
) -> None:
    """While they go on, somebody else's question is answered in between."""
    count = 20_000
    channel.queue_declare(name)
    channel.queue_bind(name, exchange, "k")
    end_ms = int((time.time() + 3.0) * 1000)
    for number in range(count):
        if number % 500 == 0:
            channel.connection.process_data_events(0)
        publish(channel, exchange, b"%d" % number, max(1, end_ms - int(time.time() * 1000)))
    other = connect().channel()
    waits_s: list[float] = []

    def all_are_there() -> bool:
        start_s = worked_s(broker)
        ready = ready_count(other, name)
        waits_s.append(worked_s(broker) - start_s)
        return ready == count

    wait_for(all_are_there, 2 * DELIVERY_DEADLINE_S, "all to be ready")
    assert max(waits_s) < 0.5
    channel.queue_delete(name)
