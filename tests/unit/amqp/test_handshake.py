"""The handshake: what is offered, who gets in, what is negotiated, and how it is refused."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from hareline import events
from hareline.amqp.context import Limits
from hareline.amqp.handshake import CAPABILITIES as SERVER_CAPABILITIES
from hareline.amqp.handshake import Handshake
from hareline.auth.mechanisms import MechanismRegistry
from hareline.auth.permissions import Permissions
from hareline.wire.constants import PROTOCOL_HEADER
from hareline.wire.methods import Frame, commands
from hareline.wire.table import encode_table

from .peer import CAPABILITIES, ManualTimer, Peer, Refusal, SteppedBroker, frame, ids

START_OK, TUNE_OK, OPEN = (
    commands.Connection.StartOk,
    commands.Connection.TuneOk,
    commands.Connection.Open,
)


@pytest.fixture
def newcomer(broker: SteppedBroker) -> Peer:
    """A client that has sent the protocol header and read connection.start."""
    return greet(broker)


def greet(broker: SteppedBroker, *, is_loopback: bool = True) -> Peer:
    peer = broker.accept(is_loopback=is_loopback)
    peer.send_octets(PROTOCOL_HEADER)
    peer.expect(commands.Connection.Start)
    return peer


def tuned(broker: SteppedBroker, **fields: object) -> Peer:
    """A client that has just sent tune-ok with these values in place of good ones."""
    peer = greet(broker)
    peer.start_ok("PLAIN", "\0guest\0guest")
    peer.expect(commands.Connection.Tune)
    peer.send(0, TUNE_OK, **({"frame_max": 131_072, "channel_max": 2047} | fields))
    return peer


def amqplain(**fields: object) -> bytes:
    return encode_table(fields)[4:]


# ----------------------------------------------------------------------------------------- start


def test_start_says_which_protocol_and_how_to_log_in(broker: SteppedBroker) -> None:
    peer = broker.accept()
    peer.send_octets(PROTOCOL_HEADER)
    start = peer.expect(commands.Connection.Start)
    assert (start.version_major, start.version_minor) == (0, 9)
    assert start.mechanisms == "PLAIN AMQPLAIN"
    assert start.locales == "en_US"


def test_start_says_who_the_broker_is(broker: SteppedBroker) -> None:
    peer = broker.accept()
    peer.send_octets(PROTOCOL_HEADER)
    properties = peer.expect(commands.Connection.Start).server_properties
    assert properties["product"] == "RabbitMQ"
    assert properties["version"] == "4.2.0"
    assert properties["cluster_name"] == "hareline@test"
    assert properties["brand"] == "Hareline 1"
    assert set(properties) >= {"platform", "copyright", "information"}
    kinds = {kind for name, kind in properties.kinds.items() if name != "capabilities"}
    assert kinds == {"S"}


def test_start_announces_every_capability_as_true(broker: SteppedBroker) -> None:
    peer = broker.accept()
    peer.send_octets(PROTOCOL_HEADER)
    capabilities = peer.expect(commands.Connection.Start).server_properties["capabilities"]
    assert capabilities == dict.fromkeys(SERVER_CAPABILITIES, True)
    assert set(capabilities) == {
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    }
    assert set(capabilities.kinds.values()) == {"t"}


# -------------------------------------------------------------------------------------- start-ok


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b"\0guest\0guest"),
        ("PLAIN", b"somebody else\0guest\0guest"),
        ("AMQPLAIN", amqplain(LOGIN="guest", PASSWORD="guest")),
        ("AMQPLAIN", amqplain(extra=True, PASSWORD="guest", LOGIN="guest")),
    ],
)
def test_good_credentials_lead_to_tune(newcomer: Peer, mechanism: str, response: bytes) -> None:
    newcomer.start_ok(mechanism, response)
    tune = newcomer.expect(commands.Connection.Tune)
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131_072, 60)


def test_tune_offers_the_configured_limits() -> None:
    broker = SteppedBroker(Limits(frame_max_bytes=8192, channel_max=7, heartbeat_s=13))
    peer = greet(broker)
    peer.start_ok("PLAIN", "\0guest\0guest")
    tune = peer.expect(commands.Connection.Tune)
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (7, 8192, 13)


LOGIN_REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism {}. "
    "For details see the broker logfile."
)


@pytest.mark.parametrize("response", [b"\0guest\0wrong", b"\0nobody\0guest", b"\0guest\0", b"\0\0"])
def test_bad_credentials_are_403_to_a_client_that_takes_it(newcomer: Peer, response: bytes) -> None:
    newcomer.start_ok("PLAIN", response)
    assert newcomer.refusal() == Refusal("connection", 403, LOGIN_REFUSED.format("PLAIN"), 0, 0)
    newcomer.send(0, commands.Connection.CloseOk)
    assert newcomer.transport.state == "closed"


def test_the_403_names_the_mechanism(newcomer: Peer) -> None:
    newcomer.start_ok("AMQPLAIN", amqplain(LOGIN="guest", PASSWORD="wrong"))
    assert newcomer.refusal().text == LOGIN_REFUSED.format("AMQPLAIN")


@pytest.mark.parametrize("capabilities", [{}, {"authentication_failure_close": False}])
def test_bad_credentials_drop_a_client_that_takes_no_403_after_a_delay(
    broker: SteppedBroker, newcomer: Peer, capabilities: dict[str, object]
) -> None:
    newcomer.start_ok("PLAIN", "\0guest\0wrong", capabilities=capabilities)
    newcomer.expect_nothing()
    broker.advance(2.9)
    assert newcomer.transport.state == "open"
    broker.advance(0.2)
    assert newcomer.transport.state == "dropped"
    newcomer.expect_nothing()


def test_a_refused_client_is_not_listened_to(broker: SteppedBroker, newcomer: Peer) -> None:
    newcomer.start_ok("PLAIN", "\0guest\0wrong", capabilities={})
    newcomer.start_ok("PLAIN", "\0guest\0guest", capabilities={})
    newcomer.send(0, TUNE_OK, frame_max=131_072, channel_max=1)
    newcomer.expect_nothing()


def test_a_refusal_is_reported_with_the_user_and_never_the_password(
    broker: SteppedBroker, newcomer: Peer
) -> None:
    newcomer.start_ok("PLAIN", "\0alice\0s3cret")
    newcomer.receive()
    (report,) = broker.reported(events.CONNECTION_REFUSED)
    assert report["reason"] == "authentication of user 'alice' by PLAIN failed"
    assert "s3cret" not in repr(broker.reports)


def test_guest_may_only_come_from_this_machine(broker: SteppedBroker) -> None:
    peer = greet(broker, is_loopback=False)
    peer.start_ok("PLAIN", "\0guest\0guest")
    assert peer.refusal().text == LOGIN_REFUSED.format("PLAIN")
    (report,) = broker.reported(events.CONNECTION_REFUSED)
    assert report["reason"] == "user 'guest' may only connect from this machine"


def test_other_users_may_come_from_anywhere(broker: SteppedBroker) -> None:
    broker.add_user("alice", "secret")
    peer = greet(broker, is_loopback=False)
    peer.start_ok("PLAIN", "\0alice\0secret")
    peer.expect(commands.Connection.Tune)


@pytest.mark.parametrize(
    ("mechanism", "response", "code", "text"),
    [
        ("FOO", b"", 503, "COMMAND_INVALID - unknown authentication mechanism 'FOO'"),
        ("plain", b"", 503, "COMMAND_INVALID - unknown authentication mechanism 'plain'"),
        ("PLAIN", b"guest", 502, "SYNTAX_ERROR - response <<...>> invalid"),
        ("PLAIN", b"\0guest", 502, "SYNTAX_ERROR - response <<...>> invalid"),
        ("PLAIN", b"\0guest\0guest\0", 502, "SYNTAX_ERROR - response <<...>> invalid"),
        ("AMQPLAIN", b"\5LOGINS", 502, "SYNTAX_ERROR - response <<...>> invalid"),
        (
            "AMQPLAIN",
            amqplain(LOGIN="guest"),
            502,
            "SYNTAX_ERROR - AMQPLAIN auth info is missing LOGIN or PASSWORD field",
        ),
        (
            "AMQPLAIN",
            amqplain(LOGIN="guest", PASSWORD=5),
            502,
            "SYNTAX_ERROR - AMQPLAIN auth info uses unsupported type for LOGIN or PASSWORD field",
        ),
    ],
)
def test_a_login_that_cannot_be_read_is_refused(
    newcomer: Peer, mechanism: str, response: bytes, code: int, text: str
) -> None:
    newcomer.start_ok(mechanism, response)
    assert newcomer.refusal() == Refusal("connection", code, text, *ids(START_OK))


def test_a_mechanism_that_is_switched_off_is_503() -> None:
    broker = SteppedBroker(mechanisms=["AMQPLAIN"])
    peer = broker.accept()
    peer.send_octets(PROTOCOL_HEADER)
    assert peer.expect(commands.Connection.Start).mechanisms == "AMQPLAIN"
    peer.start_ok("PLAIN", "\0guest\0guest")
    refusal = peer.refusal()
    assert (refusal.code, refusal.text) == (
        503,
        "COMMAND_INVALID - invalid authentication mechanism 'PLAIN'",
    )


def anonymous(user: str) -> SteppedBroker:
    """A broker whose clients may log in as this user without a password."""
    broker = SteppedBroker()
    broker.context.mechanisms = MechanismRegistry(["ANONYMOUS", "PLAIN"], anonymous_user=user)
    return broker


def test_anonymous_logs_in_as_the_user_of_the_settings() -> None:
    broker = anonymous("visitor")
    broker.add_user("visitor", "nobody knows")
    peer = broker.accept(is_loopback=False)
    peer.send_octets(PROTOCOL_HEADER)
    assert peer.expect(commands.Connection.Start).mechanisms == "ANONYMOUS PLAIN"
    peer.start_ok("ANONYMOUS", b"trace")
    peer.expect(commands.Connection.Tune)
    assert peer.user.name == "visitor"


@pytest.mark.parametrize("user", ["nobody", "guest"])
def test_anonymous_is_not_offered_where_its_user_may_not_log_in(user: str) -> None:
    peer = anonymous(user).accept(is_loopback=False)
    peer.send_octets(PROTOCOL_HEADER)
    assert peer.expect(commands.Connection.Start).mechanisms == "PLAIN"
    peer.start_ok("ANONYMOUS", b"")
    assert peer.refusal().code == 403


def test_a_password_that_needs_tls_is_neither_asked_for_nor_taken(broker: SteppedBroker) -> None:
    broker.add_user("alice", "secret")
    broker.context.mechanisms = MechanismRegistry(["PLAIN", "SCRAM-SHA-256"], needs_tls=True)
    peer = broker.accept(is_loopback=False)
    peer.send_octets(PROTOCOL_HEADER)
    assert peer.expect(commands.Connection.Start).mechanisms == "SCRAM-SHA-256"
    peer.start_ok("PLAIN", "\0alice\0secret")
    refusal = peer.refusal()
    assert (refusal.code, refusal.text) == (
        503,
        "COMMAND_INVALID - authentication mechanism 'PLAIN' needs TLS",
    )


def test_external_without_a_certificate_is_refused(broker: SteppedBroker, newcomer: Peer) -> None:
    broker.context.mechanisms = MechanismRegistry(["EXTERNAL"])
    newcomer.start_ok("EXTERNAL", "guest")
    assert newcomer.refusal().text == LOGIN_REFUSED.format("EXTERNAL")
    (report,) = broker.reported(events.CONNECTION_REFUSED)
    reason = "the client has shown no certificate that stands for a user"
    assert report["reason"] == f"authentication of user '' by EXTERNAL failed: {reason}"


def test_a_start_ok_that_cannot_be_decoded_is_501(newcomer: Peer) -> None:
    newcomer.send_octets(frame(1, 0, START_OK.index.to_bytes(4, "big") + b"\0\0"))
    refusal = newcomer.refusal()
    assert refusal.code == 501
    assert refusal.text.startswith("FRAME_ERROR - cannot decode connection.start-ok: ")
    assert (refusal.class_id, refusal.method_id) == ids(START_OK)


def test_the_clients_names_are_reported_when_it_is_in(broker: SteppedBroker) -> None:
    peer = greet(broker)
    peer.send(
        0,
        START_OK,
        client_properties={"product": "pika", "connection_name": "billing"},
        mechanism="PLAIN",
        response="\0guest\0guest",
    )
    peer.expect(commands.Connection.Tune)
    peer.send(0, TUNE_OK, frame_max=131_072, channel_max=1)
    peer.call(0, OPEN, virtual_host="/")
    (report,) = broker.reported(events.CONNECTION_OPENED)
    assert report == {
        "peer": "127.0.0.1:40000",
        "user": "guest",
        "vhost": "/",
        "client": "pika",
        "name": "billing",
    }


@pytest.mark.parametrize("capabilities", [None, "yes", {"consumer_cancel_notify": "yes"}])
def test_capabilities_of_the_wrong_type_are_no_capabilities(
    broker: SteppedBroker, capabilities: object
) -> None:
    peer = greet(broker)
    peer.send(
        0,
        START_OK,
        client_properties={"capabilities": capabilities},
        mechanism="PLAIN",
        response="\0guest\0guest",
    )
    peer.expect(commands.Connection.Tune)
    assert not peer.connection.client.takes_consumer_cancel
    assert not peer.connection.client.has_capability("connection.blocked")


# ------------------------------------------------------------------------------------------ tune


@pytest.mark.parametrize(
    ("fields", "explanation"),
    [
        (
            {"frame_max": 100},
            "negotiated frame_max = 100 is lower than the minimum allowed value (4096)",
        ),
        (
            {"frame_max": 4095},
            "negotiated frame_max = 4095 is lower than the minimum allowed value (4096)",
        ),
        (
            {"frame_max": 131_073},
            "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)",
        ),
        (
            {"frame_max": 0},
            "negotiated frame_max = 0 (no limit) is higher than the maximum allowed value (131072)",
        ),
        (
            {"channel_max": 5000},
            "negotiated channel_max = 5000 is higher than the maximum allowed value (2047)",
        ),
        (
            {"channel_max": 0},
            "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)",
        ),
    ],
)
def test_limits_outside_of_what_was_offered_are_530(
    broker: SteppedBroker, fields: dict[str, object], explanation: str
) -> None:
    peer = tuned(broker, **fields)
    assert peer.refusal() == Refusal(
        "connection", 530, f"NOT_ALLOWED - {explanation}", *ids(TUNE_OK)
    )


@pytest.mark.parametrize(
    "fields", [{"frame_max": 4096}, {"frame_max": 131_072}, {"channel_max": 1}, {"heartbeat": 0}]
)
def test_limits_at_the_edge_are_accepted(broker: SteppedBroker, fields: dict[str, object]) -> None:
    # differs: frame-max
    tuned(broker, **fields).call(0, OPEN, virtual_host="/")


def test_the_clients_frame_max_binds_both_sides(broker: SteppedBroker) -> None:
    peer = broker.connect(frame_max=4096)
    queue = peer.declare("q")
    peer.publish(1, queue, b"x" * 10_000)
    peer.consume(queue, "t", no_ack=True)  # Peer checks the size of every frame it reads
    ok, delivery = peer.receive()
    assert (ok.name, delivery.body) == ("basic.consume-ok", b"x" * 10_000)
    peer.send_octets(frame(3, 1, b"x" * 4097))
    assert peer.refusal().text == (
        "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,4097,4088}"
    )


def test_before_tune_frames_are_small(newcomer: Peer) -> None:
    newcomer.send_octets(frame(1, 0, b"x" * 8193))
    refusal = newcomer.refusal()
    assert refusal.code == 501
    assert refusal.text.endswith("{frame_too_large,8193,8184}")


# ------------------------------------------------------------------------------------------ open


def test_an_unknown_vhost_is_530(broker: SteppedBroker) -> None:
    peer = tuned(broker)
    assert peer.refused(0, OPEN, virtual_host="nope") == (530, "NOT_ALLOWED - vhost nope not found")


def test_a_vhost_without_permissions_is_530(broker: SteppedBroker) -> None:
    broker.add_vhost("other")
    peer = tuned(broker)
    assert peer.refused(0, OPEN, virtual_host="other") == (
        530,
        "NOT_ALLOWED - access to vhost 'other' refused for user 'guest'",
    )


def test_a_full_vhost_is_530(broker: SteppedBroker) -> None:
    broker.add_vhost("small", max_connections=1)
    broker.add_user("alice", "alice", vhosts=["/", "small"])
    broker.connect("alice", vhost="/")  # elsewhere, so it does not count
    first = broker.connect("alice", vhost="small")
    peer = broker.accept(is_loopback=False)
    peer.start("alice", "alice")
    peer.expect(commands.Connection.Tune)
    peer.send(0, TUNE_OK, frame_max=131_072, channel_max=1)
    assert peer.refused(0, OPEN, virtual_host="small") == (
        530,
        "NOT_ALLOWED - access to vhost 'small' refused for user 'alice': "
        "connection limit (1) is reached",
    )
    first.lose()
    broker.connect("alice", vhost="small")


def test_a_full_node_is_530() -> None:
    broker = SteppedBroker(Limits(max_connections=1))
    broker.connect()
    peer = tuned(broker)
    assert peer.refused(0, OPEN, virtual_host="/") == (
        530,
        "NOT_ALLOWED - connection refused: node connection limit (1) is reached",
    )


def test_permissions_are_those_of_the_vhost_that_was_opened(broker: SteppedBroker) -> None:
    broker.add_user("alice", "alice", permissions=Permissions("^a", ".*", ".*"))
    peer = broker.connect("alice")
    peer.declare("a1")
    assert peer.refused(1, commands.Queue.Declare, queue="b1") == (
        403,
        "ACCESS_REFUSED - configure access to queue 'b1' in vhost '/' refused for user 'alice'",
    )


# --------------------------------------------------------------------------------- out of turn


def method_too_early(state: str) -> list[tuple[str, type[Frame], dict[str, Any]]]:
    return [
        (state, method_class, fields)
        for method_class, fields in (
            (START_OK, {"mechanism": "PLAIN", "response": "\0guest\0guest"}),
            (TUNE_OK, {"frame_max": 131_072, "channel_max": 1}),
            (OPEN, {"virtual_host": "/"}),
            (commands.Connection.SecureOk, {}),
            (commands.Connection.UpdateSecret, {"new_secret": "x"}),
            (commands.Channel.Open, {}),
            (commands.Connection.Start, {}),
        )
        if (state, method_class)
        not in (("starting", START_OK), ("tuning", TUNE_OK), ("opening", OPEN))
    ]


@pytest.mark.parametrize(
    ("state", "method_class", "fields"),
    [
        *method_too_early("starting"),
        *method_too_early("tuning"),
        *method_too_early("opening"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_method_out_of_turn_is_504_and_says_which_state_it_was(
    broker: SteppedBroker, state: str, method_class: type[Frame], fields: dict[str, Any]
) -> None:
    peer = greet(broker)
    if state != "starting":
        peer.start_ok("PLAIN", "\0guest\0guest")
        peer.expect(commands.Connection.Tune)
    if state == "opening":
        peer.send(0, TUNE_OK, frame_max=131_072, channel_max=1)
    assert peer.refused(0, method_class, **fields) == (
        504,
        f"CHANNEL_ERROR - unexpected method in connection state {state}",
    )


def test_a_channel_before_open_is_505(newcomer: Peer) -> None:
    newcomer.send(1, commands.Channel.Open)
    assert newcomer.refusal() == Refusal(
        "connection", 505, "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>", 0, 0
    )


def test_a_second_open_is_504(broker: SteppedBroker) -> None:
    peer = broker.connect()
    assert peer.refused(0, OPEN, virtual_host="/") == (
        504,
        "CHANNEL_ERROR - unexpected method in connection state running",
    )


def test_a_client_may_leave_in_the_middle(newcomer: Peer) -> None:
    newcomer.call(0, commands.Connection.Close, reply_code=200, reply_text="changed my mind")
    assert newcomer.transport.state == "closed"


# --------------------------------------------------------------------------------------- timeout


@pytest.mark.parametrize("stage", ["nothing said", "header sent", "logged in", "tuned"])
def test_a_handshake_that_takes_too_long_is_dropped(broker: SteppedBroker, stage: str) -> None:
    peer = broker.accept()
    if stage != "nothing said":
        peer.send_octets(PROTOCOL_HEADER)
    if stage in ("logged in", "tuned"):
        peer.start_ok("PLAIN", "\0guest\0guest")
    if stage == "tuned":
        peer.send(0, TUNE_OK, frame_max=131_072, channel_max=1)
    broker.advance(9.9)
    assert peer.transport.state == "open"
    broker.advance(0.2)
    assert peer.transport.state == "dropped"
    assert broker.reported(events.HANDSHAKE_TIMED_OUT) == [{"peer": "127.0.0.1:40000"}]


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_login_that_takes_too_long_is_dropped(is_sent: bool) -> None:
    broker = SteppedBroker(Limits(authentication_timeout_s=2, handshake_timeout_s=5))
    peer = broker.accept()
    if is_sent:
        peer.send_octets(PROTOCOL_HEADER)
    broker.advance(1.9)
    assert peer.transport.state == "open"
    broker.advance(0.2)
    assert peer.transport.state == "dropped"
    assert broker.reported(events.AUTHENTICATION_TIMED_OUT) == [{"peer": "127.0.0.1:40000"}]
    assert broker.reported(events.HANDSHAKE_TIMED_OUT) == []


def test_who_has_logged_in_has_the_rest_of_the_handshake_left() -> None:
    broker = SteppedBroker(Limits(authentication_timeout_s=2, handshake_timeout_s=5))
    peer = broker.accept()
    broker.advance(1.9)
    peer.start("guest", "guest")
    broker.advance(3)
    assert peer.transport.state == "open"
    broker.advance(0.2)
    assert peer.transport.state == "dropped"
    assert broker.reported(events.HANDSHAKE_TIMED_OUT) == [{"peer": "127.0.0.1:40000"}]


def test_more_time_for_the_login_than_for_the_handshake_is_no_time() -> None:
    broker = SteppedBroker(Limits(authentication_timeout_s=50, handshake_timeout_s=5))
    peer = broker.accept()
    broker.advance(5)
    assert peer.transport.state == "dropped"
    assert len(broker.reported(events.HANDSHAKE_TIMED_OUT)) == 1


def test_an_open_connection_has_no_handshake_timeout(broker: SteppedBroker, peer: Peer) -> None:
    broker.advance(3600)
    assert peer.transport.state == "open"
    assert broker.reported(events.HANDSHAKE_TIMED_OUT) == []


@pytest.mark.parametrize("end", ["opened", "refused", "not AMQP", "left"])
def test_a_handshake_that_is_over_leaves_nothing_behind(broker: SteppedBroker, end: str) -> None:
    """An idle connection is small: neither the handshake nor its timer is kept."""
    peer = broker.accept()
    (timer,) = broker.timers
    handshake = weakref.ref(handshake_of(timer))
    if end == "not AMQP":
        peer.send_octets(b"GET / HTTP/1.1\r\n")
    elif end == "opened":
        peer.start("guest", "guest")
        peer.expect(commands.Connection.Tune)
        peer.send(0, TUNE_OK, frame_max=131_072, channel_max=1)
        peer.call(0, OPEN, virtual_host="/")
        assert peer.connection.is_running
    else:
        peer.send_octets(PROTOCOL_HEADER)
        if end == "refused":
            peer.start_ok("PLAIN", "\0guest\0wrong")
        else:
            peer.send(0, commands.Connection.Close, reply_code=200, reply_text="")
    assert timer.is_done
    del timer
    broker.advance(0)  # forgets the timers that are done
    assert handshake() is None


def handshake_of(timer: ManualTimer) -> Handshake:
    handshake = getattr(timer.callback, "__self__", None)
    assert isinstance(handshake, Handshake)
    return handshake


def test_a_lost_socket_ends_the_timeout(broker: SteppedBroker, newcomer: Peer) -> None:
    newcomer.lose()
    broker.advance(60)
    assert broker.reported(events.HANDSHAKE_TIMED_OUT) == []


def test_the_client_capabilities_are_those_it_sent(broker: SteppedBroker, peer: Peer) -> None:
    assert peer.connection.client.properties["capabilities"] == CAPABILITIES
    assert peer.connection.client.takes_consumer_cancel
