"""``hareline perf`` puts load on a broker, says what it measured, and leaves nothing behind."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.broker_process import BrokerUnderTest
from tests.support.command_line import CommandLine
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


def run_that_received(hareline: CommandLine, count: int, *flags: str) -> Any:
    """What it says. It gives up when nothing comes for 2 s; a machine that is so busy tries again.

    That something is missing each time is a failure.
    """

    def result() -> Any:
        said = hareline.ok("perf", *flags, "--json").json
        return said if said["received"] == count else None

    return wait_for(result, DEADLINE_S, f"a run with {count} messages received")


@pytest.mark.acceptance
def test_all_messages_of_a_work_queue_are_confirmed_and_received(hareline: CommandLine) -> None:
    flags = ["--producers", "2", "--consumers", "2", "--count", "300", "--size", "8,500"]
    result = run_that_received(hareline, 600, "work", *flags, "--variety", "5")
    assert (result["sent"], result["received"], result["confirmed"]) == (600, 600, 600)
    assert (result["refused"], result["returned"]) == (0, 0)
    assert result["latency_ms"]["p50"] <= result["latency_ms"]["p99"] <= result["latency_ms"]["max"]
    assert result["confirm_latency_ms"]["max"] > 0
    assert (result["pattern"], result["sizes"], result["processes"]) == ("work", [8, 500], 2)


@pytest.mark.acceptance
def test_each_consumer_of_a_fan_out_gets_everything(hareline: CommandLine) -> None:
    flags = ["--consumers", "3", "--count", "100", "--auto-ack", "--persistent"]
    result = run_that_received(hareline, 300, "fanout", *flags)
    assert (result["sent"], result["received"]) == (100, 300)


@pytest.mark.acceptance
def test_requests_are_answered(hareline: CommandLine) -> None:
    flags = ["--count", "100", "--in-flight", "4", "--processes", "1"]
    result = run_that_received(hareline, 100, "request", *flags)
    assert (result["sent"], result["received"], result["processes"]) == (100, 100, 1)


@pytest.mark.acceptance
def test_a_rate_is_kept_and_the_time_measured(hareline: CommandLine) -> None:
    flags = ["--rate", "100", "--duration", "2", "--warm-up", "0.5", "--in-flight", "0"]
    result = hareline.ok("perf", *flags, "--json").json
    assert result["sent"] <= 220
    assert result["received"] > 0
    assert result["seconds"] >= 2


@pytest.mark.acceptance
def test_a_queue_that_exists_is_used_and_left(
    hareline: CommandLine, channel: BlockingChannel, queue: str
) -> None:
    flags = ["--queue", queue, "--consumers", "0", "--count", "10"]
    lines = hareline.ok("perf", *flags).text.splitlines()
    assert lines[0].split()[:2] == ["sent", "10"]

    def depth() -> Any:
        return channel.queue_declare(queue, passive=True).method.message_count == 10

    wait_for(depth, DEADLINE_S, "ten messages")


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (("--size", "7"), 2, "--size: '7' is not a number from 8"),
        (("--queue", "no-such-queue", "--count", "1"), 1, "no-such-queue"),
        (("fanout", "--queue", "x"), 2, "--queue goes with work and request"),
        (("request", "--consumers", "0"), 2, "request needs producers, consumers"),
        (("--producers", "0", "--consumers", "0"), 2, "neither producers nor consumers"),
        (("juggle",), 2, "'juggle' is not one of work, fanout, request"),
        (("-a", "x-max-length=-1"), 1, "x-max-length"),
        (("--amqp-url", "amqp://127.0.0.1:1"), 3, "Connection refused"),
    ],
)
def test_what_goes_wrong_is_a_sentence(
    hareline: CommandLine, arguments: tuple[str, ...], status: int, sentence: str
) -> None:
    done = hareline("perf", *arguments)
    assert (done.status, sentence in done.err) == (status, True), done


@pytest.mark.acceptance
def test_ctrl_c_ends_all_processes_and_deletes_the_queue(
    hareline: CommandLine, channel: BlockingChannel, queue: str
) -> None:
    process = hareline.start(
        "perf", "--queue", queue, "--duration", "600", "--rate", "50", start_new_session=True
    )

    def is_busy() -> Any:
        return channel.queue_declare(queue, passive=True).method.consumer_count

    wait_for(is_busy, DEADLINE_S, "a consumer")
    import os

    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, err) == (130, b"")
    wait_for(lambda: not is_busy(), DEADLINE_S, "the consumer to end")
