"""Every group of commands asks a real Hareline: results, tables, JSON, and how each error ends.

``publish``, ``get`` and ``tail`` have test_message_commands.py, ``perf`` has test_perf_command.py,
``migrate`` has test_migrate.py, and RabbitMQ is asked in test_commands_rabbitmq.py.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any

import pika
import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.command_line import CommandLine
from tests.support.terminal import TerminalProcess
from tests.support.waiting import wait_for

DEADLINE_S = 60.0
CONFIG = """
[auth]
failure_delay_s = 0
login_failures_max = 0

[management]
sample_interval_s = 0.2

[[users]]
name = "guest"
password = "guest"
tags = ["administrator"]
permissions = [{vhost = "/", configure = ".*", write = ".*", read = ".*"}]

[[users]]
name = "reader"
password = "reader"
tags = ["management"]
permissions = [{vhost = "/", configure = "^$", write = "^$", read = "^open"}]
"""
pytestmark = pytest.mark.daemon(CONFIG)


def line_of(broker: BrokerProcess, **environ: str) -> CommandLine:
    address = f"amqp://127.0.0.1:{broker.port}"
    return CommandLine(HARELINE_URL=broker.management_url, HARELINE_AMQP_URL=address, **environ)


@pytest.fixture
def hareline(broker: BrokerProcess) -> CommandLine:
    return line_of(broker)


@pytest.fixture
def channel(broker: BrokerProcess) -> Iterator[Any]:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        yield connection.channel()


def named(hareline: CommandLine, resource: str, name: str) -> list[list[str]]:
    flags = ["--name", f"^{name}$", "--columns", "name,messages"]
    return hareline.ok(resource, "list", *flags).rows


# --------------------------------------------------------------------------------- what there is


@pytest.mark.acceptance
def test_a_life_of_a_queue(hareline: CommandLine) -> None:
    hareline.ok("queue", "declare", "life", "-a", "x-max-length=10")
    assert hareline.ok("queue", "declare", "life", "-a", "x-max-length=10", "--json").json == {
        "created": False
    }
    done = hareline("queue", "declare", "life")
    assert (done.status, "x-max-length" in done.err) == (1, True)
    hareline.ok("exchange", "declare", "life.x", "--type", "topic")
    hareline.ok("bind", "life.x", "life", "-k", "a.#")
    hareline.ok("bind", "life.x", "life", "-k", "b", "-a", 'x={"y": 1}')
    rows = hareline.ok("bindings", "show", "life.x", "life").rows
    assert [row[:4] for row in rows] == [
        ["life.x", "life", "queue", "a.#"],
        ["life.x", "life", "queue", "b"],
    ]
    hareline.ok("publish", "-e", "life.x", "-k", "a.b", "hello")
    assert named(hareline, "queues", "life") == [["life", "1"]]
    assert hareline.ok("queues", "show", "life", "--json").json["arguments"] == {"x-max-length": 10}
    assert hareline.ok("exchanges", "show", "life.x", "--json").json["type"] == "topic"
    hareline.ok("unbind", "life.x", "life", "-k", "a.#")
    assert hareline("unbind", "life.x", "life", "-k", "a.#").status == 4
    assert hareline("queue", "delete", "life", "--if-empty").status == 1
    hareline.ok("queue", "purge", "life")
    hareline.ok("queue", "delete", "life", "--if-empty")
    hareline.ok("exchange", "delete", "life.x")
    assert hareline("queues", "show", "life").status == 4
    assert hareline("exchanges", "show", "life.x").status == 4


@pytest.mark.acceptance
@pytest.mark.parametrize(
    "resource",
    ["queues", "streams", "exchanges", "bindings", "connections", "channels", "consumers"],
)
def test_every_list_is_a_table_lines_and_json(
    broker: BrokerProcess, hareline: CommandLine, channel: Any, resource: str
) -> None:
    channel.queue_declare("open.listed", durable=True)
    channel.queue_declare("open.stream", durable=True, arguments={"x-queue-type": "stream"})
    channel.basic_consume("open.listed", lambda *_: None, consumer_tag="listed")
    rows = hareline.ok(resource, "list").rows
    assert rows
    found = hareline.ok(resource, "list", "--json").json
    assert len(found) == len(rows)
    assert len(hareline.ok(resource, "list", "--json", "--limit", "1").json) == 1
    with TerminalProcess(resource, "list", environ=line_of(broker).environ, columns=200) as shown:
        assert shown.wait() == 0
        assert len(shown.text.splitlines()) == len(rows) + 1  # and the heading
        assert "name" in shown.text.splitlines()[0] or resource in {"bindings", "consumers"}


@pytest.mark.acceptance
def test_connections_channels_consumers_and_streams_are_shown(
    hareline: CommandLine, channel: Any
) -> None:
    channel.queue_declare("open.shown", durable=True, arguments={"x-queue-type": "stream"})
    channel.basic_qos(prefetch_count=5)
    channel.basic_consume("open.shown", lambda *_: None, consumer_tag="shown")
    channel.basic_publish("", "open.shown", b"1")
    row = hareline.ok("consumers", "show", "shown", "--json").json[0]
    name = row["channel_details"]["name"]
    assert row["queue"] == {"name": "open.shown", "vhost": "/"}
    assert hareline.ok("channels", "show", name, "--json").json["consumer_count"] == 1
    connection = hareline.ok("channels", "show", name, "--json").json["connection_details"]["name"]
    assert hareline.ok("connections", "show", connection, "--json").json["user"] == "guest"
    wait_for(
        lambda: hareline.ok("streams", "show", "open.shown", "--json").json["next"] == 1,
        DEADLINE_S,
        "the message in the stream",
    )
    assert hareline("consumers", "show", "none").status == 4
    assert hareline("connections", "show", "none").status == 4
    hareline.ok("connection", "close", connection, "--reason", "enough")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="enough"):
        channel.connection.process_data_events(DEADLINE_S)


# --------------------------------------------------------------------------------------- messages


@pytest.mark.acceptance
def test_messages_are_browsed_moved_copied_deleted_and_purged(hareline: CommandLine) -> None:
    for queue in ("source", "other"):
        hareline.ok("queue", "declare", queue)
    for number in range(5):
        hareline.ok(
            "publish", "-q", "source", f"body {number}", "-H", f"n={number}", "--persistent"
        )
    rows = hareline.ok("queue", "browse", "source", "--limit", "2").rows
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("0", "ready", "body 0"),
        ("1", "ready", "body 1"),
    ]
    last = hareline.ok("queue", "browse", "source", "--end", "--limit", "1", "--json").json
    assert last[0]["payload"] == "body 4"
    where = ["--where", "n >= 3"]
    assert (
        hareline.ok("queue", "move", "source", "--to-queue", "other", *where, "--json").json[
            "moved"
        ]
        == 2
    )
    hareline.ok("queue", "copy", "source", "--to-queue", "other", "--offset", "0")
    found = hareline.ok("queue", "browse", "other", "--json").json
    assert [each["payload"] for each in found] == ["body 3", "body 4", "body 0"]
    hareline.ok("queue", "delete-messages", "source", "--offset", "0")
    hareline.ok("queue", "purge", "source", "--limit", "1")
    assert hareline.ok("get", "source", "--body").text == "body 2\n"
    hareline.ok("queue", "purge", "other")
    assert named(hareline, "queues", "other") == [["other", "0"]]
    refused = hareline("queue", "move", "source", "--to-queue", "other")
    assert (refused.status, "say which messages" in refused.err) == (2, True)


@pytest.mark.acceptance
def test_messages_go_to_a_file_and_back(hareline: CommandLine, tmp_path: Path) -> None:
    for queue in ("exported", "imported"):
        hareline.ok("queue", "declare", queue)
    hareline.ok("publish", "-q", "exported", "--lines", text=b"one\ntwo\n\xff\xfe\n")
    file = tmp_path / "messages"
    assert hareline.ok("queue", "export", "exported", str(file), "--json").json["messages"] == 3
    assert file.stat().st_mode & 0o777 == 0o600
    assert hareline.ok("queue", "import", "imported", str(file), "--json").json["imported"] == 3
    assert hareline.ok("get", "imported", "--count", "9", "--body").out == b"one\ntwo\n\xff\xfe\n"
    file.write_bytes(file.read_bytes()[:-40])
    cut = hareline("queue", "import", "imported", str(file))
    assert cut.status == 1
    assert cut.err.startswith("hareline: queue 'imported' in vhost '/': ")


@pytest.mark.acceptance
def test_a_queue_is_paused_and_resumed(hareline: CommandLine) -> None:
    hareline.ok("queue", "declare", "slow")
    hareline.ok("publish", "-q", "slow", "1")
    hareline.ok("queue", "pause", "slow")
    assert hareline.ok("queues", "show", "slow", "--json").json["state"] == "paused"
    assert hareline.ok("get", "slow", "--body").text == ""
    hareline.ok("queue", "resume", "slow")
    assert hareline.ok("get", "slow", "--body").text == "1\n"


@pytest.mark.acceptance
def test_dead_letters_go_back(hareline: CommandLine, channel: Any) -> None:
    hareline.ok("queue", "declare", "dead")
    arguments = ["-a", 'x-dead-letter-exchange=""', "-a", "x-dead-letter-routing-key=dead"]
    hareline.ok("queue", "declare", "alive", *arguments)
    hareline.ok("publish", "-q", "alive", "1")
    tag = channel.basic_get("alive")[0].delivery_tag
    channel.basic_nack(tag, requeue=False)
    wait_for(lambda: named(hareline, "queues", "dead") == [["dead", "1"]], DEADLINE_S, "the death")
    assert hareline.ok("queue", "retry", "dead", "--all", "--json").json["retried"] == 1
    assert hareline.ok("get", "alive", "--body").text == "1\n"


# --------------------------------------------------------------------------------- administration


@pytest.mark.acceptance
def test_users_permissions_vhosts_and_policies(
    broker: BrokerProcess, hareline: CommandLine
) -> None:
    hareline.ok("vhost", "add", "shop", "--description", "d")
    assert ["shop", "d"] in [row[:2] for row in hareline.ok("vhost", "list").rows]
    hareline.ok("user", "add", "ann", "--tag", "management", text="secret\n")
    assert hareline("user", "add", "ann", text="x\n").status == 1
    hareline.ok("user", "permissions", "ann", "--vhost", "shop", "--read", ".*")
    assert hareline.ok("user", "permissions", "ann").rows == [["ann", "shop", "", "", ".*"]]
    hareline.ok("user", "tags", "ann", "monitoring", "policymaker")
    assert ["ann", "monitoring,policymaker"] in hareline.ok("user", "list").rows
    ann = line_of(broker, HARELINE_USER="ann", HARELINE_PASSWORD="secret")
    ann.ok("queues", "list", "--vhost", "shop")
    assert ann("user", "list").status == 5
    hareline.ok("user", "passwd", "ann", text="other\n")
    assert ann("queues", "list").status == 5
    hareline.ok("policy", "set", "p", "^a", "max-length=5", "--vhost", "shop", "--priority", "3")
    assert hareline.ok("policy", "list", "--vhost", "shop").rows == [
        ["shop", "p", "^a", "all", "3", '{"max-length": 5}']
    ]
    hareline.ok("policy", "set", "cap", "^a", "max-length=2", "--vhost", "shop", "--operator")
    hareline.ok("queue", "declare", "a1", "--vhost", "shop")
    queue = hareline.ok("queues", "show", "a1", "--vhost", "shop", "--json").json
    assert (queue["policy"], queue["operator_policy"]) == ("p", "cap")
    wrong = hareline("policy", "set", "q", "^a", "no-such-key=5", "--vhost", "shop")
    assert (wrong.status, "no-such-key" in wrong.err) == (1, True)
    hareline.ok("policy", "clear", "p", "--vhost", "shop")
    hareline.ok("user", "permissions", "ann", "--vhost", "shop", "--clear")
    hareline.ok("user", "delete", "ann")
    hareline.ok("vhost", "delete", "shop")
    assert hareline("vhost", "delete", "shop").status == 4
    assert hareline("user", "delete", "ann").status == 4


@pytest.mark.acceptance
def test_definitions_go_out_and_in_and_what_is_left_out_is_said(
    hareline: CommandLine, tmp_path: Path
) -> None:
    hareline.ok("queue", "declare", "kept")
    file = tmp_path / "d.json"
    hareline.ok("definitions", "export", str(file))
    definitions = json.loads(file.read_text())
    assert "kept" in [each["name"] for each in definitions["queues"]]
    hareline.ok("queue", "delete", "kept")
    value = {"src-uri": "amqp://", "dest-uri": "amqp://"}
    shovel = {"component": "shovel", "vhost": "/", "name": "s", "value": value}
    definitions["parameters"].append(shovel)
    file.write_text(json.dumps(definitions))
    done = hareline.ok("definitions", "import", str(file))
    assert "parameter shovel/s in /: kept, but nothing runs it" in done.text
    assert hareline.ok("queues", "show", "kept", "--json").json["name"] == "kept"


# ---------------------------------------------------------------------------- how the broker is


@pytest.mark.acceptance
def test_status_health_and_doctor(broker: BrokerProcess, hareline: CommandLine) -> None:
    fields = dict(hareline.ok("status").rows)
    assert (fields["product"], fields["memory alarm"]) == ("Hareline", "no")
    assert f"127.0.0.1:{broker.port}" in fields["listeners"]
    port = str(broker.management_port)
    assert [row[1] for row in hareline.ok("health", "--port", port).rows] == ["ok"] * 3
    failed = hareline("health", "--port", "1", "--json")
    assert (failed.status, failed.json["status"]) == (1, "failed")
    found = hareline.ok("doctor", "--remote", "--json").json
    assert {each["check"] for each in found} >= {"api", "amqp"}
    assert "error" not in [each["verdict"] for each in found]
    config = ["--config", str(broker.config_path)]
    here = hareline("doctor", *config)
    assert here.status in {0, 1}  # this machine may have something to be said
    assert {row[1] for row in here.rows} >= {"python", "settings", "api", "amqp"}


@pytest.mark.acceptance
def test_top_on_a_terminal_sorts_and_ends(broker: BrokerProcess, hareline: CommandLine) -> None:
    hareline.ok("queue", "declare", "top.a")
    hareline.ok("publish", "-q", "top.a", "1", "--count", "3")
    flags = ["--interval", "0.2", "--name", "^top"]
    with TerminalProcess("top", *flags, environ=line_of(broker).environ) as session:
        session.wait_for_text("top.a")
        session.wait_for_text("queues by in")
        session.press("r")
        session.wait_for_text("queues by ready")
        session.press("p")
        session.wait_for_text("(paused)")
        session.press("p\t")
        session.wait_for_text("connections by ")
        session.press("q")
        assert session.wait() == 0
    assert hareline.ok("top", "--json", "--name", "^top").json["queues"][0]["name"] == "top.a"


# ----------------------------------------------------------------------------------------- errors

COMMANDS = [
    ("queues", "list"),
    ("queue", "declare", "q"),
    ("queue", "move", "q", "--to-queue", "r", "--all"),
    ("queue", "export", "q", "-"),
    ("publish", "-q", "q", "1"),
    ("get", "q"),
    ("tail", "q"),
    ("policy", "list"),
    ("user", "list"),
    ("definitions", "export"),
    ("status",),
    ("health",),
    ("top",),
    ("perf", "--count", "1"),
]


@pytest.mark.acceptance
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_broker_that_is_down_is_a_sentence_and_status_3(words: tuple[str, ...]) -> None:
    down = CommandLine(HARELINE_URL="http://127.0.0.1:1", HARELINE_AMQP_URL="amqp://127.0.0.1:1")
    done = down(*words)
    assert done.status == 3, done
    assert done.out == b""
    assert "127.0.0.1:1" in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.acceptance
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_wrong_password_is_a_sentence_and_status_5(
    broker: BrokerProcess, words: tuple[str, ...]
) -> None:
    done = line_of(broker, HARELINE_PASSWORD="wrong")(*words)
    assert done.status == 5, done
    assert (done.out, len(done.err.splitlines())) == (b"", 1)
    assert "guest" in done.err
    assert "wrong user or password" in done.err or "login refused" in done.err


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("queue", "declare", "shut"), "configure access to queue 'shut'"),
        (("queue", "delete", "open.right"), "configure access to queue 'open.right'"),
        (("queue", "pause", "open.right"), "configure access to queue 'open.right'"),
        (("queue", "purge", "shut.right"), "read access to queue 'shut.right'"),
        (("queue", "move", "open.right", "--to-queue", "shut.right", "--all"), "write access to"),
        (("publish", "-q", "shut.right", "1"), "write access to exchange"),
        (("get", "shut.right"), "read access to queue 'shut.right'"),
        (("user", "list"), "Not administrator user"),
        (("policy", "set", "p", "^a", "max-length=1"), "Not policymaker user"),
        (("definitions", "export"), "Not administrator user"),
        (("vhost", "add", "v"), "Not administrator user"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_a_missing_right_is_a_sentence_and_status_5(
    broker: BrokerProcess, hareline: CommandLine, words: tuple[str, ...], said: str
) -> None:
    for queue in ("open.right", "shut.right"):
        hareline.ok("queue", "declare", queue)
    done = line_of(broker, HARELINE_USER="reader", HARELINE_PASSWORD="reader")(*words)
    assert done.status == 5, done
    assert said in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.acceptance
@pytest.mark.parametrize(
    "words",
    [
        ("queues", "show", "none"),
        ("streams", "show", "none"),
        ("exchanges", "show", "none"),
        ("queue", "delete", "none"),
        ("queue", "purge", "none"),
        ("queue", "browse", "none"),
        ("queue", "move", "none", "--to-queue", "x", "--all"),
        ("queue", "pause", "none"),
        ("queue", "export", "none", "-"),
        ("get", "none"),
        ("tail", "none"),
        ("policy", "clear", "none"),
        ("user", "permissions", "none"),
        ("user", "delete", "none"),
        ("vhost", "delete", "none"),
        ("queues", "list", "--vhost", "none"),
    ],
    ids=" ".join,
)
def test_what_is_not_there_is_named_and_status_4(
    hareline: CommandLine, words: tuple[str, ...]
) -> None:
    done = hareline(*words)
    assert done.status == 4, done
    assert "none" in done.err
    assert (done.out, len(done.err.splitlines())) == (b"", 1)


# ------------------------------------------------------------------------------------- completion


@pytest.mark.acceptance
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_loads_the_script_and_completes_by_tab(
    broker: BrokerProcess, hareline: CommandLine, tmp_path: Path, shell: str
) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    hareline.ok("queue", "declare", "complete.me")
    command = tmp_path / "hareline"
    command.write_text(f'#!/bin/sh\nexec {quote(sys.executable)} -m hareline "$@"\n')
    command.chmod(0o755)
    environ = {
        **line_of(broker).environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PS1": "$ ",
        "HOME": str(tmp_path),
    }
    flags = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"], "fish": ["--no-config"]}
    load = {
        "bash": "source <(hareline completion bash)",
        "zsh": "autoload -Uz compinit && compinit -D && source <(hareline completion zsh)",
        "fish": "hareline completion fish | source",
    }
    with TerminalProcess(*flags[shell], program=[program], environ=environ, columns=120) as session:
        session.press(f"{load[shell]}; echo load''ed\r")
        session.wait_for_text("loaded")
        session.press("hareline queues sh\t")
        session.wait_for_text("hareline queues show")
        session.press("complete.m\t")
        session.wait_for_text("complete.me")
        session.press("\x15exit\r")  # without the line that stands there
        session.wait()
