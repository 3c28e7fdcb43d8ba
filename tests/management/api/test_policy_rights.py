"""A policymaker has messages go where it could move them by hand; an administrator anywhere."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_broker import PASSWORD, ApiBroker

OWN = {"configure": ".*", "write": "^(mine|amq\\.default)", "read": "^mine"}


@pytest.fixture(scope="module", autouse=True)
def maker(running: ApiBroker) -> None:
    """A policymaker who may write to and read what begins with "mine"; "theirs" is no one's."""
    running.ask("PUT", "/users/maker", body={"password": PASSWORD, "tags": "policymaker"})
    running.ask("PUT", "/permissions/%2F/maker", body=OWN)
    for name in ("mine", "theirs"):
        running.ask("PUT", f"/queues/%2F/{name}", body={"durable": True})
        running.ask("PUT", f"/exchanges/%2F/{name}", body={"type": "topic"})


def put(broker: ApiBroker, user: str = "maker", **policy: Any) -> tuple[int, str]:
    """Status, and the reason of a refusal; what was set is deleted again."""
    answer = broker.ask("PUT", "/policies/%2F/p", user, body=policy)
    if answer.status_code < 300:
        assert broker.ask("DELETE", "/policies/%2F/p").status_code == 204
        return answer.status_code, ""
    assert broker.get("/policies") == []
    return answer.status_code, answer.json()["reason"]


def refused(right: str, what: str) -> tuple[int, str]:
    return 401, (f"ACCESS_REFUSED - {right} access to {what} in vhost '/' refused for user 'maker'")


BINDING = '{"destination": "theirs"}'


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("pattern", "definition", "right", "what"),
    [
        ("^mine$", {"dead-letter-exchange": "theirs"}, "write", "exchange 'theirs'"),
        ("^no-queue-yet$", {"dead-letter-exchange": "theirs"}, "write", "exchange 'theirs'"),
        ("e", {"dead-letter-exchange": "mine"}, "read", "queue 'theirs'"),
        ("^mine$", {"alternateBinding": BINDING}, "write", "exchange 'theirs'"),
        ("^mine$", {"alternate-exchange": "theirs"}, "write", "exchange 'theirs'"),
        ("^theirs$", {"alternate-exchange": "mine"}, "read", "exchange 'theirs'"),
    ],
)
def test_a_policymaker_has_nothing_go_where_it_may_not_write_or_from_where_it_may_not_read(
    broker: ApiBroker, pattern: str, definition: dict[str, str], right: str, what: str
) -> None:
    policy: dict[str, Any] = {"pattern": pattern, "definition": definition}
    assert put(broker, **policy) == refused(right, what)
    assert put(broker, "admin", **policy) == (201, "")


@pytest.mark.parametrize(
    "policy",
    [
        {"pattern": "theirs", "definition": {"max-length": 10, "message-ttl": 1_000_000}},
        {"pattern": "^mine$", "definition": {"dead-letter-exchange": "mine"}},
        {"pattern": "^mine$", "definition": {"alternate-exchange": "mine"}},
        {
            "pattern": "theirs",
            "definition": {"alternate-exchange": "mine"},
            "apply-to": "queues",
        },
        {
            "pattern": "theirs",
            "definition": {"dead-letter-exchange": "mine"},
            "apply-to": "streams",
        },
    ],
)
def test_what_moves_nothing_that_is_there_needs_no_right(
    broker: ApiBroker, policy: dict[str, Any]
) -> None:
    assert put(broker, **policy) == (201, "")


@pytest.mark.acceptance
def test_the_dead_letter_routing_key_of_a_policy_is_one_for_the_exchange_of_the_queue(
    broker: ApiBroker,
) -> None:
    bounds = {"exchange": "mine", "write": "^allowed$", "read": ".*"}
    broker.ask("PUT", "/topic-permissions/%2F/maker", body=bounds)
    arguments = {"x-dead-letter-exchange": "mine"}
    broker.ask("PUT", "/queues/%2F/mine-letters", body={"arguments": arguments})
    for key, answer in (
        ("allowed", (201, "")),
        ("other", refused("write", "topic 'other' in exchange 'mine'")),
    ):
        definition = {"dead-letter-routing-key": key}
        assert put(broker, pattern="^mine-letters$", definition=definition) == answer
    broker.ask("DELETE", "/queues/%2F/mine-letters")
    broker.ask("DELETE", "/topic-permissions/%2F/maker")


@pytest.mark.acceptance
def test_an_exchange_with_an_alternate_of_its_own_does_not_follow_the_policy(
    broker: ApiBroker,
) -> None:
    arguments = {"alternate-exchange": "amq.fanout"}
    body = {"type": "fanout", "arguments": arguments}
    broker.ask("PUT", "/exchanges/%2F/their-own", body=body)
    definition = {"alternate-exchange": "mine"}
    assert put(broker, pattern="^their-own$", definition=definition) == (201, "")
