"""The body of an import of definitions: JSON or a form with a file, read in shares of time.

Called by ``definitions``. A file has up to 20 MiB, for which a parser needs some hundred ms, and
holds the loop meanwhile. So the outermost object and its lists are read here, and the parser is
given one item after the other.

Invariant: what comes out is what ``json.loads`` would have made of it, or a ValueError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from typing import Any, Final

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_HEAD_MAX_BYTES: Final = 16_384  # of a part of a form
_BOUNDARY: Final = re.compile(r'boundary=(?:"([^"]{1,200})"|([^\s;"]{1,200}))', re.IGNORECASE)
_FILE: Final = re.compile(
    rb'\nContent-Disposition:[^\r\n]*;[ \t]*name=(?:"file"|file)(?=[;\s]|\Z)', re.IGNORECASE
)

Steps = Generator[None, None, object]


def definitions_in(octets: bytes, content_type: str) -> Steps:
    """The JSON of a body, which may be a form with a ``file``.

    Raises ValueError with a sentence for the client.
    """
    if content_type.lower().startswith("multipart/form-data"):
        octets = _file_in_form(content_type, octets)
    try:
        text = octets.decode(json.detect_encoding(octets))
        yield
        return (yield from _Reader(text).read()) if text else {}
    except _NotUnicodeError:
        raise ValueError("body: a text in it is not Unicode") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"definitions: not JSON: {error}") from None


class _NotUnicodeError(Exception):
    """A text has half a character (``\\ud800``), which no name can hold."""


class _Reader:
    """Reads one text; ``at`` is how far it is."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._decoder = json.JSONDecoder()

    def read(self) -> Steps:
        self._skip()
        found = (yield from self._object()) if self._next_is("{") else self._value()
        self._skip()
        if self._at < len(self._text):
            raise self._wrong("Extra data")
        return found

    def _object(self) -> Generator[None, None, dict[str, Any]]:
        """The outermost object, item by item of its lists."""
        found: dict[str, Any] = {}
        self._take("{", "an object")
        if self._next_is("}"):
            self._take("}", "")
            return found
        while True:
            if not self._next_is('"'):
                raise self._wrong("Expecting property name enclosed in double quotes")
            name = self._value()
            self._take(":", "':' delimiter")
            found[name] = (yield from self._list()) if self._next_is("[") else self._value()
            yield
            if self._next_is("}"):
                self._take("}", "")
                return found
            self._take(",", "',' delimiter")

    def _list(self) -> Generator[None, None, list[Any]]:
        items: list[Any] = []
        self._take("[", "")
        if self._next_is("]"):
            self._take("]", "")
            return items
        while True:
            items.append(self._value())
            yield
            if self._next_is("]"):
                self._take("]", "")
                return items
            self._take(",", "',' delimiter")

    def _value(self) -> Any:
        """The value that comes next. Raises ValueError, RecursionError and ``_NotUnicodeError``."""
        start = self._at
        value, self._at = self._decoder.raw_decode(self._text, start)
        if self._text.find("\\u", start, self._at) >= 0:
            try:
                json.dumps(value, ensure_ascii=False).encode()
            except UnicodeEncodeError:
                raise _NotUnicodeError from None
        self._skip()
        return value

    def _take(self, character: str, what: str) -> None:
        if not self._next_is(character):
            raise self._wrong(f"Expecting {what}")
        self._at += 1
        self._skip()

    def _next_is(self, character: str) -> bool:
        return self._text.startswith(character, self._at)

    def _skip(self) -> None:
        space = _SPACE.match(self._text, self._at)
        assert space is not None, "it may be empty"
        self._at = space.end()

    def _wrong(self, problem: str) -> json.JSONDecodeError:
        return json.JSONDecodeError(problem, self._text, self._at)


def _file_in_form(content_type: str, octets: bytes) -> bytes:
    """The part of a form that is called ``file``. Raises ValueError."""
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        raise ValueError("form: its Content-Type has no boundary")
    delimiter = b"\r\n--" + (boundary[1] or boundary[2]).encode("latin-1", "replace")
    octets = b"\r\n" + octets
    at = octets.find(delimiter)
    while at >= 0:
        start = at + len(delimiter)
        end = octets.find(delimiter, start)
        if end < 0:
            break
        head_end = octets.find(b"\r\n\r\n", start, min(end, start + _HEAD_MAX_BYTES))
        if head_end >= 0 and _FILE.search(octets, start, head_end):
            return octets[head_end + 4 : end]
        at = end
    raise ValueError("form: there is no part 'file'")
