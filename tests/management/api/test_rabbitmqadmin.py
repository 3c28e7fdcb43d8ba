"""RabbitMQ's own command-line tool, the script that its server carries, against this broker."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.api_broker import PASSWORD, ApiBroker

SCRIPTS = [
    Path(found)
    for found in (
        shutil.which("rabbitmqadmin"),
        *Path("/usr/lib/rabbitmq").glob("lib/*/plugins/rabbitmq_management-*/priv/www/cli/*admin"),
    )
    if found
]
pytestmark = pytest.mark.skipif(not SCRIPTS, reason="rabbitmqadmin is not installed")

KINDS = ["bindings", "channels", "connections", "consumers", "exchanges", "nodes", "queues"]


def run(broker: ApiBroker, *arguments: str) -> str:
    """What the script prints; it has to end well."""
    port = broker.url.rpartition(":")[2]
    login = ("-H", "127.0.0.1", "-P", port, "-u", "admin", "-p", PASSWORD)
    ended = subprocess.run(
        [sys.executable, str(SCRIPTS[0]), *login, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, ""), (arguments, ended)
    return ended.stdout


@pytest.fixture(autouse=True)
def objects(broker: ApiBroker) -> None:
    """A connection, a channel, a consumer, a queue with a message and bindings."""
    channel = broker.connect(name="for the script").channel()
    channel.queue_declare("listed", durable=True)
    channel.queue_bind("listed", "amq.topic", "a.*")
    channel.queue_declare("taken", auto_delete=True)
    channel.basic_publish("", "listed", b"1")
    channel.basic_consume("taken", lambda *_: None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["table", "tsv", "long", "kvp", "bash", "raw_json", "pretty_json"])
def test_lists_are_printed_in_every_form(broker: ApiBroker, kind: str, form: str) -> None:
    printed = run(broker, "-f", form, "list", kind)
    assert "No items" not in printed
    if form.endswith("json"):
        assert json.loads(printed)


def test_lists_are_sorted_and_have_the_columns_asked_for(broker: ApiBroker) -> None:
    printed = run(
        *(broker, "-f", "tsv", "-S", "messages", "-R", "list", "queues", "name", "messages")
    )
    rows = [line.split("\t") for line in printed.splitlines()]
    assert rows[0] == ["name", "messages"]
    assert rows[1] == ["listed", rows[1][1]]
    assert int(rows[1][1]) >= 1


def test_a_list_of_one_virtual_host(broker: ApiBroker) -> None:
    assert "amq.topic" in run(broker, "-V", "other", "list", "exchanges")


def test_the_overview_is_shown(broker: ApiBroker) -> None:
    printed = run(broker, "show", "overview")
    for column in ("rabbitmq_version", "cluster_name", "queue_totals.messages"):
        assert column in printed


def test_a_connection_is_closed(broker: ApiBroker) -> None:
    connection = broker.connect()
    name = broker.name_of(connection)
    assert "connection closed" in run(broker, "close", "connection", f"name={name}")
    broker.thread.wait_until(
        lambda running: (
            name not in [each.transport.connection_name for each in running.context.connections]
        ),
        "its end",
    )
