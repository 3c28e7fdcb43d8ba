"""Patterns mean what they mean in RabbitMQ, and refusals read as there."""

from __future__ import annotations

import pytest

from hareline.auth.permissions import (
    ALL_PERMISSIONS,
    DECISIONS_MAX,
    AccessChecker,
    Grants,
    Permissions,
    Resource,
    Right,
    TopicPermissions,
)
from hareline.auth.scopes import ScopeGrants
from hareline.auth.users import User
from hareline.errors import AccessRefused, NotAllowed

RIGHTS: list[Right] = ["configure", "write", "read"]


def checker(configure: str = "^$", write: str = "^$", read: str = "^$") -> AccessChecker:
    return AccessChecker(User("u", "", permissions={"/": Permissions(configure, write, read)}), "/")


@pytest.mark.parametrize(
    ("pattern", "name", "is_allowed"),
    [
        (".*", "anything", True),
        (".*", "", True),
        ("", "", True),
        ("", "a", False),
        ("^$", "", True),
        ("^$", "a", False),
        ("foo", "xfoobar", True),
        ("^foo", "xfoo", False),
        ("^foo$", "foo", True),
        ("^(a|b)$", "b", True),
        ("^amq\\.gen-.*", "amq.gen-Ab3", True),
        ("^amq\\.gen-.*", "amqxgen-Ab3", False),
        ("(?i)^orders", "ORDERS.eu", True),
        ("^\\w+$", "größe", False),
        ("^a++b$", "aaab", True),
        ("^[[:alpha:]]+$", "abc", True),
        ("^[[:alpha:]]+$", "ab1", False),
    ],
)
def test_a_pattern_is_searched_for_in_the_name(pattern: str, name: str, is_allowed: bool) -> None:
    for right in RIGHTS:
        permissions = Permissions("^never$", "^never$", "^never$")
        assert not permissions.allow(right, name)
        permissions = Permissions(**{**dict.fromkeys(RIGHTS, "^never$"), right: pattern})
        assert permissions.allow(right, name) is is_allowed


@pytest.mark.parametrize(
    ("right", "resource", "name", "text"),
    [
        (
            "configure",
            "queue",
            "q",
            "configure access to queue 'q' in vhost '/' refused for user 'u'",
        ),
        (
            "write",
            "exchange",
            "x",
            "write access to exchange 'x' in vhost '/' refused for user 'u'",
        ),
        ("read", "queue", "q", "read access to queue 'q' in vhost '/' refused for user 'u'"),
        (
            "write",
            "exchange",
            "",
            "write access to exchange 'amq.default' in vhost '/' refused for user 'u'",
        ),
    ],
)
def test_a_refusal_reads_as_in_rabbitmq(
    right: Right, resource: Resource, name: str, text: str
) -> None:
    with pytest.raises(AccessRefused) as caught:
        checker().require(right, resource, name)
    assert caught.value.explanation == text
    assert caught.value.reply_text == f"ACCESS_REFUSED - {text}"


def test_each_right_has_its_own_pattern() -> None:
    access = checker(configure="^c", write="^w", read="^r")
    access.require("configure", "queue", "c1")
    access.require("write", "exchange", "w1")
    access.require("read", "queue", "r1")
    for right, name in (("configure", "w1"), ("write", "r1"), ("read", "c1")):
        with pytest.raises(AccessRefused):
            access.require(right, "queue", name)  # type: ignore[arg-type]


def test_the_default_exchange_is_matched_as_amq_default() -> None:
    checker(write="^amq\\.default$").require("write", "exchange", "")
    with pytest.raises(AccessRefused):
        checker(write="").require("write", "exchange", "")
    checker(write="").require("write", "queue", "")


def test_a_user_without_permissions_may_not_open_the_vhost() -> None:
    user = User("u", "", permissions={"/": ALL_PERMISSIONS})
    with pytest.raises(NotAllowed) as caught:
        AccessChecker(user, "other")
    assert caught.value.reply_text == ("NOT_ALLOWED - access to vhost 'other' refused for user 'u'")


def test_all_permissions_refuse_nothing() -> None:
    access = AccessChecker(User("u", "", permissions={"/": ALL_PERMISSIONS}), "/")
    for right in RIGHTS:
        access.require(right, "exchange", "")
        access.require(right, "queue", "any name at all")


def test_a_grant_is_remembered_and_a_refusal_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    allow = Permissions.allow

    def counting(self: Permissions, right: Right, name: str) -> bool:
        looked_up.append(name)
        return allow(self, right, name)

    monkeypatch.setattr(Permissions, "allow", counting)
    access = checker(read="^ok")
    for _ in range(3):
        access.require("read", "queue", "ok")
        with pytest.raises(AccessRefused):
            access.require("read", "queue", "no")
    assert looked_up == ["ok", "no", "no", "no"]


def test_remembered_grants_stay_within_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    allow = Permissions.allow

    def counting(self: Permissions, right: Right, name: str) -> bool:
        looked_up.append(name)
        return allow(self, right, name)

    monkeypatch.setattr(Permissions, "allow", counting)
    access = checker(read=".*")
    for number in range(DECISIONS_MAX):
        access.require("read", "queue", str(number))
    access.require("read", "queue", "0")
    assert len(looked_up) == DECISIONS_MAX
    access.require("read", "queue", "one more")
    access.require("read", "queue", "0")
    assert looked_up[-2:] == ["one more", "0"]


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "\\Qq\\E", "*"])
def test_a_bad_pattern_is_named(pattern: str) -> None:
    # differs: permission-patterns
    for right in RIGHTS:
        with pytest.raises(ValueError, match=f"^{right} pattern '.*' is not a regular expression"):
            Permissions(**{**dict.fromkeys(RIGHTS, ""), right: pattern})


SLOW, SLOW_NAME = "^(a|aa)+$", "a" * 60 + "!"


def test_a_pattern_that_is_slow_in_python_is_quick_or_not_allowed() -> None:
    """Seen to stop a broker: twenty-eight letters, and each more doubles the time."""
    permissions = Permissions("^(team-?)*([a-z]+[.-]?)+$", "", "")
    assert permissions.allow("configure", "team-orders.in")
    assert not permissions.allow("configure", "abcdefghijklmnopqrstuvwxyzab!")


def test_a_name_that_takes_a_pattern_too_long_is_not_allowed() -> None:
    topics = {("/", "t"): TopicPermissions(SLOW, SLOW)}
    user = User("u", "", permissions={"/": Permissions(SLOW, "", "")}, topic_permissions=topics)
    access = AccessChecker(user, "/")
    access.require("configure", "queue", "aaa")
    assert not access.may("configure", "queue", SLOW_NAME)
    with pytest.raises(AccessRefused):
        access.require_topic("write", "t", SLOW_NAME)


class TestRightsOfAnotherAuthority:
    """A user with grants: patterns of this broker have no say."""

    def checker(self, *scopes: str) -> AccessChecker:
        grants = ScopeGrants(scopes, {})
        user = User("u", "", permissions={"/": ALL_PERMISSIONS}, grants=grants)
        return AccessChecker(user, "/")

    def test_grants_say_which_virtual_host_may_be_opened(self) -> None:
        with pytest.raises(NotAllowed, match="access to vhost '/' refused for user 'u'"):
            self.checker("read:shop/*")

    def test_grants_say_what_may_be_done_there(self) -> None:
        checker = self.checker("read:*/q")
        checker.require("read", "queue", "q")
        with pytest.raises(AccessRefused, match="write access to queue 'q' in vhost '/' refused"):
            checker.require("write", "queue", "q")
        assert not checker.may("read", "queue", "other")

    def test_the_default_exchange_has_its_name(self) -> None:
        assert self.checker("write:*/amq.default").may("write", "exchange", "")

    def test_grants_say_which_topics_may_be_used(self) -> None:
        checker = self.checker("write:*/amq.topic/eu.*")
        assert checker.has_topics("amq.topic")
        checker.require_topic("write", "amq.topic", "eu.x")
        with pytest.raises(AccessRefused, match=r"write access to topic 'us\.x' in exchange"):
            checker.require_topic("write", "amq.topic", "us.x")

    def test_a_right_on_a_queue_is_none_on_the_exchange_of_its_name(self) -> None:
        class QueuesOnly(Grants):
            def enters(self, vhost_name: str) -> bool:
                return True

            def allows(self, vhost_name: str, right: Right, resource: Resource, name: str) -> bool:
                return resource == "queue"

            def allows_topic(
                self, vhost_name: str, right: Right, exchange: str, routing_key: str
            ) -> bool:
                return False

        checker = AccessChecker(User("u", "", grants=QueuesOnly()), "/")
        checker.require("write", "queue", "x")
        assert not checker.may("write", "exchange", "x")
