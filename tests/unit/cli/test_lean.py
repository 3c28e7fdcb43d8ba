"""Plain values are converted as Typer would, without pydantic, and refused with a sentence."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from hareline.cli.lean import LeanCommand, LeanGroup


class Colour(StrEnum):
    red = "red"
    blue = "blue"


SEEN: dict[str, Any] = {}
app = typer.Typer(cls=LeanGroup, rich_markup_mode=None)


@app.command(cls=LeanCommand)
def take(
    text: Annotated[str, typer.Argument()],
    more: Annotated[list[str], typer.Argument()] = [],  # noqa: B006
    number: Annotated[int, typer.Option(min=1, max=9)] = 5,
    share: Annotated[float | None, typer.Option(min=0)] = None,
    path: Annotated[Path | None, typer.Option()] = None,
    each: Annotated[list[int], typer.Option()] = [],  # noqa: B006
    colour: Annotated[Colour, typer.Option()] = Colour.red,
    word: Annotated[Literal["a", "b"], typer.Option()] = "a",
    flag: Annotated[bool, typer.Option("--flag")] = False,
) -> None:
    SEEN.update(locals())


@app.command(cls=LeanCommand)
def other() -> None:
    """Something else, so that the first is a command of a group."""


def run(*arguments: str) -> Any:
    SEEN.clear()
    return CliRunner().invoke(app, ["take", *arguments])


def test_values_have_their_types() -> None:
    result = run(
        *("x", "y", "z", "--number", "3", "--share", "0.5", "--path", "/tmp", "--each", "1"),
        *("--each", "2", "--colour", "blue", "--word", "b", "--flag"),
    )
    assert result.exit_code == 0, result.output
    assert {
        "text": "x",
        "more": ["y", "z"],
        "number": 3,
        "share": 0.5,
        "path": Path("/tmp"),
        "each": [1, 2],
        "colour": Colour.blue,
        "word": "b",
        "flag": True,
    } == SEEN


def test_a_choice_is_a_member() -> None:
    assert run("x", "--colour", "blue").exit_code == 0
    assert isinstance(SEEN["colour"], Colour)
    assert run("x").exit_code == 0
    assert isinstance(SEEN["colour"], Colour)


def test_defaults_are_kept() -> None:
    assert run("x").exit_code == 0
    assert (SEEN["more"], SEEN["number"], SEEN["share"], SEEN["path"]) == ([], 5, None, None)
    assert (SEEN["each"], SEEN["colour"], SEEN["word"], SEEN["flag"]) == (
        [],
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
    result = run("x", *arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert arguments[0] in result.stderr


def test_an_argument_that_is_missing_is_a_usage_error() -> None:
    assert run().exit_code == 2
