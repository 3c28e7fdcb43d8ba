"""Make docs/features.md and docs/feature-tests.md: the rows of ``feature_rows`` and their tests.

``write_reference`` calls ``page`` and ``tests_page``. A test that shows a row carries its id:
``@pytest.mark.row("A12")`` in Python, ``@Tag("A12")`` in JUnit, ``row A12`` as a line of a
transcript. The sources are read, not run, so every machine writes the same pages, whichever clients
it has. Invariant: an id that is written where this module would miss it is an error.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from scripts.feature_rows import FEATURES, SECTIONS, Feature

NO_TESTS_IN: Final = frozenset(("node_modules", "target", ".cache", "__pycache__"))

FEATURES_INTRODUCTION: Final = """\
# Features

Written by `make reference` from `scripts/feature_rows.py` and the tests; do not edit.

Every feature that the queue chapter of Qpid Broker-J, ActiveMQ's pages on prefetch and on message
priorities, the acknowledgement modes of Qpid's clients and the queues of xmlBlaster speak of. The
last column leads to the tests of a row; what no test can show, or not yet, is said in italics.
"""

TESTS_INTRODUCTION: Final = """\
# Tests of the features

Written by `make reference` from the marks of the tests; do not edit. [features.md](features.md) has
the rows. `.venv/bin/python -m pytest --row A12` runs the tests of A12 that are written in Python,
transcripts included.
"""

_JAVA_TEST: Final = re.compile(r"(?P<tags>(?:@Tag\(\"\w+\"\)\s+)+)@Test\s+void (?P<name>\w+)\(")
_JAVA_TAG: Final = re.compile(r"@Tag\(\"(\w+)\"\)")
_STORY_ROW: Final = re.compile(r"^row (.+)$", re.MULTILINE)


@dataclass(frozen=True, order=True)
class MarkedTest:
    """A test and the rows it shows; ``file`` is relative to the project, ``name`` its runner's."""

    file: str
    name: str
    rows: tuple[str, ...]


def page(found: Mapping[str, Sequence[MarkedTest]]) -> str:
    """docs/features.md as it should be, from what `tests_by_row` found."""
    parts = [FEATURES_INTRODUCTION]
    for letter, title in SECTIONS.items():
        parts.append(f"\n## {title}\n\n| id | feature | setting | described in | shown by |")
        parts.append("\n|---|---|---|---|---|\n")
        rows = [feature for feature in FEATURES if feature.id.startswith(letter)]
        parts += [_row(feature, len(found[feature.id])) for feature in rows]
    return "".join(parts)


def tests_page(found: Mapping[str, Sequence[MarkedTest]]) -> str:
    """docs/feature-tests.md as it should be, from what `tests_by_row` found."""
    parts = [TESTS_INTRODUCTION]
    for feature in FEATURES:
        tests = found[feature.id]
        if not tests:
            continue
        parts.append(f"\n## {feature.id}\n\n{feature.text}.\n\n")
        for file, group in groupby(tests, key=lambda test: test.file):
            names = ", ".join(f"`{test.name}`" for test in group)
            parts.append(f"- [{file.removeprefix('tests/')}](../{file}): {names}\n")
    return "".join(parts)


def tests_by_row(tests: Path) -> dict[str, list[MarkedTest]]:
    """The tests of each row, by the row's id; an empty list where there are none.

    :raises ValueError: a test has an id that no row has, or in a place where it would be missed.
    """
    found: dict[str, list[MarkedTest]] = {feature.id: [] for feature in FEATURES}
    for test in sorted(marked_tests(tests)):
        for row in test.rows:
            if row not in found:
                raise ValueError(f"{test.file}: {test.name} is marked {row}, which is no row")
            found[row].append(test)
    return found


def marked_tests(tests: Path) -> Iterator[MarkedTest]:
    """Every test with a row below a directory, whatever it is written in.

    :raises ValueError: an id stands in a place where it would be missed.
    """
    for path in sorted(tests.rglob("*")):
        relative = path.relative_to(tests)
        if NO_TESTS_IN.intersection(relative.parts) or not path.is_file():
            continue
        if path.suffix == ".txt" and path.parent.name == "stories":
            found = _in_story(path)
        elif path.suffix == ".py":
            found = _in_python(path)
        elif path.suffix == ".java":
            found = _in_java(path)
        else:
            continue
        for name, rows in found:
            yield MarkedTest(f"{tests.name}/{relative.as_posix()}", name, rows)


def story_rows(text: str) -> tuple[str, ...]:
    """The rows that a transcript shows, by its lines ``row A9 A10``."""
    return tuple(row for line in _STORY_ROW.findall(text) for row in line.split())


def _in_story(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    rows = story_rows(_text(path))
    if rows:
        yield path.stem, rows


def _in_python(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    tree = ast.parse(_text(path))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[:4] == "test":
            rows = tuple(row for each in node.decorator_list for row in _marked_rows(each))
            if rows:
                found.append((node.name, rows))
    written = sum(len(_marked_rows(node)) for node in ast.walk(tree))
    _check_none_is_missed(path, written, found)
    yield from found


def _marked_rows(node: ast.AST) -> tuple[str, ...]:
    """The ids of ``pytest.mark.row("A4", "C3")``, if the node is that; not those of ``*rows``."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Attribute(attr="mark"), attr="row"), args=arguments
        ):
            given = [each for each in arguments if not isinstance(each, ast.Starred)]
            return tuple(
                str(each.value) if isinstance(each, ast.Constant) else ast.unparse(each)
                for each in given
            )
    return ()


def _in_java(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    text = _text(path)
    found = [
        (test["name"], tuple(_JAVA_TAG.findall(test["tags"]))) for test in _JAVA_TEST.finditer(text)
    ]
    _check_none_is_missed(path, text.count("@Tag("), found)
    yield from found


def _check_none_is_missed(
    path: Path, written: int, found: Sequence[tuple[str, tuple[str, ...]]]
) -> None:
    if written != sum(len(rows) for _, rows in found):
        raise ValueError(f"{path}: a row stands elsewhere than right above a test")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _row(feature: Feature, tests: int) -> str:
    described = f"[{feature.page}]({feature.page})"
    shown = []
    if tests:
        count = "1 test" if tests == 1 else f"{tests} tests"
        shown.append(f"[{count}](feature-tests.md#{feature.id.lower()})")
    if feature.note:
        shown.append(f"*{feature.note}*")
    cells = (feature.id, feature.text, feature.setting, described, "; ".join(shown))
    return f"| {' | '.join(cells)} |\n"
