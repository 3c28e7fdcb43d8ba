"""A broker as a process: its signals, its events, and what it sets for the whole process."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from hareline import events
from hareline.errors import ConfigurationError, StoreError
from hareline.events import Event
from hareline.server import daemon
from hareline.server.daemon import SWITCH_INTERVAL_S, serve
from hareline.settings import Settings


class FakeBroker:
    """Starts and stops at once, and remembers what it was asked for.

    ``on_start`` is called in ``start``, ``on_running`` by the loop right after it.
    """

    made: ClassVar[list[FakeBroker]] = []
    on_start: ClassVar[Callable[[FakeBroker], None]] = staticmethod(lambda _: None)
    on_running: ClassVar[Callable[[FakeBroker], None]] = staticmethod(lambda _: None)
    has_disk: ClassVar[bool] = False

    def __init__(self, settings: Settings, show_progress: object) -> None:
        self.settings = settings
        self.show_progress = show_progress
        self.context = SimpleNamespace(count_entries=lambda: 0, count_octets=lambda: 0)
        self.urls = ["amqp://h:1", "amqp://h:2"]
        self.http_urls: list[str] = []
        self.has_started = False
        self.reloaded: list[Settings] = []
        self.stopped_with: float | None = None
        self.switch_interval_s = 0.0
        FakeBroker.made.append(self)

    async def start(self) -> None:
        type(self).on_start(self)
        if self.has_disk:
            await asyncio.sleep(60)
        self.has_started = True
        asyncio.get_running_loop().call_soon(type(self).on_running, self)

    def reload(self, settings: Settings) -> None:
        self.reloaded.append(settings)
        send(signal.SIGTERM)

    async def stop(self, deadline_s: float) -> None:
        self.stopped_with = deadline_s
        self.switch_interval_s = sys.getswitchinterval()


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def _process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    interval_s = sys.getswitchinterval()
    monkeypatch.setattr(daemon, "Broker", FakeBroker)
    monkeypatch.setattr(daemon, "keep_freed_memory", lambda: True)
    monkeypatch.setattr(FakeBroker, "made", [])
    monkeypatch.setattr(FakeBroker, "on_running", staticmethod(lambda _: send(signal.SIGTERM)))
    yield
    sys.setswitchinterval(interval_s)
    gc.enable()


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Event, dict[str, object]]]:
    found: list[tuple[Event, dict[str, object]]] = []
    monkeypatch.setattr(daemon, "report", lambda event, **fields: found.append((event, fields)))
    return found


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.model_validate({"data_dir": str(tmp_path / "made" / "data")})


def never() -> Settings:
    raise AssertionError("the settings are not read again")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_and_says_so(
    number: signal.Signals,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    reported: list[tuple[Event, dict[str, object]]],
) -> None:
    monkeypatch.setattr(FakeBroker, "on_running", staticmethod(lambda _: send(number)))
    assert serve(settings, never) == 0
    (broker,) = FakeBroker.made
    assert broker.stopped_with == settings.shutdown.deadline_s
    assert [event.code for event, _ in reported] == [
        "BRK-1001",
        "BRK-1002",
        "BRK-1002",
        "BRK-1004",
        "BRK-1003",
        "BRK-1005",
    ]
    assert reported[4][1] == {"reason": number.name}
    assert stat.S_IMODE(settings.data_dir.stat().st_mode) & 0o007 == 0


def test_the_process_switches_threads_quickly_while_it_serves(settings: Settings) -> None:
    serve(settings, never)
    (broker,) = FakeBroker.made
    assert broker.switch_interval_s == pytest.approx(SWITCH_INTERVAL_S)


def test_a_signal_ends_a_start_that_still_reads_the_disk(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    reported: list[tuple[Event, dict[str, object]]],
) -> None:
    monkeypatch.setattr(FakeBroker, "has_disk", True)
    monkeypatch.setattr(FakeBroker, "on_start", staticmethod(lambda _: send(signal.SIGTERM)))
    assert serve(settings, never) == 0
    (broker,) = FakeBroker.made
    assert not broker.has_started
    assert broker.stopped_with is None
    assert [event.code for event, _ in reported] == ["BRK-1001", "BRK-1003", "BRK-1005"]


def test_an_error_of_the_start_is_raised(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: FakeBroker) -> None:
        raise StoreError("no such disk")

    monkeypatch.setattr(FakeBroker, "on_start", staticmethod(fail))
    with pytest.raises(StoreError, match="no such disk"):
        serve(settings, never)


@pytest.mark.parametrize("is_early", [False, True])
def test_sighup_reloads_as_soon_as_the_broker_has_started(
    is_early: bool, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "RELOAD_RETRY_S", 0.001)
    moment = "on_start" if is_early else "on_running"
    monkeypatch.setattr(FakeBroker, "on_running", staticmethod(lambda _: None))
    monkeypatch.setattr(FakeBroker, moment, staticmethod(lambda _: send(signal.SIGHUP)))
    renewed = Settings.model_validate({"limits": {"heartbeat_s": 1}})
    assert serve(settings, lambda: renewed) == 0
    (broker,) = FakeBroker.made
    assert broker.reloaded == [renewed]


def test_settings_that_cannot_be_used_are_reported_and_the_old_ones_stay(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    reported: list[tuple[Event, dict[str, object]]],
) -> None:
    def load() -> Settings:
        send(signal.SIGTERM)
        raise ConfigurationError(["a: wrong", "b: wrong"])

    monkeypatch.setattr(FakeBroker, "on_running", staticmethod(lambda _: send(signal.SIGHUP)))
    assert serve(settings, load) == 0
    (broker,) = FakeBroker.made
    assert broker.reloaded == []
    refused = [fields for event, fields in reported if event is events.CONFIGURATION_REFUSED]
    assert refused == [{"problem": "a: wrong"}, {"problem": "b: wrong"}]


@pytest.mark.parametrize(
    ("error", "is_reported"),
    [
        (LookupError("a bug"), True),
        (OSError(errno.ECONNRESET, "Connection reset by peer"), False),
        (OSError(errno.ENOSPC, "No space left on device"), True),
    ],
)
def test_an_error_that_no_callback_caught_is_reported_unless_a_peer_is_gone(
    error: Exception,
    is_reported: bool,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    reported: list[tuple[Event, dict[str, object]]],
) -> None:
    def run(_: FakeBroker) -> None:
        send(signal.SIGTERM)
        raise error

    monkeypatch.setattr(FakeBroker, "on_running", staticmethod(run))
    assert serve(settings, never) == 0
    failed = [fields for event, fields in reported if event is events.BROKER_FAILED]
    assert [fields["exc_info"] for fields in failed] == ([error] if is_reported else [])
