"""Requests made from the OpenAPI document by Schemathesis, good ones and bad ones: no 5xx.

Each operation of the document gets the same share of ``FUZZ_SECONDS`` (120), in which as many
requests are sent as there is time for: those that fit the document, and those that do not, as the
administrator about every other time and otherwise as a user with fewer rights. Names in paths are
those of objects that exist about as often as others, and lists of messages, samples and the like
are not empty.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any, Final

import pika
import pytest

pytest.importorskip("schemathesis", reason="schemathesis (PyPI) is not installed")
import schemathesis
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from tests.support.api_broker import PASSWORD, USERS, ApiBroker
from tests.support.examples import examples

SECONDS: Final = float(os.environ.get("FUZZ_SECONDS", "80"))
TIMEOUT_S: Final = 60.0
#: What a request may ask the broker to wait for, and how long here.
WAITS: Final = {"wait_ms": 5, "wait_s": 0.01}
#: Their 503 says that a check has failed, and not that the broker has.
CHECKS: Final = ("/api/health/checks/", "/api/healthchecks/")

QUEUES: Final = ("q", "stream", "priorities", "groups", "letters")
EXCHANGES: Final = ("amq.topic", "amq.default", "amq.headers", "delayed")
MODES: Final = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
ADMIN: Final = "admin"
OTHERS: Final = tuple(sorted(USERS.keys() - {ADMIN}))
NAMES: Final = {
    "vhost": ("/", "other"),
    "queue": QUEUES,
    "exchange": EXCHANGES,
    "source": EXCHANGES,
    "destination": (*QUEUES, *EXCHANGES),
    "kind": ("q", "e"),
    "props": ("~", "a.%23"),
    "user": ("admin", "manager", "made"),
    "reader": ("reader",),
    "policy": ("p",),
    "component": ("vhost-limits", "shovel"),
    "limit": ("max-queues", "max-connections", "max-channels"),
    "name": ("p", "limits", "cluster_name"),
    "page": ("http-api", "management"),
    "unit": ("days", "weeks"),
    "within": ("1",),
    "protocol": ("amqp", "http"),
}


@schemathesis.serializer("application/x-ndjson")
def as_lines(_context: Any, value: Any) -> bytes:
    """What is made for a file of messages, as it is."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@pytest.fixture(scope="module")
def filled(running: ApiBroker) -> ApiBroker:
    """With something of every kind, and a client that is connected."""
    connection = running.connect(name="fuzzed")
    channel = connection.channel()
    arguments: dict[str, dict[str, Any]] = {
        "q": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"},
        "stream": {"x-queue-type": "stream"},
        "priorities": {"x-max-priority": 5},
        "groups": {"x-message-group-type": "standard", "x-message-group-key": "JMSXGroupID"},
        "letters": {},
    }
    for name, given_arguments in arguments.items():
        channel.queue_declare(name, durable=True, arguments=given_arguments)
        channel.queue_bind(name, "amq.topic", "a.#")
    channel.exchange_declare(
        "delayed", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"}
    )
    for number in range(20):
        headers = {"n": number, "x": [b"\xff", None], "JMSXGroupID": "g"}
        channel.basic_publish(
            "amq.topic", "a.b", b"\xff\x00" * number, pika.BasicProperties(headers=headers)
        )
    channel.basic_publish("delayed", "q", b"", pika.BasicProperties(headers={"x-delay": 600_000}))
    channel.basic_qos(prefetch_count=2)
    channel.basic_consume("letters", lambda *_: None)
    connection.process_data_events(0)
    for path, body in (
        ("/users/made", {"password": "p", "tags": "management"}),
        ("/policies/%2F/p", {"pattern": "^letters$", "definition": {"max-length": 100}}),
        ("/vhost-limits/other/max-queues", {"value": 50}),
    ):
        assert running.ask("PUT", path, json=body).status_code in (201, 204)
    return running


@pytest.fixture(scope="module")
def operations(filled: ApiBroker) -> list[Any]:
    schema = schemathesis.openapi.from_url(f"{filled.url}/openapi.json")
    found: list[Any] = list(schema.get_all_operations())
    return [each.ok() for each in found]


@pytest.mark.acceptance
@pytest.mark.timeout(SECONDS * 3 + 300)
def test_no_request_of_the_description_fails_the_broker(
    filled: ApiBroker, operations: list[Any]
) -> None:
    assert len(operations) > 150
    failures: list[str] = []
    modes: Counter[str] = Counter()
    users: Counter[str] = Counter()
    for operation in operations:
        asked = Asked(operation, SECONDS / len(operations))
        asked.run()
        failures += asked.failures
        assert asked.count, f"never asked: {operation.label}"
        modes += asked.modes
        users += asked.users
    assert not failures, "\n".join(failures)
    assert modes.keys() == set(MODES)
    assert users.keys() == set(USERS)
    assert filled.get("/whoami")["name"] == ADMIN, "what settings name has been changed"


class Asked:
    """One operation, asked for some seconds. ``failures``: a line for each kind of 5xx.

    ``modes``, ``users``: how many requests were of each.
    """

    def __init__(self, operation: Any, seconds: float) -> None:
        self.modes: Counter[str] = Counter()
        self.users: Counter[str] = Counter()
        self.failures: list[str] = []
        self._operation = operation
        self._end_s = time.monotonic() + seconds

    @property
    def count(self) -> int:
        """Requests that were sent."""
        return self.users.total()

    def run(self) -> None:
        """Ask until the time is over."""

        class Over(Exception):
            """The share of this operation is used up."""

        @seed(int(os.environ.get("FUZZ_SEED", "1")))
        @settings(
            max_examples=examples(10_000),  # more than the time allows
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
        )
        @given(
            case=st.one_of([self._operation.as_strategy(generation_mode=mode) for mode in MODES]),
            data=st.data(),
        )
        def ask(case: Any, data: st.DataObject) -> None:
            # also when it is over: data must not depend on the time
            _choose_names(case, data)
            user = ADMIN if data.draw(st.booleans()) else data.draw(st.sampled_from(OTHERS))
            if self.count and time.monotonic() > self._end_s:
                raise Over
            self._ask(case, user)

        try:
            ask()
        except Over:
            return

    def _ask(self, case: Any, user: str) -> None:
        if isinstance(case.body, dict):
            for name, most in WAITS.items():
                if isinstance(case.body.get(name), int | float):
                    case.body[name] = min(case.body[name], most)
        self.users[user] += 1
        self.modes[case.meta.generation.mode] += 1
        answer = case.call(auth=(user, PASSWORD), timeout=TIMEOUT_S)
        if answer.status_code < 500 or self._is_check(answer):
            return
        line = f"{self._operation.label}: {answer.status_code} {answer.text[:300]}"
        if not any(each.startswith(line) for each in self.failures):
            self.failures.append(f"{line}\n    {case.as_curl_command()[:1000]}")

    def _is_check(self, answer: Any) -> bool:
        path = self._operation.path
        return path.startswith(CHECKS) and "failed" in answer.text and answer.status_code == 503


def _choose_names(case: Any, data: st.DataObject) -> None:
    """Put names of objects that exist into the path, about as often as others."""
    for name in case.path_parameters or {}:
        known = NAMES.get(name)
        if known and data.draw(st.booleans(), label=f"an existing {name}"):
            case.path_parameters[name] = data.draw(st.sampled_from(known), label=name)
