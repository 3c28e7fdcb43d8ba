"""A login that expires ends its connection, unless the client renews it in time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hareline import events
from hareline.amqp.kept_login import LOOK_S
from hareline.auth.backends import Answer, AuthBackend, Credentials, Done, Refusal
from hareline.auth.peer import Peer as LoginPeer
from hareline.auth.scopes import ScopeGrants
from hareline.auth.users import User
from hareline.clock import ManualClock
from hareline.wire.methods import commands

from .peer import Peer, SteppedBroker

CONNECTION, QUEUE = commands.Connection, commands.Queue
HOUR_MS = 3_600_000
HOUR_S = 3600


class Tokens(AuthBackend):
    """Knows users by their passwords; while ``is_slow``, the answers wait for ``answer_all``."""

    def __init__(self) -> None:
        self.users: dict[str, User] = {}
        self.is_slow = False
        self._waiting: list[tuple[Done, Answer]] = []

    @property
    def name(self) -> str:
        return "tokens"

    def give(self, token: str, clock: ManualClock, *scopes: str, **fields: object) -> None:
        """Let a token stand for a user with these scopes for an hour."""
        user = User(
            "ann", "", grants=ScopeGrants(scopes or ["configure:*/*"], {}), backend="tokens"
        )
        expires_ms = clock.now_ms + HOUR_MS
        self.users[token] = replace(user, **{"expires_ms": expires_ms, **fields})  # type: ignore[arg-type]

    def begin(self, credentials: Credentials, peer: LoginPeer, done: Done) -> None:
        answer = self.users.get(credentials.password or "") or Refusal("no such token")
        self._waiting.append((done, answer))
        if not self.is_slow:
            self.answer_all()

    def answer_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for done, answer in waiting:
            done(answer)


@pytest.fixture
def tokens(broker: SteppedBroker) -> Tokens:
    tokens = Tokens()
    broker.context.logins.backends = (*broker.context.logins.backends, tokens)
    tokens.give("t1", broker.clock)
    return tokens


@pytest.fixture
def peer(broker: SteppedBroker, tokens: Tokens) -> Peer:
    return broker.connect(user="any", password="t1")


def renew(peer: Peer, secret: str) -> None:
    peer.send(0, CONNECTION.UpdateSecret, new_secret=secret, reason="renewed")


class TestTheEnd:
    def test_a_connection_is_closed_when_its_login_expires(
        self, broker: SteppedBroker, peer: Peer
    ) -> None:
        broker.advance(HOUR_S - 0.001)
        peer.expect_nothing()
        broker.advance(0.001)
        refusal = peer.refusal()
        assert (refusal.code, refusal.text) == (320, "CONNECTION_FORCED - credential expired")

    def test_a_clock_that_is_set_forward_ends_it_soon(
        self, broker: SteppedBroker, peer: Peer
    ) -> None:
        broker.clock.now_ms += HOUR_MS
        broker.advance(LOOK_S)
        assert peer.refusal().code == 320

    def test_a_clock_that_is_set_back_keeps_it(self, broker: SteppedBroker, peer: Peer) -> None:
        broker.clock.now_ms -= HOUR_MS
        broker.advance(HOUR_S)
        peer.expect_nothing()
        broker.advance(HOUR_S)
        assert peer.refusal().code == 320

    def test_a_user_of_the_broker_stays(self, broker: SteppedBroker, tokens: Tokens) -> None:
        peer = broker.connect()
        broker.advance(10 * HOUR_S)
        peer.expect_nothing()

    def test_a_connection_that_has_ended_leaves_no_timer(
        self, broker: SteppedBroker, peer: Peer
    ) -> None:
        peer.lose()
        broker.advance(2 * HOUR_S)
        assert not broker.context.connections


class TestTheRenewal:
    def test_a_new_secret_gives_time_and_rights(
        self, broker: SteppedBroker, tokens: Tokens, peer: Peer
    ) -> None:
        broker.advance(HOUR_S - 1)
        tokens.give("t2", broker.clock, "configure:*/a*")
        renew(peer, "t2")
        peer.expect(CONNECTION.UpdateSecretOk)
        broker.advance(HOUR_S - 0.001)
        peer.call(1, QUEUE.Declare, queue="abc")
        assert peer.refused(1, QUEUE.Declare, queue="xyz")[0] == 403
        broker.advance(0.001)
        assert peer.refusal().code == 320

    @pytest.mark.parametrize("secret", ["unknown", "other"])
    def test_a_secret_that_is_wrong_ends_the_connection(
        self, broker: SteppedBroker, tokens: Tokens, peer: Peer, secret: str
    ) -> None:
        tokens.give("other", broker.clock, name="bob")
        renew(peer, secret)
        refusal = peer.refusal()
        assert refusal.code == 530
        assert refusal.text == "NOT_ALLOWED - New secret was refused by one of the backends"
        assert (refusal.class_id, refusal.method_id) == (10, 70)
        assert "new secret refused" in str(broker.reported(events.CONNECTION_REFUSED)[-1]["reason"])

    def test_a_virtual_host_that_is_lost_ends_it(
        self, broker: SteppedBroker, tokens: Tokens, peer: Peer
    ) -> None:
        tokens.give("t2", broker.clock, "read:elsewhere/*")
        renew(peer, "t2")
        assert peer.refusal().text.startswith("NOT_ALLOWED - access to vhost '/' refused")

    def test_the_connection_goes_on_while_the_backend_thinks(
        self, broker: SteppedBroker, tokens: Tokens, peer: Peer
    ) -> None:
        tokens.is_slow = True
        tokens.give("t2", broker.clock, "configure:*/b")
        renew(peer, "t2")
        peer.call(1, QUEUE.Declare, queue="a")
        tokens.answer_all()
        peer.expect(CONNECTION.UpdateSecretOk)
        assert peer.refused(1, QUEUE.Declare, queue="c")[0] == 403

    @pytest.mark.parametrize("end", ["lost", "closed", "expired"])
    def test_an_answer_that_comes_too_late_changes_nothing(
        self, broker: SteppedBroker, tokens: Tokens, peer: Peer, end: str
    ) -> None:
        tokens.is_slow = True
        tokens.give("t2", broker.clock)
        renew(peer, "t2")
        if end == "lost":
            peer.lose()
        elif end == "closed":
            peer.send(0, CONNECTION.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
            peer.expect(CONNECTION.CloseOk)
        else:
            broker.advance(HOUR_S)
            assert peer.refusal().code == 320
        tokens.answer_all()
        broker.run_turns()
        if end != "lost":
            peer.expect_nothing()
