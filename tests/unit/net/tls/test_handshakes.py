"""Steps of handshakes in threads, their counts, sessions, and reasons of failures in words."""

from __future__ import annotations

import ssl
import threading
from typing import cast

import pytest

from hareline import events
from hareline.net.tls.handshakes import Handshakes, suite_parts, why_refused


class Shaking:
    """Stands for an SSLObject: says in which thread its step was computed."""

    def __init__(self) -> None:
        self.threads: list[str] = []

    def do_handshake(self) -> None:
        self.threads.append(threading.current_thread().name)
        raise ssl.SSLWantReadError


def test_failures_are_counted_and_reported() -> None:
    reports: list[tuple[events.Event, dict[str, object]]] = []
    handshakes = Handshakes(lambda event, **fields: reports.append((event, fields)), lambda: 1.0)
    handshakes.refuse("h:1", "because")
    handshakes.pass_over("h:2")
    assert (handshakes.failed_count, handshakes.done_count) == (1, 0)
    assert reports == [
        (events.TLS_REFUSED, {"peer": "h:1", "reason": "because"}),
        (events.CONNECTION_UNUSED, {"peer": "h:2"}),
    ]


async def test_a_step_is_computed_in_a_thread_of_its_own() -> None:
    handshakes = Handshakes(lambda event, **fields: None, lambda: 1.0)
    shaking = Shaking()
    with pytest.raises(ssl.SSLWantReadError):
        await handshakes.begin_step(cast("ssl.SSLObject", shaking))
    assert [name.startswith("tls") for name in shaking.threads] == [True]
    handshakes.stop()
    with pytest.raises(RuntimeError):
        handshakes.begin_step(cast("ssl.SSLObject", shaking))


# ----------------------------------------------------------------------------------------- sessions


@pytest.mark.parametrize(
    ("suite", "parts"),
    [
        ("TLS_AES_256_GCM_SHA384", ("any", "aes_256_gcm", "aead")),
        ("TLS_CHACHA20_POLY1305_SHA256", ("any", "chacha20_poly1305", "aead")),
        ("ECDHE-RSA-AES256-GCM-SHA384", ("ecdhe_rsa", "aes_256_gcm", "aead")),
        ("ECDHE-ECDSA-AES128-GCM-SHA256", ("ecdhe_ecdsa", "aes_128_gcm", "aead")),
        ("ECDHE-RSA-CHACHA20-POLY1305", ("ecdhe_rsa", "chacha20_poly1305", "aead")),
        ("ECDHE-RSA-AES256-SHA384", ("ecdhe_rsa", "aes_256_cbc", "sha384")),
        ("AES128-SHA", ("rsa", "aes_128_cbc", "sha")),
    ],
)
def test_suites_have_erlang_s_names(suite: str, parts: tuple[str, str, str]) -> None:
    assert suite_parts(suite) == parts


def refused(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("HTTP_REQUEST", "the client speaks HTTP without TLS"),
        ("NO_SHARED_CIPHER", "the client offers no suite that is permitted"),
        ("TLSV1_ALERT_DECODE_ERROR", "the client refuses: decode error"),
        ("BAD_KEY_SHARE", "bad key share"),
        ("", "the client has closed the socket"),
    ],
)
def test_a_reason_of_openssl_is_put_in_words(reason: str, words: str) -> None:
    assert why_refused(refused(reason)) == words


def test_a_certificate_that_is_not_accepted_is_named_so() -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "certificate has expired"
    words = "the client's certificate is not accepted: certificate has expired"
    assert why_refused(error) == words


def test_any_other_error_has_its_own_text() -> None:
    assert why_refused(ValueError("no certificate")) == "no certificate"
    assert why_refused(ValueError()) == "ValueError"
