"""A publish to what is archived: who has it afterwards, and what its publisher hears.

Each test that concerns several kinds of publish is told by plain ones, by ones that no route is
remembered for, and within a transaction.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hareline.auth.permissions import Permissions
from hareline.message import Table
from hareline.wire.methods import commands
from hareline.wire.properties import Properties
from tests.support.stores import FakeStore

from .peer import Peer, SteppedBroker

STREAM = {"x-queue-type": "stream"}
PERSISTENT = Properties(delivery_mode=2)
ARCHIVED = {"x-archive-to": "s"}
FULL = "no space left on device"


@pytest.fixture
def peer(peer: Peer) -> Peer:
    """There is the stream s."""
    peer.declare("s", durable=True, arguments=STREAM)
    return peer


def declare(peer: Peer, name: str, **arguments: object) -> None:
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    peer.declare(name, arguments={**ARCHIVED, **named})


def held(peer: Peer, name: str) -> list[bytes]:
    """The bodies in this queue, in order."""
    peer.broker.run_turns()
    return [entry.message.body for entry in peer.broker.queue(name).order]


def confirm(peer: Peer, number: int = 1) -> None:
    peer.call(number, commands.Confirm.Select)


class TestWhoHasIt:
    def test_what_a_queue_gets_is_in_its_archive(self, peer: Peer) -> None:
        declare(peer, "q")
        for body in (b"1", b"2", b"3"):  # the route of the second one is remembered
            peer.publish(1, "q", body)
        assert held(peer, "q") == held(peer, "s") == [b"1", b"2", b"3"]

    def test_what_an_exchange_gets_is_in_its_archive_with_or_without_a_queue(
        self, peer: Peer
    ) -> None:
        peer.declare_exchange("x", "direct", arguments=ARCHIVED)
        peer.declare("q")
        peer.bind("q", "x", "k")
        for key in ("k", "nowhere", "k"):
            peer.publish(1, key, key.encode(), exchange="x")
        assert held(peer, "q") == [b"k", b"k"]
        assert held(peer, "s") == [b"k", b"nowhere", b"k"]

    def test_an_archive_gets_one_copy_by_exchange_queue_and_binding(self, peer: Peer) -> None:
        peer.declare_exchange("x", "fanout", arguments=ARCHIVED)
        declare(peer, "a")
        declare(peer, "b")
        for queue in ("a", "b", "s"):
            peer.bind(queue, "x")
        for body in (b"1", b"2"):
            peer.publish(1, "", body, exchange="x")
        for queue in ("a", "b", "s"):
            assert held(peer, queue) == [b"1", b"2"]

    def test_carbon_copies_are_archived_where_they_go(self, peer: Peer) -> None:
        declare(peer, "cc")
        declare(peer, "bcc")
        peer.declare("plain")
        headers = Table(CC=["cc"], BCC=["bcc"])
        peer.publish(1, "plain", b"m", properties=Properties(headers=headers))
        assert held(peer, "plain") == held(peer, "cc") == held(peer, "bcc") == [b"m"]
        (entry,) = peer.broker.queue("s").order
        assert entry.message.body == b"m"
        assert "BCC" not in entry.message.headers

    def test_an_exchange_that_looks_at_each_message_archives_each(self, peer: Peer) -> None:
        peer.declare_exchange("x", "headers", arguments=ARCHIVED)
        declare(peer, "q")
        peer.bind("q", "x", arguments={"x-match": "all", "colour": "red"})
        for colour in ("red", "blue", "red"):
            properties = Properties(headers=Table(colour=colour))
            peer.publish(1, "", colour.encode(), exchange="x", properties=properties)
        assert held(peer, "q") == [b"red", b"red"]
        assert held(peer, "s") == [b"red", b"blue", b"red"]

    def test_the_archive_has_address_and_properties_of_the_publish(self, peer: Peer) -> None:
        peer.declare_exchange("x", "fanout")
        declare(peer, "q")
        peer.bind("q", "x")
        properties = Properties(content_type="text/plain", headers=Table(number=1))
        peer.publish(1, "some.key", b"m", exchange="x", properties=properties)
        peer.broker.run_turns()
        (entry,) = peer.broker.queue("s").order
        assert (entry.message.address.exchange, entry.message.address.routing_key) == (
            "x",
            "some.key",
        )
        assert entry.message.properties.content_type == "text/plain"
        assert entry.message.headers["number"] == 1

    def test_what_a_consumer_takes_at_once_is_archived_too(self, peer: Peer) -> None:
        declare(peer, "q")
        peer.call(1, commands.Basic.Consume, queue="q", no_ack=True, consumer_tag="c")
        peer.publish(1, "q", b"m")
        assert peer.bodies() == [b"m"]
        assert held(peer, "s") == [b"m"]

    def test_what_came_before_the_argument_and_after_the_queue_is_not_there(
        self, peer: Peer
    ) -> None:
        peer.declare("q")
        peer.publish(1, "q", b"before")
        peer.call(1, commands.Queue.Delete, queue="q")
        declare(peer, "q")
        peer.publish(1, "q", b"between")
        peer.call(1, commands.Queue.Delete, queue="q")
        peer.publish(1, "q", b"after")
        assert held(peer, "s") == [b"between"]


class TestLimits:
    @pytest.mark.parametrize("policy", ["reject-publish", "reject-publish-dlx", "discard"])
    def test_what_a_queue_does_not_take_is_not_in_its_archive(
        self, peer: Peer, policy: str
    ) -> None:
        declare(peer, "q", x_max_length=2, x_overflow=policy)
        for body in (b"1", b"2", b"3", b"4"):
            peer.publish(1, "q", body)
        assert held(peer, "q") == held(peer, "s") == [b"1", b"2"]

    def test_it_is_there_for_another_queue_that_took_it(self, peer: Peer) -> None:
        declare(peer, "full", x_max_length=0, x_overflow="reject-publish")
        declare(peer, "free")
        for queue in ("full", "free"):
            peer.bind(queue, "amq.fanout")
        confirm(peer)
        peer.publish(1, "", b"m", exchange="amq.fanout")
        peer.expect(commands.Basic.Nack)
        assert held(peer, "full") == []
        assert held(peer, "free") == held(peer, "s") == [b"m"]

    def test_it_is_there_for_its_exchange(self, peer: Peer) -> None:
        peer.declare_exchange("x", "fanout", arguments=ARCHIVED)
        declare(peer, "full", x_max_length=0, x_overflow="reject-publish")
        peer.bind("full", "x")
        confirm(peer)
        peer.publish(1, "", b"m", exchange="x")
        peer.expect(commands.Basic.Nack)
        assert held(peer, "s") == [b"m"]

    def test_what_a_full_queue_drops_later_stays_in_the_archive(self, peer: Peer) -> None:
        declare(peer, "q", x_max_length=1, x_overflow="drop-head")
        for body in (b"1", b"2", b"3"):
            peer.publish(1, "q", body)
        assert held(peer, "q") == [b"3"]
        assert held(peer, "s") == [b"1", b"2", b"3"]

    def test_dead_letters_pushed_out_in_between_do_not_double_a_copy(self, peer: Peer) -> None:
        peer.declare("dead", arguments=ARCHIVED)
        dead = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}
        declare(peer, "first", x_max_length=1, **dead)
        declare(peer, "second", x_max_length=1, **dead)
        for queue in ("first", "second"):
            peer.bind(queue, "amq.fanout")
        for body in (b"1", b"2"):
            peer.publish(1, "", body, exchange="amq.fanout")
        assert held(peer, "first") == held(peer, "second") == [b"2"]
        assert held(peer, "dead") == [b"1", b"1"]  # two deaths are two letters
        assert sorted(held(peer, "s")) == [b"1", b"1", b"1", b"2"]


class TestMandatory:
    @pytest.mark.parametrize("exchange_type", ["direct", "headers"])
    def test_what_only_an_archive_took_comes_back_and_is_confirmed(
        self, peer: Peer, exchange_type: str
    ) -> None:
        peer.declare_exchange("x", exchange_type, arguments=ARCHIVED)
        confirm(peer)
        for body in (b"1", b"2"):
            peer.publish(1, "nowhere", body, exchange="x", mandatory=True)
            returned, confirmed = peer.receive()
            assert (returned.method.reply_code, returned.body) == (312, body)
            assert confirmed.name == "basic.ack"
        assert held(peer, "s") == [b"1", b"2"]

    def test_what_a_queue_took_does_not_come_back(self, peer: Peer) -> None:
        declare(peer, "q")
        for _ in range(2):
            peer.publish(1, "q", b"m", mandatory=True)
        peer.expect_nothing()
        assert len(held(peer, "s")) == 2


class TestOtherWays:
    def test_a_dead_letter_is_in_the_archive_of_its_queue_and_its_exchange(
        self, peer: Peer
    ) -> None:
        peer.declare("t", durable=True, arguments=STREAM)
        peer.declare_exchange("dlx", "fanout", arguments={"x-archive-to": "t"})
        declare(peer, "dead")
        peer.bind("dead", "dlx")
        peer.declare("q", arguments={"x-dead-letter-exchange": "dlx"})
        peer.publish(1, "q", b"m")
        received = peer.get("q")
        assert received is not None
        peer.send(
            1, commands.Basic.Reject, delivery_tag=received.method.delivery_tag, requeue=False
        )
        assert held(peer, "dead") == held(peer, "s") == held(peer, "t") == [b"m"]
        (entry,) = peer.broker.queue("s").order
        assert entry.message.headers["x-first-death-reason"] == "rejected"

    def test_a_dead_letter_that_is_refused_is_not_archived(self, peer: Peer) -> None:
        declare(peer, "dead", x_max_length=0, x_overflow="reject-publish")
        peer.declare(
            "q",
            arguments={
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "dead",
                "x-max-length": 0,
            },
        )
        peer.publish(1, "q", b"m")
        assert held(peer, "dead") == held(peer, "s") == []

    def test_a_dead_letter_that_only_an_archive_takes_goes_to_the_next_target_too(
        self, peer: Peer
    ) -> None:
        peer.declare_exchange("both", "direct", arguments=ARCHIVED)
        peer.declare("both")  # asked where the exchange of this name has no queue for a letter
        peer.declare("q", arguments={"alternateBinding": {"destination": "both"}})
        peer.publish(1, "q", b"m")
        received = peer.get("q")
        assert received is not None
        peer.send(
            1, commands.Basic.Reject, delivery_tag=received.method.delivery_tag, requeue=False
        )
        assert held(peer, "both") == held(peer, "s") == [b"m"]

    def test_a_delayed_message_is_archived_once_by_its_exchange(self, peer: Peer) -> None:
        peer.declare("t", durable=True, arguments=STREAM)
        peer.declare_exchange(
            "later",
            "x-delayed-message",
            arguments={"x-delayed-type": "fanout", "x-archive-to": "t"},
        )
        declare(peer, "q")
        peer.bind("q", "later")
        delayed = Properties(headers=Table({"x-delay": 1000}))
        peer.publish(1, "", b"m", exchange="later", properties=delayed)
        assert (held(peer, "t"), held(peer, "s")) == ([b"m"], [])
        peer.broker.advance(2)
        assert held(peer, "t") == held(peer, "q") == held(peer, "s") == [b"m"]
        (first,), (second,) = peer.broker.queue("t").order, peer.broker.queue("s").order
        assert first.message.headers["x-delay"] == 1000
        assert second.message.headers["x-delay"] == -1000

    def test_a_transaction_archives_at_its_commit(self, peer: Peer) -> None:
        peer.declare_exchange("x", "fanout", arguments=ARCHIVED)
        declare(peer, "q")
        peer.call(1, commands.Tx.Select)
        peer.publish(1, "q", b"1")
        peer.publish(1, "", b"2", exchange="x")
        assert held(peer, "s") == []
        peer.call(1, commands.Tx.Rollback)
        peer.publish(1, "q", b"3")
        peer.publish(1, "", b"4", exchange="x")
        peer.call(1, commands.Tx.Commit)
        assert held(peer, "q") == [b"3"]
        assert held(peer, "s") == [b"3", b"4"]

    def test_a_queue_that_is_gone_at_the_commit_archives_nothing(self, peer: Peer) -> None:
        peer.declare_exchange("x", "fanout", arguments=ARCHIVED)
        declare(peer, "q")
        peer.open(2)
        peer.call(2, commands.Tx.Select)
        peer.publish(2, "q", b"1")
        peer.publish(2, "", b"2", exchange="x")
        peer.call(1, commands.Queue.Delete, queue="q")
        peer.call(1, commands.Exchange.Delete, exchange="x")
        peer.call(2, commands.Tx.Commit)
        assert held(peer, "s") == [b"2"]  # the exchange took it when it was published
        peer.publish(2, "", b"3")
        peer.call(1, commands.Queue.Delete, queue="s")
        peer.call(2, commands.Tx.Commit)

    def test_an_archive_that_is_gone_at_the_commit_is_passed_over(self, peer: Peer) -> None:
        peer.declare_exchange("x", "fanout", arguments=ARCHIVED)
        peer.declare("q")
        peer.bind("q", "x")
        peer.open(2)
        peer.call(2, commands.Tx.Select)
        peer.publish(2, "", b"m", exchange="x")
        peer.call(1, commands.Exchange.Delete, exchange="x")
        peer.call(1, commands.Queue.Delete, queue="s")
        peer.call(2, commands.Tx.Commit)
        assert held(peer, "q") == [b"m"]


class TestStore:
    @pytest.fixture
    def store(self) -> FakeStore:
        return FakeStore()

    @pytest.fixture
    def peer(self, store: FakeStore) -> Peer:
        """Channel 1 confirms; q is transient, d durable, and both are archived."""
        peer = SteppedBroker(store=store).connect(channels=(1, 2))
        peer.declare("s", durable=True, arguments=STREAM)
        declare(peer, "q")
        peer.declare("d", durable=True, arguments=ARCHIVED)
        peer.declare_exchange("x", "fanout", arguments=ARCHIVED)
        confirm(peer)
        return peer

    @pytest.mark.parametrize("place", [("", "q"), ("x", "")])
    def test_the_confirm_of_a_transient_message_waits_for_its_archive(
        self, peer: Peer, store: FakeStore, place: tuple[str, str]
    ) -> None:
        exchange, key = place
        peer.publish(1, key, b"m", exchange=exchange)
        peer.expect_nothing()
        assert store.batches[-1] == 1
        store.sync()
        peer.expect(commands.Basic.Ack)

    def test_queue_and_archive_are_in_one_batch(self, peer: Peer, store: FakeStore) -> None:
        peer.publish(1, "d", b"m", properties=PERSISTENT)
        peer.expect_nothing()
        assert store.ledgers["d"].added == store.ledgers["s"].added == [0]
        assert len(store.batches) == 1
        store.sync()
        peer.expect(commands.Basic.Ack)

    def test_a_commit_waits_for_the_archive(self, peer: Peer, store: FakeStore) -> None:
        peer.call(2, commands.Tx.Select)
        peer.publish(2, "q", b"m")
        peer.send(2, commands.Tx.Commit)
        peer.expect_nothing()
        store.sync()
        peer.expect(commands.Tx.CommitOk)

    @pytest.mark.parametrize("place", [("", "q"), ("x", "")])
    def test_without_room_for_the_archive_nothing_is_taken(
        self, peer: Peer, store: FakeStore, place: tuple[str, str]
    ) -> None:
        exchange, key = place
        peer.publish(1, key, b"before", exchange=exchange)
        peer.expect_nothing()
        store.sync()
        peer.expect(commands.Basic.Ack)
        store.refuse(FULL)
        before = held(peer, "q")
        peer.publish(1, key, b"m", exchange=exchange)
        peer.expect(commands.Basic.Nack)
        assert held(peer, "q") == before
        assert held(peer, "s") == [b"before"]
        code, text = peer.publish_refused(2, key, exchange=exchange)
        assert (code, FULL in text) == (506, True)
        store.refuse("")
        peer.publish(1, key, b"after", exchange=exchange)
        peer.expect_nothing()
        assert held(peer, "s") == [b"before", b"after"]


class TestRights:
    def declared_by(self, peer: Peer, write: str, read: str) -> Peer:
        peer.broker.add_user("limited", "limited", permissions=Permissions(".*", write, read))
        return peer.broker.connect("limited")

    @pytest.mark.parametrize(
        ("write", "read", "missing"),
        [
            ("^q$|^x$", ".*", "write access to queue 's'"),
            ("^s$", "^s$", "read access to queue 'q'"),
        ],
    )
    def test_a_queue_needs_write_on_its_archive_and_read_on_itself(
        self, peer: Peer, write: str, read: str, missing: str
    ) -> None:
        limited = self.declared_by(peer, write, read)
        refused = limited.refused(1, commands.Queue.Declare, queue="q", arguments=ARCHIVED)
        text = f"ACCESS_REFUSED - {missing} in vhost '/' refused for user 'limited'"
        assert refused == (403, text)
        limited.open(1)
        refused = limited.refused(
            1, commands.Exchange.Declare, exchange="q", exchange_type="fanout", arguments=ARCHIVED
        )
        assert refused == (403, text.replace("read access to queue", "read access to exchange"))

    def test_with_both_it_is_declared(self, peer: Peer) -> None:
        limited = self.declared_by(peer, "^s$", "^q$")
        limited.declare("q", arguments=ARCHIVED)
        limited.declare_exchange("q", "fanout", arguments=ARCHIVED)

    def test_the_archive_of_a_queue_cannot_be_deleted(self, peer: Peer) -> None:
        declare(peer, "q")
        for arguments in ({}, {"if_unused": True}):
            options: Mapping[str, object] = arguments
            assert peer.refused(1, commands.Queue.Delete, queue="s", **options) == (
                406,
                "PRECONDITION_FAILED - queue 's' in vhost '/' is the archive of queue 'q': "
                "delete the queue first",
            )
            peer.open(1)
