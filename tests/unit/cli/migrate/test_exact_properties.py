"""Properties octet by octet: what pika hands on, and the offset that is taken out of them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pika
import pytest

from hareline.cli.migrate.exact_properties import exact_properties, taken_offset

PLAIN: dict[str, Any] = {"content_type": "a/b", "content_encoding": "gzip", "priority": 3}
VALUES: dict[str, Any] = {
    "n": 1,
    "big": 1 << 40,
    "text": "grün",
    "octets": b"\xff",
    "flag": True,
    "none": None,
    "decimal": Decimal("1.5"),
    "time": datetime.fromtimestamp(1_700_000_000, UTC),
    "list": [1, "x", {"t": 1}],
    "table": {"a": {"b": None}},
}


def encoded(**fields: Any) -> bytes:
    return b"".join(pika.BasicProperties(**fields).encode())


@pytest.mark.parametrize("before", [{}, {"a": 1}, VALUES], ids=["first", "second", "last"])
@pytest.mark.parametrize("after", [{}, {"z": [1]}, VALUES], ids=["alone", "more", "many"])
@pytest.mark.parametrize("offset", [0, 5, 1 << 40])
def test_the_offset_is_taken_out_and_nothing_else(
    before: dict[str, Any], after: dict[str, Any], offset: int
) -> None:
    given = {**before, "x-stream-offset": offset, **after}
    left = {**before, **after}
    expected = encoded(**PLAIN, headers=left) if left else encoded(**PLAIN)
    assert taken_offset(encoded(**PLAIN, headers=given)) == (offset, expected)


def test_a_message_that_had_no_headers_has_none() -> None:
    assert taken_offset(encoded(headers={"x-stream-offset": 7})) == (7, encoded())


@pytest.mark.parametrize(
    "fields", [{}, {"headers": {"n": 1}}, {"headers": {"x-stream-offset": "a"}}]
)
def test_a_message_without_an_offset_is_an_error(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="without its offset"):
        taken_offset(encoded(**PLAIN, **fields))


def test_pika_hands_the_octets_on_while_it_is_asked_to() -> None:
    octets = encoded(**PLAIN, headers=VALUES)
    kind = pika.spec.props[pika.BasicProperties.INDEX]
    with exact_properties():
        found = pika.spec.props[pika.BasicProperties.INDEX]().decode(octets)
        assert b"".join(found.encode()) == octets
    assert pika.spec.props[pika.BasicProperties.INDEX] is kind
