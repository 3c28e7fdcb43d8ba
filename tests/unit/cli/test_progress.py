"""Progress is a bar on a terminal, and elsewhere lines, not too many."""

from __future__ import annotations

import sys

import pytest

from hareline.cli.output import Display, complain


def test_lines_come_every_few_seconds_and_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with Display("archiving") as display:
        for done, second in ((1, 0), (2, 1), (3, 4.9), (4, 5.1), (5, 5.2), (10, 5.3)):
            now = 100 + second
            display.show_count(done, 10)
        display.show_step(1, 3, "[red]reading")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "hareline: archiving",
        "hareline: archiving: 1 messages, 9 to come",
        "hareline: archiving: 4 messages, 6 to come",
        "hareline: archiving: 10 messages",
        "hareline: 1/3 [red]reading",
    ]


def test_a_terminal_gets_a_bar_that_is_gone_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TTY_INTERACTIVE", "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Display("archiving") as display:
        display.show_count(1_234, 2_468)
        display.show_step(2, 4, "[red]reading")
    out, err = capsys.readouterr()
    assert out == ""
    assert "[red]reading" in err
    assert "2/4" in err
    assert "\x1b[2K" in err.rpartition("2/4")[2]  # the line is erased


def test_what_is_quick_says_nothing_until_it_takes_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with Display("moving", is_quick=True) as display:
        display.show_count(1, None)
        display.show_count(2, 2)
        display.show_share(1, 4)
        now = 105.0
        display.show_share(3, 4)
        display.show_count(9, None)
        now = 110.0
        display.show_count(10, None)
    assert capsys.readouterr().err.splitlines() == [
        "hareline: moving: 75 %",
        "hareline: moving: 10 messages",
    ]


def test_a_name_in_an_error_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    complain("no queue '\x1b[2J\x9b1m\r\u2028\nhareline: done' here")
    _, err = capsys.readouterr()
    assert err == "hareline: no queue '\\x1b[2J\\x9b1m\\r\\u2028\\nhareline: done' here\n"
