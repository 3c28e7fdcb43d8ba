"""Stencils: recognise a publish that differs from an earlier one only in its values.

A stencil is cut from a publish that was found plain. It has holes over all that may be different in
the next one (values of properties and headers, the body), and shows everything that decides
anything: frame heads and ends, lengths, names, types, delivery mode. What shows the same through it
is plain as well, and is where the stencil says. docs/publish-recognition.md has a picture.

A channel has its ``Stencils``. The decoder asks them first (``take``); for what they do not
match it reads the frame heads, asks again by shape (``find``), and lets them learn a shape that the
channel's lane has called plain (``learn``).

Invariant: octets that a stencil matches are a whole publish, which ``wire.plain_properties`` calls
what it called the one that the stencil was cut from.                                         [hot]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final

from hareline.wire.constants import FRAME_END, FRAME_HEAD_SIZE, FRAME_OVERHEAD
from hareline.wire.plain_properties import NOT_PLAIN, PERSISTENT, walk

_BODY_SIZE: Final = 11  # where it stands in a header frame: 8 octets
_PROPERTIES: Final = 19
_FRAME_SIZE: Final = 3  # where the payload's size stands in a frame: 4 octets

HEADER_SIZE_MAX: Final = 1024  # of a header frame that is made a stencil
VALUES_MAX: Final = 24  # in it, so that those of a channel take 150 KB at most
SHAPES_MAX: Final = 32  # of a channel; the oldest goes
RUN_FROM: Final = 3  # contents of one size, and the next ones are expected to have it too

# To cut a stencil costs as much as two looks at properties, and is lost if the shape never comes
# again. So a channel pays from what matches have earned it, or tries again from time to time.
CREDIT_MAX: Final = 128
CUT_COST: Final = 16
TRY_EVERY: Final = 64  # unmatched publishes, a power of 2

Match = Callable[[bytes, int], tuple[Any, ...]]


class Stencil:
    """Contents of one shape, with bodies of any size, or with none.

    ``header_size``: octets of the header frame. ``framing``: octets of a content that are not body.
    A content matches if ``match(octets, 0)`` is ``shown``, and one with a body, if
    ``sizes(octets, 0)`` is one size twice. ``size``: how many octets that looks at. ``run``: the
    last stencil of whole publishes that was made of it.
    """

    __slots__ = (
        "_cuts",
        "framing",
        "header_size",
        "is_persistent",
        "match",
        "run",
        "shown",
        "size",
        "sizes",
    )

    def __init__(
        self, content: bytes, header_size: int, cuts: list[int], *, is_persistent: bool
    ) -> None:
        self.header_size = header_size
        self.is_persistent = is_persistent
        self._cuts = [_PROPERTIES + cut for cut in cuts]
        holes = self._cuts
        self.size = self.framing = header_size
        self.sizes: Match | None = None
        if len(content) > header_size:
            self.size += FRAME_HEAD_SIZE
            self.framing += FRAME_OVERHEAD
            in_body_frame = header_size + _FRAME_SIZE
            holes = [_BODY_SIZE, _PROPERTIES, *holes, in_body_frame, in_body_frame + 4]
            self.sizes = Struct(f">{_BODY_SIZE}xQ{in_body_frame - _PROPERTIES}xI").unpack_from
        self.match, self.shown = _cut(content[: self.size], holes)
        self.run: RunStencil | None = None

    def matches(self, data: bytes, start: int) -> bool:
        """True if a content of this shape begins at ``start``, with sizes that may be wrong."""
        return start + self.size <= len(data) and self.match(data, start) == self.shown

    def with_sizes(self, method: bytes, content: bytes) -> RunStencil:
        """A stencil for whole publishes that have this method frame and a body of this size."""
        offset = len(method)
        holes = [offset + cut for cut in self._cuts]
        if self.sizes is not None:
            holes += (offset + self.size, offset + len(content) - 1)
        self.run = RunStencil(self, method, content, holes)
        return self.run


class RunStencil:
    """Publishes that differ in nothing but values, from the method frame to the last octet.

    ``stencil``: of their contents. ``method``: the method frame of each. ``size``: octets of each.
    """

    __slots__ = ("_match", "_shown", "method", "size", "stencil")

    def __init__(
        self, stencil: Stencil, method: bytes, content: bytes, holes: Sequence[int]
    ) -> None:
        self.stencil = stencil
        self.method = method
        self.size = len(method) + len(content)
        self._match, self._shown = _cut(method + content, holes)

    def take(self, data: bytes, position: int, contents: list[bytes]) -> int:
        """Gather publishes; returns where the first begins that differs in more."""
        match, shown, size, content_at = self._match, self._shown, self.size, len(self.method)
        last = len(data) - size
        while position <= last and match(data, position) == shown:
            contents.append(data[position + content_at : position + size])
            position += size
        return position


class Stencils:
    """Those of one channel.

    ``recent``: the two that matched last, the last one first, since shapes often take turns; empty
    while most publishes match none. ``by_shape``: all, by what the decoder reads in front of the
    properties; the oldest first.
    """

    __slots__ = ("_credit", "_run", "_unmatched", "by_shape", "recent")

    def __init__(self) -> None:
        self.recent: tuple[Stencil, ...] = ()
        self.by_shape: dict[int, Stencil] = {}
        self._run: RunStencil | None = None
        self._credit = CREDIT_MAX
        self._unmatched = 0

    def take(
        self, data: bytes, position: int, method: bytes, body_max: int, contents: list[bytes]
    ) -> int:
        """Gather the contents of publishes with this method frame that match a recent stencil.

        At ``position`` such a frame begins, and ``recent`` is not empty. Returns where the first
        other publish begins; the stencil is the first of ``recent`` now.
        """
        end = len(data)
        run = self._run
        if run is not None:
            position = run.take(data, position, contents)
            if contents:
                self._credit = CREDIT_MAX
                if run.stencil is not self.recent[0]:
                    self.recent = (run.stencil, self.recent[0])
                return position
            if position + run.size <= end:  # not merely the rest of what was read
                self._run = None
        method_size = len(method)
        for stencil in self.recent:
            size, match, shown, sizes = stencil.size, stencil.match, stencil.shown, stencil.sizes
            while True:
                start = position + method_size
                stop = start + size
                if stop > end or match(data, start) != shown:
                    break
                if sizes is not None:
                    body_size, frame_size = sizes(data, start)
                    stop += body_size + 1
                    if (
                        body_size != frame_size
                        or not 0 < body_size <= body_max
                        or stop > end
                        or data[stop - 1] != FRAME_END
                    ):
                        break
                contents.append(data[start:stop])
                position = stop
                if not data.startswith(method, position):
                    break
            if contents:
                if stencil is not self.recent[0]:
                    self.recent = (stencil, self.recent[0])
                count = len(contents)
                if self._credit < CREDIT_MAX:
                    self._credit += count
                if count >= RUN_FROM:
                    size = len(contents[-1])
                    if size == len(contents[-2]) == len(contents[-3]):
                        is_read_over = position + method_size + size > end
                        self._expect(stencil, method, contents[-1], is_read_over)
                break
        return position

    def _expect(self, stencil: Stencil, method: bytes, content: bytes, is_read_over: bool) -> None:
        """Look for more of the same first, if that costs nothing or more is likely to come.

        In the middle of a read another publish is next, so a stencil of whole ones is made only
        when a read has ended. Shapes that take turns find theirs again.
        """
        run = stencil.run
        if run is not None and run.size == len(method) + len(content) and run.method == method:
            self._run = run
        elif is_read_over:
            self._run = stencil.with_sizes(method, content)

    def find(self, data: bytes, start: int, shape: int) -> bool:
        """Make recent the stencil of this shape, which is in ``by_shape``.

        False if it is recent already, or does not match the content at ``start``.
        """
        stencil = self.by_shape[shape]
        if stencil in self.recent or not stencil.matches(data, start):
            return False
        self.recent = (stencil, *self.recent[:1])
        return True

    def learn(self, content: bytes, header_size: int, shape: int) -> None:
        """A content that no stencil matches was plain: cut one from it, if that may be worth it."""
        if self._credit < CUT_COST:
            self._unmatched += 1
            if self._unmatched & (TRY_EVERY - 1):
                self.recent = ()
                return
        else:
            self._credit -= CUT_COST
        stencil = cut_stencil(content, header_size)
        if stencil is None:
            return
        by_shape = self.by_shape
        if len(by_shape) >= SHAPES_MAX and shape not in by_shape:
            del by_shape[next(iter(by_shape))]
        by_shape[shape] = stencil
        self.recent = (stencil, *self.recent[:1])


def cut_stencil(content: bytes, header_size: int) -> Stencil | None:
    """A stencil for contents like this one, which is plain; None if that would be a large one."""
    if header_size > HEADER_SIZE_MAX:
        return None
    cuts: list[int] = []
    plain = walk(content[_PROPERTIES : header_size - 1], None, cuts=cuts)
    if plain == NOT_PLAIN or len(cuts) > 2 * VALUES_MAX:
        return None
    return Stencil(content, header_size, cuts, is_persistent=plain == PERSISTENT)


def _cut(octets: bytes, holes: Sequence[int]) -> tuple[Match, tuple[bytes, ...]]:
    """Mask that shows octets beside the holes, and what it shows of these octets.

    ``holes``: where each begins and ends, in order.
    """
    layout = [">"]
    shown: list[bytes] = []
    position = 0
    for index in range(0, len(holes), 2):
        start, end = holes[index], holes[index + 1]
        if start == end:
            continue
        if start > position:
            layout.append(f"{start - position}s")
            shown.append(octets[position:start])
        layout.append(f"{end - start}x")
        position = end
    if position < len(octets):
        layout.append(f"{len(octets) - position}s")
        shown.append(octets[position:])
    return Struct("".join(layout)).unpack_from, tuple(shown)
