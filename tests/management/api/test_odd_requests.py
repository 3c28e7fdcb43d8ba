"""Odd names and arguments: every route answers with JSON, and none fails."""

from __future__ import annotations

import random
import re
from typing import Any

import pika
import pytest

from tests.support.api_broker import PASSWORD, ApiBroker

NAMES = [
    *("%2F", "other", "nope", "%00", "%FF%FE", "a%2Fb", "..", "%2E%2E", "%E2%82%AC", "~", "q"),
    *("e", "1", "-1", "9" * 20, "%20", "a" * 3_000, "%", "%zz", "weeks", "username"),
]
ARGUMENTS = [
    *("page", "page_size", "name", "use_regex", "sort", "sort_reverse", "columns", "memory"),
    *("disable_stats", "enable_queue_totals", "lengths_age", "lengths_incr", "msg_rates_age"),
]
VALUES = [
    *("", "1", "0", "-1", "x", "true", "%00", "a,b.c,,d..e", "name", "arguments", "9" * 50, "%FF"),
    *("message_stats.publish_details.rate", "1e9", "(", "[a-z", ".*", "consumer_details.x.y"),
]
#: Their answers wait for something, or change something.
LEFT_OUT = re.compile("/api/(stream|replay)")


@pytest.fixture(autouse=True)
def objects(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    channel.queue_declare("q", arguments={"x-odd": b"\xff\xfe", "x-void": None})
    channel.queue_bind("q", "amq.headers", "", {"n": None, "l": [1, {"a": b"x"}]})
    channel.basic_consume("q", lambda *_: None, arguments={"x-void": None})
    headers = {"void": None, "list": [{"void": None}]}
    channel.queue_declare("headers")
    channel.basic_publish("", "headers", b"", pika.BasicProperties(headers=headers))


@pytest.mark.acceptance
@pytest.mark.parametrize("seed", range(6))
def test_every_route_answers_whatever_it_is_asked(broker: ApiBroker, seed: int) -> None:
    chosen = random.Random(seed)
    paths = broker.http.get("/openapi.json")["paths"]
    for path, operations in paths.items():
        if LEFT_OUT.match(path):
            continue
        for method in operations:
            where = re.sub(r"{\w+}", lambda _: chosen.choice(NAMES), path)
            query = "&".join(
                f"{chosen.choice(ARGUMENTS)}={chosen.choice(VALUES)}"
                for _ in range(chosen.randrange(4))
            )
            user = chosen.choice(["admin", "manager", "monitor"])
            answer = broker.http.ask(method, f"{where}?{query}", auth=(user, PASSWORD))
            asked = (method, where, query, answer.status_code, answer.text[:200])
            assert answer.status_code < 500 or _is_check(path, answer.json()), asked
            if answer.headers.get("content-type") == "application/json":
                assert answer.json() is not None, asked


def test_a_void_is_undefined_as_in_rabbitmq(broker: ApiBroker) -> None:
    assert broker.get("/queues/%2F/q")["arguments"]["x-void"] == "undefined"
    bindings = broker.get("/bindings/%2F/e/amq.headers/q/q")
    assert {"n": "undefined", "l": [1, {"a": "x"}]} in [each["arguments"] for each in bindings]
    found = broker.get("/consumers/%2F")
    assert [each["arguments"] for each in found] == [{"x-void": "undefined"}]
    asked = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    [message] = broker.ask("POST", "/queues/%2F/headers/get", body=asked).json()
    shown = {"void": "undefined", "list": [{"void": "undefined"}]}
    assert message["properties"]["headers"] == shown
    exported = broker.get("/definitions/%2F")["queues"]
    assert {"x-void": None}.items() <= exported[0]["arguments"].items()  # so an import has it again


def _is_check(path: str, found: Any) -> bool:
    return path.startswith("/api/health/checks/") and found["status"] == "failed"


DEEP = "[" * 300 + "]" * 300  # a parser takes it; what walks through it afterwards would not


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/queues/%2F/deep", '{"arguments": {"x": DEEP}}'),
        ("PUT", "/exchanges/%2F/deep", '{"type": "direct", "arguments": {"x": DEEP}}'),
        ("POST", "/bindings/%2F/e/amq.headers/q/q", '{"arguments": {"x": DEEP}}'),
        ("PATCH", "/queues/%2F/q", '{"arguments": {"x": DEEP}}'),
        (
            "POST",
            "/exchanges/%2F/amq.direct/publish",
            '{"properties": {"headers": {"x": DEEP}}, "routing_key": "", "payload": "",'
            ' "payload_encoding": "string"}',
        ),
        ("POST", "/exchanges/%2F/amq.headers/route-test", '{"headers": {"x": DEEP}}'),
        ("PUT", "/parameters/shovel/%2F/deep", '{"value": DEEP}'),
        ("PUT", "/parameters/vhost-limits/%2F/limits", '{"value": DEEP}'),
        ("PUT", "/vhost-limits/%2F/max-queues", '{"value": DEEP}'),
        ("PUT", "/global-parameters/deep", '{"value": DEEP}'),
        ("PUT", "/policies/%2F/deep", '{"pattern": "", "definition": {"max-length": DEEP}}'),
        ("POST", "/queues/%2F/q/groups/reset", '{"groups": DEEP}'),
        ("POST", "/queues/%2F/q/import", '{"format": DEEP}'),
    ],
)
def test_json_that_is_too_deep_is_refused(
    broker: ApiBroker, method: str, path: str, body: str
) -> None:
    answer = broker.ask(method, path, content=body.replace("DEEP", DEEP))
    assert answer.status_code == 400, answer.text
    assert "more than 100 arrays and objects within one another" in answer.json()["reason"]


def test_an_item_of_definitions_that_is_too_deep_is_left_out(broker: ApiBroker) -> None:
    body = '{"global_parameters": [{"name": "deep", "value": DEEP}]}'.replace("DEEP", DEEP)
    answer = broker.ask("POST", "/definitions", content=body)
    assert answer.status_code == 200
    assert "more than 100 arrays" in answer.json()["left_out"][0]["reason"]


@pytest.mark.parametrize("name", ["Gr\u00fc\u00dfe-\u4e2d.json", '"\r\n', "", "a b;c"])
def test_a_download_has_a_name_that_a_header_can_have(broker: ApiBroker, name: str) -> None:
    answer = broker.ask("GET", "/definitions", params={"download": name})
    assert answer.status_code == 200
    assert answer.headers["Content-Disposition"].isascii()


@pytest.mark.acceptance
@pytest.mark.parametrize("pattern", ["(" * 250 + ")" * 250, "[" * 500, "(?<=" * 100, "a{1,99999}"])
def test_odd_expressions(broker: ApiBroker, pattern: str) -> None:
    answer = broker.ask("GET", "/queues", params={"name": pattern, "use_regex": "true"})
    assert answer.status_code in (200, 400), answer.text
