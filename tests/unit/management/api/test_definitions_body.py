"""Files of definitions: read item by item, as a parser of the whole would, and out of forms."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hareline.management.api.definitions import definitions_in
from tests.support.examples import examples

FILE = {"rabbit_version": "3.10.8", "queues": [{"name": f"q{number}"} for number in range(50)]}
FORM = "multipart/form-data; boundary=x"


def read(octets: bytes, content_type: str = "application/json") -> tuple[Any, int]:
    """The value, and in how many steps it was read."""
    steps = definitions_in(octets, content_type)
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1


@pytest.mark.parametrize("indent", [None, 1])
def test_a_file_is_read_item_by_item(indent: int | None) -> None:
    found, steps = read(json.dumps(FILE, indent=indent).encode())
    assert found == FILE
    assert steps > 50


@pytest.mark.parametrize(
    "octets",
    [b"", b" {} ", b"[1]", b"null", b'\xef\xbb\xbf{"a": []}', '{"ü": [1, {}]}'.encode("utf-16")],
)
def test_whatever_json_there_is(octets: bytes) -> None:
    assert read(octets)[0] == (json.loads(octets) if octets else {})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=examples(0.3))
@given(st.dictionaries(st.text(), _JSON))
def test_any_object_comes_out_as_it_was(value: dict[str, Any]) -> None:
    assert read(json.dumps(value).encode())[0] == value


@given(st.text(alphabet='{}[]":,1 a\\', max_size=30))
def test_any_text_is_refused_where_a_parser_refuses_it(text: str) -> None:
    try:
        expected = json.loads(text or "{}")
    except ValueError:
        with pytest.raises(ValueError, match="definitions: not JSON"):
            read(text.encode())
    else:
        assert read(text.encode())[0] == expected


@pytest.mark.parametrize(
    ("octets", "problem"),
    [
        (b'{"a": "\\ud800"}', "body: a text in it is not Unicode"),
        (b'{"a": "\xff"}', "definitions: not JSON: 'utf-8' codec"),
        (b'{"a": ' + b"[" * 100_000, "definitions: not JSON: maximum recursion"),
        (b'{"a": ' + b"1" * 5_000 + b"}", "definitions: not JSON: Exceeds the limit"),
    ],
)
def test_what_is_wrong_is_said(octets: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read(octets)


def form(*parts: tuple[str, bytes]) -> bytes:
    return (
        b"".join(
            b"--x\r\n" + head.encode() + b"\r\n\r\n" + content + b"\r\n" for head, content in parts
        )
        + b"--x--\r\n"
    )


@pytest.mark.parametrize(
    "head",
    [
        'Content-Disposition: form-data; name="file"; filename="d.json"',
        "content-disposition: form-data; name=file",
        'Content-Type: text/plain\r\nContent-Disposition: form-data; filename="a"; name="file"',
    ],
)
def test_the_file_of_a_form(head: str) -> None:
    other = ('Content-Disposition: form-data; name="other"', b"--not the end")
    octets = form(other, (head, json.dumps(FILE).encode()))
    assert read(octets, FORM)[0] == FILE
    assert read(octets, 'Multipart/Form-Data; boundary="x"')[0] == FILE


@pytest.mark.parametrize(
    ("octets", "content_type", "problem"),
    [
        (b"{}", "multipart/form-data", "form: its Content-Type has no boundary"),
        (b"{}", FORM, "form: there is no part 'file'"),
        (b"--x\r\n\r\n{}\r\n--x--", FORM, "form: there is no part 'file'"),
        (b"--x\r\nContent-Disposition:\r\n\r\n{}\r\n--x--", FORM, "no part 'file'"),
        (form(('Content-Disposition: form-data; filename="file"', b"{}")), FORM, "no part"),
        (b"--x\r\nContent-Disposition: form-data; name=file\r\n\r\n{}", FORM, "no part 'file'"),
    ],
)
def test_a_form_without_a_file(octets: bytes, content_type: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read(octets, content_type)
