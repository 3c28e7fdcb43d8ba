"""A method that needs a right which has to be asked for waits for it, and its channel with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from hareline.auth.access_rules import AccessRules
from hareline.auth.backends import AuthBackend, Credentials, Done
from hareline.auth.peer import Peer as LoginPeer
from hareline.auth.permissions import Grants, Resource, Right, RightsPending
from hareline.auth.users import User
from hareline.wire.constants import PROTOCOL_HEADER
from hareline.wire.methods import commands
from hareline.wire.properties import Properties
from hareline.wire.table import Table

from .peer import Peer, SteppedBroker

CONNECTION, BASIC, QUEUE, TX = commands.Connection, commands.Basic, commands.Queue, commands.Tx
CONFIRM = commands.Confirm


class Authority(Grants, AuthBackend):
    """Is asked for each right; ``answer`` says yes to all that wait but what is in ``denied``."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, ...], bool] = {("enter", "/"): True}
        self.denied: set[str] = set()
        self.allows_all = False
        self._waiting: list[tuple[tuple[str, ...], Callable[[], None]]] = []

    @property
    def name(self) -> str:
        return "authority"

    def begin(self, credentials: Credentials, peer: LoginPeer, done: Done) -> None:
        done(User("ann", "", grants=self, backend=self.name))

    @property
    def questions(self) -> list[tuple[str, ...]]:
        return [question for question, _ in self._waiting]

    def _decide(self, *question: str) -> bool:
        if self.allows_all:
            return True
        if question not in self.known:
            raise RightsPending(partial(self._wait, question))
        return self.known[question]

    def _wait(self, question: tuple[str, ...], callback: Callable[[], None]) -> None:
        self._waiting.append((question, callback))

    def answer(self) -> None:
        """Answer what is waited for now."""
        waiting, self._waiting = self._waiting, []
        for question, callback in waiting:
            self.known[question] = self.denied.isdisjoint(question)
            callback()

    def enters(self, vhost_name: str) -> bool:
        return self._decide("enter", vhost_name)

    def allows(self, vhost_name: str, right: Right, resource: Resource, name: str) -> bool:
        return self._decide(right, resource, name)

    def allows_topic(self, vhost_name: str, right: Right, exchange: str, routing_key: str) -> bool:
        return self._decide(right, "topic", exchange, routing_key)


@pytest.fixture
def authority(broker: SteppedBroker) -> Authority:
    authority = Authority()
    broker.context.logins.backends = (authority,)
    return authority


@pytest.fixture
def peer(broker: SteppedBroker, authority: Authority) -> Peer:
    return broker.connect(user="ann", channels=(1, 2))


def names(peer: Peer) -> list[tuple[int, str]]:
    return [(one.channel, one.name) for one in peer.receive()]


def test_the_virtual_host_is_opened_when_the_answer_is_there(
    broker: SteppedBroker, authority: Authority
) -> None:
    authority.known.clear()
    peer = broker.accept()
    peer.start("ann", "x")
    peer.expect(CONNECTION.Tune)
    peer.send(0, CONNECTION.TuneOk, frame_max=8192, channel_max=10, heartbeat=0)
    peer.send(0, CONNECTION.Open, virtual_host="/")
    peer.send(1, commands.Channel.Open)
    peer.expect_nothing()
    assert not peer.is_read_from()
    authority.answer()
    assert names(peer) == [(0, "connection.open-ok"), (1, "channel.open-ok")]
    assert peer.is_read_from()


def test_a_virtual_host_that_is_denied_is_refused(
    broker: SteppedBroker, authority: Authority
) -> None:
    authority.known.clear()
    authority.denied.add("/")
    peer = broker.accept()
    peer.start("ann", "x")
    peer.expect(CONNECTION.Tune)
    peer.send(0, CONNECTION.TuneOk, frame_max=8192, channel_max=10, heartbeat=0)
    peer.send(0, CONNECTION.Open, virtual_host="/")
    peer.expect_nothing()
    authority.answer()
    refusal = peer.refusal()
    assert (refusal.code, refusal.class_id, refusal.method_id) == (530, 10, 40)


def test_what_a_channel_sends_behind_waits_and_keeps_its_order(
    authority: Authority, peer: Peer
) -> None:
    peer.send(1, QUEUE.Declare, queue="a")
    peer.send(1, BASIC.Qos, prefetch_count=5)
    peer.send(2, BASIC.Qos, prefetch_count=5)
    assert names(peer) == [(2, "basic.qos-ok")], "other channels go on"
    assert "a" not in peer.broker.vhost.queues
    authority.answer()
    assert names(peer) == [(1, "queue.declare-ok"), (1, "basic.qos-ok")]


def test_a_right_that_is_denied_closes_the_channel_as_always(
    authority: Authority, peer: Peer
) -> None:
    authority.denied.add("a")
    peer.send(1, QUEUE.Declare, queue="a")
    peer.send(1, QUEUE.Declare, queue="b")
    peer.expect_nothing()
    authority.answer()
    refusal = peer.refusal()
    assert (refusal.code, refusal.class_id, refusal.method_id) == (403, 50, 10)
    assert refusal.text == (
        "ACCESS_REFUSED - configure access to queue 'a' in vhost '/' refused for user 'ann'"
    )
    assert not peer.broker.vhost.queues


def test_each_right_of_a_method_is_asked_for(authority: Authority, peer: Peer) -> None:
    arguments = {"x-dead-letter-exchange": "amq.fanout"}
    peer.send(1, QUEUE.Declare, queue="a", arguments=arguments)
    for right in ("configure", "read", "write"):
        peer.expect_nothing()
        assert [question[0] for question in authority.questions] == [right]
        authority.answer()
    peer.expect(QUEUE.DeclareOk)


@pytest.mark.parametrize("key", [None, "a.b"])
def test_a_dead_letter_exchange_that_may_become_a_topic_exchange_is_asked_for_as_one(
    authority: Authority, peer: Peer, key: str | None
) -> None:
    arguments = {"x-dead-letter-exchange": "dlx"}
    if key is not None:
        arguments["x-dead-letter-routing-key"] = key
    peer.send(1, QUEUE.Declare, queue="a", arguments=arguments)
    for _ in range(3):
        authority.answer()
        peer.broker.run_turns()
    assert authority.questions == [("write", "topic", "dlx", key or "#")]
    authority.denied = {"topic"}
    authority.answer()
    assert peer.refusal().code == 403
    assert not peer.broker.vhost.queues


@pytest.mark.parametrize(
    ("alternate", "arguments"),
    [("t", {"alternateBinding": {"destination": "t"}}), ("q_DLQ", {"x-dlq-auto": True})],
)
def test_an_alternate_is_an_exchange_before_it_is_a_queue(
    authority: Authority, peer: Peer, alternate: str, arguments: dict[str, object]
) -> None:
    authority.allows_all = True
    peer.send(1, commands.Exchange.Declare, exchange=alternate, exchange_type="topic")
    peer.expect(commands.Exchange.DeclareOk)
    peer.send(1, QUEUE.Declare, queue=alternate)
    peer.expect(QUEUE.DeclareOk)
    authority.allows_all = False
    authority.denied = {"topic"}
    peer.send(1, QUEUE.Declare, queue="q", arguments=arguments)
    for _ in range(6):
        authority.answer()
        peer.broker.run_turns()
    assert ("write", "topic", alternate, "#") in authority.known
    assert peer.refusal().code == 403


def test_a_generated_name_stays_the_same_while_it_is_asked_for(
    authority: Authority, peer: Peer
) -> None:
    arguments = {"x-dead-letter-exchange": "amq.fanout"}
    peer.send(1, QUEUE.Declare, queue="", arguments=arguments)
    asked = set()
    for _ in range(3):
        asked |= {question[2] for question in authority.questions if question[1] == "queue"}
        authority.answer()
        peer.broker.run_turns()
    name = peer.expect(QUEUE.DeclareOk).queue
    assert asked == {name}
    peer.send(1, QUEUE.Declare, queue="")
    assert authority.questions[0][2] != name


class TestPublishes:
    @pytest.fixture
    def peer(self, authority: Authority, peer: Peer) -> Peer:
        """There is a queue q, and its rights are known."""
        peer.send(1, QUEUE.Declare, queue="q")
        authority.answer()
        peer.expect(QUEUE.DeclareOk)
        return peer

    def test_publishes_wait_in_their_order_and_are_confirmed(
        self, authority: Authority, peer: Peer
    ) -> None:
        peer.call(1, CONFIRM.Select)
        for body in (b"1", b"", b"3"):
            peer.publish(1, "q", body)
        peer.expect_nothing()
        assert authority.questions == [("write", "exchange", "amq.default")]
        authority.answer()
        assert {name for _, name in names(peer)} == {"basic.ack"}
        assert peer.broker.queue("q").ready_count == 3

    def test_topics_are_asked_for(self, authority: Authority, peer: Peer) -> None:
        authority.known["write", "exchange", "amq.topic"] = True
        authority.denied.add("us")
        peer.publish(1, "eu", b"x", exchange="amq.topic")
        peer.publish(1, "us", b"x", exchange="amq.topic")
        peer.expect_nothing()
        authority.answer()
        peer.expect_nothing()
        assert authority.questions == [("write", "topic", "amq.topic", "us")]
        authority.answer()
        refusal = peer.refusal()
        assert (refusal.code, refusal.class_id, refusal.method_id) == (403, 60, 40)

    def test_a_transaction_has_what_was_published_before_its_commit(
        self, authority: Authority, peer: Peer
    ) -> None:
        peer.call(1, TX.Select)
        peer.publish(1, "q", b"x")
        peer.send(1, TX.Commit)
        peer.expect_nothing()
        authority.answer()
        peer.expect(TX.CommitOk)
        assert peer.broker.queue("q").ready_count == 1

    def test_a_connection_that_goes_meanwhile_publishes_nothing(
        self, authority: Authority, peer: Peer
    ) -> None:
        peer.publish(1, "q", b"x")
        peer.lose()
        authority.answer()
        peer.broker.run_turns()
        assert peer.broker.queue("q").ready_count == 0

    def test_a_channel_that_is_closed_behind_it_is_closed_after_it(
        self, authority: Authority, peer: Peer
    ) -> None:
        peer.publish(1, "q", b"x")
        peer.send(1, commands.Channel.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
        peer.expect_nothing()
        authority.answer()
        peer.expect(commands.Channel.CloseOk)
        assert peer.broker.queue("q").ready_count == 1


def test_a_key_of_a_copy_is_asked_for_at_a_later_publish_too(
    broker: SteppedBroker, authority: Authority, peer: Peer
) -> None:
    for number in range(3):
        properties = Properties(headers=Table(CC=[f"key.{number}"]))
        peer.publish(1, "a.b", b"x", exchange="amq.topic", properties=properties)
        for _ in range(4):  # the exchange, the key, and the key of the copy
            authority.answer()
            broker.run_turns()
    peer.send(1, BASIC.Qos, prefetch_count=5)
    assert names(peer) == [(1, "basic.qos-ok")]
    assert {"key.0", "key.1", "key.2"} <= {question[-1] for question in authority.known}


def test_rights_are_looked_up_again_when_the_answer_is_there(
    broker: SteppedBroker, authority: Authority, peer: Peer
) -> None:
    broker.context.users.rules = AccessRules()
    authority.known.clear()
    (connection,) = broker.context.connections
    connection.renew_access()
    assert authority.questions
    authority.answer()
    peer.expect_nothing()
    assert connection.client.access.rules is broker.context.users.rules


def test_scram_is_not_taken_where_the_brokers_own_users_may_not_log_in(
    broker: SteppedBroker, authority: Authority
) -> None:
    newcomer = broker.accept()
    newcomer.send_octets(PROTOCOL_HEADER)
    newcomer.expect(CONNECTION.Start)
    newcomer.start_ok("SCRAM-SHA-256", b"n,,n=ann,r=abc")
    refusal = newcomer.refusal()
    assert (refusal.code, refusal.text) == (
        503,
        "COMMAND_INVALID - invalid authentication mechanism 'SCRAM-SHA-256'",
    )


def test_a_client_that_closes_is_answered_when_all_before_is_done(
    authority: Authority, peer: Peer
) -> None:
    peer.send(1, QUEUE.Declare, queue="a")
    peer.send(0, CONNECTION.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    peer.expect_nothing()
    authority.answer()
    assert names(peer) == [(1, "queue.declare-ok"), (0, "connection.close-ok")]
