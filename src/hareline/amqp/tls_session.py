"""What is known of TLS on a connection, in RabbitMQ's words.

``net.tls.sessions`` makes a ``TlsSession`` once the handshake is done; the HTTP API and the event
exchange tell of it by ``tls_fields``. Invariant: a certificate that is told of was verified.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from hareline.auth.certificates import PeerCertificate


class TlsSession(NamedTuple):
    """What was agreed upon: ``tlsv1.3``, ``any``, ``aes_256_gcm``, ``aead``, or the like.

    ``certificate``: the client's, if it has shown one.
    """

    protocol: str
    key_exchange: str
    cipher: str
    hash: str
    certificate: PeerCertificate | None = None


def tls_fields(session: TlsSession | None) -> dict[str, object]:
    """RabbitMQ's keys of a connection; all but ``ssl`` are None without TLS."""
    certificate = None if session is None else session.certificate
    validity = None
    if certificate is not None:
        validity = f"{_time(certificate.not_before_ms)} - {_time(certificate.not_after_ms)}"
    return {
        "ssl": session is not None,
        "ssl_protocol": None if session is None else session.protocol,
        "ssl_key_exchange": None if session is None else session.key_exchange,
        "ssl_cipher": None if session is None else session.cipher,
        "ssl_hash": None if session is None else session.hash,
        "peer_cert_subject": None if certificate is None else certificate.subject,
        "peer_cert_issuer": None if certificate is None else certificate.issuer,
        "peer_cert_validity": validity,
    }


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
