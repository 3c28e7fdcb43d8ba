"""What the distributions have.

The source has all that README.md and the Makefile send their reader to; the wheel has the pages
that the web UI links to.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from hareline.management.api.documentation import FOR_DEVELOPERS, WORKING_COPY, pages

ROOT = Path(__file__).resolve().parent.parent

LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
COMMAND = re.compile(r"(?:sh |python |^)((?:\.ci|config|examples|scripts)/[\w./-]+)", re.MULTILINE)
MODULE = re.compile(r"-m (benchmarks|scripts)\b")
ALWAYS_INCLUDED = {"LICENSE", "README.md", "pyproject.toml"}

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
INCLUDED: list[str] = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]


def _is_included(path: str) -> bool:
    top = Path(path).parts[0]
    return f"/{top}" in INCLUDED or path in ALWAYS_INCLUDED


def _files_named_in(page: str) -> set[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return {each for pattern in (LINK, COMMAND, MODULE) for each in pattern.findall(text)}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "Makefile"])
def test_files_that_a_reader_is_sent_to_are_in_the_sdist(page: str) -> None:
    named = _files_named_in(page)
    assert named
    assert [each for each in named if not _is_included(each)] == []


def test_what_the_container_image_and_the_tools_need_is_in_the_sdist() -> None:
    needed = {"Dockerfile", ".dockerignore", "Makefile", ".ci"}
    needed |= set(PROJECT["tool"]["mypy"]["files"])
    needed |= set(PROJECT["tool"]["pytest"]["ini_options"]["testpaths"])
    assert [each for each in needed if not _is_included(each)] == []


def test_each_entry_of_the_list_is_there() -> None:
    assert [each for each in INCLUDED if not (ROOT / each.removeprefix("/")).exists()] == []


def test_the_readme_s_links_are_found() -> None:
    assert {"examples", "docs/testing.md", "config/hareline.toml"} <= _files_named_in("README.md")
    assert {"benchmarks", "scripts", "scripts/make_venv.sh"} <= _files_named_in("Makefile")


@pytest.fixture(scope="module")
def wheel() -> dict[str, int]:
    """Path in the wheel -> octets of the file."""
    files = WheelBuilder(str(ROOT)).recurse_included_files()
    return {each.distribution_path: Path(each.path).stat().st_size for each in files}


def test_the_wheel_has_the_package_and_the_files_of_the_web_ui(wheel: dict[str, int]) -> None:
    source = ROOT / "src"
    kept = {
        path.relative_to(source).as_posix()
        for path in (source / "hareline").rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".so")
    }
    assert kept | {"pyspark_amqp.py"} == {
        path for path in wheel if not path.startswith("hareline/management/docs/")
    }


def test_the_wheel_has_the_documentation_for_users_and_nothing_else(
    wheel: dict[str, int],
) -> None:
    docs = {path: size for path, size in wheel.items() if "management/docs/" in path}
    assert set(docs) == {f"hareline/management/docs/{name}.md" for name in pages()}
    assert {path.stem for path in WORKING_COPY.glob("*.md")} >= FOR_DEVELOPERS
    assert sum(docs.values()) < 600_000
