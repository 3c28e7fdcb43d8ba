"""What is compiled: one list, true of the tree, and fit for mypyc as far as the source can show."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest

from scripts.compiled_wheel import COMPILED, LEFT_OUT, compiled_modules, is_compiled
from tests.support.sources import imports_of, modules_of

SOURCE: Final = Path(__file__).resolve().parent.parent / "src"
MODULES: Final = modules_of(SOURCE / "hareline")
#: mypyc makes coroutines slow, and what these define is not known to it.
NOT_COMPILED_WITH: Final = ("asyncio", "pydantic", "logging", "structlog", "weakref")


def compiled() -> list[str]:
    return sorted(filter(is_compiled, MODULES))


def test_the_hot_modules_are_compiled() -> None:
    assert {"wire.decoder", "amqp.publishing", "queues.books"} < set(compiled())
    assert {"storage.store.ledger", "storage.store.content_store"} < set(compiled())


def test_the_files_are_those_of_the_modules() -> None:
    files = [path for name, path in MODULES.items() if is_compiled(name)]
    assert compiled_modules(SOURCE) == sorted(each for each in files if each.stem != "__init__")


@pytest.mark.parametrize("pattern", COMPILED)
def test_each_pattern_is_of_a_module(pattern: str) -> None:
    assert any(fnmatch(module, pattern) for module in compiled())


@pytest.mark.parametrize("pattern", LEFT_OUT)
def test_what_is_left_out_would_be_compiled_and_has_a_reason(pattern: str) -> None:
    assert LEFT_OUT[pattern]
    left_out = [module for module in MODULES if fnmatch(module, pattern)]
    assert left_out
    assert all(any(fnmatch(module, each) for each in COMPILED) for module in left_out)


@pytest.mark.parametrize("module", compiled())
def test_a_compiled_module_imports_nothing_that_stays_interpreted_for_a_reason(module: str) -> None:
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    imported = {name.partition(".")[0] for _, name in imports_of(module, tree)}
    assert not imported.intersection(NOT_COMPILED_WITH)


@pytest.mark.parametrize("module", compiled())
def test_compiled_classes_have_no_base_that_takes_their_slots_away(module: str) -> None:
    """``ABC`` as a base gives each object a dictionary; the metaclass by itself does not."""
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            assert "ABC" not in [ast.unparse(base) for base in node.bases], node.name


@pytest.mark.parametrize("module", compiled())
def test_no_attribute_of_a_compiled_class_is_deleted(module: str) -> None:
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Delete):
            assert not any(isinstance(target, ast.Attribute) for target in node.targets)


def test_no_attribute_is_declared_again_in_a_derived_class() -> None:
    """mypyc shows such a one to the collector twice, which then frees too much or nothing."""
    classes = {
        node.name: node
        for module in compiled()
        for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    }
    again = {
        f"{name}.{attribute}"
        for name, node in classes.items()
        for base in _bases(node, classes)
        for attribute in _declared(node) & _declared(base)
    }
    assert again - {"ReadingAccount.shows_delivery_count"} == set()  # no object, so not shown


def _bases(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """All compiled bases of a compiled class."""
    for base in node.bases:
        if (found := classes.get(ast.unparse(base))) is not None:
            yield found
            yield from _bases(found, classes)


def _declared(node: ast.ClassDef) -> set[str]:
    """The attributes that a class gives a type, in its body or at ``self`` in a method."""
    return {
        each.target.attr if isinstance(each.target, ast.Attribute) else each.target.id
        for each in ast.walk(node)
        if isinstance(each, ast.AnnAssign)
        and (each in node.body or ast.unparse(each.target).startswith("self."))
        and isinstance(each.target, ast.Attribute | ast.Name)
        and "ClassVar" not in ast.unparse(each.annotation)
    }
