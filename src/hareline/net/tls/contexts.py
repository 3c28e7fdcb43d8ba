"""TLS contexts made of files of certificates, and their errors.

``net.tls.service`` calls ``load_contexts`` at the start, and when a file or an option has changed.
Each kind of port has a context for each certificate, chosen by the client's host name (SNI). A
problem with any file is a ListenError that names option and file, and leaves nothing half-made.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

from hareline.auth.certificates import PeerCertificate, read_pem
from hareline.errors import ListenError
from hareline.statistics.facts import CertificateFacts

Verification = Literal["none", "optional", "required"]

_MODES: Final = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_REVOCATION_LIST: Final = re.compile(
    rb"-----BEGIN X509 CRL-----.*?(?:-----END X509 CRL-----|\Z)", re.DOTALL
)
#: OpenSSL's reasons for not taking a key, and what they mean.
_KEY_REASONS: Final = {
    "KEY_VALUES_MISMATCH": "the key does not belong to the certificate in {certificate}",
    "KEY_TYPE_MISMATCH": "the key does not belong to the certificate in {certificate}",
    "BAD_DECRYPT": "the password of the key is wrong",
    "BAD_PASSWORD_READ": "the password of the key is wrong",
    "PKCS12_CIPHERFINAL_ERROR": "the password of the key is wrong",
    "EE_KEY_TOO_SMALL": "the key is too short to be safe",
    "CA_MD_TOO_WEAK": "a certificate in {certificate} is signed with a weak digest",
}


class CertificateFiles(NamedTuple):
    """Files of a certificate and its key. ``table``: their place in the settings, such as ``tls``.

    ``key`` empty: it stands in the file of the certificate.
    """

    table: str
    certificate: str
    key: str = ""
    key_password_file: str = ""


class TlsOptions(NamedTuple):
    """Options of the settings. ``certificates``: that of [tls] first, the default."""

    certificates: tuple[CertificateFiles, ...]
    client_authorities: str = ""
    client_revocations: str = ""
    verify_clients: Verification = "none"
    verify_http_clients: Verification = "none"
    min_version: Literal["1.2", "1.3"] = "1.2"
    ciphers: str = "ECDHE+AESGCM:ECDHE+CHACHA20"

    def files(self) -> list[Path]:
        """Every file that is read."""
        names = [name for each in self.certificates for name in each[1:]]
        return [
            Path(name)
            for name in (*names, self.client_authorities, self.client_revocations)
            if name
        ]


class ReadCertificate(NamedTuple):
    """A certificate of a file. ``is_authority``: of those that sign clients' certificates."""

    file: str
    is_authority: bool
    facts: PeerCertificate

    def described(self) -> CertificateFacts:
        """The same for health checks and metrics."""
        facts = self.facts
        return CertificateFacts(
            file=self.file,
            is_authority=self.is_authority,
            subject=facts.subject,
            issuer=facts.issuer,
            serial=facts.serial,
            names=facts.dns_names + facts.addresses,
            not_before_ms=facts.not_before_ms,
            not_after_ms=facts.not_after_ms,
        )


class TlsContexts(NamedTuple):
    """Contexts of the ports for AMQP and for HTTP; ``certificates``: all that were read."""

    amqp: ssl.SSLContext
    http: ssl.SSLContext
    certificates: tuple[ReadCertificate, ...]


class _Material(NamedTuple):
    """A certificate chain that was read, and the files it is loaded of."""

    files: CertificateFiles
    chain: list[PeerCertificate]

    def covers(self, host: str) -> bool:
        """True if the certificate is for this host name, in small letters."""
        own = self.chain[0]
        names = own.dns_names or ((own.common_name,) if own.common_name else ())
        return any(covers(name.lower(), host) for name in names)


def load_contexts(options: TlsOptions) -> TlsContexts:
    """Read all files; raises ListenError with the option to blame for each problem."""
    problems: list[tuple[str, str]] = []
    material: list[_Material] = []
    for files in options.certificates:
        try:
            material.append(_Material(files, _chain(files)))
        except ListenError as error:
            problems += error.problems
    authorities: list[PeerCertificate] = []
    if options.client_authorities:
        place = "tls.client_authorities"
        try:
            authorities = _certificates(place, options.client_authorities)
        except ListenError as error:
            problems += error.problems
    if problems:
        raise ListenError(problems)
    read = [ReadCertificate(each.files.certificate, False, each.chain[0]) for each in material]
    read += [ReadCertificate(options.client_authorities, True, each) for each in authorities]
    return TlsContexts(
        _chosen_by_name(options, options.verify_clients, material),
        _chosen_by_name(options, options.verify_http_clients, material),
        tuple(read),
    )


def covers(pattern: str, host: str) -> bool:
    """True if a name in a certificate stands for this host (RFC 6125 section 6.4.3).

    A ``*`` stands for one whole label, the first.
    """
    if pattern.startswith("*."):
        label, _, rest = host.partition(".")
        return bool(label) and rest == pattern[2:]
    return pattern == host


def _chosen_by_name(
    options: TlsOptions, verification: Verification, material: Sequence[_Material]
) -> ssl.SSLContext:
    """The context of the first certificate, which hands over to that of another name."""
    contexts = [_context(options, verification, each.files) for each in material]
    if len(contexts) > 1:
        contexts[0].sni_callback = _chooser(list(zip(material, contexts, strict=True)))
    return contexts[0]


def _chooser(
    choices: Sequence[tuple[_Material, ssl.SSLContext]],
) -> Callable[[ssl.SSLObject, str | None, ssl.SSLContext], None]:
    def choose(stream: ssl.SSLObject, host: str | None, _context: ssl.SSLContext) -> None:
        name = (host or "").lower()
        for material, context in choices:
            if name and material.covers(name):
                stream.context = context
                return

    return choose


def _context(
    options: TlsOptions, verification: Verification, files: CertificateFiles
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[options.min_version]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    try:
        context.set_ciphers(options.ciphers)
    except ssl.SSLError:
        text = f"OpenSSL knows no suite for '{options.ciphers}'"
        raise ListenError([("tls.ciphers", text)]) from None
    context.verify_mode = _MODES[verification]
    if options.client_authorities:
        context.load_verify_locations(cafile=options.client_authorities)
    if options.client_revocations:
        _load_revocations(context, options.client_revocations)
    _load_key(context, files)
    return context


def _load_revocations(context: ssl.SSLContext, file: str) -> None:
    """Have a context refuse clients whose certificates their authority has revoked."""
    place = "tls.client_revocations"
    lists = set(_REVOCATION_LIST.findall(_octets(place, file)))
    if not lists:
        raise ListenError([(place, f"{file}: has no revocation list in PEM")])
    authorities = context.cert_store_stats()["x509"]
    with suppress(ssl.SSLError):  # what it found shows below
        context.load_verify_locations(cafile=file)
    found = context.cert_store_stats()
    if found["crl"] < len(lists):
        raise ListenError([(place, f"{file}: a revocation list in it is damaged")])
    if found["x509"] > authorities:
        problem = "has certificates that client_authorities does not have, and would trust them"
        raise ListenError([(place, f"{file}: {problem}")])
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _load_key(context: ssl.SSLContext, files: CertificateFiles) -> None:
    """Have a context use a certificate and its key."""
    password, key = "", files.key or files.certificate
    if files.key_password_file:
        password = _first_line(f"{files.table}.key_password_file", files.key_password_file)
    is_asked = False

    def given() -> str:
        nonlocal is_asked
        is_asked = True
        return password

    place = f"{files.table}.key" if files.key else f"{files.table}.certificate"
    _octets(place, key)
    try:
        context.load_cert_chain(files.certificate, files.key or None, given)
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or ""
        if is_asked and not password:
            problem = f"the key in {key} has a password: key_password_file should name its file"
        elif reason in _KEY_REASONS:
            problem = f"{key}: {_KEY_REASONS[reason].format(certificate=files.certificate)}"
        elif is_asked:
            problem = f"{key}: the password of the key is wrong"
        else:
            problem = f"{key}: has no private key in PEM"
            if not files.key:
                problem += ", and key names no other file"
        raise ListenError([(place, problem)]) from None


def _chain(files: CertificateFiles) -> list[PeerCertificate]:
    return _certificates(f"{files.table}.certificate", files.certificate)


def _certificates(place: str, file: str) -> list[PeerCertificate]:
    octets = _octets(place, file)
    try:
        return read_pem(octets)
    except ValueError:
        raise ListenError([(place, f"{file}: has no certificate in PEM")]) from None


def _first_line(place: str, file: str) -> str:
    lines = _octets(place, file).decode("utf-8", "surrogateescape").splitlines()
    if not lines or not lines[0]:
        raise ListenError([(place, f"{file}: the first line should be the password")])
    return lines[0]


def _octets(place: str, file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        text = f"{file}: cannot be read: {error.strerror or error}"
        raise ListenError([(place, text)]) from None
