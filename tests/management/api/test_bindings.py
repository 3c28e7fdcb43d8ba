"""Bindings over HTTP, by every path that leads to them, and the keys that tell them apart."""

from __future__ import annotations

import pytest

from hareline.broker.exchanges.bindings import Binding
from hareline.management.api.bindings import properties_key
from tests.support.api_broker import ApiBroker, segment


def binding(key: str, arguments: dict[str, object] | None = None) -> Binding:
    return Binding.of("x", "queue", "q", key, arguments or {})


@pytest.mark.parametrize(
    ("routing_key", "expected"),
    [
        ("", "~"),
        ("a.b", "a.b"),
        ("a b/ü~", "a+b%2F%C3%BC%7E"),
        ("*.#", "%2A.%23"),
        ("\udcff", "%FF"),
    ],
)
def test_a_key_without_arguments_is_the_encoded_routing_key(
    routing_key: str, expected: str
) -> None:
    assert properties_key(binding(routing_key)) == expected


def test_arguments_make_a_digest_that_goes_by_what_they_mean() -> None:
    one = properties_key(binding("k", {"a": 1, "b": "x"}))
    assert one.startswith("k~")
    assert len(one) == 2 + 22
    assert one == properties_key(binding("k", {"b": "x", "a": 1}))
    assert one != properties_key(binding("k", {"a": 2, "b": "x"}))
    assert properties_key(binding("", {"a": 1})).startswith("~")


@pytest.mark.acceptance
def test_every_path_leads_to_the_binding(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    channel.exchange_declare("from", "topic", auto_delete=True)
    channel.exchange_declare("to", "fanout", auto_delete=True)
    channel.queue_declare("bound", durable=True)
    channel.queue_bind("bound", "from", "a.*", {"x-match": "any", "n": 1})
    channel.queue_bind("bound", "from", "plain/key")
    channel.exchange_bind("to", "from", "e")
    of_queue = broker.get("/queues/%2F/bound/bindings")
    assert [row["source"] for row in of_queue] == ["", "from", "from"]
    assert of_queue[0]["properties_key"] == "bound"
    with_arguments, plain = of_queue[1:]
    assert with_arguments["arguments"] == {"x-match": "any", "n": 1}
    assert plain["properties_key"] == "plain%2Fkey"
    pair = "/bindings/%2F/e/from/q/bound"
    assert broker.get(pair) == of_queue[1:]
    for row in of_queue[1:]:
        assert broker.get(f"{pair}/{segment(row['properties_key'])}") == row
    assert broker.get(f"{pair}/plain%2Fkey") == plain, "a client that does not encode the key"
    [to_exchange] = broker.get("/bindings/%2F/e/from/e/to")
    assert to_exchange["destination_type"] == "exchange"
    assert broker.get("/exchanges/%2F/from/bindings/source") == [to_exchange, *of_queue[1:]]
    assert broker.get("/exchanges/%2F/to/bindings/destination") == [to_exchange]
    for row in (to_exchange, *of_queue):
        assert row in broker.get("/bindings")
        assert row in broker.get("/bindings/%2F")
    assert of_queue[0] in broker.get("/exchanges/%2F/amq.default/bindings/source")
    assert broker.get("/bindings/%2F/e/amq.default/q/bound") == [of_queue[0]]


@pytest.mark.parametrize(
    "path",
    [
        "/bindings/nope/e/amq.topic/q/nope",
        "/bindings/%2F/e/amq.topic/q/nope/~",
        "/bindings/%2F/e/amq.topic/x/amq.topic",
        "/bindings/%2F/e/amq.topic/e/amq.fanout/key",
        "/queues/%2F/nope/bindings",
        "/exchanges/%2F/nope/bindings/source",
    ],
)
def test_what_is_missing_is_not_found(broker: ApiBroker, path: str) -> None:
    assert broker.refused(path)[0] == 404


@pytest.mark.parametrize("pair", ["amq.topic/e/amq.fanout", "amq.topic/q/nope", "nope/q/nope"])
def test_a_pair_of_ends_without_bindings_has_an_empty_list(broker: ApiBroker, pair: str) -> None:
    assert broker.get(f"/bindings/%2F/e/{pair}") == []
