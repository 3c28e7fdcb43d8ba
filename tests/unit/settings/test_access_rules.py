"""Access rules in the settings: what a mistake is called, and what the rules become."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from hareline.server import assemble
from hareline.settings import Settings
from tests.support.settings import problems_of


@pytest.mark.parametrize(
    ("given", "place", "message"),
    [
        ({}, "access_rules.0.rule", "Field required"),
        ({"rule": "maybe"}, "access_rules.0.rule", "'allow', 'deny', 'allow-log' or 'deny-log'"),
        ({"rule": "deny", "name": "("}, "access_rules.0.name", "regular expression"),
        ({"rule": "deny", "rights": ["publish"]}, "access_rules.0.rights.0", "'write'"),
        (
            {"rule": "deny", "from_networks": ["10.0.0.1/8"]},
            "access_rules.0.from_networks",
            "10.0.0.1/8 has host bits set",
        ),
        ({"rule": "deny", "user": "bob"}, "access_rules.0.user", "not permitted"),
    ],
)
def test_a_mistake_is_named(given: dict[str, Any], place: str, message: str) -> None:
    ((found, text),) = problems_of(access_rules=[given])
    assert found == place
    assert message in text


def test_rules_keep_their_order_and_their_numbers() -> None:
    given = [
        {"rule": "deny-log", "users": ["ann"], "from_networks": ["10.0.0.0/8", "::1"]},
        {"rule": "allow", "name": "^q", "rights": ["read"], "objects": ["queue"]},
    ]
    settings = Settings.model_validate({"access_rules": given})
    first, second = assemble.access_rules(settings, lambda *_: None).rules
    assert (first.number, first.is_allowed, first.is_logged) == (1, False, True)
    assert first.networks == (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1"))
    assert (second.number, second.is_allowed, second.is_logged) == (2, True, False)
    assert second.matches("read", "queue", "q1", None)
    assert not second.matches("read", "queue", "other", None)
    assert first.name is None


def test_equal_settings_make_equal_rules_so_that_a_reload_changes_nothing() -> None:
    given = [{"rule": "deny", "routing_key": "^k", "from_networks": ["10.0.0.0/8"]}]
    one, other = (
        assemble.access_rules(Settings.model_validate({"access_rules": given}), lambda *_: None)
        for _ in range(2)
    )
    assert one == other
