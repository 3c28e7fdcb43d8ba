"""What an error closes, and with which code."""

from __future__ import annotations

import pytest

from hareline.amqp.channel import INVALID_ARGUMENT
from hareline.amqp.client import QPID, RABBITMQ, Dialect
from hareline.amqp.connection import closes_channel
from hareline.errors import AccessRefused, AmqpError, ChannelError, NotFound
from hareline.wire.methods import commands

from .peer import SteppedBroker, ids

CONSUME, DECLARE = ids(commands.Basic.Consume), ids(commands.Queue.Declare)


@pytest.mark.parametrize(
    ("error_class", "method", "dialect", "expected"),
    [
        (NotFound, CONSUME, RABBITMQ, True),
        (AccessRefused, CONSUME, RABBITMQ, True),
        (ChannelError, CONSUME, RABBITMQ, False),
        (NotFound, CONSUME, QPID, True),
        (AccessRefused, CONSUME, QPID, False),
        (AccessRefused, DECLARE, QPID, True),
    ],
)
def test_the_scope_of_an_error_decides_but_for_a_refused_consume_of_qpid(
    error_class: type[AmqpError], method: tuple[int, int], dialect: Dialect, expected: bool
) -> None:
    error = error_class("text", class_id=method[0], method_id=method[1])
    assert closes_channel(error, dialect) is expected


@pytest.mark.parametrize(("qpid", "code"), [(None, 406), ("client", INVALID_ARGUMENT)])
def test_a_selector_that_is_not_valid_has_a_code_of_its_own_in_the_qpid_dialect(
    broker: SteppedBroker, qpid: str | None, code: int
) -> None:
    peer = broker.connect(qpid=qpid)
    peer.declare("q")
    arguments = {"x-filter-jms-selector": "a ="}
    peer.send(1, commands.Basic.Consume, queue="q", consumer_tag="t", arguments=arguments)
    refusal = peer.refusal()
    assert (refusal.scope, refusal.code) == ("channel", code)
