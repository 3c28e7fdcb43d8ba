"""``hareline completion``: scripts that the shells take, and the answers behind them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shlex import quote

import pytest

from hareline.cli.root import SHELLS
from tests.support.scripted_api import ScriptedApi

from .conftest import Run

MAIN = "from hareline.cli import main; main()"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_printed(run: Run, shell: str) -> None:
    result = run("completion", shell)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"_HARELINE_COMPLETE={shell}_complete" in result.stdout


def test_another_shell_is_a_usage_error(run: Run) -> None:
    assert run("completion", "tcsh").exit_code == 2


def completed(words: str, shell: str = "bash", **environ: str) -> list[str]:
    parts = words.split(" ")
    asked = {
        "_HARELINE_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": parts[-1] if shell == "fish" else str(len(parts) - 1),
    }
    run = subprocess.run(
        [sys.executable, "-c", MAIN],
        env={**os.environ, **asked, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr == ""
    return run.stdout.split("\n")[:-1]


def test_commands_and_options_are_completed() -> None:
    assert "plain,queues" in completed("hareline que")
    assert "plain,list" in completed("hareline queues ")
    assert "plain,--vhost" in completed("hareline queues list --v")


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_queues_of_the_broker_are_completed(api: ScriptedApi, shell: str) -> None:
    api.will("GET", "/queues/%2F", {"items": [{"name": "orders"}], "page_count": 1})
    words = "hareline queues show or"
    assert completed(words, shell, HARELINE_URL=api.url) == ["plain,orders"]


def test_zsh_gets_kind_name_and_help(api: ScriptedApi) -> None:
    api.will("GET", "/queues/%2F", {"items": [{"name": "orders"}], "page_count": 1})
    words = "hareline queues show or"
    assert completed(words, "zsh", HARELINE_URL=api.url) == ["plain", "orders", "_"]


def test_bash_takes_the_script_and_completes(run: Run, api: ScriptedApi, tmp_path: Path) -> None:
    api.will("GET", "/queues/%2F", {"items": [{"name": "orders"}], "page_count": 1})
    program = tmp_path / "hareline"
    program.write_text(f"#!/bin/sh\nexec {quote(sys.executable)} -c '{MAIN}' \"$@\"\n")
    program.chmod(0o755)
    code = (
        f"{run('completion', 'bash').stdout}\n"
        "COMP_WORDS=(hareline queues show or); COMP_CWORD=3; _hareline_completion hareline\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    bash = subprocess.run(
        ["bash", "--norc", "-c", code],
        env={**os.environ, "HARELINE_URL": api.url, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert bash.stdout == "orders\n", bash.stderr
