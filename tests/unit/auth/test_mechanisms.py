"""Responses are taken apart exactly, and never repeated in an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.auth.certificates import ExternalLogin, PeerCertificate
from hareline.auth.mechanisms import (
    MECHANISMS,
    USUAL,
    MechanismRegistry,
    decode_amqplain,
    decode_plain,
)
from hareline.auth.peer import Peer
from hareline.errors import CommandInvalid, MalformedFrame
from hareline.wire.table import encode_table

HERE, ELSEWHERE = Peer("127.0.0.1", is_loopback=True), Peer("192.0.2.7", is_loopback=False)
ELSEWHERE_BY_TLS = ELSEWHERE._replace(is_tls=True)


def amqplain(**fields: object) -> bytes:
    return encode_table(fields)[4:]


@pytest.mark.parametrize(
    ("response", "credentials"),
    [
        (b"\0guest\0guest", ("guest", "guest")),
        (b"\0\0", ("", "")),
        (b"someone else\0guest\0p w", ("guest", "p w")),
        ("\0größe\0pässword".encode(), ("größe", "pässword")),
        (b"\0u\0\xff", ("u", "\udcff")),
    ],
)
def test_plain_is_user_and_password_behind_an_identity(
    response: bytes, credentials: tuple[str, str]
) -> None:
    assert decode_plain(response) == credentials


@pytest.mark.parametrize(
    "response", [b"", b"guest", b"\0guest", b"\0guest\0hunter2\0", b"\0a\0b\0c"]
)
def test_plain_of_another_layout_is_malformed(response: bytes) -> None:
    with pytest.raises(MalformedFrame) as caught:
        decode_plain(response)
    assert caught.value.reply_text == "SYNTAX_ERROR - response <<...>> invalid"


@pytest.mark.parametrize("fields", [{}, {"SOMETHING": {"else": [1]}}])
def test_amqplain_is_a_table_with_login_and_password(fields: dict[str, object]) -> None:
    response = amqplain(**fields, LOGIN="größe", PASSWORD="pä ss")
    assert decode_amqplain(response) == ("größe", "pä ss")


def test_amqplain_looks_as_clients_send_it() -> None:
    response = b"\x05LOGINS\x00\x00\x00\x05guest\x08PASSWORDS\x00\x00\x00\x05guest"
    assert decode_amqplain(response) == ("guest", "guest")


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (amqplain(LOGIN="guest"), "AMQPLAIN auth info is missing LOGIN or PASSWORD field"),
        (amqplain(PASSWORD="hunter2"), "AMQPLAIN auth info is missing LOGIN or PASSWORD field"),
        (b"", "AMQPLAIN auth info is missing LOGIN or PASSWORD field"),
        (
            amqplain(LOGIN=1, PASSWORD="hunter2"),
            "AMQPLAIN auth info uses unsupported type for LOGIN or PASSWORD field",
        ),
        (
            amqplain(LOGIN="guest", PASSWORD=b"hunter2"),
            "AMQPLAIN auth info uses unsupported type for LOGIN or PASSWORD field",
        ),
        (encode_table({"LOGIN": "g", "PASSWORD": "hunter2"}), "response <<...>> invalid"),
        (b"\0guest\0hunter2", "response <<...>> invalid"),
    ],
)
def test_amqplain_of_another_layout_is_malformed(response: bytes, text: str) -> None:
    with pytest.raises(MalformedFrame) as caught:
        decode_amqplain(response)
    assert caught.value.explanation == text


@given(st.binary(max_size=60), st.sampled_from(sorted(MECHANISMS)))
def test_garbage_is_credentials_or_malformed_and_nothing_else(octets: bytes, name: str) -> None:
    try:
        user, password = MechanismRegistry().decode(name, octets, HERE)
    except MalformedFrame:
        return
    assert isinstance(user, str)
    assert isinstance(password, str)


@given(st.binary(min_size=8, max_size=40).map(lambda octets: octets.hex().encode()))
def test_no_error_repeats_a_part_of_the_response(secret: bytes) -> None:
    for decode in MECHANISMS.values():
        for response in (secret, b"\x08" + secret + b"z", b"\0" + secret):
            with pytest.raises(MalformedFrame) as caught:
                decode(response)
            assert secret[:8].decode() not in caught.value.reply_text


def test_the_mechanisms_are_offered_in_order() -> None:
    registry = MechanismRegistry()
    assert registry.offered(HERE, is_scram_for_all=True) == "PLAIN AMQPLAIN SCRAM-SHA-256"
    turned = MechanismRegistry(["SCRAM-SHA-256", "AMQPLAIN", "PLAIN", "AMQPLAIN"])
    assert turned.offered(HERE, is_scram_for_all=True) == "SCRAM-SHA-256 AMQPLAIN PLAIN"
    assert registry.decode("PLAIN", b"\0u\0p", HERE) == ("u", "p")
    assert registry.decode("AMQPLAIN", amqplain(LOGIN="u", PASSWORD="p"), HERE) == ("u", "p")


@pytest.mark.row("S10")
def test_scram_is_offered_where_it_lets_everybody_in() -> None:
    assert MechanismRegistry().offered(HERE, is_scram_for_all=False) == "PLAIN AMQPLAIN"
    only = MechanismRegistry(["SCRAM-SHA-256"])
    assert only.offered(HERE, is_scram_for_all=False) == "SCRAM-SHA-256"
    without = MechanismRegistry(["PLAIN"])
    assert without.offered(HERE, is_scram_for_all=True) == "PLAIN"


def test_scram_alone_has_steps() -> None:
    registry = MechanismRegistry()
    assert [name for name in USUAL if registry.has_steps(name)] == ["SCRAM-SHA-256"]


@pytest.mark.parametrize("name", ["DIGEST-MD5", "plain", "", "SCRAM-SHA-1"])
def test_an_unknown_mechanism_is_named(name: str) -> None:
    with pytest.raises(CommandInvalid) as caught:
        MechanismRegistry().decode(name, b"", HERE)
    assert caught.value.explanation == f"unknown authentication mechanism '{name}'"


def test_a_mechanism_that_is_switched_off_is_named() -> None:
    registry = MechanismRegistry(["PLAIN"])
    with pytest.raises(CommandInvalid) as caught:
        registry.decode("AMQPLAIN", amqplain(LOGIN="u", PASSWORD="p"), HERE)
    assert caught.value.explanation == "invalid authentication mechanism 'AMQPLAIN'"
    with pytest.raises(CommandInvalid, match="invalid authentication mechanism 'SCRAM-SHA-256'"):
        registry.has_steps("SCRAM-SHA-256")


def test_a_mechanism_that_does_not_exist_cannot_be_switched_on() -> None:
    with pytest.raises(ValueError, match="unknown authentication mechanism 'DIGEST-MD5'"):
        MechanismRegistry(["PLAIN", "DIGEST-MD5"])
    with pytest.raises(ValueError, match="no authentication mechanism is switched on"):
        MechanismRegistry([])


def test_anonymous_becomes_the_user_of_the_settings_whatever_the_response() -> None:
    registry = MechanismRegistry(["ANONYMOUS", "PLAIN"], anonymous_user="visitor")
    assert registry.decode("ANONYMOUS", b"\xff\0trace", ELSEWHERE) == ("visitor", None)
    assert registry.offered(HERE, is_scram_for_all=False) == "PLAIN"
    offered = registry.offered(HERE, is_scram_for_all=False, is_anonymous_welcome=True)
    assert offered == "ANONYMOUS PLAIN"


def test_anonymous_is_off_unless_it_is_switched_on() -> None:
    registry = MechanismRegistry(anonymous_user="visitor")
    assert "ANONYMOUS" not in registry.offered(
        HERE, is_scram_for_all=True, is_anonymous_welcome=True
    )
    with pytest.raises(CommandInvalid, match="invalid authentication mechanism 'ANONYMOUS'"):
        registry.decode("ANONYMOUS", b"", HERE)


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_passwords_may_need_tls_but_from_this_machine(name: str) -> None:
    registry = MechanismRegistry(needs_tls=True)
    response = b"\0u\0p" if name == "PLAIN" else amqplain(LOGIN="u", PASSWORD="p")
    for peer in (HERE, ELSEWHERE_BY_TLS):
        assert registry.decode(name, response, peer) == ("u", "p")
        assert name in registry.offered(peer, is_scram_for_all=False).split()
    with pytest.raises(CommandInvalid) as caught:
        registry.decode(name, response, ELSEWHERE)
    assert caught.value.explanation == f"authentication mechanism '{name}' needs TLS"
    assert registry.offered(ELSEWHERE, is_scram_for_all=True) == "SCRAM-SHA-256"
    assert MechanismRegistry([name], needs_tls=True).offered(ELSEWHERE, is_scram_for_all=True) == ""


ANN = PeerCertificate("CN=ann", "ann", (), (), (), "CN=authority", "1", 1)


def test_external_is_offered_to_those_whose_certificate_stands_for_a_user() -> None:
    registry = MechanismRegistry(("EXTERNAL", "PLAIN"), ExternalLogin("common_name"))
    shown = Peer("192.0.2.1", False, True, ANN)
    assert registry.offered(shown, is_scram_for_all=False) == "EXTERNAL PLAIN"
    nameless = shown._replace(certificate=ANN._replace(common_name=""))
    for peer in (nameless, Peer("192.0.2.1", False, True)):
        assert registry.offered(peer, is_scram_for_all=False) == "PLAIN"
    registry = MechanismRegistry(("PLAIN",), ExternalLogin("common_name"))
    assert registry.offered(shown, is_scram_for_all=False) == "PLAIN"


def test_external_takes_the_name_of_the_certificate_alone() -> None:
    registry = MechanismRegistry(("EXTERNAL",))
    assert not registry.has_steps("EXTERNAL")
    shown = Peer("192.0.2.1", False, True, ANN)
    for response in (b"", b"bob", b"\0bob\0secret"):
        assert registry.decode("EXTERNAL", response, shown) == ("ann", None)
    assert registry.decode("EXTERNAL", b"ann", Peer("192.0.2.1", False, True)) == ("", None)
    with pytest.raises(CommandInvalid):
        MechanismRegistry(("PLAIN",)).decode("EXTERNAL", b"", shown)
