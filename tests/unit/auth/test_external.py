"""The user that a certificate stands for."""

from __future__ import annotations

import pytest

from hareline.auth.certificates import PeerCertificate
from hareline.auth.external import ExternalLogin, NameField, NameRule

ANN = PeerCertificate(
    subject="CN=ann,OU=shop,O=example",
    common_name="ann",
    dns_names=("ann.shop.example", "ann2.shop.example"),
    email_addresses=("ann@shop.example",),
    uris=("spiffe://shop/ann",),
    issuer="CN=authority",
    serial="1",
    not_after_ms=1,
)
NAMELESS = ANN._replace(common_name="", dns_names=(), email_addresses=(), uris=(), subject="")


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("common_name", "ann"),
        ("distinguished_name", "CN=ann,OU=shop,O=example"),
        ("dns", "ann.shop.example"),
        ("email", "ann@shop.example"),
        ("uri", "spiffe://shop/ann"),
    ],
)
def test_the_name_stands_where_the_settings_say(field: NameField, name: str) -> None:
    login = ExternalLogin(field)
    assert login.user_name(ANN) == name
    assert login.user_name(NAMELESS) == ""
    assert login.user_name(None) == ""


def test_the_first_rule_that_matches_the_whole_name_decides() -> None:
    rules = [NameRule("bob", "robert"), NameRule("(a..)", r"shop-\1"), NameRule("ann", "never")]
    assert ExternalLogin(rules=rules).user_name(ANN) == "shop-ann"
    bob = ANN._replace(common_name="bob")
    assert ExternalLogin(rules=rules).user_name(bob) == "robert"


def test_a_name_that_no_rule_matches_is_no_user() -> None:
    assert ExternalLogin(rules=[NameRule("an", "ann")]).user_name(ANN) == ""
    assert ExternalLogin(rules=[NameRule("nn", "ann")]).user_name(ANN) == ""


def test_a_name_that_takes_a_rule_too_long_is_no_user() -> None:
    rules = [NameRule("(a|aa)+b", "never"), NameRule(".*", "anybody")]
    long = ANN._replace(common_name="a" * 60 + "!")
    assert ExternalLogin(rules=rules).user_name(long) == ""
    assert ExternalLogin(rules=rules).user_name(ANN) == "anybody"
