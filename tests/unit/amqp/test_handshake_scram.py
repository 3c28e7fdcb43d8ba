"""Logging in by SCRAM-SHA-256: secure and secure-ok, and what each refusal looks like outside."""

from __future__ import annotations

import pytest

from hareline import events
from hareline.auth.passwords import hash_password
from hareline.auth.permissions import ALL_PERMISSIONS
from hareline.auth.scram import MECHANISM, PasswordKeys, new_keys, salt_of
from hareline.auth.users import User
from hareline.wire.constants import PROTOCOL_HEADER
from hareline.wire.methods import commands
from hareline.wire.table import text_octets
from tests.support.scram_client import ScramClient

from .peer import Peer, Refusal, SteppedBroker, ids

SECURE, SECURE_OK = commands.Connection.Secure, commands.Connection.SecureOk
REFUSED = Refusal(
    "connection",
    403,
    "ACCESS_REFUSED - Login was refused using authentication mechanism SCRAM-SHA-256. "
    "For details see the broker logfile.",
    0,
    0,
)


@pytest.fixture
def broker() -> SteppedBroker:
    """guest, from this machine only, and alice; both can log in by SCRAM."""
    broker = SteppedBroker()
    give_keys(broker, "guest", "guest")
    give_keys(broker, "alice", "secret")
    return broker


def give_keys(broker: SteppedBroker, name: str, password: str) -> None:
    broker.users.add(
        User(
            name,
            hash_password(password),
            permissions={"/": ALL_PERMISSIONS},
            scram=PasswordKeys(password, salt_of(name)),
        )
    )


def greet(broker: SteppedBroker, *, is_loopback: bool = True) -> Peer:
    peer = broker.accept(is_loopback=is_loopback)
    peer.send_octets(PROTOCOL_HEADER)
    assert "SCRAM-SHA-256" in peer.expect(commands.Connection.Start).mechanisms.split()
    return peer


def challenge(peer: Peer) -> bytes:
    return text_octets(peer.expect(SECURE).challenge or "")


def prove(peer: Peer, client: ScramClient) -> None:
    """Up to the client's proof, which is sent."""
    peer.start_ok(MECHANISM, client.first)
    peer.send(0, SECURE_OK, response=client.final(challenge(peer)))


@pytest.mark.row("S10")
@pytest.mark.parametrize(("name", "password"), [("guest", "guest"), ("alice", "secret")])
def test_scram_leads_to_an_open_connection(broker: SteppedBroker, name: str, password: str) -> None:
    peer = greet(broker)
    client = ScramClient(name, password)
    prove(peer, client)
    client.check(challenge(peer))
    peer.send(0, SECURE_OK, response=b"")
    tune = peer.expect(commands.Connection.Tune)
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131_072, 60)
    peer.send(0, commands.Connection.TuneOk, frame_max=131_072, channel_max=7)
    peer.call(0, commands.Connection.Open, virtual_host="/")
    (report,) = broker.reported(events.CONNECTION_OPENED)
    assert report["user"] == name


@pytest.mark.row("S10")
def test_the_order_is_rabbitmqs_with_scram_behind(broker: SteppedBroker) -> None:
    peer = broker.accept()
    peer.send_octets(PROTOCOL_HEADER)
    assert peer.expect(commands.Connection.Start).mechanisms == "PLAIN AMQPLAIN SCRAM-SHA-256"


@pytest.mark.row("S10")
def test_scram_is_not_offered_while_a_user_has_a_hash_alone(broker: SteppedBroker) -> None:
    broker.add_user("bob", "b")
    peer = broker.accept()
    peer.send_octets(PROTOCOL_HEADER)
    assert peer.expect(commands.Connection.Start).mechanisms == "PLAIN AMQPLAIN"
    client = ScramClient("alice", "secret")
    prove(peer, client)  # for a client that insists, it works as before
    client.check(challenge(peer))


def test_a_client_without_an_initial_response_is_asked_for_one(broker: SteppedBroker) -> None:
    peer = greet(broker)
    client = ScramClient("alice", "secret")
    peer.start_ok(MECHANISM, b"")
    assert challenge(peer) == b""
    peer.send(0, SECURE_OK, response=client.first)
    peer.send(0, SECURE_OK, response=client.final(challenge(peer)))
    client.check(challenge(peer))
    peer.send(0, SECURE_OK, response=b"")
    peer.expect(commands.Connection.Tune)


@pytest.mark.row("S10")
@pytest.mark.parametrize(
    ("name", "password", "why"),
    [
        ("alice", "wrong", "invalid-proof"),
        ("stranger", "secret", "no SCRAM keys"),
        ("bob", "b", "no SCRAM keys"),
    ],
)
def test_a_wrong_password_and_an_unknown_user_look_the_same(
    broker: SteppedBroker, name: str, password: str, why: str
) -> None:
    peer = greet(broker)
    broker.add_user("bob", "b")
    client = ScramClient(name, password)
    prove(peer, client)
    assert peer.refusal() == REFUSED
    assert (len(client.salt), client.iterations) == (16, 4096)
    (report,) = broker.reported(events.CONNECTION_REFUSED)
    assert report["reason"] == f"authentication of user '{name}' by SCRAM-SHA-256 failed: {why}"
    peer.send(0, commands.Connection.CloseOk)
    assert peer.transport.state == "closed"


def test_a_client_that_takes_no_403_is_dropped_after_a_delay(broker: SteppedBroker) -> None:
    peer = greet(broker)
    client = ScramClient("alice", "wrong")
    peer.start_ok(MECHANISM, client.first, capabilities={})
    peer.send(0, SECURE_OK, response=client.final(challenge(peer)))
    peer.expect_nothing()
    broker.advance(3.1)
    assert peer.transport.state == "dropped"


def test_guest_from_elsewhere_is_not_told_that_the_password_was_right(
    broker: SteppedBroker,
) -> None:
    peer = greet(broker, is_loopback=False)
    prove(peer, ScramClient("guest", "guest"))
    assert peer.refusal() == REFUSED  # and no secure with the broker's own proof before it
    (report,) = broker.reported(events.CONNECTION_REFUSED)
    assert report["reason"] == "user 'guest' may only connect from this machine"


def test_a_user_that_was_removed_during_the_exchange_does_not_get_in(
    broker: SteppedBroker,
) -> None:
    peer = greet(broker)
    client = ScramClient("alice", "secret")
    prove(peer, client)
    client.check(challenge(peer))
    broker.users.remove("alice")
    peer.send(0, SECURE_OK, response=b"")
    assert peer.refusal() == REFUSED


def test_what_was_stored_as_keys_alone_lets_in_by_scram_alone(broker: SteppedBroker) -> None:
    broker.users.add(
        User("carol", "", permissions={"/": ALL_PERMISSIONS}, scram=new_keys("pencil"))
    )
    peer = greet(broker)
    client = ScramClient("carol", "pencil")
    prove(peer, client)
    client.check(challenge(peer))
    other = greet(broker)
    other.start_ok("PLAIN", "\0carol\0pencil")
    assert other.refusal().code == 403


def test_a_first_message_that_cannot_be_read_is_502(broker: SteppedBroker) -> None:
    peer = greet(broker)
    peer.start_ok(MECHANISM, "\0guest\0guest")
    assert peer.refusal() == Refusal(
        "connection",
        502,
        "SYNTAX_ERROR - SCRAM-SHA-256 client-first-message invalid",
        *ids(commands.Connection.StartOk),
    )


def test_a_final_message_that_cannot_be_read_is_502(broker: SteppedBroker) -> None:
    peer = greet(broker)
    peer.start_ok(MECHANISM, ScramClient("alice", "secret").first)
    challenge(peer)
    peer.send(0, SECURE_OK, response="\0alice\0secret")
    assert peer.refusal() == Refusal(
        "connection",
        502,
        "SYNTAX_ERROR - SCRAM-SHA-256 client-final-message invalid",
        *ids(SECURE_OK),
    )


def test_channel_binding_is_refused_as_a_login(broker: SteppedBroker) -> None:
    peer = greet(broker)
    peer.start_ok(MECHANISM, "p=tls-unique,,n=alice,r=abc")
    assert peer.refusal() == REFUSED
    (report,) = broker.reported(events.CONNECTION_REFUSED)
    assert report["reason"].endswith("failed: channel-binding-not-supported")  # type: ignore[attr-defined]


@pytest.mark.parametrize("mechanisms", [["PLAIN", "AMQPLAIN"], ["PLAIN"]])
def test_scram_that_is_switched_off_is_503(mechanisms: list[str]) -> None:
    broker = SteppedBroker(mechanisms=mechanisms)
    give_keys(broker, "guest", "guest")
    peer = broker.accept()
    peer.send_octets(PROTOCOL_HEADER)
    assert peer.expect(commands.Connection.Start).mechanisms == " ".join(mechanisms)
    peer.start_ok(MECHANISM, ScramClient("guest", "guest").first)
    refusal = peer.refusal()
    assert (refusal.code, refusal.text) == (
        503,
        "COMMAND_INVALID - invalid authentication mechanism 'SCRAM-SHA-256'",
    )


@pytest.mark.row("S10")
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_only_secure_ok_is_expected_between_the_steps(broker: SteppedBroker, steps: int) -> None:
    peer = greet(broker)
    client = ScramClient("alice", "secret")
    if steps == 0:
        peer.send(0, SECURE_OK, response=b"")
    else:
        peer.start_ok(MECHANISM, client.first)
        answer = challenge(peer)
        if steps == 2:
            peer.send(0, SECURE_OK, response=client.final(answer))
            challenge(peer)
        peer.send(0, commands.Connection.TuneOk, frame_max=131_072, channel_max=1)
    state = "securing" if steps else "starting"
    refusal = peer.refusal()
    assert (refusal.code, refusal.text) == (
        504,
        f"CHANNEL_ERROR - unexpected method in connection state {state}",
    )


def test_secure_ok_after_plain_is_504(broker: SteppedBroker) -> None:
    peer = greet(broker)
    peer.start_ok("PLAIN", "\0guest\0guest")
    peer.expect(commands.Connection.Tune)
    peer.send(0, SECURE_OK, response=b"")
    assert peer.refusal().code == 504


def test_the_deadline_of_the_handshake_covers_the_steps(broker: SteppedBroker) -> None:
    peer = greet(broker)
    peer.start_ok(MECHANISM, ScramClient("alice", "secret").first)
    challenge(peer)
    broker.advance(9.9)
    assert peer.transport.state == "open"
    broker.advance(0.2)
    assert peer.transport.state == "dropped"
    assert len(broker.reported(events.HANDSHAKE_TIMED_OUT)) == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", MECHANISM])
def test_failures_lock_a_user_out_whatever_the_mechanism(
    broker: SteppedBroker, mechanism: str
) -> None:
    broker.login_failures_max = 2

    def attempt(name: str, password: str, by: str = mechanism) -> Peer:
        peer = greet(broker)
        if by == "PLAIN":
            peer.start_ok("PLAIN", f"\0{name}\0{password}")
        else:
            prove(peer, ScramClient(name, password))
        return peer

    for _ in range(2):
        assert attempt("alice", "wrong").refusal().code == 403
    for by in ("PLAIN", MECHANISM):
        assert attempt("alice", "secret", by).refusal().code == 403
        assert attempt("alice", "wrong", by).refusal().code == 403
    reasons = [str(each["reason"]) for each in broker.reported(events.CONNECTION_REFUSED)]
    assert [reason.endswith("try again in 60 s") for reason in reasons] == [False] * 2 + [True] * 4
    attempt("guest", "guest", "PLAIN").expect(commands.Connection.Tune)
    broker.advance(60)
    challenge(attempt("alice", "secret", MECHANISM))
    attempt("alice", "secret", "PLAIN").expect(commands.Connection.Tune)
