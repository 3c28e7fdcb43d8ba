"""RabbitMQ's keys of a connection with TLS, and without."""

from __future__ import annotations

from hareline.amqp.ports import TlsSession, tls_fields
from hareline.auth.certificates import PeerCertificate


def test_without_tls_every_key_is_there_and_empty() -> None:
    fields = tls_fields(None)
    assert fields.pop("ssl") is False
    assert set(fields.values()) == {None}
    assert fields.keys() == {
        *("ssl_protocol", "ssl_key_exchange", "ssl_cipher", "ssl_hash"),
        *("peer_cert_subject", "peer_cert_issuer", "peer_cert_validity"),
    }


def test_a_client_s_certificate_is_told_of() -> None:
    certificate = PeerCertificate(
        "CN=ann", "ann", (), (), (), "CN=authority", "1f", 86_400_000, not_before_ms=0
    )
    fields = tls_fields(TlsSession("tlsv1.2", "ecdhe_rsa", "aes_128_gcm", "aead", certificate))
    assert fields == {
        "ssl": True,
        "ssl_protocol": "tlsv1.2",
        "ssl_key_exchange": "ecdhe_rsa",
        "ssl_cipher": "aes_128_gcm",
        "ssl_hash": "aead",
        "peer_cert_subject": "CN=ann",
        "peer_cert_issuer": "CN=authority",
        "peer_cert_validity": "1970-01-01T00:00:00Z - 1970-01-02T00:00:00Z",
    }
