"""Octets of messages as text: UTF-8 where they are that, base64 where they are not; sizes.

For everything that shows a message in JSON or writes it to a file, or a size to people: the HTTP
API, exported files, the command line, alarms. A ``str`` of the broker has surrogates for octets
that are not UTF-8, which strict readers of JSON refuse; ``readable`` has RabbitMQ's form of such a
text.

Invariant: what is text here is the same octets again by ``octets_of_base64`` or ``str.encode``, and
``restored(exact(text))`` is the text.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Final

#: What RabbitMQ writes in front of the base64 of octets that are not UTF-8.
NOT_UTF8: Final = "Not UTF-8, base64 is: "
_LINE_CHARACTERS: Final = 76  # after which RabbitMQ begins a new line of base64
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def in_units(count: float) -> str:
    """A number of octets for people: ``3.4 MiB``."""
    for unit in _UNITS:
        if abs(count) < 1024 or unit == _UNITS[-1]:
            return f"{count:.0f} B" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    raise AssertionError("the last unit takes any size")


def base64_of(octets: bytes) -> str:
    """The octets in base64."""
    return base64.b64encode(octets).decode("ascii")


def octets_of_base64(text: str) -> bytes:
    """The octets that a text in base64 stands for. Raises ValueError."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # binascii.Error is one, and text that is not ASCII raises another
        raise ValueError("not valid base64") from None


def text_or_base64(octets: bytes) -> tuple[str, bool]:
    """The octets as text, and False; in base64, and True, if they are not UTF-8."""
    try:
        return octets.decode(), False
    except UnicodeDecodeError:
        return base64_of(octets), True


def readable(text: str) -> str:
    """The text; in RabbitMQ's form, ``Not UTF-8, base64 is: ...``, if it is not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _armored(_octets(text))
    return text


def readable_octets(octets: bytes) -> str:
    """The octets as text; in RabbitMQ's form if they are not UTF-8."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return _armored(octets)


def exact(text: str) -> str:
    """``readable``, and for a text that begins as that form does too: ``restored`` undoes it."""
    return _armored(_octets(text)) if text.startswith(NOT_UTF8) else readable(text)


def restored(text: str) -> str:
    """The text that ``exact`` or RabbitMQ has written so; any other text as it is."""
    if not text.startswith(NOT_UTF8):
        return text
    try:
        octets = octets_of_base64(text.removeprefix(NOT_UTF8).replace("\n", ""))
    except ValueError:
        return text
    return octets.decode("utf-8", "surrogateescape")


def with_texts(value: object, change: Callable[[str], str]) -> object:
    """A value of JSON or of a field table with each text and each key changed; octets are texts."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return change(bytes(value).decode("utf-8", "surrogateescape"))
    if isinstance(value, Mapping):
        return {change(str(key)): with_texts(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [with_texts(each, change) for each in value]
    return value


def _armored(octets: bytes) -> str:
    text = base64_of(octets)
    starts = range(0, len(text), _LINE_CHARACTERS)
    return NOT_UTF8 + "\n".join(text[start : start + _LINE_CHARACTERS] for start in starts)


def _octets(text: str) -> bytes:
    """The octets that surrogates stand for; half a character, which stands for none, as itself."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
