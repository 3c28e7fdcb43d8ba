"""Runs one target under atheris, in a process that ends with the search: see ``__main__``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

from tests.fuzz.target import Target
from tests.fuzz.targets import target_of


def main() -> None:
    """The first argument is the target, the others are those of libFuzzer."""
    name, *arguments = sys.argv[1:]
    with atheris.instrument_imports(include=["hareline"]):
        target = target_of(name)
        target.seeds()  # imports what is imported late
    with tempfile.TemporaryDirectory() as directory:
        words = _words_of(target, Path(directory))
        options = [
            f"-dict={words}",
            f"-max_len={target.size_max}",
            f"-timeout={target.timeout_s}",
        ]
        # a merge runs itself again, by a shell
        itself = f"{sys.executable} -m tests.fuzz.search {name}"
        atheris.Setup([itself, *options, *arguments], target.run)
        atheris.Fuzz()


def _words_of(target: Target, directory: Path) -> Path:
    """The dictionary of a target, as libFuzzer reads it."""
    path = directory / "words"
    lines = ['"' + "".join(f"\\x{octet:02x}" for octet in word) + '"\n' for word in target.words]
    path.write_text("".join(lines), "ascii")
    return path


if __name__ == "__main__":
    main()
