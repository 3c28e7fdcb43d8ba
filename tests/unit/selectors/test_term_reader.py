"""Erlang terms and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.selectors.error import SelectorError
from hareline.selectors.term_reader import (
    ATOMS,
    Atom,
    Binary,
    CharacterList,
    Group,
    Number,
    Term,
    read_term,
)


def bare(term: Term) -> object:
    """A term without its positions: lists and tuples, atoms as ("atom", name)."""
    match term:
        case Group(items, is_tuple, _):
            bared = [bare(item) for item in items]
            return tuple(bared) if is_tuple else bared
        case Atom(name, _):
            return ("atom", name)
        case CharacterList(text, _):
            return ("characters", text)
        case Binary(text, _):
            return text
        case Number(value, _):
            return value


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("true", ("atom", "true")),
        ("true.", ("atom", "true")),
        (" true . ", ("atom", "true")),
        ("'not_in'", ("atom", "not_in")),
        ("'<>'", ("atom", "<>")),
        ("'no\\_escape'", ("atom", "no_escape")),
        ("42.", 42),
        ("+7", 7),
        ("- 7", -7),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        (f"{'0' * 5000}1", 1),
        ("3.0", 3.0),
        ("1.57E12", 1.57e12),
        ("1.0e+3", 1000.0),
        ("-2.5E-3.", -0.0025),
        ("9223372036854775808.0", float(2**63)),
        ("<<>>", ""),
        ('<<"">>', ""),
        ('<< "a b" >>', "a b"),
        ('<<"São 😀">>', "São 😀"),
        ('<<"it\'s">>', "it's"),
        (r'<<"a\"b\\c\nd\te\rf\gh">>', 'a"b\\c\nd\te\rfgh'),
        ('<<"two\nlines">>', "two\nlines"),
        ('<<"%_!">>', "%_!"),
        ('<<">>.">>', ">>."),
        ('"abc"', ("characters", "abc")),
        ("{}", ()),
        ("[]", []),
        ("{ }", ()),
        ("{1,{2},[3,<<>>],{}}", (1, (2,), [3, ""], ())),
        ("{'=',{'ident',<<\"a\">>},-1}", (("atom", "="), (("atom", "ident"), "a"), -1)),
        (
            ' {\tident\n,\r<< "x" >> } . ',
            (("atom", "ident"), "x"),
        ),
        ("{1, 2}.", (1, 2)),
    ],
)
def test_a_text_is_this_term(text: str, term: object) -> None:
    found = bare(read_term(text))
    assert found == term
    assert type(found) is type(term)


@pytest.mark.parametrize("name", sorted(ATOMS))
def test_an_atom_is_known_with_quotes(name: str) -> None:
    assert read_term(f"'{name}'") == Atom(name, 0)


def test_terms_know_their_positions() -> None:
    term = read_term(" {'in', <<>>,[7]}")
    assert term == Group(
        (Atom("in", 2), Binary("", 8), Group((Number(7, 14),), False, 13)), True, 1
    )


@pytest.mark.parametrize(
    ("text", "problem", "position"),
    [
        ("", "expected a term", 0),
        (" .", "expected a term", 1),
        ("erlang", "an unknown atom `erlang`", 0),
        ("{'apply',1}", "an unknown atom `apply`", 1),
        ("{xor,1}", "an unknown atom `xor`", 1),
        ("true_", "an unknown atom `true_`", 0),
        ("{''}", "an unknown atom ``", 1),
        ("True", "expected a term", 0),
        ("_foo", "expected a term", 0),
        ("$a", "expected a term", 0),
        ("#Fun", "expected a term", 0),
        ("true..", "expected the end", 5),
        ("1 2", "expected the end", 2),
        ("{1}{2}", "expected the end", 3),
        ("{", "expected a term", 1),
        ("}", "expected a term", 0),
        ("{1", "expected , or }", 2),
        ("{1, ", "expected a term", 4),
        ("{1,}", "expected a term", 3),
        ("{,1}", "expected a term", 1),
        ("{1]", "expected , or }", 2),
        ("[1}", "expected , or ]", 2),
        ("[1|2]", "expected , or ]", 2),
        ("<<", "expected a text in double quotes or >>", 2),
        ("<<1,2>>", "expected a text in double quotes or >>", 2),
        ('<<"a"', "expected >>", 5),
        ('<<"a"/utf8>>', "expected >>", 5),
        ('<<"a', "expected a text in double quotes or >>", 2),
        ('"a', "the quote is not closed", 0),
        ("{'and", "the quote is not closed", 1),
        ("-", "expected a term", 0),
        ("-x", "expected a term", 0),
        (".5", "expected a term", 0),
        ("{1.}", "expected , or }", 2),
        ("{1e5}", "expected , or }", 2),
        ("{1.0e}", "expected , or }", 4),
        ("16#FF", "expected the end", 2),
        ("9.9e999", "a number beyond the range of a double", 0),
        ("9223372036854775808", "a number beyond 64 bits", 0),
        ("-9223372036854775809", "a number beyond 64 bits", 0),
        ("9" * 30_000, "a number beyond 64 bits", 0),
    ],
)
def test_what_is_no_term_is_explained(text: str, problem: str, position: int) -> None:
    with pytest.raises(SelectorError) as caught:
        read_term(text)
    assert (caught.value.problem, caught.value.position) == (problem, position)


@pytest.mark.parametrize("opening", ["{", "[", "{[", "{'not',", "{ 1 ,"])
def test_no_nesting_is_too_deep_to_be_read(opening: str) -> None:
    with pytest.raises(SelectorError, match="expected a term"):
        read_term(opening * 10_000)
    closings = "".join(["}" if bracket == "{" else "]" for bracket in opening if bracket in "{["])
    nested = opening * 5_000 + "1" + closings[::-1] * 5_000
    assert isinstance(read_term(nested), Group)


@given(st.text(alphabet="{}[]<>\"'.,\\ ein01-+tru_", max_size=40))
def test_any_text_is_a_term_or_an_error(text: str) -> None:
    try:
        read_term(text)
    except SelectorError as error:
        is_inside = 0 <= error.position <= len(text)
    else:
        is_inside = True
    assert is_inside
