"""A wall clock that is set by a day, both ways, under a broker at work.

Intervals are of the monotonic clock, so heartbeats, leases and rates know nothing of it. Instants
are wall time: docs/time.md says what that means for times to live and for held messages.
"""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands
from pamqp.heartbeat import Heartbeat

from hareline.queues.policies import deadline_timer
from hareline.settings import Settings
from tests.support.api_broker import api_broker
from tests.support.broker_thread import broker_in_thread
from tests.support.raw_client import RawClient

from .conftest import ShiftedTime

DAY_S = 86_400.0
HEARTBEAT = b"\x08\0\0\0\0\0\0\xce"
#: Properties with nothing but an expiration of an hour.
AN_HOUR = b"\x01\x00\x073600000"
PERSISTENT = b"\x10\x00\x02"


def outlives_heartbeats(client: RawClient, count: int) -> None:
    """The broker goes on sending them, and takes the client's for what they are."""
    for _ in range(count):
        assert isinstance(client.read()[1], Heartbeat)
        client.send_octets(HEARTBEAT)
    assert client.declare("", exclusive=True)


@pytest.mark.parametrize("days", [1, -1])
def test_connections_and_messages_without_a_time_know_nothing_of_it(
    wall: ShiftedTime, days: int
) -> None:
    with broker_in_thread() as broker:
        client = broker.client().open(heartbeat_s=1)
        client.declare("q", arguments={"x-expires": 3_600_000})
        client.select_confirms()
        client.publish("q", b"before")
        client.read_confirms(1)
        wall.shift_s += days * DAY_S
        client.publish("q", b"after")
        client.read_confirms(2)
        outlives_heartbeats(client, 4)
        assert client.ready_count("q") == 2, "the queue was deleted as unused"
        other = broker.client().open()
        other.consume("q")
        assert other.read_bodies(2) == [b"before", b"after"]


def test_forward_all_that_has_expired_by_then_is_never_delivered(wall: ShiftedTime) -> None:
    with broker_in_thread() as broker:
        client = broker.client().open()
        client.declare("q")
        client.send_octets(client.publish_octets("q", b"old", AN_HOUR))
        client.publish("q", b"timeless")
        assert client.ready_count("q") == 2
        wall.shift_s += DAY_S
        client.consume("q")
        assert client.read_bodies(1) == [b"timeless"]
        assert client.ready_count("q") == 0


def test_forward_the_broker_notices_by_itself(
    wall: ShiftedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the ten seconds after which a queue looks again, without a client that uses it."""
    assert deadline_timer.LOOK_AGAIN_MS == 10_000
    monkeypatch.setattr(deadline_timer, "LOOK_AGAIN_MS", 200)
    with broker_in_thread() as broker:
        client = broker.client().open()
        client.declare("dead")
        client.declare(
            "q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        )
        client.send_octets(client.publish_octets("q", b"old", AN_HOUR))
        assert client.ready_count("q") == 1
        wall.shift_s += DAY_S
        client.consume("dead")
        assert client.read_bodies(1) == [b"old"]


def test_back_a_message_gets_the_time_back_and_one_that_expired_does_not_return(
    wall: ShiftedTime,
) -> None:
    with broker_in_thread() as broker:
        client = broker.client().open()
        client.declare("q")
        client.send_octets(client.publish_octets("q", b"hour", AN_HOUR))
        wall.shift_s -= DAY_S
        assert client.ready_count("q") == 1
        wall.shift_s += DAY_S + 3_601
        client.send(commands.Basic.Get(queue="q", no_ack=True))
        client.expect(commands.Basic.GetEmpty)
        wall.shift_s -= DAY_S
        client.send(commands.Basic.Get(queue="q", no_ack=True))
        client.expect(commands.Basic.GetEmpty)


@pytest.mark.parametrize("days", [1, -1])
def test_a_restart_after_it_has_all_messages(
    wall: ShiftedTime, durable: Settings, days: int
) -> None:
    """Those of the other time too, which seem to come from the future after a step back."""
    with broker_in_thread(durable) as broker:
        client = broker.client().open()
        client.declare("q", durable=True)
        client.declare("s", durable=True, arguments={"x-queue-type": "stream", "x-max-age": "1Y"})
        client.select_confirms()
        for number, queue in enumerate(("q", "s"), 1):
            client.send_octets(client.publish_octets(queue, b"before", PERSISTENT))
            client.read_confirms(number)
        wall.shift_s += days * DAY_S
        for number, queue in enumerate(("q", "s"), 3):
            client.send_octets(client.publish_octets(queue, b"after", PERSISTENT))
            client.read_confirms(number)
    with broker_in_thread(durable) as broker:
        client = broker.client().open()
        assert client.ready_count("s") == 2
        client.consume("q")
        assert client.read_bodies(2) == [b"before", b"after"]


@pytest.mark.parametrize("days", [1, -1])
def test_numbers_over_http_go_on(wall: ShiftedTime, days: int) -> None:
    with api_broker() as broker:
        channel = broker.connect().channel()
        channel.queue_declare("q")
        uptime_ms = only_node(broker.get("/nodes"))["uptime"]
        wall.shift_s += days * DAY_S

        def has_rate(queue: Any) -> bool:
            channel.basic_publish("", "q", b"x")
            channel.connection.process_data_events(0)
            stats = queue.get("message_stats")
            return stats is not None and stats["publish_details"]["rate"] > 0

        path = "/queues/%2F/q?msg_rates_age=60&msg_rates_incr=5"
        broker.wait_for(path, has_rate, "a rate")
        assert broker.get("/overview")["queue_totals"]["messages"] > 0
        assert uptime_ms <= only_node(broker.get("/nodes"))["uptime"] < uptime_ms + 600_000


def only_node(nodes: Any) -> Any:
    (node,) = nodes
    return node
