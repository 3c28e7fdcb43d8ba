"""Which files are loaded at the start, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hareline.administration.definitions_import import definition_files, read_definitions
from hareline.errors import StoreError


def test_a_directory_stands_for_its_files_by_name(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "c.txt"):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    (tmp_path / "d.json").mkdir()
    assert [each.name for each in definition_files(str(tmp_path))] == ["a.json", "b.json"]
    assert definition_files(str(tmp_path / "a.json")) == [tmp_path / "a.json"]
    assert read_definitions(tmp_path / "a.json") == {}
    assert definition_files("") == []


def test_what_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no \.json files"):
        definition_files(str(tmp_path))
    with pytest.raises(StoreError, match=r"gone\.json: No such file"):
        read_definitions(tmp_path / "gone.json")
    broken = tmp_path / "broken.json"
    broken.write_text("{", encoding="utf-8")
    with pytest.raises(StoreError, match=r"broken\.json: not JSON"):
        read_definitions(broken)
