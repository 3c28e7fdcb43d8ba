"""Octets of messages as text: UTF-8 where they are that, base64 where they are not.

For everything that shows a message in JSON or writes it to a file: the HTTP API, exported files,
the command line. Invariant: what is text here is the same octets again by ``octets_of_base64`` or
``str.encode``.
"""

from __future__ import annotations

import base64


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
