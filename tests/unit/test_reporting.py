"""How severe an event is when it becomes a log message."""

from __future__ import annotations

import logging

import pytest

from hareline import events
from hareline.events import Event
from hareline.reporting import report


@pytest.mark.parametrize(
    ("event", "severity"),
    [
        (events.STORE_FAILED, "ERROR"),
        (events.CONNECTION_LOST, "WARNING"),
        (events.CONNECTION_OPENED, "INFO"),
        (events.CONNECTION_UNUSED, "DEBUG"),
    ],
)
def test_an_event_is_logged_as_severe_as_it_is(
    caplog: pytest.LogCaptureFixture, event: Event, severity: str
) -> None:
    with caplog.at_level(logging.DEBUG, "hareline"):
        report(event, **dict.fromkeys(event.fields, "x"))
    (record,) = caplog.records
    assert record.levelname == severity
    assert record.message == event.text.format(**dict.fromkeys(event.fields, "x"))
    assert record.name == "hareline.server"
