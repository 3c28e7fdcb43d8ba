"""The commands ask RabbitMQ 3.10's management plugin: the same paths and the same JSON.

Needs Debian's rabbitmq-server, which is started here as a node of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.rabbitmq_management import ManagedRabbitMQ, managed_rabbitmq
from tests.support.waiting import wait_for

pytestmark = pytest.mark.acceptance

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[ManagedRabbitMQ]:
    with managed_rabbitmq() as server:
        yield server


@pytest.fixture
def hareline(rabbitmq: ManagedRabbitMQ) -> CommandLine:
    address = rabbitmq.url.partition("@")[2].rstrip("/")
    return CommandLine(HARELINE_URL=rabbitmq.http_url, HARELINE_AMQP_URL=f"amqp://{address}")


def test_a_life_of_a_queue(hareline: CommandLine, tmp_path: Path) -> None:
    hareline.ok("queue", "declare", "life", "-a", "x-max-length=10")
    done = hareline("queue", "declare", "life")
    assert (done.status, "x-max-length" in done.err) == (1, True)
    hareline.ok("exchange", "declare", "life.x", "--type", "topic")
    hareline.ok("bind", "life.x", "life", "-k", "a.#")
    assert hareline.ok("bindings", "show", "life.x", "life").rows[0][:4] == [
        *("life.x", "life", "queue", "a.#")
    ]
    hareline.ok("publish", "-e", "life.x", "-k", "a.b", "hello")

    def shown() -> list[str]:
        flags = ["--name", "^life$", "--columns", "name,messages", "--vhost", "/"]
        return hareline.ok("queues", "list", *flags).rows[0]

    wait_for(lambda: shown() == ["life", "1"], DEADLINE_S, "the message in the list")
    fields = dict(line for line in hareline.ok("queues", "show", "life").rows if len(line) == 2)
    assert fields["arguments"] == '{"x-max-length": 10}'
    hareline.ok("queue", "purge", "life")
    assert hareline.ok("get", "life", "--json").json == []
    hareline.ok("unbind", "life.x", "life", "-k", "a.#")
    assert hareline("unbind", "life.x", "life", "-k", "a.#").status == 4
    hareline.ok("queue", "delete", "life")
    hareline.ok("exchange", "delete", "life.x")
    assert hareline("queues", "show", "life").status == 4


@pytest.mark.parametrize(
    "resource",
    ["queues", "streams", "exchanges", "bindings", "connections", "channels", "consumers"],
)
def test_every_list_can_be_read(hareline: CommandLine, resource: str) -> None:
    hareline.ok("queue", "declare", "listed")
    hareline.ok(resource, "list")
    assert isinstance(hareline.ok(resource, "list", "--json", "--limit", "2").json, list)


def test_exchanges_are_filtered_and_sorted(hareline: CommandLine) -> None:
    flags = ["--name", "^amq.[ft]", "--sort", "-name", "--columns", "name,type", "--limit", "2"]
    assert hareline.ok("exchanges", "list", *flags).rows == [
        ["amq.topic", "topic"],
        ["amq.fanout", "fanout"],
    ]
    where = ["--where", "type=fanout", "--columns", "name"]
    assert hareline.ok("exchanges", "list", *where).rows == [["amq.fanout"]]


def test_users_permissions_vhosts_and_policies(hareline: CommandLine) -> None:
    hareline.ok("vhost", "add", "shop", "--description", "d")
    assert ["shop", "d"] in [row[:2] for row in hareline.ok("vhost", "list").rows]
    hareline.ok("user", "add", "ann", "--tag", "management", text="secret\n")
    assert hareline("user", "add", "ann", text="x\n").status == 1
    hareline.ok("user", "permissions", "ann", "--vhost", "shop", "--read", ".*")
    assert hareline.ok("user", "permissions", "ann").rows == [["ann", "shop", "", "", ".*"]]
    hareline.ok("user", "tags", "ann", "monitoring", "policymaker")
    assert ["ann", "monitoring,policymaker"] in hareline.ok("user", "list").rows
    ann = CommandLine(
        HARELINE_URL=hareline.environ["HARELINE_URL"],
        HARELINE_USER="ann",
        HARELINE_PASSWORD="secret",
    )
    ann.ok("queues", "list", "--vhost", "shop")
    assert ann("user", "list").status == 5
    hareline.ok("user", "passwd", "ann", text="other\n")
    assert ann("queues", "list").status == 5
    hareline.ok("policy", "set", "p", "^a", "max-length=5", "--vhost", "shop")
    rows = hareline.ok("policy", "list", "--vhost", "shop").rows
    assert rows == [["shop", "p", "^a", "all", "0", '{"max-length": 5}']]
    hareline.ok("policy", "clear", "p", "--vhost", "shop")
    hareline.ok("user", "permissions", "ann", "--vhost", "shop", "--clear")
    hareline.ok("user", "delete", "ann")
    hareline.ok("vhost", "delete", "shop")
    assert hareline("vhost", "delete", "shop").status == 4


def test_definitions_go_out_and_in(hareline: CommandLine, tmp_path: Path) -> None:
    hareline.ok("queue", "declare", "kept")
    file = tmp_path / "d.json"
    hareline.ok("definitions", "export", str(file))
    assert "kept" in [each["name"] for each in json.loads(file.read_text())["queues"]]
    hareline.ok("queue", "delete", "kept")
    hareline.ok("definitions", "import", str(file))
    assert hareline.ok("queues", "show", "kept", "--json").json["name"] == "kept"


def test_status_health_top_and_doctor(hareline: CommandLine, rabbitmq: ManagedRabbitMQ) -> None:
    fields = dict(hareline.ok("status").rows)
    assert fields["product"] == "RabbitMQ"
    assert fields["version"].startswith("3.")
    assert hareline.ok("health", "--port", str(rabbitmq.http_port)).rows == [
        ["alarms", "ok", ""],
        ["virtual-hosts", "ok", ""],
        [f"port-listener {rabbitmq.http_port}", "ok", ""],
    ]
    assert hareline("health", "--port", "1").status == 1
    assert hareline.ok("top", "--json").json["overview"]["product_name"] == "RabbitMQ"
    assert "error" not in [row[0] for row in hareline.ok("doctor", "--remote").rows]


def test_a_connection_is_closed(hareline: CommandLine) -> None:
    hareline.ok("queue", "declare", "watched")
    waiting = hareline.start("get", "watched", "--wait", "300")

    def names() -> list[str]:
        rows = hareline.ok("connections", "list", "--columns", "name,client").rows
        return [row[0] for row in rows if row[1:] == ["hareline get"]]

    wait_for(names, DEADLINE_S, "the connection in the list")
    hareline.ok("connection", "close", names()[0], "--reason", "enough")
    _, err = waiting.communicate(timeout=DEADLINE_S)
    assert waiting.returncode in {1, 3}
    assert b"enough" in err


def test_what_only_hareline_can_do_is_said(hareline: CommandLine) -> None:
    hareline.ok("queue", "declare", "plain")
    done = hareline("queue", "pause", "plain")
    assert (done.status, "this broker has no `pause`" in done.err) == (1, True), done
    done = hareline("queue", "browse", "plain")
    assert (done.status, "this broker has no `browse`" in done.err) == (1, True), done
    done = hareline("tail", "plain", "--from", "first")
    assert (done.status, "can show streams without taking" in done.err) == (1, True), done


def test_a_stream_is_followed(hareline: CommandLine) -> None:
    hareline.ok("queue", "declare", "followed", "--type", "stream")
    hareline.ok("publish", "-q", "followed", "--lines", text="a\nb\n")
    done = hareline.ok("tail", "followed", "--from", "first", "--count", "2", "--body")
    assert done.text == "a\nb\n"
    assert "followed" in [row[1] for row in hareline.ok("streams", "list").rows]
    hareline.ok("queue", "delete", "followed")
