"""Long texts cut out of JSON: what comes out is what a parser of the whole makes of it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.management.api import message_json
from hareline.management.api.message_json import LongText, Steps, T, cut_long_text


def finish(steps: Steps[T]) -> tuple[T, int]:
    """What the steps come to, and how many there were."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found, count
        count += 1


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts above 32 octets are long, and decoded 16 at a time."""
    monkeypatch.setattr(message_json, "LONG_BYTES", 32)
    monkeypatch.setattr(message_json, "PIECE_BYTES", 16)


def joined(steps: Steps[list[bytes]]) -> bytes:
    return b"".join(finish(steps)[0])


def cut(octets: bytes) -> tuple[Any, LongText | None]:
    (rest, text), _ = finish(cut_long_text(octets, "payload"))
    return json.loads(rest), text


LONG = 'a "quoted" \\ text\nof some length, \x00 and € and 😀 ' * 3


@pytest.mark.parametrize("is_ascii", [True, False])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_long_text_is_cut_out_and_decoded(is_ascii: bool, indent: int | None) -> None:
    whole = {"a": [{"payload": "x"}, '{"}'], "payload": LONG, "end": 'b\\"'}
    octets = json.dumps(whole, ensure_ascii=is_ascii, indent=indent).encode()
    rest, text = cut(octets)
    assert rest == {**whole, "payload": ""}
    assert text is not None
    decoded, steps = finish(text.decoded("strict"))
    assert b"".join(decoded).decode() == LONG
    assert steps > len(LONG) // 16


@pytest.mark.parametrize(
    "whole",
    [
        {"payload": "short", "other": "x" * 100},
        {"nested": {"payload": "x" * 100}},
        [{"payload": "x" * 100}],
        {"payloads": "x" * 100, "payload": None},
    ],
)
def test_other_texts_stay(whole: Any) -> None:
    assert cut(json.dumps(whole).encode()) == (whole, None)


@pytest.mark.parametrize("octets", [b'{"payload": "' + b"x" * 50, b'{"' + b"\\" * 99, b"x" * 50])
def test_what_is_no_json_is_left_to_the_parser(octets: bytes) -> None:
    assert finish(cut_long_text(octets, "payload"))[0] == (octets, None)


def test_what_stands_beside_a_text_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_json, "REST_BYTES", 64)
    octets = json.dumps({"payload": "x" * 100, "other": "y" * 100}).encode()
    with pytest.raises(ValueError, match="beside 'payload'"):
        finish(cut_long_text(octets, "payload"))


def test_many_quotes_are_looked_for_in_steps() -> None:
    octets = json.dumps({"payload": '"' * 10_000}).encode()
    (_, text), steps = finish(cut_long_text(octets, "payload"))
    assert steps >= 9
    assert text is not None
    assert joined(text.decoded("strict")) == b'"' * 10_000


@given(st.text(min_size=33))
def test_any_text_comes_out_as_the_parser_has_it(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_json, "LONG_BYTES", 32)
        patch.setattr(message_json, "PIECE_BYTES", 16)
        for is_ascii in (True, False):
            octets = json.dumps({"payload": text}, ensure_ascii=is_ascii).encode()
            _, found = cut(octets)
            assert found is not None
            assert joined(found.decoded("strict")) == text.encode()


@given(st.binary(min_size=33))
def test_any_octets_come_out_as_the_parser_has_them_or_not_at_all(octets: bytes) -> None:
    whole = b'"' + octets + b'"'
    try:
        expected = json.loads(whole.decode("utf-8", "surrogatepass"))
        expected = expected.encode() if isinstance(expected, str) else None
    except (ValueError, RecursionError):
        expected = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_json, "PIECE_BYTES", 16)
        try:
            found = joined(LongText(whole, 1, len(whole) - 1).decoded("strict"))
        except ValueError:
            assert expected is None
        else:
            assert found == expected


@pytest.mark.parametrize("length", [33, 34, 35, 100])
def test_base64(length: int) -> None:
    body = bytes(range(length))
    armored = base64.b64encode(body).decode()
    for text in (armored, armored.replace("/", "\\/")):
        octets = b'{"payload": "' + text.encode() + b'"}'
        found = cut(octets)[1]
        assert found is not None
        assert joined(found.from_base64()) == body


@pytest.mark.parametrize(
    "text", ["A" * 41, "AA==" * 11, "A" * 15 + "=" + "A" * 24, "€" * 20, "A" * 39 + "\\n"]
)
def test_what_is_not_base64_is_refused(text: str) -> None:
    found = cut(b'{"payload": "' + text.encode() + b'"}')[1]
    assert found is not None
    with pytest.raises(ValueError):
        finish(found.from_base64())
