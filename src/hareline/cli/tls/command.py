"""``hareline tls self-signed``: all the files with which TLS can be tried in a minute.

It works on files alone and asks no broker. Invariant: only its owner can read a private key, from
the moment when the file exists, and no file is replaced unless ``--renew`` says so.
"""

from __future__ import annotations

import os
import re
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from click import option

from hareline.cli.command import PATH, Group, Whole
from hareline.cli.failures import CommandFailed, ExitStatus, errors_as_sentences
from hareline.cli.output import Output

tls = Group("tls", help="Make certificates for trying TLS.")

DAYS: Final = 365  # browsers take none that are valid for more than 398
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")
_HOST_MAX: Final = 64  # of a common name, RFC 5280 appendix A


@tls.command("self-signed")
@option("--directory", type=PATH, metavar="DIR", default=Path("tls"), help="Where the files go.")
@option(
    "--host",
    multiple=True,
    metavar="NAME",
    help="Name or address by which clients reach the broker; may be given again. Without "
    "it: this machine's.",
)
@option(
    "--client",
    multiple=True,
    metavar="NAME",
    help="Make a certificate for a client of this name too; may be given again.",
)
@option("--days", type=Whole(1), default=DAYS, help="How long they are valid.")
@option("--renew", is_flag=True, help="Replace the certificates that exist.")
def self_signed(
    directory: Path, host: tuple[str, ...], client: tuple[str, ...], days: int, renew: bool
) -> None:
    """Make an authority and certificates that it signs.

    The authority's certificate, ca.pem, is what clients need. It is kept when the command runs
    again, with which further clients and renewed certificates get theirs.
    """
    with errors_as_sentences():
        _check(host, client)
        try:
            made = _make(directory, host, client, days, renew=renew)
        except OSError as error:
            problem = f"{error.filename or directory}: {error.strerror}"
            raise CommandFailed(problem) from None
        out = Output()
        for path in made:
            out.line(str(path))
        out.line("")
        for line in _settings(directory.absolute()):
            out.line(line)


def _check(hosts: Sequence[str], clients: Sequence[str]) -> None:
    """Raises CommandFailed for a name that no certificate can have."""
    for name in clients:
        if _NAME.fullmatch(name) is None:
            problem = (
                f"--client: '{name}' cannot be a name: up to 64 letters, digits and . _ - @, "
                "the first one a letter or digit"
            )
            raise CommandFailed(problem, ExitStatus.USAGE)
    for name in hosts:
        if not name.isascii() or not name or len(name) > _HOST_MAX or " " in name:
            problem = f"--host: '{name}' is not a host name or address of up to 64 characters"
            raise CommandFailed(problem, ExitStatus.USAGE)


def _make(
    directory: Path, hosts: Sequence[str], clients: Sequence[str], days: int, *, renew: bool
) -> list[Path]:
    """Write the files; returns those that were written."""
    from hareline.cli.tls.authority import Authority

    directory.mkdir(parents=True, exist_ok=True)
    stems = [f"client-{name}" for name in clients]
    if not renew:
        for stem in stems if not hosts else ["server", *stems]:
            if (directory / f"{stem}.pem").exists():
                raise CommandFailed(f"{directory / stem}.pem exists; --renew replaces it")
    made = []
    certificate, key = directory / "ca.pem", directory / "ca.key"
    if certificate.exists() or key.exists():
        try:
            authority = Authority.load(certificate.read_bytes(), key.read_bytes())
        except ValueError as error:
            raise CommandFailed(f"{certificate}, {key}: no authority of ours: {error}") from None
    else:
        authority = Authority.new(f"Hareline self-signed, {socket.gethostname()}"[:_HOST_MAX])
        made += _write(directory, "ca", *authority.own)
    if renew or hosts or not (directory / "server.pem").exists():
        issued = authority.for_server(hosts or _own_names(), days)
        made += _write(directory, "server", *issued)
    for name, stem in zip(clients, stems, strict=True):
        made += _write(directory, stem, *authority.for_client(name, days))
    return made


def _own_names() -> list[str]:
    """Names by which this machine's own clients, and those of its network, reach it."""
    names = ["localhost", socket.gethostname()[:_HOST_MAX], "127.0.0.1", "::1"]
    return list(dict.fromkeys(names))


def _write(directory: Path, stem: str, certificate: bytes, key: bytes) -> list[Path]:
    paths = [directory / f"{stem}.pem", directory / f"{stem}.key"]
    _replace(paths[1], key, 0o600)  # first: a broker that sees one of two new files waits
    _replace(paths[0], certificate, 0o644)
    return paths


def _replace(path: Path, octets: bytes, mode: int) -> None:
    """Put a file there as a whole; nobody else can read it before it has its mode."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(octets)
            os.fchmod(file.fileno(), mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _settings(directory: Path) -> list[str]:
    """Lines for the broker's settings, and for clients."""
    return [
        "# settings of the broker: amqps on 5671 and https on 15671",
        "[tls]",
        f'certificate = "{directory / "server.pem"}"',
        f'key = "{directory / "server.key"}"',
        "# for clients that show a certificate:",
        f'# client_authorities = "{directory / "ca.pem"}"',
        '# verify_clients = "optional"',
        "",
        f"# clients trust {directory / 'ca.pem'}, such as:",
        f"#   hareline status --url https://localhost:15671 --ca-file {directory / 'ca.pem'}",
    ]
