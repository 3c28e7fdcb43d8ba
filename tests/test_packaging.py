"""The source distribution has all that README.md and the Makefile send their reader to."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

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
