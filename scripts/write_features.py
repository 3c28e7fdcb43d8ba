"""Make docs/features.md: every feature of ``feature_rows``, with the tests that show it.

``write_reference`` calls ``page``. A test shows a feature when its name has the feature's id as a
word: ``test_groups_do_not_block_each_other_a12``. Names are those of Python test functions and of
the ids they are parametrized with, of transcripts (their files), and of tests in JavaScript, Java
and Go. What is found depends on the names in tests/ alone, so all machines write the same page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.feature_rows import FEATURES, SECTIONS, Feature

NO_TESTS_IN: Final = frozenset(("node_modules", "target", ".cache", "__pycache__"))

INTRODUCTION: Final = """\
# Features, and the tests that show them

Written by `make reference` from `scripts/feature_rows.py` and the names of the tests; do not edit.

Every feature that the queue chapter of Qpid Broker-J, ActiveMQ's pages on prefetch and on message
priorities, and the acknowledgement modes of Qpid's clients speak of. A test that shows one has its
id in its name, so `make test ARGS="-k _a12"` runs those of A12 that are written in Python. What no
test can show, or not yet, is said in italics.
"""

_WORDS: Final = re.compile(r"[a-z]\d{1,2}")
_BETWEEN_WORDS: Final = re.compile(r"[^A-Za-z0-9]+")
_CAMEL_CASE: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_JAVA_TEST: Final = re.compile(r"^\s*(?:public )?void (\w+)\(", re.MULTILINE)
_GO_TEST: Final = re.compile(r"^func (Test\w+)\(", re.MULTILINE)
_NODE_TEST: Final = re.compile(r"""\b(?:test|it)\(\s*(['"`])(.+?)\1""")


@dataclass(frozen=True, order=True)
class NamedTest:
    """``file`` is relative to the project; ``name`` is what the test's own runner calls it."""

    file: str
    name: str

    @property
    def feature_ids(self) -> frozenset[str]:
        """The words of the name that look like a feature's id, in capitals."""
        name = _CAMEL_CASE.sub("_", self.name)
        words = _BETWEEN_WORDS.split(name.lower())
        return frozenset(word.upper() for word in words if _WORDS.fullmatch(word))


def page(root: Path) -> str:
    """docs/features.md as it should be.

    :raises ValueError: a test names a feature that is not in the table.
    """
    found = tests_by_feature(root / "tests")
    parts = [INTRODUCTION]
    for letter, title in SECTIONS.items():
        parts.append(f"\n## {title}\n\n| id | feature | setting | described in | shown by |")
        parts.append("\n|---|---|---|---|---|\n")
        rows = [feature for feature in FEATURES if feature.id.startswith(letter)]
        parts += [_row(feature, found[feature.id]) for feature in rows]
    return "".join(parts)


def tests_by_feature(tests: Path) -> dict[str, list[NamedTest]]:
    """The tests of each feature, by the feature's id; an empty list where there are none.

    :raises ValueError: a test names a feature that is not in the table.
    """
    found: dict[str, list[NamedTest]] = {feature.id: [] for feature in FEATURES}
    letters = frozenset(SECTIONS)
    for test in sorted(set(named_tests(tests))):
        for feature_id in sorted(test.feature_ids):
            if feature_id[0] not in letters:
                continue
            if feature_id not in found:
                raise ValueError(
                    f"{test.file}: {test.name} names {feature_id}, which is no feature"
                )
            found[feature_id].append(test)
    return found


def named_tests(tests: Path) -> Iterator[NamedTest]:
    """Every test below a directory, whatever it is written in."""
    for path in sorted(tests.rglob("*")):
        relative = path.relative_to(tests)
        if NO_TESTS_IN.intersection(relative.parts) or not path.is_file():
            continue
        file = f"{tests.name}/{relative.as_posix()}"
        if path.suffix == ".txt" and path.parent.name == "stories":
            yield NamedTest(file, path.stem)
        elif path.suffix == ".py" and path.name.startswith("test_"):
            yield from (NamedTest(file, name) for name in _python_names(path))
        elif path.suffix == ".java":
            yield from (NamedTest(file, name) for name in _JAVA_TEST.findall(_text(path)))
        elif path.name.endswith("_test.go"):
            yield from (NamedTest(file, name) for name in _GO_TEST.findall(_text(path)))
        elif path.name.endswith((".test.cjs", ".test.mjs", ".test.js")):
            yield from (NamedTest(file, name) for _, name in _NODE_TEST.findall(_text(path)))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _python_names(path: Path) -> Iterator[str]:
    """Test functions, and ``function[id]`` for each id that stands in a decorator as a string."""
    for node in ast.walk(ast.parse(_text(path))):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not node.name.startswith("test"):
            continue
        yield node.name
        for decorator in node.decorator_list:
            yield from (f"{node.name}[{each}]" for each in _parameter_ids(decorator))


def _parameter_ids(decorator: ast.expr) -> Iterator[str]:
    """The strings given as ``id=`` or in ``ids=`` anywhere within a decorator."""
    for node in ast.walk(decorator):
        if isinstance(node, ast.keyword) and node.arg in ("id", "ids"):
            for value in ast.walk(node.value):
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield value.value


def _row(feature: Feature, tests: Sequence[NamedTest]) -> str:
    described = f"[{feature.page}]({feature.page})"
    shown = [_link(test) for test in tests]
    if feature.note:
        shown.append(f"*{feature.note}*")
    cells = (feature.id, feature.text, feature.setting, described, "<br>".join(shown))
    return f"| {' | '.join(cells)} |\n"


def _link(test: NamedTest) -> str:
    name = test.name.replace("|", "\\|")
    return f"[{name}](../{test.file})"
