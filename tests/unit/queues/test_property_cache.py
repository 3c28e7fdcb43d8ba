"""Worked out once for each set of property octets, and never more than a bounded number kept."""

from __future__ import annotations

import pytest

from hareline.message import Message
from hareline.queues.core.property_cache import ENTRIES_MAX, OCTETS_MAX, PropertyCache
from tests.support.messages import make_message


class Reader:
    """Reads the message id, and notes for whom it was asked."""

    def __init__(self) -> None:
        self.asked: list[Message] = []

    def __call__(self, message: Message) -> str | None:
        self.asked.append(message)
        return message.properties.message_id


@pytest.fixture
def read() -> Reader:
    return Reader()


def test_equal_properties_are_read_once(read: Reader) -> None:
    cache = PropertyCache(read)
    one, two = make_message(b"one", message_id="a"), make_message(b"two", message_id="a", channel=9)
    assert [cache(one), cache(two), cache(one)] == ["a", "a", "a"]
    assert read.asked == [one]


def test_different_properties_have_values_of_their_own(read: Reader) -> None:
    cache = PropertyCache(read)
    assert cache(make_message(message_id="a")) == "a"
    assert cache(make_message(message_id="b")) == "b"


def test_none_is_a_value_like_any_other(read: Reader) -> None:
    cache = PropertyCache(read)
    assert cache(make_message()) is None
    assert cache(make_message()) is None
    assert len(read.asked) == 1


def test_long_properties_are_read_each_time(read: Reader) -> None:
    cache = PropertyCache(read)
    at_the_limit = make_message(message_id="x" * (200), app_id="y" * (OCTETS_MAX - 204))
    above = make_message(message_id="x" * 200, app_id="y" * 60)
    assert len(at_the_limit.property_octets) == OCTETS_MAX < len(above.property_octets)
    for message in (at_the_limit, at_the_limit, above, above):
        assert cache(message) == message.properties.message_id
    assert read.asked == [at_the_limit, above, above]
    assert len(cache) == 1


def test_it_starts_anew_when_it_is_full(read: Reader) -> None:
    cache = PropertyCache(read)
    messages = [make_message(message_id=str(number)) for number in range(ENTRIES_MAX + 1)]
    for message in messages[:-1]:
        cache(message)
    assert len(cache) == ENTRIES_MAX
    assert cache(messages[-1]) == str(ENTRIES_MAX)
    assert len(cache) == 1
    assert cache(messages[0]) == "0"
    assert len(read.asked) == ENTRIES_MAX + 2


def test_an_error_is_passed_on_and_not_remembered() -> None:
    problems = [ValueError("first"), ValueError("second")]

    def read(message: Message) -> str:
        raise problems.pop(0)

    cache = PropertyCache(read)
    for name in ("first", "second"):
        with pytest.raises(ValueError, match=name):
            cache(make_message())
