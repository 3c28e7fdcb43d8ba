"""The modules of a package as source: their names, and what each imports.

Used by the tests that hold the whole house to its bars. A module's name is that below the package,
``amqp.channel``; a package's ``__init__`` has the name of the package, the outermost ``__init__``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def modules_of(package: Path) -> dict[str, Path]:
    """Every module of a package by its name without that of the package."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        if parts[-1] == "__init__" and len(parts) > 1:
            parts = parts[:-1]
        found[".".join(parts)] = path
    return found


def imports_of(
    module: str, tree: ast.AST, *, package: str = "hareline", is_package: bool = False
) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything that is imported, relative names resolved.

    An import counts wherever it stands: at the top, inside a function, or under TYPE_CHECKING.
    """
    parts = [package, *(part for part in module.split(".") if part != "__init__")]
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield node.lineno, alias.name
            case ast.ImportFrom(module=source, names=names, level=level):
                start = parts[: len(parts) - level + is_package] if level else []
                base = [*start, *([source] if source else [])]
                for alias in names:
                    yield node.lineno, ".".join([*base, alias.name])
            case (
                ast.Call(func=ast.Name(id="__import__" | "import_module"))
                | ast.Call(func=ast.Attribute(attr="import_module"))
            ):
                yield node.lineno, "importlib.import_module"
