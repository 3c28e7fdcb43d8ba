"""What clients of two families expect of the same methods: RabbitMQ's by default, Qpid's for some.

AMQP 0-9-1 leaves room, and RabbitMQ and Qpid Broker-J have filled it differently. A connection is
given one of the two objects here when its client has said who it is (start-ok), and a module that
behaves differently asks for the switch by its name: nothing else in the broker knows of products.
What each switch means for a client is in docs/jms.md, why there are two in
docs/decisions/0010-qpid-dialect.md.

Invariant: RABBITMQ has every switch off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Named switches; each is about one method, or one moment in a connection's life.

    =============================  ===============================================================
    switch                         on
    =============================  ===============================================================
    has_live_qos                   basic.qos is for the channel, and in force at once, whatever its
                                   bit ``global`` says
    recovers_without_requeue       basic.recover with requeue=0 is served: the same consumers get
                                   everything unacknowledged again, in the order of delivery
    counts_rejects_only            basic.reject with requeue=0 gives the message back, and the
                                   delivery limit counts that, and no other way of coming back
    rejects_at_once                basic.reject and nack do not wait for tx.commit
    releases_at_rollback           tx.rollback makes ready again what is unacked, with what was
                                   acknowledged in the transaction
    ignores_unknown_tags           settling a delivery tag that is not outstanding does nothing
    keeps_durable_exclusive        a durable exclusive queue is the client id's, and stays
    replaces_bindings              a binding takes the place of one with the same queue and key
    redeclares_leniently           a queue that is declared again is held to exclusivity and to
                                   auto-delete only, not to durability and arguments; an exchange
                                   to its type only
    declares_default_exchange      exchange.declare of "" is no error
    takes_immediate                basic.publish with immediate=1 is served
    refuses_returned               what is returned is not confirmed but refused, by basic.nack; a
                                   mandatory message that no queue takes ends a connection that
                                   publishes it in a transaction, unless its client opts out
    returns_what_is_nacked         a mandatory publish under confirms that a full queue or the store
                                   refuses is returned with 506, in front of its nack
    is_end_reported                a consumer that closes at the end of its queue gets a cancel-ok;
                                   no consumer is told of a deleted queue
    is_refused_by_close            wrong credentials are answered by connection.close
    has_no_local                   the bit no-local of basic.consume counts; its messages carry who
                                   has published them
    ranks_below_default            a consumer's x-priority, which may also be numeric text, puts it
                                   behind those without one: they are of the highest there is
    is_invalid_selector_argument   a selector that is not valid closes the channel with 409, not 406
    refuses_consume_by_connection  a consumer that is refused with 403 loses the connection (Qpid's
                                   client in Java waits for itself when only the channel of a
                                   durable subscriber is closed)
    =============================  ===============================================================
    """

    name: str
    has_live_qos: bool = False
    recovers_without_requeue: bool = False
    counts_rejects_only: bool = False
    rejects_at_once: bool = False
    releases_at_rollback: bool = False
    ignores_unknown_tags: bool = False
    keeps_durable_exclusive: bool = False
    replaces_bindings: bool = False
    redeclares_leniently: bool = False
    declares_default_exchange: bool = False
    takes_immediate: bool = False
    refuses_returned: bool = False
    returns_what_is_nacked: bool = False
    is_end_reported: bool = False
    is_refused_by_close: bool = False
    has_no_local: bool = False
    ranks_below_default: bool = False
    is_invalid_selector_argument: bool = False
    refuses_consume_by_connection: bool = False


RABBITMQ: Final = Dialect(name="rabbitmq")
QPID: Final = Dialect(
    name="qpid",
    has_live_qos=True,
    recovers_without_requeue=True,
    counts_rejects_only=True,
    rejects_at_once=True,
    releases_at_rollback=True,
    ignores_unknown_tags=True,
    keeps_durable_exclusive=True,
    replaces_bindings=True,
    redeclares_leniently=True,
    declares_default_exchange=True,
    takes_immediate=True,
    refuses_returned=True,
    returns_what_is_nacked=True,
    is_end_reported=True,
    is_refused_by_close=True,
    has_no_local=True,
    ranks_below_default=True,
    is_invalid_selector_argument=True,
    refuses_consume_by_connection=True,
)


def dialect_of(client_properties: Mapping[str, object]) -> Dialect:
    """The dialect of a client that calls itself this in start-ok.

    Qpid's clients are ``qpid`` by product, and name their process and its id in properties that
    begin with ``qpid.`` (qpid-jms-amqp-0-x, ``ConnectionStartProperties``).
    """
    if "qpid" in str(client_properties.get("product", "")).lower():
        return QPID
    return QPID if any(name.startswith("qpid.") for name in client_properties) else RABBITMQ
