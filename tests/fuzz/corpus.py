"""The kept inputs of a target: one file of text for each, so that a change of it can be read.

A line is an input in base64. The lines are sorted by their length, so the first ones are short.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Final

DIRECTORY: Final = Path(__file__).resolve().parent / "corpus"


def path_of(name: str) -> Path:
    return DIRECTORY / f"{name}.txt"


def read_corpus(name: str) -> list[bytes]:
    """The inputs; none if there is no file yet."""
    path = path_of(name)
    if not path.exists():
        return []
    return [base64.b64decode(line, validate=True) for line in path.read_text("ascii").split()]


def write_corpus(name: str, inputs: Iterable[bytes]) -> int:
    """Keep these and no others; returns how many."""
    kept = sorted(set(inputs), key=lambda each: (len(each), each))
    lines = [base64.b64encode(each).decode("ascii") + "\n" for each in kept if each]
    path_of(name).write_text("".join(lines), "ascii")
    return len(lines)


def write_files(directory: Path, inputs: Iterable[bytes]) -> None:
    """One file for each input, which is how a fuzzer reads them."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, each in enumerate(inputs):
        (directory / f"{number:05}").write_bytes(each)


def read_files(directory: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(directory.iterdir()) if path.is_file()]
