"""The audit stream of a real broker, written by what pika does and read with pika.

Events are compared whole, but for their times and the names of consumers that pika made up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from hareline.settings import Settings
from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.broker_thread import StartBroker
from tests.support.command_line import CommandLine
from tests.support.http_api import HttpApi
from tests.support.pika_calls import channel_to
from tests.support.waiting import wait_for

STREAM = "hareline.audit"
AUDITED = '[[vhosts]]\nname = "/"\naudit = "all"\n'
PLAIN = '[[vhosts]]\nname = "/"\n'
DEADLINE_S = 60.0

Event = dict[str, Any]


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> BrokerProcess:
    return start_daemon(AUDITED)


class Reader:
    """Reads the audit stream from its beginning, on a connection of its own."""

    def __init__(self, channel: BlockingChannel) -> None:
        self._channel = channel
        self.events: list[Event] = []
        self.offsets: list[int] = []
        channel.basic_qos(prefetch_count=100)
        channel.basic_consume(STREAM, self._take, arguments={"x-stream-offset": "first"})

    def _take(self, channel: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        lines = body.splitlines()
        assert properties.content_type == "application/x-ndjson"
        assert properties.headers["x-event-count"] == len(lines)
        self.offsets.append(properties.headers["x-stream-offset"])
        self.events += [json.loads(line) for line in lines]
        channel.basic_ack(method.delivery_tag)

    def until(self, word: str, **fields: object) -> list[Event]:
        """All events so far, once there is one like this; without their times, which only grow."""

        def is_there() -> bool:
            self._channel.connection.process_data_events(time_limit=0.05)
            wanted = {"event": word, **fields}
            return any(wanted.items() <= event.items() for event in self.events)

        wait_for(is_there, DEADLINE_S, f"an event {word} {fields}")
        times = [event["ts_us"] for event in self.events]
        assert times == sorted(times)
        return [
            {key: value for key, value in event.items() if key != "ts_us"} for event in self.events
        ]


@contextmanager
def reading(daemon: BrokerProcess) -> Iterator[Reader]:
    with channel_to(daemon.url, confirms=False) as channel:
        yield Reader(channel)


def entry(word: str, queue: str, offset: int, size: int, **further: Any) -> Event:
    count = {} if word == "routed" else {"delivery_count": 0}
    place = {"queue": queue, "offset": offset, "exchange": "", "routing_key": queue}
    return {"event": word, **place, "size": size, **count, **further}


def published(key: str, size: int, queues: int = 1) -> Event:
    place = {"exchange": "", "routing_key": key}
    return {"event": "published", **place, "size": size, "queues": queues}


@pytest.mark.acceptance
def test_the_whole_life_of_messages(daemon: BrokerProcess) -> None:
    with channel_to(daemon.url) as channel:
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        channel.queue_declare("q", durable=True, arguments=dead)
        channel.queue_declare("dead", durable=True)
        channel.basic_publish("", "q", b"1")
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("", "nowhere", b"22", mandatory=True)
        ((method, _, _),) = list(take(channel, "q", "mine", 1))
        channel.basic_nack(method.delivery_tag, requeue=True)
        ((method, _, _),) = list(take(channel, "q", "again", 1))
        channel.basic_reject(method.delivery_tag, requeue=False)
        method, _, _ = channel.basic_get("dead")
        assert method is not None
        channel.basic_ack(method.delivery_tag)
        channel.basic_publish("", "q", b"333", pika.BasicProperties(expiration="1"))
        wait_for(lambda: channel.basic_get("dead", auto_ack=True)[0], DEADLINE_S, "a dead letter")
        channel.basic_publish("", "q", b"4444")
        channel.queue_purge("q")
        channel.basic_publish("", "q", b"55555")
        channel.queue_delete("q")
    with reading(daemon) as reader:
        told = reader.until("dropped", reason="deleted")
    count = {"delivery_count": 1}
    gone = {"event": "dropped", "queue": "q", "count": 1}
    assert told == [
        published("q", 1),
        entry("routed", "q", 0, 1),
        published("nowhere", 2, 0),
        {"event": "unroutable", "exchange": "", "routing_key": "nowhere", "size": 2},
        entry("delivered", "q", 0, 1, consumer_tag="mine"),
        entry("requeued", "q", 0, 1, consumer_tag="mine", **count),
        entry("delivered", "q", 0, 1, consumer_tag="again", **count),
        entry("rejected", "q", 0, 1, consumer_tag="again", **count),
        entry("routed", "dead", 0, 1),
        entry("dead-lettered", "q", 0, 1, reason="rejected", **count),
        entry("delivered", "dead", 0, 1),
        entry("acked", "dead", 0, 1),
        published("q", 3),
        entry("routed", "q", 1, 3),
        entry("expired", "q", 1, 3),
        entry("routed", "dead", 1, 3),
        entry("dead-lettered", "q", 1, 3, reason="expired"),
        entry("delivered", "dead", 1, 3),
        entry("acked", "dead", 1, 3),
        published("q", 4),
        entry("routed", "q", 2, 4),
        {**gone, "offset": 2, "last_offset": 2, "reason": "purged"},
        published("q", 5),
        entry("routed", "q", 3, 5),
        {**gone, "offset": 3, "last_offset": 3, "reason": "deleted"},
    ]


def take(channel: BlockingChannel, queue: str, tag: str, count: int) -> Iterator[Any]:
    """So many deliveries to a consumer with this tag, which is cancelled then."""
    got: list[Any] = []
    channel.basic_consume(queue, lambda _, *delivery: got.append(delivery), consumer_tag=tag)
    while len(got) < count:
        channel.connection.process_data_events(time_limit=1)
    channel.basic_cancel(tag)
    yield from got


@pytest.mark.acceptance
def test_the_life_of_the_acks_of_a_consumer(daemon: BrokerProcess) -> None:
    with channel_to(daemon.url) as channel, reading(daemon) as reader:
        channel.queue_declare("q")
        for body in (b"1", b"22"):
            channel.basic_publish("", "q", body)
        deliveries = list(take(channel, "q", "mine", 2))
        channel.basic_ack(deliveries[-1][0].delivery_tag, multiple=True)
        told = reader.until("acked", offset=1)
    assert told[4:] == [
        entry("delivered", "q", 0, 1, consumer_tag="mine"),
        entry("delivered", "q", 1, 2, consumer_tag="mine"),
        entry("acked", "q", 0, 1, consumer_tag="mine"),
        entry("acked", "q", 1, 2, consumer_tag="mine"),
    ]


@pytest.mark.acceptance
def test_a_transaction_is_in_the_stream_if_it_was_committed(daemon: BrokerProcess) -> None:
    with channel_to(daemon.url, confirms=False) as channel, reading(daemon) as reader:
        channel.queue_declare("q", durable=True)
        channel.tx_select()
        channel.basic_publish("", "q", b"lost")
        channel.tx_rollback()
        channel.basic_publish("", "q", b"kept!")
        channel.tx_commit()
        channel.basic_publish("", "q", b"not committed")
        channel.connection.close()
        with channel_to(daemon.url) as other:
            other.queue_delete("q")
        told = reader.until("dropped", reason="deleted")
    assert told[:2] == [published("q", 5), entry("routed", "q", 0, 5)]
    assert len(told) == 3


@pytest.mark.acceptance
@pytest.mark.parametrize("is_crash", [False, True], ids=["stop", "kill"])
def test_the_stream_goes_on_after_a_restart(daemon: BrokerProcess, is_crash: bool) -> None:
    persistent = pika.BasicProperties(delivery_mode=2)
    with channel_to(daemon.url) as channel:
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"1", persistent)
        channel.basic_publish("", "q", b"22", persistent)
    if is_crash:
        daemon.kill()
        daemon.start()
    else:
        daemon.restart()
    with channel_to(daemon.url) as channel, reading(daemon) as reader:
        for _ in range(2):
            method, _, _ = channel.basic_get("q")
            assert method is not None
            channel.basic_ack(method.delivery_tag)
        told = reader.until("acked", offset=1)
    words = [(event["event"], event.get("offset")) for event in told]
    assert words == [
        *(("published", None), ("routed", 0), ("published", None), ("routed", 1)),
        *(("delivered", 0), ("acked", 0), ("delivered", 1), ("acked", 1)),
    ]
    assert reader.offsets == list(range(len(reader.offsets)))


@pytest.mark.acceptance
@pytest.mark.parametrize("is_crash", [False, True], ids=["stop", "kill"])
def test_no_offset_comes_again_after_a_restart(daemon: BrokerProcess, is_crash: bool) -> None:
    """Nothing on disk tells of the transient one, nor of one that is gone at once."""
    told: list[Event] = []
    for life in range(2):
        with channel_to(daemon.url) as channel:
            channel.queue_declare("q", durable=True)
            stream = channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
            assert stream.method.message_count == 2 * life
            channel.basic_consume("q", lambda *_: None, auto_ack=True)
            for mode in (1, 2):
                channel.basic_publish("", "q", b"1", pika.BasicProperties(delivery_mode=mode))
                channel.basic_publish("", "s", b"1", pika.BasicProperties(delivery_mode=mode))
            with reading(daemon) as reader:
                told = reader.until("routed", queue="s", offset=2 * life + 1)
        if is_crash:
            daemon.kill()
            daemon.start()
        else:
            daemon.restart()
    routed = [(event["queue"], event["offset"]) for event in told if event["event"] == "routed"]
    assert len(set(routed)) == len(routed) == 8
    assert [offset for queue, offset in routed if queue == "s"] == [0, 1, 2, 3]


@pytest.mark.acceptance
def test_what_an_orderly_stop_causes_is_in_the_stream(daemon: BrokerProcess) -> None:
    with channel_to(daemon.url) as channel:
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"1", pika.BasicProperties(delivery_mode=2))
        assert channel.basic_get("q")[0] is not None
        daemon._management_port = daemon.management_port or 0
        process = daemon.process
        assert process is not None
        process.terminate()
        with pytest.raises(pika.exceptions.AMQPError):
            channel.connection.process_data_events(time_limit=DEADLINE_S)
        assert process.wait(DEADLINE_S) == 0
    daemon.start()
    with reading(daemon) as reader:
        told = reader.until("requeued", offset=0)
    assert told[-1] == entry("requeued", "q", 0, 1, delivery_count=1)


@pytest.mark.acceptance
def test_the_stream_stays_when_audit_is_switched_off(daemon: BrokerProcess) -> None:
    with channel_to(daemon.url) as channel:
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"1")
    daemon.config_path.write_text(PLAIN)
    daemon.restart()
    with channel_to(daemon.url) as channel, reading(daemon) as reader:
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"22")
        assert channel.basic_get("q", auto_ack=True)[0] is not None
        assert len(reader.until("routed", offset=0)) == 2
        channel.queue_delete(STREAM)


@pytest.mark.acceptance
def test_a_queue_of_a_client_in_the_place_of_the_stream_ends_the_start(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(PLAIN)
    with channel_to(daemon.url) as channel:
        channel.queue_declare(STREAM, durable=True)
    daemon.stop()
    daemon.config_path.write_text(AUDITED)
    done = CommandLine().serve(
        "--config", str(daemon.config_path), "--data-dir", str(daemon.data_dir)
    )
    assert done.status != 0
    assert (
        "queue 'hareline.audit' in vhost '/' is in the definitions, but cannot be made: it is no "
        "stream, so no audit can be written there; switch the option 'audit' of the virtual host "
        "off, delete the queue, and switch it on again"
    ) in (done.text + done.err).replace("\n", " ")


@pytest.mark.acceptance
def test_a_binding_that_a_client_made_is_left_out_while_audit_is_on(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(PLAIN)
    with channel_to(daemon.url) as channel:
        channel.exchange_declare("x", "fanout", durable=True)
        channel.queue_declare(STREAM, durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_bind(STREAM, "x")
    daemon.config_path.write_text(AUDITED)
    daemon.restart()
    with channel_to(daemon.url) as channel, reading(daemon) as reader:
        channel.basic_publish("x", "k", b"1")
        place = {"exchange": "x", "routing_key": "k", "size": 1}
        assert reader.until("unroutable") == [
            {"event": "published", **place, "queues": 0},
            {"event": "unroutable", **place},
        ]
    daemon.config_path.write_text(PLAIN)
    daemon.restart()
    with channel_to(daemon.url) as channel:
        channel.basic_publish("x", "k", b"1", mandatory=True)


@pytest.mark.acceptance
def test_while_the_disk_is_short_events_are_counted_and_nothing_waits(
    start_daemon: StartDaemon,
) -> None:
    short = AUDITED + '[disk]\ncheck_interval_s = 0.05\nfree_watermark = "100%"\n'
    daemon = start_daemon(short.replace('"100%"', "1000"))
    with channel_to(daemon.url) as channel, reading(daemon) as reader:
        channel.queue_declare("q")
        for _ in range(3):
            channel.basic_publish("", "q", b"1")
        reader.until("routed", offset=2)
        daemon.reload(short)
        has_alarm(daemon, is_on=True)
        for _ in range(3):
            assert channel.basic_get("q", auto_ack=True)[0] is not None
        daemon.reload(short.replace('"100%"', "1000"))
        told = reader.until("lost")
    assert {key: told[-1][key] for key in ("event", "count", "reason")} == {
        "event": "lost",
        "count": 6,
        "reason": "low on disk",
    }
    assert told[-1]["since_us"] > 0
    assert [event["event"] for event in told].count("acked") == 0


@pytest.mark.acceptance
def test_while_the_store_refuses_events_are_counted(start_broker: StartBroker) -> None:
    settings = Settings.model_validate({"vhosts": [{"name": "/", "audit": "all"}]})
    broker = start_broker(settings)
    host, port = broker.address
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, port))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"1")
    broker.ask(lambda each: each._store.refuse("no space left on device"))
    channel.basic_publish("", "q", b"22")  # transient, so it is taken
    assert channel.basic_get("q", auto_ack=True)[0] is not None
    broker.ask(lambda each: each._store.refuse(""))
    told = Reader(channel).until("lost")
    connection.close()
    del told[-1]["since_us"]
    assert told[:2] == [published("q", 1), entry("routed", "q", 0, 1)]
    assert told[2:] == [{"event": "lost", "count": 4, "reason": "no space left on device"}]


def has_alarm(daemon: BrokerProcess, *, is_on: bool) -> None:
    api = HttpApi(daemon.management_url, None)

    def is_so() -> bool:
        return bool(api.get("/api/health")["alarms"]) is is_on

    wait_for(is_so, DEADLINE_S, "the alarm")


@pytest.mark.acceptance
def test_a_change_of_audit_waits_for_a_restart(daemon: BrokerProcess) -> None:
    daemon.reload(PLAIN)
    wait_for(
        lambda: "vhosts: /.audit" in daemon.log_path.read_text(), DEADLINE_S, "what needs a restart"
    )
    with channel_to(daemon.url) as channel, reading(daemon) as reader:
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"1")
        reader.until("routed", offset=0)


@pytest.mark.acceptance
def test_a_virtual_host_that_a_reload_adds_has_audit_at_once(daemon: BrokerProcess) -> None:
    user = (
        '[[users]]\nname = "guest"\npassword = "guest"\npermissions = '
        '[{ vhost = "/", configure = ".*", write = ".*", read = ".*" }, '
        '{ vhost = "new", configure = ".*", write = ".*", read = ".*" }]\n'
    )
    daemon.reload(AUDITED + '[[vhosts]]\nname = "new"\naudit = "sample:1"\n' + user)

    def connect() -> pika.BlockingConnection | None:
        try:
            return pika.BlockingConnection(pika.URLParameters(daemon.url_for(vhost="new")))
        except pika.exceptions.AMQPError:
            return None

    connection = wait_for(connect, DEADLINE_S, "the new virtual host")
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"1")
    assert len(Reader(channel).until("routed", queue="q")) == 2
    connection.close()


@pytest.mark.acceptance
def test_a_replay_into_the_stream_is_refused(daemon: BrokerProcess) -> None:
    wanted = {"queue": "q", "to_queue": STREAM, "from": 0, "to": 1}
    status, refusal = HttpApi(daemon.management_url).call("POST", "/api/replay", wanted)
    assert (status, refusal["error"]) == (403, "access_refused")
    assert refusal["reason"].startswith("to_queue: only the broker publishes to queue")
