"""What does not fit together across tables is refused, each problem at its own place."""

from __future__ import annotations

import pytest

from hareline.settings import Listener, Management, Settings
from tests.support.settings import GOOD_USER, HASHED_USER, SCRAM_KEYS, problems_of


def test_two_entries_of_one_name_are_refused() -> None:
    vhosts = [{"name": "/"}, {"name": "a"}, {"name": "a"}]
    assert problems_of(vhosts=vhosts, users=[GOOD_USER, GOOD_USER]) == [
        ("vhosts.2.name", "'a' is already the name of another entry"),
        ("users.1.name", "'ann' is already the name of another entry"),
    ]


def test_a_permission_names_a_virtual_host_that_is_listed_and_only_once() -> None:
    user = {**GOOD_USER, "permissions": [{"vhost": "/"}, {"vhost": "x"}, {"vhost": "/"}]}
    assert problems_of(users=[user]) == [
        ("users.0.permissions.1.vhost", "no virtual host 'x' is listed"),
        ("users.0.permissions.2.vhost", "'/' already has an entry"),
    ]


def test_every_user_has_a_mechanism_to_log_in_by() -> None:
    keys_alone = {"name": "cleo", "scram": SCRAM_KEYS}
    only_scram = {"mechanisms": ["SCRAM-SHA-256"]}
    assert problems_of(auth=only_scram, users=[GOOD_USER, HASHED_USER, keys_alone]) == [
        ("users.1.scram", "'bob' needs it: SCRAM-SHA-256 is the only mechanism")
    ]
    assert problems_of(auth={"mechanisms": ["PLAIN"]}, users=[GOOD_USER, keys_alone]) == [
        ("users.1.password_hash", "'cleo' needs it: auth.mechanisms is without SCRAM-SHA-256")
    ]
    for other in (HASHED_USER, {"name": "bob", "password": "pässword"}):
        assert problems_of(users=[keys_alone, other]) == [
            (
                "users.0.password_hash",
                "'cleo' needs it: SCRAM-SHA-256 is not offered while 'bob' cannot use it",
            )
        ]
    for users in ([keys_alone, GOOD_USER], [GOOD_USER, HASHED_USER]):
        assert len(Settings.model_validate({"users": users}).users) == 2
    settings = Settings.model_validate({"auth": only_scram, "users": [keys_alone, GOOD_USER]})
    assert settings.auth.mechanisms == ("SCRAM-SHA-256",)


def test_there_is_at_least_one_virtual_host() -> None:
    assert ("vhosts", "at least one virtual host should be listed") in problems_of(vhosts=[])


def test_no_two_listeners_can_share_a_port() -> None:
    assert problems_of(listener={"port": 15672}) == [
        ("management.port", "Input should differ from listener.port, which is 15672 too")
    ]
    ports = [{"port": 5672}, {"port": 5673}, {"port": 5673}, {"port": 15672}]
    assert problems_of(listeners=ports) == [
        ("listeners.0.port", "Input should differ from listener.port, which is 5672 too"),
        ("listeners.2.port", "Input should differ from listeners[1].port, which is 5673 too"),
        ("management.port", "Input should differ from listeners[3].port, which is 15672 too"),
    ]


@pytest.mark.parametrize(
    ("bind", "other", "meet"),
    [
        ("0.0.0.0", "127.0.0.1", True),
        ("0.0.0.0", "broker.example", True),
        ("0.0.0.0", "::1", False),
        ("0.0.0.0", "::", False),
        ("::", "::1", True),
        ("::", "localhost", True),
        ("::", "10.0.0.1", False),
        ("localhost", "127.0.0.1", True),
        ("localhost", "::1", True),
        ("localhost", "10.0.0.1", False),
        ("127.0.0.1", "127.0.0.2", False),
        ("::1", "127.0.0.1", False),
    ],
)
def test_an_equal_port_is_refused_where_the_addresses_meet(
    bind: str, other: str, meet: bool
) -> None:
    for one, two in ((bind, other), (other, bind)):
        values = {
            "listener": {"bind": one, "port": 80},
            "listeners": [{"bind": two, "port": 80}],
        }
        if meet:
            ((place, _),) = problems_of(**values)
            assert place == "listeners.0.port"
        else:
            assert Settings.model_validate(values).listeners[0].port == 80


@pytest.mark.parametrize(
    ("listener", "management"),
    [
        (Listener(port=0), Management(port=0)),
        (Listener(port=80), Management(port=80, enabled=False)),
        (Listener(port=80, bind="10.0.0.1"), Management(port=80)),
    ],
)
def test_ports_that_do_not_meet_may_be_equal(listener: Listener, management: Management) -> None:
    settings = Settings(listener=listener, management=management)
    assert settings.listener.port == settings.management.port


def test_the_port_for_metrics_is_one_of_those_that_must_differ() -> None:
    ((place, text),) = problems_of(metrics={"listener": True, "port": 15672})
    assert place == "metrics.port"
    assert "management.port" in text
    settings = Settings.model_validate({"metrics": {"port": 15672}})  # and no listener
    assert not settings.metrics.listener


def test_events_are_published_in_a_virtual_host_that_is_listed() -> None:
    assert problems_of(events={"vhost": "nowhere"}) == [
        ("events.vhost", "no virtual host 'nowhere' is listed")
    ]
    assert Settings.model_validate({"events": {"vhost": "/"}}).events.vhost == "/"


def test_anonymous_needs_its_user() -> None:
    auth = {"mechanisms": ["PLAIN", "ANONYMOUS"]}
    ((place, message),) = problems_of(auth=auth)
    assert (place, "'ANONYMOUS'" in message) == ("auth.anonymous_user", True)
    Settings.model_validate({"auth": {**auth, "anonymous_user": "visitor"}})
