"""channel.*, confirm.* and tx.*, and access.request of AMQP 0-8.

How a commit or a rollback of any size is carried out is in ``amqp.transactions``. commit-ok follows
only when all that the store keeps of the transaction is durable; frames that the channel receives
meanwhile wait in its backlog.
"""

from __future__ import annotations

from functools import partial

from hareline.amqp.channel import Channel
from hareline.amqp.confirms import Confirms
from hareline.amqp.transactions import Commit, Release, Transaction
from hareline.errors import AmqpError, ChannelError, NotKept, PreconditionFailed
from hareline.wire.methods import Access, Frame, commands


def open_channel_again(channel: Channel, method: commands.Channel.Open) -> None:
    """Refuse to open a channel that is open."""
    raise ChannelError("second 'channel.open' seen")


def close_channel(channel: Channel, method: commands.Channel.Close) -> None:
    """The client closes the channel; its number is free again."""
    channel.terminate()
    channel.connection.forget_channel(channel.number)
    channel.reply(commands.Channel.CloseOk)


def flow(channel: Channel, method: commands.Channel.Flow) -> None:
    """Stop or restart deliveries; RabbitMQ refuses to stop, Qpid's clients need it."""
    channel.reply(commands.Channel.FlowOk, active=bool(method.active))
    channel.set_flow(bool(method.active))


def flow_ok(channel: Channel, method: commands.Channel.FlowOk) -> None:
    """The answer to channel.flow from this broker; nothing waits for it."""


def request_access(channel: Channel, method: Access.Request) -> None:
    """Grant a ticket, which means nothing in AMQP 0-9-1."""
    channel.reply(Access.RequestOk, ticket=1)


def select_confirm(channel: Channel, method: commands.Confirm.Select) -> None:
    """Confirm what is published from now on; once is enough, and it cannot be undone."""
    publishing = channel.publishing
    if publishing.transaction is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    if publishing.confirms is None:
        store = channel.vhost.environment.store
        publishing.confirms = Confirms(channel.parts.output, channel.number, store)
    channel.answer(method, commands.Confirm.SelectOk)


def select_tx(channel: Channel, method: commands.Tx.Select) -> None:
    """Keep publishes and settlements until commit from now on."""
    publishing = channel.publishing
    if publishing.confirms is not None:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if publishing.transaction is None:
        transaction = Transaction()
        publishing.transaction = transaction
        channel.settling.transaction = transaction
        channel.parts.gate.close_publish_lane(channel.number)
    channel.reply(commands.Tx.SelectOk)


def _transaction(channel: Channel) -> Transaction:
    transaction = channel.publishing.transaction
    if transaction is None:
        raise PreconditionFailed("channel is not transactional")
    return transaction


def commit_tx(channel: Channel, method: commands.Tx.Commit) -> None:
    """commit-ok follows the durable position, and the answers to what comes behind follow it."""
    context = channel.parts.context
    commit = _transaction(channel).commit(
        channel.vhost.environment.store, context.clock, channel.port.unacked
    )
    if context.shares.start(commit, partial(_on_commit_done, channel, commit)):
        _answer_commit(channel, commit)
    else:
        channel.parts.backlogs.hold(channel.number)


def _on_commit_done(channel: Channel, commit: Commit) -> None:
    """The last share of a commit that took several turns has been carried out."""
    channel.parts.backlogs.release(channel.number)
    if channel.is_closing:
        return
    try:
        _answer_commit(channel, commit)
    except (NotKept, PreconditionFailed) as error:
        _refuse(channel, error, commands.Tx.Commit)


def _answer_commit(channel: Channel, commit: Commit) -> None:
    """Send commit-ok now, or when the commit, which is carried out, is durable.

    Raises PreconditionFailed if a queue refused a publish, NotKept if the store has failed
    meanwhile.
    """
    if commit.is_partial:
        raise PreconditionFailed("partial tx completion")
    store = channel.vhost.environment.store
    if commit.concerns_store and store.failure:
        raise _not_known_to_be_stored(store.failure)
    if not commit.concerns_store or store.durable_ticket >= store.ticket:
        channel.reply(commands.Tx.CommitOk)
    else:
        store.when_durable(store.ticket, partial(_on_commit_durable, channel))
        channel.parts.backlogs.hold(channel.number)


def _on_commit_durable(channel: Channel) -> None:
    """The commit is on disk, or the store has failed and its state is unknown: 506."""
    channel.parts.backlogs.release(channel.number)
    if channel.is_closing:
        return
    store = channel.vhost.environment.store
    if store.failure:
        _refuse(channel, _not_known_to_be_stored(store.failure), commands.Tx.Commit)
    else:
        channel.reply(commands.Tx.CommitOk)


def _not_known_to_be_stored(failure: str) -> NotKept:
    return NotKept(f"it is unknown whether the transaction was stored: {failure}")


def _refuse(channel: Channel, error: AmqpError, method_class: type[Frame]) -> None:
    """This method has failed, after its handler had returned."""
    error.class_id, error.method_id = divmod(method_class.index, 1 << 16)
    channel.connection.on_error(channel.number, error)


def rollback_tx(channel: Channel, method: commands.Tx.Rollback) -> None:
    """rollback-ok follows when all is undone, which for much takes several turns."""
    context = channel.parts.context
    rollback = _transaction(channel).rollback(channel.port.unacked, context.clock)
    if context.shares.start(rollback, partial(_on_rollback_done, channel)):
        _answer_rollback(channel)
    else:
        channel.parts.backlogs.hold(channel.number)


def _on_rollback_done(channel: Channel) -> None:
    """The last share of a rollback that took several turns has been carried out."""
    channel.parts.backlogs.release(channel.number)
    if not channel.is_closing:
        _answer_rollback(channel)


def _answer_rollback(channel: Channel) -> None:
    """Acknowledged entries are unacked again; in the qpid dialect all unacked entries go back."""
    channel.reply(commands.Tx.RollbackOk)
    if channel.dialect.releases_at_rollback:
        context = channel.parts.context
        unacked = channel.port.unacked
        unacked.given_back += len(unacked)
        entries = channel.take_unsent() + unacked.take_all()
        is_counted = channel.settling.is_release_counted
        context.shares.start(Release(entries, context.clock, is_counted=is_counted))
        channel.port.update_flow()
