"""Scopes permit what they permit in RabbitMQ, and what is no scope permits nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.auth.scopes import ScopeGrants, Wildcard, tags_of


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("*", "", True),
        ("*", "anything/at all", True),
        ("", "", True),
        ("", "a", False),
        ("foo", "foo", True),
        ("foo", "foobar", False),
        ("foo*", "foobar", True),
        ("foo*", "xfoo", False),
        ("*foo", "barfoo", True),
        ("*foo", "foobar", False),
        ("foo*bar", "foobar", True),
        ("foo*bar", "foo-bar-bar", True),
        ("foo*bar", "fobar", False),
        ("foo*oof", "foof", False),
        ("a**b", "ab", True),
        ("start*middle*end", "start-middle-end", True),
        ("start*middle*end", "start-end-middle", False),
        ("*before*after*", "x before y after z", True),
        ("*before*after*", "after before", False),
        ("%2F", "/", True),
        ("%2f*", "/orders", True),
        ("%2A", "*", True),
        ("%2A", "a", False),
        ("a+b", "a b", True),
        ("%C3%BC", "ü", True),
        (".*", "x", False),
    ],
)
def test_a_star_stands_for_any_text(pattern: str, text: str, fits: bool) -> None:
    assert Wildcard(pattern).matches(text) is fits


@pytest.mark.parametrize("pattern", ["%", "%2", "%zz", "a%"])
def test_a_percent_needs_two_digits(pattern: str) -> None:
    with pytest.raises(ValueError, match="two hexadecimal digits"):
        Wildcard(pattern)


@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=5), st.text("ab", max_size=3))
def test_a_pattern_fits_what_it_was_made_of(parts: list[str], between: str) -> None:
    assert Wildcard("*".join(parts)).matches(between.join(parts))


def test_a_right_is_for_the_virtual_host_and_the_names_of_its_scope() -> None:
    grants = ScopeGrants(["read:shop/orders*", "write:%2F/amq.default", "configure:*/tmp.*"], {})
    assert grants.allows("shop", "read", "queue", "orders.eu")
    assert not grants.allows("shop", "read", "queue", "bills")
    assert not grants.allows("shop", "write", "queue", "orders.eu")
    assert not grants.allows("/", "read", "queue", "orders.eu")
    assert grants.allows("/", "write", "exchange", "amq.default")
    assert grants.allows("anywhere", "configure", "queue", "tmp.1")


def test_a_virtual_host_is_entered_by_any_scope_for_it() -> None:
    grants = ScopeGrants(["read:shop/x", "tag:administrator"], {})
    assert grants.enters("shop")
    assert not grants.enters("/")
    assert not ScopeGrants(["tag:administrator"], {}).enters("shop")


def test_topics_need_a_scope_that_names_keys() -> None:
    grants = ScopeGrants(["write:*/*", "write:*/amq.topic/eu.*"], {})
    assert grants.allows_topic("/", "write", "amq.topic", "eu.orders")
    assert not grants.allows_topic("/", "write", "amq.topic", "us.orders")
    assert not grants.allows_topic("/", "read", "amq.topic", "eu.orders")
    assert not grants.allows_topic("/", "write", "other", "eu.orders")
    assert not ScopeGrants(["write:*/*"], {}).allows_topic("/", "write", "amq.topic", "k")


@pytest.mark.parametrize(
    "scope",
    [
        "",
        "read",
        "read:",
        "read:shop",
        "read:a/b/c/d",
        "delete:*/*",
        "READ:*/*",
        "read:%/*",
        "*:*/*",
    ],
)
def test_what_is_no_scope_permits_nothing(scope: str) -> None:
    grants = ScopeGrants([scope], {})
    assert not grants.enters("shop")
    assert not any(
        grants.allows("shop", right, "queue", "shop") for right in ("read", "write", "configure")
    )


class TestVariables:
    def test_the_virtual_host_and_claims_are_put_in(self) -> None:
        grants = ScopeGrants(["read:{vhost}/{sub}-*"], {"sub": "ann"})
        assert grants.allows("shop", "read", "queue", "ann-inbox")
        assert grants.allows("/", "read", "queue", "ann-inbox")
        assert not grants.allows("shop", "read", "queue", "bob-inbox")

    def test_a_claim_stands_for_itself_and_widens_nothing(self) -> None:
        grants = ScopeGrants(["read:{team}/{sub}"], {"sub": "*", "team": "a/b"})
        assert grants.allows("a/b", "read", "queue", "*")
        assert not grants.allows("a/b", "read", "queue", "everything")
        assert not grants.enters("a")

    def test_a_virtual_host_with_a_star_widens_nothing(self) -> None:
        grants = ScopeGrants(["read:shop/{vhost}"], {})
        assert grants.allows("shop", "read", "queue", "shop")
        assert not ScopeGrants(["read:{vhost}x/q"], {}).enters("*")

    def test_nobody_else_sets_the_mark_for_the_virtual_host(self) -> None:
        assert not ScopeGrants(["read:\0/x"], {}).enters("shop")
        grants = ScopeGrants(["read:*/{sub}"], {"sub": "\0"})
        assert not grants.allows("shop", "read", "queue", "shop")

    def test_an_unknown_variable_stands_for_its_name(self) -> None:
        assert ScopeGrants(["read:*/{nobody}"], {}).allows("/", "read", "queue", "nobody")


def test_tags_come_from_scopes() -> None:
    assert tags_of(["tag:monitoring", "tag:", "read:*/*", "tag:x y"]) == {"monitoring", "x y"}
