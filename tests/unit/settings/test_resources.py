"""Options of memory and disk."""

from __future__ import annotations

import pytest

from hareline.settings import Disk, Memory, Settings
from tests.support.settings import problems_of


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
