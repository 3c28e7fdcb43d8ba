"""Lists of the API: filtered by name, sorted, paged, with chosen columns, built in shares.

With ``name_of`` and ``keys`` only the items of the page asked for are described. Without ``page``
the answer is an array of all; with it, an object with ``items`` and counts (``answers.Page``). The
rules and the refusals are RabbitMQ's.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Any, Final, Generic, TypeVar

import regex
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from hareline.management.answers import (
    PAGE_SIZE,
    PAGE_SIZE_MAX,
    Refusal,
    answer,
    bad_request,
    encoded,
)
from hareline.management.api.call import Call
from hareline.management.bodies import HeldBody
from hareline.management.pace import Share
from hareline.patterns import too_costly

#: Items that are sorted at one go, in some 3 ms.
SORT_COUNT: Final = 4_096
#: Octets of JSON that are written at one go, in some 0.3 ms. The next piece waits for the socket.
PIECE_BYTES: Final = 1_048_576
#: Items that are gathered at one go, in some 0.1 ms.
BATCH_COUNT: Final = 256
_COLUMNS_MAX: Final = 200

T = TypeVar("T")
SortKey = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The arguments of a request for a list. ``page`` 0: all items, as an array."""

    page: int
    page_size: int
    name: str
    is_regex: bool
    sort: str
    is_reversed: bool
    columns: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, call: Call) -> ListQuery:
        """Raises Refusal for arguments that are not valid."""
        given = call.query
        page, page_size = given.get("page"), given.get("page_size")
        columns = [each for each in given.get("columns", "").split(",") if each]
        if len(columns) > _COLUMNS_MAX:
            raise bad_request(f"columns: more than {_COLUMNS_MAX}")
        return cls(
            page=0 if page is None else _natural("page", page, 1, None),
            page_size=PAGE_SIZE
            if page_size is None
            else _natural("page_size", page_size, 1, PAGE_SIZE_MAX),
            name=given.get("name", ""),
            is_regex=call.flag("use_regex"),
            sort=given.get("sort", ""),
            is_reversed=call.flag("sort_reverse"),
            columns=tuple(tuple(each.split(".")) for each in columns),
        )


async def listing(
    call: Call,
    items: Iterable[T],
    describe: Callable[[T], Mapping[str, Any]],
    default_sort: Sequence[str] = ("vhost", "name"),
    *,
    name_of: Callable[[T], str] | None = None,
    keys: Mapping[str, Callable[[T], Any]] | None = None,
    wanted: Callable[[T], bool] | None = None,
) -> Response:
    """The items as the request asks for them. Raises Refusal for arguments that are not valid.

    ``wanted``: which items the list has at all; None: all of them. ``keys``: columns that can be
    sorted by without describing the item; all values of one can be compared with each other.
    """
    query = ListQuery.of(call)
    rows = _Rows(describe, name_of, keys or {})
    body = Pieces()
    async with call.pace.share() as share:
        numbers = await rows.all_of(items, wanted, share)
        total = len(numbers)
        if query.name:
            numbers = await rows.filtered(numbers, query, share)
        count = len(numbers)
        start, end = _bounds(query, count)
        sort = (query.sort, *default_sort) if query.sort else tuple(default_sort)
        async for row in rows.sorted(numbers, sort, query.is_reversed, start, end, share):
            body.add(encoded(picked(row, query.columns) if query.columns else row))
    if not query.page:
        return body.answer(b"[", b"]")
    page = {
        "filtered_count": count,
        "item_count": body.count,
        "page": query.page,
        "page_count": max(1, -(-count // query.page_size)),
        "page_size": query.page_size,
        "total_count": total,
    }
    return body.answer(encoded(page)[:-1] + b',"items":[', b"]}")


class Pieces:
    """The items of a list as JSON, joined in pieces so that a long body is written in pieces.

    ``count``: the items; ``size``: their octets.
    """

    def __init__(self) -> None:
        self.count = self.size = 0
        self._items: list[bytes] = []
        self._items_size = 0
        self._pieces: list[bytes] = []

    def add(self, item: bytes) -> None:
        """Append an item."""
        self.count += 1
        self.size += len(item)
        self._items.append(item)
        self._items_size += len(item)
        if self._items_size >= PIECE_BYTES:
            self._join(b",")

    def add_parts(self, parts: list[bytes]) -> None:
        """Append an item that is in parts; long ones are not joined."""
        if len(parts) == 1:
            self.add(parts[0])
            return
        self.count += 1
        if self._items:
            self._join(b",")
        self.size += sum(map(len, parts))
        self._pieces += parts
        self._pieces[-1] += b","

    def _join(self, behind: bytes) -> None:
        self._pieces.append(b",".join(self._items) + behind)
        self._items = []
        self._items_size = 0

    def answer(self, head: bytes, tail: bytes, held: HeldBody | None = None) -> Response:
        """The list between ``head`` and ``tail``. ``held``: counts it until it is sent."""
        if self._items or not self._pieces:
            self._join(tail)
        else:
            self._pieces[-1] = self._pieces[-1][:-1] + tail
        pieces = self._pieces
        pieces[0] = head + pieces[0]
        size = sum(map(len, pieces))
        if held is not None:
            return _HeldAnswer(deque(pieces), size, held.handed_over())
        if len(pieces) == 1:
            return Response(pieces[0], media_type="application/json")
        return StreamingResponse(
            _each(pieces), media_type="application/json", headers={"Content-Length": str(size)}
        )


async def _each(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


class _HeldAnswer(StreamingResponse):
    """An answer that is counted until its client has read it, or is gone.

    The server takes a piece when the socket has taken the one before, and the end of the answer
    after the last one; so what is not counted any more is not in memory either.
    """

    def __init__(self, pieces: deque[bytes], size: int, held: HeldBody) -> None:
        self._pieces = pieces
        self._held = held
        super().__init__(
            self._sent(), media_type="application/json", headers={"Content-Length": str(size)}
        )

    async def _sent(self) -> AsyncIterator[bytes]:
        while self._pieces:
            yield self._pieces.popleft()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._held:
            await super().__call__(scope, receive, send)


class _Rows(Generic[T]):
    """Items with their descriptions, each of which is made once at most."""

    def __init__(
        self,
        describe: Callable[[T], Mapping[str, Any]],
        name_of: Callable[[T], str] | None,
        keys: Mapping[str, Callable[[T], Any]],
    ) -> None:
        self._describe = describe
        self._name_of = name_of
        self._keys = keys
        self._items: list[T] = []
        self._described: dict[int, Mapping[str, Any]] = {}

    async def all_of(
        self, items: Iterable[T], wanted: Callable[[T], bool] | None, share: Share
    ) -> Sequence[int]:
        """The numbers of all items that are wanted, in their order."""
        rest = iter(items)
        while batch := list(islice(rest, BATCH_COUNT)):
            self._items += batch if wanted is None else filter(wanted, batch)
            await share.pause()
        return range(len(self._items))

    def row(self, number: int) -> Mapping[str, Any]:
        found = self._described.get(number)
        if found is None:
            found = self._described[number] = self._describe(self._items[number])
        return found

    async def filtered(
        self, numbers: Sequence[int], query: ListQuery, share: Share
    ) -> Sequence[int]:
        """Those of the items whose name passes."""
        name_filter = NameFilter(query.name, is_regex=query.is_regex)
        return [number async for number in name_filter.passed(numbers, self._name, share)]

    def _name(self, number: int) -> str:
        if self._name_of is not None:
            return self._name_of(self._items[number])
        return str(self.row(number).get("name", ""))

    async def sorted(
        self,
        numbers: Sequence[int],
        sort: Sequence[str],
        is_reversed: bool,
        start: int,
        end: int,
        share: Share,
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the rows from ``start`` to before ``end`` of the sorted items."""
        columns = [self._column(name) for name in sort]
        keyed: list[SortKey] = []
        blocks: list[list[SortKey]] = []
        for number in numbers:
            await share.pause()
            keyed.append((*[column(number) for column in columns], number))
            if len(keyed) >= SORT_COUNT:
                keyed.sort(reverse=is_reversed)
                blocks.append(keyed)
                keyed = []
        keyed.sort(reverse=is_reversed)
        blocks.append(keyed)
        merged: Iterator[SortKey] = heapq.merge(*blocks, reverse=is_reversed)
        for place, key in enumerate(merged):
            await share.pause()
            if place >= end:
                break
            if place >= start:
                yield self.row(key[-1])

    def _column(self, name: str) -> Callable[[int], Any]:
        """Return the key of this column: a function of the number of an item."""
        key = self._keys.get(name)
        if key is not None:
            items, found = self._items, key
            return lambda number: found(items[number])
        path = name.split(".")
        return lambda number: _sortable(_value_at(self.row(number), path))


def picked_columns(call: Call, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A single object as the request asks for it: with all columns, or the chosen ones."""
    columns = ListQuery.of(call).columns
    return picked(row, columns) if columns else row


async def answer_with_list(call: Call, row: Mapping[str, Any], name: str, share: Share) -> Response:
    """A single object as the request asks for it, of which the list ``name`` may be long."""
    columns = ListQuery.of(call).columns
    rest = {key: value for key, value in row.items() if key != name}
    parts: list[Sequence[str]] = [()]
    if columns:
        rest = picked(rest, columns)
        parts = [column[1:] for column in columns if column[0] == name]
        if not parts:
            return answer(rest)
    is_whole = () in parts
    found = Pieces()
    for item in row[name]:
        found.add(encoded(item if is_whole else picked(item, parts)))
        await share.pause()
    return found.answer(encoded({**rest, name: []}).removesuffix(b"]}"), b"]}")


def picked(row: Mapping[str, Any], columns: Iterable[Sequence[str]]) -> dict[str, Any]:
    """The columns of a row; of ``a.b`` the part ``b`` of ``a``, in each item if ``a`` is a list."""
    chosen: dict[str, Any] = {}
    rests: dict[str, list[Sequence[str]]] = {}
    for column in columns:
        name = column[0]
        if name not in row:
            continue
        if len(column) == 1:
            chosen[name] = row[name]
        elif name not in chosen:
            rests.setdefault(name, []).append(column[1:])
    for name, rest in rests.items():
        value = row[name]
        if name in chosen:
            continue
        if isinstance(value, Mapping):
            chosen[name] = picked(value, rest)
        elif isinstance(value, list | tuple):
            chosen[name] = [picked(each, rest) for each in value if isinstance(each, Mapping)]
    return chosen


def _bounds(query: ListQuery, count: int) -> tuple[int, int]:
    """Return the range of sorted items of the page. Raises Refusal for one beyond the last."""
    if not query.page:
        return 0, count
    start = (query.page - 1) * query.page_size
    if start > count or (start == count and start):
        raise Refusal(
            400,
            "page_out_of_range",
            f"Page out of range, page: {query.page} page size: {query.page_size}, len: {count}",
        )
    return start, start + query.page_size


def _natural(name: str, text: str, minimum: int, maximum: int | None) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise bad_request(f"{name}: '{text}' is not a natural number")
    number = int(text)
    if number < minimum or (maximum is not None and number > maximum):
        allowed = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        word = "invalid_pagination_parameters"
        raise Refusal(400, word, f"{name}: must be {allowed}, not {number}")
    return number


def _value_at(row: Mapping[str, Any], path: Sequence[str]) -> object:
    value: Any = row
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _sortable(value: object) -> SortKey:
    """A key that can be compared with those of all other values: missing, numbers, texts, rest."""
    if value is None:
        return (0, 0)
    if isinstance(value, bool | int | float):
        return (1, value) if value == value else (0, 0)  # noqa: PLR0124  (not a number)
    if isinstance(value, str):
        return (2, value)
    return (3, encoded(value))


# -------------------------------------------------------------------------------- filtering by name


BUDGET_S: Final = 0.5
MATCH_S: Final = 0.05
PATTERN_MAX: Final = 512  # characters
#: Names that a thread is handed at one go.
NAMES_COUNT: Final = 1_024


class NameFilter:
    """Picks the items whose name contains the text, or is matched by the expression, in any case.

    An item with several names has a line for each. Expressions come from any user, and some would
    run for hours, so they run in a thread, in an engine that lets the loop go on and stops in time.
    """

    __slots__ = ("_is_regex", "_left_s", "_text")

    def __init__(self, text: str, *, is_regex: bool) -> None:
        """Raises Refusal for a regular expression that is too long."""
        if is_regex and len(text) > PATTERN_MAX:
            raise Refusal(400, "bad_request", f"name: longer than {PATTERN_MAX} characters")
        self._text = text
        self._is_regex = is_regex
        self._left_s = BUDGET_S

    async def passed(
        self, items: Iterable[T], name_of: Callable[[T], str], share: Share
    ) -> AsyncIterator[T]:
        """Yield the items whose name passes.

        Raises Refusal for a regular expression that is not valid, or takes too long.
        """
        if not self._is_regex:
            wanted = self._text.lower()
            for item in items:
                await share.pause()
                if wanted in name_of(item).lower():
                    yield item
            return
        # also in a thread: some hundred characters may take some hundred ms to compile
        pattern = await share.wait_for(asyncio.to_thread(_compiled, self._text))
        rest = iter(items)
        while batch := list(islice(rest, NAMES_COUNT)):
            names = []
            for item in batch:
                await share.pause()
                names.append(name_of(item))
            found = await share.wait_for(asyncio.to_thread(self._search, pattern, names))
            for item, is_found in zip(batch, found, strict=True):
                if is_found:
                    yield item

    def _search(self, pattern: regex.Pattern[str], names: list[str]) -> list[bool]:
        """Tell of each name if it matches; called in a thread."""
        start_s = perf_counter()
        found = []
        for name in names:
            try:
                found.append(pattern.search(name, concurrent=True, timeout=MATCH_S) is not None)
            except TimeoutError:
                raise _too_slow() from None
            if perf_counter() - start_s > self._left_s:
                raise _too_slow()
        self._left_s -= perf_counter() - start_s
        return found


def _compiled(text: str) -> regex.Pattern[str]:
    problem = too_costly(text)
    if problem:
        raise Refusal(400, "bad_request", f"name: this regular expression {problem}")
    try:
        return regex.compile(text, regex.IGNORECASE | regex.MULTILINE)
    except (regex.error, RecursionError, OverflowError) as problem:
        reason = f"name: '{text}' is not a regular expression: {problem}"
        raise Refusal(400, "bad_request", reason) from None


def _too_slow() -> Refusal:
    return Refusal(
        400,
        "bad_request",
        "name: this regular expression takes too long; avoid repetitions within repetitions",
    )
