"""NAME=VALUE and JSON of a command line."""

from __future__ import annotations

import pytest

from hareline.cli.command import json_object, pairs, typed_pairs
from hareline.cli.failures import CommandFailed, ExitStatus


def test_a_value_is_json_where_it_can_be() -> None:
    texts = ["a=1", "b=x=y", 'c="1"', "d=true", 'e={"f": [1]}', "g=", "h=NaN"]
    assert typed_pairs(texts, "-a") == {
        "a": 1,
        "b": "x=y",
        "c": "1",
        "d": True,
        "e": {"f": [1]},
        "g": "",
        "h": "NaN",
    }


@pytest.mark.parametrize("text", ["a", "=1", ""])
def test_what_is_no_pair_is_a_usage_error(text: str) -> None:
    with pytest.raises(CommandFailed, match=f"-a: '{text}' is not NAME=VALUE") as caught:
        pairs([text], "-a")
    assert caught.value.status is ExitStatus.USAGE


@pytest.mark.parametrize("text", ["{", "[1]", "1"])
def test_what_is_no_object_is_a_usage_error(text: str) -> None:
    with pytest.raises(CommandFailed, match="DEFINITION: "):
        json_object(text, "DEFINITION")
    assert json_object('{"a": 1}', "DEFINITION") == {"a": 1}
