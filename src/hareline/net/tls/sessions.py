"""What is known of a TLS session after its handshake, in RabbitMQ's words.

``net.tls.handshakes`` asks once for each connection. Invariant: only a certificate that OpenSSL has
verified is reported.
"""

from __future__ import annotations

import ssl
from typing import Final

from hareline.amqp.ports import TlsSession
from hareline.auth.certificates import read_der

#: Why handshakes fail, for the log, by OpenSSL's reason.
_REASONS: Final = {
    "HTTP_REQUEST": "the client speaks HTTP without TLS",
    "HTTPS_PROXY_REQUEST": "the client asks for a proxy, by HTTP without TLS",
    "WRONG_VERSION_NUMBER": "the client does not speak TLS",
    "UNSUPPORTED_PROTOCOL": "the client offers only versions of TLS that are not permitted",
    "VERSION_TOO_LOW": "the client offers only versions of TLS that are not permitted",
    "NO_SHARED_CIPHER": "the client offers no suite that is permitted",
    "NO_SUITABLE_SIGNATURE_ALGORITHM": "the client takes no signature of this certificate's key",
    "NO_SHARED_SIGNATURE_ALGORITHMS": "the client takes no signature of this certificate's key",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client shows no certificate, and one is required",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not know the authority of our certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept our certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept our certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "our certificate has expired, says the client",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the client gives up without a reason",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the client does not accept this version of TLS",
    "UNEXPECTED_EOF_WHILE_READING": "the client has closed the socket",
}


def session_of(stream: ssl.SSLObject) -> TlsSession:
    """What was agreed upon, and who the client is if it has shown a certificate."""
    cipher = stream.cipher()
    octets = stream.getpeercert(binary_form=True)
    return TlsSession(
        (stream.version() or "").lower(),
        *suite_parts(cipher[0] if cipher else ""),
        None if octets is None else read_der(octets),
    )


def suite_parts(suite: str) -> tuple[str, str, str]:
    """Key exchange, cipher and hash of a suite, as Erlang calls them.

    OpenSSL's names: ``TLS_AES_256_GCM_SHA384`` of TLS 1.3, ``ECDHE-RSA-AES256-GCM-SHA384`` before.
    """
    if suite.startswith("TLS_"):
        cipher = suite.removeprefix("TLS_").rpartition("_")[0].lower()
        return "any", cipher, "aead"
    parts = suite.lower().split("-")
    exchange = [part for part in parts[:2] if part in _EXCHANGES]
    rest = parts[len(exchange) :]
    is_aead = any(part in _AEAD for part in rest)
    digest = "aead" if is_aead else rest.pop() if rest and rest[-1].startswith("sha") else ""
    if is_aead and rest[-1].startswith("sha"):
        rest.pop()
    elif not is_aead:
        rest.append("cbc")
    cipher = "_".join(rest).replace("aes128", "aes_128").replace("aes256", "aes_256")
    return "_".join(exchange) or "rsa", cipher, digest


_EXCHANGES: Final = {"ecdhe", "dhe", "rsa", "ecdsa", "psk"}
_AEAD: Final = {"gcm", "poly1305", "ccm", "ccm8"}


def why_refused(error: BaseException) -> str:
    """Why a handshake has failed, in words for the log."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    if not isinstance(error, ssl.SSLError):
        return str(error) or type(error).__name__
    reason = error.reason or ""
    if reason in _REASONS:
        return _REASONS[reason]
    if "ALERT" in reason:
        return f"the client refuses: {reason.partition('ALERT_')[2].replace('_', ' ').lower()}"
    return reason.replace("_", " ").lower() or "the client has closed the socket"
