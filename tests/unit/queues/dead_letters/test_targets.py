"""Where dead messages go for which reason, worked out from a queue's options."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.errors import PreconditionFailed
from hareline.message import Table
from hareline.queues.dead_letters.targets import Target, alternate_of, find_targets
from hareline.queues.declare.arguments import parse_queue_arguments


@pytest.mark.parametrize(
    ("options", "reasons"),
    [
        ({"exchange": "x"}, {"rejected", "expired", "maxlen", "delivery_limit"}),
        ({"default_exchange": "x"}, {"rejected", "expired", "maxlen", "delivery_limit"}),
        ({"alternate": "x"}, {"rejected", "delivery_limit", "deleted"}),
        ({"exchange": "x", "reasons": ["replaced", "maxlen"]}, {"replaced", "maxlen"}),
        ({"exchange": "x", "reasons": ["deleted", "maxlen"]}, {"maxlen"}),
        ({"default_exchange": "x", "reasons": ["replaced"]}, {"replaced"}),
        ({"alternate": "x", "reasons": ["replaced"]}, {"replaced", "deleted"}),
        ({"exchange": "x", "expiry_policy": "delete"}, {"rejected", "maxlen", "delivery_limit"}),
        (
            {"alternate": "x", "expiry_policy": "route-to-alternate"},
            {"rejected", "delivery_limit", "deleted", "expired"},
        ),
        (
            {"exchange": "x", "expiry_policy": "route-to-alternate"},
            {"rejected", "expired", "maxlen", "delivery_limit"},
        ),
        (
            {"exchange": "x", "alternate": "y"},
            {"rejected", "expired", "maxlen", "delivery_limit", "deleted"},
        ),
        ({"alternate": "x", "default_exchange": "y"}, {"rejected", "delivery_limit", "deleted"}),
        ({}, set()),
        ({"expiry_policy": "route-to-alternate"}, set()),
    ],
)
def test_which_deaths_are_published(options: dict[str, Any], reasons: set[str]) -> None:
    assert set(find_targets("q", "/", **options)) == reasons


def test_an_exchange_gets_the_given_key_or_keeps_the_messages_own() -> None:
    assert find_targets("q", "/", exchange="x")["maxlen"] == (Target("x", None),)
    assert find_targets("q", "/", exchange="x", routing_key="k")["maxlen"] == (Target("x", "k"),)


def test_an_alternate_is_an_exchange_or_else_a_queue() -> None:
    both = (Target("a", None), Target("", "a"))
    assert find_targets("q", "/", alternate="a")["rejected"] == both
    assert find_targets("q", "/", exchange="x", alternate="a")["deleted"] == both


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("q", "q.rejected"),
        ("q" * 255, "q" * 246 + ".rejected"),
        ("\u00e9" * 127, "\u00e9" * 123 + ".rejected"),
        ("\udcff", "\udcff.rejected"),
    ],
)
def test_the_key_for_the_default_exchange_is_queue_and_reason(name: str, key: str) -> None:
    targets = find_targets(name, "/", default_exchange="dlx")
    assert targets["rejected"] == (Target("dlx", key, is_default=True),)


@pytest.mark.parametrize(
    ("options", "copied"),
    [
        ({}, set()),
        ({"exchange": "x"}, {"rejected", "expired", "maxlen", "delivery_limit"}),
        ({"exchange": "x", "reasons": ["replaced", "deleted"]}, {"replaced"}),
        ({"exchange": "x", "expiry_policy": "delete"}, {"rejected", "maxlen", "delivery_limit"}),
        ({"alternate": "a"}, {"rejected", "expired", "maxlen", "delivery_limit", "deleted"}),
    ],
)
def test_copies_of_what_dies_in_queues_with_a_target_of_their_own(
    options: dict[str, Any], copied: set[str]
) -> None:
    before = find_targets("q", "/", default_exchange="dlx", **options)
    targets = find_targets("q", "/", default_exchange="dlx", has_copies=True, **options)
    copies = {reason for reason, found in targets.items() if found[0].is_copy}
    assert copies == copied
    for reason in copied:
        copy = Target("dlx", f"q.{reason}", is_default=True, is_copy=True)
        assert targets[reason] == (copy, *before.get(reason, ()))
    assert {each: targets[each] for each in targets.keys() - copied} == {
        each: before[each] for each in before.keys() - copied
    }


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("exchange", "dead-letter exchange of queue 'q' in vhost '/' is longer than 255 octets"),
        ("routing_key", "dead-letter routing key of queue 'q'"),
        ("alternate", "alternate binding of queue 'q'"),
        ("default_exchange", "default dead-letter exchange of queue 'q'"),
    ],
)
def test_a_name_that_fits_no_short_string_is_refused(option: str, words: str) -> None:
    options: dict[str, Any] = {"exchange": "x", option: "é" * 128}
    with pytest.raises(PreconditionFailed, match=words):
        find_targets("q", "/", **options)
    options[option] = "n" * 255
    find_targets("q", "/", **options)


@pytest.mark.parametrize(
    ("arguments", "alternate"),
    [
        ({}, None),
        ({"x-dlq-auto": False}, None),
        ({"x-dlq-auto": True}, "q_DLQ"),
        ({"x-qpid-dlq-enabled": "true"}, "q_DLQ"),
        ({"x-dlq-auto": True, "alternateExchange": "other"}, "other"),
    ],
)
def test_the_alternate_binding_of_arguments(
    arguments: dict[str, object], alternate: str | None
) -> None:
    parsed = parse_queue_arguments(Table(arguments), queue="q", vhost="/")
    assert alternate_of(parsed, "q") == alternate
