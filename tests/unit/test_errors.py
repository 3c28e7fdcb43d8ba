"""Errors and the replies they become."""

from __future__ import annotations

import inspect

import pytest

from hareline import errors
from hareline.errors import (
    AmqpError,
    ChannelException,
    ConfigurationError,
    ConnectionException,
    ListenError,
    NotFound,
    within_short_string,
)

CLASSES = [each for _, each in inspect.getmembers(errors, inspect.isclass)]
REPLIES = [each for each in CLASSES if issubclass(each, ChannelException | ConnectionException)]


def test_a_reply_text_has_the_name_of_the_code_and_the_explanation() -> None:
    error = NotFound("no queue 'q' in vhost '/'")
    assert error.reply_text == "NOT_FOUND - no queue 'q' in vhost '/'"
    assert (error.reply_code, error.scope) == (404, "channel")
    assert (error.class_id, error.method_id) == (None, None)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("x" * 255, "x" * 255),
        ("x" * 256, "x" * 252 + "..."),
        ("ä" * 128, "ä" * 126 + "..."),  # 252 octets, and no half of a character
        ("x" + "ä" * 128, "x" + "ä" * 125 + "..."),
        ("queue '\udcff'", "queue '?'"),  # an octet of a client that is not UTF-8
        ("\ud800" * 300, "?" * 252 + "..."),
    ],
)
def test_a_long_text_is_cut_to_a_short_string(text: str, cut: str) -> None:
    assert within_short_string(text) == cut
    assert len(within_short_string(text).encode()) <= 255


@pytest.mark.parametrize("error", REPLIES, ids=lambda each: each.__name__)
def test_every_reply_has_a_code_and_a_name_of_its_own_and_stands_in_the_tree(
    error: type[AmqpError],
) -> None:
    assert error.__name__ in (errors.__doc__ or "") or error is errors.UnknownFrameType
    if error in (ChannelException, ConnectionException):
        return
    assert 311 <= error.reply_code <= 541
    same = {each.reply_name for each in REPLIES[:] if each.reply_code == error.reply_code}
    assert same - {"INTERNAL_ERROR"} <= {error.reply_name}


def test_problems_are_one_text_for_who_sees_only_that() -> None:
    assert str(ConfigurationError(["a: wrong", "b: wrong"])) == "a: wrong\nb: wrong"
    error = ListenError([("listener.port", "in use"), ("management.port", "in use")])
    assert str(error) == "listener.port: in use; management.port: in use"
    assert isinstance(error, OSError)
