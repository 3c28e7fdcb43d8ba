"""``hareline status`` and ``health``."""

from __future__ import annotations

import json
from typing import Any

from tests.support.scripted_api import ScriptedApi

from .conftest import Run

OVERVIEW: dict[str, Any] = {
    "product_name": "Hareline",
    "product_version": "1",
    "node": "n",
    "object_totals": {"queues": 7},
    "queue_totals": {"messages": 1234},
    "message_stats": {"publish_details": {"rate": 2.5}},
    "listeners": [{"protocol": "amqp", "ip_address": "127.0.0.1", "port": 5672}],
}


def test_status_is_a_line_for_each_field_with_units(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/overview", OVERVIEW)
    api.will("GET", "/nodes", [{"uptime": 61_000, "mem_used": 5 << 20}])
    fields = dict(line.split("\t") for line in run("status").stdout.splitlines())
    assert fields["queues"] == "7"
    assert (fields["messages"], fields["in"], fields["uptime"]) == ("1,234", "2.5/s", "00:01:01")
    assert fields["memory"] == "5.0 MiB"
    assert fields["listeners"] == "amqp 127.0.0.1:5672"


def test_a_user_who_may_not_see_the_node_sees_the_rest(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/overview", OVERVIEW)
    api.will("GET", "/nodes", {"reason": "no"}, 401)
    result = run("status", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"overview": OVERVIEW, "nodes": []}


def test_a_healthy_broker(run: Run, api: ScriptedApi) -> None:
    for path in ("alarms", "virtual-hosts", "port-listener/5672"):
        api.will("GET", f"/health/checks/{path}", {"status": "ok"})
    result = run("health", "--port", "5672")
    assert result.exit_code == 0
    assert result.stdout == "alarms\tok\t\nvirtual-hosts\tok\t\nport-listener 5672\tok\t\n"


def test_an_alarm_ends_with_1_and_says_which(run: Run, api: ScriptedApi) -> None:
    answer = {"status": "failed", "reason": "alarms", "alarms": [{"resource": "memory"}]}
    api.will("GET", "/health/checks/alarms", answer, 503)
    api.will("GET", "/health/checks/virtual-hosts", {"status": "ok"})
    result = run("health")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (
        1,
        "alarms\tfailed\talarms: memory",
    )
    assert json.loads(run("health", "--json").stdout)["status"] == "failed"


def test_alive_asks_without_a_login(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/health", {"status": "ok", "alarms": ["memory"]})
    result = run("health", "--alive", "--user", "ann")  # whose password nobody knows
    assert (result.exit_code, result.stdout) == (0, "alive\tok\t\n")


def test_a_broker_that_has_failed_is_not_alive(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/health", {"status": "failed"}, 503)
    result = run("health", "--alive")
    assert (result.exit_code, result.stdout) == (1, "alive\tfailed\tfailed\n")


def test_what_is_no_broker_is_not_alive(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/health", ["whatever"])
    assert run("health", "--alive").exit_code != 0


def test_health_without_a_broker_ends_with_3(run: Run) -> None:
    assert run("health", HARELINE_URL="http://127.0.0.1:1").exit_code == 3
