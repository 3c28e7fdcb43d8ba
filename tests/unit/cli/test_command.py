"""The options that all commands of the client take, and what they lead to."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from hareline.cli.command import (
    CONNECTION_OPTIONS,
    PATH,
    WHOLE,
    Group,
    Number,
    OneOf,
    Session,
    Whole,
    client_command,
    open_session,
)
from hareline.cli.failures import CommandFailed, ExitStatus
from tests.support.scripted_api import ScriptedApi

from .conftest import Run

SEEN: list[tuple[Session, str]] = []
app = Group("things", help="Things.")


@client_command(app)
@click.argument("name")
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


def test_a_group_lists_its_commands_in_their_order() -> None:
    text = CliRunner().invoke(app, ["--help"]).stdout
    assert text.index("  one ") < text.index("  fail")


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
    assert {each.name for each in CONNECTION_OPTIONS if each.help} == {
        *("url", "amqp_url", "user", "password_file", "ca_file", "vhost", "timeout", "as_json"),
        "target",
    }


# ------------------------------------------------------------------------------- values


class Colour(StrEnum):
    red = "red"
    blue = "blue"


GIVEN: dict[str, Any] = {}


@app.command()
@click.argument("text")
@click.argument("more", nargs=-1)
@click.option("--number", type=Whole(1, 9), default=5)
@click.option("--share", type=Number(0))
@click.option("--path", type=PATH)
@click.option("--each", type=WHOLE, multiple=True)
@click.option("--colour", type=OneOf(Colour), default=Colour.red)
@click.option("--word", type=OneOf(["a", "b"]), default="a")
@click.option("--flag", is_flag=True)
def take(**values: Any) -> None:
    GIVEN.update(values)


def taken(*arguments: str) -> Any:
    GIVEN.clear()
    return CliRunner().invoke(app, ["take", *arguments])


def test_values_have_their_types() -> None:
    result = taken(
        *("x", "y", "z", "--number", "3", "--share", "0.5", "--path", "/tmp", "--each", "1"),
        *("--each", "2", "--colour", "blue", "--word", "b", "--flag"),
    )
    assert result.exit_code == 0, result.output
    assert {
        "text": "x",
        "more": ("y", "z"),
        "number": 3,
        "share": 0.5,
        "path": Path("/tmp"),
        "each": (1, 2),
        "colour": Colour.blue,
        "word": "b",
        "flag": True,
    } == GIVEN


def test_a_choice_is_a_member() -> None:
    assert taken("x", "--colour", "blue").exit_code == 0
    assert isinstance(GIVEN["colour"], Colour)
    assert taken("x").exit_code == 0
    assert isinstance(GIVEN["colour"], Colour)


def test_defaults_are_kept() -> None:
    assert taken("x").exit_code == 0
    assert (GIVEN["more"], GIVEN["number"], GIVEN["share"], GIVEN["path"]) == ((), 5, None, None)
    assert (GIVEN["each"], GIVEN["colour"], GIVEN["word"], GIVEN["flag"]) == (
        (),
        Colour.red,
        "a",
        False,
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--number", "three"), "'three' is not a whole number"),
        (("--number", "0"), "0 is less than 1"),
        (("--number", "10"), "10 is more than 9"),
        (("--share", "half"), "'half' is not a number"),
        (("--share", "nan"), "nan is more than"),
        (("--each", "1", "--each", "b"), "'b' is not a whole number"),
        (("--colour", "green"), "'green' is not one of red, blue"),
        (("--word", "c"), "'c' is not one of a, b"),
    ],
)
def test_a_wrong_value_is_a_usage_error_that_names_it(
    arguments: tuple[str, ...], sentence: str
) -> None:
    result = taken("x", *arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert arguments[0] in result.stderr


def test_an_argument_that_is_missing_is_a_usage_error() -> None:
    assert taken().exit_code == 2
