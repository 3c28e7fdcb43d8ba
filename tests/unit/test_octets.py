"""Octets as text: UTF-8 as it is, everything else in base64, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.octets import (
    NOT_UTF8,
    base64_of,
    exact,
    octets_of_base64,
    readable,
    readable_octets,
    restored,
    text_or_base64,
    with_texts,
)


@given(st.binary())
def test_octets_come_back(octets: bytes) -> None:
    assert octets_of_base64(base64_of(octets)) == octets
    text, is_base64 = text_or_base64(octets)
    assert (octets_of_base64(text) if is_base64 else text.encode()) == octets


def test_only_what_is_no_text_is_in_base64() -> None:
    assert text_or_base64("grün".encode()) == ("grün", False)
    assert text_or_base64(b"\xff") == ("/w==", True)


@pytest.mark.parametrize("text", ["!", "/w=", "ü"])
def test_what_is_no_base64_is_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"^not valid base64$"):
        octets_of_base64(text)


def test_a_text_that_is_not_utf_8_has_the_form_of_rabbitmq() -> None:
    """Compared with what RabbitMQ 3.10 answers for the same octets."""
    long = f"{NOT_UTF8}{'/' * 76}\n{'/' * 30}8="
    assert readable("grün") == "grün"
    assert readable("\udcff\udcfe") == readable_octets(b"\xff\xfe") == f"{NOT_UTF8}//4="
    assert readable_octets(b"\xff" * 80) == long
    assert restored(long) == "\udcff" * 80


@given(st.binary())
def test_an_exact_text_is_restored(octets: bytes) -> None:
    for text in (octets.decode("utf-8", "surrogateescape"), NOT_UTF8 + base64_of(octets)):
        written = exact(text)
        written.encode()
        assert restored(written) == text


@pytest.mark.parametrize("text", ["text", NOT_UTF8 + "!", "grün"])
def test_any_other_text_is_restored_as_it_is(text: str) -> None:
    assert restored(text) == text


def test_texts_and_keys_are_changed_at_every_depth() -> None:
    value = {"\udcff": [1, "\udcff", {"a": b"\xff"}, None], "n": 1.5}
    form = f"{NOT_UTF8}/w=="
    assert with_texts(value, exact) == {form: [1, form, {"a": form}, None], "n": 1.5}
