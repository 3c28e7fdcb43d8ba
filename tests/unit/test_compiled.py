"""Whether this is a compiled build, and decorators that change nothing where it is not."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from hareline import compiled
from hareline.wire import decoder


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("decoder.py", "pure"),
        ("decoder.pyc", "pure"),
        (f"decoder{EXTENSION_SUFFIXES[0]}", "compiled"),
        (f"decoder{EXTENSION_SUFFIXES[-1]}", "compiled"),
    ],
)
def test_the_file_of_a_module_says_which_build_it_is(
    file: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wire").mkdir()
    (tmp_path / "wire" / file).touch()
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    assert compiled.build() == expected


def test_an_extension_module_is_preferred_to_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wire").mkdir()
    (tmp_path / "wire" / "decoder.py").touch()
    (tmp_path / "wire" / f"decoder{EXTENSION_SUFFIXES[0]}").touch()
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    assert compiled.build() == "compiled"


def test_it_is_true_of_this_one() -> None:
    assert (compiled.build() == "pure") is str(decoder.__file__).endswith(".py")


def test_the_decorators_return_the_class() -> None:
    class Some:
        pass

    assert compiled.trait(Some) is Some
    assert compiled.mypyc_attr(allow_interpreted_subclasses=True)(Some) is Some
