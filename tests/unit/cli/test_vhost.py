"""``hareline vhost``: list, add, delete."""

from __future__ import annotations

from tests.support.scripted_api import ScriptedApi

from .conftest import Run


def test_virtual_hosts_are_listed_added_and_deleted(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/vhosts", [{"name": "/", "messages": 3, "tracing": False}])
    assert run("vhost", "list").stdout == "/\t\t\t3\t\t\tfalse\n"
    api.will("PUT", "/vhosts/shop", status=201)
    result = run("vhost", "add", "shop", "--description", "orders", "--default-type", "quorum")
    assert result.stdout == "vhost 'shop': added\n"
    assert api.last.body == {"description": "orders", "default_queue_type": "quorum"}
    api.will("DELETE", "/vhosts/shop", status=204)
    assert run("vhost", "delete", "shop").stdout == "vhost 'shop': deleted\n"
    assert run("vhost", "delete", "other").exit_code == 4
