"""What a restart keeps: the daemon is stopped or killed, started again, and looked at with pika.

Each story runs twice where that makes a difference: after SIGTERM, and after SIGKILL.
"""

from __future__ import annotations

import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest
from pamqp import commands, frame
from pamqp.base import Frame
from pika.adapters.blocking_connection import BlockingChannel

from hareline.settings import Settings, Storage
from hareline.testing import running_broker
from tests.crash.stories import SMALL_WINDOWS
from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.command_line import CommandLine
from tests.support.pika_calls import channel_to, get_all, ready_count
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_for

SMALL_SEGMENTS = '[journal]\nsegment_bytes = "1MiB"\n'
DEADLINE_S = 60.0
PERSISTENT = pika.BasicProperties(delivery_mode=2)

Restart = Callable[[BrokerProcess], None]


both = pytest.mark.parametrize(
    "restart", [BrokerProcess.restart, BrokerProcess.restart_by_kill], ids=["stop", "kill"]
)


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> BrokerProcess:
    return start_daemon(SMALL_SEGMENTS)


def publish(
    channel: BlockingChannel, queue: str, *bodies: str, exchange: str = "", **properties: Any
) -> None:
    properties = {"delivery_mode": 2, **properties}
    for body in bodies:
        channel.basic_publish(exchange, queue, body.encode(), pika.BasicProperties(**properties))


def drained(channel: BlockingChannel, queue: str) -> list[str]:
    return [body.decode() for body in get_all(channel, queue)]


def is_there(daemon: BrokerProcess, *, queue: str = "", exchange: str = "") -> bool:
    with channel_to(daemon.url) as channel:
        try:
            if queue:
                channel.queue_declare(queue, passive=True)
            else:
                channel.exchange_declare(exchange, passive=True)
        except pika.exceptions.ChannelClosedByBroker as error:
            if error.reply_code != 404:
                raise
            return False
        return True


# ------------------------------------------------------------------------- definitions

EVERY_TYPE: dict[str, Any] = {
    "text": "größe",
    "whole": 7,
    "large": 2**40,
    "truth": True,
    "nothing": None,
    "decimal": Decimal("1.5"),
    "time": datetime(2024, 1, 1, tzinfo=UTC),
    "list": [1, "two", [3]],
    "table": {"inner": {"deep": 1}},
}


@pytest.mark.acceptance
@both
def test_durable_queues_come_back_with_every_argument_and_others_do_not(
    daemon: BrokerProcess, restart: Restart
) -> None:
    arguments = {"x-max-length": 10, "x-message-ttl": 60_000, **EVERY_TYPE}
    with channel_to(daemon.url) as channel:
        channel.queue_declare("kept", durable=True, arguments=arguments)
        channel.queue_declare("transient")
        channel.queue_declare("exclusive", durable=True, exclusive=True)
        channel.queue_declare("deleted", durable=True)
        channel.queue_delete("deleted")
        named = channel.queue_declare("", durable=True).method.queue
    restart(daemon)
    with channel_to(daemon.url) as channel:
        channel.queue_declare("kept", durable=True, arguments=arguments)  # equivalent
        channel.queue_declare(named, passive=True)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="x-max-length"):
            channel.queue_declare("kept", durable=True, arguments={**arguments, "x-max-length": 9})
    for gone in ("transient", "exclusive", "deleted"):
        assert not is_there(daemon, queue=gone), gone


@pytest.mark.acceptance
@both
def test_durable_exchanges_and_their_bindings_come_back(
    daemon: BrokerProcess, restart: Restart
) -> None:
    with channel_to(daemon.url) as channel:
        channel.queue_declare("q", durable=True)
        channel.queue_declare("p", durable=True)
        channel.exchange_declare("topic", "topic", durable=True)
        channel.exchange_declare(
            "headers", "headers", durable=True, arguments={"alternate-exchange": "topic"}
        )
        channel.exchange_declare("inside", "fanout", durable=True, internal=True)
        channel.exchange_declare("transient", "fanout")
        channel.queue_bind("q", "topic", "a.#")
        channel.queue_bind(
            "q", "headers", "", {"x-match": "all", "n": 1, "when": EVERY_TYPE["time"]}
        )
        channel.queue_bind("q", "amq.direct", "gone")
        channel.queue_unbind("q", "amq.direct", "gone")
        channel.queue_bind("p", "inside", "")
        channel.exchange_bind("inside", "topic", "b.*")
        channel.queue_bind("p", "transient", "")
    restart(daemon)
    with channel_to(daemon.url) as channel:
        publish(channel, "a.b.c", "by topic", exchange="topic")
        publish(channel, "b.x", "by two exchanges", exchange="topic")
        matching = {"n": 1, "when": EVERY_TYPE["time"]}
        publish(channel, "", "by headers", exchange="headers", headers=matching)
        publish(channel, "a.x", "by the alternate", exchange="headers", headers={"n": 2})
        publish(channel, "gone", "nowhere", exchange="amq.direct")
        assert drained(channel, "q") == ["by topic", "by headers", "by the alternate"]
        assert drained(channel, "p") == ["by two exchanges"]
    assert not is_there(daemon, exchange="transient")


@pytest.mark.acceptance
def test_what_was_deleted_stays_deleted(daemon: BrokerProcess) -> None:
    with channel_to(daemon.url) as channel:
        channel.exchange_declare("x", "fanout", durable=True)
        channel.queue_declare("q", durable=True)
        channel.queue_bind("q", "x")
        publish(channel, "q", "old")
        channel.queue_delete("q")
        channel.queue_declare("q", durable=True)  # another one of this name
        channel.exchange_delete("x")
    daemon.restart_by_kill()
    with channel_to(daemon.url) as channel:
        assert ready_count(channel, "q") == 0
    assert not is_there(daemon, exchange="x")


@pytest.mark.acceptance
def test_virtual_hosts_keep_to_themselves_and_one_that_is_not_listed_is_kept(
    start_daemon: StartDaemon,
) -> None:
    both_listed = '[[vhosts]]\nname = "/"\n[[vhosts]]\nname = "shop"\n' + SMALL_SEGMENTS
    daemon = start_daemon(both_listed)
    for vhost in ("/", "shop"):
        with channel_to(daemon.url_for(vhost=vhost)) as channel:
            channel.queue_declare("q", durable=True)
            publish(channel, "q", f"in {vhost}")
    daemon.stop()
    daemon.config_path.write_text(SMALL_SEGMENTS)
    daemon.start()
    with channel_to(daemon.url) as channel:
        assert ready_count(channel, "q") == 1
    assert '"VHT-1001"' in daemon.log_tail()
    daemon.reload(both_listed)
    wait_for(lambda: "vhosts: shop" in daemon.log_tail(), DEADLINE_S, "the word of a restart")
    daemon.restart()
    for vhost in ("/", "shop"):
        with channel_to(daemon.url_for(vhost=vhost)) as channel:
            assert drained(channel, "q") == [f"in {vhost}"]


# ---------------------------------------------------------------------------- messages


@pytest.mark.row("D8", "D9")
@pytest.mark.parametrize(
    "restart",
    [
        pytest.param(BrokerProcess.restart, marks=pytest.mark.acceptance, id="stop"),
        pytest.param(BrokerProcess.restart_by_kill, id="kill"),
    ],
)
def test_persistent_messages_come_back_as_they_were(
    daemon: BrokerProcess, restart: Restart
) -> None:
    properties: dict[str, Any] = {
        "content_type": "text/plain",
        "correlation_id": "c",
        "message_id": "m",
        "priority": 3,
        "timestamp": 1_700_000_000,
        "headers": EVERY_TYPE,
    }
    with channel_to(daemon.url) as channel:
        channel.queue_declare("q", durable=True)
        publish(channel, "q", "first", "x" * 300_000, "", **properties)
        publish(channel, "q", "transient", delivery_mode=1)
        publish(channel, "q", "last")
    restart(daemon)
    with channel_to(daemon.url) as channel:
        method, kept, body = channel.basic_get("q", auto_ack=True)
        assert (method.exchange, method.routing_key, body) == ("", "q", b"first")
        assert kept.delivery_mode == 2
        assert {name: getattr(kept, name) for name in properties} == properties
        assert drained(channel, "q") == ["x" * 300_000, "", "last"]


@pytest.mark.acceptance
@both
def test_settled_messages_do_not_come_back(daemon: BrokerProcess, restart: Restart) -> None:
    with channel_to(daemon.url) as channel:
        channel.queue_declare("q", durable=True)
        channel.queue_declare("purged", durable=True)
        publish(channel, "q", *map(str, range(10)))
        publish(channel, "purged", "a", "b")
        tags = {
            int(body): m.delivery_tag for m, _, body in (channel.basic_get("q") for _ in range(8))
        }
        channel.basic_ack(tags[4])
        channel.basic_ack(tags[2], multiple=True)
        channel.basic_reject(tags[6], requeue=False)
        channel.queue_purge("purged")
        publish(channel, "purged", "c")  # confirmed, and so is what was before it
    restart(daemon)
    with channel_to(daemon.url) as channel:
        assert drained(channel, "q") == ["3", "5", "7", "8", "9"]
        assert drained(channel, "purged") == ["c"]


@pytest.mark.acceptance
@both
def test_one_message_in_several_queues_is_settled_in_each_by_itself(
    daemon: BrokerProcess, restart: Restart
) -> None:
    queues = ["a", "b", "c"]
    with channel_to(daemon.url) as channel:
        channel.exchange_declare("x", "fanout", durable=True)
        for queue in queues:
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, "x")
        publish(channel, "", "one", "two", exchange="x")
        assert channel.basic_get("b", auto_ack=True)[2] == b"one"
        publish(channel, "c", "three")
    restart(daemon)
    with channel_to(daemon.url) as channel:
        assert [drained(channel, queue) for queue in queues] == [
            ["one", "two"],
            ["two"],
            ["one", "two", "three"],
        ]


class TestRedelivered:
    @pytest.mark.acceptance
    def test_after_a_crash_only_what_may_have_been_delivered_says_so(
        self, daemon: BrokerProcess
    ) -> None:
        with channel_to(daemon.url) as channel:
            channel.queue_declare("delivered", durable=True)
            channel.queue_declare("untouched", durable=True)
            publish(channel, "delivered", "a", "b")
            publish(channel, "untouched", "c")
        consumer = RawClient((daemon.host, daemon.port)).open()
        consumer.consume("delivered", no_ack=False)
        assert consumer.read_bodies(2) == [b"a", b"b"]
        daemon.restart_by_kill()
        consumer.drop()
        with channel_to(daemon.url) as channel:
            assert channel.basic_get("delivered")[0].redelivered
            assert not channel.basic_get("untouched")[0].redelivered

    @pytest.mark.acceptance
    def test_after_an_orderly_stop_it_is_exact(self, daemon: BrokerProcess) -> None:
        with channel_to(daemon.url) as channel:
            channel.queue_declare("q", durable=True)
            publish(channel, "q", "a", "b")
            channel.basic_get("q")
        daemon.restart()
        with channel_to(daemon.url) as channel:
            flags = [channel.basic_get("q")[0].redelivered for _ in range(2)]
        assert flags == [True, False]

    @pytest.mark.acceptance
    @both
    @pytest.mark.row("E26")
    def test_deliveries_are_counted_across_restarts(
        self, daemon: BrokerProcess, restart: Restart
    ) -> None:
        arguments = {
            "x-delivery-limit": 2,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        }
        with channel_to(daemon.url) as channel:
            channel.queue_declare("q", durable=True, arguments=arguments)
            channel.queue_declare("dead", durable=True)
            publish(channel, "q", "m")
            for _ in range(2):
                channel.basic_reject(channel.basic_get("q")[0].delivery_tag, requeue=True)
            publish(channel, "dead", "later")  # confirmed, and so are the returns before it
        restart(daemon)
        with channel_to(daemon.url) as channel:
            method, properties, _ = channel.basic_get("q")
            assert method.redelivered
            assert properties.headers["x-delivery-count"] == 2
            channel.basic_reject(method.delivery_tag, requeue=True)
            assert ready_count(channel, "q") == 0
            assert drained(channel, "dead") == ["later", "m"]

    @pytest.mark.acceptance
    @both
    @pytest.mark.row("E18")
    def test_what_waits_for_its_retry_waits_again(
        self, daemon: BrokerProcess, restart: Restart
    ) -> None:
        with channel_to(daemon.url) as channel:
            for queue, wait_ms in (("soon", 200), ("late", 3_600_000)):
                arguments = {"x-delayed-retry-min": wait_ms, "x-delivery-limit": 5}
                channel.queue_declare(queue, durable=True, arguments=arguments)
                publish(channel, queue, "m")
                channel.basic_nack(channel.basic_get(queue)[0].delivery_tag, requeue=True)
            publish(channel, "late", "n")  # confirmed, and so are the returns before it
        restart(daemon)
        with channel_to(daemon.url) as channel:
            wait_for(lambda: ready_count(channel, "soon") == 1, DEADLINE_S, "the retry")
            method, properties, _ = channel.basic_get("soon")
            assert method.redelivered
            assert properties.headers["x-delivery-count"] == 1
            assert drained(channel, "late") == ["n"]


class TestDefinitionsOfATurn:
    """What a client declares in one piece is made durable together, before it is told."""

    @staticmethod
    def send_burst(client: RawClient, count: int) -> None:
        methods: list[Frame] = [commands.Exchange.Declare(exchange="e", durable=True)]
        for number in range(count):
            name = f"q{number}"
            methods.append(commands.Queue.Declare(queue=name, durable=True))
            methods.append(commands.Queue.Bind(queue=name, exchange="e", routing_key=name))
        client.send_octets(b"".join(frame.marshal(method, 1) for method in methods))

    @pytest.mark.acceptance
    def test_all_that_was_told_survives_a_kill(self, daemon: BrokerProcess) -> None:
        count = 300
        with RawClient((daemon.host, daemon.port)) as client:
            client.open()
            self.send_burst(client, count)
            client.expect(commands.Exchange.DeclareOk)
            for _ in range(count):
                client.expect(commands.Queue.DeclareOk)
                client.expect(commands.Queue.BindOk)
            daemon.kill()
        daemon.start()
        with channel_to(daemon.url) as channel:
            for number in range(count):
                publish(channel, f"q{number}", "m", exchange="e")
                assert ready_count(channel, f"q{number}") == 1

    @pytest.mark.acceptance
    def test_without_room_nothing_of_it_is_told_or_there_and_later_all_is_well(
        self, daemon: BrokerProcess
    ) -> None:
        with channel_to(daemon.url) as channel:
            channel.queue_declare("before", durable=True)
        log = daemon.data_dir / "definitions.sqlite-wal"
        assert daemon.process is not None
        pid, no_limit = (
            daemon.process.pid,
            resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE),
        )
        with RawClient((daemon.host, daemon.port)) as client:
            client.open()
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (log.stat().st_size, no_limit[1]))
            self.send_burst(client, 5)
            closed = client.expect(commands.Connection.Close)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, no_limit)
            assert closed.reply_code == 506
            assert "definitions.sqlite" in (closed.reply_text or "")
        for number in range(5):
            assert not is_there(daemon, queue=f"q{number}")
        assert not is_there(daemon, exchange="e")
        with RawClient((daemon.host, daemon.port)) as client:
            client.open()
            self.send_burst(client, 5)
            client.expect(commands.Exchange.DeclareOk)
            for _ in range(5):
                client.expect(commands.Queue.DeclareOk)
                client.expect(commands.Queue.BindOk)
        with channel_to(daemon.url) as channel:
            publish(channel, "q3", "m", exchange="e")
        daemon.kill()
        daemon.start()
        with channel_to(daemon.url) as channel:
            assert drained(channel, "q3") == ["m"]
            assert ready_count(channel, "before") == 0


class TestOrders:
    @pytest.mark.acceptance
    @both
    def test_priorities(self, daemon: BrokerProcess, restart: Restart) -> None:
        with channel_to(daemon.url) as channel:
            channel.queue_declare("q", durable=True, arguments={"x-max-priority": 9})
            for priority in (1, 9, 5, 9, 1):
                publish(channel, "q", str(priority), priority=priority)
        restart(daemon)
        with channel_to(daemon.url) as channel:
            publish(channel, "q", "7", priority=7)
            assert drained(channel, "q") == ["9", "9", "7", "5", "1", "1"]

    @pytest.mark.acceptance
    @both
    def test_deep_priorities_through_two_restarts(
        self, start_daemon: StartDaemon, restart: Restart
    ) -> None:
        """Most of them are mere numbers after a start; 4 is the highest level there is."""
        daemon = start_daemon(SMALL_SEGMENTS, launcher=SMALL_WINDOWS)
        priorities = [None, 0, 3, 4, 5, 255, 1] * 12
        bodies = [f"{number:03}" for number in range(len(priorities))]
        levels = [min(priority or 0, 4) for priority in priorities]
        expected = sorted(bodies, key=lambda body: (-levels[int(body)], body))
        with channel_to(daemon.url) as channel:
            channel.queue_declare("later", durable=True)
            channel.queue_declare("q", durable=True, arguments={"x-max-priority": 4})
            for body, priority in zip(bodies, priorities, strict=True):
                expiration = "3600000" if int(body) % 10 == 0 else None
                publish(channel, "q", body, priority=priority, expiration=expiration)
        for _ in range(2):
            restart(daemon)
            with channel_to(daemon.url) as channel:
                assert ready_count(channel, "q") == len(expected)
                tags = []
                for body in expected[:20]:
                    method, properties, octets = channel.basic_get("q")
                    assert octets.decode() == body
                    assert properties.priority == priorities[int(body)]
                    tags.append(method.delivery_tag)
                for tag in tags[::2]:
                    channel.basic_ack(tag)
                channel.basic_nack(tags[-1], multiple=True, requeue=True)
                publish(channel, "later", "x")  # confirmed, and so is all before it
                del expected[:20:2]
        restart(daemon)
        with channel_to(daemon.url) as channel:
            method, _, octets = channel.basic_get("q")
            assert method.redelivered
            assert octets.decode() == expected.pop(0)
            channel.basic_ack(method.delivery_tag)
            assert drained(channel, "q") == expected

    @pytest.mark.acceptance
    @both
    def test_sorted(self, daemon: BrokerProcess, restart: Restart) -> None:
        with channel_to(daemon.url) as channel:
            channel.queue_declare("q", durable=True, arguments={"x-sort-key": "k"})
            for key in ("m", "a", "z"):
                publish(channel, "q", key, headers={"k": key})
        restart(daemon)
        with channel_to(daemon.url) as channel:
            publish(channel, "q", "n", headers={"k": "n"})
            assert drained(channel, "q") == ["a", "m", "n", "z"]

    @pytest.mark.acceptance
    @both
    def test_last_values(self, daemon: BrokerProcess, restart: Restart) -> None:
        with channel_to(daemon.url) as channel:
            channel.queue_declare("q", durable=True, arguments={"x-last-value-key": "k"})
            for body, key in (("a1", "a"), ("b1", "b"), ("a2", "a")):
                publish(channel, "q", body, headers={"k": key})
        restart(daemon)
        with channel_to(daemon.url) as channel:
            assert ready_count(channel, "q") == 2
            publish(channel, "q", "b2", headers={"k": "b"})
            assert drained(channel, "q") == ["a2", "b2"]

    @pytest.mark.acceptance
    @both
    def test_a_stream_goes_on_at_its_offset(self, daemon: BrokerProcess, restart: Restart) -> None:
        with channel_to(daemon.url) as channel:
            channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
            publish(channel, "s", *map(str, range(5)))
        restart(daemon)
        with channel_to(daemon.url) as channel:
            publish(channel, "s", "5")
            channel.basic_qos(prefetch_count=10)
            channel.basic_consume("s", lambda *_: None, arguments={"x-stream-offset": 3})
        with channel_to(daemon.url) as channel:
            channel.basic_qos(prefetch_count=10)
            read: list[tuple[int, str]] = []
            consumed = channel.consume(
                "s", arguments={"x-stream-offset": 3}, inactivity_timeout=DEADLINE_S
            )
            for method, properties, body in consumed:
                assert body is not None
                read.append((properties.headers["x-stream-offset"], body.decode()))
                channel.basic_ack(method.delivery_tag)
                if len(read) == 3:
                    break
            assert read == [(3, "3"), (4, "4"), (5, "5")]


class TestTime:
    @pytest.mark.acceptance
    def test_a_time_to_live_goes_on_while_nobody_looks(self, daemon: BrokerProcess) -> None:
        with channel_to(daemon.url) as channel:
            arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
            channel.queue_declare("q", durable=True, arguments=arguments)
            channel.queue_declare("dead", durable=True)
            publish(channel, "q", "long", expiration="3600000")
            published = time.monotonic()
            publish(channel, "q", "short", expiration="400")
        daemon.kill()
        wait_for(lambda: time.monotonic() > published + 0.5, DEADLINE_S, "the time to run out")
        daemon.start()
        with channel_to(daemon.url) as channel:
            wait_for(lambda: ready_count(channel, "dead"), DEADLINE_S, "the dead letter")
            assert drained(channel, "dead") == ["short"]
            assert drained(channel, "q") == ["long"]

    @pytest.mark.acceptance
    @both
    def test_what_was_held_is_held(self, daemon: BrokerProcess, restart: Restart) -> None:
        with channel_to(daemon.url) as channel:
            channel.queue_declare("q", durable=True, arguments={"x-hold-on-publish": True})
            later = int(time.time() * 1000) + 3_600_000
            publish(channel, "q", "later", headers={"x-qpid-not-valid-before": later})
            publish(channel, "q", "now")
        restart(daemon)
        with channel_to(daemon.url) as channel:
            assert drained(channel, "q") == ["now"]
            assert channel.queue_delete("q").method.message_count == 1


@pytest.mark.acceptance
@both
def test_dead_letters_keep_their_history(daemon: BrokerProcess, restart: Restart) -> None:
    with channel_to(daemon.url) as channel:
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        channel.queue_declare("q", durable=True, arguments=arguments)
        channel.queue_declare(
            "dead",
            durable=True,
            arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"},
        )
        publish(channel, "q", "m")
        channel.basic_reject(channel.basic_get("q")[0].delivery_tag, requeue=False)
        channel.queue_declare("other", durable=True)
        publish(channel, "other", "x")
    restart(daemon)
    with channel_to(daemon.url) as channel:
        assert ready_count(channel, "q") == 0
        method, properties, _ = channel.basic_get("dead")
        (death,) = properties.headers["x-death"]
        assert (death["queue"], death["reason"], death["count"]) == ("q", "rejected", 1)
        channel.basic_reject(method.delivery_tag, requeue=False)
        channel.basic_reject(channel.basic_get("q")[0].delivery_tag, requeue=False)
        _, properties, _ = channel.basic_get("dead")
        deaths = {death["queue"]: death["count"] for death in properties.headers["x-death"]}
        assert deaths == {"q": 2, "dead": 1}


@pytest.mark.acceptance
def test_many_messages_over_many_files_and_many_restarts(daemon: BrokerProcess) -> None:
    body = "x" * 2000
    expected: list[str] = []
    for restarts in range(4):
        connection = pika.BlockingConnection(pika.URLParameters(daemon.url))
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.tx_select()
        for number in range(700):
            text = f"{restarts}-{number} {body}"
            channel.basic_publish("", "q", text.encode(), PERSISTENT)
            expected.append(text)
        channel.tx_commit()
        for _ in range(200):
            method, _, got = channel.basic_get("q")
            assert got is not None
            assert got.decode() == expected.pop(0)
            channel.basic_ack(method.delivery_tag)
        channel.tx_commit()
        connection.close()
        (daemon.restart_by_kill if restarts % 2 else daemon.restart)()
    with channel_to(daemon.url) as channel:
        assert drained(channel, "q") == expected


# ------------------------------------------------------------------------- the start


@pytest.mark.acceptance
def test_a_second_broker_on_the_directory_is_a_sentence_and_exit_status_1(
    daemon: BrokerProcess,
) -> None:
    assert daemon.process is not None
    done = CommandLine().serve("--data-dir", str(daemon.data_dir))
    assert done.status == 1
    expected = f"{daemon.data_dir}: in use by the broker with process id {daemon.process.pid}"
    assert f"hareline: {expected}" in done.err
    with channel_to(daemon.url) as channel:
        channel.queue_declare("q", durable=True)


@pytest.mark.acceptance
def test_removing_the_lock_file_lets_no_second_broker_in(daemon: BrokerProcess) -> None:
    with channel_to(daemon.url) as channel:
        channel.queue_declare("q", durable=True)
        publish(channel, "q", "before")
    (daemon.data_dir / "lock").unlink()
    for _ in range(2):
        done = CommandLine().serve("--data-dir", str(daemon.data_dir))
        assert done.status == 1
        assert f"hareline: {daemon.data_dir}: in use by another process, prob" in done.err
    with channel_to(daemon.url) as channel:
        publish(channel, "q", "after")
    daemon.restart()
    with channel_to(daemon.url) as channel:
        assert drained(channel, "q") == ["before", "after"]


class TestDamage:
    @pytest.fixture
    def damaged(self, daemon: BrokerProcess) -> BrokerProcess:
        """Stopped, with a journal in which the second of three messages is damaged."""
        with channel_to(daemon.url) as channel:
            channel.queue_declare("q", durable=True)
            publish(channel, "q", "first", "second" * 100, "third")
        daemon.stop()
        for path in sorted((daemon.data_dir / "journal").glob("*.log")):
            octets = path.read_bytes()
            if b"secondsecond" in octets:
                path.write_bytes(octets.replace(b"secondsecond", b"secondSecond", 1))
        return daemon

    @pytest.mark.acceptance
    def test_it_does_not_start_and_says_exactly_why(self, damaged: BrokerProcess) -> None:
        done = CommandLine().serve("--data-dir", str(damaged.data_dir))
        assert done.status == 1
        sentence = done.err.splitlines()[-1]
        assert re.search(r"hareline: .*\.log, offset \d+, \d+ octets: checksum does not", sentence)
        assert "1 of queue 'q' in vhost '/' (offsets 1 to 1)" in sentence
        assert 'journal.on_corruption to "skip" or "truncate"' in sentence
        assert '"JRN-1004"' in done.err

    @pytest.mark.acceptance
    @pytest.mark.parametrize(
        ("policy", "left"), [("skip", ["first", "third"]), ("truncate", ["first"])]
    )
    def test_it_starts_without_what_is_damaged_if_it_is_told_to(
        self, damaged: BrokerProcess, policy: str, left: list[str]
    ) -> None:
        damaged.config_path.write_text(f'{SMALL_SEGMENTS}on_corruption = "{policy}"\n')
        damaged.start()
        assert '"JRN-1004"' in damaged.log_tail()
        with channel_to(damaged.url) as channel:
            assert drained(channel, "q") == left
        damaged.config_path.write_text(SMALL_SEGMENTS)
        damaged.restart()  # it is sound again


@pytest.mark.acceptance
def test_definitions_of_a_newer_version_are_a_sentence_and_exit_status_1(
    daemon: BrokerProcess,
) -> None:
    import sqlite3

    daemon.stop()
    outside = sqlite3.connect(daemon.data_dir / "definitions.sqlite")
    outside.execute("PRAGMA user_version = 99")
    outside.close()
    done = CommandLine().serve("--data-dir", str(daemon.data_dir))
    assert done.status == 1
    assert "definitions.sqlite: version 99" in done.err


@pytest.mark.acceptance
@pytest.mark.parametrize("policy", ["fail", "skip", "truncate"])
def test_empty_definitions_beside_a_journal_are_a_sentence_and_exit_status_1(
    daemon: BrokerProcess, policy: str
) -> None:
    with channel_to(daemon.url) as channel:
        channel.queue_declare("q", durable=True)
        publish(channel, "q", "kept")
    daemon.stop()
    definitions = daemon.data_dir / "definitions.sqlite"
    whole = definitions.read_bytes()
    definitions.write_bytes(b"")
    daemon.config_path.write_text(f'{SMALL_SEGMENTS}on_corruption = "{policy}"\n')
    done = CommandLine().serve(
        "--data-dir", str(daemon.data_dir), "--config", str(daemon.config_path)
    )
    assert done.status == 1
    assert f"hareline: {definitions}: empty, though there are messages in" in done.err
    definitions.write_bytes(whole)
    daemon.start()
    with channel_to(daemon.url) as channel:
        assert drained(channel, "q") == ["kept"]


@pytest.mark.acceptance
def test_in_memory_nothing_is_kept_and_nothing_is_written(start_daemon: StartDaemon) -> None:
    daemon = start_daemon('[storage]\nkind = "memory"\n')
    with channel_to(daemon.url) as channel:
        channel.queue_declare("q", durable=True)
        publish(channel, "q", "m")
    assert list(daemon.data_dir.iterdir()) == []
    daemon.restart()
    assert not is_there(daemon, queue="q")


@pytest.mark.acceptance
def test_a_full_disk_blocks_publishers_until_there_is_room(start_daemon: StartDaemon) -> None:
    low = SMALL_SEGMENTS + "[disk]\ncheck_interval_s = 0.05\nfree_watermark = 1.0\n"
    daemon = start_daemon(low)
    connection = pika.BlockingConnection(pika.URLParameters(daemon.url))
    told: list[str] = []
    connection.add_on_connection_blocked_callback(lambda _, f: told.append(f.method.reason))
    connection.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"m", PERSISTENT)

    def look() -> bool:
        connection.process_data_events(0.05)
        return bool(told)

    wait_for(look, DEADLINE_S, "connection.blocked")
    assert told == ["low on disk"]
    daemon.reload(low.replace("1.0", "1000"))
    wait_for(lambda: look() and "unblocked" in told, DEADLINE_S, "connection.unblocked")
    wait_for(lambda: ready_count(channel, "q"), DEADLINE_S, "what was published while it was full")
    connection.close()
    log = daemon.log_tail()
    assert '"DSK-1001"' in log
    assert '"DSK-1002"' in log


@pytest.mark.acceptance
def test_told_to_stop_before_it_has_started_it_stops(daemon: BrokerProcess) -> None:
    """SIGTERM as early as it is listened to; whichever comes first, the end is a good one."""
    with channel_to(daemon.url) as channel:
        channel.queue_declare("q", durable=True)
        publish(channel, "q", *map(str, range(200)))
    daemon.stop()
    command = [sys.executable, "-m", "hareline", "serve", "--port", "0", "--management-port", "0"]
    command += ["--data-dir", str(daemon.data_dir), "--config", str(daemon.config_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if '"JRN-1001"' in line:
            process.send_signal(signal.SIGTERM)
            break
    log = process.stderr.read()
    assert process.wait(DEADLINE_S) == 0
    process.stderr.close()
    assert '"BRK-1005"' in log
    assert "Traceback" not in log
    daemon.start()
    with channel_to(daemon.url) as channel:
        assert drained(channel, "q") == list(map(str, range(200)))


@pytest.mark.acceptance
def test_messages_that_expire_during_an_orderly_stop_are_in_one_queue_or_the_other(
    daemon: BrokerProcess,
) -> None:
    """Each has a time of its own, and the end of the store comes between two of them.

    ``stop`` fails where the daemon has logged an error.
    """
    count = 3_000
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    connection = pika.BlockingConnection(pika.URLParameters(daemon.url))
    channel = connection.channel()
    channel.queue_declare("dead", durable=True)
    channel.queue_declare("q", durable=True, arguments=arguments)
    for number in range(count):
        publish(channel, "q", str(number), expiration=str(500 + number * 7919 % 2_500))
    wait_for(lambda: ready_count(channel, "dead") > count // 10, DEADLINE_S, "the first to expire")
    connection.close()
    daemon.stop()
    daemon.start()
    with channel_to(daemon.url) as channel:
        wait_for(lambda: ready_count(channel, "q") == 0, DEADLINE_S, "the last to expire")
        wait_for(lambda: ready_count(channel, "dead") >= count, DEADLINE_S, "their dead letters")
        assert sorted(drained(channel, "dead"), key=int) == [str(each) for each in range(count)]


@pytest.mark.acceptance
def test_dead_letters_that_wait_at_an_orderly_stop_are_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The post lets others go on after each of them, so the signal comes before most."""
    monkeypatch.setattr("hareline.queues.core.dead_letter_scheduler.SHARE_S", 0.0)
    count = 2_000
    settings = Settings(data_dir=tmp_path, storage=Storage(kind="journal"))
    with running_broker(settings) as url:
        connection = pika.BlockingConnection(pika.URLParameters(url))
        channel = connection.channel()
        channel.queue_declare("dead", durable=True)
        alternate = {"destination": "dead", "attributes": {}}
        channel.queue_declare("big", durable=True, arguments={"alternateBinding": alternate})
        for _ in range(count):
            channel.basic_publish("", "big", b"m", PERSISTENT)
        assert channel.queue_declare("big", passive=True).method.message_count == count
        parameters = pika.URLParameters(url)
        with RawClient((parameters.host, parameters.port)) as raw:
            raw.open()
            delete = commands.Queue.Delete(queue="big")
            declare = commands.Queue.Declare(queue="dead", passive=True)
            # in one piece, so that the answers are of one turn
            raw.send_octets(frame.marshal(delete, 1) + frame.marshal(declare, 1))
            assert raw.expect(commands.Queue.DeleteOk).message_count == count
            assert (raw.expect(commands.Queue.DeclareOk).message_count or 0) < count
        connection.close()
    with running_broker(settings) as url:
        connection = pika.BlockingConnection(pika.URLParameters(url))
        channel = connection.channel()
        assert channel.queue_declare("dead", passive=True).method.message_count == count
        connection.close()
