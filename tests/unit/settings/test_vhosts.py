"""Options of a virtual host."""

from __future__ import annotations

import pytest

from hareline.settings import Settings, VirtualHost
from tests.support.settings import problems_of


def test_a_virtual_host_has_one_source_of_default_prefetches() -> None:
    for given in ({"default_prefetch": 5}, {"prefetch_profile": "activemq", "prefetch_max": 9}, {}):
        vhosts = Settings.model_validate({"vhosts": [{"name": "/", **given}]}).vhosts
        assert vhosts == (VirtualHost.model_validate({"name": "/", **given}),)
    both = {"name": "/", "prefetch_profile": "activemq", "default_prefetch": 5}
    assert problems_of(vhosts=[both]) == [
        ("vhosts.0.default_prefetch", "Input should be 0 where prefetch_profile is 'activemq'")
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [("default_prefetch", -1), ("prefetch_max", -1), ("prefetch_profile", "artemis")],
)
def test_a_prefetch_out_of_bounds_is_refused(key: str, value: object) -> None:
    ((place, _),) = problems_of(vhosts=[{"name": "/", key: value}])
    assert place == f"vhosts.0.{key}"
