"""Make docs/modules.md: every module of the package, with the first line of its docstring.

``write_reference`` calls ``page``. A module is hot if its docstring says so, with ``[hot]``.
Invariant: every module is on the page, but for the ``__init__`` of packages that say nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Final

INTRODUCTION: Final = """\
# Modules

Written by `make reference` from the first lines of their docstrings; do not edit.
[architecture.md](architecture.md) says how they work together. **[hot]** is on the path of every
message.
"""

HOT: Final = "[hot]"


def page(package: Path) -> str:
    """docs/modules.md as it should be, from the package's directory, two below the project's.

    :raises ValueError: a module has no docstring.
    """
    parts = [INTRODUCTION]
    folders = sorted({path.parent for path in package.rglob("*.py")})
    for folder in folders:
        name = ".".join(folder.relative_to(package.parent).parts)
        docstrings = {path: _docstring(path) for path in sorted(folder.glob("*.py"))}
        own = docstrings.pop(folder / "__init__.py", "")
        if not docstrings:
            continue
        parts.append(f"\n## {name}\n\n")
        if own:
            parts.append(f"{_first_line(own)}\n\n")
        parts.append("| Module | What it does |\n|---|---|\n")
        parts += _rows(docstrings, package)
    return "".join(parts)


def _rows(docstrings: Mapping[Path, str], package: Path) -> list[str]:
    rows = []
    for path, docstring in docstrings.items():
        link = f"../{path.relative_to(package.parent.parent).as_posix()}"
        hot = f" **{HOT}**" if HOT in docstring else ""
        rows.append(f"| [`{path.stem}`]({link}) | {_first_line(docstring)}{hot} |\n")
    return rows


def _docstring(path: Path) -> str:
    """The docstring of a module; that of an ``__init__`` may be empty.

    :raises ValueError: another module has none.
    """
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    if not docstring and path.name != "__init__.py":
        raise ValueError(f"{path} has no docstring")
    return docstring


def _first_line(docstring: str) -> str:
    """As Markdown within a table: code in single backticks, no line between cells."""
    line = docstring.partition("\n")[0].replace(HOT, "").strip()
    return line.replace("``", "`").replace("|", "\\|")
