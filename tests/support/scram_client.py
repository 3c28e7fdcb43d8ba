"""The client's half of SCRAM-SHA-256, from RFC 5802 section 3, sharing nothing with the broker.

Used by tests that log in by it: in memory, through ``SteppedBroker`` and over TCP. The password is
used as it is, so tests give prepared ones. Invariant: a verifier that is not the user's fails.
"""

from __future__ import annotations

import base64
import hashlib
import hmac


class ScramClient:
    """One login: ``first``, then ``final`` of what the server said, then ``check`` of its last."""

    def __init__(
        self, name: str, password: str, nonce: str = "fyko+d2lbbFgONRv9qkxdawL", gs2: str = "n,,"
    ) -> None:
        self._password = password.encode()
        self._gs2 = gs2
        self._bare = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._verifier = b""
        self.salt = b""
        self.iterations = 0

    @property
    def first(self) -> bytes:
        return f"{self._gs2}{self._bare}".encode()

    def final(self, server_first: bytes, *, extensions: str = "") -> bytes:
        nonce, salt, iterations = server_first.decode().split(",")
        self.salt = base64.b64decode(salt.removeprefix("s="), validate=True)
        self.iterations = int(iterations.removeprefix("i="))
        binding = base64.b64encode(self._gs2.encode()).decode()
        without_proof = f"c={binding},{nonce}{extensions}"
        message = b",".join((self._bare.encode(), server_first, without_proof.encode()))
        salted = hashlib.pbkdf2_hmac("sha256", self._password, self.salt, self.iterations)
        client_key = _hmac(salted, b"Client Key")
        signature = _hmac(hashlib.sha256(client_key).digest(), message)
        self._verifier = _hmac(_hmac(salted, b"Server Key"), message)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, server_final: bytes) -> None:
        """Fails unless the server has the keys of this password."""
        assert server_final == b"v=" + base64.b64encode(self._verifier)


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()
