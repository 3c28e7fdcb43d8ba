"""docs/decisions/0007 lists every known difference from RabbitMQ, and the tests that show it.

A difference has a name. The page has it in the first column of a table; a test that shows it, or
that leaves it out of a comparison, says ``differs: NAME`` in a comment. In the interop tests every
place that asks which broker it talks to carries such a comment.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
TESTS: Final = ROOT / "tests"
PAGE: Final = ROOT / "docs" / "decisions" / "0007-differences-from-rabbitmq.md"

SUFFIXES: Final = {".py", ".txt", ".java", ".cjs", ".go"}
ROW: Final = re.compile(r"^\| `([a-z0-9-]+)` \|(.*)\|$", re.MULTILINE)
LINK: Final = re.compile(r"\]\((\.\./\.\./tests/[^)]+)\)")
TAG: Final = re.compile(r"(?:#|//|^)\s*differs: ([a-z0-9, -]+)$", re.MULTILINE)
ASKS_WHICH_BROKER: Final = re.compile(
    r'if (?:not )?broker\.is_foreign:|usefixtures\("only_hareline"\)|brokerIsOlderThan\(\w+,? ?\d'
)
# What a fixture decides for all tests, or what needs a daemon of its own: no difference.
NOT_A_DIFFERENCE: Final = {"conftest.py", "test_permissions.py", "BrokerCase.java", "support.cjs"}


def _sources(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in SUFFIXES and "node_modules" not in path.parts and path != Path(__file__)
    )


def _tags(text: str) -> set[str]:
    return {name.strip() for names in TAG.findall(text) for name in names.split(",")}


def _rows() -> dict[str, set[Path]]:
    """The names on the page, each with the files that its row links."""
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(rows) == len({name for name, _ in rows}), "a name stands twice"
    return {
        name: {(PAGE.parent / target).resolve() for target in LINK.findall(cells)}
        for name, cells in rows
    }


def test_the_page_and_the_tests_name_the_same_differences() -> None:
    tagged: dict[str, set[Path]] = {}
    for path in _sources(TESTS):
        for name in _tags(path.read_text(encoding="utf-8")):
            tagged.setdefault(name, set()).add(path)
    rows = _rows()
    assert len(rows) > 40
    assert {name: rows.get(name) for name in tagged} == tagged
    assert set(rows) == set(tagged)


def test_what_the_interop_tests_treat_as_a_difference_has_a_name() -> None:
    unnamed = []
    for path in _sources(TESTS / "interop"):
        if path.name in NOT_A_DIFFERENCE:
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if ASKS_WHICH_BROKER.search(line) and not _tags(lines[number - 1]):
                unnamed.append(f"{path.relative_to(ROOT)}:{number + 1}")
    assert not unnamed, f"no `differs: NAME` in the line before: {', '.join(unnamed)}"


def test_a_tag_is_found_in_every_language() -> None:
    assert _tags("    # differs: a-b, c\n") == {"a-b", "c"}
    assert _tags("    // differs: d\nit differs: e from f.\n") == {"d"}
    assert _tags('"""Text.\n\ndiffers: g\n"""') == {"g"}
