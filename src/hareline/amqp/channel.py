"""One channel: its state, its dispatch table, and what its consumers and publishers share.

=========  =====================================  ==========================================
state      meaning                                leaves it by
=========  =====================================  ==========================================
OPEN       methods are handled                    client channel.close, or an error -> CLOSING
CLOSING    we sent channel.close; everything but  channel.close-ok; the number is free then
           close and close-ok is ignored
=========  =====================================  ==========================================

A channel that is gone simply is not in its connection's registry. Handlers live by subject in
``topology``, ``consuming`` and below; each raises an AmqpError to refuse, and ``amqp.connection``
turns that into a close frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hareline.amqp import consuming, topology
from hareline.amqp.confirms import Confirms
from hareline.amqp.consuming import ChannelConsumer
from hareline.amqp.content import ContentAssembler
from hareline.amqp.publishing import Publishing
from hareline.amqp.redelivery import Redelivery
from hareline.amqp.reply_to import ReplyQueue
from hareline.amqp.settling import Settling
from hareline.amqp.transactions import Commit, Release, Transaction
from hareline.broker.queues.declare.arguments import server_named_prefix
from hareline.broker.queues.dispatch.credit import CreditWindow
from hareline.broker.queues.entry import QueueEntry
from hareline.broker.vhost import generated_name
from hareline.errors import (
    AmqpError,
    ChannelError,
    CommandInvalid,
    NotFound,
    NotImplementedMethod,
    NotKept,
    PreconditionFailed,
)
from hareline.message import Message
from hareline.wire.constants import BASIC_PUBLISH, FRAME_HEADER, FRAME_METHOD
from hareline.wire.encoder import content_frames
from hareline.wire.methods import Access, Frame, commands, decode_method

if TYPE_CHECKING:
    from hareline.amqp.connection import Connection


class Channel:
    """``number`` is the wire's; ``next_tag`` the delivery tag of the next delivery."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number
        self.vhost = connection.vhost
        self.access = connection.access
        self.is_closing = False
        self.dialect = connection.dialect
        self.settling = Settling(self.dialect)
        self.publishing = Publishing(self)
        context = connection.context
        self.content = ContentAssembler(
            context.limits.max_message_bytes,
            context.large_bodies,
            context.limits.large_message_bytes,
        )
        self.consumers: dict[str, ChannelConsumer] = {}
        self.reply_queue: ReplyQueue | None = None
        self.next_tag = 1
        self.is_prefetch_set = False  # the client has sent basic.qos
        self.prefetch_count = 0
        self.prefetch_size = 0
        self.window = CreditWindow()  # basic.qos global=true: shared by all consumers
        self.last_queue_name = ""
        self.is_stopped = False  # by the client, with channel.flow
        self.is_flowing = True  # deliveries of queues may go out
        self.redelivery: Redelivery | None = None  # once the client has recovered without requeue
        self._flow_waiters: list[Callable[[], None]] = []

    # --------------------------------------------------------------- frames in

    def on_frame(self, kind: int, payload: bytes) -> None:
        """A method, header or body frame that did not take a lane of the decoder."""
        if kind == FRAME_METHOD:
            self._on_method(payload)
            return
        if self.is_closing:
            return
        content = self.content
        is_complete = (
            content.add_header(payload) if kind == FRAME_HEADER else content.add_body(payload)
        )
        if is_complete:
            parts = content.take(self.number)
            large = content.take_large()
            self.open_lanes()
            self.publishing.publish_first(content.method_payload, *parts, large)

    def _on_method(self, payload: bytes) -> None:
        index = int.from_bytes(payload[:4], "big")
        if self.is_closing:
            self._on_method_while_closing(index)
            return
        if index == BASIC_PUBLISH:
            self.connection.before_publish()
            self.content.begin(payload)
            self.connection.close_lanes(self.number)
            return
        if self.content.is_open:
            self.content.refuse_method()
        method = decode_method(payload)
        handler = HANDLERS.get(type(method))
        if handler is None:  # class connection, or a method that only a server sends
            raise CommandInvalid("unimplemented method")
        handler(self, method)

    def _on_method_while_closing(self, index: int) -> None:
        if index == commands.Channel.CloseOk.index:
            self.connection.forget_channel(self)
        elif index == commands.Channel.Close.index:
            self.reply(commands.Channel.CloseOk)

    def open_lanes(self) -> None:
        self.connection.open_settle_lane(self.number, self.settling)
        if self.publishing.transaction is None:
            self.connection.open_publish_lane(self.number, self.publishing)

    # -------------------------------------------------------------- frames out

    def reply(self, method_class: type[Frame], **fields: object) -> None:
        self.connection.send(self.number, method_class, **fields)

    def write_content(self, head: tuple[bytes, ...], message: Message) -> None:
        """A method frame and the content that it carries."""
        connection = self.connection
        if message.large is not None:
            connection.begin_large(self.number, head, message)
            if connection.outboxes[self.number].is_long:
                connection.hold_input()
        else:
            frames = content_frames(message, self.number, connection.frame_max)
            connection.write_on(self.number, *head, *frames)

    def take_tag(self) -> int:
        tag = self.next_tag
        self.next_tag = tag + 1
        return tag

    # ------------------------------------------------------- shared by handlers

    def queue_name(self, name: str) -> str:
        """The name, or for an empty one the queue last declared on this channel."""
        if name:
            return name
        if not self.last_queue_name:
            raise NotFound("no previously declared queue")
        return self.last_queue_name

    def generated_queue_name(self, arguments: Mapping[str, object]) -> str:
        """A server-given name; with x-name-prefix (RabbitMQ 4.3) one that starts so."""
        name = generated_name(server_named_prefix(arguments) + "-")
        self.access.require("configure", "queue", name)
        return name

    def reply_address(self) -> str:
        """What ``amq.rabbitmq.reply-to`` stands for in a publish on this channel."""
        if self.reply_queue is None:
            raise PreconditionFailed("fast reply consumer does not exist")
        return self.reply_queue.name

    def close_reply_queue(self) -> None:
        if self.reply_queue is not None:
            self.reply_queue.close()
            self.vhost.reply_queues.pop(self.reply_queue.name, None)
            self.reply_queue = None

    def windows_for_consumer(self, *, acknowledges: bool) -> tuple[CreditWindow, ...]:
        """Limits of a new consumer beyond its count: its octets, and the channel's window."""
        windows: list[CreditWindow] = []
        if self.prefetch_size and acknowledges:
            windows.append(CreditWindow(0, self.prefetch_size))
        if self.window.is_limited:
            windows.append(self.window)
        return tuple(windows)

    def limit_all(self, limit_count: int, limit_bytes: int) -> None:
        """basic.qos global=true: one limit over all consumers, in force at once.

        Deliveries made before it count, so the window is filled from what is unacked.
        """
        window = self.window
        if not window.is_limited and (limit_count or limit_bytes):
            window.used_count = window.used_bytes = 0
            members = set(self.consumers.values())
            for entry in self._outstanding():
                if isinstance(entry.consumer, ChannelConsumer):
                    members.add(entry.consumer)
                    window.count(entry.message.size)
            for consumer in members:
                if window not in consumer.windows:
                    consumer.windows = (*consumer.windows, window)
        window.resize(limit_count, limit_bytes)

    def _outstanding(self) -> list[QueueEntry]:
        """Entries that count against credit."""
        entries = self.settling.outstanding()
        return entries if self.redelivery is None else entries + list(self.redelivery.pending)

    def when_flowing(self, callback: Callable[[], None]) -> None:
        """Call once when the client lets deliveries go on."""
        self._flow_waiters.append(callback)

    def when_free(self, callback: Callable[[], None]) -> bool:
        """Call once when no large content goes out any more; False if none does."""
        outbox = self.connection.outboxes.get(self.number)
        if outbox is None:
            return False
        outbox.waiters.append(callback)
        return True

    def set_flow(self, is_active: bool) -> None:
        """The client's channel.flow."""
        self.is_stopped = not is_active
        if self.redelivery is not None and self.redelivery.pending:
            self.redelivery.go_on()
        else:
            self.update_flow()

    def redeliver(self) -> None:
        """Send everything unacked again, to the consumers that had it, before anything else."""
        if self.redelivery is None:
            self.redelivery = Redelivery(self)
        self.is_flowing = False
        self.redelivery.begin()

    def update_flow(self) -> None:
        """Let deliveries go on, unless the client has stopped them; nothing is to be sent again."""
        self.is_flowing = not self.is_stopped
        if self.is_flowing:
            waiters, self._flow_waiters = self._flow_waiters, []
            for callback in waiters:
                callback()

    def release_all(self) -> None:
        """Everything that the client has, or had, and has not settled becomes ready again."""
        self.settling.release_all(self._take_unsent())

    def _take_unsent(self) -> list[QueueEntry]:
        """What the client had, and was to have again."""
        return [] if self.redelivery is None else self.redelivery.take_all()

    def on_consumer_cancelled(self, consumer: ChannelConsumer) -> None:
        """The queue of this consumer was deleted."""
        self.consumers.pop(consumer.tag, None)
        if self.connection.takes_consumer_cancel and not self.is_closing:
            self.reply(commands.Basic.Cancel, consumer_tag=consumer.tag, nowait=True)

    def on_consumer_finished(self, consumer: ChannelConsumer) -> None:
        """This consumer was let go at the end of its queue."""
        if self.dialect.is_told_of_its_end:  # Broker-J: a cancel-ok that nobody asked for
            self.consumers.pop(consumer.tag, None)
            if not self.is_closing:
                self.reply(commands.Basic.CancelOk, consumer_tag=consumer.tag)
        else:
            self.on_consumer_cancelled(consumer)

    def on_commit_done(self, commit: Commit) -> None:
        """The last share of a commit that took several turns has been carried out."""
        self.connection.release_channel(self.number)
        if self.is_closing:
            return
        try:
            self.conclude_commit(commit)
        except (NotKept, PreconditionFailed) as error:
            self._refuse(error, commands.Tx.Commit)

    def conclude_commit(self, commit: Commit) -> None:
        """All of it is done; commit-ok follows now, or when it is durable.

        Raises PreconditionFailed if a queue refused a publish, NotKept if the store has failed
        meanwhile.
        """
        if commit.is_partial:
            raise PreconditionFailed("partial tx completion")
        store = self.vhost.environment.store
        if commit.concerns_store and store.failure:
            raise _not_known_to_be_stored(store.failure)
        if not commit.concerns_store or store.durable_ticket >= store.ticket:
            self.reply(commands.Tx.CommitOk)
        else:
            store.when_durable(store.ticket, self.on_commit_durable)
            self.connection.hold_channel(self.number)

    def on_commit_durable(self) -> None:
        """What was committed is on disk, or nobody can tell: 506."""
        self.connection.release_channel(self.number)
        if self.is_closing:
            return
        store = self.vhost.environment.store
        if store.failure:
            self._refuse(_not_known_to_be_stored(store.failure), commands.Tx.Commit)
        else:
            self.reply(commands.Tx.CommitOk)

    def _refuse(self, error: AmqpError, method_class: type[Frame]) -> None:
        """This method failed, after its handler had returned."""
        error.class_id, error.method_id = divmod(method_class.index, 1 << 16)
        self.connection.on_error(self.number, error)

    def on_rollback_done(self) -> None:
        """The last share of a rollback that took several turns has been carried out."""
        self.connection.release_channel(self.number)
        if not self.is_closing:
            self.conclude_rollback()

    def conclude_rollback(self) -> None:
        """What was acknowledged is unacked again, and in the qpid dialect all that is goes back."""
        self.reply(commands.Tx.RollbackOk)
        if self.dialect.releases_at_rollback:
            context, settling = self.connection.context, self.settling
            entries = self._take_unsent() + settling.unacked.take_all()
            is_counted = settling.is_release_counted
            context.shares.start(Release(entries, context.clock, is_counted=is_counted))
            self.update_flow()

    # ------------------------------------------------------------------- the end

    def terminate(self) -> None:
        """Cancel consumers, drop what is half done, and release what is unacked, in order."""
        self.is_closing = True
        confirms = self.publishing.confirms
        if confirms is not None and confirms.is_marked:  # nothing may follow a close
            self.connection.write_on(self.number, confirms.release())
        if confirms is not None:
            confirms.stop()
        outbox = self.connection.outboxes.get(self.number)
        if outbox is not None:
            outbox.drop_contents()
        self.connection.close_lanes(self.number)
        if self.publishing.flow is not None:
            self.publishing.flow.close()
        consumers = list(self.consumers.values())
        self.consumers.clear()
        self.window.waiting.clear()  # or each would be looked for there
        for consumer in consumers:
            consumer.queue.remove_consumer(consumer)
        self.close_reply_queue()
        self.content.close()
        transaction = self.settling.transaction
        if transaction is not None:
            context = self.connection.context
            transaction.end(self.settling.unacked, context.shares, context.clock)
        self.release_all()

    def detach(self) -> None:
        """Take the reference cycles apart; called last, when the number is free again."""
        del self.publishing
        self.redelivery = None
        self._flow_waiters.clear()
        self.window.close()

    def __repr__(self) -> str:
        return f"<Channel {self.number} of {self.connection!r}>"


def _not_known_to_be_stored(failure: str) -> NotKept:
    return NotKept(f"it is unknown whether the transaction was stored: {failure}")


# ------------------------------------------------------------------- method handlers


def open_again(channel: Channel, method: commands.Channel.Open) -> None:
    raise ChannelError("second 'channel.open' seen")


def close(channel: Channel, method: commands.Channel.Close) -> None:
    channel.terminate()
    channel.connection.forget_channel(channel)
    channel.reply(commands.Channel.CloseOk)


def flow(channel: Channel, method: commands.Channel.Flow) -> None:
    """The client stops or restarts deliveries; RabbitMQ refuses to stop, Qpid's clients need it."""
    channel.reply(commands.Channel.FlowOk, active=bool(method.active))
    channel.set_flow(bool(method.active))


def flow_ok(channel: Channel, method: commands.Channel.FlowOk) -> None:
    """The answer to our own channel.flow; nothing waits for it."""


def access_request(channel: Channel, method: Access.Request) -> None:
    channel.reply(Access.RequestOk, ticket=1)


def select_confirms(channel: Channel, method: commands.Confirm.Select) -> None:
    if channel.publishing.transaction is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    if channel.publishing.confirms is None:
        channel.publishing.confirms = Confirms(
            channel.connection, channel.number, channel.vhost.environment.store
        )
    if not method.nowait:
        channel.reply(commands.Confirm.SelectOk)


def select_transactions(channel: Channel, method: commands.Tx.Select) -> None:
    if channel.publishing.confirms is not None:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if channel.publishing.transaction is None:
        transaction = Transaction()
        channel.publishing.transaction = transaction
        channel.settling.transaction = transaction
        channel.connection.close_publish_lane(channel.number)
    channel.reply(commands.Tx.SelectOk)


def _transaction(channel: Channel) -> Transaction:
    transaction = channel.publishing.transaction
    if transaction is None:
        raise PreconditionFailed("channel is not transactional")
    return transaction


def commit(channel: Channel, method: commands.Tx.Commit) -> None:
    """commit-ok follows the durable position, and the answers to what comes behind follow it."""
    context = channel.connection.context
    commit = _transaction(channel).commit(channel.vhost.environment.store, context.clock)
    if context.shares.start(commit, partial(channel.on_commit_done, commit)):
        channel.conclude_commit(commit)
    else:
        channel.connection.hold_channel(channel.number)


def rollback(channel: Channel, method: commands.Tx.Rollback) -> None:
    """rollback-ok follows when all is undone, which for much takes several turns."""
    context = channel.connection.context
    rollback = _transaction(channel).rollback(channel.settling.unacked, context.clock)
    if context.shares.start(rollback, channel.on_rollback_done):
        channel.conclude_rollback()
    else:
        channel.connection.hold_channel(channel.number)


def ack(channel: Channel, method: commands.Basic.Ack) -> None:
    channel.settling.settle(method.delivery_tag or 0, bool(method.multiple))


def nack(channel: Channel, method: commands.Basic.Nack) -> None:
    if method.requeue:
        channel.settling.requeue(method.delivery_tag or 0, bool(method.multiple))
    else:
        channel.settling.reject(method.delivery_tag or 0, bool(method.multiple))


def reject(channel: Channel, method: commands.Basic.Reject) -> None:
    tag = method.delivery_tag or 0
    if method.requeue:
        channel.settling.requeue(tag, is_multiple=False)
    elif channel.dialect.counts_rejects_only:
        channel.settling.requeue(tag, is_multiple=False, is_rejected=True)
    else:
        channel.settling.reject(method.delivery_tag or 0, is_multiple=False)


def recover(channel: Channel, method: commands.Basic.Recover | commands.Basic.RecoverAsync) -> None:
    """Release what is unacked, or with requeue=0 send it again to the same consumers.

    The latter is refused as in RabbitMQ (540), but in the qpid dialect, whose clients know no other
    recover.
    """
    if not (method.requeue or channel.dialect.recovers_without_requeue):
        raise NotImplementedMethod("requeue=false")
    if method.requeue:
        channel.release_all()
        channel.update_flow()
    if isinstance(method, commands.Basic.Recover):
        channel.reply(commands.Basic.RecoverOk)
    if not method.requeue:
        channel.redeliver()


HANDLERS: Final[Mapping[type[Frame], Callable[[Channel, Any], None]]] = {
    commands.Channel.Open: open_again,
    commands.Channel.Close: close,
    commands.Channel.Flow: flow,
    commands.Channel.FlowOk: flow_ok,
    Access.Request: access_request,
    commands.Confirm.Select: select_confirms,
    commands.Tx.Select: select_transactions,
    commands.Tx.Commit: commit,
    commands.Tx.Rollback: rollback,
    commands.Basic.Ack: ack,
    commands.Basic.Nack: nack,
    commands.Basic.Reject: reject,
    commands.Basic.Recover: recover,
    commands.Basic.RecoverAsync: recover,
    **consuming.HANDLERS,
    **topology.HANDLERS,
}
