"""Logins that an LDAP directory decides, over AMQP and HTTP."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pika
import pika.exceptions
import pytest
from pamqp import commands

from hareline.settings import Settings
from tests.support.broker_process import BrokerFailed, BrokerProcess, StartDaemon
from tests.support.broker_thread import broker_in_thread
from tests.support.directory_server import Directory, Entry, serving
from tests.support.http_api import HttpApi
from tests.support.raw_client import PROTOCOL_HEADER, RawClient

PEOPLE, GROUPS = "ou=people,dc=x", "ou=groups,dc=x"
ANN, BOB = f"uid=ann,{PEOPLE}", f"uid=bob,{PEOPLE}"


def config(url: str, more: str = "") -> str:
    return f"""
        [auth]
        backends = ["internal", "ldap"]
        failure_delay_s = 0
        [ldap]
        servers = ["{url}"]
        user_dn_pattern = "uid=${{username}},{PEOPLE}"
        group_base = "{GROUPS}"
        timeout_s = 60
        {more}
        [[ldap_groups]]
        dn = "cn=ops,{GROUPS}"
        tags = ["management"]
        permissions = [{{ vhost = "/", configure = "^a", write = "", read = "^a" }}]
    """


@pytest.mark.acceptance
def test_a_user_has_the_rights_of_its_groups(start_daemon: StartDaemon) -> None:
    ops = Entry(f"cn=ops,{GROUPS}", values={"member": (ANN,)})
    directory = Directory(Entry(ANN, "pw-of-ann"), Entry(BOB, "pw-of-bob"), ops)
    with serving(directory) as url:
        daemon = start_daemon(config(url))

        def connect(name: str, password: str) -> pika.BlockingConnection:
            url = daemon.url_for(username=name, password=password)
            return pika.BlockingConnection(pika.URLParameters(url))

        with connect("ann", "pw-of-ann") as connection:
            connection.channel().queue_declare("abc")
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="'xyz' in vhost '/'"):
                connection.channel().queue_declare("xyz")
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="vhost '/' refused"):
            connect("bob", "pw-of-bob")
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            connect("ann", "pw-of-bob")
        api = HttpApi(daemon.management_url, "ann", "pw-of-ann")
        assert api.get("/api/whoami")["tags"] == ["management"]
        assert "pw-of" not in daemon.log_tail()
        directory.gate.clear()
        with connect("guest", "guest") as connection:
            assert connection.is_open


def test_clients_that_have_left_keep_no_others_out() -> None:
    directory = Directory(Entry(ANN, "pw"), Entry(BOB, "pw"))
    directory.gate.clear()
    with serving(directory) as url:
        tree = tomllib.loads(config(url, "threads = 1"))
        tree["auth"]["login_failures_max"] = 0  # who has left may have guessed
        with broker_in_thread(Settings.model_validate(tree)) as thread:

            def begin(name: str, password: str) -> RawClient:
                client = thread.client()
                client.send_octets(PROTOCOL_HEADER)
                client.expect(commands.Connection.Start)
                response = f"\0{name}\0{password}"
                start_ok = commands.Connection.StartOk({}, "PLAIN", response, "en_US")
                client.send(start_ok, 0)
                return client

            asked = begin("Bob", "pw")  # is asked about now
            for number in range(50):
                begin("ann", f"guess {number}").drop()
            ann = begin("ann", "pw")
            directory.gate.set()
            for client in (asked, ann):
                client.expect(commands.Connection.Tune)
            assert directory.binds == [BOB.replace("bob", "Bob"), ANN]


@pytest.mark.acceptance
def test_a_file_that_is_missing_is_named_at_the_start(tmp_path: Path) -> None:
    daemon = BrokerProcess(tmp_path, config("ldaps://127.0.0.1:1", 'ca_file = "/nowhere"'))
    try:
        with pytest.raises(BrokerFailed, match=r"ldap\.ca_file: there is no file /nowhere"):
            daemon.start()
    finally:
        daemon.kill()
    daemon.check_log()
