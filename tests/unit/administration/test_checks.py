"""Checks of names and values; limits are tested where they are set."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.administration import AdministrationError
from hareline.administration.checks import DEPTH_MAX, check_name, is_shallow


def nested(depth: int, *, is_object: bool) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value, "b": 2} if is_object else [2, value]
    return value


@pytest.mark.parametrize("is_object", [True, False])
def test_the_depth_of_json(is_object: bool) -> None:
    assert is_shallow(nested(0, is_object=is_object))
    assert is_shallow(nested(DEPTH_MAX, is_object=is_object))
    assert not is_shallow(nested(DEPTH_MAX + 1, is_object=is_object))
    assert not is_shallow(nested(50_000, is_object=is_object))


@pytest.mark.parametrize("name", ["", "\ud800", "a" * 256, "é" * 128])
def test_names_that_nothing_may_have(name: str) -> None:
    with pytest.raises(AdministrationError):
        check_name("user", name)


def test_a_name_has_up_to_255_octets() -> None:
    check_name("user", "é" * 127 + "a")
