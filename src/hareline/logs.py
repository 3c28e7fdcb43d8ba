"""Format of log lines: readable lines for a console, or JSON.

Modules ask ``get_logger`` for a logger and log an event of ``hareline.events``. Records go
through the standard ``logging`` module, like those of libraries; the CLI calls ``configure`` so
that structlog writes all of them. Without that call, as in a test suite that embeds a broker,
they go wherever that program sends its own. Invariants: one log message is one line, whatever a
peer put into its fields, except the traceback of a bug; the path of a message logs nothing.
Readable lines have each field once: a field that the text quotes is not repeated after it.
"""

from __future__ import annotations

import logging
import sys
from string import Formatter
from typing import Final, Literal, Protocol, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from hareline.events import Event

Format = Literal["auto", "console", "json"]

# Under one name, because the fields' own names may be those of a record.
_RECORD_ATTRIBUTE: Final = "hareline_fields"
_EVENT_ATTRIBUTE: Final = "hareline_event"
_LEADING_KEYS: Final = ("timestamp", "level", "code", "event")

# A terminal acts upon these, and a line break would let a client forge a line.
_CONTROL_CHARACTERS: Final = {
    code: repr(chr(code))[1:-1]
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F))
}


# Inside another program (`hareline.testing`) that program decides whether records are shown.
logging.getLogger("hareline").addHandler(logging.NullHandler())


class Logger(Protocol):
    """A logger for events of ``hareline.events`` (or, while debugging, for texts)."""

    def debug(self, event: Event | str, /, **fields: object) -> None: ...

    def info(self, event: Event | str, /, **fields: object) -> None: ...

    def warning(self, event: Event | str, /, **fields: object) -> None: ...

    def error(self, event: Event | str, /, **fields: object) -> None: ...

    def exception(self, event: Event | str, /, **fields: object) -> None: ...


def configure(level: str, line_format: Format, stream: TextIO | None = None) -> None:
    """Send everything that is logged to ``stream`` (standard error by default).

    ``level`` is the least severity, as in the option log.level; ``line_format`` "auto" writes
    readable lines when the stream is a terminal, otherwise JSON. A second call replaces the set-up.
    """
    output = sys.stderr if stream is None else stream
    is_for_people = line_format == "console" or (line_format == "auto" and output.isatty())
    stamp = "%Y-%m-%d %H:%M:%S" if is_for_people else "iso"
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                _take_fields,
                *([_leave_out_what_the_text_says] if is_for_people else []),
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.TimeStamper(fmt=stamp, utc=not is_for_people),
                *(_for_people(output.isatty()) if is_for_people else _for_programs()),
            ],
        )
    )
    logging.getLogger().handlers[:] = [handler]
    logging.captureWarnings(capture=True)
    # Events of Hareline report its start and stop.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    set_level(level)


def set_level(level: str) -> None:
    """Change the least severity that is written; takes effect at once."""
    logging.getLogger().setLevel(level.upper())


def get_logger(name: str) -> Logger:
    """The logger of a module: ``log = get_logger(__name__)``."""
    logger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.stdlib.filter_by_level, _to_record],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return cast("Logger", logger)


class _Fields(dict[str, object]):
    """Fields of a message, with a placeholder for one that a caller forgot."""

    def __missing__(self, key: str) -> str:
        return "?"


def _to_record(
    _logger: WrappedLogger, _method: str, entry: EventDict
) -> tuple[tuple[str], dict[str, object]]:
    """The arguments for `logging`: the text as its message, code and fields beside it."""
    event = entry.pop("event")
    exc_info = entry.pop("exc_info", None)
    text = event
    if isinstance(event, Event):
        entry["code"] = event.code
        text = event.text.format_map(_Fields(entry))
    extra = {_RECORD_ATTRIBUTE: entry, _EVENT_ATTRIBUTE: event}
    return (text,), {"exc_info": exc_info, "extra": extra}


def _leave_out_what_the_text_says(
    _logger: WrappedLogger, _method: str, entry: EventDict
) -> EventDict:
    """Fields that the text quotes, and those without a value."""
    event = getattr(entry["_record"], _EVENT_ATTRIBUTE, None)
    quoted: set[str | None] = set()
    if isinstance(event, Event):
        quoted = {name for _, name, _, _ in Formatter().parse(event.text)}
    return {key: value for key, value in entry.items() if key not in quoted and value is not None}


def _take_fields(_logger: WrappedLogger, _method: str, entry: EventDict) -> EventDict:
    """Level and fields of a record of Hareline's, level and logger of any other record."""
    record: logging.LogRecord = entry["_record"]
    entry["level"] = record.levelname.lower()
    fields = getattr(record, _RECORD_ATTRIBUTE, None)
    if fields is None:
        entry["logger"] = record.name
    else:
        entry.update(fields)
    return entry


def _for_people(in_colour: bool) -> list[Processor]:
    return [
        _escape_control_characters,
        _put_code_first,
        structlog.dev.ConsoleRenderer(
            colors=in_colour, exception_formatter=structlog.dev.plain_traceback, sort_keys=False
        ),
    ]


def _for_programs() -> list[Processor]:
    return [
        structlog.processors.format_exc_info,
        _put_leading_keys_first,
        structlog.processors.JSONRenderer(),
    ]


def _escape_control_characters(_logger: WrappedLogger, _method: str, entry: EventDict) -> EventDict:
    for key, value in entry.items():
        if isinstance(value, str):
            entry[key] = value.translate(_CONTROL_CHARACTERS)
    return entry


def _put_code_first(_logger: WrappedLogger, _method: str, entry: EventDict) -> EventDict:
    code = entry.pop("code", None)
    if code is not None:
        entry["event"] = f"{code} {entry['event']}"
    return entry


def _put_leading_keys_first(_logger: WrappedLogger, _method: str, entry: EventDict) -> EventDict:
    first = {key: entry.pop(key) for key in _LEADING_KEYS if key in entry}
    return {**first, **entry}
