"""Queues made of the arguments of a declaration, and those that exchanges have for themselves.

Which ordering and lane a queue has, and which policies, is decided here only; the parts know
nothing of arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from hareline.broker.audit.policies import AuditedDeadLetters, WatchedRoute
from hareline.broker.audit.queue import AuditedQueue
from hareline.broker.delayed_exchange import DelayedExchange
from hareline.broker.delayed_queues import DelayedSender, delay_queue_name
from hareline.broker.exchanges.exchange import Exchange, Route
from hareline.broker.retaining import LAST, RETAIN, retained_queue_name
from hareline.events import Event
from hareline.queues.core.audit_recorder import AUDIT_STREAM
from hareline.queues.core.consumer_book import LiveLimit, TakingOver
from hareline.queues.core.dispatch_rule import LEAST_LOADED, STRICT
from hareline.queues.core.environment import QueueEnvironment
from hareline.queues.core.groups import Groups
from hareline.queues.core.kinds import NO_DELIVERY_LIMIT
from hareline.queues.core.start_position import REPLAY_PERIOD
from hareline.queues.dead_letters.dead_letters import DeadLetters
from hareline.queues.dead_letters.targets import alternate_of, find_targets
from hareline.queues.declare.readers import SELECTOR
from hareline.queues.declare.table import (
    BY_FIELD,
    DEFAULT_OVERFLOW,
    DEFAULT_QUEUE_TYPE,
    QueueArguments,
)
from hareline.queues.dispatch.reading import Getter, ReadingLane
from hareline.queues.dispatch.selective import SelectiveLane
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.last_values import LastValueOrder, LastValues, RetainedValues
from hareline.queues.orders.log_order import LogOrder
from hareline.queues.orders.order import EntryOrder
from hareline.queues.orders.priority import (
    LevelReader,
    qpid_level_reader,
    qpid_levels,
    rabbitmq_level_reader,
    rabbitmq_levels,
)
from hareline.queues.orders.sorted import SortedOrder
from hareline.queues.orders.window import Paging
from hareline.queues.policies.deduplication import IdCache, IdsInQueue
from hareline.queues.policies.delay import Delay
from hareline.queues.policies.dispatch_pace import DispatchPace
from hareline.queues.policies.expiry import Expiry
from hareline.queues.policies.hold import Hold, hold_headers
from hareline.queues.policies.lease import Lease
from hareline.queues.policies.overflow import RESUME_PERCENT, Overflow
from hareline.queues.policies.retention import Retention
from hareline.queues.policies.retry import CAUSES, MIN_MS, Retry
from hareline.queues.policies.unused import Unused
from hareline.queues.queue import Queue
from hareline.selectors.selector import Selector, compile_selector
from hareline.turn import Turn

QUORUM_DELIVERY_LIMIT: Final = 20  # rabbit_quorum_queue, since RabbitMQ 4.0
_DISPATCH_RULES: Final = {"strict": STRICT, "least-loaded": LEAST_LOADED}


@dataclass(frozen=True, slots=True)
class QueueDefaults:
    """Values that a virtual host gives to queues that are declared without them.

    ``dead_letter_exchange``: for queues without one of their own; None: there is none.
    ``has_dead_letter_copies``: it also gets copies of what dies in all other queues.
    """

    dead_letter_exchange: str | None = None
    has_dead_letter_copies: bool = False


def make_queue(
    name: str,
    arguments: QueueArguments,
    turn: Turn,
    environment: QueueEnvironment,
    defaults: QueueDefaults,
    *,
    is_durable: bool,
    is_auto_delete: bool,
    owner: object | None,
    on_unused: Callable[[Queue], None] | None,
    on_expired: Callable[[Queue], None],
) -> Queue:
    """A queue that does what its arguments say.

    ``on_unused`` and ``on_expired`` delete it: its last consumer has left, its lease has ended.

    Raises PreconditionFailed for names of dead letter targets that no message could carry.
    """
    order = make_order(arguments)
    is_audited = environment.audit is not None and name != AUDIT_STREAM
    queue_class = AuditedQueue if is_audited else Queue
    queue = queue_class(
        name,
        order,
        turn,
        is_durable=is_durable,
        is_auto_delete=is_auto_delete,
        owner=owner,
        arguments=arguments.raw,
        on_unused=on_unused,
        environment=environment,
    )
    _set_lane(queue, order, arguments, environment)
    queue.lane.consumers.live = live_limit_of(arguments)
    set_dispatch(queue, arguments, environment)
    if (
        arguments.message_ttl_ms is not None
        or arguments.min_message_ttl_ms
        or arguments.max_message_ttl_ms
        or arguments.expiry_check_period_ms is not None
    ):  # other queues make a plain one for the first message that can expire
        set_times(queue, arguments, environment)
    set_hold(queue, arguments, environment)
    set_deduplication(queue, arguments, environment)
    _set_limits(queue, arguments, environment)
    set_delivery_limit(queue, arguments)
    queue.dead_letters = dead_letters_of(arguments, name, environment, defaults)
    queue.lease = make_lease(queue, arguments, environment, on_expired)
    set_unused_rules(queue, arguments, environment, on_expired)
    content_store = environment.store.content_store
    if content_store is not None and not (holds_new(arguments) and is_non_destructive(arguments)):
        # what is shown to readers as it was ready is not as it was stored while it was held
        queue.install(paging=Paging(queue, order, environment, content_store))
    return queue


def set_order(queue: Queue, arguments: QueueArguments, environment: QueueEnvironment) -> None:
    """Have a living queue keep its entries as these arguments say; see ``Queue.set_order``."""
    order = make_order(arguments)
    queue.set_order(order)
    _set_lane(queue, order, arguments, environment)


def make_delay_queue(
    exchange: DelayedExchange, turn: Turn, environment: QueueEnvironment, route: Route
) -> Queue:
    """The queue of what this exchange delays, as durable as the exchange; it is set there."""
    order = FifoOrder()  # always empty: nothing is ever ready
    queue = Queue(
        delay_queue_name(exchange.name),
        order,
        turn,
        is_durable=exchange.is_durable,
        owner=exchange,
        environment=environment,
    )
    if environment.audit is not None:
        route = WatchedRoute(environment.audit, route)
    queue.install(hold=Delay(queue, environment, DelayedSender(exchange, environment, route).send))
    queue.is_timeless = True  # a time to live begins when the message has come to its queues
    if environment.store.content_store is not None:
        queue.install(paging=Paging(queue, order, environment, environment.store.content_store))
    exchange.delay_queue = queue
    return queue


def make_retained_queue(
    exchange: Exchange, arguments: QueueArguments, turn: Turn, environment: QueueEnvironment
) -> Queue:
    """The queue of what this exchange retains, as durable as the exchange; it is set there.

    ``arguments``: of ``retention_of``. It is at its limit nearly always, so the log has no word of
    that.
    """
    order = FifoOrder()
    if exchange.arguments[RETAIN] == LAST:
        order = LastValueOrder("")
        order.values = RetainedValues()
    queue = Queue(
        retained_queue_name(exchange.name),
        order,
        turn,
        is_durable=exchange.is_durable,
        owner=exchange,
        environment=environment,
    )
    if arguments.message_ttl_ms is not None:
        set_times(queue, arguments, environment)
    _set_limits(queue, arguments, replace(environment, report=_say_nothing))
    if environment.store.content_store is not None:
        queue.install(paging=Paging(queue, order, environment, environment.store.content_store))
    exchange.retained = queue
    return queue


def _say_nothing(event: Event, **fields: object) -> None:
    """Keep the log without a line."""


def make_order(arguments: QueueArguments) -> EntryOrder:
    """The ordering that the arguments ask for; FIFO if they ask for none."""
    if arguments.max_priority is not None:
        return rabbitmq_levels(arguments.max_priority, arguments.default_priority)
    if arguments.priorities is not None:
        return qpid_levels(arguments.priorities, arguments.default_priority)
    if arguments.sort_key is not None:
        return SortedOrder(
            arguments.sort_key,
            descending=arguments.sort_order == "desc",
            numeric=arguments.sort_type == "number",
        )
    if is_non_destructive(arguments):
        return LogOrder(is_paged=arguments.last_value_key is None)
    if arguments.last_value_key is not None:
        return LastValueOrder(arguments.last_value_key)
    return FifoOrder()


def level_reader(arguments: QueueArguments) -> LevelReader | None:
    """The function that reads a message's level of priority; None for queues without levels.

    Agrees with ``make_order``.
    """
    if arguments.max_priority is not None:
        return rabbitmq_level_reader(arguments.max_priority, arguments.default_priority)
    if arguments.priorities is not None:
        return qpid_level_reader(arguments.priorities, arguments.default_priority)
    return None


def holds_new(arguments: QueueArguments) -> bool:
    """True if headers may hold messages as they come."""
    return bool(arguments.hold_on_publish) or arguments.hold_until_header is not None


def is_non_destructive(arguments: QueueArguments) -> bool:
    """True if consumers only read, as those of a stream always do."""
    return bool(arguments.non_destructive) or arguments.queue_type == "stream"


def _set_lane(
    queue: Queue, order: EntryOrder, arguments: QueueArguments, environment: QueueEnvironment
) -> None:
    group_type = arguments.message_group_type
    if is_non_destructive(arguments):  # groups do not concern readers
        _set_reading_lane(queue, order, arguments, environment)
    else:
        groups = None
        if group_type in ("standard", "shared"):
            groups = Groups(
                group_type,
                header=arguments.message_group_key,
                default=arguments.message_group_default,
                buckets=arguments.message_group_buckets or 0,
                rebalance=arguments.message_group_rebalance or "off",
                first_key=arguments.message_group_first_key,
            )
        selector = _default_selector(arguments)
        if groups is not None or selector is not None:
            queue.install(lane=SelectiveLane(queue, order, groups, selector))


def live_limit_of(arguments: QueueArguments) -> LiveLimit | None:
    """The limit of consumers that receive; None: all do."""
    if arguments.single_active_consumer:
        return TakingOver() if arguments.queue_type == "quorum" else LiveLimit(1)
    return LiveLimit(arguments.max_live_consumers) if arguments.max_live_consumers else None


def set_dispatch(queue: Queue, arguments: QueueArguments, environment: QueueEnvironment) -> None:
    """Set which consumer is next, when deliveries start, and how many there are in a second."""
    queue.lane.consumers.rule = _DISPATCH_RULES.get(arguments.dispatch or "")
    needed, delay_ms = arguments.consumers_before_dispatch, arguments.delay_before_dispatch_ms
    if queue.pace is None:
        if (needed, delay_ms, arguments.max_rate) == (None, None, None):
            return
        queue.pace = DispatchPace(queue, environment)
    queue.pace.set_rules(needed, delay_ms, arguments.max_rate or 0)


def _default_selector(arguments: QueueArguments) -> Selector | None:
    """The selectors of the default filters, for basic.get, which has no filters of its own."""
    texts = _default_texts(arguments, SELECTOR)
    return compile_selector(" AND ".join(f"({text})" for text in texts)) if texts else None


def _default_texts(arguments: QueueArguments, filter_type: str) -> list[str]:
    return [
        default.argument
        for default in arguments.default_filters or ()
        if default.filter_type == filter_type
    ]


def _set_reading_lane(
    queue: Queue, order: EntryOrder, arguments: QueueArguments, environment: QueueEnvironment
) -> None:
    lane = ReadingLane(queue, order)
    queue.install(lane=lane)
    if arguments.default_filters:
        lane.getter = Getter(
            _default_selector(arguments),
            _default_texts(arguments, REPLAY_PERIOD),
            environment.clock,
        )
    if not isinstance(order, LogOrder):
        return
    if arguments.last_value_key is not None:
        queue.install(last_values=LastValues(arguments.last_value_key))
    if arguments.queue_type == "stream":
        queue.is_timeless = True  # as in RabbitMQ, and its offsets have no holes
        lane.retention = Retention(
            queue,
            order,
            environment,
            max_age_ms=arguments.max_age_ms,
            max_length_bytes=arguments.max_length_bytes,
        )


def set_times(queue: Queue, arguments: QueueArguments, environment: QueueEnvironment) -> None:
    """Bound the times to live of messages that come from now on."""
    expiry = queue.expiry if queue.expiry is not None else Expiry(queue, environment)
    expiry.set_bounds(
        message_ttl_ms=arguments.message_ttl_ms,
        min_ttl_ms=arguments.min_message_ttl_ms,
        max_ttl_ms=arguments.max_message_ttl_ms,
        sweep_ms=arguments.expiry_check_period_ms,
    )
    queue.install(expiry=expiry)


def set_hold(queue: Queue, arguments: QueueArguments, environment: QueueEnvironment) -> None:
    """Have the queue hold messages that are not valid yet, and deliveries that came back, or not.

    Those that are held already stay until their time.
    """
    hold, retry = queue.hold, retry_of(arguments)
    headers = hold_headers(arguments.hold_on_publish, arguments.hold_until_header)
    if not headers and retry is None and not queue.held_count:
        if hold is not None:
            queue.remove_hold()
        return
    if hold is None:
        hold = Hold(queue, environment)
    hold.headers = headers
    hold.retry = retry
    queue.install(hold=hold)


def retry_of(arguments: QueueArguments) -> Retry | None:
    """The delayed retry that the arguments set; what is only read does not come back."""
    kind, min_ms = arguments.delayed_retry_type, arguments.delayed_retry_min_ms
    if (kind is None and min_ms is None) or kind == "disabled" or is_non_destructive(arguments):
        return None
    return Retry(
        CAUSES[kind],
        min_ms=MIN_MS if min_ms is None else min_ms,
        max_ms=arguments.delayed_retry_max_ms,
        multiplier=arguments.delayed_retry_multiplier,
        jitter_percent=arguments.delayed_retry_jitter or 0,
    )


def set_deduplication(
    queue: Queue, arguments: QueueArguments, environment: QueueEnvironment
) -> None:
    """Have the queue look at ids, or not; ids that it knows stay if they mean the same."""
    ids = queue.deduplication
    if not arguments.message_deduplication:
        if ids is not None:
            queue.remove_deduplication()
        return
    header, size, ttl_ms = (
        arguments.deduplication_header,
        arguments.cache_size,
        arguments.cache_ttl_ms,
    )
    is_alike = isinstance(ids, IdsInQueue) is (size is ttl_ms is None)
    if ids is not None and ids.header == header and is_alike:
        if isinstance(ids, IdCache):
            ids.set_bounds(size, ttl_ms)
        return
    queue.install(
        deduplication=IdsInQueue(queue.name, environment, header)
        if size is ttl_ms is None
        else IdCache(queue.name, environment, header, size, ttl_ms)
    )


def make_lease(
    queue: Queue,
    arguments: QueueArguments,
    environment: QueueEnvironment,
    on_expired: Callable[[Queue], None],
) -> Lease | None:
    """The lease that the arguments set, which has begun; None: the queue has none."""
    if arguments.expires_ms is None:
        return None
    is_only_empty = bool(arguments.expires_if_empty)
    end = partial(on_expired, queue)
    return Lease(queue, environment, arguments.expires_ms, is_only_empty, end)


def set_unused_rules(
    queue: Queue,
    arguments: QueueArguments,
    environment: QueueEnvironment,
    on_end: Callable[[Queue], None],
) -> None:
    """Set what happens while the queue has no consumers; ``on_end`` deletes it."""
    delay_ms, max_messages = arguments.auto_delete_delay_ms, arguments.auto_delete_message_count
    purges = bool(arguments.purge_on_no_consumers)
    unused = queue.unused
    if unused is None:
        if (delay_ms, max_messages) == (None, None) and not purges:
            return
        unused = Unused(
            queue, environment, partial(on_end, queue) if queue.is_auto_delete else None
        )
    unused.set_rules(delay_ms, max_messages, purges=purges)
    queue.install(unused=unused)


def _set_limits(queue: Queue, arguments: QueueArguments, environment: QueueEnvironment) -> None:
    if arguments.queue_type == "stream":
        return  # its limits are its retention
    if arguments.max_length is None and arguments.max_length_bytes is None:
        return
    queue.install(overflow=make_overflow(queue, arguments, environment))


def make_overflow(
    queue: Queue, arguments: QueueArguments, environment: QueueEnvironment
) -> Overflow:
    """The limits that the arguments set; there must be one."""
    return Overflow(
        queue,
        environment,
        max_length=arguments.max_length,
        max_length_bytes=arguments.max_length_bytes,
        policy=arguments.overflow or DEFAULT_OVERFLOW,
        resume_percent=resume_percent_of(arguments),
        # what readers have not acknowledged is in the queue as well
        counts_unacked=has_qpid_limits(arguments.raw) and not is_non_destructive(arguments),
    )


def resume_percent_of(arguments: QueueArguments) -> float:
    """The depth to which an overfull queue must fall, in percent of its limits."""
    percent = arguments.flow_resume_percent
    return RESUME_PERCENT if percent is None else percent


def has_qpid_limits(raw: Mapping[str, object]) -> bool:
    """True if all limits have Qpid's names; they then count what Broker-J counts."""
    return not any(BY_FIELD[field].name in raw for field in ("max_length", "max_length_bytes"))


def dead_letters_of(
    arguments: QueueArguments, name: str, environment: QueueEnvironment, defaults: QueueDefaults
) -> DeadLetters | None:
    """The part that publishes dead messages of the queue of this name; None: none are."""
    targets = find_targets(
        name,
        environment.vhost_name,
        exchange=arguments.dead_letter_exchange,
        routing_key=arguments.dead_letter_routing_key,
        alternate=alternate_of(arguments, name),
        default_exchange=defaults.dead_letter_exchange,
        has_copies=defaults.has_dead_letter_copies,
        reasons=arguments.dead_letter_reasons,
        expiry_policy=arguments.expiry_policy,
    )
    if not targets:
        return None
    takes_transient = arguments.dead_letter_transient is not False
    letters_class = DeadLetters if environment.audit is None else AuditedDeadLetters
    return letters_class(name, environment, targets, takes_transient=takes_transient)


def set_delivery_limit(queue: Queue, arguments: QueueArguments) -> None:
    """Set how often an entry may come back, and whether messages show how often they did."""
    limit = arguments.delivery_limit
    if limit is None and arguments.max_delivery_attempts:
        limit = arguments.max_delivery_attempts - 1  # which counts the first delivery too
    is_quorum = (arguments.queue_type or DEFAULT_QUEUE_TYPE) == "quorum"
    if limit is None and is_quorum:
        limit = QUORUM_DELIVERY_LIMIT
    queue.delivery_limit = NO_DELIVERY_LIMIT if limit is None or limit < 0 else limit
    queue.shows_delivery_count = is_quorum or queue.delivery_limit != NO_DELIVERY_LIMIT
