"""A small LDAP directory for the broker under test to ask: simple binds, and searches.

It speaks LDAPv3 on loopback, by the ASN.1 of RFC 4511, in threads of the test. Invariant: it has
ended when the block ends.
"""

from __future__ import annotations

import socketserver
import ssl
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hareline.authorities.directory import import_ldap3

import_ldap3()  # before its parts: it silences what it warns of

from ldap3.protocol import rfc4511  # noqa: E402
from pyasn1.codec.ber import decoder, encoder  # noqa: E402
from pyasn1.error import SubstrateUnderrunError  # noqa: E402

SUCCESS: Final = 0
INVALID_CREDENTIALS: Final = 49
INSUFFICIENT_RIGHTS: Final = 50
BASE: Final = 0


def same_dn(dn: str) -> str:
    """A name as directories compare it."""
    parts = dn.replace("\\ ", " ").split(",")
    return ",".join("=".join(map(compared, part.split("=", 1))) for part in parts)


def compared(value: str) -> str:
    """A value as RFC 4518 has it compared: whatever its case and spaces, and what is not seen."""
    mapped = (each for each in value if unicodedata.category(each) not in ("Cc", "Cf"))
    mapped = (each if each in "ßﬁ" else unicodedata.normalize("NFKC", each) for each in mapped)
    return " ".join("".join(mapped).lower().split())


@dataclass(frozen=True)
class Entry:
    """One entry. ``password`` empty: nobody can bind as it. ``is_readable``: by who bound as it."""

    dn: str
    password: str = ""
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_readable: bool = True

    def all_values(self, name: str) -> tuple[str, ...]:
        """Its values of an attribute; the first one in its name is one of them."""
        kind, _, value = self.dn.partition(",")[0].partition("=")
        return (*((value,) if kind == name else ()), *self.values.get(name, ()))


class Directory:
    """``binds`` and ``searches`` note who came and what was looked for."""

    def __init__(self, *entries: Entry, takes_anonymous: bool = True) -> None:
        self.entries = {same_dn(entry.dn): entry for entry in entries}
        self.takes_anonymous = takes_anonymous
        self.binds: list[str] = []
        self.searches: list[str] = []
        self.gate = threading.Event()
        self.gate.set()

    def bind(self, dn: str, password: str) -> int:
        """The result of a simple bind."""
        assert self.gate.wait(60)
        self.binds.append(dn)
        if not dn:
            return SUCCESS if self.takes_anonymous else INSUFFICIENT_RIGHTS
        entry = self.entries.get(same_dn(dn))
        if entry is None or not password or entry.password != password:
            return INVALID_CREDENTIALS
        return SUCCESS

    def search(self, base: str, name: str, value: str) -> list[Entry]:
        """The entries below ``base`` that have this value."""
        self.searches.append(f"{base} ({name}={value})")
        return [
            entry
            for entry in self.entries.values()
            if entry.dn.lower().endswith(base.lower())
            and compared(value) in map(compared, entry.all_values(name))
        ]

    def read(self, dn: str) -> list[Entry]:
        """The entry of this name, if it is there and may be read."""
        entry = self.entries.get(same_dn(dn))
        return [entry] if entry is not None and entry.is_readable else []


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        octets = b""
        while received := self.request.recv(65_536):
            octets += received
            while octets:
                try:
                    message, octets = decoder.decode(octets, asn1Spec=rfc4511.LDAPMessage())
                except SubstrateUnderrunError:
                    break
                if not self._answer(message):
                    return

    def _answer(self, message: Any) -> bool:
        """Answer a request; False if the client leaves."""
        operation = message["protocolOp"]
        kind, directory = operation.getName(), self.server.directory
        content = operation.getComponent()
        if kind == "bindRequest":
            password = bytes(content["authentication"].getComponent()).decode()
            code = directory.bind(str(content["name"]), password)
            self._send(message, "bindResponse", _result(rfc4511.BindResponse(), code))
        elif kind == "searchRequest":
            base, sought = str(content["baseObject"]), content["filter"].getComponent()
            if int(content["scope"]) == BASE:
                found = directory.read(base)
            else:
                value = bytes(sought["assertionValue"]).decode()
                found = directory.search(base, str(sought["attributeDesc"]), value)
            for entry in found:
                wanted = map(str, content["attributes"])
                self._send(message, "searchResEntry", _as_result(entry, wanted))
            self._send(message, "searchResDone", _result(rfc4511.SearchResultDone(), SUCCESS))
        return bool(kind != "unbindRequest")

    def _send(self, request: Any, kind: str, content: Any) -> None:
        answer = rfc4511.LDAPMessage()
        answer["messageID"] = rfc4511.MessageID(int(request["messageID"]))
        answer["protocolOp"] = rfc4511.ProtocolOp().setComponentByName(kind, content)
        self.request.sendall(encoder.encode(answer))


def _as_result(entry: Entry, wanted: Iterable[str]) -> Any:
    result = rfc4511.SearchResultEntry()
    result["object"] = rfc4511.LDAPDN(entry.dn)
    result["attributes"] = rfc4511.PartialAttributeList()
    for place, name in enumerate(name for name in wanted if entry.all_values(name)):
        attribute = rfc4511.PartialAttribute()
        attribute["type"] = rfc4511.AttributeDescription(name.upper())
        attribute["vals"].extend(map(rfc4511.AttributeValue, entry.all_values(name)))
        result["attributes"][place] = attribute
    return result


def _result(response: Any, code: int) -> Any:
    response["resultCode"] = rfc4511.ResultCode(code)
    response["matchedDN"] = rfc4511.LDAPDN("")
    response["diagnosticMessage"] = rfc4511.LDAPString("")
    return response


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    directory: Directory


@contextmanager
def serving(directory: Directory, certificate: Path | None = None) -> Iterator[str]:
    """Serve the directory while the block runs; the URL. ``certificate``: speak TLS with it."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.directory = directory
        scheme = "ldap"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            scheme = "ldaps"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"{scheme}://127.0.0.1:{server.server_address[1]}"
        finally:
            directory.gate.set()
            server.shutdown()
            thread.join()
