"""One message is one line, for people or for programs, and its event names code and fields."""

from __future__ import annotations

import io
import json
import logging
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from hareline import events, logs


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)


def _json_lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_has_code_text_and_fields() -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream)
    logs.get_logger("x").info(events.BROKER_LISTENING, url="amqp://127.0.0.1:5672")
    (entry,) = _json_lines(stream)
    assert list(entry)[:4] == ["timestamp", "level", "code", "event"]
    assert entry["level"] == "info"
    assert entry["code"] == "BRK-1002"
    assert entry["event"] == "listening on amqp://127.0.0.1:5672"
    assert entry["url"] == "amqp://127.0.0.1:5672"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", entry["timestamp"])


def test_people_get_one_line_with_code_and_fields() -> None:
    stream = io.StringIO()
    logs.configure("info", "console", stream)
    logs.get_logger("x").info(events.CONNECTION_OPENED, peer="[::1]:4", user="ann", vhost="/")
    (line,) = stream.getvalue().splitlines()
    assert "CON-1001 connection opened" in line
    assert "user=ann" in line
    assert "\x1b" not in line


def test_people_are_told_each_field_once() -> None:
    stream = io.StringIO()
    logs.configure("info", "console", stream)
    log = logs.get_logger("x")
    log.info(events.CONNECTION_LOST, peer="127.0.0.1:4", reason="reset", name=None)
    log.info(events.RECOVERY_STARTED, directory="/srv/mq")
    lost, started = stream.getvalue().splitlines()
    assert re.search(r"CON-1004 connection lost: reset +peer=127\.0\.0\.1:4$", lost)
    assert re.search(r"JRN-1001 recovering from /srv/mq *$", started)


def test_programs_get_every_field_whatever_the_text_says() -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream)
    logs.get_logger("x").info(events.CONNECTION_LOST, peer="p", reason="reset", name=None)
    (entry,) = _json_lines(stream)
    assert (entry["reason"], entry["name"]) == ("reset", None)
    assert not [key for key in entry if key.startswith("hareline")]


@pytest.mark.parametrize(("stream", "is_json"), [(io.StringIO(), True), (Terminal(), False)])
def test_auto_means_people_on_a_terminal_and_json_elsewhere(
    stream: io.StringIO, is_json: bool
) -> None:
    logs.configure("info", "auto", stream)
    logs.get_logger("x").info(events.BROKER_STOPPED)
    assert stream.getvalue().startswith("{") is is_json
    assert "BRK-1005" in stream.getvalue()


@pytest.mark.parametrize("line_format", ["console", "json"])
def test_what_a_peer_chose_cannot_break_the_line_or_reach_the_terminal(
    line_format: logs.Format,
) -> None:
    stream = io.StringIO()
    logs.configure("info", line_format, stream)
    user = "ann\r\n2026-01-01 forged\x1b[2J\x9b31m\u2028\u202e\x00"
    logs.get_logger("x").info(events.CONNECTION_OPENED, peer="p", user=user, vhost="/")
    text = stream.getvalue()
    assert text.endswith("\n")
    assert not set(text[:-1]) & set("\r\n\x1b\x9b\u2028\u202e\x00")
    assert "forged" in text


def test_the_level_filters_and_can_be_changed_at_once() -> None:
    stream = io.StringIO()
    logs.configure("warning", "json", stream)
    log = logs.get_logger("x")
    log.info("too little")
    log.warning("enough")
    logs.set_level("debug")
    log.debug("everything")
    assert [entry["event"] for entry in _json_lines(stream)] == ["enough", "everything"]


def test_what_libraries_log_takes_the_same_way() -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream)
    logging.getLogger("asyncio").warning("slow %s", "callback")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("soon gone", DeprecationWarning, stacklevel=1)
    slow, gone = _json_lines(stream)
    assert (slow["event"], slow["logger"], slow["level"]) == ("slow callback", "asyncio", "warning")
    assert gone["logger"] == "py.warnings"
    assert "soon gone" in gone["event"]


def test_the_http_library_is_heard_from_warnings_on_only() -> None:
    stream = io.StringIO()
    logs.configure("debug", "json", stream)
    logging.getLogger("uvicorn.error").info("Started server process")
    logging.getLogger("uvicorn.error").warning("port taken")
    assert [entry["event"] for entry in _json_lines(stream)] == ["port taken"]


@pytest.mark.parametrize("line_format", ["console", "json"])
def test_a_bug_is_logged_with_its_traceback_and_without_local_values(
    line_format: logs.Format,
) -> None:
    stream = io.StringIO()
    logs.configure("info", line_format, stream)
    secret = "s3" + "cret"
    try:
        raise LookupError(str(len(secret)))
    except LookupError:
        logs.get_logger("x").exception(events.BROKER_FAILED, where="test")
    text = stream.getvalue()
    assert "Traceback (most recent call last)" in text
    assert "BRK-1007" in text
    assert "s3cret" not in text


def test_configuring_again_replaces_the_first_set_up() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.configure("info", "json", first)
    log = logs.get_logger("x")
    logs.configure("info", "json", second)
    log.info("where?")
    assert first.getvalue() == ""
    assert len(_json_lines(second)) == 1


def test_a_forgotten_field_does_not_cost_the_message() -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream)
    logs.get_logger("x").info(events.BROKER_LISTENING)
    assert _json_lines(stream)[0]["event"] == "listening on ?"


def test_without_a_set_up_records_are_the_embedding_program_s(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level("INFO"):
        logs.get_logger("hareline.x").info(events.BROKER_LISTENING, url="amqp://h:1", name="n")
    assert caplog.messages == ["listening on amqp://h:1"]
    logging.getLogger().handlers[:] = []
    logs.get_logger("hareline.x").error(events.BROKER_LISTENING, url="amqp://h:1")
    assert capfd.readouterr() == ("", "")
