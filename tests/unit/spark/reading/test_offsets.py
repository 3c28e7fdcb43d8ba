"""The offset of a query has one text, and gives back what was put into it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.spark.errors import InvalidOption
from hareline.spark.reading.offsets import Position, from_json, to_json

positions = st.dictionaries(
    st.text(), st.builds(Position, st.text(min_size=1), st.integers(0, 1 << 63))
)


@given(vhost=st.text(), there=positions)
def test_positions_come_back(vhost: str, there: dict[str, Position]) -> None:
    text = json.dumps(to_json(vhost, there))
    assert from_json(vhost, json.loads(text)) == there


@given(there=positions)
def test_the_order_of_streams_does_not_change_the_text(there: dict[str, Position]) -> None:
    backwards = dict(reversed(there.items()))
    assert json.dumps(to_json("/", there)) == json.dumps(to_json("/", backwards))


def test_the_text_is_that_of_the_page() -> None:
    assert json.dumps(to_json("/", {"b": Position("x", 2), "a": Position("y", 1)})) == (
        '{"v": 1, "q": {"//a": {"i": "y", "o": 1}, "//b": {"i": "x", "o": 2}}}'
    )


@pytest.mark.parametrize(
    ("offset", "why"),
    [
        ({"v": 2, "q": {}}, "offsets of version 2"),
        ({"q": {}}, "offsets of version None"),
        ({"v": 1}, "did not write"),
        ({"v": 1, "q": {"/a": 5}}, "did not write"),
        ({"v": 1, "q": {"/a": {"i": "x"}}}, "did not write"),
        ({"v": 1, "q": {"other/a": {"i": "x", "o": 1}}}, "'other/a' and the url has .* ''"),
    ],
)
def test_a_foreign_checkpoint_is_refused(offset: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidOption, match=f"{why}.*another checkpointLocation"):
        from_json("", offset)
