"""The ``hareline`` command: the root with ``serve`` and its like, and a module for each group."""

from __future__ import annotations


def main() -> None:
    """The console script."""
    from hareline.cli.root import root

    root(prog_name="hareline")
