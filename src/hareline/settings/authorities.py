"""Options of the authorities beside this broker: OAuth 2, an HTTP service, an LDAP directory.

Which of them are asked, and in which order, is ``auth.backends``. What an authority needs when it
is asked is checked by ``authority_problems``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr
from pydantic_core import InitErrorDetails, PydanticCustomError

from hareline.settings.access import Permission
from hareline.settings.section import Section, option, problem, value_in
from hareline.settings.values import InWords

Algorithm = Literal[
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "HS256",
    "HS384",
    "HS512",
]
_ALIAS_FORM: Final = "an alias, ' = ', and the scopes that it stands for, with spaces between them"


def _url(value: str, schemes: tuple[str, ...], what: str) -> str:
    if not value:
        return value
    error = PydanticCustomError("url", "Input should be {what}", {"what": what})
    try:
        parts = urlsplit(value)
        is_good = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise error from None
    if not is_good:
        raise error
    if parts.username or parts.password:
        raise PydanticCustomError("url_secret", "Input should have no user and password in it")
    return value


def _web_url(value: str) -> str:
    return _url(value, ("http", "https"), "a URL that begins with https:// or http://")


def _ldap_url(value: str) -> str:
    if not value:
        raise PydanticCustomError("url", "Input should not be empty")
    return _url(value, ("ldap", "ldaps"), "a URL that begins with ldaps:// or ldap://")


def _alias(value: str) -> str:
    name, equals, scopes = value.partition(" = ")
    if not (name.strip() and equals and scopes.split()):
        raise PydanticCustomError("alias", "Input should be {form}", {"form": _ALIAS_FORM})
    return value


WebUrl = Annotated[str, AfterValidator(_web_url), InWords("URL, or empty")]
LdapUrls = Annotated[tuple[Annotated[str, AfterValidator(_ldap_url)], ...], InWords("list of URLs")]
Aliases = Annotated[tuple[Annotated[str, AfterValidator(_alias)], ...], InWords("list of text")]


class OAuth(Section):
    """Logins by a token of OAuth 2, where `auth.backends` has `oauth2`.

    The keys come from `key_file`, from `jwks_url`, or from where the configuration of `issuer` says
    that they are.
    """

    resource_server_id: str = option(
        "", "What tokens call this broker: one of their audience (`aud`) has to be this."
    )
    scope_prefix: str = option(
        "{resource_server_id}.",
        "What scopes for this broker begin with. `{resource_server_id}` stands for that option. "
        "Empty: all scopes are for this broker.",
    )
    verify_aud: bool = option(True, "Whether the audience of a token is checked.")
    issuer: WebUrl = option(
        "",
        "Who has to have issued a token (`iss`). Without `key_file` and `jwks_url`, its keys are "
        "those that `/.well-known/openid-configuration` below this URL leads to.",
    )
    jwks_url: WebUrl = option("", "Where the keys are, as a JSON Web Key Set.")
    key_file: str = option(
        "",
        "A file with the keys: a JSON Web Key Set, or one public key or certificate in PEM. A "
        "leading ~ is the home directory.",
    )
    key_refresh_s: float = option(
        300.0,
        "How often the keys are read again. A token that names an unknown key has them read at "
        "once, every ten seconds at most.",
        ge=10,
        le=86_400,
    )
    algorithms: tuple[Algorithm, ...] = option(
        (),
        "Algorithms of signatures that are accepted. Empty: all but HS256, HS384 and HS512, which "
        "need a secret that the issuer and this broker share.",
    )
    preferred_username_claims: tuple[str, ...] = option(
        (), "Claims that may name the user, the first that is there counts; then sub, client_id."
    )
    extra_scopes_source: tuple[str, ...] = option(
        (),
        "Claims that have scopes too, such as `roles`, or `resource_access.broker.roles` for one "
        "within others.",
    )
    scope_aliases: Aliases = option(
        (),
        "Scopes that stand for others, such as "
        "`developer = rabbitmq.read:*/* rabbitmq.tag:management`.",
    )
    leeway_s: int = option(
        0, "How far the clock of the issuer may be from this machine's.", ge=0, le=300
    )
    timeout_s: float = option(10.0, "How long the server of the keys may take.", gt=0, le=60)
    ca_file: str = option(
        "", "Certificates, in PEM, that the server of the keys is verified by; empty: the system's."
    )


class HttpAuth(Section):
    """Logins and rights that an HTTP service decides, where `auth.backends` has `http`."""

    user_url: WebUrl = option("", "Asked whether a user may log in.")
    vhost_url: WebUrl = option("", "Asked whether a user may open a virtual host.")
    resource_url: WebUrl = option(
        "", "Asked whether a user may configure, write or read a queue or an exchange."
    )
    topic_url: WebUrl = option(
        "", "Asked whether a user may use a routing key with a topic exchange. Empty: none may be."
    )
    method: Literal["post", "get"] = option(
        "post", "How it is asked. `get` puts passwords into URLs, which servers tend to log."
    )
    rights: Literal["service", "internal"] = option(
        "service",
        "Who decides what a user may do: the service, or this broker, by the permissions and tags "
        "of its own user of that name.",
    )
    cache_s: float = option(
        15.0, "How long an answer that allows something is remembered.", ge=0, le=3600
    )
    cache_refusals: bool = option(False, "Whether one that denies something is remembered as long.")
    timeout_s: float = option(5.0, "How long an answer may take; then it is no.", gt=0, le=60)
    max_connections: int = option(20, "Connections to the service that may be open.", ge=1, le=1000)
    ca_file: str = option(
        "", "Certificates, in PEM, that the service is verified by; empty: the system's."
    )


class Ldap(Section):
    """Logins that an LDAP directory decides, where `auth.backends` has `ldap`.

    What users may do is said by [[ldap_groups]], or by their namesakes in this broker.
    """

    servers: LdapUrls = option(
        (), "URLs of the directory, such as `ldaps://ldap.example`; asked in this order."
    )
    start_tls: bool = option(False, "Whether TLS is begun on an `ldap:` connection.")
    ca_file: str = option(
        "", "Certificates, in PEM, that the directory is verified by; empty: the system's."
    )
    user_dn_pattern: str = option(
        "${username}", "Distinguished name of a user; `${username}` stands for the name."
    )
    lookup_attribute: str = option(
        "",
        "Attribute by which the entry of a user is searched for, where its name does not follow "
        "from a pattern, such as `uid`. Empty: there is no search.",
    )
    lookup_base: str = option("", "Where the search for a user begins.")
    lookup_bind_dn: str = option(
        "", "Who searches, for users and for groups. Empty: nobody, or the user itself."
    )
    lookup_bind_password: SecretStr = option("", "Password of who searches.")
    group_base: str = option("", "Where groups are searched for. Empty: groups do not matter.")
    group_attribute: str = option("member", "Attribute of a group that has its members.")
    rights: Literal["groups", "internal"] = option(
        "groups",
        "Who decides what a user may do: the groups, or this broker, by the permissions and tags "
        "of its own user of that name.",
    )
    cache_s: float = option(15.0, "How long a login that was right is remembered.", ge=0, le=3600)
    timeout_s: float = option(5.0, "How long each answer of a server may take.", gt=0, le=60)
    threads: int = option(4, "Logins that are asked about at the same time.", ge=1, le=64)


class LdapGroup(Section):
    """Permissions of the members of a group; a member of several gets what any of them permits."""

    dn: str = option(..., "Distinguished name of the group.")
    tags: tuple[str, ...] = option((), "Roles, as those of a user.")
    permissions: tuple[Permission, ...] = option((), "Rights, one table per virtual host.")


def authority_problems(
    backends: object, oauth: object, http: object, ldap: object
) -> Iterator[InitErrorDetails]:
    """Options that are missing for the named backends."""
    named = backends if isinstance(backends, list | tuple) else ()
    if "oauth2" in named:
        if not value_in(OAuth, oauth, "resource_server_id"):
            if value_in(OAuth, oauth, "verify_aud") is True:
                yield _missing("oauth", "resource_server_id", "oauth2")
            elif "{resource_server_id}" in str(value_in(OAuth, oauth, "scope_prefix")):
                yield _missing("oauth", "scope_prefix", "oauth2")
        if not any(value_in(OAuth, oauth, key) for key in ("key_file", "jwks_url", "issuer")):
            yield _missing("oauth", "jwks_url", "oauth2")
    if "http" in named:
        keys = ["user_url"]
        if value_in(HttpAuth, http, "rights") == "service":
            keys += ["vhost_url", "resource_url"]
        for key in keys:
            if not value_in(HttpAuth, http, key):
                yield _missing("http_auth", key, "http")
    if "ldap" in named:
        if not value_in(Ldap, ldap, "servers"):
            yield _missing("ldap", "servers", "ldap")
        if value_in(Ldap, ldap, "lookup_attribute") and not value_in(Ldap, ldap, "lookup_base"):
            yield _missing("ldap", "lookup_base", "ldap")


def _missing(table: str, key: str, backend: str) -> InitErrorDetails:
    message = "'{backend}' needs {option}"
    return problem(("auth", "backends"), message, backend=backend, option=f"{table}.{key}")
