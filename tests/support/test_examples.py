"""That every property test follows the profile, and what a share of it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from .examples import examples

TESTS = Path(__file__).resolve().parents[1]
PROFILES = TESTS / "conftest.py"


def own_numbers(source: str) -> Iterator[int]:
    """The lines with a ``max_examples`` that is not made by `examples`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.keyword(arg="max_examples", value=ast.Call(func=ast.Name(id="examples"))):
                pass
            case ast.keyword(arg="max_examples"):
                yield node.lineno


@pytest.fixture(params=["short", "fuzz"])
def profile(request: pytest.FixtureRequest) -> Iterator[settings]:
    """One of the two, as if it had been chosen on the command line."""
    before = settings.get_current_profile_name()
    settings.load_profile(request.param)
    yield settings.get_profile(request.param)
    settings.load_profile(before)


def test_a_share_is_of_what_the_profile_says(profile: settings) -> None:
    assert examples(1) == profile.max_examples
    assert examples(1.5) == profile.max_examples * 3 // 2
    assert examples(0.25) == profile.max_examples // 4
    assert examples(0) == 1


def test_every_property_test_follows_the_profile() -> None:
    own = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if path != PROFILES
        for line in own_numbers(path.read_text(encoding="utf-8"))
    ]
    assert not own, f"max_examples without examples(): {', '.join(own)}"


def test_a_number_of_its_own_is_noticed() -> None:
    assert list(own_numbers("@settings(max_examples=40)\ndef test_x(): ...")) == [1]
    assert list(own_numbers("x = settings(\n    max_examples=COUNT)")) == [2]
    assert list(own_numbers("settings(max_examples=examples(0.5))")) == []
    assert list(own_numbers(PROFILES.read_text(encoding="utf-8"))) != []
