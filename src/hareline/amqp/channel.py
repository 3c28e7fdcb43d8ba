"""One channel: its state, and what the handlers of its methods share.

=========  =====================================  ==========================================
state      meaning                                leaves it by
=========  =====================================  ==========================================
OPEN       methods are handled                    client channel.close, or an error -> CLOSING
CLOSING    channel.close was sent; everything     channel.close-ok; the number is free then
           but close and close-ok is ignored
=========  =====================================  ==========================================

A channel that is gone is not in its connection's registry. Entries taken from queues are settled,
released or in ``port.unacked``, a transaction or a redelivery.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hareline import events
from hareline.amqp.consuming import ChannelConsumers, ChannelPrefetch
from hareline.amqp.content import ContentAssembler
from hareline.amqp.context import ConnectionParts
from hareline.amqp.delivery_port import DeliveryPort
from hareline.amqp.ports import ConnectionPort
from hareline.amqp.publishing import AuditedPublishing, Publishing
from hareline.amqp.reply_to import ReplyConsumer
from hareline.amqp.settling import Redelivery, Settling
from hareline.auth.permissions import AccessChecker
from hareline.broker.tracing import Origin, Tap
from hareline.broker.vhost import generated_name
from hareline.counts import ChannelCounts
from hareline.errors import AmqpError, InvalidSelector, NotFound
from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.kinds import LOST
from hareline.queues.declare.arguments import server_named_prefix
from hareline.wire.methods import Frame

INVALID_ARGUMENT: Final = 409  # no code of AMQP 0-9-1; Qpid's clients make JMS's exception of it


class Channel:
    """``number`` is the wire's. ``parts``: what it shares with the connection's other channels.

    ``redelivery`` is None until the client has recovered without requeue.
    """

    __slots__ = (
        "_generated_name",
        "client",
        "connection",
        "consumers",
        "content",
        "dialect",
        "last_queue_name",
        "number",
        "parts",
        "port",
        "prefetch",
        "publishing",
        "redelivery",
        "reply_to",
        "settling",
        "vhost",
    )

    def __init__(self, connection: ConnectionPort, parts: ConnectionParts, number: int) -> None:
        self.connection = connection
        self.parts = parts
        self.number = number
        context, client = parts.context, parts.client
        self.client = client
        self.vhost = client.vhost
        self.dialect = client.dialect
        self.port = DeliveryPort(number, parts.output)
        self.settling = Settling(self.port.unacked, client.dialect)
        self.reply_to = ReplyConsumer(self.port, client.vhost, context.report, parts.transport)
        audit = client.vhost.environment.audit
        if audit is None:
            self.publishing = Publishing(parts, self.port, self.reply_to)
        else:
            self.publishing = AuditedPublishing(parts, self.port, self.reply_to, audit)
        self.content = ContentAssembler(
            context.limits.max_message_bytes,
            context.large_bodies,
            context.limits.large_message_bytes,
        )
        self.consumers = ChannelConsumers(self.port, client, parts)
        self.prefetch = ChannelPrefetch()
        self.redelivery: Redelivery | None = None
        self.last_queue_name = ""
        self._generated_name = ""
        if self.vhost.firehose.is_on:
            self.update_tap()

    @property
    def access(self) -> AccessChecker:
        return self.client.access

    @property
    def is_closing(self) -> bool:
        return self.port.is_closing

    def reply(self, method_class: type[Frame], **fields: object) -> None:
        """A method on this channel."""
        self.port.reply(method_class, **fields)

    def answer(self, method: Any, method_class: type[Frame], **fields: object) -> None:
        """Reply to ``method``, unless the client wants no reply."""
        if not method.nowait:
            self.reply(method_class, **fields)

    # ------------------------------------------------------------------- lanes

    def open_lanes(self) -> None:
        """Let acks, and outside of a transaction publishes, take the decoder's short cut."""
        gate = self.parts.gate
        gate.open_settle_lane(self.number, self.settling)
        # behind the decoder's lane nobody could wait for a right that has to be asked for
        if self.publishing.transaction is None and not self.access.may_pend:
            gate.open_publish_lane(self.number, self.publishing)

    def reopen_lanes(self) -> None:
        """Open the lanes that the channel may have now."""
        if not self.is_closing and not self.content.is_open:
            self.open_lanes()

    def update_tap(self) -> None:
        """Tell the firehose of the virtual host of messages, if it is on, and otherwise nothing."""
        firehose, user = self.vhost.firehose, self.client.user
        self.port.tap = None
        if firehose.is_on and user is not None:
            origin = Origin(self.parts.transport.connection_name, self.number, user.name)
            self.port.tap = Tap(firehose, origin)

    # ------------------------------------------------------------- names of queues

    def queue_name(self, name: str) -> str:
        """The name, or for an empty one the queue last declared on this channel."""
        if name:
            return name
        if not self.last_queue_name:
            raise NotFound("no previously declared queue")
        return self.last_queue_name

    def generated_queue_name(self, arguments: Mapping[str, object]) -> str:
        """A server-given name; with x-name-prefix (RabbitMQ 4.3) one that starts so.

        It is the same one until ``take_generated_name``: rights to it may have to be asked for.
        """
        prefix = server_named_prefix(arguments) + "-"
        name = self._generated_name
        if not name.startswith(prefix):
            name = self._generated_name = generated_name(prefix)
        self.access.require("configure", "queue", name)
        return name

    def take_generated_name(self) -> None:
        """There is a queue of the generated name, so the next one gets another."""
        self._generated_name = ""

    # ----------------------------------------------------------------- what is counted

    @property
    def counts(self) -> ChannelCounts:
        counts = ChannelCounts()
        port = self.port
        deliveries = port.next_tag - 1
        tally = port.tally
        if tally is not None:
            tally.collect()
            counts.publish = tally.publish
            counts.return_unroutable = tally.return_unroutable
            counts.drop_unroutable = tally.drop_unroutable
            counts.deliver_no_ack = tally.automatic
            counts.get = tally.get
            counts.get_no_ack = tally.get_no_ack
            counts.get_empty = tally.get_empty
            counts.redeliver = tally.redeliver
            deliveries -= tally.automatic + tally.get + tally.get_no_ack
        counts.deliver = deliveries
        confirms, transaction = self.publishing.confirms, self.publishing.transaction
        if confirms is not None:
            counts.confirm = confirms.confirmed_count
        kept = 0 if transaction is None else transaction.kept_count
        unsettled = len(port.unacked) + kept
        counts.ack = deliveries + counts.get - unsettled - port.unacked.given_back
        return counts

    # ---------------------------------------------------------- deliveries that are out

    @property
    def has_deliveries(self) -> bool:
        """True if there is a consumer or an unacked delivery, so that acks are to be expected."""
        return bool(self.consumers.by_tag or self.port.unacked.entries)

    def outstanding(self) -> list[QueueEntry]:
        """Entries that count against credit."""
        entries = self.settling.outstanding()
        return entries if self.redelivery is None else entries + list(self.redelivery.pending)

    def set_flow(self, is_active: bool) -> None:
        self.port.is_stopped = not is_active
        if self.redelivery is not None and self.redelivery.pending:
            self.redelivery.go_on()
        else:
            self.port.update_flow()

    def redeliver(self) -> None:
        """Send everything unacked again, to the consumers that had it, before anything else."""
        if self.redelivery is None:
            is_release_counted = self.settling.is_release_counted
            self.redelivery = Redelivery(self.port, is_release_counted=is_release_counted)
        self.redelivery.begin()

    def release_all(self, cause: int) -> None:
        """Everything that the client has, or had, and has not settled becomes ready again."""
        self.settling.release_all(self.take_unsent(), cause)

    def take_unsent(self) -> list[QueueEntry]:
        """Entries that were to be sent again."""
        return [] if self.redelivery is None else self.redelivery.take_all()

    # ------------------------------------------------------------------- the end

    def refuse(self, error: AmqpError) -> None:
        """Send channel.close for ``error``, and wait for close-ok."""
        self.parts.context.report(
            events.CHANNEL_ERROR,
            peer=self.parts.transport.peer,
            channel=self.number,
            reply_code=error.reply_code,
            reply_text=error.reply_text,
        )
        self.terminate()
        reply_code = error.reply_code
        if isinstance(error, InvalidSelector) and self.dialect.is_invalid_selector_argument:
            reply_code = INVALID_ARGUMENT
        self.parts.output.send_close(self.number, error, reply_code)

    def terminate(self) -> None:
        """Cancel consumers, drop what is half done, and release what is unacked, in order."""
        self.port.is_closing = True
        self._stop_publishing()
        self.port.drop_contents()
        self.parts.gate.close_lanes(self.number)
        if self.publishing.flow is not None:
            self.publishing.flow.close()
        self.prefetch.window.waiting.clear()  # or each consumer would be looked for there
        self.consumers.remove_all()
        self.reply_to.close()
        self.content.close()
        transaction = self.settling.transaction
        if transaction is not None:
            context = self.parts.context
            transaction.end(self.port.unacked, context.shares, context.clock)
        self.release_all(LOST)

    def _stop_publishing(self) -> None:
        confirms = self.publishing.confirms
        if confirms is None:
            return
        if confirms.is_marked:  # nothing may follow a close
            self.parts.output.write_on(self.number, confirms.release())
        confirms.stop()

    def detach(self) -> None:
        """Forget what refers back to the channel; called last, when the number is free again."""
        self.vhost.counts.on_channel_ended(self.vhost.name, self.port.channel_name, self.counts)
        self.redelivery = None
        self.port.close()
        self.prefetch.window.close()

    def __repr__(self) -> str:
        return f"<Channel {self.number} of {self.parts.transport.peer}>"
