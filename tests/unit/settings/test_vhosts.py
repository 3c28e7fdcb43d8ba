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


@pytest.mark.parametrize(
    ("text", "share"), [("off", 0.0), ("all", 1.0), ("sample:0.01", 0.01), ("sample:1", 1.0)]
)
def test_audit_is_a_share_of_messages(text: str, share: float) -> None:
    assert VirtualHost(name="/", audit=text).audit_share == share


@pytest.mark.parametrize(
    "text", ["on", "", "sample", "sample:0", "sample:0.0", "sample:1.5", "sample:-1", "sample:nan"]
)
def test_an_audit_that_says_no_share_is_refused(text: str) -> None:
    assert problems_of(vhosts=[{"name": "/", "audit": text}]) == [
        (
            "vhosts.0.audit",
            'Input should be "off", "all", or "sample:" and a share above 0, such as "sample:0.01"',
        )
    ]


def test_limits_of_the_audit_stream() -> None:
    vhost = VirtualHost.model_validate(
        {"name": "/", "audit_max_bytes": "10GiB", "audit_max_age": ""}
    )
    assert (vhost.audit_max_bytes, vhost.audit_max_age) == (10 << 30, "")
    for age in ("7", "0D", "7W", "D"):
        assert problems_of(vhosts=[{"name": "/", "audit_max_age": age}]) == [
            (
                "vhosts.0.audit_max_age",
                'Input should be a number above 0 and one of Y, M, D, h, m, s, such as "7D", '
                "or empty",
            )
        ]
    ((place, _),) = problems_of(vhosts=[{"name": "/", "audit_max_bytes": -1}])
    assert place == "vhosts.0.audit_max_bytes"
