"""JSON Web Tokens read to a user: signature, times and audience are checked, scopes give rights.

``authorities.oauth`` calls ``read_token``. Rules and names of options are those of RabbitMQ's OAuth
2 plugin. Nothing of a token is believed before its signature was checked, and no error text repeats
any of it but the names of claims, keys and algorithms.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hareline.auth.scopes import SCOPES_MAX, ScopeGrants, tags_of
from hareline.auth.signing_keys import SigningKey, SigningKeys
from hareline.auth.users import User
from hareline.wire.constants import SHORTSTR_MAX_OCTETS

#: Where the name of the user is looked for, behind what is configured (RabbitMQ).
USERNAME_CLAIMS: Final = ("sub", "client_id")
UNKNOWN_NAME: Final = "unknown"
BACKEND: Final = "oauth2"

#: Where a requesting party token (UMA, Keycloak) has its scopes.
_PARTY_SCOPES: Final = "authorization.permissions.scopes"
_QUOTED_MAX: Final = 64  # characters of names out of a token, in an error text


class TokenRefused(Exception):
    """A token that is refused; the text is for the log only."""

    #: True if the token may be made up.
    is_guess = True


class ClaimRefused(TokenRefused):
    """A token whose signature is right: it is too old, say, or for another server."""

    is_guess = False


class KeyUnknown(TokenRefused):
    """The token names a key that is not known; it may be a new one."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """Requirements of a token. The fields are the options of ``settings.oauth``.

    ``aliases``: scope -> the scopes that it stands for. ``issuer``: empty: any.
    ``username_claims``: where the user's name is looked for first.
    """

    resource_server_id: str
    scope_prefix: str
    verify_aud: bool = True
    issuer: str = ""
    username_claims: tuple[str, ...] = ()
    extra_scopes_source: tuple[str, ...] = ()
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    algorithms: frozenset[str] = frozenset({"RS256", "ES256"})
    leeway_s: int = 0


def looks_like_a_token(text: str) -> bool:
    """True if a password can be a JSON Web Token: an object in base64, and two more parts."""
    return text.startswith(("ew", "ex", "ey", "ez")) and text.count(".") == 2


def read_token(token: str, keys: SigningKeys, rules: TokenRules, now_ms: int) -> User:
    """The user of a token. Raises TokenRefused, and KeyUnknown if a new key might help."""
    claims = _verified(token, keys, rules.algorithms)
    expires_ms = _check_times(claims, rules.leeway_s * 1000, now_ms)
    _check_origin(claims, rules)
    scopes = scopes_of(claims, rules)
    texts = {name: value for name, value in claims.items() if _is_text(value)}
    return User(
        _name_of(texts, rules),
        "",
        tags=tags_of(scopes),
        grants=ScopeGrants(scopes, texts),
        expires_ms=expires_ms,
        backend=BACKEND,
    )


def _name_of(texts: Mapping[str, str], rules: TokenRules) -> str:
    """The first of the claims that may hold the user's name."""
    claims = (*rules.username_claims, *USERNAME_CLAIMS)
    name = next((texts[claim] for claim in claims if texts.get(claim)), UNKNOWN_NAME)
    if len(name.encode()) > SHORTSTR_MAX_OCTETS:
        raise ClaimRefused(f"its user name has more than {SHORTSTR_MAX_OCTETS} octets")
    return name


def _is_text(value: object) -> bool:
    """True for a text that UTF-8 can hold; JSON can bring others."""
    try:
        return isinstance(value, str) and bool(value.encode())
    except UnicodeEncodeError:
        return False


def _verified(token: str, keys: SigningKeys, algorithms: frozenset[str]) -> dict[str, Any]:
    """The claims of a token whose signature is right."""
    import jwt

    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise TokenRefused("it is no JSON Web Token") from None
    key = _key_for(header, keys)
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in algorithms & key.algorithms:
        raise TokenRefused(f"algorithm {_quoted(algorithm)} is not allowed for its key")
    try:
        payload = jwt.PyJWS().decode(token, key.key, algorithms=[algorithm])
    except jwt.InvalidSignatureError:
        raise TokenRefused("its signature is wrong") from None
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError, binascii.Error) as problem:
        raise TokenRefused(f"it cannot be read ({type(problem).__name__})") from None
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise ClaimRefused("it holds no JSON object")
    return claims


def _key_for(header: Mapping[str, Any], keys: SigningKeys) -> SigningKey:
    key_id = header.get("kid", "")
    if not isinstance(key_id, str):
        raise TokenRefused("the name of its key (kid) is not text")
    key = keys.find(key_id)
    if key is None:
        named = f"names the key {_quoted(key_id)}, which is not known"
        raise KeyUnknown(
            f"it {named}" if key_id else "it names no key (kid), and there are several"
        )
    return key


def _check_times(claims: Mapping[str, Any], leeway_ms: int, now_ms: int) -> int:
    """Return the expiry of the token, in epoch milliseconds. Raises ClaimRefused."""
    expires_ms = _instant_ms(claims, "exp")
    if expires_ms is None:
        raise ClaimRefused("it has no exp claim")
    if expires_ms + leeway_ms <= now_ms:
        raise ClaimRefused(f"it has expired at timestamp {expires_ms // 1000}")
    begins_ms = _instant_ms(claims, "nbf")
    if begins_ms is not None and begins_ms - leeway_ms > now_ms:
        raise ClaimRefused(f"it is not valid before timestamp {begins_ms // 1000}")
    return expires_ms + leeway_ms


def _instant_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise ClaimRefused(f"its {name} claim is not a time")
    return int(value) * 1000


def _check_origin(claims: Mapping[str, Any], rules: TokenRules) -> None:
    """Raise ClaimRefused unless the token is for this broker, and of the right issuer."""
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise ClaimRefused("its iss claim is not the issuer of the settings")
    if not rules.verify_aud:
        return
    audience = claims.get("aud")
    if isinstance(audience, str):
        audience = audience.split()
    if not isinstance(audience, list):
        raise ClaimRefused("it has no aud claim")
    if rules.resource_server_id not in audience:
        raise ClaimRefused(f"its aud claim is without '{rules.resource_server_id}'")


# ------------------------------------------------------------------------------------- scopes


def scopes_of(claims: Mapping[str, Any], rules: TokenRules) -> list[str]:
    """The scopes that are for this broker, without the prefix. Raises ClaimRefused for too many."""
    found = _texts(claims.get("scope"), rules)
    for path in (_PARTY_SCOPES, *rules.extra_scopes_source):
        for value in _values_at(claims, path.split(".")):
            found += _texts(value, rules)
    for scope in list(found):
        found += rules.aliases.get(scope, ())
    prefix = rules.scope_prefix
    scopes = {scope[len(prefix) :] for scope in found if scope.startswith(prefix)}
    if len(scopes) > SCOPES_MAX:
        raise ClaimRefused(f"it has {len(scopes)} scopes, at most {SCOPES_MAX} are allowed")
    return sorted(scopes)


def _texts(value: object, rules: TokenRules) -> list[str]:
    """The scopes in the value of a claim: a list, a text with spaces, or an object that has either
    under the name of the resource server, without the prefix."""
    if isinstance(value, str):
        return value.split() if _is_text(value) else []
    if isinstance(value, list):
        return [each for each in value if _is_text(each)]
    if isinstance(value, Mapping):
        own = value.get(rules.resource_server_id)
        if not isinstance(own, Mapping):
            return [f"{rules.resource_server_id}.{each}" for each in _texts(own, rules)]
    return []


def _values_at(value: object, path: list[str]) -> Iterator[object]:
    """Values at a path of keys; through lists on the way as well."""
    if isinstance(value, list) and path:
        for each in value:
            yield from _values_at(each, path)
    elif not path:
        yield value
    elif isinstance(value, Mapping) and path[0] in value:
        yield from _values_at(value[path[0]], path[1:])


def _quoted(value: object) -> str:
    """A name out of a token, for an error text."""
    return json.dumps(str(value)[:_QUOTED_MAX])
