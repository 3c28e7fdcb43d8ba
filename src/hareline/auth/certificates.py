"""What the broker knows of a client's certificate, in the form in which logins and answers use it.

``net`` fills a ``PeerCertificate`` once for each connection whose client shows a certificate that
was verified; ``auth`` and the HTTP API read it.

Invariant: these are facts of a verified certificate; nothing here verifies one.
"""

from __future__ import annotations

from typing import NamedTuple


class PeerCertificate(NamedTuple):
    """``subject`` and ``issuer``: RFC 4514 text. ``serial``: hexadecimal.

    ``not_after_ms``: until when it is valid, in epoch milliseconds.
    """

    subject: str
    common_name: str
    dns_names: tuple[str, ...]
    email_addresses: tuple[str, ...]
    uris: tuple[str, ...]
    issuer: str
    serial: str
    not_after_ms: int
