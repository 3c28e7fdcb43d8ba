"""The files that are generated from the code are what the code would write now."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def _generated_files() -> dict[Path, str]:
    spec = importlib.util.spec_from_file_location(
        "write_reference", ROOT / "scripts" / "write_reference.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    files: dict[Path, str] = module.generated_files()
    return files


@pytest.mark.parametrize(
    "name", ["config/hareline.toml", "docs/configuration.md", "docs/log-messages.md"]
)
def test_generated_file_is_up_to_date(name: str) -> None:
    path = ROOT / name
    assert path.read_text(encoding="utf-8") == _generated_files()[path], "run `make reference`"


def test_every_generated_file_is_checked() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in _generated_files()}
    assert names == {"config/hareline.toml", "docs/configuration.md", "docs/log-messages.md"}
