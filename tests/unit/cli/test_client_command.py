"""The options that all commands of the client take, and what they lead to."""

from __future__ import annotations

import typer
from typer.testing import CliRunner

from hareline.cli.client_command import (
    CONNECTION_OPTIONS,
    Session,
    client_command,
    open_session,
)
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.lean import new_group
from tests.support.scripted_api import ScriptedApi

from .conftest import Run

SEEN: list[tuple[Session, str]] = []
app = new_group("things", "Things.")


@client_command(app)
def one(session: Session, name: str) -> None:
    """Do one."""
    SEEN.append((session, name))


@client_command(app, "fail")
def fail(_session: Session) -> None:
    raise CommandFailed("it is so", ExitStatus.DENIED)


def test_a_command_has_its_own_parameters_and_the_shared_ones() -> None:
    text = CliRunner().invoke(app, ["one", "--help"], env={"COLUMNS": "100"}).stdout
    for option in ("--vhost", "--url", "--target", "--user", "--password-file", "--timeout"):
        assert f"  {option} " in text
    assert "--json" in text
    assert "Do one." in text
    assert "--password " not in text


def test_flags_reach_the_session() -> None:
    SEEN.clear()
    flags = ["--url", "http://b:1", "--vhost", "v", "--user", "ann", "--timeout", "2", "--json"]
    result = CliRunner().invoke(app, ["one", "x", *flags])
    assert result.exit_code == 0, result.output
    ((session, name),) = SEEN
    assert name == "x"
    assert (str(session.target.http), session.vhost, session.one_vhost) == ("http://b:1", "v", "v")
    assert (session.target.user, session.target.timeout_s) == ("ann", 2)
    assert session.out.is_json


def test_the_virtual_host_of_one_object_is_the_default_one() -> None:
    session = open_session({})
    assert (session.vhost, session.one_vhost) == (None, "/")


def test_an_error_is_a_sentence() -> None:
    result = CliRunner().invoke(app, ["fail"])
    assert (result.exit_code, result.stdout, result.stderr) == (5, "", "hareline: it is so\n")


def test_the_session_is_closed(run: Run, api: ScriptedApi) -> None:
    session = open_session({"url": api.url})
    api.will("GET", "/overview", {})
    session.api.get("/overview")
    connection = session.api._connection
    session.close()
    assert connection.sock is None
    assert run("status", "--nope").exit_code == 2


def test_every_shared_option_has_a_help() -> None:
    assert set(CONNECTION_OPTIONS) >= {"url", "user", "vhost", "timeout", "as_json", "target"}
    assert isinstance(app, typer.Typer)
