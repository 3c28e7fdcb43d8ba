"""Tables of the settings: limits, resources, ports, virtual hosts."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hareline.settings import (
    Disk,
    FurtherListener,
    Identity,
    Limits,
    Memory,
    Settings,
    VirtualHost,
)
from hareline.settings.section import Section, option, reload_of
from tests.support.settings import problems_of

# ----------------------------------------------------------------------------------------- section


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().listener.port = 1


class Table(Section):
    """A table of two options."""

    first: int = option(1, "The first.", reload="live", ge=1)
    second: str = option("x", "The second.")


def test_a_key_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Table.model_validate({"third": 3})


def test_a_default_is_held_to_the_bounds() -> None:
    class Wrong(Section):
        first: int = option(0, "Out of its own bounds.", ge=1)

    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        Wrong()


def test_an_option_says_how_it_is_changed() -> None:
    fields = Table.model_fields
    assert [reload_of(field) for field in fields.values()] == ["live", "restart"]
    assert fields["first"].description == "The first."


# ------------------------------------------------------------------------------------------ limits


def test_limits_hold_at_their_edges() -> None:
    limits = {"frame_max_bytes": 4096, "channel_max": 65535, "max_message_bytes": 536_870_912}
    settings = Settings.model_validate({"limits": limits, "listener": {"port": 65535}})
    assert settings.limits.frame_max_bytes == 4096
    assert settings.limits.channel_max == 65535


def test_a_limit_is_a_whole_number_and_0_means_none() -> None:
    limits = [
        name for name in Limits.model_fields if name.startswith("max_") and "bytes" not in name
    ]
    assert len(limits) > 5
    for name in limits:
        Settings.model_validate({"limits": {name: 0}})
        ((place, _),) = problems_of(limits={name: -1})
        assert place == f"limits.{name}"


@pytest.mark.parametrize("name", sorted(Limits.model_fields))
def test_a_running_broker_takes_over_each_but_the_size_that_goes_to_disk(name: str) -> None:
    expected = "restart" if name == "large_message_bytes" else "live"
    assert reload_of(Limits.model_fields[name]) == expected


# --------------------------------------------------------------------------------------- resources


def test_a_share_of_memory_is_taken_of_what_there_is() -> None:
    assert Memory(watermark=0.25).watermark_bytes(1000) == 250
    assert Memory(watermark=700).watermark_bytes(1000) == 700


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
    ((place, _),) = problems_of(**{table: {key: value}})
    assert place == f"{table}.{key}"


# ----------------------------------------------------------------------------------------- network


def test_the_home_directory_and_the_host_name_are_filled_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setattr(socket, "gethostname", lambda: "hare.example.com")
    assert Settings().data_dir == Path("/home/ann/.local/state/hareline")
    assert Identity().cluster_name == "hareline@hare"


def test_further_listeners_are_on_loopback_and_name_no_product_unless_told() -> None:
    assert Settings().listeners == ()
    further = FurtherListener(port=0)
    assert (further.bind, further.product) == ("127.0.0.1", "")
    assert problems_of(listeners=[{"bind": "127.0.0.1"}]) == [
        ("listeners.0.port", "Field required")
    ]
    for wrong in ({"port": 65536}, {"port": 1, "bind": ""}, {"port": 1, "product": "x" * 256}):
        ((place, _),) = problems_of(listeners=[wrong])
        assert place.startswith("listeners.0.")


# -------------------------------------------------------------------------------------- front ends


@pytest.mark.parametrize("origin", ["https://shop.example", "http://[::1]:8080", "*", "app://x"])
def test_an_origin_is_taken(origin: str) -> None:
    settings = Settings.model_validate({"websocket": {"origins": [origin]}})
    assert settings.websocket.origins == (origin,)


@pytest.mark.parametrize("origin", ["shop.example", "https://shop.example/", "", "https://", "**"])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    ((place, message),) = problems_of(websocket={"origins": [origin]})
    assert place == "websocket.origins"
    assert "should be an origin such as" in message


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ({"listener": {"proxy_protocol_from": ["10.0.0.1/8"]}}, "listener.proxy_protocol_from"),
        ({"management": {"proxy_protocol_from": ["lb"]}}, "management.proxy_protocol_from"),
        ({"management": {"forwarded_by": [""]}}, "management.forwarded_by"),
        (
            {"listeners": [{"port": 1, "proxy_protocol_from": ["10.0.0"]}]},
            "listeners.0.proxy_protocol_from",
        ),
    ],
)
def test_what_is_no_network_is_refused(table: dict[str, Any], place: str) -> None:
    ((found, message),) = problems_of(**table)
    assert found == place
    assert "should be an address or a network such as 10.0.0.0/8" in message


# ------------------------------------------------------------------------------------------ vhosts


def test_a_virtual_host_has_one_source_of_default_prefetches() -> None:
    for given in ({"default_prefetch": 5}, {"prefetch_profile": "activemq", "prefetch_max": 9}, {}):
        vhosts = Settings.model_validate({"vhosts": [{"name": "/", **given}]}).vhosts
        assert vhosts == (VirtualHost.model_validate({"name": "/", **given}),)
    both = {"name": "/", "prefetch_profile": "activemq", "default_prefetch": 5}
    assert problems_of(vhosts=[both]) == [
        ("vhosts.0.default_prefetch", "Input should be 0 where prefetch_profile is 'activemq'")
    ]


def test_copies_of_dead_letters_need_an_exchange() -> None:
    both = {"default_dead_letter_exchange": "amq.dead", "dead_letter_copies": True}
    assert problems_of(vhosts=[{"name": "/", "dead_letter_copies": True}]) == [
        (
            "vhosts.0.dead_letter_copies",
            "Input should be false where default_dead_letter_exchange is empty",
        )
    ]
    (vhost,) = Settings.model_validate({"vhosts": [{"name": "/", **both}]}).vhosts
    assert vhost.dead_letter_copies


@pytest.mark.parametrize(
    ("key", "value"),
    [("default_prefetch", -1), ("prefetch_max", -1), ("prefetch_profile", "artemis")],
)
def test_a_prefetch_out_of_bounds_is_refused(key: str, value: object) -> None:
    ((place, _),) = problems_of(vhosts=[{"name": "/", key: value}])
    assert place == f"vhosts.0.{key}"


@pytest.mark.parametrize(
    ("text", "share"), [("off", 0.0), ("all", 1.0), ("sample:0.01", 0.01), ("sample:1", 1.0)]
)
def test_audit_is_a_share_of_messages(text: str, share: float) -> None:
    assert VirtualHost(name="/", audit=text).audit_share == share


@pytest.mark.parametrize(
    "text", ["on", "", "sample", "sample:0", "sample:0.0", "sample:1.5", "sample:-1", "sample:nan"]
)
def test_an_audit_that_says_no_share_is_refused(text: str) -> None:
    assert problems_of(vhosts=[{"name": "/", "audit": text}]) == [
        (
            "vhosts.0.audit",
            'Input should be "off", "all", or "sample:" and a share above 0, such as "sample:0.01"',
        )
    ]


def test_limits_of_the_audit_stream() -> None:
    vhost = VirtualHost.model_validate(
        {"name": "/", "audit_max_bytes": "10GiB", "audit_max_age": ""}
    )
    assert (vhost.audit_max_bytes, vhost.audit_max_age) == (10 << 30, "")
    for age in ("7", "0D", "7W", "D"):
        assert problems_of(vhosts=[{"name": "/", "audit_max_age": age}]) == [
            (
                "vhosts.0.audit_max_age",
                'Input should be a number above 0 and one of Y, M, D, h, m, s, such as "7D", '
                "or empty",
            )
        ]
    ((place, _),) = problems_of(vhosts=[{"name": "/", "audit_max_bytes": -1}])
    assert place == "vhosts.0.audit_max_bytes"
