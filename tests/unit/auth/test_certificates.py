"""What is read of a certificate."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from hareline.auth.certificates import read_der, read_pem
from tests.support.authority import Files


def test_names_of_every_kind_are_read(tmp_path: Path) -> None:
    files = Files(tmp_path)
    uri = "spiffe://shop/ann"
    path = files.client("ann", email="ann@shop.example", uri=uri)
    (found,) = read_pem(path.read_bytes())
    assert (found.subject, found.common_name) == ("CN=ann", "ann")
    assert (found.dns_names, found.email_addresses) == (("ann",), ("ann@shop.example",))
    assert (found.uris, found.issuer) == ((uri,), "CN=authority of a test")
    assert found.not_before_ms < found.not_after_ms
    assert int(found.serial, 16) > 0


def test_a_server_s_addresses_are_read(tmp_path: Path) -> None:
    (found,) = read_pem(Files(tmp_path).server("shop.example", "192.0.2.1").read_bytes())
    assert (found.dns_names, found.addresses) == (("shop.example",), ("192.0.2.1",))


def test_der_is_the_same_certificate(tmp_path: Path) -> None:
    octets = Files(tmp_path).client("ann").read_bytes()
    assert read_der(ssl.PEM_cert_to_DER_cert(octets.decode())) == read_pem(octets)[0]


def test_a_file_may_have_several_certificates(tmp_path: Path) -> None:
    files = Files(tmp_path)
    octets = files.server().read_bytes() + files.ca.read_bytes()
    names = [each.common_name for each in read_pem(octets)]
    assert names == ["localhost", "authority of a test"]
    assert read_pem(files.ca.read_bytes())[0].dns_names == ()


@pytest.mark.parametrize("octets", [b"", b"no certificate", b"-----BEGIN CERTIFICATE-----\nx\n"])
def test_what_is_no_certificate_is_refused(octets: bytes) -> None:
    with pytest.raises(ValueError):
        read_pem(octets)
    with pytest.raises(ValueError):
        read_der(octets)
