"""What consumers have acked comes back by ``hareline replay``: the daemon and the command.

The stories are told with small segments, so that files are freed, and retained, on the way.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.command_line import CommandLine, Done
from tests.support.pika_calls import channel_to
from tests.support.waiting import wait_for

RETAINING = '[journal]\nsegment_bytes = "1MiB"\nretention_age_s = 3600\n'
DEADLINE_S = 60.0
EVER = ("0", "4000000000000")  # epoch milliseconds


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> BrokerProcess:
    return start_daemon(RETAINING)


def publish(channel: BlockingChannel, queue: str, body: bytes, **properties: Any) -> None:
    properties = {"delivery_mode": 2, **properties}
    channel.basic_publish("", queue, body, pika.BasicProperties(**properties))


def take_all(channel: BlockingChannel, queue: str) -> list[tuple[pika.BasicProperties, bytes]]:
    """Properties and bodies of all messages, each acked, in order."""
    taken = []
    while (got := channel.basic_get(queue))[0] is not None:
        channel.basic_ack(got[0].delivery_tag)
        taken.append((got[1], got[2]))
    return taken


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    return [body for _, body in take_all(channel, queue)]


def replay(
    daemon: BrokerProcess, span: tuple[str, str] = EVER, *flags: str, password: str = "guest"
) -> Done:
    environ = {"HARELINE_PASSWORD": password} if password else {}
    wanted = ["--queue", "orders", "--to-queue", "again", "--from", span[0], "--to", span[1]]
    return CommandLine(**environ)("replay", *wanted, "--url", daemon.management_url, *flags)


def retained(daemon: BrokerProcess) -> list[Path]:
    return sorted((daemon.data_dir / "journal" / "retained").glob("*.log"))


def now() -> str:
    """With a bit of time on either side, so that nothing else is of the same millisecond."""
    before = time.time_ns() // 1_000_000
    wait_for(lambda: time.time_ns() // 1_000_000 > before + 1 or None, DEADLINE_S, "a later time")
    instant = datetime.now(UTC).isoformat(timespec="milliseconds")
    wait_for(lambda: time.time_ns() // 1_000_000 > before + 4 or None, DEADLINE_S, "a later time")
    return instant


@pytest.mark.acceptance
def test_what_was_acked_before_a_restart_is_replayed_by_its_time_of_arrival(
    daemon: BrokerProcess,
) -> None:
    with channel_to(daemon.url) as channel:
        channel.queue_declare("orders", durable=True)
        publish(channel, "orders", b"too early")
        begin = now()
        publish(channel, "orders", b"first", headers={"kind": "a"}, expiration="60000")
        publish(channel, "orders", b"second", content_type="text/plain", priority=3)
        end = now()
        publish(channel, "orders", b"too late")
        assert len(take_all(channel, "orders")) == 4
    daemon.restart()
    with channel_to(daemon.url) as channel:
        channel.queue_declare("again", durable=True)
        asked_s = time.time()
        ended = replay(daemon, (begin, end))
        assert (ended.status, ended.err) == (0, "")
        assert ended.text.startswith(
            "replayed 2 messages of 'orders' into 'again', which arrived from 20"
        )
        (first, first_body), (second, second_body) = take_all(channel, "again")
    assert (first_body, second_body) == (b"first", b"second")
    assert first.headers["kind"] == "a"
    assert first.headers["x-replayed-from"] == "orders"
    arrival = first.headers["x-replayed-arrival"].replace(tzinfo=UTC)
    assert datetime.fromisoformat(begin).timestamp() - 1 <= arrival.timestamp() <= asked_s
    assert first.expiration is None  # that time is over
    assert (second.content_type, second.priority, second.delivery_mode) == ("text/plain", 3, 2)


@pytest.mark.acceptance
def test_segments_that_nobody_needs_any_more_are_replayed_from_in_order(
    daemon: BrokerProcess,
) -> None:
    sent = [b"%04d" % number + bytes(40_000) for number in range(200)]  # 8 MiB
    with channel_to(daemon.url) as channel:
        channel.queue_declare("orders", durable=True)
        channel.queue_declare("again", durable=True)
        for body in sent:
            publish(channel, "orders", body)
        assert bodies(channel, "orders") == sent
        wait_for(lambda: len(retained(daemon)) >= 4 or None, DEADLINE_S, "retained segments")
        ended = replay(daemon)
        assert (ended.status, ended.text[:21]) == (0, "replayed 200 messages")
        assert bodies(channel, "again") == sent


@pytest.mark.acceptance
def test_messages_are_replayed_although_their_queue_is_gone_and_another_has_its_name(
    daemon: BrokerProcess,
) -> None:
    with channel_to(daemon.url) as channel:
        channel.queue_declare("again", durable=True)
        for life in (b"one", b"two"):
            channel.queue_declare("orders", durable=True)
            publish(channel, "orders", life)
            channel.queue_delete("orders")
        ended = replay(daemon)
        assert ended.status == 0, ended.err
        assert bodies(channel, "again") == [b"one", b"two"]


@pytest.mark.acceptance
def test_a_replay_is_as_durable_as_what_it_replays(daemon: BrokerProcess) -> None:
    with channel_to(daemon.url) as channel:
        channel.queue_declare("orders", durable=True)
        channel.queue_declare("again", durable=True)
        publish(channel, "orders", b"kept")
        take_all(channel, "orders")
        assert replay(daemon).status == 0
    daemon.kill()
    daemon.start()
    with channel_to(daemon.url) as channel:
        assert bodies(channel, "again") == [b"kept"]


@pytest.mark.acceptance
def test_a_selector_a_limit_and_a_routing_key_narrow_it(daemon: BrokerProcess) -> None:
    with channel_to(daemon.url) as channel:
        channel.queue_declare("again", durable=True)
        channel.queue_declare("orders", durable=True)
        channel.queue_bind("orders", "amq.topic", "#")
        for number in range(6):
            properties = pika.BasicProperties(delivery_mode=2, headers={"number": number})
            key = "even" if number % 2 == 0 else "odd"
            channel.basic_publish("amq.topic", key, b"%d" % number, properties)
        take_all(channel, "orders")
        ended = replay(daemon, EVER, "--selector", "number > 1", "--routing-key", "even")
        assert ended.status == 0, ended.err
        assert bodies(channel, "again") == [b"2", b"4"]
        assert replay(daemon, EVER, "--exchange", "amq.topic", "--limit", "3").status == 0
        assert bodies(channel, "again") == [b"0", b"1", b"2"]
        nothing = replay(daemon, EVER, "--exchange", "")
        assert nothing.text == "replayed 0 messages of 'orders' into 'again'\n"
        assert nothing.status == 0


@pytest.mark.acceptance
def test_what_the_target_refuses_is_said_and_the_rest_can_be_had_later(
    daemon: BrokerProcess,
) -> None:
    with channel_to(daemon.url) as channel:
        full = {"x-max-length": 2, "x-overflow": "reject-publish"}
        channel.queue_declare("again", durable=True, arguments=full)
        channel.queue_declare("orders", durable=True)
        for number in range(3):
            publish(channel, "orders", b"%d" % number)
            now()
        ended = replay(daemon)
        assert ended.status == 1
        assert ended.text.startswith("replayed 2 messages")
        assert "queue 'again' is at its limit" in ended.err
        assert bodies(channel, "again") == [b"0", b"1"]
        stopped_at = ended.err.partition("arrived at ")[2][: len("2026-01-05T10:00:00.000Z")]
        assert replay(daemon, (stopped_at, EVER[1])).status == 0
        assert bodies(channel, "again") == [b"2"]


@pytest.mark.acceptance
def test_a_wrong_request_is_a_sentence_and_exit_status_1(daemon: BrokerProcess) -> None:
    with channel_to(daemon.url) as channel:
        channel.queue_declare("orders", durable=True)
        channel.queue_declare("again", durable=True)
    for flags, problem in (
        (["--user", "nobody"], "wrong user or password"),
        (["--to-queue", "none"], "to_queue: no queue 'none' in vhost '/'"),
        (["--vhost", "none"], "no vhost 'none'"),
        (["--from", "yesterday"], "from: 'yesterday' is neither epoch milliseconds nor ISO 8601"),
        (["--selector", "a ="], "selector: invalid selector"),
        (["--url", "http://127.0.0.1:1"], "http://127.0.0.1:1/api/replay: Connection refused"),
        (["--url", "http://127.0.0.1:x"], "http://127.0.0.1:x/api/replay: "),
        (["--url", f"http://127.0.0.1:{daemon.port}"], "/api/replay: "),
        (["--url", "ftp://x"], "--url: 'ftp://x' does not begin with http:// or https://"),
    ):
        ended = replay(daemon, EVER, *flags)
        assert (ended.status, ended.text) == (1, "")
        assert ended.err.startswith("hareline: ")
        assert problem in ended.err
        assert len(ended.err.splitlines()) == 1


@pytest.mark.acceptance
def test_without_a_terminal_and_a_password_it_says_where_one_could_be(
    daemon: BrokerProcess,
) -> None:
    ended = replay(daemon, password="")
    assert ended.status == 1
    assert ended.err == "hareline: no password: set HARELINE_PASSWORD, or run this on a terminal\n"


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("", "journal.retention_age_s and journal.retention_bytes are both 0"),
        ('[storage]\nkind = "memory"\n', "storage.kind is memory"),
    ],
)
def test_a_broker_that_keeps_nothing_says_which_option_does(
    start_daemon: StartDaemon, config: str, problem: str
) -> None:
    daemon = start_daemon(config)
    with channel_to(daemon.url) as channel:
        channel.queue_declare("orders", durable=True)
        channel.queue_declare("again", durable=True)
    ended = replay(daemon)
    assert ended.status == 1
    assert problem in ended.err


@pytest.mark.acceptance
def test_the_log_says_who_replayed_what(daemon: BrokerProcess) -> None:
    with channel_to(daemon.url) as channel:
        channel.queue_declare("orders", durable=True)
        channel.queue_declare("again", durable=True)
        publish(channel, "orders", b"x")
    assert replay(daemon).status == 0
    wait_for(lambda: "JRN-1009" in daemon.log_tail(), DEADLINE_S, "the line in the log")
    line = next(each for each in daemon.log_tail().splitlines() if "JRN-1009" in each)
    assert '"user": "guest"' in line
    assert '"messages": 1' in line
    assert '"outcome": "complete"' in line
