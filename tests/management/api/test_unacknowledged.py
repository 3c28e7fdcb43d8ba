"""Messages that clients have not acknowledged: whose they are, since when, and page by page."""

from __future__ import annotations

from typing import Any

import pika
import pytest

from tests.support.api_broker import PASSWORD, ApiBroker, segment


def path_of_queue(name: str) -> str:
    return f"/queues/%2F/{segment(name)}/unacknowledged"


def path_of_channel(broker: ApiBroker, connection: Any, number: int = 1) -> str:
    return f"/channels/{segment(f'{broker.name_of(connection)} ({number})')}/unacknowledged"


def path_of_consumer(broker: ApiBroker, connection: Any, tag: str) -> str:
    name = segment(broker.name_of(connection))
    return f"/consumers/%2F/{name}/1/{segment(tag)}/unacknowledged"


def fill(channel: Any, queue: str, *bodies: bytes, **declared: Any) -> None:
    channel.queue_declare(queue, **declared)
    for body in bodies:
        properties = pika.BasicProperties(content_type="text/plain", headers={"size": len(body)})
        channel.basic_publish("", queue, body, properties)


def hold(channel: Any, queue: str, tag: str, prefetch: int = 0) -> None:
    """Consume, and acknowledge nothing."""
    channel.basic_qos(prefetch_count=prefetch)
    channel.basic_consume(queue, lambda *_: None, consumer_tag=tag)


def later_than(broker: ApiBroker, connection: Any) -> Any:
    """A connection that came at least a millisecond after this one, so that pages have it later."""

    def came_ms(each: Any) -> int:
        return int(broker.get(f"/connections/{segment(broker.name_of(each))}")["connected_at"])

    while came_ms(later := broker.connect()) <= came_ms(connection):
        later.close()
    return later


def pages(broker: ApiBroker, path: str, count: int) -> list[list[str]]:
    """The bodies of all pages."""
    found: list[list[str]] = []
    position: str | None = ""
    while position is not None:
        query = f"?count={count}" + (f"&position={segment(position)}" if position else "")
        page = broker.get(path + query)
        found.append([each["payload"] for each in page["messages"]])
        position = page["position"]
    return found


@pytest.mark.acceptance
def test_what_a_stuck_consumer_has_and_since_when(broker: ApiBroker) -> None:
    connection = broker.connect()
    channel = connection.channel()
    fill(channel, "stuck", b"one", b"two", b"\xff", b"waits", auto_delete=True)
    hold(channel, "stuck", "holder", prefetch=3)
    path = path_of_consumer(broker, connection, "holder")
    page = broker.wait_for(
        path,
        lambda page: (
            len(page["messages"]) == 3 and None not in [each["age_s"] for each in page["messages"]]
        ),
        "deliveries that samples have seen",
    )
    assert [each["payload"] for each in page["messages"]] == ["one", "two", "/w=="]
    assert [each["payload_encoding"] for each in page["messages"]] == ["string", "string", "base64"]
    assert [each["delivery_tag"] for each in page["messages"]] == [1, 2, 3]
    assert [each["offset"] for each in page["messages"]] == [0, 1, 2]
    first = page["messages"][0]
    assert (first["state"], first["queue"], first["routing_key"]) == (
        "unacknowledged",
        "stuck",
        "stuck",
    )
    assert first["properties"] == {"content_type": "text/plain", "headers": {"size": 3}}
    name = broker.name_of(connection)
    assert first["held_by"] == {
        "consumer_tag": "holder",
        "channel": f"{name} (1)",
        "connection_name": name,
        "user": "admin",
    }
    assert page["position"] is None
    for same in (path_of_queue("stuck"), path_of_channel(broker, connection)):
        assert [each["delivery_tag"] for each in broker.get(same)["messages"]] == [1, 2, 3]
    row = broker.get("/queues/%2F/stuck")  # it was looked at, and nothing else
    assert (row["messages_ready"], row["messages_unacknowledged"]) == (1, 3)


@pytest.mark.acceptance
def test_pages_go_on_behind_what_was_shown_while_messages_are_acknowledged(
    broker: ApiBroker,
) -> None:
    connection = broker.connect()
    first, second = connection.channel(), later_than(broker, connection).channel()
    fill(first, "paged", *[b"%d" % number for number in range(5)], auto_delete=True)
    hold(first, "paged", "first", prefetch=3)
    broker.wait_for(path_of_queue("paged"), lambda page: len(page["messages"]) == 3, "three")
    hold(second, "paged", "second")
    broker.wait_for(path_of_queue("paged"), lambda page: len(page["messages"]) == 5, "five")
    assert pages(broker, path_of_queue("paged"), 2) == [["0", "1"], ["2", "3"], ["4"]]
    page = broker.get(path_of_queue("paged") + "?count=2")
    first.basic_ack(3, multiple=True)
    broker.wait_for(
        "/queues/%2F/paged",
        lambda row: row["messages_unacknowledged"] == 2,
        "what the second consumer has",
    )
    rest = broker.get(f"{path_of_queue('paged')}?position={segment(page['position'])}")
    assert [each["payload"] for each in rest["messages"]] == ["3", "4"]


def test_pages_go_on_when_the_connection_that_they_ended_in_has_gone(broker: ApiBroker) -> None:
    gone = broker.connect()
    stays = later_than(broker, gone)
    channel = gone.channel()
    fill(channel, "going", b"a", b"b", b"c", auto_delete=True)
    hold(channel, "going", "gone", prefetch=2)
    broker.wait_for(path_of_queue("going"), lambda page: len(page["messages"]) == 2, "two")
    hold(stays.channel(), "going", "stays")
    broker.wait_for(path_of_queue("going"), lambda page: len(page["messages"]) == 3, "three")
    position = broker.get(path_of_queue("going") + "?count=1")["position"]
    gone.close()
    page = broker.wait_for(
        f"{path_of_queue('going')}?position={segment(position)}",
        lambda page: len(page["messages"]) == 3,
        "what went to the other consumer",
    )
    assert {each["held_by"]["consumer_tag"] for each in page["messages"]} == {"stays"}


def test_what_was_got_and_what_a_cancelled_consumer_has(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    fill(channel, "got", b"g", b"c")
    assert channel.basic_get("got")[0] is not None
    [message] = broker.get(path_of_queue("got"))["messages"]
    assert message["held_by"]["consumer_tag"] is None
    taken: list[bytes] = []
    channel.basic_consume("got", lambda *each: taken.append(each[-1]), consumer_tag="cancelled")
    while not taken:
        channel.connection.process_data_events(1)
    channel.basic_cancel("cancelled")
    page = broker.get(path_of_queue("got"))
    assert [each["payload"] for each in page["messages"]] == ["g", "c"]
    channel.queue_delete("got")


@pytest.mark.acceptance
def test_a_channel_shows_all_its_queues_and_a_queue_its_own_messages_alone(
    broker: ApiBroker,
) -> None:
    """A thousand others stand before it on the channel, which are passed over in shares."""
    connection = broker.connect()
    channel = connection.channel()
    fill(channel, "many", *[b"m"] * 2_500, auto_delete=True)
    fill(channel, "few", b"f", auto_delete=True)
    hold(channel, "many", "many")
    broker.wait_for(
        "/queues/%2F/many", lambda row: row["messages_unacknowledged"] == 2_500, "all of them"
    )
    hold(channel, "few", "few")
    page = broker.wait_for(path_of_queue("few"), lambda page: page["messages"], "the one")
    assert [(each["payload"], each["delivery_tag"]) for each in page["messages"]] == [("f", 2_501)]
    of_channel = broker.get(path_of_channel(broker, connection) + "?count=1000")
    assert len(of_channel["messages"]) == 1_000
    assert sum(map(len, pages(broker, path_of_channel(broker, connection), 1_000))) == 2_501


def test_readings_of_a_stream_are_shown_too(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    fill(channel, "log", b"r0", b"r1", durable=True, arguments={"x-queue-type": "stream"})
    channel.basic_qos(prefetch_count=10)
    channel.basic_consume(
        "log", lambda *_: None, consumer_tag="reads", arguments={"x-stream-offset": "first"}
    )
    page = broker.wait_for(
        path_of_queue("log"), lambda page: len(page["messages"]) == 2, "both readings"
    )
    assert [(each["offset"], each["payload"]) for each in page["messages"]] == [
        (0, "r0"),
        (1, "r1"),
    ]
    assert page["messages"][0]["held_by"]["consumer_tag"] == "reads"


@pytest.mark.acceptance
def test_what_is_left_between_many_that_are_acknowledged(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    fill(channel, "gaps", *[b"%d" % number for number in range(100)], auto_delete=True)
    hold(channel, "gaps", "gaps")
    path = path_of_queue("gaps") + "?count=100"
    broker.wait_for(path, lambda page: len(page["messages"]) == 100, "all of them")
    for tag in {*range(1, 101)} - {1, 50, 100}:
        channel.basic_ack(tag)
    broker.wait_for(path, lambda page: len(page["messages"]) == 3, "the acknowledgements")
    assert pages(broker, path_of_queue("gaps"), 2) == [["0", "49"], ["99"]]


@pytest.mark.acceptance
def test_acknowledgements_of_a_transaction_that_is_rolled_back(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    fill(channel, "tx", b"a", b"b", b"c", auto_delete=True)
    hold(channel, "tx", "tx")
    path = path_of_queue("tx")
    broker.wait_for(path, lambda page: len(page["messages"]) == 3, "the deliveries")
    channel.tx_select()
    channel.basic_ack(1)
    broker.wait_for(path, lambda page: len(page["messages"]) == 2, "the ack to be kept")
    channel.tx_rollback()
    assert pages(broker, path, 2) == [["a", "b"], ["c"]]
    channel.basic_ack(3, multiple=True)
    channel.tx_commit()
    assert broker.get(path)["messages"] == []


@pytest.mark.acceptance
def test_a_long_body_is_shown_in_full_where_that_is_asked_for(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    fill(channel, "long", b"l" * 400_000, b"short", auto_delete=True)
    hold(channel, "long", "long")
    path = f"{path_of_queue('long')}?truncate=400000"
    page = broker.wait_for(path, lambda page: len(page["messages"]) == 2, "the deliveries")
    first, second = page["messages"]
    assert (first["state"], first["payload"]) == ("unacknowledged", "l" * 400_000)
    assert (first["held_by"]["consumer_tag"], second["payload"]) == ("long", "short")
    [cut, _] = broker.get(path_of_queue("long"))["messages"]
    assert (len(cut["payload"]), cut["truncated"]) == (50_000, True)


@pytest.mark.acceptance
def test_bodies_are_cut_and_encoded_as_in_browse(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    fill(channel, "bodies", b'{"a": [1, 2]}', auto_delete=True)
    hold(channel, "bodies", "b")
    path = path_of_queue("bodies")
    broker.wait_for(path, lambda page: page["messages"], "the delivery")
    [message] = broker.get(f"{path}?encoding=json")["messages"]
    assert message["payload"] == {"a": [1, 2]}
    [message] = broker.get(f"{path}?encoding=hex&truncate=2")["messages"]
    assert (message["payload"], message["truncated"], message["payload_bytes"]) == (
        "7b22",
        True,
        13,
    )


@pytest.fixture
def narrow(broker: ApiBroker) -> str:
    """A user who sees all connections, and reads queues called open..."""
    body = {"password": PASSWORD, "tags": "monitoring"}
    assert broker.ask("PUT", "/users/narrow", json=body).status_code < 300
    rights = {"configure": "", "write": "", "read": "^open"}
    assert broker.ask("PUT", "/permissions/%2F/narrow", json=rights).status_code < 300
    return "narrow"


@pytest.mark.acceptance
def test_messages_of_queues_that_a_user_may_not_read_stay_hidden(
    broker: ApiBroker, narrow: str
) -> None:
    connection = broker.connect()
    channel = connection.channel()
    for name in ("open", "secret"):
        fill(channel, name, b"in %b" % name.encode(), auto_delete=True)
        hold(channel, name, name)
        broker.wait_for(path_of_queue(name), lambda page: page["messages"], "the delivery")
    for path in (path_of_queue("secret"), path_of_consumer(broker, connection, "secret")):
        status, refusal = broker.refused(path, narrow)
        assert (status, refusal["error"]) == (401, "not_authorised")
    for path in (path_of_queue("open"), path_of_consumer(broker, connection, "open")):
        assert [each["payload"] for each in broker.get(path, narrow)["messages"]] == ["in open"]
    page = broker.get(path_of_channel(broker, connection), narrow)
    assert [each["payload"] for each in page["messages"]] == ["in open"]
    assert page["hidden"] == 1
    assert broker.get(path_of_channel(broker, connection))["hidden"] == 0


@pytest.mark.acceptance
def test_channels_of_others_and_exclusive_queues_are_not_looked_into(broker: ApiBroker) -> None:
    connection = broker.connect()
    channel = connection.channel()
    fill(channel, "mine", b"m", exclusive=True)
    hold(channel, "mine", "mine")
    page = broker.wait_for(
        path_of_channel(broker, connection), lambda page: page["hidden"] == 1, "the delivery"
    )
    assert page["messages"] == []
    assert broker.refused(path_of_queue("mine"))[0] == 400
    assert broker.refused(path_of_consumer(broker, connection, "mine"))[0] == 400
    for path in (
        path_of_channel(broker, connection),
        path_of_consumer(broker, connection, "mine"),
    ):
        assert broker.refused(path, "manager")[0] == 404
    assert broker.refused(path_of_channel(broker, connection), "elsewhere")[0] == 404
    assert broker.refused(path_of_queue("mine"), "elsewhere")[0] == 401


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("count=0", "count"),
        ("count=1001", "count"),
        ("truncate=-1", "truncate"),
        ("encoding=rot13", "encoding"),
        ("position=", "position"),
        ("position=1-2-3", "position"),
        ("position=1-x-3-name", "position"),
        (f"position=1-1-1-{'x' * 1_024}", "position"),
    ],
)
def test_what_is_wrong_with_the_request_is_said(broker: ApiBroker, query: str, named: str) -> None:
    broker.connect().channel().queue_declare("asked", auto_delete=True)
    status, refusal = broker.refused(f"{path_of_queue('asked')}?{query}")
    assert status == 400
    assert refusal["reason"].startswith(f"{named}: ")


@pytest.mark.acceptance
def test_what_is_not_there(broker: ApiBroker) -> None:
    connection = broker.connect()
    connection.channel()
    for path in (
        path_of_queue("missing"),
        path_of_channel(broker, connection, 2),
        path_of_consumer(broker, connection, "missing"),
        "/channels/nowhere/unacknowledged",
    ):
        assert broker.refused(path)[0] == 404
