"""The comparison of answers tells what differs, once, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from .answer_shapes import Answered, differences


def told(ours: Any, theirs: Any) -> list[str]:
    return list(differences(Answered(200, ours, {}), Answered(200, theirs, {})))


def test_the_same_keys_with_other_numbers_are_no_difference() -> None:
    ours = [{"a": 1, "b": {"c": "x"}, "d": []}, {"a": 2.5, "e": None}]
    theirs = [{"a": 7, "b": {"c": "y"}, "d": []}, {"a": 0, "e": None}]
    assert told(ours, theirs) == []


@pytest.mark.parametrize(
    ("ours", "theirs", "lines"),
    [
        ({"a": {"b": 1}}, {}, ["a: only Hareline"]),
        ([{"a": 1}], [{"a": 1}, {"b": {"c": [{"d": 1}]}}], ["each.b: only RabbitMQ"]),
        ({"a": 1}, {"a": "1"}, ["a: number, RabbitMQ text"]),
        ({"a": True}, {"a": 1}, ["a: boolean, RabbitMQ number"]),
        ({"a": []}, {"a": {}}, ["a: array, RabbitMQ object"]),
        ([], [{"a": 1}], ["each: only RabbitMQ"]),
        ({"state": "running"}, {"state": "idle"}, ["state: 'running', RabbitMQ 'idle'"]),
        ({"tags": ["a", "b"]}, {"tags": ["b"]}, ["tags.each: 'a' 'b', RabbitMQ 'b'"]),
    ],
)
def test_a_difference_is_told_by_its_place(ours: Any, theirs: Any, lines: list[str]) -> None:
    assert told(ours, theirs) == lines


def test_refusals_are_compared_as_a_whole() -> None:
    ours = Answered(404, {"error": "x", "reason": "y"}, {"allow": "GET"})
    theirs = Answered(404, {"error": "x", "reason": "z"}, {})
    assert list(differences(ours, theirs)) == [
        "header allow 'GET', RabbitMQ none",
        "reason 'y', RabbitMQ 'z'",
    ]
    other = Answered(404, {"error": "other", "reason": "y"}, {"allow": "GET"})
    assert list(differences(ours, other)) == [
        "body {'error': 'x', 'reason': 'y'}, RabbitMQ {'error': 'other', 'reason': 'y'}"
    ]
    empty = Answered(404, None, {"allow": "GET"})
    assert list(differences(ours, empty)) == ["body {'error': 'x', 'reason': 'y'}, RabbitMQ None"]


def test_where_statuses_differ_that_is_all_that_is_told() -> None:
    assert list(differences(Answered(200, {"a": 1}, {}), Answered(404, {"b": 1}, {}))) == [
        "status 200, RabbitMQ 404"
    ]
