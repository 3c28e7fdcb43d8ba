"""``hareline migrate``: which brokers it takes, what it plans, and what it says of errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hareline.settings.sources import CLIENT_VARIABLES
from tests.support.scripted_api import ScriptedApi, scripted_api
from tests.unit.cli.conftest import Run
from tests.unit.cli.migrate.test_inventory import QUEUES, page

HARELINE = {"product_name": "Hareline"}
DEFINITIONS = {"queues": [{"vhost": "/", "name": "q"}]}
LEFT_OUT = [{"what": "queue", "name": "q", "vhost": "my/v", "reason": "no"}]


@pytest.fixture
def old(api: ScriptedApi) -> Any:
    """The API of the broker to copy from; ``api`` is that of the Hareline."""
    api.will("GET", "/overview", HARELINE)
    with scripted_api() as made:
        made.will("GET", "/queues", page(*QUEUES))
        made.will("GET", "/definitions", DEFINITIONS)
        yield made


def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    run: Run, api: ScriptedApi, old: ScriptedApi
) -> None:
    result = run("migrate", old.url, "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        "would move 2 messages of queue 'b' in vhost '/'",
        "would copy 5 messages of stream 's' in vhost 'v'",
        "not moved: 1 message of queue 'amq.gen-1' in vhost 'v': names that begin with 'amq.' are "
        "a broker's own, so it cannot be declared here",
        "not moved: 1 message of queue 'mine' in vhost 'v': it is exclusive to a connection, and "
        "ends with that",
        "7 messages in 2 queues and streams",
    ]
    assert {each.method for each in [*api.asked, *old.asked]} == {"GET"}
    plan = json.loads(run("migrate", old.url, "--dry-run", "--json").stdout)
    assert (plan["messages"], [row["name"] for row in plan["queues"]]) == (7, ["b", "s"])
    assert [row["reason"] != "" for row in plan["not_moved"]] == [True, True]


def test_definitions_are_copied_and_what_is_left_out_is_said(
    run: Run, api: ScriptedApi, old: ScriptedApi
) -> None:
    api.will("POST", "/definitions", {"done": {}, "left_out": LEFT_OUT})
    result = run("migrate", old.url, "--no-messages")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        "definitions: queue q in my/v: no",
        "definitions copied, 1 items with a remark",
    ]
    assert (api.last.body, api.last.query) == (DEFINITIONS, {"report": "true"})
    report = json.loads(run("migrate", old.url, "--no-messages", "--json").stdout)
    assert report == {"left_out": LEFT_OUT}


def test_chosen_virtual_hosts_are_made_and_copied_one_by_one(
    run: Run, api: ScriptedApi, old: ScriptedApi
) -> None:
    for vhost in ("my%2Fv", "w"):
        old.will("GET", f"/queues/{vhost}", page())
        old.will("GET", f"/definitions/{vhost}", {"queues": [vhost]})
        api.will("POST", f"/definitions/{vhost}", {"left_out": LEFT_OUT})
    api.will("POST", "/definitions", {"left_out": []})
    flags = ["--vhost", "my/v", "--vhost", "w", "--no-messages"]
    result = run("migrate", old.url, *flags, HARELINE_VHOST="not this")
    assert result.exit_code == 0, result.stderr
    assert [(each.path, each.body) for each in api.of("POST")] == [
        ("/api/definitions", {"vhosts": [{"name": "my/v"}]}),
        ("/api/definitions/my%2Fv", {"queues": ["my%2Fv"]}),
        ("/api/definitions", {"vhosts": [{"name": "w"}]}),
        ("/api/definitions/w", {"queues": ["w"]}),
    ]


def test_the_source_has_variables_and_targets_of_its_own(
    run: Run, old: ScriptedApi, tmp_path: Path
) -> None:
    def login_of(*arguments: str, **environ: str) -> str:
        result = run("migrate", "--dry-run", *arguments, **environ)
        assert result.exit_code == 0, result.stderr
        return old.last.login

    secret = tmp_path / "secret"
    secret.write_text("s\n")
    assert login_of(old.url) == "Basic guest:guest"
    assert login_of(HARELINE_SOURCE_URL=old.url) == "Basic guest:guest"
    flags = ["--source-user", "ann", "--source-password-file", str(secret)]
    assert login_of(old.url, *flags, HARELINE_USER="bob", HARELINE_PASSWORD="x") == "Basic ann:s"
    login = {"HARELINE_SOURCE_USER": "ann", "HARELINE_SOURCE_PASSWORD": "p"}
    assert login_of(old.url, **login) == "Basic ann:p"
    config = tmp_path / "config" / "hareline" / "client.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        f'default = "new"\n[targets.old]\nurl = "{old.url}"\nuser = "ann"\n'
        f'password_file = "{secret}"\n[targets.new]\nuser = "eve"\npassword_file = "/nope"\n'
    )
    config.chmod(0o600)
    here = {"HARELINE_USER": "guest", "HARELINE_PASSWORD": "guest"}
    assert login_of("old", **here) == "Basic ann:s"
    assert login_of(HARELINE_SOURCE_TARGET="old", **here) == "Basic ann:s"
    assert login_of(old.url, **here) == "Basic guest:guest"  # not eve's of the default target


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 2, "SOURCE: name the broker to copy from"),
        (
            ["http://ann:secret@old"],
            2,
            "set HARELINE_SOURCE_PASSWORD or use --source-password-file",
        ),
        (["nonsense://old"], 2, "SOURCE: 'nonsense://old' does not begin with http://"),
        (["old"], 2, "no target 'old'"),
        (["http://127.0.0.1:1"], 3, "http://127.0.0.1:1: Connection refused"),
        (["http://old", "--source-user", "ann"], 2, "set HARELINE_SOURCE_PASSWORD"),
    ],
)
def test_a_source_that_is_none_is_said(
    run: Run, old: ScriptedApi, arguments: list[str], status: int, said: str
) -> None:
    result = run("migrate", *arguments)
    assert result.exit_code == status, result.stderr
    assert said in result.stderr
    assert "secret" not in result.stderr
    assert not old.asked


def test_a_broker_is_not_migrated_to_itself_nor_to_another_kind(
    run: Run, api: ScriptedApi, old: ScriptedApi
) -> None:
    result = run("migrate", api.url)
    assert (result.exit_code, "is the source and the target" in result.stderr) == (2, True)
    api.will("GET", "/overview", {"product_name": "RabbitMQ"})
    result = run("migrate", old.url)
    assert (result.exit_code, "is RabbitMQ, which is not a Hareline" in result.stderr) == (2, True)
    assert not old.asked


def test_what_the_old_broker_refuses_is_a_sentence(run: Run, old: ScriptedApi) -> None:
    old.will("GET", "/queues", {"error": "not_authorised", "reason": "Login failed"}, 401)
    result = run("migrate", old.url)
    assert (result.exit_code, result.stderr) == (5, "hareline: guest: Login failed\n")


def test_a_broker_that_starts_does_not_mind_the_variables() -> None:
    assert {f"HARELINE_SOURCE_{name}" for name in ("URL", "USER", "PASSWORD", "CA_FILE")} <= (
        CLIENT_VARIABLES
    )
