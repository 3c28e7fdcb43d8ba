"""Publishes on their way to queues, and the answers to their publisher.

``amqp.routes`` says where a publish goes, ``amqp.inspection`` what it asks for. In a transaction
the commit puts it into queues. basic.return is in the output before what confirms it.       [hot]
"""

from __future__ import annotations

from random import random
from typing import Final, NamedTuple

from hareline.amqp.client import Client
from hareline.amqp.confirms import Confirms
from hareline.amqp.context import ConnectionParts
from hareline.amqp.delivery_port import DeliveryPort, PublishTally
from hareline.amqp.flow_control import ChannelFlow
from hareline.amqp.inspection import (
    HEADER_SIZE_BARE,
    Inspection,
    initial_position,
    parse_expiration,
    publish_number,
)
from hareline.amqp.product import closes_when_no_route
from hareline.amqp.reply_to import ReplyConsumer
from hareline.amqp.routes import Route, are_kept, check_copies, find_route, is_kept
from hareline.amqp.transactions import Transaction
from hareline.broker.producers import PublishNumber
from hareline.errors import NoRoute, NotKept, ResourceError, within_short_string
from hareline.message import PROPERTIES_START, Address, LargeBody, Message, large_message
from hareline.queues.core.audit_recorder import AuditRecorder
from hareline.queues.core.enqueueing import Enqueueing, archive_message, archives_of
from hareline.queues.core.kinds import REFUSED, TAKEN
from hareline.queues.policies.expiry import expires_at_ms
from hareline.queues.policies.overflow import Overflow
from hareline.queues.queue import Queue
from hareline.storage.interface import MessageStore
from hareline.wire.constants import FLAG_HEADERS
from hareline.wire.decoder import PublishLane
from hareline.wire.encoder import return_frame
from hareline.wire.plain_properties import NOT_PLAIN, NUMBER, PERSISTENT, PRODUCER_MARK, walk

_NO_ROUTE: Final = 312
_NO_CONSUMERS: Final = 313
_NOWHERE: Final = Address("", "", b"\x00\x00")


class Publish(NamedTuple):
    """A publish that is numbered, immediate or of a transaction, on its way to queues."""

    route: Route
    message: Message
    queues: tuple[Enqueueing, ...]
    archives: tuple[Enqueueing, ...]
    number: PublishNumber | None


class Publishing(PublishLane):
    """``confirms`` is None outside of confirm mode, ``transaction`` outside of tx mode.

    ``flow`` is made when the first full queue stops this channel.
    """

    __slots__ = (
        "_client",
        "_clock",
        "_connection_flow",
        "_gate",
        "_inspection",
        "_number",
        "_port",
        "_producers",
        "_routing",
        "_store",
        "_turn",
        "_user_id",
        "confirms",
        "flow",
        "transaction",
    )

    def __init__(self, parts: ConnectionParts, port: DeliveryPort, reply_to: ReplyConsumer) -> None:
        super().__init__()
        context = parts.context
        self._port = port
        self._number = port.number
        self._client: Client = parts.client
        self._gate = parts.gate
        self._connection_flow = parts.flow
        self._turn = context.turn
        self._clock = context.clock
        self._routing = parts.client.vhost.routing
        self._producers = parts.client.vhost.producers
        self._store: MessageStore = parts.client.vhost.environment.store
        user = parts.client.user
        self._user_id = b""
        if user is not None and context.users.has_user_id(user):
            self._user_id = user.name.encode("utf-8", "surrogateescape")
        self._inspection = Inspection(
            parts.client, context.users, context.clock, self._user_id, reply_to
        )
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self.flow: ChannelFlow | None = None

    def publish(
        self, route: Route, flags: int, content: bytes, header_size: int, size: int
    ) -> bool:
        if flags or header_size != HEADER_SIZE_BARE:
            plain = walk(content[PROPERTIES_START : header_size - 1], self._user_id)
            if plain == NOT_PLAIN:
                self._publish_asking(route, flags, content, header_size, size)
                return False
            if plain == PERSISTENT:
                route = route.persistent
        if route.takes_runs:
            self.publish_plain(route, content, header_size, size)
        else:
            self.publish_checked(route, content, header_size, size)
        return True

    def publish_checked(self, route: Route, content: bytes, header_size: int, size: int) -> None:
        start_s = self._turn.now()
        if route.is_dynamic or route.needs_admission:
            message = self._message(route, content, header_size, size)
            entries = self._enqueue_on(route, message, [], None)
        else:
            self.publish_plain(route, content, header_size, size)
            entries = len(route.queues)
        self._gate.count_work(entries, start_s)

    def publish_run(
        self, route: Route, contents: list[bytes], header_size: int, framing: int
    ) -> None:
        if not route.queues:
            self.publish_each(route, contents, header_size, framing)
            return
        address, position = route.address, route.position
        number, now_ms = self._number, self._clock.now_ms
        messages = [
            Message(address, content, header_size, len(content) - framing, number, now_ms, position)
            for content in contents
        ]
        contents.clear()  # nothing below refuses one of them
        for queue in route.queues:
            queue.enqueue_run(messages)
        route.tally.count += len(messages)
        if self.confirms is not None:
            self._count(self.confirms, len(messages), awaits_store=route.awaits_store)

    def publish_plain(self, route: Route, content: bytes, header_size: int, size: int) -> None:
        message = Message(  # as `_message`, a call of which would take a tenth of all this
            route.address,
            content,
            header_size,
            size,
            self._number,
            self._clock.now_ms,
            route.position,
        )
        only = route.only_queue
        if only is not None:
            only.enqueue(message)
        elif route.queues:
            for queue in route.queues:
                queue.enqueue(message)
        elif route.is_mandatory:
            self._return_untaken(message, _NO_ROUTE, "NO_ROUTE")
        route.tally.count += 1
        if self.confirms is not None:
            self._count(self.confirms, 1, awaits_store=route.awaits_store)

    def _message(self, route: Route, content: bytes, header_size: int, size: int) -> Message:
        return Message(
            route.address,
            content,
            header_size,
            size,
            self._number,
            self._clock.now_ms,
            route.position,
        )

    def _count(self, confirms: Confirms, publishes: int, *, awaits_store: bool) -> None:
        """These are to be confirmed; ``awaits_store``: when the store has them."""
        confirms.sequence += publishes
        if awaits_store:
            confirms.ticket = self._store.ticket
        if not confirms.is_marked:
            confirms.mark()

    def publish_first(
        self,
        method_payload: bytes,
        flags: int,
        content: bytes,
        header_size: int,
        size: int,
        large: LargeBody | None = None,
    ) -> None:
        """A publish that did not come by the lane; ``large`` is the body that is not in it."""
        route = self.routes.get(method_payload)
        if route is None:
            message = Message(
                _NOWHERE, content, header_size, size, self._number, self._clock.now_ms
            )
            route = find_route(self, method_payload, message, self._client)
            if not route.is_dynamic:
                route.tally = self._tally_of(route, len(route.queues))
        if self.transaction is None and large is None:
            self.publish(route, flags, content, header_size, size)
            return
        octets = content[PROPERTIES_START : header_size - 1]
        plain = walk(octets, self._user_id)
        if plain == PERSISTENT or (plain == NOT_PLAIN and initial_position(octets)):
            route = route.persistent
        if large is None:
            message = self._message(route, content, header_size, size)
        else:
            now_ms = self._clock.now_ms
            message = large_message(route.address, content, large, now_ms, route.position)
        extra_keys: list[str] = []
        number = None
        if plain == NOT_PLAIN:
            message, extra_keys, number = self._inspection.inspect(message, flags)
        transaction = self.transaction
        if transaction is None:
            self._enqueue_on(route, message, extra_keys, number)
            return
        queues, archives = self._queues_for(route, message, extra_keys)
        message.forget_properties()
        self._keep(transaction, Publish(route, message, queues, archives, number))

    # --------------------------------------------------- inspected publishes

    def _publish_asking(
        self, route: Route, flags: int, content: bytes, header_size: int, size: int
    ) -> None:
        """A publish whose properties ask for something, or may."""
        octets = content[PROPERTIES_START : header_size - 1]
        if (
            flags & FLAG_HEADERS
            and PRODUCER_MARK in octets
            and self._publish_numbered(route, octets, content, header_size, size)
        ):
            return
        if initial_position(octets):
            route = route.persistent
        start_s = self._turn.now()
        message = self._message(route, content, header_size, size)
        message, extra_keys, number = self._inspection.inspect(message, flags)
        self._gate.count_work(self._enqueue_on(route, message, extra_keys, number), start_s)

    def _publish_numbered(
        self, route: Route, octets: bytes, content: bytes, header_size: int, size: int
    ) -> bool:
        """A publish to fixed queues whose properties only number it; False: it is not one."""
        plain = walk(octets, self._user_id, NUMBER)
        if plain == PERSISTENT:
            route = route.persistent
        if plain == NOT_PLAIN or route.is_dynamic or route.needs_admission:
            return False
        number = publish_number(octets)
        if number is None:
            return False
        start_s = self._turn.now() if route.is_wide else 0.0
        if self._answer_duplicate(number) is None:
            self.publish_plain(route, content, header_size, size)
            if route.queues:
                self._producers.accept(number, is_kept=route.awaits_store)
                if route.is_wide:
                    self._gate.count_work(len(route.queues), start_s)
        return True

    def _enqueue_on(
        self, route: Route, message: Message, extra_keys: list[str], number: PublishNumber | None
    ) -> int:
        """Enqueue a message by its route and these keys; returns in how many queues, or 1.

        A duplicate by its ``number`` is only answered.
        """
        if number is not None and self._answer_duplicate(number) is not None:
            return 1
        queues, archives = route.queues, route.archives
        if extra_keys or route.is_dynamic:
            queues, archives = self._queues_for(route, message, extra_keys)
            self._tally_of(route, len(queues)).count += 1
        else:
            route.tally.count += 1
        message.forget_properties()  # a waiting message costs its octets alone
        if number is None and not route.is_immediate:
            self._enqueue(message, queues, archives, route.is_mandatory)
        else:
            self._enqueue_routed(Publish(route, message, queues, archives, number))
        return len(queues)

    def _keep(self, transaction: Transaction, publish: Publish) -> None:
        """Checked and routed now, as in RabbitMQ; enqueued, or returned, at commit.

        Raises NoRoute in the qpid dialect for what would be returned, unless its client opts out.
        """
        message, queues = publish.message, publish.queues
        if publish.route.is_mandatory and not queues:
            check_no_route_allowed(self._client, publish.route.address)
        targets = queues + self._archives_of(queues, publish.archives)
        transaction.publish(
            lambda: self._enqueue_at_commit(publish),
            entries=len(targets),
            kept_bytes=len(message.content) + len(message.address.octets)
            if are_kept(targets, message.position)
            else 0,
            is_numbered=publish.number is not None,
        )

    def _enqueue_at_commit(self, publish: Publish) -> bool:
        """A queue may have been deleted since the publish; a time to live begins here.

        False when a queue refused the message, or for a duplicate that cannot be confirmed.
        """
        if publish.number is not None:
            is_confirmed = self._answer_duplicate(publish.number)
            if is_confirmed is not None:
                return is_confirmed
        message = publish.message
        now_ms = message.arrival_ms = self._clock.now_ms
        if message.expires_at_ms:
            expiration_ms = parse_expiration(message.properties.expiration or "")
            message.forget_properties()
            message = message.expiring_at(expires_at_ms(expiration_ms, now_ms))
        route, queues, archives = publish.route, publish.queues, publish.archives
        self._tally_of(route, len(queues)).count += 1
        queues = tuple([queue for queue in queues if not queue.is_deleted])
        archives = tuple([stream for stream in archives if not stream.is_deleted])
        return self._enqueue_routed(Publish(route, message, queues, archives, publish.number))

    def _answer_duplicate(self, number: PublishNumber) -> bool | None:
        """Confirm or refuse a duplicate, and return which; None for a message that is new.

        It is confirmed when its original is durable, and refused where that is not known.
        """
        original = self._producers.find(number)
        if original is None:
            return None
        is_safe = self._producers.is_safe(original)
        self._port.counting().publish += 1
        confirms = self.confirms
        if confirms is not None:
            confirms.sequence += 1
            if not is_safe:
                confirms.refuse()
            elif original.ticket > confirms.ticket:
                confirms.ticket = original.ticket
            if not confirms.is_marked:
                confirms.mark()
        return is_safe

    def _queues_for(
        self, route: Route, message: Message, extra_keys: list[str]
    ) -> tuple[tuple[Enqueueing, ...], tuple[Enqueueing, ...]]:
        """Queues for the message, and the archives of the exchanges on its way."""
        if not (extra_keys or route.is_dynamic):
            return route.queues, route.archives
        if route.exchange is None:  # a direct reply; its copies go by the default exchange
            copies, _, archives = self._routing.route(
                self._client.vhost.exchange(""), extra_keys, message
            )
            return route.queues + copies, archives
        check_copies(self._client.access, route.exchange, extra_keys)
        keys = [route.address.routing_key, *extra_keys]
        queues, _, archives = self._routing.route(route.exchange, keys, message)
        return queues, archives

    def _archives_of(
        self, queues: tuple[Enqueueing, ...], archives: tuple[Enqueueing, ...]
    ) -> tuple[Enqueueing, ...]:
        if archives or self._routing.has_archives:
            return archives_of(queues, archives)
        return ()

    def _enqueue_routed(self, publish: Publish) -> bool:
        """As ``_enqueue``; immediate: only where a consumer waits, and it must be somewhere."""
        route, message, queues = publish.route, publish.message, publish.queues
        archives, is_mandatory = publish.archives, route.is_mandatory
        if route.is_immediate:
            takers = tuple(queue for queue in queues if queue.has_taker(message))
            message.forget_properties()
            is_mandatory = not queues
            if queues and not takers:
                self._return_untaken(message, _NO_CONSUMERS, "NO_CONSUMERS")
            queues = takers
        is_accepted = self._enqueue(message, queues, archives, is_mandatory)
        if publish.number is not None and is_accepted:
            may_return = is_mandatory or route.is_immediate
            if queues or (archives and not may_return):
                targets = queues + self._archives_of(queues, archives)
                self._producers.accept(publish.number, is_kept=are_kept(targets, message.position))
        return is_accepted

    def _enqueue(
        self,
        message: Message,
        queues: tuple[Enqueueing, ...],
        archives: tuple[Enqueueing, ...],
        is_mandatory: bool,
    ) -> bool:
        """False when a queue refused the message; the others have it (RabbitMQ).

        An archive has what its queue took. Where the store refuses the archive's copy, no queue
        takes the message.

        Raises NotKept if the store refuses it, and its publisher could not know otherwise.
        """
        if self._port.tap is not None:
            self._port.tap.on_published(message, queues)
        refusal: Overflow | None = None
        # A commit that has begun is carried out, and what it adds waits for room if need be.
        unkept = self._store.refusal if self.transaction is None else ""
        if unkept:
            takers = tuple(queue for queue in queues if not is_kept(queue, message.position))
            if are_kept(self._archives_of(queues, archives), message.position):
                takers = archives = ()
            elif len(takers) == len(queues):
                unkept = ""
            queues = takers
        untaken: list[Enqueueing] = []
        for queue in queues:
            if queue.needs_admission and isinstance(queue, Queue):
                outcome = queue.put(message)
                if outcome != TAKEN:
                    untaken.append(queue)
                overflow = queue.overflow
                if overflow is None:
                    continue
                if outcome == REFUSED and refusal is None:
                    refusal = overflow
                elif overflow.stops_publishers:
                    self._wait_for(overflow)
            elif message.extras is not None and message.expires_at_ms:
                queue.put(message)
            else:
                queue.enqueue(message)
        copies: tuple[Enqueueing, ...] = ()
        if archives or self._routing.has_archives:
            takers = queues
            if untaken:  # of a wide fan-out there may be thousands
                left_out = set(untaken)
                takers = tuple([queue for queue in queues if queue not in left_out])
            copies = archive_message(message, takers, archives)
        confirms = self.confirms
        if is_mandatory:
            if refusal is not None or unkept:
                # aiormq takes a return for the answer to the publish, and ignores the nack
                if confirms is None or self._client.dialect.returns_what_is_nacked:
                    return_refused(self._port, message, refusal, unkept)
            elif not queues:
                self._return_untaken(message, _NO_ROUTE, "NO_ROUTE")
        if confirms is not None:
            confirms.sequence += 1
            if are_kept(queues, message.position) or (
                copies and are_kept(copies, message.position)
            ):
                confirms.ticket = self._store.ticket
            if refusal is not None or unkept:
                confirms.refuse()
            if not confirms.is_marked:
                confirms.mark()
        elif unkept and not is_mandatory and self.transaction is None:
            raise NotKept(not_kept_text(unkept))
        return refusal is None and not unkept

    def _wait_for(self, overflow: Overflow) -> None:
        if self._port.is_closing:  # a commit goes on when its channel is gone
            return
        if self.flow is None:
            self.flow = ChannelFlow(self._port, self._client, self._clock, self._connection_flow)
        self.flow.stop(overflow)

    def _tally_of(self, route: Route, fan_out: int) -> PublishTally:
        """Tally of publishes to the exchange of this route that go to ``fan_out`` queues."""
        exchange = route.exchange
        if exchange is None:  # a direct reply
            exchange = self._client.vhost.exchange("")
        return self._port.counting().of(exchange.counts, fan_out, route.is_mandatory)

    def forget_routes(self) -> None:
        PublishLane.forget_routes(self)
        if self._port.tally is not None:
            self._port.tally.forget()

    def _return_untaken(self, message: Message, reply_code: int, reply_text: str) -> None:
        """Return a publish that no queue takes, before it is counted for the confirms."""
        return_message(self._port, message, reply_code, reply_text)
        if self.confirms is not None and self._client.dialect.refuses_returned:
            self.confirms.refuse_next()


class AuditedPublishing(Publishing):
    """Publishing in a virtual host with audit: each publish is recorded when queues get it."""

    __slots__ = ("_audit", "_share")

    def __init__(
        self,
        parts: ConnectionParts,
        port: DeliveryPort,
        reply_to: ReplyConsumer,
        audit: AuditRecorder,
    ) -> None:
        super().__init__(parts, port, reply_to)
        self._audit = audit
        self._share = audit.share  # random() is below 1.0, so that is all

    def publish_plain(self, route: Route, content: bytes, header_size: int, size: int) -> None:
        if random() < self._share:
            self._audit.on_published(route.address, size, len(route.queues))
        Publishing.publish_plain(self, route, content, header_size, size)  # cheaper than super()

    def publish_run(
        self, route: Route, contents: list[bytes], header_size: int, framing: int
    ) -> None:
        self.publish_each(route, contents, header_size, framing)

    def _enqueue(
        self,
        message: Message,
        queues: tuple[Enqueueing, ...],
        archives: tuple[Enqueueing, ...],
        is_mandatory: bool,
    ) -> bool:
        if random() < self._share:
            self._audit.on_published(message.address, message.size, len(queues))
        return super()._enqueue(message, queues, archives, is_mandatory)


def return_message(port: DeliveryPort, message: Message, reply_code: int, reply_text: str) -> None:
    """Write basic.return; the octets go out in front of whatever confirms this publish."""
    if port.is_closing:
        return
    head = return_frame(port.number, reply_code, reply_text, message.address.octets)
    port.write_content((head,), message)


def return_refused(
    port: DeliveryPort, message: Message, overflow: Overflow | None, unkept: str
) -> None:
    """Return what a full queue refused, or the store, for the reason ``unkept``.

    RabbitMQ has no basic.return for this; code and words are Broker-J's.
    """
    if overflow is None or unkept:
        return_message(port, message, ResourceError.reply_code, not_kept_text(unkept))
        return
    address = message.address
    explanation = overflow.explanation
    text = (
        f"No route for message with exchange '{address.exchange}' and routing key "
        f"'{address.routing_key}':{explanation}"
    )
    if within_short_string(text) != text:  # then rather what only the broker knows
        text = within_short_string(explanation)
    return_message(port, message, ResourceError.reply_code, text)


def check_no_route_allowed(client: Client, address: Address) -> None:
    """Raise NoRoute in the qpid dialect, unless its client opts out.

    Broker-J's closeWhenNoRoute: the commit fails with the connection.
    """
    if client.dialect.refuses_returned and closes_when_no_route(client.properties):
        raise NoRoute(
            f"no route for message with exchange '{address.exchange}' and routing key "
            f"'{address.routing_key}' in vhost '{client.vhost.name}'"
        )


def not_kept_text(reason: str) -> str:
    """The reply text for a message that the store does not take, for this reason."""
    return within_short_string(f"message cannot be stored: {reason}")
