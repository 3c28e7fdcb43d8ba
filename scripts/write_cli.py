"""The tables of docs/cli.md, made from the commands themselves.

``write_reference`` writes the page; tests/test_reference.py fails while it is not up to date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import click

from hareline.cli.catalogue import CATALOGUE, Row
from hareline.cli.command import CONNECTION_OPTIONS
from hareline.cli.failures import ExitStatus
from hareline.cli.target import VARIABLES


def with_tables(page: str) -> str:
    """The page with each table between its marks written anew."""
    tables = {
        "commands": _commands(),
        "options": _options(),
        "variables": _table(("Variable", "Meaning"), VARIABLES.items()),
        "statuses": _table(
            ("Status", "Meaning"), ((str(int(each)), each.meaning) for each in ExitStatus)
        ),
    }
    for name, table in tables.items():
        begin, end = f"<!-- {name}: written by `make reference` -->", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"docs/cli.md has no place for the table of {name}")
        page = f"{before}{begin}\n\n{table}\n{end}{after}"
    return page


def _commands() -> str:
    rows = []
    for heading, entries in CATALOGUE.items():
        rows.append((f"**{heading}**", ""))
        for entry in entries:
            rows += [(f"`{usage}`", text) for usage, text in _usages(entry)]
    return _table(("Command", "What it does"), rows)


def _usages(row: Row) -> Iterator[tuple[str, str]]:
    """Each command of a row with its arguments, and the first sentence of its help."""
    found = getattr(import_module(f"hareline.cli.{row.module}"), row.name)
    if not isinstance(found, click.Group):
        yield _usage(row.name, found), row.summary
        return
    for each in found.commands.values():
        first = (each.help or "").partition("\n")[0]
        yield _usage(f"{row.name} {each.name}", each), first


def _usage(name: str, command: click.Command) -> str:
    context = click.Context(command)
    arguments = (each for each in command.params if isinstance(each, click.Argument))
    return " ".join([f"hareline {name}", *(each.make_metavar(context) for each in arguments)])


def _options() -> str:
    rows = (
        (f"`{each.opts[0]}{'' if each.is_flag else f' {_metavar(each)}'}`", each.help)
        for each in CONNECTION_OPTIONS
    )
    return _table(("Option", "Meaning"), rows)


def _metavar(each: click.Option) -> str:
    return each.make_metavar(click.Context(click.Command(None)))


def _table(heading: tuple[str, str], rows: Any) -> str:
    lines = [f"| {heading[0]} | {heading[1]} |", "|---|---|"]
    for left, right in rows:
        cells = (re.sub(r"(?<!\\)\|", r"\\|", str(cell)) for cell in (left, right))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
