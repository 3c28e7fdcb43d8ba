"""TLS handshakes: threads, deadline and counts, and the session that each results in.

A signature of RSA takes a millisecond or more, so each step is computed in one of a few threads,
where OpenSSL runs without the interpreter's lock. While a step is under way, ``net.tls.stream``
leaves the ``ssl.SSLObject`` alone. Only a certificate that OpenSSL has verified is reported.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from hareline import events
from hareline.amqp.ports import TlsSession
from hareline.auth.certificates import read_der
from hareline.events import Report

THREADS_MAX: Final = 4
READ_BUFFER_BYTES: Final = 65_536  # as much as a connection without TLS is read at a time


class Handshakes:
    """``timeout_s``: how long a client may take. ``read_buffer`` is shared: filled and emptied at
    once.
    """

    def __init__(self, report: Report, timeout_s: Callable[[], float]) -> None:
        self._report = report
        self.timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(
            min(THREADS_MAX, os.cpu_count() or 1), thread_name_prefix="tls"
        )
        self.read_buffer = memoryview(bytearray(READ_BUFFER_BYTES))
        self.done_count = 0
        self.failed_count = 0

    def begin_step(self, stream: ssl.SSLObject) -> asyncio.Future[TlsSession]:
        """Go on with a handshake as far as the octets that have come permit.

        The future has the session of a finished handshake, or raises what OpenSSL raised: an
        SSLWantReadError where more octets are needed.
        """
        return asyncio.get_running_loop().run_in_executor(self._threads, _shake, stream)

    def refuse(self, peer: str, reason: str) -> None:
        """Count and report a handshake that has failed."""
        self.failed_count += 1
        self._report(events.TLS_REFUSED, peer=peer, reason=reason)

    def pass_over(self, peer: str) -> None:
        """Report a client that has said nothing: a port scan, or a probe of health."""
        self._report(events.CONNECTION_UNUSED, peer=peer)

    def stop(self) -> None:
        """Begin no further step; those under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _shake(stream: ssl.SSLObject) -> TlsSession:
    stream.do_handshake()
    return session_of(stream)


# ----------------------------------------------------------------------------------------- sessions


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
    """Agreed parameters, and the client's certificate if it has shown one."""
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
    """Reason of a failed handshake, in words for the log."""
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
