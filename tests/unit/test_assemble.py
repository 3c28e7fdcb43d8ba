"""What the parts of a broker are given of its settings."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hareline import __version__
from hareline.amqp.context import Limits
from hareline.auth.passwords import verify_password
from hareline.auth.peer import Peer
from hareline.auth.permissions import Permissions
from hareline.auth.scram import PasswordKeys, ScramKeys
from hareline.broker.capacity import BrokerCapacity
from hareline.errors import CommandInvalid
from hareline.net.binding import Address
from hareline.server import assemble
from hareline.settings import Auth, Settings, VirtualHost
from hareline.storage.journal.damage import Decision
from tests.support.settings import SCRAM_KEYS, hash_of

PORTS = {"listener": {"bind": "127.0.0.1", "port": 1}, "management": {"bind": "::1", "port": 4}}
FURTHER = [{"port": 2, "product": "qpid"}, {"bind": "192.0.2.1", "port": 3}]


def settings(**values: object) -> Settings:
    return Settings.model_validate(values)


def test_addresses_are_those_of_the_listeners_and_then_of_the_management_port() -> None:
    addresses = assemble.addresses(settings(**PORTS, listeners=FURTHER))
    assert addresses == [
        Address("listener", "127.0.0.1", 1),
        Address("listeners[0]", "127.0.0.1", 2, product="qpid"),
        Address("listeners[1]", "192.0.2.1", 3),
        Address("management", "::1", 4, serves="http"),
    ]


def test_ports_with_tls_stand_behind_those_without() -> None:
    tls = {"certificate": "c.pem", "port": 6, "management_port": 7}
    further = [{"port": 2, "tls": True}]
    given = settings(**PORTS, listeners=further, tls=tls, metrics={"listener": True, "tls": True})
    assert [(str(each), each.table, each.has_tls) for each in assemble.addresses(given)] == [
        ("127.0.0.1:1", "listener", False),
        ("127.0.0.1:2", "listeners[0]", True),
        ("127.0.0.1:6", "tls", True),
        ("[::1]:4", "management", False),
        ("127.0.0.1:7", "tls", True),
        ("127.0.0.1:15692", "metrics", True),
    ]


def test_ports_without_tls_can_be_closed() -> None:
    tls = {"certificate": "c.pem"}
    given = settings(listener={"enabled": False}, management={"http": False}, tls=tls)
    assert [str(each) for each in assemble.addresses(given)] == [
        "127.0.0.1:5671",
        "127.0.0.1:15671",
    ]
    given = settings(tls={**tls, "amqp": False, "management": False})
    assert not any(each.has_tls for each in assemble.addresses(given))


def test_certificates_are_read_in_the_order_of_the_settings() -> None:
    tls = {
        "certificate": "c.pem",
        "key": "c.key",
        "client_authorities": "ca.pem",
        "client_revocations": "crl.pem",
        "verify_clients": "required",
        "min_version": "1.3",
    }
    further = [{"certificate": "d.pem", "key_password_file": "d.txt"}]
    options = assemble.tls_options(settings(tls=tls, tls_certificates=further))
    assert options.certificates == (
        ("tls", "c.pem", "c.key", ""),
        ("tls_certificates[0]", "d.pem", "", "d.txt"),
    )
    assert (options.client_authorities, options.verify_clients) == ("ca.pem", "required")
    assert options.client_revocations == "crl.pem"
    assert (options.verify_http_clients, options.min_version) == ("none", "1.3")


def test_the_port_for_metrics_comes_last() -> None:
    addresses = assemble.addresses(settings(**PORTS, metrics={"listener": True, "port": 5}))
    assert [each.table for each in addresses] == ["listener", "management", "metrics"]
    assert addresses[-1].port == 5
    off = settings(**PORTS, metrics={"listener": True, "enabled": False})
    assert [each.table for each in assemble.addresses(off)] == ["listener", "management"]


def test_a_management_port_that_is_off_has_no_address() -> None:
    (only,) = assemble.addresses(settings(management={"enabled": False}))
    assert only.table == "listener"


def test_each_amqp_port_has_its_sockets_its_product_and_the_backlog() -> None:
    given = settings(listener={"backlog": 7}, listeners=FURTHER)
    addresses = assemble.addresses(given)
    bound: list[list[socket.socket]] = [[] for _ in addresses]
    endpoints = assemble.endpoints(given, addresses, bound, None)
    assert [each.address for each in endpoints] == addresses[:3]
    assert [each.address.product for each in endpoints] == ["", "qpid", ""]
    assert [each.backlog for each in endpoints] == [7, 7, 7]
    assert all(each.sockets is sockets for each, sockets in zip(endpoints, bound, strict=False))


def test_clients_are_told_the_product_of_the_settings_and_the_broker_s_own_name() -> None:
    identity = assemble.identity(
        settings(identity={"product": "P", "version": "1.2.3", "cluster_name": "c"})
    )
    assert (identity.product, identity.version, identity.cluster_name) == ("P", "1.2.3", "c")
    assert identity.qpid_product == "RabbitMQ (qpid)"
    assert identity.brand == f"Hareline {__version__}"
    assert identity.platform.startswith(("CPython 3.", "PyPy 3."))


def test_every_limit_comes_from_its_option() -> None:
    values = {
        "frame_max_bytes": 5001,
        "channel_max": 5002,
        "heartbeat_s": 5003,
        "handshake_timeout_s": 1004.0,
        "max_message_bytes": 5005,
        "large_message_bytes": 70_006,
        "max_connections": 5007,
        "publish_rate_per_user": 5018,
        "publish_bytes_rate_per_user": 5019,
        "authentication_timeout_s": 1014.0,
        "connection_rate": 5015,
        "connection_rate_per_address": 5016,
        "max_connections_per_user": 5010,
        "max_connections_per_address": 5011,
        "max_http_connections": 5020,
        "max_http_connections_per_address": 5021,
        "max_vhosts": 5017,
        "max_channels": 5012,
        "max_channels_per_user": 5013,
        "max_consumers_per_channel": 5008,
        "max_unacked_per_channel": 5022,
        "max_unacked_per_user": 5023,
        "max_selectors_per_queue": 5009,
    }
    given = settings(limits=values, auth={"failure_delay_s": 59.5})
    assert assemble.limits(given) == Limits(**values, authentication_failure_delay_s=59.5)  # type: ignore[arg-type]


def test_defaults_of_the_protocol_side_are_those_of_the_settings() -> None:
    assert assemble.limits(Settings()) == Limits()


def test_what_may_be_declared_comes_from_its_options() -> None:
    values = {
        "max_queues": 1,
        "max_exchanges": 2,
        "max_bindings": 3,
        "max_arguments_bytes": 4,
    }
    capacity = BrokerCapacity()
    assemble.set_capacity(capacity, settings(limits=values))
    assert {name: getattr(capacity, name) for name in values} == values


def test_the_store_is_given_the_options_of_the_journal(tmp_path: Path) -> None:
    options = assemble.storage_options(
        settings(
            data_dir=str(tmp_path),
            journal={
                "segment_bytes": 2 << 20,
                "sync": "interval",
                "sync_interval_ms": 7,
                "on_corruption": "skip",
                "retention_age_s": 8,
                "retention_bytes": 9,
            },
        )
    )
    assert options.data_dir == tmp_path
    assert (options.segment_bytes, options.sync, options.sync_interval_ms) == (
        2 << 20,
        "interval",
        7,
    )
    assert options.on_corruption is Decision.SKIP
    assert (options.retention_age_s, options.retention_bytes) == (8, 9)


def test_a_user_has_the_hash_tags_and_permissions_of_the_settings() -> None:
    given = settings(
        users=[
            {
                "name": "ann",
                "password_hash": hash_of(16),
                "hashing": "md5",
                "tags": ["impersonator"],
                "permissions": [{"vhost": "/", "configure": "a", "write": "b", "read": "c"}],
            }
        ]
    )
    (user,) = assemble.users(given, given)
    assert (user.name, user.password_hash, user.hashing) == ("ann", hash_of(16), "md5")
    assert user.tags == ("impersonator",)
    assert user.permissions == {"/": Permissions("a", "b", "c")}
    assert user.scram is None


def test_a_password_is_hashed_whatever_the_option_for_given_hashes_says() -> None:
    given = settings(users=[{"name": "ann", "password": "secret", "hashing": "md5"}])
    (user,) = assemble.users(given, given)
    assert user.hashing == "sha256"
    assert verify_password("secret", user.password_hash, "sha256")
    assert isinstance(user.scram, PasswordKeys)


def test_scram_keys_are_used_as_given() -> None:
    given = settings(users=[{"name": "ann", "scram": SCRAM_KEYS}])
    (user,) = assemble.users(given, given)
    assert isinstance(user.scram, ScramKeys)
    assert str(user.scram) == SCRAM_KEYS
    assert user.password_hash == ""


def test_a_password_that_sasl_prohibits_has_no_scram_keys() -> None:
    given = settings(users=[{"name": "ann", "password": "bell\a"}])
    (user,) = assemble.users(given, given)
    assert user.scram is None
    assert verify_password("bell\a", user.password_hash, "sha256")


@pytest.mark.parametrize(("mechanisms", "has_keys"), [(("PLAIN",), False), (None, True)])
def test_which_mechanisms_are_on_is_decided_by_the_settings_at_the_start(
    mechanisms: tuple[str, ...] | None, has_keys: bool
) -> None:
    now = settings(users=[{"name": "ann", "password": "secret"}])
    auth = Auth() if mechanisms is None else Auth.model_validate({"mechanisms": mechanisms})
    (user,) = assemble.users(now, now.model_copy(update={"auth": auth}))
    assert (user.scram is not None) is has_keys


def test_the_audit_stream_has_the_limits_of_the_settings() -> None:
    assert assemble.audit_arguments(VirtualHost(name="/")) == {
        "x-queue-type": "stream",
        "x-max-length-bytes": 1 << 30,
        "x-max-age": "7D",
    }
    unlimited = VirtualHost(name="/", audit_max_bytes=0, audit_max_age="")
    assert assemble.audit_arguments(unlimited) == {"x-queue-type": "stream"}


def test_which_mechanisms_are_on_waits_for_the_restart_and_the_rest_does_not() -> None:
    started_with = settings(auth={"mechanisms": ["PLAIN", "ANONYMOUS"], "anonymous_user": "guest"})
    given = settings(
        auth={"mechanisms": ["AMQPLAIN"], "anonymous_user": "ann", "passwords_need_tls": True}
    )
    mechanisms = assemble.mechanisms(given, started_with)
    assert (mechanisms.anonymous_user, mechanisms.needs_tls) == ("ann", True)
    elsewhere = Peer("192.0.2.7", is_loopback=False)
    assert mechanisms.decode("ANONYMOUS", b"", elsewhere) == ("ann", None)
    with pytest.raises(CommandInvalid, match="'AMQPLAIN'"):
        mechanisms.has_steps("AMQPLAIN")
