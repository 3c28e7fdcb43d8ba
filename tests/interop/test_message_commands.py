"""``hareline publish``, ``get`` and ``tail`` with a broker, and with none."""

from __future__ import annotations

import json
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.broker_process import BrokerUnderTest
from tests.support.command_line import CommandLine
from tests.support.pika_calls import ready_count
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

DEADLINE_S = 60.0


@pytest.fixture
def queue(channel: BlockingChannel) -> Iterator[str]:
    """A queue that other connections may use as well."""
    name = f"command-{uuid.uuid4().hex[:8]}"
    channel.queue_declare(name)
    yield name
    channel.queue_delete(name)


@pytest.fixture
def hareline(broker: BrokerUnderTest) -> CommandLine:
    return CommandLine(HARELINE_URL=broker.url)


@pytest.fixture
def stream(channel: BlockingChannel, queue: str) -> Iterator[str]:
    name = f"{queue}-stream"
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    yield name
    channel.queue_delete(name)


@pytest.mark.acceptance
def test_a_message_goes_in_and_comes_out(hareline: CommandLine, queue: str) -> None:
    properties = ["-P", "content_type=a/b", "-P", "priority=3", "-H", "n=1", "-H", "t=ü"]
    done = hareline.ok("publish", "--queue", queue, "grüß dich", *properties, "--persistent")
    assert done.text == "published 1 message\n"
    (message,) = hareline.ok("get", queue, "--json").json
    assert message == {
        "exchange": "",
        "routing_key": queue,
        "redelivered": False,
        "properties": {
            "content_type": "a/b",
            "delivery_mode": 2,
            "priority": 3,
            "headers": {"n": 1, "t": "ü"},
        },
        "payload": "grüß dich",
        "payload_bytes": 11,
        "payload_encoding": "string",
        "message_count": 0,
    }
    assert hareline.ok("get", queue, "--json").json == []


@pytest.mark.acceptance
def test_a_file_lines_and_standard_input_are_bodies(
    hareline: CommandLine, queue: str, tmp_path: Path
) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"\xff\x00\n")
    hareline.ok("publish", "-q", queue, "--file", str(file))
    hareline.ok("publish", "-q", queue, text="from input")
    hareline.ok("publish", "-q", queue, "--lines", text="one\ntwo\r\n")
    hareline.ok("publish", "-q", queue, "again", "--count", "2")
    done = hareline.ok("get", queue, "--count", "9", "--body")
    assert done.out == b"\xff\x00\n\nfrom input\none\ntwo\nagain\nagain\n"


@pytest.mark.acceptance
def test_what_is_kept_is_still_there(
    hareline: CommandLine, queue: str, channel: BlockingChannel
) -> None:
    hareline.ok("publish", "-q", queue, "a\tb")
    assert hareline.ok("get", queue, "--keep").rows == [["", queue, "false", "", "string", "a\\tb"]]
    wait_for(lambda: ready_count(channel, queue) == 1, DEADLINE_S, "the message to come back")
    assert hareline.ok("get", queue).rows[0][2] == "true"


@pytest.mark.acceptance
def test_get_waits_for_a_message(hareline: CommandLine, queue: str) -> None:
    waiting = hareline.start("get", queue, "--wait", "60", "--body")
    hareline.ok("publish", "-q", queue, "late")
    out, _ = waiting.communicate(timeout=DEADLINE_S)
    assert (waiting.returncode, out) == (0, b"late\n")


@pytest.mark.acceptance
def test_a_full_queue_ends_with_1(
    hareline: CommandLine, channel: BlockingChannel, queue: str
) -> None:
    name = f"{queue}-full"
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare(name, exclusive=False, auto_delete=False, arguments=arguments)
    done = hareline("publish", "-q", name, "x", "--count", "5")
    channel.queue_delete(name)
    assert done.status == 1
    assert "1 message published before" in done.err
    assert f"refused a message to exchange '' with routing key '{name}'" in done.err


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (("get", "no-such-queue"), 4, "NOT_FOUND - no queue 'no-such-queue' in vhost '/'"),
        (("publish", "-e", "no-such-exchange", "x"), 4, "NOT_FOUND - no exchange"),
        (("get", "q", "--vhost", "nowhere"), None, "nowhere"),
        (("publish", "x"), 2, "give --queue or --exchange"),
        (("publish", "-q", "a", "-k", "b", "x"), 2, "--routing-key goes with --exchange"),
        (("publish", "-q", "a", "--file", "f", "x"), 2, "BODY goes with neither --file nor"),
        (("publish", "-q", "a", "x", "-P", "colour=red"), 2, "--property: 'colour'"),
        (("publish", "-q", "a", "x", "-H", "h"), 2, "--header: 'h' is not NAME=VALUE"),
        (("get", "q", "--amqp-url", "amqp://127.0.0.1:1"), 3, "Connection refused"),
        (("tail", "q", "--from", "yesterday"), 2, "--from: 'yesterday' is not next, first"),
    ],
)
def test_what_goes_wrong_is_a_sentence_and_a_status(
    hareline: CommandLine, arguments: tuple[str, ...], status: int | None, sentence: str
) -> None:
    done = hareline(*arguments)
    assert done.status == status or (status is None and done.status)
    assert sentence in done.err
    assert done.err.startswith("hareline: ")
    assert len(done.err.splitlines()) == 1


@pytest.mark.acceptance
def test_a_wrong_password_ends_with_5(broker: BrokerUnderTest, queue: str) -> None:
    wrong = CommandLine(HARELINE_URL=broker.url_for(password="nope"))
    done = wrong("get", queue)
    assert (done.status, done.err.count("\n")) == (5, 1)
    assert "guest: login refused" in done.err


@pytest.mark.acceptance
def test_tail_shows_a_queue_and_takes_nothing(
    hareline: CommandLine, queue: str, channel: BlockingChannel
) -> None:
    hareline.ok("publish", "-q", queue, "--lines", text="one\ntwo\nthree\n")
    done = hareline.ok("tail", queue, "--from", "first", "--no-follow", "--body")
    assert done.text == "one\ntwo\nthree\n"
    assert hareline.ok("tail", queue, "--from", "1h", "--count", "1", "--body").text == "one\n"
    assert ready_count(channel, queue) == 3
    (message,) = hareline.ok("get", queue, "--json").json
    assert not message["redelivered"]


@pytest.mark.acceptance
def test_tail_follows_a_queue_until_ctrl_c(
    hareline: CommandLine, queue: str, channel: BlockingChannel
) -> None:
    hareline.ok("publish", "-q", queue, "old", "-H", "n=1")
    follower = hareline.start("tail", queue, "--from", "first", "--where", "n > 0", "--json")
    assert follower.stdout is not None
    assert json.loads(follower.stdout.readline())["payload"] == "old"
    hareline.ok("publish", "-q", queue, "not this", "-H", "n=0")
    hareline.ok("publish", "-q", queue, "new", "-H", "n=2")
    assert json.loads(follower.stdout.readline())["payload"] == "new"
    follower.send_signal(signal.SIGINT)
    _, err = follower.communicate(timeout=DEADLINE_S)
    assert (follower.returncode, err) == (130, b"")
    assert ready_count(channel, queue) == 3


@pytest.mark.acceptance
def test_tail_reads_a_stream_from_an_offset(hareline: CommandLine, stream: str) -> None:
    hareline.ok("publish", "-q", stream, "--lines", text="a\nb\nc\n")
    for start, shown in (("first", "a\nb\nc\n"), ("1", "b\nc\n"), ("last", "c\n")):
        done = hareline.ok("tail", stream, "--from", start, "--no-follow", "--body")
        assert done.text == shown


@pytest.mark.acceptance
def test_a_reader_that_closes_the_pipe_ends_it_well(hareline: CommandLine, queue: str) -> None:
    hareline.ok("publish", "-q", queue, "x" * 100_000, "--count", "20")
    process = hareline.start("tail", queue, "--from", "first", "--body")
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    assert (process.wait(DEADLINE_S), err) == (0, b"")
    process.stderr.close()


@pytest.mark.acceptance
def test_a_broker_that_goes_away_is_a_sentence(queue: str) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"amqp://127.0.0.1:{listener.getsockname()[1]}"
        process = CommandLine().start("get", queue, "--url", url)
        listener.accept()[0].close()
        _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 3
    assert err.count(b"\n") == 1
