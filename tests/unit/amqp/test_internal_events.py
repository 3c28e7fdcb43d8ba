"""What the event exchange is told of connections, channels, consumers and objects, by octets."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.broker.event_exchange import BROKER_ITSELF, EVENT_EXCHANGE, EventExchange
from hareline.wire.methods import commands

from .peer import Peer, Received, SteppedBroker

BASIC = commands.Basic
NAME = "127.0.0.1:40001 -> 127.0.0.1:5672"  # of the second client


class Watched:
    """A broker with an event exchange in "/", and a client that reads all events."""

    def __init__(self) -> None:
        broker = self.broker = SteppedBroker()
        self.events = EventExchange(
            broker.turn, broker.clock, broker, broker._report, node="hareline@test"
        )
        broker.context.events = self.events
        broker.context.alarms.on_changed.append(self.events.on_alarm)
        broker.vhost.open_events(self.events)
        broker.vhost.tell_events(self.events)
        self.watcher = broker.connect()
        self.watcher.declare("events")
        self.watcher.bind("events", EVENT_EXCHANGE, "#")
        self.read()

    def read(self) -> list[Received]:
        self.broker.run_turns()
        found = []
        while (event := self.watcher.get("events", no_ack=True)) is not None:
            found.append(event)
        return found

    def happened(self) -> list[tuple[str, dict[str, Any]]]:
        """Keys and headers of all events since the last call; times are checked here."""
        happened = []
        for event in self.read():
            assert event.body == b""
            assert event.properties is not None
            assert event.properties.delivery_mode == 2
            assert event.properties.timestamp == self.broker.clock.now_ms // 1000
            headers = dict(event.properties.headers or {})
            assert headers.pop("timestamp_in_ms") == self.broker.clock.now_ms
            happened.append((event.method.routing_key, headers))
        return happened

    def keys(self) -> list[str]:
        return [key for key, _ in self.happened()]


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_connection_from_its_login_to_its_end(watched: Watched) -> None:
    peer = watched.broker.connect()
    happened = watched.happened()
    assert [key for key, _ in happened] == [
        "user.authentication.success",
        "connection.created",
        "channel.created",
    ]
    (_, login), (_, created), (_, channel) = happened
    ends = {"host": "127.0.0.1", "peer_host": "127.0.0.1", "peer_port": 40001}
    assert login.items() >= {"name": "guest", "connection_name": NAME, **ends}.items()
    assert created.items() >= {"name": NAME, "user": "guest", "vhost": "/", **ends}.items()
    assert created["pid"] == NAME
    assert created["user_who_performed_action"] == "guest"
    assert channel["name"] == f"{NAME} (1)"
    assert channel["connection"] == NAME
    peer.call(1, commands.Channel.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    assert watched.happened() == [
        (
            "channel.closed",
            {"pid": f"{NAME} (1)", "name": f"{NAME} (1)", "user_who_performed_action": "guest"},
        )
    ]
    peer.lose()
    ((key, closed),) = watched.happened()
    assert key == "connection.closed"
    assert closed.items() >= {"pid": NAME, "vhost": "/"}.items()


def test_a_refused_login_is_an_event_and_no_connection(watched: Watched) -> None:
    peer = watched.broker.accept()
    peer.start("guest", "wrong")
    ((key, failure),) = watched.happened()
    assert key == "user.authentication.failure"
    assert failure["name"] == "guest"
    assert "authentication of user 'guest' by PLAIN failed" in failure["error"]
    peer.lose()
    assert watched.keys() == []


def test_objects_say_who_made_them(watched: Watched) -> None:
    peer = watched.broker.connect()
    watched.read()
    peer.declare_exchange("x", "topic")
    peer.declare("q", arguments={"x-max-length": 5})
    peer.bind("q", "x", "k.#")
    (_, exchange), (_, queue), (_, binding) = watched.happened()
    assert exchange == {
        "name": "x",
        "vhost": "/",
        "type": "topic",
        "durable": False,
        "auto_delete": False,
        "internal": False,
        "arguments": {},
        "policy": "",
        "user_who_performed_action": "guest",
    }
    assert queue == {
        "name": "q",
        "vhost": "/",
        "durable": False,
        "auto_delete": False,
        "exclusive": False,
        "arguments": {"x-max-length": 5},
        "user_who_performed_action": "guest",
    }
    assert binding == {
        "source_name": "x",
        "source_kind": "exchange",
        "destination_name": "q",
        "destination_kind": "queue",
        "routing_key": "k.#",
        "arguments": {},
        "vhost": "/",
        "user_who_performed_action": "guest",
    }
    peer.call(1, commands.Queue.Delete, queue="q")
    assert watched.keys() == ["binding.deleted", "queue.deleted"]
    peer.call(1, commands.Exchange.Delete, exchange="x")
    assert watched.keys() == ["exchange.deleted"]


def test_what_ends_by_itself_is_the_broker_s_doing(watched: Watched) -> None:
    peer = watched.broker.connect()
    peer.declare("q", arguments={"x-expires": 1000})
    watched.read()
    watched.broker.advance(1)
    ((key, deleted),) = watched.happened()
    assert (key, deleted["user_who_performed_action"]) == ("queue.deleted", BROKER_ITSELF)


def test_a_consumer_comes_and_goes(watched: Watched) -> None:
    peer = watched.broker.connect()
    peer.declare("q")
    watched.read()
    peer.call(1, BASIC.Qos, prefetch_count=5)
    peer.subscribe("q", "c", arguments={"x-priority": 3})
    ((key, created),) = watched.happened()
    assert key == "consumer.created"
    assert created == {
        "consumer_tag": "c",
        "channel": f"{NAME} (1)",
        "queue": "q",
        "vhost": "/",
        "exclusive": False,
        "ack_required": True,
        "prefetch_count": 5,
        "arguments": {"x-priority": 3},
        "user_who_performed_action": "guest",
    }
    peer.call(1, BASIC.Cancel, consumer_tag="c")
    ((key, deleted),) = watched.happened()
    assert key == "consumer.deleted"
    assert deleted["consumer_tag"] == "c"


@pytest.mark.parametrize("how", ["channel", "queue", "connection"])
def test_a_consumer_is_deleted_once_whatever_ends_it(watched: Watched, how: str) -> None:
    peer = watched.broker.connect()
    peer.declare("q", auto_delete=True)
    peer.subscribe("q", "c")
    watched.read()
    if how == "channel":
        peer.call(1, commands.Channel.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    elif how == "queue":
        peer.send(1, commands.Queue.Delete, queue="q")
    else:
        peer.lose()
    keys = watched.keys()
    assert keys.count("consumer.deleted") == 1
    assert keys.count("queue.deleted") == 1


def test_a_consumer_of_the_events_sees_itself_and_no_loop(watched: Watched) -> None:
    watched.watcher.consume("events", "reader")
    watched.broker.run_turns()
    received = [each for each in watched.watcher.receive() if each.name == "basic.deliver"]
    assert [each.method.routing_key for each in received] == ["consumer.created"]
    watched.broker.run_turns()
    watched.watcher.expect_nothing()


def test_alarms_are_told_once_each(watched: Watched) -> None:
    alarms = watched.broker.context.alarms
    for _ in range(2):
        alarms.set("memory")
    for _ in range(2):
        alarms.clear("memory")
    fields = {"source": "memory", "node": "hareline@test"}
    assert watched.happened() == [("alarm.set", fields), ("alarm.cleared", fields)]


def test_events_of_other_virtual_hosts_come_here(watched: Watched) -> None:
    broker = watched.broker
    broker.add_vhost("other").tell_events(watched.events)
    broker.add_user("both", "both", vhosts=("/", "other"))
    other = broker.connect("both", vhost="other")
    watched.read()
    other.declare("q")
    ((key, created),) = watched.happened()
    assert (key, created["vhost"]) == ("queue.created", "other")


def test_without_an_event_exchange_nothing_is_told(peer: Peer) -> None:
    assert peer.broker.context.events is None
    assert EVENT_EXCHANGE not in peer.broker.vhost.exchanges
    peer.declare("q")
    peer.subscribe("q", "c")
    peer.lose()
    assert "q" in peer.broker.vhost.queues
