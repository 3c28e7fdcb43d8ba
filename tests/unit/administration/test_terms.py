"""Values as RabbitMQ shows them."""

from __future__ import annotations

import pytest

from hareline.administration.checks import term


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1, "1"),
        (1.5, "1.5"),
        (True, "true"),
        (None, "null"),
        ("a", '<<"a">>'),
        (["a", 1], '[<<"a">>,1]'),
        ({"k": [False]}, '[{<<"k">>,[false]}]'),
        ("x" * 300, f'<<"{"x" * 200}...">>'),
    ],
)
def test_values_are_shown_as_terms(value: object, shown: str) -> None:
    assert term(value) == shown
