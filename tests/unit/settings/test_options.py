"""All options together: their defaults, and what changed between two readings."""

from __future__ import annotations

import pytest

from hareline.settings import (
    FurtherListener,
    Listener,
    Log,
    Settings,
    User,
    VirtualHost,
    changed_options,
    leaf_options,
    reload_of,
    restart_options,
    value_of,
)
from tests.support.settings import GOOD_USER, problems_of


def test_defaults_are_a_broker_on_loopback_with_one_user() -> None:
    settings = Settings()
    assert settings.listener.bind == settings.management.bind == "127.0.0.1"
    assert [vhost.name for vhost in settings.vhosts] == ["/"]
    (guest,) = settings.users
    assert guest.password is not None
    assert (guest.name, guest.password.get_secret_value()) == ("guest", "guest")
    assert settings.auth.loopback_users == ("guest",)


def test_every_option_has_a_description_and_says_how_it_is_changed() -> None:
    options = dict(leaf_options())
    assert len(options) > 20
    for name, field in options.items():
        assert field.description, name
        assert field.description.endswith("."), name
        assert reload_of(field) in {"live", "restart"}, name


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("listener", "port", -1),
        ("listener", "port", 65536),
        ("listener", "bind", ""),
        ("listener", "backlog", 0),
        ("limits", "frame_max_bytes", 0),
        ("limits", "frame_max_bytes", 4095),
        ("limits", "channel_max", 0),
        ("limits", "channel_max", 65536),
        ("limits", "heartbeat_s", -1),
        ("limits", "handshake_timeout_s", 0),
        ("limits", "handshake_timeout_s", float("nan")),
        ("limits", "max_message_bytes", 536_870_913),
        ("identity", "version", "4"),
        ("identity", "product", "x" * 256),
        ("auth", "mechanisms", []),
        ("auth", "mechanisms", ["PLAIN", "PLAIN"]),
        ("auth", "mechanisms", ["EXTERNAL"]),
        ("auth", "failure_delay_s", 61),
        ("memory", "check_interval_s", 0),
        ("shutdown", "deadline_s", -1),
        ("log", "level", "loud"),
    ],
)
def test_a_value_out_of_bounds_is_refused_at_its_option(
    section: str, key: str, value: object
) -> None:
    places = [place for place, _ in problems_of(**{section: {key: value}})]
    assert places in ([f"{section}.{key}"], [f"{section}.{key}.0"])


def test_the_default_user_may_use_every_virtual_host_that_is_listed() -> None:
    settings = Settings(vhosts=(VirtualHost(name="a"), VirtualHost(name="b")))
    (guest,) = settings.users
    assert [permission.vhost for permission in guest.permissions] == ["a", "b"]


def test_a_further_listener_comes_and_goes_by_a_restart() -> None:
    more = Settings(listeners=(FurtherListener(port=5673),))
    assert changed_options(Settings(), more) == ["listeners"]
    assert restart_options(more, Settings()) == ["listeners"]


def test_nothing_changed_between_equal_settings() -> None:
    assert changed_options(Settings(), Settings()) == []
    assert restart_options(Settings(), Settings()) == []


def test_what_changed_is_named_in_the_order_of_the_file() -> None:
    new = Settings(
        log=Log(level="debug"),
        listener=Listener(port=1),
        users=(User.model_validate(GOOD_USER),),
    )
    assert changed_options(Settings(), new) == ["listener.port", "log.level", "users"]
    assert restart_options(Settings(), new) == ["listener.port"]


def test_a_password_that_changed_is_a_change() -> None:
    old = Settings.model_validate({"users": [GOOD_USER]})
    new = Settings.model_validate({"users": [{**GOOD_USER, "password": "other"}]})
    assert changed_options(old, new) == ["users"]


def test_a_virtual_host_is_added_live_and_removed_by_a_restart() -> None:
    one = Settings(vhosts=(VirtualHost(name="a"),))
    two = Settings(vhosts=(VirtualHost(name="a"), VirtualHost(name="b")))
    assert restart_options(one, two) == []
    assert restart_options(two, one) == ["vhosts: b"]


def test_options_of_a_virtual_host_that_wait_for_a_restart_are_named() -> None:
    old = Settings(vhosts=(VirtualHost(name="a"), VirtualHost(name="b")))
    audited = VirtualHost(name="b", audit="all", audit_max_age="1D", max_queues=7)
    new = Settings(vhosts=(VirtualHost(name="a", max_queues=7), audited))
    assert restart_options(old, new) == ["vhosts: b.audit", "vhosts: b.audit_max_age"]


def test_a_value_is_found_by_its_name() -> None:
    assert value_of(Settings(), "listener.port") == 5672
    assert value_of(Settings(), "vhosts") == Settings().vhosts
