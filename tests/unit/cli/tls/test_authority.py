"""An authority, what it signs, and files that are none of its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from hareline.cli.tls.authority import Authority, Issued


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.new("of a test")


def read(issued: Issued) -> x509.Certificate:
    return x509.load_pem_x509_certificate(issued.certificate)


def purposes(certificate: x509.Certificate) -> list[x509.ObjectIdentifier]:
    return list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def test_clients_that_trust_the_authority_accept_its_servers(authority: Authority) -> None:
    certificate = read(authority.for_server(["shop.example", "192.0.2.1"], 2))
    policy = PolicyBuilder().store(Store([authority.certificate]))
    policy.build_server_verifier(x509.DNSName("shop.example")).verify(certificate, [])
    with pytest.raises(VerificationError):
        policy.build_server_verifier(x509.DNSName("elsewhere.example")).verify(certificate, [])
    assert purposes(certificate) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_a_client_s_certificate_is_for_clients_only(authority: Authority) -> None:
    certificate = read(authority.for_client("ann", 2, email="ann@shop.example"))
    assert purposes(certificate) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert certificate.subject.rfc4514_string() == "CN=ann"
    verifier = PolicyBuilder().store(Store([authority.certificate])).build_client_verifier()
    assert verifier.verify(certificate, []).chain[0] == certificate


def test_a_name_that_is_no_dns_name_is_the_common_name_alone(authority: Authority) -> None:
    certificate = read(authority.for_client("ann@shop.example", 2))
    with pytest.raises(x509.ExtensionNotFound):
        certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)


def test_certificates_end_when_they_are_told_to(authority: Authority) -> None:
    starts = datetime.now(UTC) - timedelta(days=10)
    certificate = read(authority.for_server(["h"], 3, starts=starts))
    left = certificate.not_valid_after_utc - starts
    assert abs(left - timedelta(days=3)) < timedelta(seconds=2)


def test_an_authority_is_read_back(authority: Authority) -> None:
    again = Authority.load(*authority.own)
    assert again.certificate == authority.certificate
    read(again.for_server(["h"], 2)).verify_directly_issued_by(authority.certificate)


def test_files_of_another_kind_are_refused(authority: Authority) -> None:
    with pytest.raises(ValueError, match="does not belong"):
        Authority.load(authority.own.certificate, Authority.new("other").own.key)
    with pytest.raises(ValueError):
        Authority.load(b"no certificate", authority.own.key)
