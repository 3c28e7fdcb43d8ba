"""Options of authorities: what is no URL, no alias, or not enough to ask somebody, is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from hareline.settings import Settings

OAUTH = {"resource_server_id": "rabbitmq", "jwks_url": "https://id.example/jwks"}
HTTP = {
    "user_url": "http://a.example/user",
    "vhost_url": "http://a.example/vhost",
    "resource_url": "http://a.example/resource",
}
LDAP = {"servers": ["ldaps://ldap.example", "ldap://ldap2.example:1389"]}


def problems(tree: dict[str, Any]) -> list[str]:
    try:
        Settings.model_validate_json(json.dumps(tree))
    except ValidationError as error:
        found = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        return [each for each in found if not each.startswith("users: The default factory")]
    return []


def test_each_backend_can_be_named() -> None:
    backends = ["ldap", "oauth2", "http", "internal"]
    tree = {"auth": {"backends": backends}, "oauth": OAUTH, "http_auth": HTTP, "ldap": LDAP}
    assert problems(tree) == []


def test_what_a_backend_needs_is_named() -> None:
    assert problems({"auth": {"backends": ["oauth2", "http", "ldap"]}}) == [
        "auth.backends: 'oauth2' needs oauth.resource_server_id",
        "auth.backends: 'oauth2' needs oauth.jwks_url",
        "auth.backends: 'http' needs http_auth.user_url",
        "auth.backends: 'http' needs http_auth.vhost_url",
        "auth.backends: 'http' needs http_auth.resource_url",
        "auth.backends: 'ldap' needs ldap.servers",
    ]


@pytest.mark.parametrize(
    ("tree", "found"),
    [
        ({"auth": {"backends": ["oauth2"]}, "oauth": {**OAUTH, "verify_aud": False}}, []),
        (
            {
                "auth": {"backends": ["oauth2"]},
                "oauth": {"key_file": "k", "verify_aud": False, "scope_prefix": "mq."},
            },
            [],
        ),
        (
            {"auth": {"backends": ["oauth2"]}, "oauth": {"key_file": "k", "verify_aud": False}},
            ["auth.backends: 'oauth2' needs oauth.scope_prefix"],
        ),
        (
            {
                "auth": {"backends": ["http"]},
                "http_auth": {"user_url": HTTP["user_url"], "rights": "internal"},
            },
            [],
        ),
        (
            {"auth": {"backends": ["ldap"]}, "ldap": {**LDAP, "lookup_attribute": "uid"}},
            ["auth.backends: 'ldap' needs ldap.lookup_base"],
        ),
        ({"auth": {"backends": []}}, ["auth.backends: Input should name at least one"]),
        (
            {"auth": {"backends": ["internal", "internal"]}},
            ["auth.backends: 'internal' is named twice"],
        ),
    ],
)
def test_only_what_is_needed_is_asked_for(tree: dict[str, Any], found: list[str]) -> None:
    assert problems(tree) == found


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("id.example", "Input should be a URL that begins with https:// or http://"),
        ("ftp://id.example", "Input should be a URL that begins with https:// or http://"),
        ("https://", "Input should be a URL that begins with https:// or http://"),
        ("https://[::1", "Input should be a URL that begins with https:// or http://"),
        ("https://id.example:99999", "Input should be a URL that begins with https:// or http://"),
        ("https://me:pw@id.example", "Input should have no user and password in it"),
    ],
)
def test_what_is_no_url_is_named(url: str, problem: str) -> None:
    assert problems({"oauth": {"jwks_url": url}}) == [f"oauth.jwks_url: {problem}"]


@pytest.mark.parametrize("url", ["", "http://ldap.example", "ldap.example"])
def test_a_directory_has_a_url_of_ldap(url: str) -> None:
    [problem] = problems({"ldap": {"servers": [url]}})
    assert problem.startswith("ldap.servers.0: Input should")


@pytest.mark.parametrize("alias", ["admin", "admin = ", " = rabbitmq.a", "admin=rabbitmq.a"])
def test_an_alias_stands_for_something(alias: str) -> None:
    [problem] = problems({"oauth": {"scope_aliases": [alias]}})
    assert problem.startswith("oauth.scope_aliases.0: Input should be an alias, ' = ', and")


def test_the_password_of_a_search_is_not_shown() -> None:
    settings = Settings.model_validate({"ldap": {"lookup_bind_password": "hush"}})
    assert "hush" not in repr(settings)
    assert settings.ldap.lookup_bind_password.get_secret_value() == "hush"
