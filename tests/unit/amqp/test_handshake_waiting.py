"""A login that takes its time: what the client sends waits, and the connection may go meanwhile."""

from __future__ import annotations

import sys

import pytest

from hareline import events
from hareline.auth.backends import Refusal
from hareline.auth.passwords import hash_password
from hareline.auth.permissions import ALL_PERMISSIONS
from hareline.auth.scram import new_keys
from hareline.auth.users import User
from hareline.wire.constants import PROTOCOL_HEADER
from hareline.wire.methods import commands, encode_method
from tests.support.slow_backend import SlowBackend

from .peer import SteppedBroker

ANN = User("ann", "", permissions={"/": ALL_PERMISSIONS}, backend="slow")


class Stand:
    """A broker whose only backend is slow, and a client whose login waits for it."""

    def __init__(self, *, capabilities: dict[str, object] | None = None) -> None:
        self.broker = SteppedBroker()
        self.backend = SlowBackend()
        self.broker.context.logins.backends = (self.backend,)
        self.peer = self.broker.accept(is_loopback=False)
        self.peer.send_octets(PROTOCOL_HEADER)
        self.peer.expect(commands.Connection.Start)
        self.peer.start_ok("PLAIN", "\0ann\0secret", capabilities=capabilities)

    @property
    def peer_state(self) -> str:
        return self.peer.transport.state


@pytest.fixture
def stand() -> Stand:
    return Stand()


def test_the_backend_hears_who_comes_from_where_and_the_client_waits(stand: Stand) -> None:
    ((credentials, peer),) = stand.backend.asked
    assert (credentials.name, credentials.password) == ("ann", "secret")
    assert (peer.host, peer.is_loopback, peer.is_tls) == ("192.0.2.7", False, False)
    stand.peer.expect_nothing()
    assert not stand.peer.is_read_from()
    assert stand.peer.connection.inner_state.handshake == "authenticating"


def test_a_user_that_is_accepted_later_goes_on_where_it_was(stand: Stand) -> None:
    stand.backend.answer(ANN)
    stand.peer.expect(commands.Connection.Tune)
    assert stand.peer.is_read_from()
    stand.peer.send(0, commands.Connection.TuneOk, frame_max=131_072, channel_max=7)
    stand.peer.call(0, commands.Connection.Open, virtual_host="/")
    assert stand.peer.user is ANN
    assert stand.broker.context.counts.auth_attempts == 1
    assert stand.broker.context.counts.auth_attempts_failed == 0


def test_what_the_client_sends_meanwhile_is_handled_afterwards(stand: Stand) -> None:
    stand.peer.send_octets(
        encode_method(0, commands.Connection.TuneOk, frame_max=131_072, channel_max=7)
        + encode_method(0, commands.Connection.Open, virtual_host="/")
        + encode_method(1, commands.Channel.Open)
    )
    stand.peer.expect_nothing()
    stand.backend.answer(ANN)
    names = [each.name for each in stand.peer.receive()]
    assert names == ["connection.tune", "connection.open-ok", "channel.open-ok"]


def test_a_refusal_that_comes_later_is_a_403_with_the_reason_in_the_log_alone(
    stand: Stand,
) -> None:
    stand.backend.answer(Refusal("no such entry"))
    refusal = stand.peer.refusal()
    assert (refusal.code, refusal.class_id, refusal.method_id) == (403, 0, 0)
    assert "no such entry" not in refusal.text
    (report,) = stand.broker.reported(events.CONNECTION_REFUSED)
    assert report["reason"] == ("authentication of user 'ann' by PLAIN failed: slow: no such entry")
    assert stand.broker.context.counts.auth_attempts_failed == 1
    stand.peer.send(0, commands.Connection.CloseOk)
    assert stand.peer_state == "closed"


def test_frames_behind_a_login_that_fails_are_ignored(stand: Stand) -> None:
    stand.peer.send(0, commands.Connection.Open, virtual_host="/")
    stand.backend.answer(Refusal())
    assert stand.peer.refusal().code == 403
    stand.peer.send(0, commands.Connection.CloseOk)
    assert stand.peer_state == "closed"


def test_a_client_that_takes_no_403_is_dropped_after_the_delay() -> None:
    stand = Stand(capabilities={})
    stand.backend.answer(Refusal())
    stand.peer.expect_nothing()
    stand.broker.advance(2.9)
    assert stand.peer_state == "open"
    stand.broker.advance(0.2)
    assert stand.peer_state == "dropped"


@pytest.mark.parametrize("answer", [ANN, Refusal()])
def test_a_connection_that_is_gone_meanwhile_ignores_the_answer(
    stand: Stand, answer: User | Refusal
) -> None:
    stand.peer.lose()
    references = sys.getrefcount(stand.peer.connection)
    assert references == 2  # both of this test: the login that waits keeps no connection
    stand.backend.answer(answer)
    assert stand.peer.receive() == []
    assert stand.broker.reported(events.CONNECTION_REFUSED) == []
    assert stand.broker.context.counts.auth_attempts == 0


def test_the_deadline_of_the_handshake_covers_the_login(stand: Stand) -> None:
    stand.broker.advance(9.9)
    assert stand.peer_state == "open"
    stand.broker.advance(0.2)
    assert stand.peer_state == "dropped"
    assert len(stand.broker.reported(events.HANDSHAKE_TIMED_OUT)) == 1
    stand.peer.lose()
    stand.backend.answer(ANN)
    assert stand.peer.receive() == []


def test_others_go_on_while_a_login_waits(stand: Stand) -> None:
    stand.broker.context.logins.backends = ()
    bystander = stand.broker.accept()
    bystander.start("guest", "guest")
    assert bystander.refusal().code == 403
    assert len(stand.backend.asked) == 1
    stand.backend.answer(ANN)
    stand.peer.expect(commands.Connection.Tune)


def test_a_broker_that_stops_drops_a_connection_whose_login_waits(stand: Stand) -> None:
    stand.peer.connection.force_close("shutdown")
    assert stand.peer_state == "dropped"
    stand.peer.lose()
    stand.backend.answer(ANN)
    assert stand.peer.receive() == []


def test_users_of_another_backend_keep_their_rights_when_users_are_read_again(
    stand: Stand,
) -> None:
    stand.backend.answer(ANN)
    stand.peer.expect(commands.Connection.Tune)
    stand.peer.send(0, commands.Connection.TuneOk, frame_max=131_072, channel_max=7)
    stand.peer.call(0, commands.Connection.Open, virtual_host="/")
    stand.broker.users.add(User("ann", hash_password("other")))  # no rights at all
    stand.peer.connection.renew_access()
    stand.peer.open(1)
    assert stand.peer.user is ANN


def test_scram_is_not_offered_while_another_backend_has_users(stand: Stand) -> None:
    stand.broker.users.add(User("eve", "", scram=new_keys("pencil")))
    stand.broker.users.remove("guest")
    peer = stand.broker.accept()
    peer.send_octets(PROTOCOL_HEADER)
    assert peer.expect(commands.Connection.Start).mechanisms == "PLAIN AMQPLAIN"
    stand.broker.context.logins.backends = ()
    peer = stand.broker.accept()
    peer.send_octets(PROTOCOL_HEADER)
    assert peer.expect(commands.Connection.Start).mechanisms == "PLAIN AMQPLAIN SCRAM-SHA-256"
