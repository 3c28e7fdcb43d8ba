"""Bodies of messages that are long, taken out of JSON and put into files in shares of time.

Called by ``publishing`` and ``message_files``. A parser of JSON holds the loop until it is through,
some ms for each MB. So the one long text of a request, the body of a message, is cut out of the
JSON first, and decoded piece by piece; what is left is short.

Everything here is a generator: its caller lets other work have its turn where it yields.

Invariant: what comes out is what a parser of the whole would have made of it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from hareline.amqp.context import Context
from hareline.errors import ContentTooLarge, PreconditionFailed, StoreError
from hareline.message import LargeBody

#: Texts that are cut out; JSON up to this size is parsed in some ms.
LONG_BYTES: Final = 262_144
#: What may stand beside such a text, which is parsed at one go.
REST_BYTES: Final = 2_097_152
#: Octets that are decoded at one go, in a ms or two at the worst.
PIECE_BYTES: Final = 65_536
#: Octets that are written to a file at one go.
WRITTEN_AT_ONCE: Final = 1_048_576
_FINDS_AT_ONCE: Final = 1_024

# Escapes that are whole; a pair of surrogates is one.
_WHOLE: Final = re.compile(
    rb"(?:[^\\]++|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb'|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\["\\/bfnrt])*+'
)
_ESCAPE_MAX: Final = 12

T = TypeVar("T")
Steps = Generator[None, None, T]


@dataclass(frozen=True, slots=True)
class LongText:
    """A text of JSON as it stands in ``octets``, without its quotes; decoded it is in pieces."""

    octets: bytes | bytearray
    start: int
    end: int

    def decoded(self, errors: str) -> Steps[list[bytes]]:
        """The text in UTF-8; ``errors`` as of ``str.encode``. Raises ValueError."""
        octets, at, end = self.octets, self.start, self.end
        pieces = []
        while at < end:
            matched = _WHOLE.match(octets, at, min(at + PIECE_BYTES, end))
            stop = at if matched is None else matched.end()
            while at < stop < end and octets[stop] & 0xC0 == 0x80:  # within a character
                stop -= 1
            if stop == at:  # nothing there is valid; the parser says what is wrong
                stop = min(at + _ESCAPE_MAX, end)
            text: str = json.loads('"' + octets[at:stop].decode("utf-8", "surrogatepass") + '"')
            pieces.append(text.encode("utf-8", errors))
            at = stop
            yield
        return pieces

    def from_base64(self) -> Steps[list[bytes]]:
        """The octets that the text stands for. Raises ValueError if it is not base64."""
        octets, start, end = self.octets, self.start, self.end
        if octets.find(b"\\", start, end) >= 0:  # such as \/
            octets = b"".join((yield from self.decoded("strict")))
            start, end = 0, len(octets)
        padding = octets.find(b"=", start, end)
        if 0 <= padding < end - 2:
            raise binascii.Error("padding within the data")
        pieces = []
        for at in range(start, end, PIECE_BYTES):  # which 4 divides
            pieces.append(base64.b64decode(octets[at : min(at + PIECE_BYTES, end)], validate=True))
            yield
        return pieces


def cut_long_text(
    octets: bytes | bytearray, key: str
) -> Steps[tuple[bytes | bytearray, LongText | None]]:
    """The JSON without the text that is long and the value of ``key`` in the outermost object.

    An empty text stands in its place. None: there is no such text, and the JSON is as it was.
    Raises ValueError if more than ``REST_BYTES`` are left.
    """
    rest, text = yield from _cut(octets, key)
    if len(rest) > REST_BYTES:
        raise ValueError(f"more than {REST_BYTES} octets beside '{key}'")
    return rest, text


def _cut(octets: bytes | bytearray, key: str) -> Steps[tuple[bytes | bytearray, LongText | None]]:
    if len(octets) <= LONG_BYTES:
        return octets, None
    is_key = re.compile(rb'"%b"[ \t\r\n]*:[ \t\r\n]*\Z' % re.escape(key.encode()))
    at = depth = count = 0
    while (start := octets.find(b'"', at)) >= 0:
        between = octets[at:start]
        depth += between.count(b"{") + between.count(b"[")
        depth -= between.count(b"}") + between.count(b"]")
        end = octets.find(b'"', start + 1)
        while end >= 0 and _is_escaped(octets, start + 1, end):
            end = octets.find(b'"', end + 1)
            count += 1
            if count % _FINDS_AT_ONCE == 0:
                yield
        if end < 0:
            break
        if end - start > LONG_BYTES and depth == 1:
            before = octets[max(0, start - len(key) - 64) : start]
            if is_key.search(before):
                rest = octets[: start + 1] + octets[end:]
                return rest, LongText(octets, start + 1, end)
        at = end + 1
        count += 1
        if count % _FINDS_AT_ONCE == 0:
            yield
    return octets, None


def _is_escaped(octets: bytes | bytearray, start: int, quote: int) -> bool:
    """Whether the quote there has an odd number of backslashes before it."""
    at = quote
    while at > start:
        piece = octets[max(start, at - PIECE_BYTES) : at]
        kept = len(piece.rstrip(b"\\"))
        at -= len(piece) - kept
        if kept:
            break
    return (quote - at) % 2 == 1


def kept_body(context: Context, pieces: Sequence[bytes]) -> Steps[bytes | LargeBody]:
    """The body of these pieces as messages have it: a large one is in a file.

    Raises PreconditionFailed and ContentTooLarge for one that is too large, and StoreError.
    """
    limits, bodies = context.limits, context.large_bodies
    size = sum(map(len, pieces))
    if size > limits.max_message_bytes:
        raise PreconditionFailed(
            f"message size {size} is larger than configured max size {limits.max_message_bytes}"
        )
    if bodies is None or size <= limits.large_message_bytes:
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    draft = bodies.begin(size)
    try:
        for piece in pieces:
            for at in range(0, len(piece), WRITTEN_AT_ONCE):
                draft.add(piece[at : at + WRITTEN_AT_ONCE])
                yield
        return draft.finish()
    except (ContentTooLarge, StoreError, GeneratorExit):
        draft.abandon()
        raise
