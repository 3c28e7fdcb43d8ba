"""What changed, kept over a restart and a kill, by real clients."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.http_api import HttpApi
from tests.support.waiting import wait_for

pika = pytest.importorskip("pika", reason="pika (PyPI) is not installed")

DEADLINE_S: Final = 60.0


def changes(broker: BrokerProcess) -> list[dict[str, Any]]:
    """All that is kept, the oldest first."""
    api = HttpApi(f"http://127.0.0.1:{broker.management_port}")
    items: list[dict[str, Any]] = api.get("/api/hareline/changes?limit=500")["items"]
    return items[::-1]


def names(broker: BrokerProcess) -> list[tuple[str, Any]]:
    return [(each["event"], each["details"].get("name")) for each in changes(broker)]


@pytest.mark.acceptance
@pytest.mark.parametrize("is_killed", [False, True])
def test_changes_are_there_after_a_restart(start_daemon: StartDaemon, is_killed: bool) -> None:
    broker = start_daemon()
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("kept", durable=True)
        channel.queue_declare("passing")
    file = broker.data_dir / "changes.jsonl"
    wait_for(lambda: file.exists() and b'"kept"' in file.read_bytes(), DEADLINE_S, "the write")
    before = changes(broker)
    if is_killed:
        broker.restart_by_kill()
    else:
        broker.restart()
    after = changes(broker)
    assert after[: len(before)] == before
    assert [each["event"] for each in after[len(before) :]] == ["broker.started"]
    assert names(broker)[:2] == [("broker.started", None), ("queue.created", "kept")]
    assert after[1]["by"]["user"] == "guest"
    assert after[-1]["number"] == len(after)


@pytest.mark.acceptance
def test_a_reload_is_a_change(start_daemon: StartDaemon) -> None:
    broker = start_daemon('[log]\nlevel = "info"\n')
    broker.reload('[log]\nlevel = "debug"\n')
    wait_for(lambda: ("settings.changed", None) in names(broker), DEADLINE_S, "the change")
    [change] = [each for each in changes(broker) if each["event"] == "settings.changed"]
    assert change["by"] == {"via": "settings", "user": None, "address": None}
