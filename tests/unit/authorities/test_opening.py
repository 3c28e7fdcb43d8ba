"""Settings become backends, in their order; what cannot be used is named with its option."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from hareline.auth.backends import InternalBackend
from hareline.auth.signing_keys import ASYMMETRIC
from hareline.auth.users import UserRegistry
from hareline.authorities.opening import Authorities, token_rules
from hareline.errors import ConfigurationError
from hareline.events import Event
from hareline.settings import OAuth, Settings
from tests.support.login_work import AtOnce
from tests.support.tokens import Signer

HTTP = {
    "user_url": "http://127.0.0.1:1/user",
    "vhost_url": "http://127.0.0.1:1/vhost",
    "resource_url": "http://127.0.0.1:1/resource",
}
LDAP = {"servers": ("ldap://127.0.0.1:1",)}


def open_with(tree: dict[str, Any]) -> Authorities:
    def report(event: Event, **fields: object) -> None:
        """No test here looks at the log."""

    users = UserRegistry()
    internal = InternalBackend(users, AtOnce())
    return Authorities(Settings.model_validate(tree), users, internal, report, lambda *_: AtOnce())


async def test_a_broker_asks_itself_unless_told_otherwise() -> None:
    tasks = asyncio.all_tasks()
    authorities = open_with({})
    assert [each.name for each in authorities.backends] == ["internal"]
    assert asyncio.all_tasks() == tasks
    await authorities.close()


async def test_backends_come_in_the_order_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text(Signer("ES256", "").pem())
    authorities = open_with(
        {
            "auth": {"backends": ("ldap", "http", "oauth2", "internal")},
            "oauth": {"resource_server_id": "x", "key_file": str(tmp_path / "key.pem")},
            "http_auth": HTTP,
            "ldap": LDAP,
        }
    )
    backends = authorities.backends
    assert [each.name for each in backends] == ["ldap", "http", "oauth2", "internal"]
    assert [each.takes_bearer for each in backends] == [False, False, True, False]
    assert [each.asks_for_rights for each in backends] == [False, True, False, False]
    await authorities.close()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_service_that_says_who_only_is_asked_for_no_rights() -> None:
    given = {"user_url": HTTP["user_url"], "rights": "internal"}
    authorities = open_with({"auth": {"backends": ("http",)}, "http_auth": given})
    assert not authorities.backends[0].asks_for_rights
    await authorities.close()


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        (
            {
                "auth": {"backends": ("oauth2",)},
                "oauth": {
                    "resource_server_id": "x",
                    "jwks_url": "https://id.example",
                    "ca_file": "/nowhere/ca.pem",
                },
            },
            "oauth.ca_file: No such file or directory",
        ),
        (
            {"auth": {"backends": ("http",)}, "http_auth": {**HTTP, "ca_file": __file__}},
            "http_auth.ca_file: .*test_opening.py has no certificate in PEM",
        ),
        (
            {"auth": {"backends": ("ldap",)}, "ldap": {**LDAP, "ca_file": "/nowhere/ca.pem"}},
            "ldap.ca_file: there is no file /nowhere/ca.pem",
        ),
        (
            {"auth": {"backends": ("ldap",)}, "ldap": LDAP, "ldap_groups": ({"dn": "ops"},)},
            "ldap_groups: 'ops' is not a distinguished name",
        ),
    ],
)
async def test_what_cannot_be_used_is_named(tree: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_with(tree)
    [text] = caught.value.problems
    assert re.search(problem, text), text


def test_what_a_token_has_to_be_follows_from_the_options() -> None:
    rules = token_rules(OAuth(resource_server_id="mq", scope_aliases=("a = x y", "b = z", "a = w")))
    assert rules.scope_prefix == "mq."
    assert rules.aliases == {"a": ("x", "y", "w"), "b": ("z",)}
    assert rules.algorithms == ASYMMETRIC
    given = OAuth(resource_server_id="mq", scope_prefix="", algorithms=("HS256",), leeway_s=3)
    rules = token_rules(given)
    assert (rules.scope_prefix, sorted(rules.algorithms), rules.leeway_s) == ("", ["HS256"], 3)
