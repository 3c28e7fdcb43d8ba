"""Neither files nor folders import each other in a circle, and a resource is told in one file.

The finder of circles is tested on small trees.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Set
from pathlib import Path

import pytest

from hareline.management.api import TABLE
from tests.support.sources import imports_of, modules_of

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "hareline"


def import_circles(package: Path) -> list[list[str]]:
    """Groups of modules that all reach each other by imports, in sorted order."""
    return _circles(_imports(package))


def folder_circles(package: Path) -> list[list[str]]:
    """Groups of folders that reach each other by imports; a module at the top is one by itself."""
    modules = modules_of(package)
    folders = {name: _folder_of(name, path) for name, path in modules.items()}
    imported: dict[str, set[str]] = {folder: set() for folder in folders.values()}
    for name, others in _imports(package).items():
        imported[folders[name]].update(folders[other] for other in others)
        imported[folders[name]].discard(folders[name])
    return _circles(imported)


def _folder_of(name: str, path: Path) -> str:
    return name if path.name == "__init__.py" else name.rpartition(".")[0] or name


def _imports(package: Path) -> dict[str, frozenset[str]]:
    modules = modules_of(package)
    return {
        name: _imported_modules(package.name, name, path, modules) for name, path in modules.items()
    }


def _circles(imported: Mapping[str, Set[str]]) -> list[list[str]]:
    reached = {name: _reached(name, imported) for name in imported}
    circles = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in imported
        if name in reached[name]
    }
    return [list(circle) for circle in sorted(circles)]


def _imported_modules(
    package: str, name: str, path: Path, modules: Mapping[str, Path]
) -> frozenset[str]:
    """The modules that one imports names of, or as a whole; never itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    is_package = path.name == "__init__.py"
    found = set()
    for _, imported in imports_of(name, tree, package=package, is_package=is_package):
        top, _, rest = imported.partition(".")
        if top == package:
            found.add(_module_of(rest, modules))
    return frozenset(found - {name})


def _module_of(dotted: str, modules: Mapping[str, Path]) -> str:
    """The longest part of a name that is a module: ``wire.table.Table`` is of ``wire.table``."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        if (name := ".".join(parts[:length])) in modules:
            return name
    return "__init__"


def _reached(start: str, imported: Mapping[str, Set[str]]) -> set[str]:
    """All that can be reached by one import or more."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        for name in imported.get(waiting.pop(), ()):
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached


# --------------------------------------------------------------------------- the house as it is


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert import_circles(PACKAGE) == []


def test_no_folders_import_each_other_in_a_circle() -> None:
    assert folder_circles(PACKAGE) == []


def test_list_get_put_and_delete_of_a_resource_stand_in_one_file() -> None:
    """So that a resource more, or a field of one, touches one file of the API."""
    files: dict[tuple[str, ...], set[str]] = {}
    for row in (row for table in TABLE for row in table.rows):
        method, _, path = row.request.partition(" ")
        if method in ("GET", "PUT", "DELETE"):
            words = tuple(each for each in path.split("/") if each and "{" not in each)
            files.setdefault(words, set()).add(row.handler.__module__)
    assert len(files) > 60
    assert {words: found for words, found in files.items() if len(found) > 1} == {}


# --------------------------------------------------------------------- the bars, on small trees


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package ``house``; ``build`` fills it."""
    package = tmp_path / "house"
    package.mkdir()
    return package


def build(package: Path, **sources: str) -> Path:
    """Write modules, named with ``__`` for a dot; packages get an empty ``__init__``."""
    for name, source in sources.items():
        parts = [name] if name == "__main__" else name.split("__")
        path = package.joinpath(*parts).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(source, encoding="utf-8")
    return package


@pytest.mark.parametrize(
    "back",
    [
        "from house.a import A",
        "import house.a",
        "from house import a",
        "from .a import A",
        "from . import a",
        "def f():\n    from house.a import A",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.a import A",
    ],
)
def test_a_circle_of_imports_is_noticed_however_one_imports(tree: Path, back: str) -> None:
    build(tree, a="from house.b import B", b="from house.c import C", c=back, d="import house.a")
    assert import_circles(tree) == [["a", "b", "c"]]


def test_circles_that_do_not_touch_are_told_apart(tree: Path) -> None:
    build(
        tree,
        p__a="from . import b",
        p__b="from .a import A",
        q__c="from house.q import d",
        q__d="import house.q.c\nimport house.p.a",
    )
    assert import_circles(tree) == [["p.a", "p.b"], ["q.c", "q.d"]]


def test_a_package_and_its_module_may_make_a_circle(tree: Path) -> None:
    build(tree, p__a="from house.p import NAME")
    (tree / "p" / "__init__.py").write_text("from .a import NAME", encoding="utf-8")
    assert import_circles(tree) == [["p", "p.a"]]


def test_imports_in_one_direction_are_no_circle(tree: Path) -> None:
    build(tree, a="from house.b import B\nimport os", b="import house.c", c="import json")
    assert import_circles(tree) == []


def test_folders_make_a_circle_where_no_modules_do(tree: Path) -> None:
    build(
        tree,
        p__a="from house.q import c",
        p__b="",
        q__c="",
        q__d="from house.p.b import B",
        q__deep__e="import house.top",
        top="from house.q.c import C",
    )
    assert import_circles(tree) == []
    assert folder_circles(tree) == [["p", "q"]]
