"""A virtual host: names, flags, bindings, and the walk from an exchange to its queues."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.broker import vhost as vhost_module
from hareline.broker.bindings import DestinationKind
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.queues.queue import Queue
from hareline.broker.vhost import PREDECLARED, VirtualHost, generated_name
from hareline.errors import AccessRefused, AmqpError, NotFound, PreconditionFailed, ResourceLocked
from hareline.wire.table import Table
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.turns import ManualTurn
from tests.support.vhosts import make_vhost

MESSAGE = make_message(b"x")
ME, OTHER = "my connection", "another connection"
NO_ARGUMENTS: dict[str, object] = {}
RESERVED_PREDECLARED = sorted({name for name, _, _ in PREDECLARED})


@pytest.fixture
def turn() -> ManualTurn:
    return ManualTurn()


@pytest.fixture
def vhost(turn: ManualTurn) -> VirtualHost:
    return make_vhost(turn)


def declare(
    vhost: VirtualHost,
    name: str = "q",
    *,
    is_durable: bool = False,
    is_auto_delete: bool = False,
    is_exclusive: bool = False,
    requester: object = ME,
    is_server_named: bool = False,
    arguments: Mapping[str, object] = NO_ARGUMENTS,
) -> Queue:
    return vhost.declare_queue(
        name,
        is_server_named=is_server_named,
        is_durable=is_durable,
        is_auto_delete=is_auto_delete,
        owner=requester if is_exclusive else None,
        arguments=arguments,
    )


def declare_exchange(
    vhost: VirtualHost,
    name: str = "x",
    type_name: str = "direct",
    *,
    is_durable: bool = False,
    is_auto_delete: bool = False,
    is_internal: bool = False,
    arguments: Mapping[str, object] = NO_ARGUMENTS,
    is_lenient: bool = False,
) -> Exchange:
    return vhost.declare_exchange(
        name,
        type_name,
        is_durable=is_durable,
        is_auto_delete=is_auto_delete,
        is_internal=is_internal,
        arguments=arguments,
        is_lenient=is_lenient,
    )


def bind(
    vhost: VirtualHost,
    source: str,
    destination: Queue | Exchange,
    routing_key: str = "k",
    arguments: Mapping[str, object] = NO_ARGUMENTS,
) -> None:
    vhost.bind(source, kind_of(destination), destination, routing_key, arguments)


def unbind(
    vhost: VirtualHost,
    source: str,
    destination: Queue | Exchange,
    routing_key: str = "k",
    arguments: Mapping[str, object] = NO_ARGUMENTS,
) -> None:
    vhost.unbind(source, kind_of(destination), destination, routing_key, arguments)


def kind_of(destination: Queue | Exchange) -> DestinationKind:
    return "queue" if isinstance(destination, Queue) else "exchange"


def routed(vhost: VirtualHost, exchange: str, *routing_keys: str) -> list[str]:
    """Names of the queues that a publish reaches, in order."""
    queues, _ = vhost.route(vhost.exchange(exchange), list(routing_keys or ("k",)), MESSAGE)
    return [queue.name for queue in queues]


def text_of(error: pytest.ExceptionInfo[AmqpError]) -> str:
    return str(error.value.args[0])


# ----------------------------------------------------------------------- exchanges


def test_a_new_virtual_host_has_the_predeclared_exchanges(vhost: VirtualHost) -> None:
    types = {name: exchange.type_name for name, exchange in vhost.exchanges.items()}
    assert types == {
        "": "direct",
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.topic": "topic",
        "amq.headers": "headers",
        "amq.match": "headers",
        "amq.rabbitmq.trace": "topic",
    }
    assert all(exchange.is_durable for exchange in vhost.exchanges.values())
    assert [name for name, exchange in vhost.exchanges.items() if exchange.is_internal] == [
        "amq.rabbitmq.trace"
    ]


def test_a_missing_exchange_is_named(vhost: VirtualHost) -> None:
    with pytest.raises(NotFound, match=re.escape("no exchange 'nix' in vhost '/'")):
        vhost.exchange("nix")


def test_a_declared_exchange_has_what_was_asked_for(vhost: VirtualHost) -> None:
    exchange = declare_exchange(
        vhost, "x", "topic", is_durable=True, is_auto_delete=True, is_internal=True
    )
    assert vhost.exchange("x") is exchange
    assert (exchange.type_name, exchange.name) == ("topic", "x")
    assert exchange.is_durable
    assert exchange.is_auto_delete
    assert exchange.is_internal


def test_declaring_an_exchange_again_gives_the_same_one(vhost: VirtualHost) -> None:
    exchange = declare_exchange(vhost, arguments={"alternate-exchange": "a", "other": 1})
    assert declare_exchange(vhost, arguments={"alternate-exchange": "a"}) is exchange


@pytest.mark.parametrize("name", RESERVED_PREDECLARED)
def test_a_predeclared_exchange_may_be_declared_as_it_is(vhost: VirtualHost, name: str) -> None:
    existing = vhost.exchange(name)
    assert (
        declare_exchange(
            vhost, name, existing.type_name, is_durable=True, is_internal=existing.is_internal
        )
        is existing
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"type_name": "fanout"},
            "'type' for exchange 'x' in vhost '/': received 'fanout' but current is 'direct'",
        ),
        (
            {"is_durable": True},
            "'durable' for exchange 'x' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            {"is_auto_delete": True},
            "'auto_delete' for exchange 'x' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            {"is_internal": True},
            "'internal' for exchange 'x' in vhost '/': received 'true' but current is 'false'",
        ),
    ],
)
def test_an_inequivalent_exchange_is_refused(
    vhost: VirtualHost, changes: dict[str, object], text: str
) -> None:
    declare_exchange(vhost)
    with pytest.raises(PreconditionFailed) as error:
        declare_exchange(vhost, **changes)  # type: ignore[arg-type]
    assert text_of(error) == f"inequivalent arg {text}"


@pytest.mark.parametrize("name", ["amq.mine", "amq."])
def test_a_reserved_exchange_name_is_refused(vhost: VirtualHost, name: str) -> None:
    with pytest.raises(AccessRefused) as error:
        declare_exchange(vhost, name)
    assert text_of(error) == f"exchange name '{name}' contains reserved prefix 'amq.*'"


def test_the_default_exchange_cannot_be_declared_deleted_or_bound(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    for attempt in (
        lambda: declare_exchange(vhost, ""),
        lambda: vhost.delete_exchange("", if_unused=False),
        lambda: bind(vhost, "", queue),
        lambda: unbind(vhost, "", queue),
        lambda: bind(vhost, "amq.direct", vhost.exchange("")),
    ):
        with pytest.raises(AccessRefused, match="operation not permitted on the default exchange"):
            attempt()


def test_an_unknown_exchange_type_is_refused(vhost: VirtualHost) -> None:
    with pytest.raises(PreconditionFailed, match="unknown exchange type 'x-odd'"):
        declare_exchange(vhost, "x", "x-odd")
    assert "x" not in vhost.exchanges


def test_an_alternate_exchange_that_is_no_name_is_refused(vhost: VirtualHost) -> None:
    with pytest.raises(PreconditionFailed, match="invalid type 'long' for arg 'alternate-exc"):
        declare_exchange(vhost, arguments=Table({"alternate-exchange": 5}))


@pytest.mark.parametrize("name", RESERVED_PREDECLARED)
def test_a_predeclared_exchange_cannot_be_deleted(vhost: VirtualHost, name: str) -> None:
    with pytest.raises(AccessRefused, match="deletion of system exchange"):
        vhost.delete_exchange(name, if_unused=False)


def test_deleting_an_exchange_that_is_not_there_is_no_error(vhost: VirtualHost) -> None:
    vhost.delete_exchange("nix", if_unused=True)


def test_an_exchange_in_use_is_not_deleted_if_unused(vhost: VirtualHost) -> None:
    declare_exchange(vhost)
    queue = declare(vhost)
    bind(vhost, "x", queue)
    with pytest.raises(PreconditionFailed, match="exchange 'x' in vhost '/' in use"):
        vhost.delete_exchange("x", if_unused=True)
    unbind(vhost, "x", queue)
    vhost.delete_exchange("x", if_unused=True)
    assert "x" not in vhost.exchanges


def test_a_deleted_exchange_takes_its_bindings_along(vhost: VirtualHost) -> None:
    source, target = declare_exchange(vhost, "source", "fanout"), declare_exchange(vhost, "target")
    bind(vhost, "source", target)
    bind(vhost, "target", declare(vhost))
    vhost.delete_exchange("target", if_unused=False)
    assert len(vhost.bindings) == 0
    assert list(source.match("k", MESSAGE)) == []


def test_an_auto_delete_exchange_goes_with_its_last_binding(vhost: VirtualHost) -> None:
    declare_exchange(vhost, is_auto_delete=True)
    queues = [declare(vhost, name) for name in ("a", "b")]
    for queue in queues:
        bind(vhost, "x", queue)
    unbind(vhost, "x", queues[0])
    assert "x" in vhost.exchanges
    vhost.delete_queue("b", ME)
    assert "x" not in vhost.exchanges


def test_an_auto_delete_exchange_that_was_never_bound_stays(vhost: VirtualHost) -> None:
    declare_exchange(vhost, is_auto_delete=True)
    unbind(vhost, "x", declare(vhost))
    assert "x" in vhost.exchanges


def test_auto_delete_exchanges_go_one_after_the_other(vhost: VirtualHost) -> None:
    """Each is the last destination of the one before it."""
    names = [f"x{number}" for number in range(5)]
    for name in names:
        declare_exchange(vhost, name, "fanout", is_auto_delete=True)
    for source, target in pairwise(names):
        bind(vhost, source, vhost.exchange(target))
    queue = declare(vhost)
    bind(vhost, names[-1], queue)
    vhost.delete_queue("q", ME)
    assert not set(names) & set(vhost.exchanges)
    assert len(vhost.bindings) == 0


# -------------------------------------------------------------------------- queues


def test_a_declared_queue_has_what_was_asked_for(vhost: VirtualHost) -> None:
    queue = declare(vhost, is_durable=True, is_auto_delete=True, arguments={"x-max-length": 5})
    assert vhost.queue("q", ME) is queue
    assert queue.is_durable
    assert queue.is_auto_delete
    assert queue.owner is None
    assert queue.arguments == {"x-max-length": 5}
    assert vhost.queue_arguments["q"].max_length == 5


def test_declaring_a_queue_again_gives_the_same_one(vhost: VirtualHost) -> None:
    queue = declare(vhost, arguments={"x-max-length": 5})
    queue.enqueue(MESSAGE)
    assert declare(vhost, arguments={"x-max-length": 5}) is queue
    assert queue.ready_count == 1


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"is_durable": True},
            "'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            {"is_auto_delete": True},
            "'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            {"arguments": Table({"x-max-length": 6})},
            "'x-max-length' for queue 'q' in vhost '/': received '6' but current is '5'",
        ),
        (
            {"arguments": Table()},
            "'x-max-length' for queue 'q' in vhost '/': received none but "
            "current is the value '5' of type 'long'",
        ),
    ],
)
def test_an_inequivalent_queue_is_refused(
    vhost: VirtualHost, changes: dict[str, object], text: str
) -> None:
    declare(vhost, arguments=Table({"x-max-length": 5}))
    with pytest.raises(PreconditionFailed) as error:
        declare(vhost, **changes)  # type: ignore[arg-type]
    assert text_of(error) == f"inequivalent arg {text}"


def test_a_bad_queue_argument_leaves_no_queue(vhost: VirtualHost) -> None:
    with pytest.raises(PreconditionFailed):
        declare(vhost, arguments={"x-max-length": -1})
    assert not vhost.queues
    assert not vhost.queue_arguments


def test_a_reserved_queue_name_is_refused_unless_the_server_made_it(vhost: VirtualHost) -> None:
    with pytest.raises(AccessRefused) as error:
        declare(vhost, "amq.mine")
    assert text_of(error) == "queue name 'amq.mine' contains reserved prefix 'amq.*'"
    queue = declare(vhost, "amq.gen-1", is_server_named=True)
    assert declare(vhost, "amq.gen-1") is queue


def test_a_missing_queue_is_named(vhost: VirtualHost) -> None:
    with pytest.raises(NotFound, match=re.escape("no queue 'nix' in vhost '/'")):
        vhost.queue("nix", ME)


def test_a_queue_limit_is_kept(vhost: VirtualHost) -> None:
    vhost.max_queues = 2
    declare(vhost, "a")
    declare(vhost, "b")
    with pytest.raises(PreconditionFailed) as error:
        declare(vhost, "c")
    assert text_of(error) == ("cannot declare queue 'c': queue limit in vhost '/' (2) is reached")
    declare(vhost, "a")
    vhost.delete_queue("b", ME)
    declare(vhost, "c")


def test_an_exclusive_queue_is_locked_to_its_connection(vhost: VirtualHost) -> None:
    declare(vhost, is_exclusive=True)
    for attempt in (
        lambda: vhost.queue("q", OTHER),
        lambda: vhost.delete_queue("q", OTHER),
        lambda: declare(vhost, requester=OTHER),
        lambda: declare(vhost, requester=OTHER, is_exclusive=True),
        lambda: declare(vhost, requester=OTHER, is_durable=True),
    ):
        with pytest.raises(ResourceLocked) as error:
            attempt()
        assert text_of(error) == (
            "cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be "
            "originally declared on another connection or the exclusive property value does not "
            "match that of the original declaration."
        )
    assert vhost.queue("q", ME) is declare(vhost, is_exclusive=True)


@pytest.mark.parametrize("was_exclusive", [False, True])
def test_exclusive_is_part_of_what_a_redeclaration_must_match(
    vhost: VirtualHost, was_exclusive: bool
) -> None:
    declare(vhost, is_exclusive=was_exclusive)
    with pytest.raises(ResourceLocked):
        declare(vhost, is_exclusive=not was_exclusive)


def test_exclusive_queues_go_with_their_connection_alone(vhost: VirtualHost) -> None:
    declare(vhost, "mine 1", is_exclusive=True)
    declare(vhost, "mine 2", is_exclusive=True, is_durable=True)
    declare(vhost, "not mine", is_exclusive=True, requester=OTHER)
    declare(vhost, "nobody's")
    vhost.delete_queues_of(ME)
    assert set(vhost.queues) == {"not mine", "nobody's"}
    assert set(vhost.queue_arguments) == {"not mine", "nobody's"}
    vhost.delete_queues_of(ME)
    assert set(vhost.queues) == {"not mine", "nobody's"}


def test_deleting_tells_how_many_ready_messages_went_along(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    for _ in range(3):
        queue.enqueue(MESSAGE)
    queue.acquire(1)
    assert vhost.delete_queue("q", ME) == 2
    assert vhost.delete_queue("q", ME) == 0


def test_a_queue_with_consumers_is_not_deleted_if_unused(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    consumer = RecordingConsumer(queue)
    queue.add_consumer(consumer)
    with pytest.raises(PreconditionFailed, match="queue 'q' in vhost '/' in use"):
        vhost.delete_queue("q", ME, if_unused=True)
    queue.remove_consumer(consumer)
    vhost.delete_queue("q", ME, if_unused=True)
    assert not vhost.queues


def test_a_queue_with_messages_is_not_deleted_if_empty(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    queue.enqueue(MESSAGE)
    with pytest.raises(PreconditionFailed, match="queue 'q' in vhost '/' not empty"):
        vhost.delete_queue("q", ME, if_empty=True)
    queue.acquire(1)
    assert vhost.delete_queue("q", ME, if_empty=True) == 0
    assert not vhost.queues


def test_consumers_of_a_deleted_queue_are_told(vhost: VirtualHost, turn: ManualTurn) -> None:
    queue = declare(vhost)
    consumer = RecordingConsumer(queue)
    queue.add_consumer(consumer)
    vhost.delete_queue("q", ME)
    assert consumer.is_told_of_end
    assert queue.is_deleted


def test_a_deleted_queue_takes_its_bindings_along(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    bind(vhost, "amq.topic", queue, "a.*")
    bind(vhost, "amq.fanout", queue)
    vhost.delete_queue("q", ME)
    assert len(vhost.bindings) == 0
    assert list(vhost.exchange("amq.topic").match("a.b", MESSAGE)) == []
    declare(vhost)
    assert routed(vhost, "amq.fanout") == []


def test_an_auto_delete_queue_goes_with_its_last_consumer(vhost: VirtualHost) -> None:
    queue = declare(vhost, is_auto_delete=True)
    consumers = [RecordingConsumer(queue, f"c{index}") for index in range(2)]
    for consumer in consumers:
        queue.add_consumer(consumer)
    queue.remove_consumer(consumers[0])
    assert "q" in vhost.queues
    queue.remove_consumer(consumers[1])
    assert "q" not in vhost.queues
    assert queue.is_deleted


def test_an_auto_delete_queue_that_never_had_a_consumer_stays(vhost: VirtualHost) -> None:
    declare(vhost, is_auto_delete=True)
    assert "q" in vhost.queues


def test_other_queues_outlive_their_consumers(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    consumer = RecordingConsumer(queue)
    queue.add_consumer(consumer)
    queue.remove_consumer(consumer)
    assert "q" in vhost.queues


# ------------------------------------------------------------------------ bindings


def test_binding_twice_is_one_binding(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    bind(vhost, "amq.direct", queue)
    bind(vhost, "amq.direct", queue)
    assert len(vhost.bindings) == 1
    unbind(vhost, "amq.direct", queue)
    assert routed(vhost, "amq.direct") == []


def test_unbinding_what_was_never_bound_is_no_error(vhost: VirtualHost) -> None:
    unbind(vhost, "amq.direct", declare(vhost))


def test_binding_to_a_missing_exchange_is_refused(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    for attempt in (bind, unbind):
        with pytest.raises(NotFound, match="no exchange 'nix' in vhost '/'"):
            attempt(vhost, "nix", queue)


def test_a_binding_that_its_exchange_refuses_leaves_nothing_behind(vhost: VirtualHost) -> None:
    declare_exchange(vhost, "hash", "x-consistent-hash")
    queue = declare(vhost)
    version = vhost.routing_version
    with pytest.raises(PreconditionFailed):
        bind(vhost, "hash", queue, "no number")
    assert len(vhost.bindings) == 0
    assert vhost.routing_version == version
    bind(vhost, "hash", queue, "1")
    assert routed(vhost, "hash") == ["q"]


def test_bindings_that_differ_in_arguments_are_removed_one_by_one(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    for number in (1, 2):
        bind(vhost, "amq.direct", queue, arguments={"n": number})
    unbind(vhost, "amq.direct", queue, arguments={"n": 1})
    assert routed(vhost, "amq.direct") == ["q"]
    unbind(vhost, "amq.direct", queue, arguments={"n": 2})
    assert routed(vhost, "amq.direct") == []


# ------------------------------------------------------------------------- routing


def test_the_default_exchange_routes_by_queue_name(vhost: VirtualHost) -> None:
    declare(vhost, "a")
    assert routed(vhost, "", "a") == ["a"]
    assert routed(vhost, "", "b") == []


def test_a_queue_reached_in_many_ways_gets_one_copy(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    inner = declare_exchange(vhost, "inner", "fanout")
    bind(vhost, "inner", queue)
    bind(vhost, "amq.topic", queue, "#")
    bind(vhost, "amq.topic", queue, "k")
    bind(vhost, "amq.topic", inner, "k")
    assert routed(vhost, "amq.topic", "k", "k", "other") == ["q"]


def test_every_routing_key_of_a_message_counts(vhost: VirtualHost) -> None:
    for name in ("a", "b", "c"):
        declare(vhost, name)
    assert routed(vhost, "", "c", "a", "c") == ["c", "a"]


def test_a_random_exchange_chooses_once_for_a_message_with_many_keys(vhost: VirtualHost) -> None:
    declare_exchange(vhost, "dice", "x-random")
    for number in range(20):
        bind(vhost, "dice", declare(vhost, f"q{number}"))
    assert len(routed(vhost, "dice", *[f"k{number}" for number in range(20)])) == 1


def test_exchange_bindings_are_followed(vhost: VirtualHost) -> None:
    bind(vhost, "amq.direct", declare_exchange(vhost, "x", "topic"), "a.b")
    bind(vhost, "x", declare(vhost), "*.b")
    assert routed(vhost, "amq.direct", "a.b") == ["q"]
    assert routed(vhost, "amq.direct", "b.b") == []


def test_an_internal_exchange_is_reached_by_bindings(vhost: VirtualHost) -> None:
    bind(vhost, "amq.fanout", declare_exchange(vhost, "x", "fanout", is_internal=True))
    bind(vhost, "x", declare(vhost))
    assert routed(vhost, "amq.fanout") == ["q"]


def test_a_cycle_of_exchanges_ends(vhost: VirtualHost) -> None:
    exchanges = [declare_exchange(vhost, name, "fanout") for name in ("a", "b", "c")]
    for index, exchange in enumerate(exchanges):
        bind(vhost, exchange.name, exchanges[(index + 1) % 3])
        bind(vhost, exchange.name, exchange)
        bind(vhost, exchange.name, declare(vhost, f"q{index}"))
    assert sorted(routed(vhost, "b")) == ["q0", "q1", "q2"]


def test_an_alternate_exchange_takes_what_was_matched_by_nothing(vhost: VirtualHost) -> None:
    declare_exchange(vhost, "x", arguments={"alternate-exchange": "amq.fanout"})
    bind(vhost, "x", declare(vhost, "matched"), "known")
    bind(vhost, "amq.fanout", declare(vhost, "rest"))
    assert routed(vhost, "x", "known") == ["matched"]
    assert routed(vhost, "x", "unknown") == ["rest"]
    assert routed(vhost, "x", "unknown", "known") == ["matched"]


def test_alternate_exchanges_are_followed_one_after_the_other(vhost: VirtualHost) -> None:
    declare_exchange(vhost, "a", arguments={"alternate-exchange": "b"})
    declare_exchange(vhost, "b", arguments={"alternate-exchange": "c"})
    declare_exchange(vhost, "c", "fanout")
    bind(vhost, "c", declare(vhost))
    assert routed(vhost, "a") == ["q"]


def test_alternate_exchanges_in_a_circle_end(vhost: VirtualHost) -> None:
    declare_exchange(vhost, "a", arguments={"alternate-exchange": "b"})
    declare_exchange(vhost, "b", arguments={"alternate-exchange": "a"})
    assert routed(vhost, "a") == []


@pytest.mark.parametrize(
    "arguments",
    [{"alternateExchange": "amq.fanout"}, {"alternateBinding": {"destination": "amq.fanout"}}],
)
def test_an_alternate_exchange_by_qpid_s_names_is_the_same(
    vhost: VirtualHost, arguments: dict[str, object]
) -> None:
    exchange = declare_exchange(vhost, "x", arguments=arguments)
    bind(vhost, "amq.fanout", declare(vhost, "rest"))
    assert routed(vhost, "x", "unknown") == ["rest"]
    assert declare_exchange(vhost, "x", arguments={"alternate-exchange": "amq.fanout"}) is exchange
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'alternate-exchange'"):
        declare_exchange(vhost, "x", arguments={"alternateExchange": "amq.topic"})


def test_an_alternate_binding_may_lead_to_a_queue_and_to_an_exchange_of_that_name_first(
    vhost: VirtualHost,
) -> None:
    declare_exchange(vhost, "x", arguments={"alternateBinding": {"destination": "rest"}})
    declare_exchange(vhost, "y", arguments={"alternateExchange": "rest"})
    assert routed(vhost, "x") == []
    declare(vhost, "rest")
    assert routed(vhost, "x") == ["rest"]
    assert routed(vhost, "y") == []
    declare_exchange(vhost, "rest", "fanout")
    assert routed(vhost, "x") == []


def test_an_exchange_is_restored_with_its_alternate_by_whatever_name(vhost: VirtualHost) -> None:
    bind(vhost, "amq.fanout", declare(vhost, "rest"))
    for name, value in (("alternateExchange", "amq.fanout"), ("alternateBinding", 5)):
        vhost.restore_exchange(
            name, "direct", is_auto_delete=False, is_internal=False, arguments={name: value}
        )
    assert routed(vhost, "alternateExchange") == ["rest"]
    assert routed(vhost, "alternateBinding") == []


def test_a_lenient_declaration_of_an_exchange_is_held_to_its_type(vhost: VirtualHost) -> None:
    exchange = declare_exchange(vhost, "x", arguments={"alternateExchange": "a"})
    assert declare_exchange(vhost, "x", is_auto_delete=True, is_lenient=True) is exchange
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'type'"):
        declare_exchange(vhost, "x", "fanout", is_lenient=True)


def test_an_alternate_exchange_that_does_not_exist_drops(vhost: VirtualHost) -> None:
    declare_exchange(vhost, "a", arguments={"alternate-exchange": "nix"})
    assert routed(vhost, "a") == []


def test_an_alternate_exchange_of_an_inner_exchange_counts(vhost: VirtualHost) -> None:
    inner = declare_exchange(vhost, "inner", arguments={"alternate-exchange": "amq.fanout"})
    bind(vhost, "amq.topic", inner, "#")
    bind(vhost, "amq.fanout", declare(vhost))
    assert routed(vhost, "amq.topic", "whatever") == ["q"]


@pytest.mark.parametrize(
    ("type_name", "arguments", "is_static"),
    [
        ("direct", {}, True),
        ("topic", {}, True),
        ("headers", {}, False),
        ("x-random", {}, False),
        ("x-consistent-hash", {}, True),
        ("x-consistent-hash", {"hash-header": "h"}, False),
    ],
)
def test_a_route_may_be_cached_if_no_exchange_on_it_looks_at_the_message(
    vhost: VirtualHost, type_name: str, arguments: dict[str, object], is_static: bool
) -> None:
    inner = declare_exchange(vhost, "inner", type_name, arguments=arguments)
    bind(vhost, "amq.fanout", inner)
    assert vhost.route(vhost.exchange("amq.fanout"), ["k"], MESSAGE)[1] == is_static


def test_whatever_changes_a_route_changes_the_routing_version(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    seen = {vhost.routing_version}

    def changed() -> bool:
        is_new = vhost.routing_version not in seen
        seen.add(vhost.routing_version)
        return is_new

    exchange = declare_exchange(vhost)
    assert changed()
    bind(vhost, "x", queue)
    assert changed()
    unbind(vhost, "x", queue)
    assert changed()
    bind(vhost, "amq.fanout", exchange)
    assert changed()
    vhost.delete_exchange("x", if_unused=False)
    assert changed()
    declare(vhost, "another")
    assert changed()
    vhost.delete_queue("q", ME)
    assert changed()
    declare(vhost, "exclusive", is_exclusive=True)
    assert changed()
    vhost.delete_queues_of(ME)
    assert changed()


def test_what_changes_no_route_keeps_the_routing_version(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    declare_exchange(vhost)
    bind(vhost, "x", queue)
    version = vhost.routing_version
    declare(vhost)
    declare_exchange(vhost)
    bind(vhost, "x", queue)
    unbind(vhost, "x", queue, "other key")
    vhost.delete_queue("nix", ME)
    vhost.delete_exchange("nix", if_unused=False)
    assert vhost.routing_version == version


exchange_numbers = st.integers(0, 7)


@given(
    edges=st.sets(st.tuples(exchange_numbers, exchange_numbers), max_size=30),
    queues=st.dictionaries(st.integers(0, 9), exchange_numbers, max_size=10),
    alternates=st.dictionaries(exchange_numbers, exchange_numbers, max_size=4),
    start=exchange_numbers,
)
def test_a_route_leads_to_what_can_be_reached_and_nothing_else(
    edges: set[tuple[int, int]],
    queues: dict[int, int],
    alternates: dict[int, int],
    start: int,
) -> None:
    vhost = make_vhost(ManualTurn())
    for number in range(8):
        arguments = {"alternate-exchange": f"x{alternates[number]}"} if number in alternates else {}
        declare_exchange(vhost, f"x{number}", "fanout", arguments=arguments)
    for source, target in edges:
        bind(vhost, f"x{source}", vhost.exchange(f"x{target}"))
    for number, source in queues.items():
        bind(vhost, f"x{source}", declare(vhost, f"q{number}"))

    reached, ahead = set[int](), [start]
    while ahead:
        current = ahead.pop()
        if current in reached:
            continue
        reached.add(current)
        following = [target for source, target in edges if source == current]
        ahead += following
        if not following and current not in queues.values() and current in alternates:
            ahead.append(alternates[current])

    expected = sorted(f"q{number}" for number, source in queues.items() if source in reached)
    assert sorted(routed(vhost, f"x{start}")) == expected


# ----------------------------------------------------------------------- addresses


def test_equal_addresses_are_one_object(vhost: VirtualHost) -> None:
    octets = b"\x01x\x01k"
    address = vhost.address("x", "k", octets)
    assert vhost.address("x", "k", octets) is address
    assert (address.exchange, address.routing_key, address.octets) == ("x", "k", octets)


def test_addresses_are_kept_up_to_a_limit(
    vhost: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vhost_module, "ADDRESSES_MAX", 10)
    for number in range(100):
        vhost.address("x", str(number), b"\x01x" + str(number).encode())
        assert len(vhost._addresses) <= 10


# --------------------------------------------------------------------------- names


def test_generated_names_are_like_rabbitmqs() -> None:
    names = {generated_name("amq.gen-") for _ in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", name) for name in names)


def test_its_repr_is_its_name(vhost: VirtualHost) -> None:
    assert repr(vhost) == "<VirtualHost '/'>"
