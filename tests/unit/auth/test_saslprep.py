"""SASLprep: RFC 4013's examples, and what it prohibits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.auth.scram import saslprep


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("I\u00adX", "IX"),  # RFC 4013 section 3, its five examples up to the errors
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),  # a space that is not ASCII's
        ("e\u0301", "é"),
        ("\u0627\u0644\u0641", "\u0627\u0644\u0641"),  # right to left throughout
        ("\u00ad", ""),
        ("", ""),
    ],
)
def test_text_is_mapped_and_normalized(text: str, prepared: str) -> None:
    assert saslprep(text) == prepared


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("\u0007", "U\\+0007 is prohibited"),  # RFC 4013 section 3
        ("\u0627\u0031", "begin and end"),  # RFC 4013 section 3
        ("a\tb", "U\\+0009 is prohibited"),
        ("a\x7f", "U\\+007F is prohibited"),
        ("\u0627a\u0627", "both directions"),
        ("\ue000", "U\\+E000 is prohibited"),
        ("\ufffd", "U\\+FFFD is prohibited"),
        ("\u200e", "U\\+200E is prohibited"),
        ("\U000e0001", "U\\+E0001 is prohibited"),
    ],
)
@pytest.mark.parametrize("is_query", [True, False])
def test_what_is_prohibited_is_named(text: str, why: str, is_query: bool) -> None:
    with pytest.raises(ValueError, match=why):
        saslprep(text, is_query=is_query)


def test_what_unicode_3_2_did_not_have_may_be_asked_for_but_not_stored() -> None:
    emoji = "\U0001f600"
    assert saslprep(emoji, is_query=True) == emoji
    with pytest.raises(ValueError, match=r"U\+1F600 is not assigned"):
        saslprep(emoji)


@given(st.text())
def test_what_is_prepared_is_its_own_preparation(text: str) -> None:
    try:
        prepared = saslprep(text, is_query=True)
    except ValueError:
        return
    assert saslprep(prepared, is_query=True) == prepared


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_printable_ascii_stays_as_it_is(text: str) -> None:
    assert saslprep(text) == text
