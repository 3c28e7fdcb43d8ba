"""Octets as text: UTF-8 as it is, everything else in base64, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.octets import base64_of, octets_of_base64, text_or_base64


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
