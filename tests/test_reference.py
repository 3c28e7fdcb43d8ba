"""The files that are generated from the code are what the code would write now."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import write_reference

ROOT = Path(__file__).resolve().parent.parent
NAMES = [
    "config/hareline.toml",
    "docs/cli.md",
    "docs/configuration.md",
    "docs/feature-tests.md",
    "docs/features.md",
    "docs/http-api.md",
    "docs/log-messages.md",
    "docs/modules.md",
    "docs/rabbitmq-4.md",
    "docs/security.md",
]


@pytest.fixture(scope="module")
def generated() -> dict[Path, str]:
    return write_reference.generated_files()


@pytest.mark.parametrize("name", NAMES)
def test_generated_file_is_up_to_date(name: str, generated: dict[Path, str]) -> None:
    path = ROOT / name
    written = generated[path]
    assert path.read_text(encoding="utf-8") == written, "run `make reference`"


def test_every_generated_file_is_checked(generated: dict[Path, str]) -> None:
    assert sorted(path.relative_to(ROOT).as_posix() for path in generated) == NAMES
