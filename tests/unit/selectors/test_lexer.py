from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.selectors.error import SelectorError
from hareline.selectors.lexer import KEYWORDS, Token, is_name, tokens_of


def only_token(text: str) -> Token:
    token, end = tokens_of(text)
    assert (token.position, token.end) == (0, len(text))
    assert end == Token("end", "", len(text), len(text))
    return token


def test_every_token_knows_where_it_was_read() -> None:
    assert tokens_of(" a >=\n'it''s' /* x */ 5.5)") == [
        Token("name", "a", 1, 2),
        Token("operator", ">=", 3, 5),
        Token("text", "it's", 6, 13),
        Token("approximate", "", 22, 25, 5.5),
        Token("operator", ")", 25, 26),
        Token("end", "", 26, 26),
    ]


@pytest.mark.parametrize("word", sorted(KEYWORDS))
def test_keywords_are_known_in_any_case(word: str) -> None:
    for written in (word, word.lower(), word.title(), word[0].lower() + word[1:]):
        assert only_token(written)[:2] == ("keyword", word)
    assert only_token(f'"{word}"')[:2] == ("name", word)
    assert only_token(f"{word}_")[:2] == ("name", f"{word}_")


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "A1",
        "_",
        "$",
        "$a_1$",
        "JMSXGroupID",
        "größe",
        "日本",
        "Ⅷ",  # a letter number
        "€uro",
        "a‿b",  # connecting punctuation
        "x٣",  # a digit of another script
        "e\u0301",  # a combining mark
        "\u0131s",  # its capitals are IS, and still it is no keyword
        "ANDROID",
        "nota",
        "L5",
    ],
)
def test_names_follow_javas_rules(name: str) -> None:
    assert only_token(name)[:2] == ("name", name)
    assert is_name(name)


@pytest.mark.parametrize("text", ["", "1a", "a b", "a-b", "a.b", "and", "NULL", "\u0301a", "²"])
def test_what_needs_quotes_is_no_name_without_them(text: str) -> None:
    assert not is_name(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('"a.b"', "a.b"),
        ('"a b"', "a b"),
        ('"say ""hi"""', 'say "hi"'),
        ('""""', '"'),
        ('"it\'s"', "it's"),
        ('" "', " "),
        ('"x\ny"', "x\ny"),
        ('"/* -- */"', "/* -- */"),
    ],
)
def test_quoted_names_hold_anything(text: str, name: str) -> None:
    assert only_token(text)[:2] == ("name", name)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("''", ""),
        ("'a'", "a"),
        ("''''", "'"),
        ("'it''s'", "it's"),
        ("'''a'''", "'a'"),
        ("'\"'", '"'),
        ("'\\'", "\\"),
        ("'a\nb'", "a\nb"),
        ("'/* -- */'", "/* -- */"),
        ("'😀'", "😀"),
        ("'\udcff'", "\udcff"),
    ],
)
def test_texts_hold_anything(text: str, value: str) -> None:
    assert only_token(text)[:2] == ("text", value)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("00", 0),
        ("7", 7),
        ("57", 57),
        ("57l", 57),
        ("57L", 57),
        ("017", 15),
        ("017L", 15),
        ("0x1F", 31),
        ("0X1f", 31),
        ("0xFFl", 255),
        ("0xFFFFFFFF", 4_294_967_295),
        ("0x7FFFFFFFFFFFFFFF", 2**63 - 1),
        ("0777777777777777777777", 2**63 - 1),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", 2**63),  # the parser sees to its minus
        ("0x" + "0" * 5000 + "A", 10),
        ("0" * 5000 + "7", 7),
    ],
)
def test_exact_numbers(text: str, number: int) -> None:
    token = only_token(text)
    assert token.kind == "exact"
    assert token.number == number
    assert type(token.number) is int


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7.", 7.0),
        ("7.5", 7.5),
        (".5", 0.5),
        ("7E3", 7000.0),
        ("7e3", 7000.0),
        ("7.5E-3", 0.0075),
        ("7.E+3", 7000.0),
        (".5e1", 5.0),
        ("09.5", 9.5),
        ("09e0", 9.0),
        ("7D", 7.0),
        ("7d", 7.0),
        ("7.5D", 7.5),
        ("7F", 7.0),
        ("0D", 0.0),
        ("08F", 8.0),
        ("1.1f", 1.100000023841858),
        ("1.1F", 1.100000023841858),
        ("1.1", 1.1),
        ("1e308", 1e308),
        ("1e-400", 0.0),
    ],
)
def test_approximate_numbers(text: str, number: float) -> None:
    token = only_token(text)
    assert token.kind == "approximate"
    assert token.number == number
    assert type(token.number) is float


@pytest.mark.parametrize("operator", [*"=<>+-*/%(),", "<>", "<=", ">="])
def test_operators(operator: str) -> None:
    assert only_token(operator)[:2] == ("operator", operator)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("a<=b", ["name", "operator", "name"]),
        ("a=-1", ["name", "operator", "operator", "exact"]),
        ("a--1", ["name", "operator", "operator", "exact"]),
        ("a--1\n", ["name"]),
        ("a--1\r", ["name"]),
        ("a--1\n+1", ["name", "operator", "exact"]),
        ("a/**/b", ["name", "name"]),
        ("a/***/b", ["name", "name"]),
        ("a/* /* */b", ["name", "name"]),
        ("a/* -- */b", ["name", "name"]),
        ("a-- /* \n b", ["name", "name"]),
        (" \t\r\n\f", []),
        ("1-1", ["exact", "operator", "exact"]),
        ("1.5.5", ["approximate", "approximate"]),
        ("'a''b'", ["text"]),
        ("'a' 'b'", ["text", "text"]),
        ("'a'and'b'", ["text", "keyword", "text"]),
    ],
)
def test_where_tokens_begin_and_end(text: str, kinds: list[str]) -> None:
    assert [token.kind for token in tokens_of(text)] == [*kinds, "end"]


@pytest.mark.parametrize(
    ("text", "problem", "position"),
    [
        ("a = 'x", "the quote is not closed", 4),
        ("a = 'x''", "the quote is not closed", 4),
        ("'", "the quote is not closed", 0),
        ('"a', "the double quote is not closed", 0),
        ('a = "b""', "the double quote is not closed", 4),
        ('""', "a name has at least one character", 0),
        ("a /* b", "the comment is not closed", 2),
        ("a /*/", "the comment is not closed", 2),
        ("a.b = 1", "a name with dots needs double quotes", 0),
        ("x = a.5", "a name with dots needs double quotes", 4),
        ("a = .", "a name with dots needs double quotes", 4),
        ("a != 1", "'not equal' is written <>", 2),
        ("a = 1;", "a selector is one condition without a semicolon", 5),
        ("a && b", "join conditions with AND", 2),
        ("a || b", "join conditions with OR", 2),
        ("a = #", "a character that is allowed only in quotes", 4),
        ("a\xa0= 1", "a character that is allowed only in quotes", 1),
        ("a = \x00", "a character that is allowed only in quotes", 4),
        ("{a}", "a character that is allowed only in quotes", 0),
        ("5a", "a number followed by `a`", 0),
        ("5AND", "a number followed by `A`", 0),
        ("5.5x", "a number followed by `x`", 0),
        ("5e", "a number followed by `e`", 0),
        ("5LL", "a number followed by `L`", 0),
        ("5days", "a number followed by `a`", 0),
        ("0x", "a number followed by `x`", 0),
        ("0xG", "a number followed by `x`", 0),
        ("5_000", "a number followed by `_`", 0),
        ("09", "a number that begins with 0 is octal and has no 8 or 9", 0),
        ("a = 018", "a number that begins with 0 is octal and has no 8 or 9", 4),
        ("9223372036854775809", "a number beyond 64 bits", 0),
        ("0x8000000000000001", "a number beyond 64 bits", 0),
        ("9" * 5000, "a number beyond 64 bits", 0),
        ("0x" + "F" * 5000, "a number beyond 64 bits", 0),
        ("1e309", "a number beyond the range of its type", 0),
        ("1e39F", "a number beyond the range of its type", 0),
        ("9" * 5000 + ".0", "a number beyond the range of its type", 0),
    ],
)
def test_what_is_no_token_is_explained(text: str, problem: str, position: int) -> None:
    with pytest.raises(SelectorError) as caught:
        tokens_of(text)
    assert (caught.value.problem, caught.value.position) == (problem, position)
    assert caught.value.selector == text


def test_an_error_names_the_problem_and_the_place() -> None:
    with pytest.raises(SelectorError) as caught:
        tokens_of("color = 'red' & size > 3 and something else")
    assert str(caught.value) == (
        "invalid selector: join conditions with AND, at character 15,"
        " near `& size > 3 and someth...`"
    )
    assert str(SelectorError("expected )", "(a", 2)) == ("invalid selector: expected ), at the end")


@given(st.text())
def test_any_text_has_tokens_or_a_selector_error(text: str) -> None:
    try:
        tokens = tokens_of(text)
    except SelectorError as error:
        position = error.position
    else:
        assert tokens[-1] == Token("end", "", len(text), len(text))
        assert all(before.end <= token.position for before, token in pairwise(tokens))
        position = tokens[-1].position
    assert 0 <= position <= len(text)


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=0))
def test_a_double_is_read_as_python_writes_it(number: float) -> None:
    token = only_token(repr(number))
    assert token.number == number
    assert math.copysign(1, token.number) == 1
