"""Tables for people, tabs for scripts, JSON for programs; no control character gets through."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from typing import Any

import pytest

from hareline.cli.output import (
    Column,
    Output,
    duration,
    flattened,
    plain,
    rate,
    shown,
    value_at,
    visible,
)
from hareline.octets import in_units

COLUMNS = (Column("name", "name"), Column("stats.n", "n", "count"), Column("r", "rate", "rate"))
ROWS: list[Any] = [
    {"name": "a\tb\x1b[31m", "stats": {"n": 1234567}, "r": 0.25},
    {"name": "c", "stats": {}, "r": 1234.0},
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "80")
    return Terminal()


def test_without_a_terminal_rows_are_lines_with_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table(COLUMNS, ROWS)
    assert capsys.readouterr().out == "a\\tb\\x1b[31m\t1234567\t0.25\nc\t\t1234.0\n"


def test_json_is_what_came(capsys: pytest.CaptureFixture[str]) -> None:
    Output(is_json=True).table(COLUMNS, ROWS)
    assert json.loads(capsys.readouterr().out) == ROWS


def test_a_terminal_gets_a_table(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        Output().table(COLUMNS, ROWS)
    heading, first, second = re.sub(r"\x1b\[\d*m", "", terminal.getvalue()).splitlines()
    assert heading.split() == ["name", "n", "rate"]
    assert first.split() == ["a\\tb\\x1b[31m", "1,234,567", "0.2/s"]
    assert second.split() == ["c", "1,234/s"]
    assert "\x1b[31m" not in terminal.getvalue()


def test_a_terminal_is_told_that_there_is_nothing(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    with redirect_stdout(terminal):
        Output().table(COLUMNS, [])
    assert terminal.getvalue() == ""
    assert capsys.readouterr().err == "none\n"


def test_one_object_is_a_line_for_each_field(capsys: pytest.CaptureFixture[str]) -> None:
    Output().fields({"name": "q", "none": None, "arguments": {"x": 1}, "a": {"b": {"c": True}}})
    assert capsys.readouterr().out == 'name\tq\narguments\t{"x": 1}\na.b.c\ttrue\n'


def test_one_object_on_a_terminal_has_units(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        Output().fields({"size": 2048, "name": "q"}, {"size": "octets"})
    assert terminal.getvalue() == "size  2.0 KiB\nname  q\n"


def test_what_was_done_is_a_sentence_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    Output().done("did it", count=1)
    Output(is_json=True).done("did it", count=1)
    assert capsys.readouterr().out == 'did it\n{\n  "count": 1\n}\n'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (1.5, "1.5"),
        ("a\nb", "a\\nb"),
        ({}, ""),
        ({"a": "ü"}, '{"a": "ü"}'),
        ([1, 2], "[1, 2]"),
    ],
)
def test_values_for_scripts(value: object, text: str) -> None:
    assert plain(value) == text


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "count", ""),
        ([], "text", ""),
        (True, "flag", "yes"),
        (False, "flag", "no"),
        (1234567, "count", "1,234,567"),
        (1234, "text", "1234"),
        (0, "rate", "0/s"),
        (3.14, "rate", "3.1/s"),
        (12.6, "rate", "13/s"),
        (1536, "octets", "1.5 KiB"),
        (100, "octet_rate", "100 B/s"),
        (90_061_000, "duration_ms", "1 d 01:01:01"),
        ({"a": 1, "b": "x"}, "text", "a=1, b=x"),
        ("\x9b2J", "text", "\\x9b2J"),
    ],
)
def test_values_for_people(value: object, kind: Any, text: str) -> None:
    assert shown(value, kind) == text


def test_a_time_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(shown(1_700_000_000_000, "time_ms")) == len("2023-11-14 22:13:20")


def test_the_small_parts() -> None:
    assert rate(9.96) == "10.0/s"
    assert in_units(1024**5) == "1,024.0 TiB"
    assert duration(59) == "00:00:59"
    assert value_at({"a": {"b": 1}}, "a.b") == 1
    assert value_at({"a": 1}, "a.b") is None
    assert dict(flattened({"a": {"b": 1}, "c": []})) == {"a.b": 1}
    assert visible("a\u2028b\u0085") == "a\\u2028b\\x85"
