"""Which requests count as another site's, and what every answer says to browsers."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from hareline.management.middleware import API_HEADERS, HEADERS, Protection, foreign_origin

Headers = dict[str, str]


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", {}),
        ("PUT", {}),
        ("DELETE", {"sec-fetch-site": "same-origin"}),
        ("PUT", {"sec-fetch-site": "none"}),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}),
        ("PUT", {"origin": "http://broker:15672", "host": "broker:15672"}),
        ("GET", {"origin": "http://evil.example", "host": "broker:15672"}),
    ],
)
def test_programs_own_pages_and_links_may_ask(method: str, headers: Headers) -> None:
    assert foreign_origin(method, headers) == ""


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("PUT", {"sec-fetch-site": "cross-site"}),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}),
        ("POST", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}),
        ("POST", {"sec-fetch-site": "same-site"}),
        ("POST", {"origin": "http://evil.example", "host": "broker:15672"}),
        ("POST", {"origin": "http://broker:8080", "host": "broker:15672"}),
        ("DELETE", {"origin": "null", "host": "broker:15672"}),
        ("DELETE", {"origin": "http://[", "host": "broker:15672"}),
    ],
)
def test_pages_of_other_sites_may_not(method: str, headers: Headers) -> None:
    assert "page of another site" in foreign_origin(method, headers)


async def call(path: str, headers: Headers, answer: Response, method: str = "POST") -> Any:
    """Status, headers and body of a request that goes through the protection."""
    sent: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(scope, receive, send)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "raw_path": path.encode(),
        "path": unquote(path),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    await Protection(app)(scope, receive, send)
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, sent[1]["body"]


async def test_a_refused_request_does_not_reach_the_routes() -> None:
    status, headers, body = await call(
        "/api/queues", {"sec-fetch-site": "cross-site"}, Response("reached")
    )
    assert status == 403
    assert json.loads(body)["error"] == "cross_site"
    assert headers["x-frame-options"] == "DENY"


async def test_answers_have_all_headers_and_those_of_the_api_are_not_cached() -> None:
    status, headers, body = await call("/api/queues", {}, Response("reached"))
    assert (status, body) == (200, b"reached")
    for name, value in API_HEADERS.items():
        assert headers[name.lower()] == value
    assert "access-control-allow-origin" not in headers
    _, headers, _ = await call("/ui/", {}, Response("page"))
    assert "cache-control" not in headers
    assert headers["content-security-policy"] == HEADERS["Content-Security-Policy"]


async def test_a_header_that_a_route_has_set_stays() -> None:
    page = Response("page", headers={"Content-Security-Policy": "default-src 'self'"})
    _, headers, _ = await call("/ui/", {}, page)
    assert headers["content-security-policy"] == "default-src 'self'"


async def test_pages_outside_of_the_api_may_be_linked_to() -> None:
    status, _, body = await call("/", {"sec-fetch-site": "cross-site"}, Response("page"), "GET")
    assert (status, body) == (200, b"page")


def spellings(path: str) -> st.SearchStrategy[str]:
    """The path with any of its characters as "%61"."""
    either = [st.sampled_from([each, f"%{ord(each):02x}", f"%{ord(each):02X}"]) for each in path]
    return st.tuples(*either).map("".join)


@given(spellings("/api/definitions"))
async def test_no_spelling_leads_past_the_rules_of_the_api(path: str) -> None:
    foreign = {"sec-fetch-site": "cross-site"}
    status, headers, _ = await call(path, foreign, Response("reached"))
    assert (status, headers["cache-control"]) == (403, "no-store")
    status, headers, body = await call(path, {}, Response("reached"))
    assert headers["cache-control"] == "no-store"
    if path.startswith("/api/"):
        assert (status, body) == (200, b"reached")
    else:
        assert status == 400
        assert json.loads(body)["reason"] == "the path has to begin with /api/ as it is"
