"""Each line of the catalogue is true, and everything behind it can be built."""

from __future__ import annotations

from importlib import import_module

import click
import pytest

from hareline.cli.catalogue import CATALOGUE, ROWS, Row

from .conftest import Run


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_a_line_is_the_first_of_the_command_s_help(row: Row, run: Run) -> None:
    result = run(row.name, "--help", COLUMNS="200")
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")
    said = " ".join(result.stdout.split("\n\n")[1].split())
    assert said.startswith(row.summary)


def test_places_exist() -> None:
    for row in ROWS.values():
        found = getattr(import_module(f"hareline.cli.{row.module}"), row.name)
        assert isinstance(found, click.Command)


def test_no_name_stands_twice() -> None:
    assert sum(map(len, CATALOGUE.values())) == len(ROWS)


def test_the_top_help_has_each_line(run: Run) -> None:
    text = run("--help", COLUMNS="100").stdout
    for heading, rows in CATALOGUE.items():
        assert f"\n{heading}:\n" in text
        for row in rows:
            assert f"  {row.name} " in text


def test_a_name_with_a_typing_error_is_answered_with_the_right_one(run: Run) -> None:
    result = run("quues")
    assert result.exit_code == 2
    assert "Did you mean one of: 'queue', 'queues'?" in result.stderr
