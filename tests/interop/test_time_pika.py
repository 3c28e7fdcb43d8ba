"""pika against the broker: messages that expire or are not valid yet, and queues that go away.

What expires is watched at the end of a dead-letter route, so nothing here waits longer than it has
to.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.support.broker_process import BrokerUnderTest
from tests.support.pika_calls import (
    DELIVERY_DEADLINE_S,
    get_all,
    publish,
    publish_octets,
    raw_to,
    ready_count,
    receive,
    serve_until,
)
from tests.support.waiting import wait_for

ROUNDING_S = 0.02  # wall time in milliseconds here and there, and timers of whole milliseconds


def declare_dying(channel: BlockingChannel, dead: str, **arguments: object) -> str:
    """A queue whose dead letters go to the queue ``dead``."""
    return str(
        channel.queue_declare(
            "",
            exclusive=True,
            arguments={
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": dead,
                **{name.replace("_", "-"): value for name, value in arguments.items()},
            },
        ).method.queue
    )


def publish_expiring(channel: BlockingChannel, queue: str, **bodies_ms: int) -> None:
    for body, expiration_ms in bodies_ms.items():
        properties = pika.BasicProperties(expiration=str(expiration_ms))
        channel.basic_publish("", queue, body.encode(), properties)


def bodies(received: list[tuple[Any, pika.BasicProperties, bytes]]) -> list[bytes]:
    return [body for _, _, body in received]


@pytest.mark.parametrize("is_own", [True, False])
@pytest.mark.row("E15")
def test_an_expired_message_is_dead_lettered_at_its_time(
    channel: BlockingChannel, queue: str, is_own: bool
) -> None:
    start_s = time.monotonic()
    if is_own:
        dying = declare_dying(channel, queue)
        publish_expiring(channel, dying, m=150)
    else:
        dying = declare_dying(channel, queue, x_message_ttl=150)
        publish(channel, dying, b"m")
    ((_, properties, body),) = receive(channel, queue, 1)
    assert time.monotonic() - start_s >= 0.15 - ROUNDING_S
    assert body == b"m"
    (death,) = properties.headers["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("expired", dying, 1)
    assert ready_count(channel, dying) == 0


@pytest.mark.acceptance
def test_messages_expire_by_their_times_wherever_they_stand(
    broker: BrokerUnderTest, channel: BlockingChannel, queue: str
) -> None:
    # differs: expiry-anywhere
    if broker.is_foreign:
        pytest.skip("RabbitMQ drops expired messages only at the head of a queue")
    dying = declare_dying(channel, queue)
    publish(channel, dying, b"for ever")
    with raw_to(broker) as raw:
        times = (b"c", "300"), (b"a", "100"), (b"b", "200")
        dated = [publish_octets("", dying, body, expiration=time) for body, time in times]
        raw.send_octets(b"".join(dated))
    assert bodies(receive(channel, queue, 3)) == [b"a", b"b", b"c"]
    assert get_all(channel, dying) == [b"for ever"]


@pytest.mark.row("A16")
def test_the_minimum_and_maximum_force_one_time_to_live(
    broker: BrokerUnderTest, channel: BlockingChannel, queue: str
) -> None:
    # differs: additions
    if broker.is_foreign:
        pytest.skip("Qpid's and Hareline's arguments")
    dying = declare_dying(channel, queue, minimumMessageTtl=150, maximumMessageTtl=150)
    start_s = time.monotonic()
    publish_expiring(channel, dying, long=3_600_000, short=1)
    publish(channel, dying, b"none")
    assert bodies(receive(channel, queue, 3)) == [b"long", b"short", b"none"]
    assert time.monotonic() - start_s >= 0.15 - ROUNDING_S


def test_a_time_to_live_of_0_reaches_a_waiting_consumer_alone(
    channel: BlockingChannel, queue: str
) -> None:
    publish_expiring(channel, queue, lost=0)
    assert get_all(channel, queue) == []
    got: list[bytes] = []
    channel.basic_consume(queue, lambda _c, _m, _p, body: got.append(body), auto_ack=True)
    publish_expiring(channel, queue, seen=0)
    publish(channel, queue, b"end")
    deadline_s = time.monotonic() + DELIVERY_DEADLINE_S
    while b"end" not in got and time.monotonic() < deadline_s:
        channel.connection.process_data_events(0.1)
    assert got == [b"seen", b"end"]


def test_what_a_client_has_does_not_expire_until_it_gives_it_back(
    channel: BlockingChannel, queue: str
) -> None:
    dying = declare_dying(channel, queue)
    got: list[int] = []
    tag = channel.basic_consume(dying, lambda _c, method, *_: got.append(method.delivery_tag))
    publish_expiring(channel, dying, m=50)
    serve_until(channel.connection, lambda: got, "the delivery")
    channel.basic_cancel(tag)
    publish_expiring(channel, dying, later=60)
    assert bodies(receive(channel, queue, 1)) == [b"later"]
    channel.basic_nack(got[0])
    ((_, properties, body),) = receive(channel, queue, 1)
    assert body == b"m"
    assert properties.headers["x-death"][0]["reason"] == "expired"


def test_an_instant_may_be_given_as_clients_of_qpid_do(
    broker: BrokerUnderTest, channel: BlockingChannel, queue: str
) -> None:
    # differs: expiration-instant
    if broker.is_foreign:
        pytest.skip("RabbitMQ refuses expirations above ten years")
    dying = declare_dying(channel, queue)
    start_s = time.monotonic()
    publish_expiring(channel, dying, soon=round(time.time() * 1000) + 150)
    assert bodies(receive(channel, queue, 1)) == [b"soon"]
    assert time.monotonic() - start_s >= 0.15 - ROUNDING_S


# ------------------------------------------------------------------------------- holding back


@pytest.mark.acceptance
@pytest.mark.row("A19")
def test_held_messages_are_overtaken_and_come_at_their_time(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    # differs: additions
    if broker.is_foreign:
        pytest.skip("Qpid's and Hareline's arguments")
    queue = channel.queue_declare(
        "", exclusive=True, arguments={"holdOnPublishEnabled": True}
    ).method.queue
    got: list[bytes] = []
    channel.basic_consume(queue, lambda _c, _m, _p, body: got.append(body), auto_ack=True)
    with raw_to(broker) as raw:
        now_ms = round(time.time() * 1000)
        start_s = time.monotonic()
        held: list[tuple[bytes, dict[str, Any]]] = [
            (b"valid", {"x-qpid-not-valid-before": now_ms - 1000}),
            (b"third", {"x-qpid-not-valid-before": now_ms + 2000}),
            (b"second", {"x-delay": 150}),
            (b"text", {"x-qpid-not-valid-before": str(now_ms + 60_000)}),
        ]
        octets = [publish_octets("", queue, body, headers=headers) for body, headers in held]
        raw.send_octets(b"".join(octets))
    serve_until(channel.connection, lambda: len(got) == 4, "all of them")
    assert got == [b"valid", b"text", b"second", b"third"]
    assert time.monotonic() - start_s >= 2.0 - ROUNDING_S


# ------------------------------------------------------------------------- queues that go away


@pytest.mark.acceptance
@pytest.mark.row("E15")
def test_an_unused_queue_is_deleted_and_one_with_a_consumer_is_not(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    arguments = {"x-expires": 200}

    def used() -> str | None:
        """The consumer, unless the queue was gone before it came."""
        user.append(connection.channel())
        user[-1].queue_declare(f"{name}-used", arguments=arguments)
        with contextlib.suppress(ChannelClosedByBroker):
            return str(user[-1].basic_consume(f"{name}-used", lambda *_: None))
        return None

    user: list[BlockingChannel] = []
    tag = wait_for(used, DELIVERY_DEADLINE_S, "a queue with a consumer")
    start_s = time.monotonic()
    channel.queue_declare(f"{name}-unused", arguments=arguments)

    def is_gone(queue: str) -> bool:
        """Found out by a purge, which is no use of a queue, as a passive declare would be."""
        looker = channel.connection.channel()
        with contextlib.suppress(ChannelClosedByBroker):
            looker.queue_purge(queue)
        if looker.is_open:
            looker.close()
            return False
        return True

    wait_for(lambda: is_gone(f"{name}-unused"), DELIVERY_DEADLINE_S, "the unused queue's end")
    assert time.monotonic() - start_s >= 0.2 - ROUNDING_S
    assert not is_gone(f"{name}-used")
    cancelled_s = time.monotonic()
    user[-1].basic_cancel(tag)
    wait_for(lambda: is_gone(f"{name}-used"), DELIVERY_DEADLINE_S, "the used queue's end")
    assert time.monotonic() - cancelled_s >= 0.2 - 2 * ROUNDING_S


# differs: delayed-retry
@pytest.mark.usefixtures("only_hareline")
@pytest.mark.row("E18")
@pytest.mark.parametrize("giving_back", ["nack", "reject"])
def test_what_comes_back_is_delivered_again_after_a_wait(
    channel: BlockingChannel, giving_back: str
) -> None:
    arguments = {"x-delayed-retry-min": 200, "x-delivery-limit": 2}
    queue = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
    publish(channel, queue, b"first", b"second")
    came: list[tuple[bytes, float]] = []

    def on_message(channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        came.append((body, time.monotonic()))
        if body == b"second":
            channel.basic_ack(method.delivery_tag)
        elif giving_back == "nack":
            channel.basic_nack(method.delivery_tag, requeue=True)
        else:
            channel.basic_reject(method.delivery_tag, requeue=True)

    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(queue, on_message)
    serve_until(channel.connection, lambda: len(came) == 4, "the second retry")
    assert [body for body, _ in came] == [b"first", b"second", b"first", b"first"]
    first, _, second, third = [at_s for _, at_s in came]
    assert second - first >= 0.2 - ROUNDING_S
    assert third - second >= 0.4 - ROUNDING_S


# differs: delayed-retry
@pytest.mark.usefixtures("only_hareline")
def test_a_retry_without_a_first_wait_is_refused(channel: BlockingChannel) -> None:
    with pytest.raises(ChannelClosedByBroker, match="delayed_retry_max_but_no_min_defined"):
        channel.queue_declare("", exclusive=True, arguments={"x-delayed-retry-max": 1_000})
