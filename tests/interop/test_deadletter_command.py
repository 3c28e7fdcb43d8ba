"""``hareline deadletter`` with a broker: files are written, shown, and published again once."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pika
import pytest

from hareline.cli.migrate.exact_properties import properties_of_octets
from hareline.wire.properties import Properties, encode_properties
from hareline.wire.table import Array, Byte, Float, SignedInt, Table, UnsignedShort
from tests.support.broker_process import BrokerProcess
from tests.support.command_line import CommandLine
from tests.support.pika_calls import ready_count
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

DEADLINE_S = 60.0
CONFIG = """
[auth]
failure_delay_s = 0
login_failures_max = 0

[[users]]
name = "guest"
password = "guest"
tags = ["administrator"]
permissions = [{vhost = "/", configure = ".*", write = ".*", read = ".*"}]
"""
pytestmark = pytest.mark.daemon(CONFIG)
EVERY_TYPE = Properties(
    content_type="a/b",
    headers=Table(
        {
            "b": Byte(-1),
            "u": UnsignedShort(9),
            "I": SignedInt(7),
            "l": 1 << 40,
            "f": Float(0.5),
            "x": b"\xff",
            "A": Array([True, None, "ü", Table({"t": SignedInt(1)})]),
        }
    ),
    delivery_mode=2,
)


class Scene:
    """A queue ``work`` bound to an exchange, whose dead letters come into the queue ``dead``."""

    def __init__(self, channel: BlockingChannel) -> None:
        self.channel = channel
        name = f"deadletter-{uuid.uuid4().hex[:8]}"
        self.exchange, self.work, self.dead = name, f"{name}.work", f"{name}.dead"
        channel.confirm_delivery()
        channel.exchange_declare(self.exchange, "topic")
        channel.queue_declare(self.dead, durable=True)
        to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.dead}
        channel.queue_declare(self.work, durable=True, arguments=to_dead)
        channel.queue_bind(self.work, self.exchange, "a.#")

    def die(self, *bodies: bytes, key: str = "a.b", properties: Any = None) -> None:
        """Publish messages, and reject what is in the queue."""
        before = ready_count(self.channel, self.dead)
        for body in bodies:
            self.channel.basic_publish(self.exchange, key, body, properties, mandatory=True)
        for _ in bodies:
            method, _, _ = self.channel.basic_get(self.work)
            assert method is not None
            self.channel.basic_reject(method.delivery_tag, requeue=False)
        wait_for(
            lambda: ready_count(self.channel, self.dead) == before + len(bodies),
            DEADLINE_S,
            "the dead letters",
        )

    def end(self) -> None:
        if self.channel.is_open:
            for queue in (self.work, self.dead):
                self.channel.queue_delete(queue)
            self.channel.exchange_delete(self.exchange)


@pytest.fixture
def scene(broker: BrokerProcess) -> Iterator[Scene]:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        made = Scene(connection.channel())
        yield made
        made.end()


@pytest.fixture
def hareline(broker: BrokerProcess) -> CommandLine:
    address = f"amqp://127.0.0.1:{broker.port}"
    return CommandLine(HARELINE_URL=broker.management_url, HARELINE_AMQP_URL=address)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "dead")


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def counts(hareline: CommandLine, *arguments: str) -> dict[str, int]:
    """The counts of a replay that ends well."""
    counted: dict[str, int] = hareline.ok("deadletter", "replay", *arguments, "--json").json
    return counted


@pytest.mark.row("E9")
@pytest.mark.acceptance
def test_a_dump_keeps_all_of_a_message_and_takes_none(
    hareline: CommandLine, scene: Scene, folder: str
) -> None:
    exact = properties_of_octets(encode_properties(EVERY_TYPE))
    scene.die(b"\x00\xff", b"text", b"", properties=exact)
    done = hareline.ok("deadletter", "dump", scene.dead, folder)
    assert done.text == f"{folder}/1.jsonl: 3 messages\n"
    assert ready_count(scene.channel, scene.dead) == 3
    head, first, second, third, end = lines_of(Path(folder) / "1.jsonl")
    assert (head["format"], head["queue"], end["messages"]) == ("hareline-messages", scene.dead, 3)
    assert (first["body"], first["body_encoding"]) == ("AP8=", "base64")
    assert (second["body"], third["body"]) == ("text", "")
    headers = first["properties"]["headers"]
    assert {name: kind for name, (kind, _) in headers.items() if name in "buIlfxA"} == {
        name: name for name in "buIlfxA"
    }
    assert headers["A"][1][2:] == [["S", "ü"], ["F", {"t": ["I", 1]}]]
    assert headers["x-first-death-queue"] == ["S", scene.work]
    assert hareline.ok("deadletter", "dump", scene.dead, folder).text.startswith(f"{folder}/2.")


@pytest.mark.row("E9")
@pytest.mark.acceptance
def test_messages_are_listed_and_one_is_shown_whole(
    hareline: CommandLine, scene: Scene, folder: str
) -> None:
    scene.die(b"one", b"\xfftwo", properties=pika.BasicProperties(headers={"n": 1}))
    hareline.ok("deadletter", "dump", scene.dead, folder)
    first, second = hareline.ok("deadletter", "show", folder).rows
    assert int(first[3]) > 1_700_000_000_000
    assert [*first[:3], *first[4:]] == [
        *("1.1", "rejected", scene.work, "3", scene.exchange, "a.b", "false"),
    ]
    assert (second[0], second[4]) == ("1.2", "4")
    whole = hareline.ok("deadletter", "show", folder, "1.2", "--json").json
    assert (whole["payload"], whole["payload_encoding"]) == ("/3R3bw==", "base64")
    assert whole["properties"]["headers"]["n"] == 1
    assert "  ff 74 77 6f" in hareline.ok("deadletter", "show", folder, "1.2").text.splitlines()


@pytest.mark.row("E9")
@pytest.mark.acceptance
def test_a_second_replay_repeats_nothing(hareline: CommandLine, scene: Scene, folder: str) -> None:
    exact = properties_of_octets(encode_properties(EVERY_TYPE))
    scene.die(b"one", b"two", properties=exact)
    hareline.ok("deadletter", "dump", scene.dead, folder, "--remove")
    assert ready_count(scene.channel, scene.dead) == 0
    done = hareline.ok("deadletter", "replay", folder)
    assert done.text == f"{folder}: 2 messages replayed\n"
    assert ready_count(scene.channel, scene.work) == 2
    done = hareline.ok("deadletter", "replay", folder)
    assert done.text == f"{folder}: 0 messages replayed, 2 done before\n"
    assert ready_count(scene.channel, scene.work) == 2
    assert [row[-1] for row in hareline.ok("deadletter", "show", folder).rows] == ["true", "true"]
    hareline.ok("deadletter", "dump", scene.work, folder)
    before, after = (lines_of(Path(folder) / f"{number}.jsonl")[1] for number in (1, 2))
    assert after.pop("exchange") == scene.exchange != before.pop("exchange")
    assert after.pop("routing_key") == "a.b" != before.pop("routing_key")
    assert before == after


@pytest.mark.row("E9")
@pytest.mark.acceptance
def test_a_killed_replay_goes_on_where_it_was(
    hareline: CommandLine, scene: Scene, folder: str
) -> None:
    scene.die(*(b"%d" % number for number in range(1_000)))  # two batches, of which none is left
    hareline.ok("deadletter", "dump", scene.dead, folder, "--remove")
    assert ready_count(scene.channel, scene.dead) == 0
    marks = Path(folder) / "1.done"
    process = hareline.start("deadletter", "replay", folder)
    wait_for(lambda: marks.exists() and marks.stat().st_size > 20, DEADLINE_S, "some marks")
    process.kill()
    process.communicate()
    marked = marks.read_bytes().count(1)
    answer = counts(hareline, folder)
    assert answer == {"replayed": 1_000 - marked, "done_before": marked, "kept": 0}
    # one may have been confirmed and not yet been marked
    assert ready_count(scene.channel, scene.work) - 1_000 in {0, 1}


@pytest.mark.row("E9")
@pytest.mark.acceptance
def test_what_no_queue_takes_stays_for_the_next_replay(
    hareline: CommandLine, scene: Scene, folder: str
) -> None:
    scene.die(b"goes", key="a.b")
    scene.die(b"stays", b"too", key="a.c")
    hareline.ok("deadletter", "dump", scene.dead, folder, "--remove")
    scene.channel.queue_unbind(scene.work, scene.exchange, "a.#")
    scene.channel.queue_bind(scene.work, scene.exchange, "a.b")
    done = hareline("deadletter", "replay", folder)
    assert (done.status, done.text) == (1, f"{folder}: 1 message replayed\n")
    assert done.err == (
        f"hareline: messages that no queue has taken: 2: exchange '{scene.exchange}' leads to no "
        "queue for routing key 'a.c'\n"
    )
    scene.channel.queue_bind(scene.work, scene.exchange, "a.c")
    assert counts(hareline, folder) == {"replayed": 2, "done_before": 1, "kept": 0}


@pytest.mark.row("E9")
@pytest.mark.acceptance
def test_an_exchange_that_is_gone_is_an_error_until_another_is_named(
    hareline: CommandLine, scene: Scene, folder: str
) -> None:
    scene.die(b"one", b"two")
    hareline.ok("deadletter", "dump", scene.dead, folder, "--remove")
    scene.channel.exchange_delete(scene.exchange)
    done = hareline("deadletter", "replay", folder)
    assert (done.status, done.text) == (1, f"{folder}: 0 messages replayed\n")
    assert f"2: NOT_FOUND - no exchange '{scene.exchange}' in vhost '/'" in done.err
    assert counts(hareline, folder, "-e", "", "-k", scene.work)["replayed"] == 2
    assert ready_count(scene.channel, scene.work) == 2


@pytest.mark.row("E9")
@pytest.mark.acceptance
def test_further_routing_keys_are_used_again(
    hareline: CommandLine, scene: Scene, folder: str
) -> None:
    other = f"{scene.exchange}.other"
    scene.channel.queue_declare(other)
    scene.channel.queue_bind(other, scene.exchange, "copy")
    scene.die(b"one", properties=pika.BasicProperties(headers={"CC": ["copy"]}))
    assert scene.channel.basic_get(other, auto_ack=True)[2] == b"one"
    hareline.ok("deadletter", "dump", scene.dead, folder, "--remove")
    hareline.ok("deadletter", "replay", folder)
    assert (ready_count(scene.channel, scene.work), ready_count(scene.channel, other)) == (1, 1)
    scene.channel.queue_delete(other)


@pytest.mark.row("E9")
@pytest.mark.acceptance
def test_a_full_queue_ends_a_replay(hareline: CommandLine, scene: Scene, folder: str) -> None:
    full = f"{scene.exchange}.full"
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    scene.channel.queue_declare(full, arguments=arguments)
    scene.die(b"one", b"two", b"three")
    hareline.ok("deadletter", "dump", scene.dead, folder)
    done = hareline("deadletter", "replay", folder, "-e", "", "-k", full)
    assert (done.status, done.out) == (1, b"")
    assert done.err == (
        "hareline: 1 message replayed before\nhareline: the broker refused message 1.2: a queue "
        "is full, or it cannot be stored\n"
    )
    scene.channel.queue_delete(full)


@pytest.mark.row("E9")
@pytest.mark.acceptance
def test_all_dead_letters_go_back_to_where_they_died(hareline: CommandLine, scene: Scene) -> None:
    scene.die(b"one", b"two")
    done = hareline.ok("deadletter", "retry", scene.dead)
    assert done.text == f"queue '{scene.dead}' in vhost '/': 2 messages retried\n"
    assert ready_count(scene.channel, scene.work) == 2


@pytest.mark.acceptance
def test_messages_that_never_died_want_to_be_told_where_to(
    hareline: CommandLine, scene: Scene, folder: str
) -> None:
    scene.channel.basic_publish(scene.exchange, "a.b", b"alive")
    hareline.ok("deadletter", "dump", scene.work, folder, "--remove")
    done = hareline("deadletter", "replay", folder)
    assert (done.status, "1: have not died" in done.err) == (1, True)
    assert counts(hareline, folder, "-e", scene.exchange)["replayed"] == 1


@pytest.mark.acceptance
def test_messages_of_a_group_are_all_removed(
    hareline: CommandLine, scene: Scene, folder: str
) -> None:
    grouped = f"{scene.exchange}.grouped"
    scene.channel.queue_declare(grouped, arguments={"x-message-group-key": "g"})
    for body in (b"1", b"2", b"3"):
        properties = pika.BasicProperties(headers={"g": "one"})
        scene.channel.basic_publish("", grouped, body, properties)
    done = hareline.ok("deadletter", "dump", grouped, folder, "--remove")
    assert done.text == f"{folder}/1.jsonl: 3 messages\n"
    assert ready_count(scene.channel, grouped) == 0
    scene.channel.queue_delete(grouped)


@pytest.mark.acceptance
def test_an_empty_queue_makes_no_file(hareline: CommandLine, scene: Scene, folder: str) -> None:
    for flags in ([], ["--remove"]):
        done = hareline.ok("deadletter", "dump", scene.dead, folder, *flags)
        assert done.text == f"queue '{scene.dead}' in vhost '/': 0 messages\n"
    assert list(Path(folder).iterdir()) == []


@pytest.mark.acceptance
def test_errors_are_sentences(
    hareline: CommandLine, broker: BrokerProcess, scene: Scene, folder: str
) -> None:
    for flags in ([], ["--remove"]):
        done = hareline("deadletter", "dump", "no-such-queue", folder, *flags)
        assert (done.status, "no queue 'no-such-queue'" in done.err) == (4, True)
    assert list(Path(folder).iterdir()) == []
    scene.die(b"one")
    hareline.ok("deadletter", "dump", scene.dead, folder)
    wrong = CommandLine(**{**hareline.environ, "HARELINE_PASSWORD": "nope"})
    for arguments in (["dump", scene.dead, folder], ["replay", folder], ["retry", scene.dead]):
        done = wrong("deadletter", *arguments)
        assert (done.status, done.err.count("\n")) == (5, 1)
    done = hareline("deadletter", "replay", folder, "-k", "x")
    assert (done.status, done.err) == (2, "hareline: --routing-key goes with --exchange\n")
