"""Contexts made of files, the certificate that is chosen by name, and files that cannot be used."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from hareline.errors import ListenError
from hareline.net.tls.contexts import CertificateFiles, TlsOptions, covers, load_contexts
from tests.support.authority import Files


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = Files(tmp_path)
    made.server()
    return made


def options(files: Files, *further: str, **rules: object) -> TlsOptions:
    tables = [CertificateFiles("tls", *files.pair("server"))]
    tables += [
        CertificateFiles(f"tls_certificates[{index}]", *files.pair(stem))
        for index, stem in enumerate(further)
    ]
    return TlsOptions(tuple(tables))._replace(**rules)  # type: ignore[arg-type]


def problems_of(given: TlsOptions) -> list[tuple[str, str]]:
    with pytest.raises(ListenError) as caught:
        load_contexts(given)
    return caught.value.problems


def shaken(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """The client's side of a handshake, done in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname=host)
    waiting = {ours, theirs}
    for _ in range(8):
        for each in tuple(waiting):
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.discard(each)
    assert not waiting
    return theirs


def names_shown(found: ssl.SSLObject) -> set[str]:
    certificate = found.getpeercert()
    assert certificate is not None
    names: Any = certificate["subjectAltName"]
    return {str(value) for _, value in names}


def test_what_is_permitted_is_modern(files: Files) -> None:
    made = load_contexts(options(files))
    for context in (made.amqp, made.http):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
        assert context.verify_mode is ssl.CERT_NONE
        for suite in context.get_ciphers():
            assert suite["aead"], suite
            assert suite["protocol"] == "TLSv1.3" or "Kx=ECDH " in suite["description"], suite
    assert load_contexts(options(files, min_version="1.3")).amqp.minimum_version == (
        ssl.TLSVersion.TLSv1_3
    )


def test_clients_are_verified_as_each_kind_of_port_has_it(files: Files) -> None:
    rules = {"client_authorities": str(files.ca), "verify_clients": "required"}
    made = load_contexts(options(files, **rules))
    assert (made.amqp.verify_mode, made.http.verify_mode) == (ssl.CERT_REQUIRED, ssl.CERT_NONE)
    made = load_contexts(options(files, **rules, verify_http_clients="optional"))
    assert made.http.verify_mode is ssl.CERT_OPTIONAL
    read = [(Path(each.file).name, each.is_authority) for each in made.certificates]
    assert read == [("server.pem", False), ("ca.pem", True)]


def test_a_client_is_shown_the_certificate_of_the_name_it_asks_for(files: Files) -> None:
    files.server("shop.example", "*.shop.example", stem="shop")
    made = load_contexts(options(files, "shop"))
    client = files.client_context()
    for context in (made.amqp, made.http):
        for host in ("shop.example", "eu.shop.example", "EU.Shop.Example"):
            assert "shop.example" in names_shown(shaken(context, client, host))
        assert "localhost" in names_shown(shaken(context, client, "localhost"))
    client.check_hostname = False
    for host in ("elsewhere.example", "a.b.shop.example"):
        assert "localhost" in names_shown(shaken(made.amqp, client, host))


@pytest.mark.parametrize(
    ("pattern", "host", "is_covered"),
    [
        ("shop.example", "shop.example", True),
        ("shop.example", "eu.shop.example", False),
        ("*.shop.example", "eu.shop.example", True),
        ("*.shop.example", "shop.example", False),
        ("*.shop.example", ".shop.example", False),
        ("*.shop.example", "a.eu.shop.example", False),
    ],
)
def test_a_wildcard_stands_for_one_label(pattern: str, host: str, is_covered: bool) -> None:
    assert covers(pattern, host) is is_covered


def test_a_key_may_stand_in_the_file_of_its_certificate(files: Files) -> None:
    certificate, key = map(Path, files.pair("server"))
    both = files.directory / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    load_contexts(TlsOptions((CertificateFiles("tls", str(both)),)))


def test_a_key_with_a_password(files: Files, tmp_path: Path) -> None:
    certificate, key = files.pair("server")
    loaded = serialization.load_pem_private_key(Path(key).read_bytes(), None)
    locked, password = tmp_path / "locked.key", tmp_path / "password"
    locked.write_bytes(
        loaded.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    password.write_text("secret\nand no more\n", encoding="utf-8")
    table = CertificateFiles("tls", certificate, str(locked), str(password))
    load_contexts(TlsOptions((table,)))
    given = TlsOptions((table._replace(key_password_file=""),))
    text = f"the key in {locked} has a password: key_password_file should name its file"
    assert problems_of(given) == [("tls.key", text)]
    password.write_text("wrong\n", encoding="utf-8")
    assert problems_of(TlsOptions((table,))) == [
        ("tls.key", f"{locked}: the password of the key is wrong")
    ]
    password.write_text("\n", encoding="utf-8")
    assert problems_of(TlsOptions((table,))) == [
        ("tls.key_password_file", f"{password}: the first line should be the password")
    ]


@pytest.mark.parametrize(
    ("revoked", "days", "problem"),
    [
        (["bob"], 1, ""),
        (["ann", "bob"], 1, "certificate revoked"),
        ([], -1, "CRL has expired"),
    ],
)
def test_a_revoked_certificate_is_refused(
    files: Files, revoked: list[str], days: int, problem: str
) -> None:
    for name in ("ann", "bob"):
        files.client(name)
    rules = {
        "client_authorities": str(files.ca),
        "client_revocations": str(files.revoke(*revoked, days=days)),
        "verify_clients": "required",
    }
    made = load_contexts(options(files, **rules))
    if not problem:
        shaken(made.amqp, files.client_context("ann"), "localhost")
        return
    with pytest.raises(ssl.SSLCertVerificationError, match=problem):
        shaken(made.amqp, files.client_context("ann"), "localhost")


def test_a_file_without_a_revocation_list_is_refused(files: Files) -> None:
    rules = {"client_authorities": str(files.ca), "client_revocations": str(files.ca)}
    problem = ("tls.client_revocations", f"{files.ca}: has no revocation list in PEM")
    assert problems_of(options(files, **rules)) == [problem]
    files.ca.with_name("none.pem").write_text("none")
    rules["client_revocations"] = str(files.ca.with_name("none.pem"))
    ((place, text),) = problems_of(options(files, **rules))
    assert (place, "has no revocation list in PEM" in text) == ("tls.client_revocations", True)


def test_a_file_of_revocation_lists_brings_no_authorities(files: Files) -> None:
    crl = files.revoke()
    rules = {"client_authorities": str(files.ca), "client_revocations": str(crl)}
    crl.write_bytes(crl.read_bytes() + files.ca.read_bytes())
    load_contexts(options(files, **rules))
    stranger = Path(files.pair("server")[0]).read_bytes()
    crl.write_bytes(crl.read_bytes() + stranger)
    ((place, text),) = problems_of(options(files, **rules))
    assert (place, "would trust them" in text) == ("tls.client_revocations", True)


def test_a_damaged_revocation_list_behind_a_good_one_is_named(files: Files) -> None:
    crl = files.revoke()
    good = crl.read_bytes()
    crl.write_bytes(good + good[: len(good) // 2])
    rules = {"client_authorities": str(files.ca), "client_revocations": str(crl)}
    problem = ("tls.client_revocations", f"{crl}: a revocation list in it is damaged")
    assert problems_of(options(files, **rules)) == [problem]


def test_a_key_of_another_certificate_is_refused(files: Files) -> None:
    files.server(stem="other")
    certificate, key = files.pair("server")[0], files.pair("other")[1]
    given = TlsOptions((CertificateFiles("tls", certificate, key),))
    text = f"{key}: the key does not belong to the certificate in {certificate}"
    assert problems_of(given) == [("tls.key", text)]


def test_every_file_that_cannot_be_used_is_named(files: Files, tmp_path: Path) -> None:
    text = tmp_path / "text.pem"
    text.write_text("no certificate", encoding="utf-8")
    absent = tmp_path / "absent.pem"
    tables = (
        CertificateFiles("tls", str(text)),
        CertificateFiles("tls_certificates[0]", str(absent)),
    )
    given = TlsOptions(tables, client_authorities=str(text))
    assert problems_of(given) == [
        ("tls.certificate", f"{text}: has no certificate in PEM"),
        (
            "tls_certificates[0].certificate",
            f"{absent}: cannot be read: No such file or directory",
        ),
        ("tls.client_authorities", f"{text}: has no certificate in PEM"),
    ]


def test_a_key_that_is_not_there_is_named(files: Files, tmp_path: Path) -> None:
    certificate, _ = files.pair("server")
    given = TlsOptions((CertificateFiles("tls", certificate),))
    text = f"{certificate}: has no private key in PEM, and key names no other file"
    assert problems_of(given) == [("tls.certificate", text)]
    absent = str(tmp_path / "absent.key")
    given = TlsOptions((CertificateFiles("tls", certificate, absent),))
    text = f"{absent}: cannot be read: No such file or directory"
    assert problems_of(given) == [("tls.key", text)]
    given = TlsOptions((CertificateFiles("tls", certificate, certificate),))
    assert problems_of(given) == [("tls.key", f"{certificate}: has no private key in PEM")]


def test_suites_that_openssl_does_not_know_are_refused(files: Files) -> None:
    text = "OpenSSL knows no suite for 'STRONG'"
    assert problems_of(options(files, ciphers="STRONG")) == [("tls.ciphers", text)]
