"""A virtual host: look-ups, deletions, bindings and names."""

from __future__ import annotations

import re

import pytest

from hareline.broker.registry import PREDECLARED
from hareline.broker.vhost import VirtualHost, generated_name
from hareline.errors import AccessRefused, AmqpError, NotFound, PreconditionFailed, ResourceLocked
from tests.support.consumers import RecordingConsumer
from tests.support.vhosts import (
    ME,
    MESSAGE,
    OTHER,
    bind,
    declare,
    declare_exchange,
    routed,
    unbind,
)

RESERVED_PREDECLARED = sorted({name for name, _, _ in PREDECLARED})


def text_of(error: pytest.ExceptionInfo[AmqpError]) -> str:
    return str(error.value.args[0])


def test_a_missing_exchange_is_named(vhost: VirtualHost) -> None:
    with pytest.raises(NotFound, match=re.escape("no exchange 'nix' in vhost '/'")):
        vhost.exchange("nix")


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


def test_a_missing_queue_is_named(vhost: VirtualHost) -> None:
    with pytest.raises(NotFound, match=re.escape("no queue 'nix' in vhost '/'")):
        vhost.queue("nix", ME)


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
    version = vhost.routing.version
    with pytest.raises(PreconditionFailed):
        bind(vhost, "hash", queue, "no number")
    assert len(vhost.bindings) == 0
    assert vhost.routing.version == version
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


def test_generated_names_are_like_rabbitmqs() -> None:
    names = {generated_name("amq.gen-") for _ in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", name) for name in names)


def test_its_repr_is_its_name(vhost: VirtualHost) -> None:
    assert repr(vhost) == "<VirtualHost '/'>"
