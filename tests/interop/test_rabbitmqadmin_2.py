"""The newer rabbitmqadmin, in Rust, against this broker; its client refuses what lacks a key.

Building it takes some minutes, so it is run where it has been built: RABBITMQADMIN_2 is its path,
or ``build``, as of ``make rabbitmqadmin2``, which has Cargo install it below the user's cache
directory, where it is found later. A build that was asked for and fails is a failure.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pika
import pytest

from tests.support.broker_process import BrokerProcess

from .suite_runs import reason_line, run

VERSION: Final = "^2.35"
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "hareline"
INSTALLED: Final = CACHE / "rabbitmqadmin-2" / "bin" / "rabbitmqadmin"
BUILD_TIMEOUT_S: Final = 1_500
TIMEOUT_S: Final = 60

CHOSEN: Final = os.environ.get("RABBITMQADMIN_2", str(INSTALLED) if INSTALLED.exists() else "")
pytestmark = [
    pytest.mark.daemon(),
    pytest.mark.skipif(not CHOSEN, reason="rabbitmqadmin 2 is not built; make rabbitmqadmin2 does"),
    pytest.mark.timeout(BUILD_TIMEOUT_S + 300),
]


@pytest.fixture(scope="module")
def program() -> str:
    if CHOSEN != "build":
        return CHOSEN
    if shutil.which("cargo") is None:
        pytest.fail("rabbitmqadmin 2 cannot be built: cargo is not installed")
    command = ["cargo", "install", "rabbitmqadmin", "--version", VERSION, "--locked"]
    root = INSTALLED.parents[1]
    root.mkdir(parents=True, exist_ok=True)
    built = run([*command, "--root", root], cwd=root, timeout_s=BUILD_TIMEOUT_S)
    if built.status != 0:
        pytest.fail(f"cargo cannot build rabbitmqadmin: {reason_line(built.output)}")
    return str(INSTALLED)


@pytest.fixture(scope="module")
def connection(broker: BrokerProcess) -> Iterator[Any]:
    """A client with channels and consumers, so that no list is empty."""
    made = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = made.channel()
    channel.queue_declare("watched", durable=True)
    channel.queue_bind("watched", "amq.topic", "a.#")
    channel.basic_publish("", "watched", b"x")
    channel.basic_qos(prefetch_count=3)
    channel.basic_consume("watched", lambda *_: None)
    yield made
    if made.is_open:
        made.close()


class Admin:
    """Runs the program; each run has to end well."""

    def __init__(self, program: str, broker: BrokerProcess) -> None:
        self._command = [program, "--host", "127.0.0.1", "--port", str(broker.management_port)]
        self._command += ["--username", "guest", "--password", "guest", "--non-interactive"]

    def __call__(self, *arguments: str, vhost: str = "/") -> str:
        """What it prints."""
        ended = self.run(*arguments, vhost=vhost)
        assert ended.returncode == 0, (arguments, ended.stdout, ended.stderr)
        return ended.stdout

    def run(self, *arguments: str, vhost: str = "/") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, "--vhost", vhost, *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )


@pytest.fixture
def admin(program: str, broker: BrokerProcess, connection: Any) -> Admin:
    return Admin(program, broker)


LISTS: Final = {
    "nodes": "hareline@",
    "vhosts": "/",
    "users": "guest",
    "permissions": "guest",
    "connections": "127.0.0.1",
    "channels": "127.0.0.1",
    "consumers": "watched",
    "queues": "watched",
    "exchanges": "amq.topic",
    "bindings": "a.#",
    "policies": "",
    "operator_policies": "",
    "parameters": "",
    "user_limits": "",
    "vhost_limits": "",
    "feature_flags": "quorum_queue",
    "deprecated_features": "global_qos",
}


@pytest.mark.parametrize("kind", LISTS)
def test_lists(admin: Admin, kind: str) -> None:
    assert LISTS[kind] in admin("list", kind)


@pytest.mark.parametrize("what", ["overview", "churn", "endpoint"])
def test_shows(admin: Admin, what: str) -> None:
    assert admin("show", what)


@pytest.mark.parametrize(
    "check",
    [
        ["local_alarms"],
        ["cluster_wide_alarms"],
        ["node_is_quorum_critical"],
        ["protocol_listener", "--protocol", "amqp091"],
    ],
)
def test_health_checks(admin: Admin, check: Sequence[str]) -> None:
    admin("health_check", *check)


#: Kind -> options that declare it, the list that has it, and options that delete it.
DECLARED: Final[dict[str, tuple[Sequence[str], str, Sequence[str]]]] = {
    "vhost": (["--name", "admin-2"], "vhosts", ["--name", "admin-2"]),
    "user": (
        ["--name", "admin-2", "--password", "secret", "--tags", "management"],
        "users",
        ["--name", "admin-2"],
    ),
    "queue": (
        ["--name", "admin-2", "--type", "classic", "--durable", "true"],
        "queues",
        ["--name", "admin-2"],
    ),
    "exchange": (["--name", "admin-2", "--type", "topic"], "exchanges", ["--name", "admin-2"]),
    "policy": (
        [
            *("--name", "admin-2", "--pattern", "^q", "--apply-to", "queues", "--priority", "1"),
            *("--definition", '{"max-length": 10}'),
        ],
        "policies",
        ["--name", "admin-2"],
    ),
    "operator_policy": (
        [
            *("--name", "admin-2", "--pattern", "^q", "--apply-to", "queues", "--priority", "1"),
            *("--definition", '{"max-length": 10}'),
        ],
        "operator_policies",
        ["--name", "admin-2"],
    ),
}


@pytest.mark.parametrize("kind", DECLARED)
def test_what_is_declared_is_listed_until_it_is_deleted(admin: Admin, kind: str) -> None:
    declaring, listed, deleting = DECLARED[kind]
    admin("declare", kind, *declaring)
    assert "admin-2" in admin("list", listed)
    admin("delete", kind, *deleting)
    assert "admin-2" not in admin("list", listed)
    assert admin.run("delete", kind, *deleting).returncode != 0
    admin("delete", kind, *deleting, "--idempotently")


def test_bindings_and_permissions(admin: Admin) -> None:
    ends = ("--source", "amq.topic", "--destination-type", "queue", "--destination", "watched")
    admin("bindings", "declare", *ends, "--routing-key", "admin.2")
    assert "admin.2" in admin("list", "bindings")
    admin("bindings", "delete", *ends, "--routing-key", "admin.2")
    assert "admin.2" not in admin("list", "bindings")
    admin("declare", "user", "--name", "permitted", "--password", "secret")
    every = ("--configure", ".*", "--write", ".*", "--read", "^admin-2")
    admin("declare", "permissions", "--user", "permitted", *every)
    assert "^admin-2" in admin("list", "permissions")
    admin("delete", "permissions", "--user", "permitted")
    admin("delete", "user", "--name", "permitted")


def test_messages(admin: Admin) -> None:
    admin("declare", "queue", "--name", "mail", "--type", "classic", "--durable", "true")
    message = ("--exchange", "amq.default", "--routing-key", "mail", "--payload", "hello")
    admin("publish", "message", *message, "--properties", '{"message_id": "m"}')
    assert "hello" in admin("get", "messages", "--queue", "mail")
    admin("purge", "queue", "--name", "mail")
    assert "hello" not in admin("get", "messages", "--queue", "mail")
    admin("delete", "queue", "--name", "mail")


def test_definitions(admin: Admin, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    admin("definitions", "export", "--file", str(file))
    assert "watched" in {each["name"] for each in json.loads(file.read_text())["queues"]}
    admin("definitions", "import", "--file", str(file))
    admin("declare", "vhost", "--name", "empty")
    admin("definitions", "export_from_vhost", "--file", str(file))
    admin("definitions", "import_into_vhost", "--file", str(file), vhost="empty")
    assert "watched" in admin("list", "queues", vhost="empty")
    admin("delete", "vhost", "--name", "empty")


def test_what_one_node_has_done_already(admin: Admin) -> None:
    admin("rebalance", "queues")
    admin("feature_flags", "enable", "--name", "stream_queue")


def test_a_connection_is_closed(admin: Admin, broker: BrokerProcess) -> None:
    other = pika.BlockingConnection(pika.URLParameters(broker.url))
    socket = other._impl._transport._sock
    (host, port), (peer, at) = socket.getsockname(), socket.getpeername()
    name = f"{host}:{port} -> {peer}:{at}"
    admin("close", "connection", "--name", name)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        other.process_data_events(TIMEOUT_S)
