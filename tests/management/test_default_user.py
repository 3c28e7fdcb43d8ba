"""The first administrator of a new broker: RabbitMQ's order of steps works, and guest stays."""

from __future__ import annotations

from typing import Any

import pika
import pytest

from tests.support.broker_process import StartDaemon
from tests.support.command_line import CommandLine
from tests.support.http_api import HttpApi

ALL = {"configure": ".*", "write": ".*", "read": ".*"}


def finding_on_users(hareline: CommandLine) -> Any:
    found = hareline.ok("doctor", "--remote", "--json").json
    return next(each for each in found if each["check"] == "users")


@pytest.mark.acceptance
def test_over_http_guest_stays_until_it_is_deleted(start_daemon: StartDaemon) -> None:
    broker = start_daemon()
    guest = HttpApi(broker.management_url)
    guest.done("PUT", "/api/users/ops", {"password": "ops", "tags": ""})
    guest.done("PUT", "/api/users/ops", {"password": "ops", "tags": "administrator"})
    guest.done("PUT", "/api/permissions/%2F/ops", ALL)
    users = {each["name"]: each for each in guest.get("/api/users")}
    assert (users["guest"]["has_default_password"], users["guest"]["loopback_only"]) == (True, True)
    assert (users["ops"]["has_default_password"], users["ops"]["loopback_only"]) == (False, False)
    pika.BlockingConnection(pika.URLParameters(broker.url)).close()
    assert broker.log_tail().count("hareline user delete guest") == 1
    ops = HttpApi(broker.management_url, "ops", "ops")
    ops.done("DELETE", "/api/users/guest")
    broker.restart()
    assert [each["name"] for each in ops.get("/api/users")] == ["ops"]


def test_commands_add_an_administrator_and_remove_guest(start_daemon: StartDaemon) -> None:
    broker = start_daemon()
    address = f"amqp://127.0.0.1:{broker.port}"
    hareline = CommandLine(HARELINE_URL=broker.management_url, HARELINE_AMQP_URL=address)
    finding = finding_on_users(hareline)
    assert (finding["verdict"], "user add NAME" in finding["remedy"]) == ("note", True)
    hareline.ok("user", "add", "ops", text="secret\n")
    hareline.ok("user", "tags", "ops", "administrator")
    rights = ["--configure", ".*", "--write", ".*", "--read", ".*"]
    hareline.ok("user", "permissions", "ops", *rights)
    assert hareline.ok("user", "list").rows == [
        ["guest", "administrator"],
        ["ops", "administrator"],
    ]
    finding = finding_on_users(hareline)
    assert (finding["verdict"], finding["remedy"]) == ("warning", "hareline user delete guest")
    ops = CommandLine(**hareline.environ, HARELINE_USER="ops", HARELINE_PASSWORD="secret")
    ops.ok("user", "delete", "guest")
    assert hareline("user", "list").status == 5
