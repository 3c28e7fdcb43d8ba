"""The first access rule that matches decides: by user, tag, right, object, name, key, network."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from hareline.auth.access_rules import NO_RULES, AccessRule, AccessRules
from hareline.auth.permissions import AccessChecker, Permissions, TopicPermissions
from hareline.auth.users import User
from hareline.errors import AccessRefused, NotAllowed
from hareline.patterns import Pattern


def rule(number: int, *, is_allowed: bool, **what: Any) -> AccessRule:
    sets = {"users", "tags", "rights", "objects", "vhosts"}
    given: dict[str, Any] = {
        name: frozenset(value) if name in sets else value for name, value in what.items()
    }
    return AccessRule(number, is_allowed, **given)


def allow(**what: Any) -> AccessRule:
    return rule(1, is_allowed=True, **what)


def deny(**what: Any) -> AccessRule:
    return rule(1, is_allowed=False, **what)


def checker(
    *rules: AccessRule, host: str = "10.1.2.3", pattern: str = "^own$", **user: Any
) -> AccessChecker:
    """Of user "u" with the tag "t", who may do everything to what is called "own"."""
    given = {"/": Permissions(pattern, pattern, pattern)}
    made = User("u", "", tags=frozenset({"t"}), permissions=given, **user)
    return AccessChecker(made, "/", AccessRules(rules), host)


@pytest.mark.parametrize(
    ("rules", "is_allowed"),
    [
        ([], False),
        ([allow()], True),
        ([deny(rights=["write"]), allow()], False),
        ([allow(), deny()], True),
        ([allow(users=["u"])], True),
        ([allow(users=["v"])], False),
        ([allow(tags=["t"])], True),
        ([allow(tags=["s"])], False),
        ([allow(users=["v"], tags=["t"])], True),
        ([allow(rights=["write"])], True),
        ([allow(rights=["read", "configure"])], False),
        ([allow(objects=["exchange"])], True),
        ([allow(objects=["queue"])], False),
        ([allow(vhosts=["/"])], True),
        ([allow(vhosts=["other"])], False),
        ([allow(name=Pattern("^x$"))], True),
        ([allow(name=Pattern("^y$"))], False),
        ([allow(routing_key=Pattern("^k"))], True),
        ([allow(routing_key=Pattern("^l"))], False),
        ([allow(networks=(ipaddress.ip_network("10.0.0.0/8"),))], True),
        ([allow(networks=(ipaddress.ip_network("10.1.2.3"),))], True),
        ([allow(networks=(ipaddress.ip_network("192.168.0.0/16"),))], False),
        ([allow(networks=(ipaddress.ip_network("::/0"),))], False),
        ([deny(users=["v"]), allow(name=Pattern("x")), deny(rights=["write"])], True),
    ],
)
def test_the_first_rule_that_matches_decides(rules: list[AccessRule], is_allowed: bool) -> None:
    access = checker(*rules)
    if is_allowed:
        access.require("write", "exchange", "x", "k")
    else:
        with pytest.raises(AccessRefused):
            access.require("write", "exchange", "x", "k")


def test_what_no_rule_decides_is_left_to_the_permissions() -> None:
    access = checker(deny(name=Pattern("^secret")))
    access.require("read", "queue", "own")
    with pytest.raises(AccessRefused, match="read access to queue 'q' in vhost '/' refused for"):
        access.require("read", "queue", "q")


def test_a_refusal_says_that_a_rule_refused_it() -> None:
    access = checker(deny(rights=["write"]))
    with pytest.raises(AccessRefused) as raised:
        access.require("write", "exchange", "", "k")
    assert raised.value.explanation == (
        "write access to exchange 'amq.default' with routing key 'k' in vhost '/' refused for "
        "user 'u' by an access rule"
    )


@pytest.mark.parametrize("kind", ["queue", "exchange"])
def test_a_rule_about_keys_refuses_where_any_key_may_come_and_never_allows_it(kind: Any) -> None:
    some = Pattern("^k$")
    with pytest.raises(AccessRefused):
        checker(allow(routing_key=some)).require("write", kind, "x")
    access = checker(deny(routing_key=some), allow())
    if kind == "queue":  # which has no keys
        access.require("write", kind, "x")
    else:
        with pytest.raises(AccessRefused, match="by an access rule"):
            access.require("write", kind, "x")
    access.require("write", kind, "x", "other")


def test_an_allowed_exchange_is_still_bound_by_topic_permissions() -> None:
    access = checker(allow(), topic_permissions={("/", "x"): TopicPermissions("^mine$", ".*")})
    access.require("write", "exchange", "x", "k")
    with pytest.raises(AccessRefused, match="topic 'k'"):
        access.require_topic("write", "x", "k")


def test_who_may_not_open_the_virtual_host_has_no_checker() -> None:
    with pytest.raises(NotAllowed, match="access to vhost '/' refused for user 'u'"):
        checker(deny(rights=["access"], networks=(ipaddress.ip_network("10.0.0.0/8"),)))
    checker(deny(rights=["access"], networks=(ipaddress.ip_network("172.16.0.0/12"),)))


def test_no_rule_opens_a_virtual_host_without_permissions() -> None:
    with pytest.raises(NotAllowed):
        AccessChecker(User("u", ""), "/", AccessRules((allow(),)), "10.1.2.3")


@pytest.mark.parametrize(
    ("host", "network", "is_in"),
    [
        ("::ffff:10.1.2.3", "10.0.0.0/8", True),
        ("fe80::1%eth0", "fe80::/10", True),
        ("", "0.0.0.0/0", False),
        ("10.1.2.3", "::/0", False),
    ],
)
def test_addresses_are_compared_as_what_they_stand_for(
    host: str, network: str, is_in: bool
) -> None:
    rules = AccessRules((allow(networks=(ipaddress.ip_network(network),)),))
    assert (rules.of_user("u", (), "/", host) is not None) is is_in


def test_users_whom_no_rule_concerns_have_none() -> None:
    assert NO_RULES.of_user("u", (), "/", "") is None
    assert AccessRules((deny(users=["v"]),)).of_user("u", ("t",), "/", "") is None
    assert not checker(deny(users=["v"], routing_key=Pattern("k"))).asks_for_keys
    assert checker(deny(routing_key=Pattern("k"))).asks_for_keys


def test_a_rule_that_logs_tells_each_decision() -> None:
    told: list[tuple[int, str, str, str]] = []
    rules = AccessRules(
        (
            rule(1, is_allowed=True, is_logged=True, rights=["read"]),
            rule(2, is_allowed=False, is_logged=True, rights=["write"]),
        ),
        lambda *decision: told.append(decision),
    )
    user = User("u", "", permissions={"/": Permissions(".*", ".*", ".*")})
    access = AccessChecker(user, "/", rules, "10.1.2.3")
    access.require("read", "queue", "q")
    access.require("configure", "queue", "q")
    assert not access.may("write", "queue", "q")
    assert told == [
        (1, "u", "10.1.2.3", "read access to queue 'q' in vhost '/' granted to"),
        (2, "u", "10.1.2.3", "write access to queue 'q' in vhost '/' refused for"),
    ]


def test_a_pattern_that_takes_too_long_refuses_and_never_allows() -> None:
    slow, name = Pattern("^(a|aa)+$"), "a" * 60 + "!"
    assert not checker(allow(name=slow)).may("write", "queue", name)
    assert not checker(deny(name=slow), allow()).may("write", "queue", name)
    assert checker(deny(name=slow), allow()).may("write", "queue", "b")
    for rules in ([allow(routing_key=slow)], [deny(routing_key=slow), allow()]):
        assert not checker(*rules).may_publish("x", [name], is_topic=False)
