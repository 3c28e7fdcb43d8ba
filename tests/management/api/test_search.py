"""Search across everything: exact names first, no more than was asked for, only what one sees."""

from __future__ import annotations

import pytest

from tests.support.api_broker import OTHER, ApiBroker, segment


@pytest.fixture(scope="module")
def filled(running: ApiBroker) -> ApiBroker:
    channel = running.connect(name="needle-client").channel()
    for name in ("the-needle", "needle", "needle-2", "hay"):
        channel.queue_declare(name, durable=True)
    channel.queue_declare("needle-log", durable=True, arguments={"x-queue-type": "stream"})
    channel.exchange_declare("needle-exchange", "topic")
    return running


@pytest.mark.acceptance
def test_exact_names_come_first_then_those_that_begin_so(filled: ApiBroker) -> None:
    found = filled.get("/hareline/search?q=NEEDLE")
    names = [(each["kind"], each["name"]) for each in found["items"]]
    assert names[0] == ("queue", "needle")
    assert set(names[1:4]) == {
        ("exchange", "needle-exchange"),
        ("queue", "needle-2"),
        ("stream", "needle-log"),
    }
    assert ("queue", "the-needle") in names
    assert ("queue", "hay") not in names
    assert found["is_complete"]


def test_connections_are_found_by_address_and_given_name(filled: ApiBroker) -> None:
    for text in ("127.0.0.1", "needle-client"):
        found = filled.get(f"/hareline/search?q={text}")["items"]
        assert "connection" in {each["kind"] for each in found}


@pytest.mark.acceptance
def test_consumers_are_found_by_tag_and_policies_by_those_who_may_list_them(
    filled: ApiBroker,
) -> None:
    channel = filled.connect().channel()
    channel.basic_consume("hay", lambda *_: None, consumer_tag="pitchfork")
    body = {"pattern": "^hay", "definition": {"max-length": 3}}
    filled.ask("PUT", "/policies/%2F/pitchfork-policy", json=body)

    def found(user: str) -> list[tuple[str, str]]:
        items = filled.get("/hareline/search?q=pitchfork", user)["items"]
        return [(each["kind"], each["note"]) for each in items]

    assert found("admin") == [("consumer", "hay"), ("policy", "^hay")]
    for user in ("policymaker", "manager", "monitor"):
        assert ("policy", "^hay") in found(user)
    assert found("elsewhere") == []


@pytest.mark.acceptance
def test_channels_are_found_by_name_behind_their_connections(filled: ApiBroker) -> None:
    connection = filled.connect("manager")
    connection.channel()
    name = filled.name_of(connection)

    def found(text: str, user: str) -> list[tuple[str, str]]:
        items = filled.get(f"/hareline/search?q={segment(text)}", user)["items"]
        return [(each["kind"], each["name"]) for each in items]

    both = [("connection", name), ("channel", f"{name} (1)")]
    for user in ("manager", "monitor"):
        assert found(name, user) == both
        assert found(f"{name} (1)", user) == both[1:]
    assert found(name, "policymaker") == []


def test_bindings_are_found_by_routing_key_once_for_each_exchange(filled: ApiBroker) -> None:
    channel = filled.connect().channel()
    for queue in ("hay", "needle"):
        for exchange in ("amq.topic", "amq.direct"):
            channel.queue_bind(queue, exchange, "thimble.made")
    channel.queue_bind("hay", "amq.fanout", "")
    found = filled.get("/hareline/search?q=thimble", "manager")
    hits = {(each["kind"], each["name"], each["vhost"], each["note"]) for each in found["items"]}
    assert hits == {("binding", "thimble.made", "/", f"amq.{kind}") for kind in ("topic", "direct")}
    assert (len(found["items"]), found["is_complete"]) == (2, True)
    assert filled.get("/hareline/search?q=thimble", "elsewhere")["items"] == []


def test_no_more_than_asked_for(filled: ApiBroker) -> None:
    found = filled.get("/hareline/search?q=needle&limit=2")
    assert len(found["items"]) == 2
    assert not found["is_complete"]


def test_users_are_found_by_administrators_only(filled: ApiBroker) -> None:
    def kinds(user: str) -> set[str]:
        found = filled.get("/hareline/search?q=policymaker", user)["items"]
        return {each["kind"] for each in found}

    assert kinds("admin") == {"user"}
    assert kinds("monitor") == set()


def test_other_virtual_hosts_are_not_searched(filled: ApiBroker) -> None:
    assert filled.get("/hareline/search?q=needle", "elsewhere")["items"] == []
    (vhost,) = filled.get(f"/hareline/search?q={OTHER}", "elsewhere")["items"]
    assert (vhost["kind"], vhost["name"]) == ("vhost", OTHER)


@pytest.mark.parametrize(
    "query", ["", "q=", "q=a&limit=0", "q=a&limit=101", "q=a&limit=0000101", f"q={'x' * 256}"]
)
def test_what_is_wrong_with_the_question_is_said(filled: ApiBroker, query: str) -> None:
    status, body = filled.refused(f"/hareline/search?{query}")
    assert status == 400
    assert body["reason"].startswith(("q:", "limit:"))


@pytest.mark.acceptance
def test_a_queue_that_goes_while_it_is_looked_for(broker: ApiBroker) -> None:
    """Its arguments are gone when the search comes to it; the others are found all the same."""
    channel = broker.connect().channel()
    channel.queue_declare("going.one")
    channel.queue_declare("going.two")
    arguments = broker.thread.ask(
        lambda each: each.context.vhosts["/"].queue_arguments.pop("going.one")
    )
    try:
        found = broker.get("/hareline/search?q=going.")
    finally:
        broker.thread.ask(
            lambda each: each.context.vhosts["/"].queue_arguments.update({"going.one": arguments})
        )
    assert [each["name"] for each in found["items"]] == ["going.two"]
