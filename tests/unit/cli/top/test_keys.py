"""Single keys of a terminal; its mode is put back."""

from __future__ import annotations

import os
import pty
import sys
import termios
from collections.abc import Iterator

import pytest

from hareline.cli.top import Keys


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The other end of a terminal that is the standard input."""
    here, there = pty.openpty()
    with os.fdopen(there) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        yield here
    os.close(here)


def test_keys_come_one_by_one_without_a_line_end(terminal: int) -> None:
    with Keys() as keys:
        assert keys.next(0) is None
        os.write(terminal, b"r")
        assert keys.next(5) == "r"
        os.write(terminal, b"\x1b[A")
        assert keys.next(5) is None


def test_keys_that_are_pressed_fast_are_all_there(terminal: int) -> None:
    with Keys() as keys:
        os.write(terminal, b"p\tr\x1b[A")
        assert [keys.next(5) for _ in range(4)] == ["p", "\t", "r", None]
        assert keys.next(0) is None  # nothing of the arrow is left


def test_the_mode_is_put_back_also_after_an_error(terminal: int) -> None:
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)

    def fail() -> None:
        with Keys():
            assert termios.tcgetattr(fd) != before
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert termios.tcgetattr(fd) == before


def test_the_end_of_the_input_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    with os.fdopen(reading) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert Keys().next(5) == "q"
