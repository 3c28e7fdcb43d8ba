"""Signs tokens as an identity provider does: keys of its own, and claims as they are given.

Used by the unit tests of tokens and keys, and by the identity provider of the server tests.
"""

from __future__ import annotations

import functools
import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

AUDIENCE = "rabbitmq"
HOUR_S = 3600


@functools.cache
def _rsa_key(_key_id: str) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)  # some 100 ms


class Signer:
    """One key pair. ``algorithm``: RS256, ES256 or EdDSA. ``key_id``: empty for no name."""

    def __init__(self, algorithm: str = "ES256", key_id: str = "key-1") -> None:
        self.algorithm = algorithm
        self.key_id = key_id
        self.key: Any = {
            "RS256": lambda: _rsa_key(key_id),
            "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate,
        }[algorithm]()

    def public(self) -> dict[str, Any]:
        """The public key as a JSON Web Key."""
        maker: Any = jwt.get_algorithm_by_name(self.algorithm)
        found: dict[str, Any] = json.loads(maker.to_jwk(self.key.public_key()))
        found.pop("key_ops", None)
        return {**found, "use": "sig", **({"kid": self.key_id} if self.key_id else {})}

    def pem(self) -> str:
        """The public key in PEM."""
        found: bytes = self.key.public_key().public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        )
        return found.decode()

    def token(self, *scopes: str, now_ms: int | None = None, **claims: Any) -> str:
        """A token for an hour with these scopes; a claim that is None is left out."""
        now_s = time.time() if now_ms is None else now_ms // 1000
        given = {
            "aud": AUDIENCE,
            "exp": int(now_s) + HOUR_S,
            "sub": "ann",
            "scope": " ".join(scopes),
            **claims,
        }
        payload = {name: value for name, value in given.items() if value is not None}
        headers = {"kid": self.key_id} if self.key_id else None
        return jwt.encode(payload, self.key, self.algorithm, headers)
