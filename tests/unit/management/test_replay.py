"""What a request for a replay may say, and what is wrong with one that says otherwise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.management.answers import Refusal
from hareline.management.bodies import parse_body
from hareline.management.replay import ReplayRequest, _selector, _shown, instant_ms


def _parse(octets: bytes) -> ReplayRequest:
    return parse_body(ReplayRequest, octets)


GOOD = '{"queue": "q", "to_queue": "t", "from": 1, "to": 2}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-05T10:00:00Z", 1_767_607_200_000),
        ("2026-01-05T10:00:00.25Z", 1_767_607_200_250),
        ("2026-01-05T11:30:00+01:30", 1_767_607_200_000),
        ("20260105T100000Z", 1_767_607_200_000),
        ("2026-01-05 10:00Z", 1_767_607_200_000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1767607200000", 1_767_607_200_000),
        (1_767_607_200_000, 1_767_607_200_000),
        (0, 0),
    ],
)
def test_an_instant_is_milliseconds_or_iso_8601_with_a_zone(text: object, expected: int) -> None:
    assert instant_ms(text) == expected


@given(
    st.datetimes(
        min_value=datetime(1970, 1, 2),
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=-9, minutes=-30))]),
    )
)
def test_what_is_shown_of_an_instant_means_the_same_instant(instant: datetime) -> None:
    epoch_ms = instant_ms(instant.isoformat())
    shown = _shown(epoch_ms)
    assert shown is not None
    assert shown.endswith("Z")
    assert instant_ms(shown) == epoch_ms


def test_an_instant_that_no_calendar_has_is_shown_as_its_number() -> None:
    assert _shown(10**18) == str(10**18)
    assert _shown(None) is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("yesterday", "neither epoch milliseconds nor ISO 8601"),
        ("", "neither epoch milliseconds nor ISO 8601"),
        ("-5", "neither epoch milliseconds nor ISO 8601"),
        ("٣", "neither epoch milliseconds nor ISO 8601"),
        ("2026-01-05T10:00:00", "has no zone"),
        (1.5, "must be epoch milliseconds or ISO 8601 with a zone"),
        (True, "must be epoch milliseconds or ISO 8601 with a zone"),
        (None, "must be epoch milliseconds or ISO 8601 with a zone"),
    ],
)
def test_what_is_no_instant_says_what_it_should_be(value: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        instant_ms(value)


def test_a_request_needs_two_queues_and_a_span() -> None:
    wanted = _parse(GOOD.encode())
    assert (wanted.vhost, wanted.queue, wanted.to_queue) == ("/", "q", "t")
    assert (wanted.from_ms, wanted.to_ms) == (1, 2)
    assert (wanted.exchange, wanted.routing_key, wanted.selector, wanted.limit) == (None,) * 4


def _with(**fields: str) -> bytes:
    added = "".join(f', "{name}": {value}' for name, value in fields.items())
    return f"{GOOD[:-1]}{added}}}".encode()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "body: not JSON"),
        (b"{", "body: not JSON"),
        (b"[" * 60_000, "body: not JSON"),
        (b"\xff", "body: not JSON"),
        (b"[]", "body: not a JSON object"),
        (b"{}", "queue: Field required; from: Field required; to: Field required; to_queue: "),
        (_with(until="1"), "until: Extra inputs are not permitted"),
        (_with(queue="1"), "queue: should be a string"),
        (_with(exchange="[]"), "exchange: should be a string"),
        (_with(queue=f'"{"ü" * 128}"'), "queue: is longer than 255 octets"),
        (_with(queue='"\\ud800"'), "queue: has characters that are not allowed in a name"),
        (_with(limit="0"), "limit: Input should be greater than or equal to 1"),
        (_with(limit='"3"'), "limit: Input should be a valid integer"),
        (_with(to="-1"), "to: Input should be greater than or equal to 0"),
        (_with(**{"from": "null"}), "from: must be epoch milliseconds"),
        (_with(to="9" * 5000), "body: not JSON"),
    ],
)
def test_a_bad_request_names_the_field_and_what_is_wrong_with_it(body: bytes, reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        _parse(body)
    assert (refused.value.status, refused.value.error) == (400, "bad_request")
    assert refused.value.reason.startswith(reason)


def test_a_name_that_is_no_utf_8_can_be_asked_for() -> None:
    assert _parse(_with(queue='"caf\\udce9"')).queue == "caf\udce9"


@pytest.mark.parametrize("text", [None, "", "  "])
def test_no_selector_and_an_empty_one_select_everything(text: str | None) -> None:
    assert _selector(text) is None


def test_a_bad_selector_is_400_and_says_where() -> None:
    with pytest.raises(Refusal, match=r"selector: invalid selector: .* at the end") as refused:
        _selector("a =")
    assert refused.value.status == 400
