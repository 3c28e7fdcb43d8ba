"""What may be declared and redeclared, and what a refusal says."""

from __future__ import annotations

import pytest

from hareline.broker.registry import PREDECLARED
from hareline.broker.vhost import VirtualHost
from hareline.errors import (
    AccessRefused,
    AmqpError,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)
from hareline.queues.core.audit_recorder import AUDIT_STREAM
from hareline.wire.table import Table
from tests.support.audits import STREAM_ARGUMENTS, AuditStand
from tests.support.stores import FakeDefinitions
from tests.support.turns import ManualTurn
from tests.support.vhosts import ME, MESSAGE, bind, declare, declare_exchange, make_vhost, routed

RESERVED_PREDECLARED = sorted({name for name, _, _ in PREDECLARED})


def text_of(error: pytest.ExceptionInfo[AmqpError]) -> str:
    return str(error.value.args[0])


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


def test_an_unknown_exchange_type_is_refused(vhost: VirtualHost) -> None:
    with pytest.raises(PreconditionFailed, match="unknown exchange type 'x-odd'"):
        declare_exchange(vhost, "x", "x-odd")
    assert "x" not in vhost.exchanges


def test_an_alternate_exchange_that_is_no_name_is_refused(vhost: VirtualHost) -> None:
    with pytest.raises(PreconditionFailed, match="invalid type 'long' for arg 'alternate-exc"):
        declare_exchange(vhost, arguments=Table({"alternate-exchange": 5}))


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


@pytest.mark.parametrize("was_exclusive", [False, True])
def test_exclusive_is_part_of_what_a_redeclaration_must_match(
    vhost: VirtualHost, was_exclusive: bool
) -> None:
    declare(vhost, is_exclusive=was_exclusive)
    with pytest.raises(ResourceLocked):
        declare(vhost, is_exclusive=not was_exclusive)


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


class TestTheAuditStream:
    """Made by the broker, kept when audit is off, and with the limits of the settings."""

    def test_it_is_a_durable_stream_that_no_limit_of_queues_forbids(self) -> None:
        stand = AuditStand()
        other = AuditStand()
        other.vhost.max_queues = 1
        for vhost in (stand.vhost, other.vhost):
            stream = vhost.queues[AUDIT_STREAM]
            assert stream.is_durable
            assert vhost.queue_arguments[AUDIT_STREAM].queue_type == "stream"
        with pytest.raises(PreconditionFailed, match="queue limit"):
            declare(other.vhost)

    def test_a_client_may_declare_it_as_it_is(self) -> None:
        stand = AuditStand()
        stream = stand.vhost.queues[AUDIT_STREAM]
        again = declare(stand.vhost, AUDIT_STREAM, is_durable=True, arguments=STREAM_ARGUMENTS)
        assert again is stream

    def test_a_restored_one_has_the_limits_of_the_settings(self) -> None:
        stand = AuditStand()
        stand.log.recorder.stream_arguments = {**STREAM_ARGUMENTS, "x-max-age": "1h"}
        del stand.vhost.queues[AUDIT_STREAM]
        kept = {**STREAM_ARGUMENTS, "x-max-age": "7D", "x-max-length-bytes": 1}
        queue = stand.vhost.restore_queue(7, AUDIT_STREAM, is_auto_delete=False, arguments=kept)
        arguments = stand.vhost.queue_arguments[AUDIT_STREAM]
        assert (arguments.max_age_ms, arguments.max_length_bytes) == (3_600_000, None)
        stand.vhost.open_audit()
        assert stand.vhost.queues[AUDIT_STREAM] is queue

    @pytest.mark.parametrize("owner", [None, "client"])
    def test_a_queue_of_a_client_s_own_cannot_be_it(self, owner: str | None) -> None:
        stand = AuditStand()
        arguments = {} if owner is None else STREAM_ARGUMENTS
        with pytest.raises(PreconditionFailed, match="it is no stream, so no audit can be written"):
            stand.vhost.restore_queue(
                7, AUDIT_STREAM, is_auto_delete=False, arguments=arguments, owner=owner
            )

    def test_without_audit_a_queue_of_this_name_is_like_others(self, vhost: VirtualHost) -> None:
        queue = vhost.restore_queue(7, AUDIT_STREAM, is_auto_delete=False, arguments={})
        bind(vhost, "amq.direct", queue)
        assert routed(vhost, "amq.direct") == [AUDIT_STREAM]
        assert vhost.delete_queue(AUDIT_STREAM, ME) == 0
        assert AUDIT_STREAM not in vhost.queues

    def test_a_definition_that_is_lost_takes_the_stream_along(self) -> None:
        definitions = FakeDefinitions()
        definitions.gathers = True
        definitions.loss = "disk I/O error"
        stand = AuditStand(definitions=definitions)
        assert AUDIT_STREAM in definitions.queues
        definitions.commit()
        assert AUDIT_STREAM not in stand.vhost.queues

    def test_nothing_leads_to_it_but_the_broker(self) -> None:
        vhost = AuditStand().vhost
        stream = vhost.queues[AUDIT_STREAM]
        assert routed(vhost, "", AUDIT_STREAM) == []
        with pytest.raises(AccessRefused, match="only the broker publishes to queue"):
            bind(vhost, "amq.fanout", stream)
        with pytest.raises(AccessRefused, match="only the broker publishes to queue"):
            vhost.restore_binding("amq.fanout", "queue", AUDIT_STREAM, "", {})
        assert routed(vhost, "amq.fanout") == []
        with pytest.raises(PreconditionFailed, match="switch the virtual host's option 'audit'"):
            vhost.delete_queue(AUDIT_STREAM, ME)

    def test_an_exchange_of_this_name_may_be_bound(self) -> None:
        vhost = AuditStand().vhost
        bind(vhost, "amq.fanout", declare_exchange(vhost, AUDIT_STREAM))
        assert vhost.bindings.has_source("amq.fanout")


def test_nothing_comes_into_a_virtual_host_that_is_deleted() -> None:
    definitions = FakeDefinitions()
    vhost = make_vhost(ManualTurn(), definitions=definitions)
    declare(vhost, "q", is_durable=True)
    vhost.begin_removal()
    for attempt in (
        lambda: declare(vhost, "other", is_durable=True),
        lambda: declare(vhost, "q", is_durable=True),
        lambda: declare_exchange(vhost, "e", is_durable=True),
        lambda: bind(vhost, "amq.direct", vhost.queue("q", None)),
    ):
        with pytest.raises(NotFound):
            attempt()
