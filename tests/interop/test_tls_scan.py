"""A scanner tries every version and suite of TLS on both ports: no weak one is taken.

sslyze has an OpenSSL of its own for what the system's cannot ask for any more. RSA and elliptic
curves are scanned apart, since a server offers the suites of the key that it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

sslyze = pytest.importorskip("sslyze", reason="sslyze (PyPI) is not installed")

from hareline.cli.tls.authority import Issued  # noqa: E402
from tests.support.authority import Files  # noqa: E402
from tests.support.broker_process import BrokerProcess  # noqa: E402

pytestmark = pytest.mark.timeout(600)

OLD = ("ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1")
STRONG_CURVES = {"X25519", "X448", "secp256r1", "secp384r1", "secp521r1"}
CHECKS = (
    *("tls_compression", "heartbleed", "openssl_ccs_injection", "robot"),
    *("session_renegotiation", "tls_fallback_scsv", "elliptic_curves"),
)


def rsa_certificate() -> Issued:
    """One that has signed itself; a scanner does not mind."""
    key = rsa.generate_private_key(65_537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return Issued(certificate.public_bytes(pem), key.private_bytes(pem, form, none))


@pytest.fixture(scope="module", params=["ecdsa", "rsa"])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    directory: Path = tmp_path_factory.mktemp("scan")
    files = Files(directory)
    if request.param == "rsa":
        files.write("server", rsa_certificate())
    else:
        files.server()
    certificate, key = files.pair("server")
    table = f'[tls]\ncertificate = "{certificate}"\nkey = "{key}"\nport = 0\nmanagement_port = 0\n'
    with BrokerProcess(directory, table) as process:
        yield process


@pytest.mark.acceptance
@pytest.mark.parametrize("port", ["tls_port", "https_port"])
def test_no_weak_version_or_suite_is_taken(broker: BrokerProcess, port: str) -> None:
    wanted = [f"{version}_cipher_suites" for version in (*OLD, "tls_1_2", "tls_1_3")]
    location = sslyze.ServerNetworkLocation(
        "localhost", getattr(broker, port), ip_address="127.0.0.1"
    )
    commands = {sslyze.ScanCommand(name) for name in (*wanted, *CHECKS)}
    scanner = sslyze.Scanner()
    patient = sslyze.ServerNetworkConfiguration("localhost", network_timeout=60)
    scanner.queue_scans([sslyze.ServerScanRequest(location, patient, scan_commands=commands)])
    (found,) = scanner.get_results()
    result = found.scan_result
    assert result is not None, found.connectivity_error_trace
    taken = {name: _taken(result, f"{name}_cipher_suites") for name in (*OLD, "tls_1_2")}
    assert {name: suites for name, suites in taken.items() if name in OLD and suites} == {}
    assert taken["tls_1_2"]
    for suite in taken["tls_1_2"]:
        assert suite.startswith("TLS_ECDHE_"), suite
        assert "_GCM_" in suite or "CHACHA20_POLY1305" in suite, suite
    assert _taken(result, "tls_1_3_cipher_suites") >= {"TLS_AES_256_GCM_SHA384"}
    assert not result.tls_compression.result.supports_compression
    assert not result.heartbleed.result.is_vulnerable_to_heartbleed
    assert not result.openssl_ccs_injection.result.is_vulnerable_to_ccs_injection
    assert result.robot.result.robot_result.name.startswith("NOT_VULNERABLE")
    renegotiation = result.session_renegotiation.result
    assert not renegotiation.is_vulnerable_to_client_renegotiation_dos
    assert result.tls_fallback_scsv.result.supports_fallback_scsv
    curves = {each.name for each in result.elliptic_curves.result.supported_curves}
    assert "X25519" in curves
    assert curves <= STRONG_CURVES


def _taken(result: object, name: str) -> set[str]:
    attempt = getattr(result, name)
    assert attempt.result is not None, (name, attempt.error_trace)
    return {each.cipher_suite.name for each in attempt.result.accepted_cipher_suites}
