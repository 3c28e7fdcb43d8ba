"""Lists: filtered, sorted, paged, with chosen columns; described only as far as needed."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any, cast

import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse

from hareline.management.answers import PAGE_SIZE, PAGE_SIZE_MAX, Refusal
from hareline.management.api import listing as listing_module
from hareline.management.api.call import Call
from hareline.management.api.listing import Pieces, answer_with_list, listing, picked
from hareline.management.bodies import BodiesInFlight
from hareline.management.pace import Pace

Row = dict[str, Any]


def call(query: str = "") -> Call:
    app = Starlette()
    app.state.pace = Pace()
    scope = {"type": "http", "query_string": query.encode(), "headers": [], "app": app}
    nothing = cast("Any", None)
    return Call(nothing, Request(scope), nothing)


class Rows:
    """Numbers as items; which of them were described."""

    def __init__(self, *, has_keys: bool = True) -> None:
        self.described: list[int] = []
        self.has_keys = has_keys

    def describe(self, number: int) -> Row:
        self.described.append(number)
        row: Row = {"name": f"q{number}", "vhost": "/", "messages": number * 7 % 10}
        if number % 2:
            row["message_stats"] = {"publish": number, "publish_details": {"rate": number / 2}}
        return row

    async def ask(self, count: int, query: str = "") -> Any:
        keys: Mapping[str, Any] = {
            "name": lambda number: f"q{number}",
            "vhost": lambda number: "/",
            "messages": lambda number: number * 7 % 10,
        }
        answer = await listing(
            call(query),
            range(count),
            self.describe,
            name_of=(lambda number: f"q{number}") if self.has_keys else None,
            keys=keys if self.has_keys else None,
        )
        return json.loads(bytes(answer.body))


async def names(count: int, query: str, **options: bool) -> list[str]:
    found = await Rows(**options).ask(count, query)
    return [row["name"] for row in (found if isinstance(found, list) else found["items"])]


async def test_without_a_page_the_answer_is_an_array_by_name() -> None:
    assert await names(12, "") == sorted(f"q{number}" for number in range(12))


async def test_a_page_says_how_many_there_are_and_describes_only_its_own_items() -> None:
    rows = Rows()
    found = await rows.ask(250, "page=2&page_size=10&name=q1")
    assert {key: value for key, value in found.items() if key != "items"} == {
        "filtered_count": 111,
        "item_count": 10,
        "page": 2,
        "page_count": 12,
        "page_size": 10,
        "total_count": 250,
    }
    assert len(rows.described) == 10
    assert [row["name"] for row in found["items"]] == sorted(
        f"q{number}" for number in range(250) if "q1" in f"q{number}"
    )[10:20]


async def test_pages_have_a_hundred_items_unless_told_otherwise() -> None:
    found = await Rows().ask(250, "page=3")
    assert (found["page_size"], found["item_count"], found["page_count"]) == (PAGE_SIZE, 50, 3)


async def test_what_is_not_wanted_is_not_in_the_list_and_not_counted() -> None:
    described: list[int] = []

    def describe(number: int) -> Row:
        described.append(number)
        return {"name": f"q{number}"}

    answer = await listing(
        call("page=1&page_size=2&name=q"),
        range(1_000),
        describe,
        ("name",),
        name_of=lambda number: f"q{number}",
        keys={"name": lambda number: f"q{number}"},
        wanted=lambda number: number % 100 == 7,
    )
    page = json.loads(bytes(answer.body))
    assert (page["total_count"], page["filtered_count"]) == (10, 10)
    assert described == [107, 207]


async def test_the_first_page_of_nothing_is_empty() -> None:
    found = await Rows().ask(0, "page=1")
    assert (found["items"], found["page_count"], found["total_count"]) == ([], 1, 0)


async def test_a_page_beyond_the_last_is_refused() -> None:
    with pytest.raises(Refusal) as refused:
        await Rows().ask(10, "page=2&page_size=10")
    assert (refused.value.status, refused.value.error) == (400, "page_out_of_range")
    assert refused.value.reason == "Page out of range, page: 2 page size: 10, len: 10"


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("page=0", "page"),
        ("page=-1", "page"),
        ("page=one", "page"),
        ("page=1&page_size=0", "page_size"),
        (f"page=1&page_size={PAGE_SIZE_MAX + 1}", "page_size"),
        ("page=99999999999999999999", "page"),
        ("page=1&name=(&use_regex=true", "name"),
        ("columns=" + ",".join(map(str, range(300))), "columns"),
    ],
)
async def test_arguments_that_are_not_valid_are_named(query: str, named: str) -> None:
    with pytest.raises(Refusal) as refused:
        await Rows().ask(10, query)
    assert refused.value.status == 400
    assert refused.value.reason.startswith(f"{named}: ")


@pytest.mark.parametrize("has_keys", [True, False])
async def test_a_sort_by_a_column_has_the_default_order_behind_it(has_keys: bool) -> None:
    expected = sorted(range(20), key=lambda number: (number * 7 % 10, f"q{number}"))
    assert await names(20, "sort=messages", has_keys=has_keys) == [f"q{each}" for each in expected]
    backward = await names(20, "sort=messages&sort_reverse=true", has_keys=has_keys)
    assert backward == [f"q{each}" for each in reversed(expected)]


async def test_a_sort_by_a_nested_column_puts_rows_without_it_first() -> None:
    query = "sort=message_stats.publish_details.rate"
    assert await names(6, query) == ["q0", "q2", "q4", "q1", "q3", "q5"]
    assert await names(6, f"{query}&page=1&page_size=2&sort_reverse=true") == ["q5", "q3"]


@pytest.mark.parametrize("has_keys", [True, False])
async def test_a_name_is_looked_for_in_any_case_and_as_an_expression(has_keys: bool) -> None:
    assert await names(25, "name=Q1", has_keys=has_keys) == sorted(
        ["q1", *(f"q1{digit}" for digit in range(10))]
    )
    query = "name=%5EQ%5B12%5D%24&use_regex=true"
    assert await names(25, query, has_keys=has_keys) == ["q1", "q2"]


@pytest.mark.parametrize("is_reversed", ["false", "true"])
async def test_blocks_that_are_sorted_apart_are_merged(
    is_reversed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing_module, "SORT_COUNT", 4)
    expected = sorted((f"q{number}" for number in range(30)), reverse=is_reversed == "true")
    assert await names(30, f"sort=name&sort_reverse={is_reversed}") == expected
    query = f"sort=name&sort_reverse={is_reversed}&page=2&page_size=7"
    assert await names(30, query) == expected[7:14]


async def test_columns_of_all_kinds_of_values_can_be_sorted_by() -> None:
    values: list[object] = [None, True, 2, 1.5, "b", "a", ["x"], {"k": 1}, math.nan]
    answer = await listing(
        call("sort=value"),
        values,
        lambda value: {"value": value, "name": repr(value)},
        ("name",),
    )
    found = [row["name"] for row in json.loads(bytes(answer.body))]
    assert found == ["None", "nan", "True", "1.5", "2", "'a'", "'b'", "['x']", "{'k': 1}"]


def test_columns_are_picked_from_nested_objects_and_lists() -> None:
    row = {
        "a": 1,
        "b": {"c": 2, "d": {"e": 3, "f": 4}},
        "l": [{"x": 1, "y": 2}, {"x": 3}],
        "n": None,
    }
    columns = [each.split(".") for each in ("a", "b.c", "b.d.e", "l.x", "n", "no.such", "n.x")]
    assert picked(row, columns) == {
        "a": 1,
        "n": None,
        "b": {"c": 2, "d": {"e": 3}},
        "l": [{"x": 1}, {"x": 3}],
    }
    assert picked(row, [["b", "c"], ["b"]]) == {"b": row["b"]}


async def test_columns_are_those_asked_for() -> None:
    found = await Rows().ask(3, "columns=name,message_stats.publish")
    assert found == [
        {"name": "q0"},
        {"name": "q1", "message_stats": {"publish": 1}},
        {"name": "q2"},
    ]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10])
@pytest.mark.parametrize("size", [1, 5, 7, 1_000])
async def test_a_long_answer_is_written_in_pieces_and_is_the_same(
    count: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing_module, "PIECE_BYTES", size)
    pieces = Pieces()
    for number in range(count):
        pieces.add(b"[%d]" % number)
    answer = pieces.answer(b'{"items":[', b"]}")
    if isinstance(answer, StreamingResponse):
        body = b"".join([cast("bytes", piece) async for piece in answer.body_iterator])
        assert answer.headers["content-length"] == str(len(body))
    else:
        body = bytes(answer.body)
    assert json.loads(body) == {"items": [[number] for number in range(count)]}


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", {"name": "q", "rows": [{"a": 1, "b": {"c": 1}}, {"a": 2, "b": {"c": 2}}], "last": 3}),
        ("columns=name", {"name": "q"}),
        ("columns=rows", {"rows": [{"a": 1, "b": {"c": 1}}, {"a": 2, "b": {"c": 2}}]}),
        ("columns=rows.a,last", {"last": 3, "rows": [{"a": 1}, {"a": 2}]}),
        ("columns=rows.b.c,rows.a", {"rows": [{"a": 1, "b": {"c": 1}}, {"a": 2, "b": {"c": 2}}]}),
        ("columns=rows.x", {"rows": [{}, {}]}),
        ("columns=x", {}),
    ],
)
async def test_an_object_with_a_list_has_the_columns_asked_for(query: str, wanted: Row) -> None:
    row = {"name": "q", "rows": [{"a": each, "b": {"c": each}} for each in (1, 2)], "last": 3}
    assert picked_of(query, row) == wanted
    async with Pace().share() as share:
        answer = await answer_with_list(call(query), row, "rows", share)
    assert json.loads(bytes(answer.body)) == wanted
    async with Pace().share() as share:
        answer = await answer_with_list(call(), {**row, "rows": []}, "rows", share)
    assert json.loads(bytes(answer.body)) == {**row, "rows": []}


def picked_of(query: str, row: Row) -> Row:
    return dict(listing_module.picked_columns(call(query), row))


async def test_a_long_list_of_an_object_is_encoded_in_shares() -> None:
    """Its octets go out in pieces, and others have their turns meanwhile."""
    turns = 0
    is_done = False

    async def others() -> None:
        nonlocal turns
        while not is_done:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    rows = [{"tag": "x" * 100_000} for _ in range(30)]
    async with Pace(share_s=0).share() as share:
        answer = await answer_with_list(call(), {"name": "q", "rows": rows}, "rows", share)
    is_done = True
    await task
    assert turns >= len(rows)
    assert isinstance(answer, StreamingResponse)
    pieces = [bytes(cast("bytes", piece)) async for piece in answer.body_iterator]
    assert len(pieces) > 1
    assert json.loads(b"".join(pieces)) == {"name": "q", "rows": rows}


class Client:
    """What a server does with an answer; ``fails_at``: the piece at which the client has gone."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.held: list[int] = []
        self.octets = b""
        self.answers = BodiesInFlight()
        self._fails_at = fails_at

    async def receive(self) -> Any:
        await asyncio.Event().wait()

    async def send(self, message: Any) -> None:
        self.held.append(self.answers.held)
        if len(self.held) == self._fails_at:
            raise OSError("gone")
        self.octets += message.get("body", b"")

    async def read(self, items: list[bytes]) -> None:
        with self.answers.hold(100) as held:
            pieces = Pieces()
            for item in items:
                pieces.add_parts([item[:1], item[1:]])
                held.resize(pieces.size)
            answer = pieces.answer(b"[", b"]", held)
        scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
        await answer(scope, self.receive, self.send)


async def test_an_answer_is_held_until_it_is_sent() -> None:
    client = Client()
    await client.read([b"12", b"34"])
    assert client.octets == b"[12,34]"
    assert client.held == [4] * 6  # the head, four pieces and the end
    assert client.answers.held == 0


async def test_an_answer_whose_client_is_gone_is_not_held() -> None:
    client = Client(fails_at=3)
    with pytest.raises(ClientDisconnect):
        await client.read([b"12", b"34"])
    assert client.held == [4] * 3
    assert client.answers.held == 0
