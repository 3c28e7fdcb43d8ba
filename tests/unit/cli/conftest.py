"""What tests of the client's commands share: a scripted API, and a command line that asks it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hareline.cli.root import root
from tests.support.scripted_api import ScriptedApi, scripted_api

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in list(os.environ):
        if variable.startswith("HARELINE_"):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with scripted_api() as made:
        yield made


@pytest.fixture
def run(api: ScriptedApi) -> Run:
    """``run("queues", "list")`` against the scripted API."""

    def run(*arguments: str, text: str | None = None, **environ: str) -> Result:
        environ.setdefault("HARELINE_URL", api.url)
        return CliRunner().invoke(root, arguments, input=text, env=environ)

    return run
