"""How text and numbers of a file become sizes, shares, names and patterns, or are refused."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hareline.settings import Disk, Identity, Listener, Memory, Settings
from tests.support.settings import (
    GOOD_USER,
    HASHED_USER,
    SCRAM_KEY,
    SCRAM_KEYS,
    SCRAM_SALT,
    problems_of,
)


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


def test_sizes_may_have_units_and_become_plain_numbers() -> None:
    limits = Settings.model_validate({"limits": {"frame_max_bytes": "64KiB"}}).limits
    assert limits.frame_max_bytes == 65536
    assert type(limits.frame_max_bytes) is int


@pytest.mark.parametrize("pattern", ["(", "^(a|aa)+b$"])
@pytest.mark.parametrize("key", ["configure", "write", "read"])
def test_a_pattern_that_is_invalid_or_slow_is_refused(key: str, pattern: str) -> None:
    user = {**GOOD_USER, "permissions": [{"vhost": "/", key: pattern}]}
    ((place, message),) = problems_of(users=[user])
    assert place == f"users.0.permissions.0.{key}"
    assert "regular expression" in message


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
    assert problems_of(users=[{**HASHED_USER, "scram": keys}]) == [("users.0.scram", message)]


@pytest.mark.parametrize("given", ["", "qpid", "RabbitMQ (Qpid)"])
def test_the_product_for_qpid_s_client_has_its_name_in_it_or_is_empty(given: str) -> None:
    assert Identity(qpid_product=given).qpid_product == given
    assert "qpid" in Identity().qpid_product
    assert problems_of(identity={"qpid_product": "RabbitMQ"}) == [
        ("identity.qpid_product", "Input should contain 'qpid', or be empty")
    ]


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
    assert problems_of(**{table: {key: given}}) == [(f"{table}.{key}", f"Input should be {forms}")]


def test_an_infinite_watermark_is_refused() -> None:
    ((place, _),) = problems_of(memory={"watermark": "inf"})
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
        ((place, message),) = problems_of(**{table: {"bind": bind}})
        assert place == f"{table}.bind"
        assert "IP address or a host name" in message
