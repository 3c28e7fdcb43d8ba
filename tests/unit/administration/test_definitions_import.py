"""Definitions taken over: merged, repeated, in part, and with a report of what was left out."""

from __future__ import annotations

from typing import Any

import pytest

from hareline import events
from hareline.administration import AdministrationError
from hareline.administration.definitions_import import Import, report_import
from hareline.auth.passwords import hash_password
from tests.support.administered import Administered
from tests.support.login_work import authenticate

OLD_HASH = hash_password("old")

TOPOLOGY: dict[str, Any] = {
    "rabbit_version": "3.10.8",
    "users": [
        {
            "name": "ann",
            "password_hash": OLD_HASH,
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["administrator"],
            "limits": {"max-connections": 5},
        },
        {"name": "nobody", "password_hash": "", "tags": ""},
    ],
    "vhosts": [{"name": "/"}, {"name": "shop", "metadata": {"description": "Sales", "tags": []}}],
    "permissions": [{"user": "ann", "vhost": "shop", "configure": ".*", "write": ".*", "read": ""}],
    "topic_permissions": [
        {"user": "ann", "vhost": "shop", "exchange": "amq.topic", "write": "a", "read": "b"}
    ],
    "parameters": [
        {
            "vhost": "shop",
            "component": "vhost-limits",
            "name": "limits",
            "value": {"max-queues": 9},
        },
        {
            "vhost": "shop",
            "component": "operator_policy",
            "name": "cap",
            "value": {
                "pattern": "",
                "definition": {"max-length": 4},
                "priority": 0,
                "apply-to": "queues",
            },
        },
    ],
    "global_parameters": [{"name": "cluster_name", "value": "rabbit@here"}],
    "policies": [
        {
            "vhost": "shop",
            "name": "p",
            "pattern": "^o",
            "apply-to": "queues",
            "definition": {"max-length": 5},
            "priority": 2,
        }
    ],
    "exchanges": [
        {
            "vhost": "shop",
            "name": "e",
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {"alternate-exchange": "amq.fanout"},
        }
    ],
    "queues": [
        {
            "vhost": "shop",
            "name": "orders",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-queue-type": "quorum", "x-message-ttl": 1000},
        }
    ],
    "bindings": [
        {
            "source": "e",
            "vhost": "shop",
            "destination": "orders",
            "destination_type": "queue",
            "routing_key": "#",
            "arguments": {},
        }
    ],
}


def run(broker: Administered, definitions: object, **more: Any) -> Import:
    done = Import(broker.context, broker.administration, definitions, **more)
    for _ in done.steps():
        continue
    return done


def test_a_topology_works_and_its_users_log_in_with_their_passwords(broker: Administered) -> None:
    done = run(broker, TOPOLOGY, by="guest")
    assert done.left_out == []
    vhost = broker.context.vhosts["shop"]
    peer = broker.connect("ann", "old", vhost="shop")
    peer.publish(1, "a.b", b"1", exchange="e")
    broker.run_turns()
    assert vhost.queues["orders"].ready_count == 1
    assert vhost.queue_arguments["orders"].max_length == 4
    assert vhost.max_queues == 9
    assert broker.administration.vhosts.record("shop").description == "Sales"
    assert peer.user.max_connections == 5
    assert not peer.user.permissions["shop"].allow("read", "orders")


def test_a_repetition_changes_nothing(broker: Administered) -> None:
    run(broker, TOPOLOGY)
    before = broker.users.lookup("ann")
    queue = broker.context.vhosts["shop"].queues["orders"]
    done = run(broker, TOPOLOGY)
    assert done.left_out == []
    assert broker.context.vhosts["shop"].queues["orders"] is queue
    assert broker.users.lookup("ann") == before
    assert len(broker.context.vhosts["shop"].bindings.from_source("e")) == 1


def test_what_operators_have_changed_of_a_queue_that_is_there_stays(broker: Administered) -> None:
    run(broker, TOPOLOGY)
    (item,) = TOPOLOGY["queues"]
    given = {"queues": [{**item, "x-hareline": {"changes": {"x-max-length": 3}, "paused": True}}]}
    (left_out,) = run(broker, given).left_out
    assert (left_out.what, left_out.name) == ("queue", "orders")
    assert "operators have changed of it stays as it is" in left_out.reason
    vhost = broker.context.vhosts["shop"]
    assert not vhost.queues["orders"].is_paused
    vhost.live_arguments.change(vhost.queues["orders"], {"x-max-length": 3})
    vhost.live_arguments.set_paused(vhost.queues["orders"], paused=True)
    assert run(broker, given).left_out == []  # it is so already
    vhost.live_arguments.set_paused(vhost.queues["orders"], paused=False)
    assert run(broker, TOPOLOGY).left_out == []  # a file that says nothing of it
    assert not vhost.queues["orders"].is_paused


def test_protection_from_deletion_is_taken_over_as_rabbitmq_4_writes_it(
    broker: Administered,
) -> None:
    for is_protected in (True, False):
        metadata: dict[str, Any] = {"protected_from_deletion": is_protected}
        assert run(broker, {"vhosts": [{"name": "v", "metadata": metadata}]}).left_out == []
        assert broker.administration.vhosts.record("v").is_protected is is_protected


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("paused", "x-hareline: not an object"),
        ({"changes": [1]}, "x-hareline: changes: not an object"),
        ({"paused": 1}, "paused: neither true nor false"),
        ({"changes": {"x": 1 << 63}}, "arguments: 'x' has more than 64 bits"),
        ({"changes": {"x-unknown": 1}}, "unknown arg 'x-unknown' for queue 'new'"),
        ({"changes": {"x-archive-to": "s"}}, "x-archive-to"),
    ],
)
def test_changes_that_no_operator_could_make_are_named(
    broker: Administered, settings: object, reason: str
) -> None:
    item = {"name": "new", "vhost": "/", "x-hareline": settings}
    (left_out,) = run(broker, {"queues": [item]}).left_out
    assert reason in left_out.reason


def test_a_queue_is_paused_also_where_its_changes_cannot_be_made(broker: Administered) -> None:
    settings = {"changes": {"x-archive-to": "s"}, "paused": True}
    item = {"name": "new", "vhost": "/", "x-hareline": settings}
    (left_out,) = run(broker, {"queues": [item]}).left_out
    assert "x-archive-to" in left_out.reason
    assert broker.vhost.queues["new"].is_paused


def test_what_belongs_to_one_virtual_host_comes_into_another(broker: Administered) -> None:
    one = {
        name: [{key: value for key, value in item.items() if key != "vhost"} for item in items]
        for name, items in TOPOLOGY.items()
        if name in ("exchanges", "queues", "bindings", "policies")
    }
    done = run(broker, {**one, "limits": {"max-queues": 2}}, vhost="/")
    assert done.left_out == []
    assert "orders" in broker.vhost.queues
    assert broker.vhost.max_queues == 2


def test_a_delayed_exchange_of_lavinmq_is_one_here(broker: Administered) -> None:
    exchange = {"vhost": "/", "name": "d", "type": "x-delayed-exchange"}
    arguments = {"x-delayed-type": "topic"}
    done = run(broker, {"exchanges": [{**exchange, "arguments": arguments}]})
    assert done.left_out == []
    assert broker.vhost.exchanges["d"].type_name == "x-delayed-message"


def test_each_item_that_cannot_come_is_named_with_a_reason(broker: Administered) -> None:
    done = run(
        broker,
        {
            "users": [{"name": "x", "password_hash": "?", "tags": ""}, {"tags": ""}],
            "permissions": [
                {"user": "x", "vhost": "/", "configure": "", "write": "", "read": ""},
                {
                    "user": "guest",
                    "vhost": "/",
                    "configure": "(",
                    "write": "",
                    "read": "",
                },
            ],
            "policies": [
                {"vhost": "/", "name": "ha", "pattern": "", "definition": {"ha-mode": "all"}},
                {"vhost": "/", "name": "bad", "pattern": "", "definition": {"what": 1}},
            ],
            "parameters": [
                {"vhost": "/", "component": "shovel", "name": "s", "value": {}},
                {"vhost": "/", "component": "mqtt", "name": "m", "value": {}},
            ],
            "exchanges": [
                {"vhost": "/", "name": "amq.direct", "type": "direct"},
                {"vhost": "/", "name": "e", "type": "x-recent-history"},
                {"vhost": "nowhere", "name": "e", "type": "direct"},
            ],
            "queues": [
                {"vhost": "/", "name": "amq.gen-1", "arguments": {}},
                {"vhost": "/", "name": "q", "arguments": {"x-max-length": -1}},
                {"vhost": "/", "name": "big", "arguments": {"x": 1 << 70}},
            ],
            "bindings": [
                {"vhost": "/", "source": "", "destination": "q", "destination_type": "queue"},
                {
                    "vhost": "/",
                    "source": "e",
                    "destination": "q",
                    "destination_type": "queue",
                    "routing_key": "k",
                },
            ],
        },
    )
    assert [(each.what, each.name) for each in done.left_out] == [
        ("user", "x"),
        ("user", ""),
        ("permission", "x"),
        ("permission", "guest"),
        ("exchange", "e"),
        ("exchange", "e"),
        ("policy", "ha"),
        ("policy", "bad"),
        ("parameter", "shovel/s"),
        ("parameter", "mqtt/m"),
        ("queue", "amq.gen-1"),
        ("queue", "q"),
        ("queue", "big"),
        ("binding", "e -> q (k)"),
    ]
    assert all(each.reason for each in done.left_out)
    report_import(broker.context.report, done, "a file")
    assert len(broker.reported(events.DEFINITION_LEFT_OUT)) == len(done.left_out)


@pytest.mark.parametrize("version", ["3.5.7", "2.8.1"])
def test_hashes_of_old_versions_are_md5(broker: Administered, version: str) -> None:
    user = {"name": "ann", "password_hash": hash_password("p", "md5"), "tags": ""}
    assert run(broker, {"rabbit_version": version, "users": [user]}).left_out == []
    assert authenticate(broker.users, "ann", "p", is_loopback=True) is not None


@pytest.mark.parametrize("given", [[], 1, {"queues": 1}, {"users": ["ann"]}])
def test_what_are_no_definitions_is_refused(broker: Administered, given: object) -> None:
    with pytest.raises(AdministrationError, match="definitions: "):
        Import(broker.context, broker.administration, given)


def test_texts_that_are_not_unicode_are_left_out(broker: Administered) -> None:
    bad = "\ud800"
    done = run(
        broker,
        {
            "users": [{"name": bad, "tags": ""}],
            "vhosts": [{"name": "/", "description": bad}],
            "queues": [
                {"vhost": "/", "name": bad},
                {"vhost": "/", "name": "q", "arguments": {"x": bad}},
            ],
            "exchanges": [{"vhost": "/", "name": bad, "type": "direct"}],
        },
    )
    assert all(each.reason for each in done.left_out)
    assert "user" in {each.what for each in done.left_out}


def test_a_long_file_is_taken_over_in_steps(broker: Administered) -> None:
    queues = [{"vhost": "/", "name": f"q{number}"} for number in range(100)]
    steps = Import(broker.context, broker.administration, {"queues": queues}).steps()
    next(steps)
    assert 0 < len(broker.vhost.queues) < 100
    for _ in steps:
        continue
    assert len(broker.vhost.queues) == 100


def test_what_belongs_to_no_virtual_host_does_not_come_with_one(broker: Administered) -> None:
    """A user, a virtual host or permissions may be in the file, for an import of all of it."""
    done = run(broker, TOPOLOGY, vhost="/")
    assert "orders" in broker.vhost.queues
    assert "shop" not in broker.context.vhosts
    assert broker.users.lookup("ann") is None
    assert broker.administration.parameters.all_global() == []
    of_broker = ("users", "vhosts", "permissions", "topic_permissions", "global_parameters")
    assert [(each.what, each.reason) for each in done.left_out] == [
        (name.removesuffix("s"), "belongs to no virtual host: import it by /api/definitions")
        for name in of_broker
        for _ in TOPOLOGY[name]
    ]


LONG = "é" * 128


@pytest.mark.parametrize(
    ("name", "item"),
    [
        ("queues", {"name": LONG}),
        ("exchanges", {"name": LONG, "type": "direct"}),
        ("queues", {"name": "q", "arguments": {"x": {LONG: 1}}}),
        ("queues", {"name": "q", "arguments": {"x": [{LONG: 1}]}}),
        (
            "bindings",
            {
                "source": "amq.direct",
                "destination": "there",
                "destination_type": "queue",
                "routing_key": LONG,
            },
        ),
        (
            "topic_permissions",
            {"user": "guest", "exchange": LONG, "write": "", "read": ""},
        ),
    ],
)
def test_names_and_keys_fit_into_a_frame(broker: Administered, name: str, item: Any) -> None:
    run(broker, {"queues": [{"vhost": "/", "name": "there"}]})
    done = run(broker, {name: [{"vhost": "/", **item}]})
    assert [each.what for each in done.left_out] == [name.removesuffix("s")]
    assert "255 octets" in done.left_out[0].reason
    assert list(broker.vhost.queues) == ["there"]
    assert LONG not in broker.vhost.exchanges
    assert broker.vhost.bindings.from_source("amq.direct") == []


def test_an_item_that_is_too_deep_is_left_out(broker: Administered) -> None:
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    done = run(
        broker,
        {
            "queues": [{"vhost": "/", "name": "q", "arguments": {"x": deep}}],
            "parameters": [{"vhost": "/", "component": "shovel", "name": "s", "value": deep}],
            "global_parameters": [{"name": "g", "value": {"a": deep}}],
        },
    )
    assert len(done.left_out) == 3
    assert all("more than 100 arrays" in each.reason for each in done.left_out)
    assert done.done == {}


def test_users_whose_passwords_have_to_be_hashed_come_one_a_step(broker: Administered) -> None:
    users = [{"name": f"u{number}", "password": "p", "tags": ""} for number in range(3)]
    steps = Import(broker.context, broker.administration, {"users": users}).steps()
    assert [len(broker.users) for _ in steps] == [2, 3, 4, 4]


def test_a_virtual_host_that_goes_between_two_steps(broker: Administered) -> None:
    broker.administration.vhosts.put("shop")
    queues = [{"vhost": "shop", "name": f"q{number}"} for number in range(30)]
    done = Import(broker.context, broker.administration, {"queues": queues})
    steps = done.steps()
    next(steps)
    broker.administration.vhosts.delete("shop")
    for _ in steps:
        continue
    assert {each.reason for each in done.left_out} == {"there is no virtual host 'shop'"}
    assert done.done["queues"] + len(done.left_out) == 30
