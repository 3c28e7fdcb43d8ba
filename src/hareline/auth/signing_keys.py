"""Keys that tokens are signed with: from a JSON Web Key Set, or from PEM.

``authorities.oauth`` reads them from a file or a URL; ``auth.tokens`` looks up the one that a token
names. The algorithms of a key follow from its kind, so a public key is never taken for the secret
of HMAC. A key that cannot check signatures is left out, and takes no other key with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from jwt import PyJWK

#: Algorithms by kind of key ("kty").
ALGORITHMS: Final = MappingProxyType[str, frozenset[str]](
    {
        "RSA": frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
        "EC": frozenset({"ES256", "ES384", "ES512"}),
        "OKP": frozenset({"EdDSA"}),
        "oct": frozenset({"HS256", "HS384", "HS512"}),
    }
)
#: Those that need no secret which the broker shares with the issuer.
ASYMMETRIC: Final = ALGORITHMS["RSA"] | ALGORITHMS["EC"] | ALGORITHMS["OKP"]
SECRET_MIN_BYTES: Final = 32
_PEM: Final = "-----BEGIN "
_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"


class SigningKey(NamedTuple):
    """One key. ``key_id``: empty if it has no name. ``key``: as PyJWT takes it."""

    key_id: str
    algorithms: frozenset[str]
    key: Any


class SigningKeys:
    """Keys by name. ``problems``: what is wrong with those that were left out."""

    __slots__ = ("_by_id", "problems")

    def __init__(self, keys: Iterable[SigningKey], problems: Iterable[str] = ()) -> None:
        self._by_id = {key.key_id: key for key in keys}
        self.problems = tuple(problems)

    def find(self, key_id: str) -> SigningKey | None:
        """The key for a token that names ``key_id``, or none (""); None if it is not known.

        A single key without a name checks all tokens; a token without a name takes a single key.
        """
        found = self._by_id.get(key_id)
        if found is None and len(self._by_id) == 1 and (not key_id or "" in self._by_id):
            return next(iter(self._by_id.values()))
        return found

    @property
    def names(self) -> list[str]:
        """The names of the keys, for the log."""
        return sorted(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)


def read_keys(text: str) -> SigningKeys:
    """The keys in a text: a JSON Web Key Set, a single JSON Web Key, or a public key in PEM.

    Raises ValueError saying what is wrong; no part of a key is in it.
    """
    if _PEM in text:
        return SigningKeys([_pem_key(text)])
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("is neither JSON nor PEM") from None
    return keys_of(document)


def keys_of(document: object) -> SigningKeys:
    """The keys of a JSON Web Key Set. Keys that are not for signatures are left out.

    Raises ValueError as ``read_keys`` does.
    """
    if isinstance(document, Mapping) and "kty" in document:
        document = {"keys": [document]}
    keys = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(keys, list):
        raise ValueError("is not a JSON Web Key Set: no list 'keys'")
    found: dict[str, SigningKey] = {}
    problems: list[str] = []
    for place, entry in enumerate(keys):
        try:
            key = _json_key(entry)
            if key is not None and found.setdefault(key.key_id, key) is not key:
                raise ValueError(f"another key has its name (kid) '{key.key_id}'")
        except ValueError as problem:
            problems.append(f"keys[{place}]: {problem}")
    return SigningKeys(found.values(), problems)


def _json_key(entry: object) -> SigningKey | None:
    """A key of a set; None for one that is of another kind, or for encryption."""
    if not isinstance(entry, Mapping):
        raise ValueError("it is not an object")
    algorithms = ALGORITHMS.get(str(entry.get("kty")))
    if algorithms is None or entry.get("use", "sig") != "sig":
        return None
    algorithm = entry.get("alg")
    if algorithm is not None:
        algorithms &= {str(algorithm)}
        if not algorithms:
            return None
    key_id = entry.get("kid", "")
    if not isinstance(key_id, str):
        raise ValueError("its kid is not text")
    key = _loaded({**entry, "alg": min(algorithms)})
    secret = key.key
    if hasattr(secret, "public_key"):  # the set has its private part as well
        secret = secret.public_key()
    if isinstance(secret, bytes) and len(secret) < SECRET_MIN_BYTES:
        raise ValueError(
            f"its secret has {len(secret)} octets, {SECRET_MIN_BYTES} are needed for HMAC"
        )
    return SigningKey(key_id, algorithms, secret)


def load_libraries() -> None:
    """Import now what the first key or token would wait for."""
    import cryptography.x509  # noqa: F401
    import jwt  # noqa: F401


def _loaded(entry: dict[str, Any]) -> PyJWK:
    from jwt import PyJWK

    if entry["kty"] == "EC":
        entry.pop("alg")  # it follows from the curve
    try:
        return PyJWK.from_dict(entry)
    except Exception as problem:  # a library's parser, which raises what it likes
        raise ValueError(f"it is not a valid key: {type(problem).__name__}") from None


def _pem_key(text: str) -> SigningKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from cryptography.x509 import load_pem_x509_certificate

    octets = text.encode()
    key: object
    try:
        if _CERTIFICATE in text:
            key = load_pem_x509_certificate(octets).public_key()
        else:
            key = load_pem_public_key(octets)
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("is not a public key or a certificate in PEM") from None
    for kind, classes in (
        ("RSA", rsa.RSAPublicKey),
        ("EC", ec.EllipticCurvePublicKey),
        ("OKP", ed25519.Ed25519PublicKey),
    ):
        if isinstance(key, classes):
            return SigningKey("", ALGORITHMS[kind], key)
    raise ValueError("is not an RSA, EC or Ed25519 key")
