"""The features that docs/features.md accounts for: one row each, kept by hand.

Read by ``write_features``. Tests are marked with the ids (``@pytest.mark.row("A12")``): A is what
Qpid Broker-J's queues do, B ActiveMQ's prefetch, C ActiveMQ's priorities, D how Qpid's clients
acknowledge and deliver, E what xmlBlaster's queues do, M what the JMS clients of Qpid and RabbitMQ
cannot do without, S what they are better off with. ``page`` is a file in docs/, ``note`` says what
a test of this broker cannot show yet, or ever. A row without a test needs a note.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TYPES: Final = "queue-types.md"
DELIVERY: Final = "consumers.md"
DURABILITY: Final = "durability.md"
GROUPS: Final = "message-groups.md"
KEEPING: Final = "non-destructive-queues.md"
LIMITS: Final = "overflow.md"
TIME: Final = "time.md"
PREFETCH: Final = "consumers.md"
SETTINGS: Final = "configuration.md"
JMS: Final = "jms.md"
EXCHANGES: Final = "exchanges.md"
USERS: Final = "users.md"

_CLIENT: Final = "the client's own doing; the broker has no part in it"
_ADVICE: Final = "advice, no behaviour"

SECTIONS: Final = {
    "A": "Queues, as in Qpid Broker-J",
    "B": "Prefetch, as in ActiveMQ",
    "C": "Priorities, as in ActiveMQ",
    "D": "Acknowledgement and delivery modes of Qpid's clients",
    "E": "Queues, as in xmlBlaster",
    "M": "What JMS clients cannot do without",
    "S": "What JMS clients are better off with",
}


@dataclass(frozen=True)
class Feature:
    """One row. ``setting`` is Markdown: arguments, options, headers or methods."""

    id: str
    text: str
    setting: str
    page: str
    note: str = ""


# fmt: off
FEATURES: Final = (
    Feature("A1", "Messages reach a queue through an exchange only; the default exchange takes the "
            "queue's name as routing key", "`basic.publish`", "exchanges.md"),
    Feature("A2", "Four queue types; a queue has one ordering, and two that contradict are refused",
            "the argument that asks for it, `x-queue-type`", "queue-arguments.md"),
    Feature("A3", "Standard queue: first in, first out", "no argument", TYPES),
    Feature("A4", "Priority queue: highest first, first in first out within a level; few levels or "
            "many", "`x-max-priority`, `x-qpid-priorities`, `x-default-priority`", TYPES),
    Feature("A5", "Sorted queue: by a header, ascending; without the header first; equal keys in "
            "order of arrival", "`x-sort-key`, `x-sort-order`, `x-sort-type`", TYPES),
    Feature("A6", "Last-value queue: a newer message with the same key takes the place of the "
            "older one; without a key all are kept", "`x-last-value-key`", TYPES),
    Feature("A7", "Message groups by `JMSXGroupID`, or by a header of one's choice",
            "`x-message-group-key`", GROUPS),
    Feature("A8", "Standard groups: a group stays with its consumer for as long as that is there",
            "`x-message-group-type` = `standard`", GROUPS),
    Feature("A9", "Shared groups: a group stays with a consumer while any of its messages is "
            "unacknowledged there", "`x-message-group-type` = `shared`", GROUPS),
    Feature("A10", "Messages without a group: free in standard mode, of one default group in "
            "shared mode", "`x-message-group-default`", GROUPS),
    Feature("A11", "Browsers see all messages, whatever their groups", "`x-browse`", KEEPING),
    Feature("A12", "A group that has to wait does not hold up the groups behind it, however long "
            "the queue", "`x-message-group-key`", GROUPS),
    Feature("A13", "Two messages of one group are never with two consumers at once, nor out of "
            "order", "`x-message-group-type`", GROUPS),
    Feature("A14", "Browsers: see every message, take none, block no consumer; may end at the end "
            "of the queue", "`x-filter-no-consume`, `x-browse`, `x-filter-auto-close`", KEEPING),
    Feature("A15", "A queue on which every consumer is a browser", "`x-non-destructive`", KEEPING),
    Feature("A16", "Bounds on the time to live, whatever the publisher says",
            "`x-min-message-ttl`, `x-max-message-ttl`", TIME),
    Feature("A17", "Replay: begin with the messages of the last so many seconds, or with new ones "
            "only", "`x-qpid-replay-period`, `x-stream-offset`", KEEPING),
    Feature("A18", "Filters that a consumer gets unless it brings its own", "`x-default-filters`",
            DELIVERY),
    Feature("A19", "Hold until valid: not delivered before the instant in a header",
            "`x-hold-on-publish`; headers `x-qpid-not-valid-before`, `x-delay`", TIME),
    Feature("A20", "Limits by messages and by octets; below 0 is no limit",
            "`x-max-length`, `x-max-length-bytes`", LIMITS),
    Feature("A21", "Overflow: none", "no limit, or `x-overflow` = `none`", LIMITS),
    Feature("A22", "Overflow: ring. The oldest goes, of the lowest priority first",
            "`x-overflow` = `drop-head`", LIMITS),
    Feature("A23", "Overflow: producers wait until the queue is down to so many percent",
            "`x-overflow` = `flow-control`, `x-flow-resume-limit`", LIMITS),
    Feature("A24", "Overflow: new messages go to disk", "`x-overflow` = `flow-to-disk`", LIMITS),
    Feature("A25", "Overflow: new messages are refused",
            "`x-overflow` = `reject-publish`, `reject-publish-dlx`", LIMITS),
    Feature("A26", "The log says when a queue is over its limit, and when no longer",
            "messages QUE-...", "log-messages.md"),
    Feature("A27", "What was sent to a client keeps its place: prefetch 1 is exact; the operator "
            "can bound it", "`prefetch_max`", PREFETCH),
    Feature("A28", "Expired messages leave non-destructive queues too, wherever they stand",
            "`x-message-ttl`, `expiration`", TIME),
    Feature("A29", "All of it can be set over HTTP and in the browser",
            "`PUT` and `PATCH` of `/api/queues/...`, policies", "queue-operations.md"),

    Feature("B1", "Messages are pushed, so that a client always has some at hand",
            "`basic.consume`", PREFETCH),
    Feature("B2", "A limit on what is delivered and not acknowledged, for each consumer",
            "`basic.qos`", PREFETCH),
    Feature("B3", "Top-up: a consumer that used up its prefetch gets more when half of it is "
            "acknowledged", "`x-prefetch-refill`", PREFETCH),
    Feature("B4", "Large prefetch for volume, 1 for slow work", "", PREFETCH, _ADVICE),
    Feature("B5", "A consumer's own prefetch overrides the channel's", "`x-prefetch-count`",
            PREFETCH),
    Feature("B6", "A prefetch for those that ask for none, also by destination",
            "`default_prefetch`, `x-default-prefetch`", PREFETCH),
    Feature("B7", "Prefetch 0 as in ActiveMQ: one message for each request, which may wait",
            "`basic.get`; `wait_ms` of a get over HTTP", "message-operations.md"),
    Feature("B8", "Slow consumers are told from others: full, with messages waiting",
            "`is_slow` of consumers over HTTP; `x-slow-consumer-rule`", PREFETCH),
    Feature("B9", "Clients that cannot buffer use prefetch 1", "`basic.qos`", PREFETCH, _ADVICE),
    Feature("B10", "ActiveMQ's defaults: 1000 queue, 100 durable subscription, 32766 subscription, "
            "500 browser", "`prefetch_profile` = `activemq`", SETTINGS),
    Feature("B11", "Consumers in a pool hoard what was sent to them; it comes back when the "
            "channel closes, or after a time", "`channel.close`, `x-consumer-timeout`", PREFETCH),
    Feature("B12", "Spring: no caching of consumers, or prefetch 1", "", PREFETCH, _CLIENT),
    Feature("B13", "Prefetch is the client's memory: a limit in octets as well as in messages",
            "`basic.qos` with prefetch-size", PREFETCH),

    Feature("C1", "0 to 4 are gradations of normal, 5 to 9 of expedited; strict here at any depth",
            "`x-max-priority`", TYPES),
    Feature("C2", "Three categories: low 0 to 3, default 4, high 5 to 9", "`x-qpid-priorities` = 3",
            TYPES),
    Feature("C3", "Without priorities, first in first out; what a missing priority means can be "
            "set", "`x-default-priority`", TYPES),
    Feature("C4", "Strictness does not depend on where messages are stored", "`x-max-priority`",
            TYPES),
    Feature("C5", "Switched on for many queues by a pattern of their names",
            "policy `max-priority`", TYPES),
    Feature("C6", "No batch within which alone the order holds: of a million waiting, the highest "
            "is next", "`x-max-priority`", TYPES),
    Feature("C7", "No cache of low messages that keeps a high one on disk", "`x-max-priority`",
            TYPES),
    Feature("C8", "Order stays strict when messages that are not persistent go to disk", "", TYPES),
    Feature("C9", "Expired messages go at their time, from wherever they stand; the order of the "
            "others stays", "`x-message-ttl`, `expiration`, `x-expiry-check-period`", TIME),
    Feature("C10", "A large prefetch is a cache whose order is fixed; 1 gives the best order",
            "`basic.qos`", PREFETCH),
    Feature("C11", "The client sorts what it has prefetched", "", TYPES, _CLIENT),
    Feature("C12", "Consumers for high priorities alone, by a selector on `JMSPriority`",
            "`x-filter-jms-selector`", "selectors.md"),
    Feature("C13", "What a message costs does not grow with the queue", "", "benchmarks.md",
            "measured by the `backlog_...` scenarios, from 10^3 to 10^6 waiting"),

    Feature("D1", "Automatic: an acknowledgement for each message", "`basic.ack`", DELIVERY),
    Feature("D2", "By the client: a run of single acknowledgements, or one for all so far; the "
            "prefetch may change meanwhile", "`basic.ack`, `basic.qos`", DELIVERY),
    Feature("D3", "Duplicates allowed: as automatic; `redelivered` is honest", "`basic.ack`",
            DELIVERY),
    Feature("D4", "Acknowledged before the work is done", "`basic.ack`", DELIVERY),
    Feature("D5", "No acknowledgement: settled when sent; a client that does not read gets no "
            "more", "`basic.consume` with `no_ack`", DELIVERY),
    Feature("D6", "Transacted acknowledgements", "`tx.select`, `tx.commit`, `tx.rollback`",
            DELIVERY),
    Feature("D7", "Recover: what is unacknowledged comes again", "`basic.recover`, "
            "`basic.recover-async`", DELIVERY,
            "to the same consumer (`requeue` = false): 540, as RabbitMQ"),
    Feature("D8", "Persistent messages", "`delivery-mode` = 2", DURABILITY),
    Feature("D9", "Non-persistent messages", "`delivery-mode` = 1", DELIVERY),
    Feature("D10", "A default for each producer that a message may override", "`delivery-mode`",
            DELIVERY, _CLIENT),
    Feature("D11", "Prefetch 500, with deliveries paused and resumed by the client",
            "`channel.flow`", DELIVERY),
    Feature("E1", "A queue is made when it is first needed", "`auto_create_queues`, policy key "
            "`auto-create-queues`", "auto-creation.md"),

    Feature("E2", "Bounded queues in an order: to put a message in and take it out costs little at "
            "any depth", "`x-sort-key`, `x-max-priority`", TYPES,
            "the time is measured by `python -m benchmarks.micro orderings`"),
    Feature("E3", "Priorities 0 to 9, of which 5 is that of a message without one",
            "`x-max-priority` = 9, `x-default-priority` = 5", TYPES),
    Feature("E4", "The order is that of priority, then of arrival, by a number that only grows and "
            "never by the clock", "", TYPES),
    Feature("E5", "Bounded by messages and by octets", "`x-max-length`, `x-max-length-bytes`",
            LIMITS),
    Feature("E6", "At the limit: a dead message, an error, the oldest or the newest dropped, or "
            "the publisher waits", "`x-overflow`", LIMITS),
    Feature("E7", "What fails too often is a dead message, and so is what a deleted queue held",
            "`x-delivery-limit`, `alternateBinding`", "dead-letters.md"),
    Feature("E8", "All dead messages as a topic, by queue and reason, each once",
            "`default_dead_letter_exchange`, `dead_letter_copies`", "dead-letters.md",
            "the sender is the property user-id, if it was set; the last receiver is in the audit "
            "stream only"),
    Feature("E9", "Dead messages in files: written, looked at, published again once",
            "`hareline deadletter`", "dead-letters.md"),
    Feature("E10", "A queue that lives as long as its client's session, for replies too",
            "`queue.declare`, exclusive; `amq.rabbitmq.reply-to`", DELIVERY),
    Feature("E12", "A queue with one consumer at most", "`x-max-consumers`", DELIVERY),
    Feature("E14", "One order over all that a subscription by pattern brings",
            "`queue.bind` to a topic exchange", EXCHANGES),
    Feature("E15", "A span of life for messages and for queues", "`x-message-ttl`, `x-expires`",
            TIME),
    Feature("E16", "Limits of any size, such as 1,600 messages and 4,000,000 octets",
            "`x-max-length`, `x-max-length-bytes`", LIMITS),
    Feature("E17", "A client that does not answer is found, and what it had comes back",
            "`heartbeat` of `connection.tune`", "limits.md"),
    Feature("E18", "What failed is tried again after a wait, which grows",
            "`x-delayed-retry-min`, `-max`, `-multiplier`, `-jitter`", DELIVERY),
    Feature("E22", "Delivery by CORBA, e-mail or XML-RPC", "", "http-api.md",
            "none of these, as they are not AMQP; a program that consumes can call what it likes"),
    Feature("E23", "A client can check who delivers to it", "TLS", "tls.md"),
    Feature("E24", "One way: delivered without an acknowledgement", "`basic.consume` with "
            "`no_ack`", DELIVERY),
    Feature("E25", "No thread for a queue or a consumer", "", "performance.md"),
    Feature("E26", "How often a message came back is shown, and kept over a restart",
            "header `x-delivery-count`", "dead-letters.md"),
    Feature("E27", "A deep queue leaves memory, and comes back in order",
            "`x-overflow` = `flow-to-disk`", "paging.md",
            "no marks of 70 % and 30 %: a window of messages stays, whatever the depth"),
    Feature("E28", "Every setting by file, by environment and by flag; those that change without a "
            "restart say so", "SIGHUP", SETTINGS),
    Feature("E29", "A new subscriber first gets the last value of each topic, or what came last",
            "`x-retain` of an exchange", EXCHANGES,
            "no topics for one message only; a value that did not change is sent all the same"),
    Feature("E30", "Urgent messages have consumers of their own", "`x-min-priority`", DELIVERY,
            "xmlBlaster's rules by the state of a connection are not there"),

    Feature("M1", "Qpid's client asks for AMQP 0-10 first; the answer is our protocol header and "
            "the end of the connection, at once", "protocol header `AMQP` 1 1 0 10", JMS),
    Feature("M2", "The frame size that is offered is never 0", "`limits.frame_max`", SETTINGS),
    Feature("M3", "A virtual host is found with a `/` in front of its name",
            "`connection.open`", JMS),
    Feature("M4", "A client stops its deliveries and starts them again", "`channel.flow`", JMS),
    Feature("M5", "Questions about bindings are answered, and close nothing",
            "`exchange.bound`", JMS),
    Feature("M6", "Addresses (ADDR), the default syntax of Qpid's client, are resolved: it is told "
            "a product that it knows", "`identity.qpid_product`, `listeners`", JMS),
    Feature("M7", "`Session.recover()`: all that is unacknowledged comes again",
            "`basic.recover`, requeue=0", JMS),
    Feature("M8", "A reject in a transaction takes effect at once, and after a rollback everything "
            "comes again", "`basic.reject`, `tx.rollback`", JMS),
    Feature("M9", "A browser takes nothing, and is told of the end of the queue",
            "`x-filter-no-consume`, `x-filter-auto-close`", KEEPING),
    Feature("M10", "Selectors of consumers, and of bindings", "`x-filter-jms-selector`",
            "selectors.md"),
    Feature("M11", "A durable subscription outlives its connection, and is its client id's alone",
            "`queue.declare`, durable and exclusive", JMS),
    Feature("M12", "An expiration may be an instant", "property `expiration`", TIME),
    Feature("M13", "A prefetch that is changed holds for the consumers that are there",
            "`basic.qos`", JMS),
    Feature("M14", "A client is sent no method that it cannot read",
            "`basic.cancel`, `connection.blocked`", JMS),
    Feature("M15", "The predeclared exchanges are declared passively, without a reply too",
            "`exchange.declare`", EXCHANGES),
    Feature("M16", "Unknown arguments are no error", "`queue.declare`, `queue.bind`, "
            "`basic.consume`", "queue-arguments.md"),
    Feature("M17", "Topic subscribers of RabbitMQ's JMS client have selectors",
            "exchange type `x-jms-topic`", EXCHANGES),
    Feature("M18", "Exchanges are bound to exchanges", "`exchange.bind`", EXCHANGES),
    Feature("M19", "An empty queue answers a poll quickly, and counts are right",
            "`basic.get`, `queue.declare`", DELIVERY),
    Feature("M20", "What a closed channel had is back in its old place", "`channel.close`",
            DELIVERY),
    Feature("M21", "What was acknowledged in a transaction that is rolled back can be recovered",
            "`tx.rollback`, `basic.recover`", DELIVERY),
    Feature("M22", "Exchange, routing key and headers come back as they were published",
            "`basic.deliver`, `basic.get-ok`, `basic.return`", "data-model.md"),

    Feature("S1", "A subscription that is made again with another selector replaces the first",
            "`queue.bind`", JMS),
    Feature("S2", "No message of one's own connection", "`x-qpid-no-local`, `no-local`", DELIVERY),
    Feature("S3", "The default exchange may be declared", "`exchange.declare`", JMS),
    Feature("S4", "Unknown delivery tags are ignored", "`basic.ack`, `basic.reject`", JMS),
    Feature("S5", "A queue may be declared again with other durability and arguments",
            "`queue.declare`", JMS),
    Feature("S6", "Wrong credentials are answered by a close frame", "`connection.close`", JMS),
    Feature("S7", "An invalid selector has a code of its own; messages that no consumer can take "
            "come back", "`x-filter-jms-selector`, `basic.publish`, mandatory and immediate", JMS),
    Feature("S8", "Publisher confirms are advertised; a user-id that is one's own is taken",
            "`confirm.select`, property `user-id`", JMS),
    Feature("S9", "Delivery delay, replies without a queue, and how often a message was delivered",
            "exchange type `x-delayed-message`, `amq.rabbitmq.reply-to`, header "
            "`x-delivery-count`", EXCHANGES),
    Feature("S10", "SCRAM-SHA-256 is offered, where it works", "`auth.mechanisms`", USERS),
    Feature("S11", "An instant of expiry holds after a requeue, and as a dead letter",
            "property `expiration`", TIME),
    Feature("S12", "Schedules, as in ActiveMQ: at an instant, at cron times, and repeated; they "
            "can be listed, cancelled and fired",
            "exchange type `x-delayed-message`, headers `x-deliver-at`, `x-schedule-cron`, "
            "`x-schedule-period`, `x-schedule-repeat`", TIME),
    Feature("S13", "Duplicates are known by a message id, and confirmed without being taken",
            "`x-message-deduplication`, `x-cache-size`, `x-cache-ttl`, `x-deduplication-header`",
            "deduplication.md"),
    Feature("S14", "Celery's eta and countdown wait in the broker, over restarts of both",
            "`x-hold-until-header`", TIME),
)
# fmt: on
