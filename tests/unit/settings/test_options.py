"""Settings that exist are usable: whatever does not fit together is refused, at its own place."""

from __future__ import annotations

import base64
import hashlib
import socket
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hareline.settings import (
    Disk,
    FurtherListener,
    Identity,
    Listener,
    Log,
    Management,
    Memory,
    Settings,
    User,
    VirtualHost,
    changed_options,
    leaf_options,
    reload_of,
    restart_options,
    value_of,
)

GOOD_USER: dict[str, Any] = {"name": "ann", "password": "secret"}


def _problems(**values: Any) -> list[tuple[str, str]]:
    """Where and what, for settings that must be refused."""
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(values)
    return [
        (".".join(map(str, detail["loc"])), detail["msg"])
        for detail in caught.value.errors(include_url=False)
        # Follows from another error, and sources drops it too.
        if detail["type"] != "default_factory_not_called"
    ]


def _hash(digest_octets: int) -> str:
    return base64.b64encode(b"s" * (4 + digest_octets)).decode()


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


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().listener.port = 1


def test_a_password_is_not_shown() -> None:
    user = User(name="ann", password="s3cret")  # type: ignore[arg-type]
    hashed = User(name="bob", password_hash=_hash(32))
    assert "s3cret" not in f"{user!r} {user}"
    assert _hash(32) not in f"{hashed!r} {hashed}"


def test_the_home_directory_and_the_host_name_are_filled_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setattr(socket, "gethostname", lambda: "hare.example.com")
    assert Settings().data_dir == Path("/home/ann/.local/state/hareline")
    assert Identity().cluster_name == "hareline@hare"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (0.4, 0.4),
        (1, 1.0),
        ("0.4", 0.4),
        (2, 2),
        ("4GiB", 4 * 1024**3),
        ("1.5 MB", 1_500_000),
        (1e9, 1_000_000_000),
    ],
)
def test_a_watermark_is_a_share_or_an_amount(given: object, kept: float) -> None:
    watermark = Memory.model_validate({"watermark": given}).watermark
    assert watermark == kept
    assert type(watermark) is type(kept)


@pytest.mark.parametrize("given", [0, -1, 1.5, True, "many", "5 parsecs", [], None, "nan"])
def test_a_watermark_that_is_neither_is_refused(given: object) -> None:
    with pytest.raises(ValidationError):
        Memory.model_validate({"watermark": given})


def test_a_share_of_memory_is_taken_of_what_there_is() -> None:
    assert Memory(watermark=0.25).watermark_bytes(1000) == 250
    assert Memory(watermark=700).watermark_bytes(1000) == 700


def test_sizes_may_have_units_and_become_plain_numbers() -> None:
    limits = Settings.model_validate({"limits": {"frame_max_bytes": "64KiB"}}).limits
    assert limits.frame_max_bytes == 65536
    assert type(limits.frame_max_bytes) is int


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
    places = [place for place, _ in _problems(**{section: {key: value}})]
    assert places in ([f"{section}.{key}"], [f"{section}.{key}.0"])


def test_limits_hold_at_their_edges() -> None:
    limits = {"frame_max_bytes": 4096, "channel_max": 65535, "max_message_bytes": 536_870_912}
    settings = Settings.model_validate({"limits": limits, "listener": {"port": 65535}})
    assert settings.limits.frame_max_bytes == 4096
    assert settings.limits.channel_max == 65535


def test_two_entries_of_one_name_are_refused() -> None:
    vhosts = [{"name": "/"}, {"name": "a"}, {"name": "a"}]
    assert _problems(vhosts=vhosts, users=[GOOD_USER, GOOD_USER]) == [
        ("vhosts.2.name", "'a' is already the name of another entry"),
        ("users.1.name", "'ann' is already the name of another entry"),
    ]


def test_a_permission_names_a_virtual_host_that_is_listed_and_only_once() -> None:
    user = {**GOOD_USER, "permissions": [{"vhost": "/"}, {"vhost": "x"}, {"vhost": "/"}]}
    assert _problems(users=[user]) == [
        ("users.0.permissions.1.vhost", "no virtual host 'x' is listed"),
        ("users.0.permissions.2.vhost", "'/' already has an entry"),
    ]


@pytest.mark.parametrize("key", ["configure", "write", "read"])
def test_a_pattern_that_does_not_compile_is_refused(key: str) -> None:
    user = {**GOOD_USER, "permissions": [{"vhost": "/", key: "("}]}
    ((place, message),) = _problems(users=[user])
    assert place == f"users.0.permissions.0.{key}"
    assert "regular expression" in message


@pytest.mark.parametrize(
    "credentials", [{}, {"password": "x", "password_hash": _hash(32)}, {"password": ""}]
)
def test_a_user_proves_itself_in_exactly_one_way(credentials: dict[str, str]) -> None:
    ((place, message),) = _problems(users=[{"name": "ann", **credentials}])
    assert place.startswith("users.0")
    assert "assword" in message


@pytest.mark.parametrize("hashing", ["sha256", "sha512", "md5"])
def test_a_hash_has_the_length_of_its_digest(hashing: str) -> None:
    octets = hashlib.new(hashing).digest_size
    user = {"name": "ann", "hashing": hashing}
    accepted = Settings.model_validate({"users": [{**user, "password_hash": _hash(octets)}]})
    assert accepted.users[0].password_hash == _hash(octets)
    for wrong in (_hash(octets + 1), _hash(octets)[:-1] + "!"):
        ((place, _),) = _problems(users=[{**user, "password_hash": wrong}])
        assert place == "users.0.password_hash"


SCRAM_SALT = base64.b64encode(b"s" * 16).decode()
SCRAM_KEY = base64.b64encode(b"k" * 32).decode()
SCRAM_KEYS = f"SCRAM-SHA-256$4096:{SCRAM_SALT}${SCRAM_KEY}:{SCRAM_KEY}"
HASHED_USER: dict[str, Any] = {"name": "bob", "password_hash": _hash(32)}


@pytest.mark.parametrize(
    "keys", [SCRAM_KEYS, SCRAM_KEYS.replace("4096", "10000000"), SCRAM_KEYS.replace("4096", "8192")]
)
def test_scram_keys_stand_beside_a_hash_or_alone(keys: str) -> None:
    users = [{**HASHED_USER, "scram": keys}, {"name": "cleo", "scram": keys}]
    accepted = Settings.model_validate({"users": users})
    assert [user.scram for user in accepted.users] == [keys, keys]
    assert SCRAM_KEY not in repr(accepted.users)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("", "Input should read 'SCRAM-SHA-256$iterations:salt$stored key:server key'"),
        (
            SCRAM_KEYS.replace("256", "1"),
            "Input should read 'SCRAM-SHA-256$iterations:salt$stored key:server key'",
        ),
        (SCRAM_KEYS.replace("4096", "4095"), "iterations should be 4096 to 10000000"),
        (SCRAM_KEYS.replace("4096", "10000001"), "iterations should be 4096 to 10000000"),
        (SCRAM_KEYS.replace(SCRAM_SALT, "abc"), "salt and keys should be base64"),
        (SCRAM_KEYS.replace(SCRAM_SALT, "abcd"), "salt should have 8 to 64 octets"),
        (SCRAM_KEYS + "=", "salt and keys should be base64"),
        (SCRAM_KEYS.removesuffix(SCRAM_KEY) + "abcd", "both keys should have 32 octets"),
    ],
)
def test_scram_keys_that_cannot_be_right_are_refused(keys: str, message: str) -> None:
    assert _problems(users=[{**HASHED_USER, "scram": keys}]) == [("users.0.scram", message)]


def test_a_password_needs_no_scram_keys() -> None:
    assert _problems(users=[{**GOOD_USER, "scram": SCRAM_KEYS}]) == [
        ("users.0", "scram should not be given beside password, which it is made of")
    ]


def test_every_user_has_a_mechanism_to_log_in_by() -> None:
    keys_alone = {"name": "cleo", "scram": SCRAM_KEYS}
    only_scram = {"mechanisms": ["SCRAM-SHA-256"]}
    assert _problems(auth=only_scram, users=[GOOD_USER, HASHED_USER, keys_alone]) == [
        ("users.1.scram", "'bob' needs it: SCRAM-SHA-256 is the only mechanism")
    ]
    assert _problems(auth={"mechanisms": ["PLAIN"]}, users=[GOOD_USER, keys_alone]) == [
        ("users.1.password_hash", "'cleo' needs it: auth.mechanisms is without SCRAM-SHA-256")
    ]
    for other in (HASHED_USER, {"name": "bob", "password": "pässword"}):
        assert _problems(users=[keys_alone, other]) == [
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
    assert ("vhosts", "at least one virtual host should be listed") in _problems(vhosts=[])


def test_a_virtual_host_has_one_source_of_default_prefetches() -> None:
    for given in ({"default_prefetch": 5}, {"prefetch_profile": "activemq", "prefetch_max": 9}, {}):
        vhosts = Settings.model_validate({"vhosts": [{"name": "/", **given}]}).vhosts
        assert vhosts == (VirtualHost.model_validate({"name": "/", **given}),)
    both = {"name": "/", "prefetch_profile": "activemq", "default_prefetch": 5}
    assert _problems(vhosts=[both]) == [
        ("vhosts.0.default_prefetch", "Input should be 0 where prefetch_profile is 'activemq'")
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [("default_prefetch", -1), ("prefetch_max", -1), ("prefetch_profile", "artemis")],
)
def test_a_prefetch_out_of_bounds_is_refused(key: str, value: object) -> None:
    ((place, _),) = _problems(vhosts=[{"name": "/", key: value}])
    assert place == f"vhosts.0.{key}"


def test_the_default_user_may_use_every_virtual_host_that_is_listed() -> None:
    settings = Settings(vhosts=(VirtualHost(name="a"), VirtualHost(name="b")))
    (guest,) = settings.users
    assert [permission.vhost for permission in guest.permissions] == ["a", "b"]


def test_no_two_listeners_can_share_a_port() -> None:
    assert _problems(listener={"port": 15672}) == [
        ("management.port", "Input should differ from listener.port, which is 15672 too")
    ]
    ports = [{"port": 5672}, {"port": 5673}, {"port": 5673}, {"port": 15672}]
    assert _problems(listeners=ports) == [
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
            ((place, _),) = _problems(**values)
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


def test_further_listeners_are_on_loopback_and_name_no_product_unless_told() -> None:
    assert Settings().listeners == ()
    further = FurtherListener(port=0)
    assert (further.bind, further.product) == ("127.0.0.1", "")
    assert _problems(listeners=[{"bind": "127.0.0.1"}]) == [("listeners.0.port", "Field required")]
    for wrong in ({"port": 65536}, {"port": 1, "bind": ""}, {"port": 1, "product": "x" * 256}):
        ((place, _),) = _problems(listeners=[wrong])
        assert place.startswith("listeners.0.")


def test_a_further_listener_comes_and_goes_by_a_restart() -> None:
    more = Settings(listeners=(FurtherListener(port=5673),))
    assert changed_options(Settings(), more) == ["listeners"]
    assert restart_options(more, Settings()) == ["listeners"]


@pytest.mark.parametrize("given", ["", "qpid", "RabbitMQ (Qpid)"])
def test_the_product_for_qpid_s_client_has_its_name_in_it_or_is_empty(given: str) -> None:
    assert Identity(qpid_product=given).qpid_product == given
    assert "qpid" in Identity().qpid_product
    assert _problems(identity={"qpid_product": "RabbitMQ"}) == [
        ("identity.qpid_product", "Input should contain 'qpid', or be empty")
    ]


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


def test_a_value_is_found_by_its_name() -> None:
    assert value_of(Settings(), "listener.port") == 5672
    assert value_of(Settings(), "vhosts") == Settings().vhosts


@pytest.mark.parametrize(
    ("given", "kept"),
    [("auto", "auto"), (0.1, 0.1), ("0.1", 0.1), ("1GiB", 1024**3), (5000, 5000)],
)
def test_the_disk_s_watermark_is_auto_a_share_or_an_amount(given: object, kept: object) -> None:
    watermark = Disk.model_validate({"free_watermark": given}).free_watermark
    assert watermark == kept
    assert type(watermark) is type(kept)


@pytest.mark.parametrize("given", ["automatic", 0, -1, None, True])
def test_a_disk_s_watermark_that_is_none_of_these_is_refused(given: object) -> None:
    with pytest.raises(ValidationError):
        Disk.model_validate({"free_watermark": given})


def test_auto_is_a_share_of_the_disk_with_a_bound() -> None:
    assert Disk().watermark_bytes(10_000_000) == 200_000
    assert Disk().watermark_bytes(10**12) == 1024**3
    assert Disk(free_watermark=0.5).watermark_bytes(1000) == 500
    assert Disk(free_watermark=70).watermark_bytes(1000) == 70


def test_a_broker_keeps_what_is_durable_unless_told_otherwise() -> None:
    settings = Settings()
    assert settings.storage.kind == "journal"
    assert settings.journal.sync == "always"
    assert settings.journal.on_corruption == "fail"


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("storage", "kind", "disk"),
        ("journal", "sync", "sometimes"),
        ("journal", "on_corruption", "ignore"),
        ("journal", "segment_bytes", "1KiB"),
        ("journal", "sync_interval_ms", 0),
        ("journal", "retention_age_s", -1),
        ("memory", "spool_share", 1.5),
        ("limits", "large_message_bytes", 10),
    ],
)
def test_what_the_store_cannot_do_is_refused(table: str, key: str, value: object) -> None:
    ((place, _),) = _problems(**{table: {key: value}})
    assert place == f"{table}.{key}"


@pytest.mark.parametrize(("given", "share"), [("60%", 0.6), (" 2.5 % ", 0.025), ("100%", 1.0)])
def test_a_watermark_may_be_a_percentage(given: str, share: float) -> None:
    settings = Settings.model_validate(
        {"memory": {"watermark": given}, "disk": {"free_watermark": given}}
    )
    assert (settings.memory.watermark, settings.disk.free_watermark) == (share, share)


@pytest.mark.parametrize(
    ("table", "key", "forms"),
    [
        ("limits", "frame_max_bytes", 'bytes or a size such as "64KiB"'),
        ("memory", "watermark", 'a share such as 0.6 or "60%", bytes, or a size such as "4GiB"'),
        (
            "disk",
            "free_watermark",
            '"auto", a share such as 0.02 or "2%", bytes, or a size such as "1GiB"',
        ),
    ],
)
@pytest.mark.parametrize(
    "given", ["lots", "", "5 potatoes", "-1GiB", "70%%", "5%GiB", "200%", "16 MiB or so"]
)
def test_a_size_that_is_none_of_the_forms_is_answered_with_the_forms(
    table: str, key: str, forms: str, given: str
) -> None:
    assert _problems(**{table: {key: given}}) == [(f"{table}.{key}", f"Input should be {forms}")]


def test_an_infinite_watermark_is_refused() -> None:
    ((place, _),) = _problems(memory={"watermark": "inf"})
    assert place == "memory.watermark"


@pytest.mark.parametrize(
    "bind", ["127.0.0.1", "::", "fe80::1%eth0", "localhost", "mq-1.example.org", "a_b"]
)
def test_a_listener_has_an_address_or_a_host_name(bind: str) -> None:
    assert Listener(bind=bind).bind == bind


@pytest.mark.parametrize(
    "bind",
    ["", "*", "127.0.0.1:5672", "256.1.1.1", "10.0.0", "[::1]", "tcp://h", "a b", "10.0.0.0/8"],
)
def test_what_cannot_be_an_address_is_refused(bind: str) -> None:
    for table in ("listener", "management"):
        ((place, message),) = _problems(**{table: {"bind": bind}})
        assert place == f"{table}.bind"
        assert "IP address or a host name" in message
