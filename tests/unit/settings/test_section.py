"""Tables of options: final, and with known keys only."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hareline.settings import Settings, reload_of
from hareline.settings.section import Section, option


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().listener.port = 1


class Table(Section):
    """A table of two options."""

    first: int = option(1, "The first.", reload="live", ge=1)
    second: str = option("x", "The second.")


def test_a_key_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Table.model_validate({"third": 3})


def test_a_default_is_held_to_the_bounds() -> None:
    class Wrong(Section):
        first: int = option(0, "Out of its own bounds.", ge=1)

    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        Wrong()


def test_an_option_says_how_it_is_changed() -> None:
    fields = Table.model_fields
    assert [reload_of(field) for field in fields.values()] == ["live", "restart"]
    assert fields["first"].description == "The first."
