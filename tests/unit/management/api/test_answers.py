"""Answers: JSON, no content, refusals, and what AMQP's errors become."""

from __future__ import annotations

import pytest

from hareline.errors import (
    AccessRefused,
    AmqpError,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)
from hareline.management.answers import (
    amqp_refusal,
    answer,
    created,
    instant,
    no_content,
    not_found,
)


@pytest.mark.parametrize(
    ("error", "status", "word", "reason"),
    [
        (NotFound("no queue 'q'"), 404, "not_found", "NOT_FOUND - no queue 'q'"),
        (AccessRefused("no"), 401, "not_authorised", "ACCESS_REFUSED - no"),
        (NotAllowed("no"), 401, "not_authorised", "NOT_ALLOWED - no"),
        (PreconditionFailed("bad"), 400, "bad_request", "406 PRECONDITION_FAILED - bad"),
        (ResourceLocked("bad"), 400, "bad_request", "405 RESOURCE_LOCKED - bad"),
    ],
)
def test_errors_of_amqp_have_the_statuses_of_rabbitmq(
    error: AmqpError, status: int, word: str, reason: str
) -> None:
    refusal = amqp_refusal(error)
    assert (refusal.status, refusal.error, refusal.reason) == (status, word, reason)


def test_answers_without_a_body() -> None:
    made = created("q/props")
    assert (made.status_code, made.body, made.headers["location"]) == (201, b"", "q/props")
    assert "location" not in created().headers
    assert (no_content().status_code, no_content().body) == (204, b"")


def test_an_answer_has_its_status_and_headers() -> None:
    made = answer([1], 503, {"Retry-After": "5"})
    assert (made.status_code, made.body, made.headers["retry-after"]) == (503, b"[1]", "5")
    assert made.headers["content-type"] == "application/json"


def test_what_is_missing_is_named_as_in_rabbitmq() -> None:
    assert (not_found().error, not_found().reason) == ("Object Not Found", "Not Found")
    assert not_found("no user 'x'").error == "not_found"


def test_an_instant_has_milliseconds_and_a_zone() -> None:
    assert instant(1_700_000_000_123) == "2023-11-14T22:13:20.123+00:00"
