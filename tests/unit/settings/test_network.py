"""Options of ports, names, pages and TLS, and those that need another one."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from hareline.settings import FurtherListener, Identity, Settings
from tests.support.settings import problems_of


def test_the_home_directory_and_the_host_name_are_filled_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setattr(socket, "gethostname", lambda: "hare.example.com")
    assert Settings().data_dir == Path("/home/ann/.local/state/hareline")
    assert Identity().cluster_name == "hareline@hare"


def test_further_listeners_are_on_loopback_and_name_no_product_unless_told() -> None:
    assert Settings().listeners == ()
    further = FurtherListener(port=0)
    assert (further.bind, further.product) == ("127.0.0.1", "")
    assert problems_of(listeners=[{"bind": "127.0.0.1"}]) == [
        ("listeners.0.port", "Field required")
    ]
    for wrong in ({"port": 65536}, {"port": 1, "bind": ""}, {"port": 1, "product": "x" * 256}):
        ((place, _),) = problems_of(listeners=[wrong])
        assert place.startswith("listeners.0.")


# --------------------------------------------------------------------------------------- front ends


@pytest.mark.parametrize("origin", ["https://shop.example", "http://[::1]:8080", "*", "app://x"])
def test_an_origin_is_taken(origin: str) -> None:
    settings = Settings.model_validate({"websocket": {"origins": [origin]}})
    assert settings.websocket.origins == (origin,)


@pytest.mark.parametrize("origin", ["shop.example", "https://shop.example/", "", "https://", "**"])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    ((place, message),) = problems_of(websocket={"origins": [origin]})
    assert place == "websocket.origins"
    assert "should be an origin such as" in message


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ({"listener": {"proxy_protocol_from": ["10.0.0.1/8"]}}, "listener.proxy_protocol_from"),
        ({"management": {"proxy_protocol_from": ["lb"]}}, "management.proxy_protocol_from"),
        ({"management": {"forwarded_by": [""]}}, "management.forwarded_by"),
        (
            {"listeners": [{"port": 1, "proxy_protocol_from": ["10.0.0"]}]},
            "listeners.0.proxy_protocol_from",
        ),
    ],
)
def test_what_is_no_network_is_refused(table: dict[str, Any], place: str) -> None:
    ((found, message),) = problems_of(**table)
    assert found == place
    assert "should be an address or a network such as 10.0.0.0/8" in message


# ---------------------------------------------------------------------------------------------- tls


def test_tls_is_off_without_a_certificate() -> None:
    assert not Settings().tls.is_on
    assert Settings.model_validate({"tls": {"certificate": "c.pem"}}).tls.is_on


def test_the_home_directory_may_be_meant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    tls = Settings.model_validate({"tls": {"certificate": "~/c.pem"}}).tls
    assert (tls.certificate, tls.key) == (str(tmp_path / "c.pem"), "")


@pytest.mark.parametrize("key", ["key", "key_password_file", "client_authorities"])
def test_what_belongs_to_a_certificate_needs_one(key: str) -> None:
    ((place, text),) = problems_of(tls={key: "f.pem"})
    assert place == f"tls.{key}"
    assert text == "certificate should be given as well: without it no port has TLS"


@pytest.mark.parametrize("key", ["verify_clients", "verify_http_clients"])
@pytest.mark.parametrize("value", ["optional", "required"])
def test_clients_are_verified_by_authorities(key: str, value: str) -> None:
    ((place, text),) = problems_of(tls={"certificate": "c.pem", key: value})
    assert place == f"tls.{key}"
    assert text.startswith("client_authorities should be given where clients are verified")


def test_revocations_are_of_authorities() -> None:
    tls = {"certificate": "c.pem", "client_revocations": "crl.pem"}
    ((place, text),) = problems_of(tls=tls)
    assert place == "tls.client_revocations"
    assert text.startswith("client_authorities should be given as well")


def test_a_further_certificate_needs_a_file() -> None:
    tls = {"certificate": "c.pem"}
    ((place, text),) = problems_of(tls=tls, tls_certificates=[{"certificate": ""}])
    assert (place, text[:6]) == ("tls_certificates.0.certificate", "String")


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"listeners": [{"port": 1, "tls": True}]}, "listeners.0.tls"),
        ({"metrics": {"tls": True}}, "metrics.tls"),
        ({"tls_certificates": [{"certificate": "d.pem"}]}, "tls_certificates.0.certificate"),
    ],
)
def test_ports_with_tls_need_the_certificate(given: dict[str, object], place: str) -> None:
    assert [where for where, _ in problems_of(**given)] == [place]
    Settings.model_validate({**given, "tls": {"certificate": "c.pem"}})


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"listener": {"enabled": False}}, "listener.enabled"),
        (
            {"listener": {"enabled": False}, "tls": {"certificate": "c.pem", "amqp": False}},
            "listener.enabled",
        ),
        ({"management": {"http": False}}, "management.http"),
        (
            {"management": {"http": False}, "tls": {"certificate": "c.pem", "management": False}},
            "management.http",
        ),
    ],
)
def test_the_last_port_cannot_be_closed(given: dict[str, object], place: str) -> None:
    ((where, text),) = problems_of(**given)
    assert where == place
    assert text.startswith("no port would be left for ")


def test_a_port_is_not_claimed_twice() -> None:
    tls = {"certificate": "c.pem", "port": 5672}
    ((place, text),) = problems_of(tls=tls)
    assert place == "tls.port"
    assert text == "Input should differ from listener.port, which is 5672 too"
    Settings.model_validate({"tls": tls, "listener": {"enabled": False}})
    ((place, _),) = problems_of(tls={"certificate": "c.pem", "management_port": 15672})
    assert place == "tls.management_port"


def test_rules_are_of_known_words() -> None:
    assert len(problems_of(tls={"certificate": "c.pem", "min_version": "1.1"})) == 1
    assert len(problems_of(tls={"certificate": "c.pem", "verify_clients": "maybe"})) == 1


def test_external_needs_certificates_of_clients() -> None:
    ((place, text),) = problems_of(auth={"mechanisms": ["EXTERNAL", "PLAIN"]})
    assert place == "auth.mechanisms"
    assert text == "EXTERNAL needs tls.verify_clients to be optional or required"
    tls = {"certificate": "c.pem", "client_authorities": "ca.pem", "verify_clients": "optional"}
    Settings.model_validate({"auth": {"mechanisms": ["EXTERNAL"]}, "tls": tls})


@pytest.mark.parametrize(
    ("rule", "place"),
    [
        ({"match": "(", "user": "ann"}, "external_users.0.match"),
        ({"match": "", "user": "ann"}, "external_users.0.match"),
        ({"match": "(.*)", "user": ""}, "external_users.0.user"),
        ({"match": ".*", "user": "\\1"}, "external_users.0.user"),
        ({"match": "(.*)", "user": "\\q"}, "external_users.0.user"),
    ],
)
def test_a_rule_is_a_pattern_and_a_user(rule: dict[str, str], place: str) -> None:
    assert [where for where, _ in problems_of(external_users=[rule])] == [place]
    Settings.model_validate({"external_users": [{"match": "CN=(.*)", "user": "\\1"}]})
