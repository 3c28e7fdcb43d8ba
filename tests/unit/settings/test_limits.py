"""Options of what clients may ask for."""

from __future__ import annotations

import pytest

from hareline.settings import Limits, Settings
from hareline.settings.section import reload_of
from tests.support.settings import problems_of


def test_limits_hold_at_their_edges() -> None:
    limits = {"frame_max_bytes": 4096, "channel_max": 65535, "max_message_bytes": 536_870_912}
    settings = Settings.model_validate({"limits": limits, "listener": {"port": 65535}})
    assert settings.limits.frame_max_bytes == 4096
    assert settings.limits.channel_max == 65535


def test_a_limit_is_a_whole_number_and_0_means_none() -> None:
    limits = [
        name for name in Limits.model_fields if name.startswith("max_") and "bytes" not in name
    ]
    assert len(limits) > 5
    for name in limits:
        Settings.model_validate({"limits": {name: 0}})
        ((place, _),) = problems_of(limits={name: -1})
        assert place == f"limits.{name}"


@pytest.mark.parametrize("name", sorted(Limits.model_fields))
def test_a_running_broker_takes_over_each_but_the_size_that_goes_to_disk(name: str) -> None:
    expected = "restart" if name == "large_message_bytes" else "live"
    assert reload_of(Limits.model_fields[name]) == expected
