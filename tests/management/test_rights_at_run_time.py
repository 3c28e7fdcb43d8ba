"""Rights that are changed over HTTP count for what is open: real clients over real sockets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from hareline.auth.access_rules import NO_RULES
from hareline.queues.dispatch.reading import ReadingLane
from hareline.server.assemble import access_rules
from hareline.server.broker import Broker
from hareline.settings import Settings
from hareline.settings.access import AccessRule
from tests.support.api_broker import PASSWORD, ApiBroker, api_broker, api_settings
from tests.support.waiting import wait_for

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def running() -> Iterator[ApiBroker]:
    with api_broker(api_settings()) as made:
        yield made


@pytest.fixture
def broker(running: ApiBroker) -> Iterator[ApiBroker]:
    """The user "anna", who may do everything, a queue "q" that is bound, and a stream "st"."""
    running.ask("PUT", "/users/anna", body={"password": PASSWORD, "tags": "management"})
    allow(running)
    channel = running.connect().channel()
    channel.queue_declare("q", durable=True)
    channel.queue_declare("st", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_bind("q", "amq.topic", "#")
    yield running
    running.disconnect()
    for path in ("/users/anna", "/queues/%2F/q", "/queues/%2F/st"):
        running.ask("DELETE", path)


def allow(broker: ApiBroker, **patterns: str) -> None:
    given = {"configure": ".*", "write": ".*", "read": ".*", **patterns}
    assert broker.ask("PUT", "/permissions/%2F/anna", body=given).status_code in (201, 204)


@pytest.mark.acceptance
def test_a_consumer_is_cancelled_and_gets_nothing_more(broker: ApiBroker) -> None:
    connection = broker.connect("anna")
    channel = connection.channel()
    got: list[bytes] = []
    cancelled: list[Any] = []
    channel.add_on_cancel_callback(cancelled.append)
    channel.basic_consume("q", lambda _c, _m, _p, body: got.append(body))
    sender = broker.connect().channel()
    sender.confirm_delivery()
    sender.basic_publish("", "q", b"1")
    wait_for(lambda: connection.process_data_events(0.1) or got, DEADLINE_S, "a delivery")
    allow(broker, read="^other$")
    wait_for(lambda: connection.process_data_events(0.1) or cancelled, DEADLINE_S, "a cancel")
    sender.basic_publish("", "q", b"2")
    connection.process_data_events(0)
    assert got == [b"1"]
    broker.wait_for("/queues/%2F/q", lambda queue: queue["messages_ready"] == 1, "the second")


@pytest.mark.acceptance
def test_a_route_that_is_known_is_asked_for_again(broker: ApiBroker) -> None:
    channel = broker.connect("anna").channel()
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("amq.topic", "k", b"1")
    bounds = {"exchange": "amq.topic", "write": "^mine", "read": ".*"}
    broker.ask("PUT", "/topic-permissions/%2F/anna", body=bounds)
    with pytest.raises(ChannelClosedByBroker, match="write access to topic 'k'"):
        channel.basic_publish("amq.topic", "k", b"2")
    broker.ask("DELETE", "/topic-permissions/%2F/anna/amq.topic")
    again = broker.connect("anna").channel()
    again.confirm_delivery()
    again.basic_publish("amq.topic", "k", b"3")


@pytest.mark.acceptance
def test_a_connection_ends_with_the_permissions_in_its_virtual_host(broker: ApiBroker) -> None:
    connection = broker.connect("anna")
    connection.channel()
    broker.ask("DELETE", "/permissions/%2F/anna")
    with pytest.raises(ConnectionClosedByBroker) as raised:
        wait_for(lambda: connection.process_data_events(0.1), DEADLINE_S, "the end")
    assert raised.value.reply_code == 530
    assert "access to vhost '/' refused for user 'anna'" in raised.value.reply_text


def is_waited_for(broker: Broker) -> bool:
    """True if a request waits for the stream to grow."""
    lane = broker.context.vhosts["/"].queues["st"].lane
    assert isinstance(lane, ReadingLane)
    return bool(lane.watchers)


@pytest.mark.acceptance
@pytest.mark.parametrize("change", ["pattern", "permissions", "rules"])
def test_a_request_that_waits_for_a_stream_is_not_answered_without_the_right(
    broker: ApiBroker, change: str
) -> None:
    rule = AccessRule(rule="deny", users=("anna",), rights=("read",))
    denied = Settings(access_rules=(rule,))
    users = broker.thread.ask(lambda inside: inside.context.users)
    answers: list[Any] = []
    path = "/stream/%2F/st/tail?after=0&wait_ms=30000"
    waiting = threading.Thread(target=lambda: answers.append(broker.ask("GET", path, "anna")))
    waiting.start()
    broker.thread.wait_until(is_waited_for, "a waiting request")
    if change == "permissions":
        broker.ask("DELETE", "/permissions/%2F/anna")
    elif change == "pattern":
        allow(broker, read="^other$")
    else:  # as a reload of the settings does it
        rules = access_rules(denied, lambda *_: None)
        broker.thread.ask(lambda _: setattr(users, "rules", rules))
    sender = broker.connect().channel()
    sender.confirm_delivery()
    sender.basic_publish("", "st", b"1")
    waiting.join(DEADLINE_S)
    broker.thread.ask(lambda _: setattr(users, "rules", NO_RULES))
    assert [answer.status_code for answer in answers] == [403]
    assert "refused for user 'anna'" in answers[0].json()["reason"]


SLOW = "^team-(a|aa)+$"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/permissions/%2F/anna", {"configure": SLOW, "write": ".*", "read": ".*"}),
        ("/topic-permissions/%2F/anna", {"exchange": "amq.topic", "write": SLOW, "read": ".*"}),
    ],
)
def test_a_pattern_that_some_names_would_stop_the_broker_with_is_refused(
    broker: ApiBroker, path: str, body: dict[str, str]
) -> None:
    answer = broker.ask("PUT", path, body=body)
    assert answer.status_code == 400
    assert "takes more than 5 ms for some names, such as 'team-aaaa" in answer.json()["reason"]
