"""``hareline doctor``: all checks, and the status they end with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hareline.cli import doctor
from tests.support.scripted_api import ScriptedApi

from ..conftest import Run


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "hareline.toml"
    data = tmp_path / "data"
    ports = "[listener]\nport = 0\n[management]\nport = 0\n"
    file.write_text(f"data_dir = '{data}'\n{ports}")
    file.chmod(0o600)
    return str(file)


def checks(text: str) -> dict[str, str]:
    return {each["check"]: each["verdict"] for each in json.loads(text)}


def test_all_checks_are_made_and_nothing_is_written(run: Run, config: str, tmp_path: Path) -> None:
    result = run("doctor", "--config", config, "--json", HARELINE_URL="")
    found = checks(result.stdout)
    assert found["api"] == "note"  # the settings leave the ports to the system
    assert set(found) >= {
        *("python", "uvloop", "settings", "ports", "data directory", "disk", "open files"),
        *("clock", "passwords", "api"),
    }
    assert result.exit_code == int("error" in found.values())
    assert not (tmp_path / "data").exists()


def test_settings_that_are_wrong_end_with_1(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text("[log]\nlevel = 'loud'\n")
    result = run("doctor", "--config", str(file))
    assert result.exit_code == 1
    assert f"error\tsettings\t{file}: log.level" in result.stdout


def test_of_a_broker_elsewhere_only_what_can_be_seen(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/whoami", {"name": "guest"})
    api.will("GET", "/overview", {"product_name": "Hareline"})
    api.will("GET", "/nodes", [])
    result = run("doctor", "--remote", "--json")
    assert set(checks(result.stdout)) == {"api", "amqp"}


def test_a_check_that_fails_itself_is_a_finding(
    run: Run, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise OSError("no such table")

    monkeypatch.setattr(doctor, "check_limits", broken)
    result = run("doctor", "--config", config, "--json", HARELINE_URL="")
    assert checks(result.stdout)["open files"] == "error"
    assert result.exit_code == 1


def test_a_named_broker_is_not_mistaken_for_that_of_the_settings(
    run: Run, api: ScriptedApi, config: str
) -> None:
    api.will("GET", "/whoami", {"name": "guest"})
    api.will("GET", "/overview", {"listeners": [{"protocol": "amqp", "port": 1}]})
    api.will("GET", "/nodes", [{"os_pid": "0"}])
    found = json.loads(run("doctor", "--config", config, "--json").stdout)
    assert {each["check"] for each in found} == {"python", "uvloop", "settings", "api", "amqp"}
    assert f"{api.url} is not the broker of these settings" in found[-3]["found"]
    assert "amqp://127.0.0.1:1: " in found[-1]["found"]  # the listener, not the usual port


def test_without_a_name_the_broker_of_the_settings_is_asked(
    run: Run, api: ScriptedApi, tmp_path: Path
) -> None:
    file = tmp_path / "hareline.toml"
    ports = f"[listener]\nport = 1\n[management]\nport = {api.server_port}\n"
    file.write_text(f"data_dir = '{tmp_path / 'data'}'\n{ports}")
    api.will("GET", "/whoami", {"name": "guest"})
    api.will("GET", "/overview", {"product_name": "Hareline"})
    api.will("GET", "/nodes", [{"fd_total": 77}])
    found = json.loads(run("doctor", "--config", str(file), "--json", HARELINE_URL="").stdout)
    said = {each["check"]: each["found"] for each in found}
    assert said["api"].startswith(f"{api.url}: Hareline")
    assert said["open files"].startswith("77 at most for the broker")
    assert said["amqp"].startswith("amqp://127.0.0.1:1")
