"""SCRAM-SHA-256 (RFC 5802, RFC 7677): the keys of a user, and the exchange that proves a password.

``amqp.handshake`` runs one ``ScramExchange`` for each login; ``auth.users`` owns the keys. Names
and passwords are prepared by SASLprep (RFC 4013). Every error but a malformed message (502) is a
``ScramRefused``; the peer gets the same answer as for a wrong password.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import stringprep
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol
from unicodedata import ucd_3_2_0  # the version that RFC 3454 fixed

from hareline.errors import HarelineError, MalformedFrame

# RFC 4013 section 2.3, in its order
_PROHIBITED: Final[tuple[Callable[[str], bool], ...]] = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def saslprep(text: str, *, is_query: bool = False) -> str:
    """The prepared form; it may be empty.

    A query may hold code points that Unicode 3.2 did not have, what is stored may not (RFC 3454
    section 7). Raises ValueError naming the code point, or the rule, that forbids the text.
    """
    if text.isascii() and text.isprintable():
        return text
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in text
        if not stringprep.in_table_b1(character)
    )
    prepared = ucd_3_2_0.normalize("NFKC", mapped)
    for character in prepared:
        if any(is_prohibited(character) for is_prohibited in _PROHIBITED):
            raise ValueError(f"U+{ord(character):04X} is prohibited by SASLprep")
        if not is_query and stringprep.in_table_a1(character):
            raise ValueError(f"U+{ord(character):04X} is not assigned in Unicode 3.2")
    _check_directions(prepared)
    return prepared


def _check_directions(prepared: str) -> None:
    """RFC 3454 section 6: right-to-left text begins and ends with right-to-left characters."""
    if not any(map(stringprep.in_table_d1, prepared)):
        return
    if any(map(stringprep.in_table_d2, prepared)):
        raise ValueError("SASLprep prohibits text of both directions")
    if not (stringprep.in_table_d1(prepared[0]) and stringprep.in_table_d1(prepared[-1])):
        raise ValueError("SASLprep requires right-to-left text to begin and end so")


# -------------------------------------------------------------------------------------------- SCRAM


MECHANISM: Final = "SCRAM-SHA-256"
ITERATIONS: Final = 4096  # the least that RFC 7677 section 4 allows
ITERATIONS_MAX: Final = 10_000_000  # the client computes them, and would seem to hang
SALT_OCTETS: Final = 16
SALT_MIN_OCTETS: Final = 8
SALT_MAX_OCTETS: Final = 64  # as much as can be made up for a name
NONCE_OCTETS: Final = 18  # 24 characters

WAIT_FIRST: Final = "first"
WAIT_FINAL: Final = "final"
WAIT_LAST: Final = "last"
PROVEN: Final = "proven"

_DIGEST: Final = "sha256"
_DIGEST_OCTETS: Final = 32
_SALT_SECRET: Final = secrets.token_bytes(_DIGEST_OCTETS)
# RFC 5803: scheme, iterations and salt, stored key and server key
_KEYS: Final = re.compile(r"SCRAM-SHA-256\$(\d{1,8}):([^$:]+)\$([^$:]+):([^$:]+)", re.ASCII)
_NONCE: Final = re.compile(r"[!-+\--~]+")  # printable ASCII but the comma
_EXTENSION: Final = re.compile(r"[A-Za-z]=[^\0]+", re.DOTALL)
_ESCAPE: Final = re.compile(r"=(2C|3D)?")


class ScramRefused(HarelineError):
    """The client failed to prove a password; ``value`` is RFC 5802's server-error-value."""

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.value = value


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """Keys derived from a password: the broker can check proofs with them, but not make one.

    ``salt`` of 8 to 64 octets, ``iterations`` of PBKDF2, both keys of 32 octets. Raises ValueError
    naming what is out of bounds. ``str()`` gives the text that ``parse`` takes.
    """

    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not SALT_MIN_OCTETS <= len(self.salt) <= SALT_MAX_OCTETS:
            raise ValueError(
                f"SCRAM salt has {len(self.salt)} octets, not {SALT_MIN_OCTETS} to"
                f" {SALT_MAX_OCTETS}"
            )
        if not ITERATIONS <= self.iterations <= ITERATIONS_MAX:
            raise ValueError(
                f"SCRAM iterations are {self.iterations}, not {ITERATIONS} to {ITERATIONS_MAX}"
            )
        if len(self.stored_key) != _DIGEST_OCTETS or len(self.server_key) != _DIGEST_OCTETS:
            raise ValueError(f"SCRAM keys need {_DIGEST_OCTETS} octets each")

    @classmethod
    def parse(cls, text: str) -> ScramKeys:
        """Keys from the text ``SCRAM-SHA-256$iterations:salt$stored key:server key`` (RFC 5803).

        PostgreSQL keeps keys in the same format; the last three parts are in base64. Raises
        ValueError, whose text does not repeat the keys.
        """
        match = _KEYS.fullmatch(text)
        if match is None:
            raise ValueError(
                "SCRAM keys must read SCRAM-SHA-256$iterations:salt$stored key:server key"
            )
        iterations, *encoded = match.groups()
        try:
            salt, stored_key, server_key = (base64.b64decode(e, validate=True) for e in encoded)
        except ValueError:
            raise ValueError("SCRAM salt and keys are not base64") from None
        return cls(salt, int(iterations), stored_key, server_key)

    def __str__(self) -> str:
        return (
            f"{MECHANISM}${self.iterations}:{_encoded(self.salt)}"
            f"${_encoded(self.stored_key)}:{_encoded(self.server_key)}"
        )


def new_keys(password: str) -> ScramKeys:
    """New keys to store, with a new salt. Raises ValueError like ``derive_keys``."""
    return derive_keys(password, secrets.token_bytes(SALT_OCTETS))


def derive_keys(password: str, salt: bytes, iterations: int = ITERATIONS) -> ScramKeys:
    """The keys of a password (RFC 5802 section 3); takes about 0.3 ms for 1,000 iterations.

    Raises ValueError for a password that SASLprep prohibits, and like ``ScramKeys``.
    """
    return _derive(_prepared_password(password), salt, iterations)


class PasswordKeys:
    """The keys of a known password, derived at their first use or before.

    The password is dropped then. Any thread may call ``derive``, also two at once:
    both compute the same. Raises ValueError for a password that SASLprep prohibits.
    """

    __slots__ = ("_keys", "_prepared", "is_ascii", "iterations", "salt")

    def __init__(self, password: str, salt: bytes) -> None:
        self._prepared: bytes | None = _prepared_password(password)
        self._keys: ScramKeys | None = None
        self.is_ascii = password.isascii()
        self.salt = salt
        self.iterations = ITERATIONS

    @property
    def is_derived(self) -> bool:
        return self._keys is not None

    def derive(self) -> ScramKeys:
        """The keys; the first call takes as long as ``derive_keys``."""
        prepared = self._prepared
        if prepared is not None:
            self._keys = _derive(prepared, self.salt, self.iterations)
            self._prepared = None
        assert self._keys is not None
        return self._keys

    def __repr__(self) -> str:
        return f"<PasswordKeys {'derived' if self.is_derived else 'not derived yet'}>"


def salt_of(name: str, octets: int = SALT_OCTETS) -> bytes:
    """The salt of a name, the same until this process ends.

    Users with a password in the settings have it, and so do unknown names: a client that asks
    twice for the salt of a name learns nothing, even if the settings were read again in between.
    """
    return _name_digest(b"salt", name)[:octets]


def made_up_keys(name: str, like: tuple[tuple[int, int], ...]) -> ScramKeys:
    """Keys that match no password, for a name without keys.

    ``like``: iterations and octets of the salt of each user with keys, one of which these share.
    """
    index = int.from_bytes(_name_digest(b"like", name)[:8], "big")
    iterations, salt_octets = like[index % len(like)] if like else (ITERATIONS, SALT_OCTETS)
    return ScramKeys(
        salt_of(name, salt_octets),
        iterations,
        secrets.token_bytes(_DIGEST_OCTETS),
        secrets.token_bytes(_DIGEST_OCTETS),
    )


class KeyRing(Protocol):
    """Looks up the keys of a user (``auth.users.UserRegistry`` is one).

    Both methods also answer for unknown names, and take the same time.
    """

    def scram_salt(self, name: str) -> tuple[bytes, int]:
        """Salt and iterations."""
        ...

    def scram_keys(self, name: str) -> ScramKeys: ...


class ScramExchange:
    """One login. ``name`` is the user, known from the client's first message on.

    ``server_nonce``: what the broker adds to the client's nonce; only tests pass it.
    """

    __slots__ = (
        "_client_first_bare",
        "_gs2_header",
        "_key_ring",
        "_nonce",
        "_server_first",
        "_server_nonce",
        "name",
        "state",
    )

    def __init__(self, key_ring: KeyRing, server_nonce: str | None = None) -> None:
        self._key_ring = key_ring
        self._server_nonce = server_nonce or _encoded(secrets.token_bytes(NONCE_OCTETS))
        self._gs2_header = b""
        self._client_first_bare = b""
        self._server_first = b""
        self._nonce = ""
        self.name = ""
        self.state = WAIT_FIRST

    @property
    def has_proof(self) -> bool:
        """True once the password is proven; the client then still checks the broker's proof."""
        return self.state in (WAIT_LAST, PROVEN)

    def step(self, response: bytes) -> bytes | None:
        """The challenge that answers a response; None once the password is proven.

        Raises MalformedFrame (502) for another layout, ScramRefused for all else.
        """
        if self.state == WAIT_FIRST:
            return self._first(response) if response else b""
        if self.state == WAIT_FINAL:
            return self._final(response)
        assert self.state == WAIT_LAST
        if response:
            raise _malformed("last response")
        self.state = PROVEN
        return None

    def _first(self, response: bytes) -> bytes:
        """RFC 5802 section 7: ``cbind-flag,[a=authzid],n=name,r=nonce[,extensions]``."""
        what = "client-first-message"
        flag, _, rest = _text(response, what).partition(",")
        authzid, comma, bare = rest.partition(",")
        if flag.startswith("p="):
            raise ScramRefused("channel-binding-not-supported")
        if flag not in ("n", "y") or not comma:
            raise _malformed(what)
        if bare.startswith("m="):
            raise ScramRefused("extensions-not-supported")
        name, nonce = _two_values(bare, "n", "r", what)
        if _NONCE.fullmatch(nonce) is None:
            raise _malformed(what)
        self.name = _prepared_name(name)
        # RFC 4422 section 3.4.1: an empty one means the user; acting as another user is not offered
        if authzid and _prepared_name(_value(authzid, "a", what)) != self.name:
            raise ScramRefused("other-error")
        salt, iterations = self._key_ring.scram_salt(self.name)
        self._gs2_header = f"{flag},{authzid},".encode()
        self._client_first_bare = bare.encode()
        self._nonce = nonce + self._server_nonce
        self._server_first = f"r={self._nonce},s={_encoded(salt)},i={iterations}".encode("ascii")
        self.state = WAIT_FINAL
        return self._server_first

    def _final(self, response: bytes) -> bytes:
        """RFC 5802 section 7: ``c=channel binding,r=nonce[,extensions],p=proof``."""
        what = "client-final-message"
        without_proof, comma, encoded_proof = _text(response, what).rpartition(",p=")
        if not comma:
            raise _malformed(what)
        encoded_binding, nonce = _two_values(without_proof, "c", "r", what)
        binding, proof = _decoded(encoded_binding, what), _decoded(encoded_proof, what)
        if binding != self._gs2_header:
            raise ScramRefused("channel-bindings-dont-match")
        if nonce != self._nonce:
            raise ScramRefused("other-error")
        if len(proof) != _DIGEST_OCTETS:
            raise ScramRefused("invalid-proof")
        keys = self._key_ring.scram_keys(self.name)
        auth_message = b",".join(
            (self._client_first_bare, self._server_first, without_proof.encode())
        )
        signature = hmac.digest(keys.stored_key, auth_message, _DIGEST)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), keys.stored_key):
            raise ScramRefused("invalid-proof")
        self.state = WAIT_LAST
        verifier = hmac.digest(keys.server_key, auth_message, _DIGEST)
        return f"v={_encoded(verifier)}".encode("ascii")

    def __repr__(self) -> str:
        return f"<ScramExchange of {self.name!r}, {self.state}>"


def _derive(prepared: bytes, salt: bytes, iterations: int) -> ScramKeys:
    salted = hashlib.pbkdf2_hmac(_DIGEST, prepared, salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", _DIGEST)
    server_key = hmac.digest(salted, b"Server Key", _DIGEST)
    return ScramKeys(salt, iterations, hashlib.sha256(client_key).digest(), server_key)


def _prepared_password(password: str) -> bytes:
    try:
        return saslprep(password).encode()
    except ValueError as problem:
        raise ValueError(f"password cannot be used with SCRAM: {problem}") from None


def _prepared_name(saslname: str) -> str:
    """A user name as it is compared.

    RFC 5802 section 5.1: a comma is =2C and an equals sign =3D; any other =, a name that SASLprep
    prohibits, and one that is empty after SASLprep are refused.
    """
    if any(match[1] is None for match in _ESCAPE.finditer(saslname)):
        raise ScramRefused("invalid-username-encoding")
    try:
        name = saslprep(saslname.replace("=2C", ",").replace("=3D", "="), is_query=True)
    except ValueError:
        raise ScramRefused("invalid-username-encoding") from None
    if not name:
        raise ScramRefused("invalid-username-encoding")
    return name


def _two_values(attributes: str, first: str, second: str, what: str) -> tuple[str, str]:
    """The values of a message's two attributes; further ones may follow and are ignored."""
    parts = attributes.split(",")
    if len(parts) < 2 or not all(map(_EXTENSION.fullmatch, parts[2:])):
        raise _malformed(what)
    return _value(parts[0], first, what), _value(parts[1], second, what)


def _value(attribute: str, letter: str, what: str) -> str:
    if not attribute.startswith(f"{letter}="):
        raise _malformed(what)
    return attribute[2:]


def _text(response: bytes, what: str) -> str:
    try:
        return response.decode()
    except UnicodeDecodeError:
        raise _malformed(what) from None


def _malformed(what: str) -> MalformedFrame:
    return MalformedFrame(f"{MECHANISM} {what} invalid")


def _encoded(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")


def _decoded(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # binascii.Error too, and what non-ASCII text raises
        raise _malformed(what) from None


def _name_digest(purpose: bytes, name: str) -> bytes:
    return hmac.digest(_SALT_SECRET, purpose + b"\0" + name.encode(), "sha512")
