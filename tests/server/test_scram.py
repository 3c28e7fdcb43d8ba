"""SCRAM-SHA-256 over TCP: what the settings say of users becomes logins, also after a reload."""

from __future__ import annotations

import time

import pytest
from pamqp import commands

from hareline.auth.scram import new_keys
from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.raw_client import ALL_CAPABILITIES, PROTOCOL_HEADER, RawClient
from tests.support.scram_client import ScramClient
from tests.support.waiting import wait_for

Secure = commands.Connection.Secure
DEADLINE_S = 60.0
PERMISSIONS = 'permissions = [{ vhost = "/", configure = ".*", write = ".*", read = ".*" }]'


def user(name: str, **credentials: str) -> str:
    lines = "".join(f'{key} = "{value}"\n' for key, value in credentials.items())
    return f'[[users]]\nname = "{name}"\n{lines}{PERMISSIONS}\n'


def mechanisms(client: RawClient) -> str:
    client.send_octets(PROTOCOL_HEADER)
    return client.expect(commands.Connection.Start).mechanisms or ""


def log_in(daemon: BrokerProcess, name: str, password: str) -> None:
    """Fails with what the broker said when it does not lead to tune."""
    scram = ScramClient(name, password)
    with RawClient((daemon.host, daemon.port)) as client:
        mechanisms(client)
        start_ok = commands.Connection.StartOk(
            client_properties={"capabilities": ALL_CAPABILITIES},
            mechanism="SCRAM-SHA-256",
            response=scram.first.decode(),
        )
        first = client.call(start_ok, Secure, 0).challenge or ""
        proof = commands.Connection.SecureOk(response=scram.final(first.encode()).decode())
        last = client.call(proof, Secure, 0).challenge or ""
        scram.check(last.encode())
        client.call(commands.Connection.SecureOk(response=""), commands.Connection.Tune, 0)


def offered(daemon: BrokerProcess) -> list[str]:
    with RawClient((daemon.host, daemon.port)) as client:
        return mechanisms(client).split()


@pytest.mark.acceptance
@pytest.mark.row("S10")
def test_scram_is_offered_and_works_with_default_settings(start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    assert offered(daemon) == ["PLAIN", "AMQPLAIN", "SCRAM-SHA-256"]
    log_in(daemon, "guest", "guest")
    with pytest.raises(AssertionError, match=r"403 ACCESS_REFUSED - Login was refused"):
        log_in(daemon, "guest", "wrong")


@pytest.mark.acceptance
@pytest.mark.row("S10")
def test_a_reload_decides_anew_who_can_log_in_by_scram(start_daemon: StartDaemon) -> None:
    keys = user("ann", password_hash="kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR")
    stored = user("bob", scram=str(new_keys("pencil")))
    daemon = start_daemon(user("guest", password="guest") + stored)
    log_in(daemon, "guest", "guest")
    log_in(daemon, "bob", "pencil")
    daemon.reload(user("guest", password="other") + keys)
    wait_for(lambda: "SCRAM-SHA-256" not in offered(daemon), DEADLINE_S, "SCRAM to be withdrawn")
    log_in(daemon, "guest", "other")
    with pytest.raises(AssertionError, match="403"):
        log_in(daemon, "guest", "guest")
    with pytest.raises(AssertionError, match="403"):
        log_in(daemon, "bob", "pencil")


@pytest.mark.acceptance
def test_a_password_that_saslprep_prohibits_withdraws_scram_alone(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(user("guest", password="a\\tb"))
    assert offered(daemon) == ["PLAIN", "AMQPLAIN"]
    with RawClient((daemon.host, daemon.port)) as client:
        client.open("guest", "a\tb").close()


@pytest.mark.acceptance
def test_a_thousand_users_do_not_delay_the_start(start_daemon: StartDaemon) -> None:
    """Their keys take more than a second; whoever comes first does not wait for all others."""
    daemon = start_daemon("".join(user(f"u{n}", password=f"p{n}") for n in range(1000)))
    started = time.monotonic()
    log_in(daemon, "u0", "p0")
    log_in(daemon, "u999", "p999")
    assert time.monotonic() - started < 30
