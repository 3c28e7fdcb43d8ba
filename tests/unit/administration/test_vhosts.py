"""Virtual hosts made, limited, protected and deleted while clients are connected."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hareline.administration import AdministrationError
from hareline.administration.origins import Origins, VhostOrigin
from hareline.amqp.context import Limits
from hareline.storage.administration import ParameterRecord, PermissionRecord
from hareline.wire.methods import commands
from tests.support.administered import Administered

Restart = Callable[..., Administered]


def refused(call: Callable[[], object]) -> AdministrationError:
    with pytest.raises(AdministrationError) as caught:
        call()
    return caught.value


def served(broker: Administered, name: str = "shop") -> None:
    broker.administration.vhosts.put(name)
    broker.administration.users.put_permission("guest", name, ".*", ".*", ".*")


def test_a_new_virtual_host_can_be_entered_by_those_who_may(broker: Administered) -> None:
    assert broker.administration.vhosts.put("shop", description="Sales", tags=["a", "a"], by="g")
    assert not broker.administration.vhosts.put("shop")
    broker.administration.users.put_permission("guest", "shop", ".*", ".*", ".*")
    peer = broker.connect(vhost="shop")
    peer.declare("q")
    assert list(broker.context.vhosts["shop"].queues) == ["q"]
    record = broker.administration.vhosts.record("shop")
    assert (record.description, record.tags) == ("Sales", ("a",))
    assert broker.events() == ["vhost.created", "permission.created"]


def test_a_deleted_one_takes_its_connections_queues_and_records_along(
    restarted: Restart,
) -> None:
    broker = restarted()
    served(broker)
    administration = broker.administration
    administration.policies.put("shop", "p", pattern="", definition={"max-length": 3})
    administration.parameters.put("federation-upstream", "shop", "s", {"uri": "amqp://"})
    inside, outside = broker.connect(vhost="shop"), broker.connect()
    inside.declare("q", durable=True)
    inside.declare_exchange("e", "topic", durable=True, auto_delete=True)
    inside.bind("q", "e", "k")
    outside.declare("q", durable=True)
    queue = broker.context.vhosts["shop"].queues["q"]
    administration.vhosts.delete("shop")
    refusal = inside.refusal()
    assert (refusal.code, refusal.text) == (320, "CONNECTION_FORCED - vhost 'shop' is deleted")
    broker.run_turns()
    assert queue.is_deleted
    assert outside.connection.is_running
    assert "shop" not in broker.context.vhosts
    assert refused(lambda: administration.vhosts.delete("shop")).kind == "not_found"
    broker = restarted()
    assert "shop" not in broker.context.vhosts
    assert broker.sqlite is not None
    assert broker.sqlite.vhosts() == ["/"]
    assert broker.sqlite.bindings("shop") == []
    store = broker.sqlite.administration
    assert store.records(PermissionRecord) == []
    assert store.records(ParameterRecord) == []


def test_one_of_the_same_name_begins_empty(restarted: Restart) -> None:
    broker = restarted()
    served(broker)
    broker.connect(vhost="shop").declare("q", durable=True)
    broker.administration.vhosts.delete("shop")
    served(broker)
    broker.connect(vhost="shop").declare("new", durable=True)
    broker.run_turns()
    assert list(broker.context.vhosts["shop"].queues) == ["new"]
    broker = restarted()
    assert broker.sqlite is not None
    assert [each.name for each in broker.sqlite.queues("shop")] == ["new"]


def test_many_queues_go_in_shares(broker: Administered) -> None:
    served(broker)
    peer = broker.connect(vhost="shop")
    for number in range(300):
        peer.declare(f"q{number}")
    vhost = broker.context.vhosts["shop"]
    peer.lose()
    broker.administration.vhosts.delete("shop")
    broker.run_turns()
    assert not vhost.queues


def test_many_connections_are_closed_one_a_step_before_it_is_deleted(broker: Administered) -> None:
    vhosts = broker.administration.vhosts
    served(broker)
    peers = [broker.connect(vhost="shop") for _ in range(53)]
    outside = broker.connect()
    steps = vhosts.end_connections("shop")
    next(steps)
    assert [peer.connection.is_running for peer in peers].count(False) == 1
    peers[1].lose()
    late = broker.connect(vhost="shop")  # it is there until its connections are gone
    late.declare("q")
    for _ in steps:
        continue
    running = [peer for peer in (*peers, late) if peer.connection.is_running]
    assert running == [late]
    assert late.receive() == []
    vhosts.delete("shop")
    for peer in (peers[0], peers[2], late):
        refusal = peer.refusal()
        assert (refusal.code, refusal.text) == (320, "CONNECTION_FORCED - vhost 'shop' is deleted")
    assert outside.connection.is_running
    assert "shop" not in broker.context.vhosts


def test_connections_to_what_may_not_be_deleted_stay_open(broker: Administered) -> None:
    vhosts = broker.administration.vhosts
    served(broker)
    peers = [broker.connect(vhost="shop") for _ in range(53)]
    vhosts.put("shop", is_protected=True)
    assert refused(lambda: next(vhosts.end_connections("shop"))).kind == "protected"
    assert refused(lambda: next(vhosts.end_connections("nowhere"))).kind == "not_found"
    assert all(peer.connection.is_running for peer in peers)


def test_limits_bound_queues_and_connections(broker: Administered) -> None:
    served(broker)
    vhosts = broker.administration.vhosts
    vhosts.set_limit("shop", "max-queues", 1)
    peer = broker.connect(vhost="shop")
    peer.declare("q")
    assert peer.refused(1, commands.Queue.Declare, queue="q2") == (
        406,
        "PRECONDITION_FAILED - cannot declare queue 'q2': queue limit in vhost 'shop' (1) is "
        "reached",
    )
    vhosts.set_limits("shop", {"max-connections": 0})
    assert vhosts.limits("shop") == {"max-connections": 0}
    other = broker.accept()
    other.start("guest", "guest")
    other.expect(commands.Connection.Tune)
    other.send(0, commands.Connection.TuneOk, frame_max=8192, channel_max=9, heartbeat=0)
    other.send(0, commands.Connection.Open, virtual_host="shop")
    assert other.refusal().text == (
        "NOT_ALLOWED - access to vhost 'shop' refused for user 'guest': connection limit (0) is "
        "reached"
    )
    vhosts.clear_limit("shop", "max-connections")
    broker.connect(vhost="shop").declare("q2")
    for limit, value in (("max-channels", 1), ("max-queues", 1.5), ("max-queues", 1 << 70)):
        error = refused(lambda n=limit, v=value: vhosts.set_limit("shop", n, v))  # type: ignore[misc]
        assert error.reason.startswith("Validation failed\n\n")


def test_limits_bound_exchanges_and_bindings(restarted: Restart) -> None:
    served(restarted())
    broker = restarted()
    vhosts = broker.administration.vhosts
    vhosts.set_limits("shop", {"max-exchanges": 8, "max-bindings": 1})
    peer = broker.connect(vhost="shop")
    peer.declare_exchange("x")
    peer.declare("q")
    peer.bind("q", "x", "k")
    assert peer.refused(1, commands.Queue.Bind, queue="q", exchange="x", routing_key="l") == (
        406,
        "PRECONDITION_FAILED - cannot bind queue 'q' to exchange 'x': binding limit in vhost "
        "'shop' (1) is reached",
    )
    peer.open(1)
    assert peer.refused(1, commands.Exchange.Declare, exchange="y", exchange_type="direct") == (
        406,
        "PRECONDITION_FAILED - cannot declare exchange 'y': exchange limit in vhost 'shop' (8) is "
        "reached",
    )
    vhosts.set_limit("shop", "max-bindings", -1)
    vhosts.clear_limit("shop", "max-exchanges")
    peer.open(1)
    peer.bind("q", "x", "l")
    peer.declare_exchange("y")
    broker = restarted()
    assert broker.administration.vhosts.limits("shop") == {"max-bindings": -1}
    assert broker.context.vhosts["shop"].capacity.max_bindings is None


def test_only_so_many_virtual_hosts_can_be_made(broker: Administered) -> None:
    broker.context.set_limits(Limits(max_vhosts=2))
    vhosts = broker.administration.vhosts
    vhosts.put("shop")
    error = refused(lambda: vhosts.put("other"))
    assert error.reason == "cannot create vhost 'other': vhost limit of 2 is reached"
    vhosts.put("shop", description="it is there")
    vhosts.delete("shop")
    vhosts.put("other")


def test_a_default_queue_type_is_that_of_durable_queues(broker: Administered) -> None:
    served(broker)
    vhosts = broker.administration.vhosts
    vhosts.put("shop", default_queue_type="quorum")
    peer = broker.connect(vhost="shop")
    peer.declare("q", durable=True)
    peer.declare("q", durable=True)  # the same again
    peer.declare("classic", durable=True, arguments={"x-queue-type": "classic"})
    peer.declare("mine", exclusive=True)
    queues = broker.context.vhosts["shop"].queues
    types = {name: queue.arguments.get("x-queue-type") for name, queue in queues.items()}
    assert types == {"q": "quorum", "classic": "classic", "mine": None}
    error = refused(lambda: vhosts.put("shop", default_queue_type="lazy"))
    assert "Unsupported default queue type 'lazy'" in error.reason


def test_a_protected_one_cannot_be_deleted(restarted: Restart) -> None:
    restarted().administration.vhosts.put("shop", is_protected=True)
    vhosts = restarted().administration.vhosts
    assert refused(lambda: vhosts.delete("shop")).kind == "protected"
    vhosts.put("shop", is_protected=False)
    vhosts.delete("shop")


def test_tracing_is_told(broker: Administered) -> None:
    vhosts = broker.administration.vhosts
    vhosts.put("/", tracing=True)
    vhosts.put("/", tracing=True)
    vhosts.put("/", tracing=False)
    assert broker.events() == ["vhost.tracing.set"] * 2


def test_what_the_settings_name_is_changed_there_alone(restarted: Restart) -> None:
    origins = Origins(where="file", vhosts={"/": VhostOrigin(max_connections=5)})
    vhosts = restarted(origins).administration.vhosts
    assert refused(lambda: vhosts.delete("/")).kind == "conflict"
    assert vhosts.limits("/") == {"max-connections": 5}
    error = refused(lambda: vhosts.set_limit("/", "max-connections", 6))
    assert "[[vhosts]] max_connections" in error.reason
    assert refused(lambda: vhosts.clear_limit("/", "max-connections")).kind == "conflict"
    vhosts.set_limit("/", "max-connections", 5)  # it is that already
    vhosts.set_limit("/", "max-queues", 7)
    vhosts.put("/", description="all")
    broker = restarted(origins)
    assert broker.context.vhost_connection_limits == {"/": 5}
    assert broker.vhost.max_queues == 7
    assert broker.administration.vhosts.record("/").description == "all"
    assert broker.administration.vhosts.own_names() == []


def test_the_default_one_stays_deleted_until_it_is_made_again(restarted: Restart) -> None:
    origins = Origins(vhosts={"/": VhostOrigin()}, are_vhosts_default=True)
    restarted(origins).administration.vhosts.delete("/")
    vhosts = restarted(origins).administration.vhosts
    assert vhosts.is_removed("/")
    named = Origins(vhosts={"/": VhostOrigin()})
    assert not restarted(named).administration.vhosts.is_removed("/")


def test_data_of_an_earlier_start_is_not_given_to_a_new_one(restarted: Restart) -> None:
    broker = restarted()
    broker.definitions.add_queue("old", "q", is_auto_delete=False, arguments={})
    error = refused(lambda: broker.administration.vhosts.put("old"))
    assert error.kind == "conflict"
    assert "start the broker again" in error.reason


def firehoses(broker: Administered) -> list[bool]:
    return [vhost.firehose.is_on for vhost in broker.context.vhosts.values()]


def test_the_firehose_follows_what_was_set_over_a_restart(restarted: Restart) -> None:
    broker = restarted()
    vhosts = broker.administration.vhosts
    vhosts.put("/", tracing=True)
    assert broker.vhost.firehose.is_on
    assert vhosts.is_traced("/")
    assert broker.events() == ["vhost.tracing.set"]
    broker = restarted()
    assert broker.vhost.firehose.is_on
    broker.administration.vhosts.put("/", tracing=False)
    assert firehoses(broker) == [False]
    assert firehoses(restarted()) == [False]


def test_the_settings_switch_the_firehose_on_for_good(restarted: Restart) -> None:
    origins = Origins(where="/etc/hareline.toml", vhosts={"/": VhostOrigin(is_traced=True)})
    broker = restarted(origins)
    vhosts = broker.administration.vhosts
    assert vhosts.is_traced("/")
    error = refused(lambda: vhosts.put("/", tracing=False, description="lost"))
    assert error.kind == "conflict"
    assert "/etc/hareline.toml under [[vhosts]] tracing" in error.reason
    assert vhosts.record("/").description == ""
    vhosts.put("/", tracing=True)  # it is so already
    assert broker.vhost.firehose.is_on
    vhosts.origins = Origins(vhosts={"/": VhostOrigin()})
    vhosts.apply_all()
    assert firehoses(broker) == [False]  # what was asked for was there, so it was not kept
    vhosts.put("/", tracing=True)
    vhosts.origins = origins
    vhosts.apply_all()
    assert vhosts.is_traced("/")
