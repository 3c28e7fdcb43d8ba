"""docs/modules.md has every module, in its folder, with the first line of its docstring."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import write_modules


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """``src/house`` with a module and a package of two."""
    sources = {
        "__init__.py": "",
        "errors.py": '"""What can go wrong."""',
        "wire/__init__.py": '"""Octets and frames."""',
        "wire/table.py": '"""Field tables: ``a|b``.\n\nInvariant: none.            [hot]\n"""',
        "wire/frames.py": '"""Frames.      [hot]"""',
        "empty/__init__.py": '"""Nothing yet."""',
    }
    package = tmp_path / "src" / "house"
    for name, source in sources.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return package


def test_modules_are_listed_by_folder_with_their_first_lines(package: Path) -> None:
    assert write_modules.page(package).removeprefix(write_modules.INTRODUCTION) == (
        "\n## house\n\n"
        "| Module | What it does |\n|---|---|\n"
        "| [`errors`](../src/house/errors.py) | What can go wrong. |\n"
        "\n## house.wire\n\n"
        "Octets and frames.\n\n"
        "| Module | What it does |\n|---|---|\n"
        "| [`frames`](../src/house/wire/frames.py) | Frames. **[hot]** |\n"
        "| [`table`](../src/house/wire/table.py) | Field tables: `a\\|b`. **[hot]** |\n"
    )


def test_a_module_without_a_docstring_is_an_error(package: Path) -> None:
    (package / "wire" / "frames.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"frames\.py has no docstring"):
        write_modules.page(package)
