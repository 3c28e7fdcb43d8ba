"""What is exported, in which form, and that it is the same after an import into an empty broker."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.administration import AdministrationError
from hareline.administration.definitions_export import Export
from hareline.administration.definitions_import import Import
from tests.support.administered import Administered
from tests.unit.administration.test_definitions_import import TOPOLOGY, run


def exported(broker: Administered, vhost: str | None = None) -> dict[str, Any]:
    found = None if vhost is None else broker.context.vhosts[vhost]
    export = Export(broker.context, broker.administration, found)
    return {**export.head(), **{name: list(items) for name, items in export.lists()}}


def test_an_export_imported_elsewhere_is_the_same_again(broker: Administered) -> None:
    run(broker, TOPOLOGY)
    first = exported(broker)
    other = Administered()
    done = Import(other.context, other.administration, first)
    for _ in done.steps():
        continue
    assert done.left_out == []
    assert exported(other) == first


def test_what_operators_have_set_comes_back(broker: Administered) -> None:
    run(broker, TOPOLOGY)
    broker.administration.vhosts.put("shop", is_protected=True)
    vhost = broker.context.vhosts["shop"]
    live, orders = vhost.live_arguments, vhost.queues["orders"]
    live.change(orders, {"x-max-length": 3, "x-message-ttl": None})
    live.set_paused(orders, paused=True)
    found = exported(broker)
    (item,) = found["queues"]
    assert item["x-hareline"] == {
        "changes": {"x-max-length": 3, "x-message-ttl": None},
        "paused": True,
    }
    assert item["arguments"] == {"x-queue-type": "quorum", "x-message-ttl": 1000}
    other = Administered()
    done = Import(other.context, other.administration, found)
    for _ in done.steps():
        continue
    assert done.left_out == []
    assert exported(other) == found
    there = other.context.vhosts["shop"]
    assert there.queue_arguments["orders"].max_length == 3
    assert there.queue_arguments["orders"].message_ttl_ms is None
    assert there.queues["orders"].is_paused
    with pytest.raises(AdministrationError, match="protected from deletion"):
        other.administration.vhosts.delete("shop")
    into_one = Administered()
    assert run(into_one, exported(broker, "shop"), vhost="/").left_out == []
    assert into_one.vhost.queues["orders"].is_paused


def test_what_nothing_was_set_of_has_no_key_of_ours(broker: Administered) -> None:
    run(broker, TOPOLOGY)
    found = exported(broker)
    assert "x-hareline" not in found["queues"][0]
    assert all("protected_from_deletion" not in each["metadata"] for each in found["vhosts"])


def test_a_file_of_one_virtual_host_names_none_in_its_items(broker: Administered) -> None:
    run(broker, TOPOLOGY)
    found = exported(broker, "shop")
    assert found["rabbitmq_definition_format"] == "single_virtual_host"
    assert found["original_vhost_name"] == "shop"
    assert found["limits"] == {"max-queues": 9}
    assert "users" not in found
    items = [item for value in found.values() if isinstance(value, list) for item in value]
    assert items
    assert all("vhost" not in item for item in items)
    other = Administered()
    assert run(other, found, vhost="/").left_out == []
    assert "orders" in other.vhost.queues


def test_what_ends_with_a_connection_or_is_predeclared_is_left_out(broker: Administered) -> None:
    peer = broker.connect()
    peer.declare("mine", exclusive=True)
    peer.declare("kept", durable=True)
    peer.declare()
    peer.bind("mine", "amq.topic", "k")
    peer.bind("kept", "amq.topic", "k")
    found = exported(broker)
    assert [each["name"] for each in found["queues"]] == ["kept"]
    assert found["exchanges"] == []
    assert [each["destination"] for each in found["bindings"]] == ["kept"]


def test_the_head_says_where_it_is_from(broker: Administered) -> None:
    found = exported(broker)
    assert found["rabbitmq_definition_format"] == "cluster"
    assert found["original_cluster_name"] == "hareline@test"
    assert found["rabbit_version"] == found["rabbitmq_version"] == "4.2.0"
