"""How log lines are written: structlog set up once, for people or for programs.

The CLI calls ``configure`` before anything is logged; whoever logs asks ``get_logger`` for a logger
and names an event of ``hareline.events``. What libraries log through the standard ``logging``
module takes the same way out. Invariants: one log message is one line, whatever a peer put into
its fields, but for the traceback of a bug; the path of a message through the broker logs nothing.
"""

from __future__ import annotations

import logging
import sys
from typing import Final, Literal, Protocol, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from hareline.events import Event

Format = Literal["auto", "console", "json"]

_LEADING_KEYS: Final = ("timestamp", "level", "code", "event")

# A terminal acts upon these, and a line break would let a client write a line of its own.
_CONTROL_CHARACTERS: Final = {
    code: repr(chr(code))[1:-1]
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F))
}


class Logger(Protocol):
    """What one logs with: an event of ``hareline.events`` (or, while debugging, a text)."""

    def debug(self, event: Event | str, /, **fields: object) -> None: ...

    def info(self, event: Event | str, /, **fields: object) -> None: ...

    def warning(self, event: Event | str, /, **fields: object) -> None: ...

    def error(self, event: Event | str, /, **fields: object) -> None: ...

    def exception(self, event: Event | str, /, **fields: object) -> None: ...


def configure(level: str, line_format: Format, stream: TextIO | None = None) -> None:
    """Send everything that is logged to ``stream`` (standard error by default).

    ``level`` is the least severity, as in the option log.level; ``line_format`` "auto" writes for
    people when the stream is a terminal and JSON otherwise. Calling it again replaces the set-up.
    """
    output = sys.stderr if stream is None else stream
    is_for_people = line_format == "console" or (line_format == "auto" and output.isatty())
    stamp = "%Y-%m-%d %H:%M:%S" if is_for_people else "iso"
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt=stamp, utc=not is_for_people),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            _spell_event,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        # A cached logger would keep the set-up it was made under.
        cache_logger_on_first_use=False,
    )
    last_steps = _for_people(output.isatty()) if is_for_people else _for_programs()
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last_steps],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    logging.captureWarnings(capture=True)
    # Its start and stop are told by events of ours.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    set_level(level)


def set_level(level: str) -> None:
    """Change the least severity that is written; takes effect at once."""
    logging.getLogger().setLevel(level.upper())


def get_logger(name: str) -> Logger:
    """The logger of a module: ``log = get_logger(__name__)``."""
    return cast("Logger", structlog.stdlib.get_logger(name))


class _Fields(dict[str, object]):
    """Fields of a message; one that a caller forgot must not cost us the message."""

    def __missing__(self, key: str) -> str:
        return "?"


def _spell_event(_logger: WrappedLogger, _method: str, entry: EventDict) -> EventDict:
    """An `Event` becomes its code and its text with the fields filled in."""
    event = entry["event"]
    if isinstance(event, Event):
        entry["code"] = event.code
        entry["event"] = event.text.format_map(_Fields(entry))
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
