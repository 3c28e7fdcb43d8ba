"""Questions to an LDAP directory: the check of a password, the user's own name, and its groups.

``authorities.ldap`` calls ``look_up`` in threads, since ldap3 blocks; each call binds, asks and
unbinds. The user gets the name that the directory has, whatever the spelling of the client. An
empty password, which LDAP takes for no login at all (RFC 4513, 5.1.2), is never sent.
"""

from __future__ import annotations

import math
import re
import ssl
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any, Final, NamedTuple

from hareline.auth.users import lowered
from hareline.authorities.http_client import AskingFailed

USERNAME: Final = "${username}"
_NAMED_FIRST: Final = re.compile(r"\s*([\w.-]+)\s*=\s*\$\{username\}\s*(?:[,+]|$)")
GROUPS_MAX: Final = 1000
_INVALID_CREDENTIALS: Final = 49
_NO_SUCH_OBJECT: Final = 32
_INSUFFICIENT_RIGHTS: Final = 50
_DENIED: Final = frozenset({_INVALID_CREDENTIALS, _NO_SUCH_OBJECT, 34, 48, 50, 53})


@dataclass(frozen=True, slots=True)
class DirectoryRules:
    """Servers and searches of a directory. The fields are the options of ``settings.ldap``.

    ``servers``: URLs, asked in order until one can be reached. ``lookup_bind_dn`` empty:
    anonymous.
    """

    servers: tuple[str, ...]
    user_dn_pattern: str = USERNAME
    lookup_attribute: str = ""
    lookup_base: str = ""
    lookup_bind_dn: str = ""
    lookup_bind_password: str = field(default="", repr=False)
    group_base: str = ""
    group_attribute: str = "member"
    start_tls: bool = False
    ca_file: str | None = None
    timeout_s: float = 5.0


class Found(NamedTuple):
    """A user. ``groups``: as ``same_dn`` has them."""

    name: str
    groups: frozenset[str]


class _Entry(NamedTuple):
    """An entry, with its values of one attribute."""

    dn: str
    values: list[str]


def look_up(rules: DirectoryRules, name: str, password: str) -> Found | None:
    """The user of a name; None if the directory does not let it in.

    Blocks, up to a few times ``rules.timeout_s``. Raises AskingFailed if no server answers.
    """
    if not lowered(name) or not password:
        return None
    ldap3 = import_ldap3()
    problem = ""
    for url in rules.servers:
        try:
            return _ask(ldap3, rules, url, name, password)
        except ldap3.core.exceptions.LDAPException as error:
            problem = f"{url} cannot be asked: {str(error) or type(error).__name__}"
        except (OSError, ssl.SSLError) as error:
            problem = f"{url} cannot be asked: {error}"
    raise AskingFailed(problem)


def import_ldap3() -> ModuleType:
    """ldap3, which uses names of pyasn1 that are deprecated. Raises ImportError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import ldap3
        import ldap3.core.exceptions
        import ldap3.utils.conv
        import ldap3.utils.dn
    return ldap3


def same_dn(text: str) -> str:
    """A distinguished name in a form that is equal for equal ones. Raises ValueError."""
    ldap3 = import_ldap3()
    try:
        parts = ldap3.utils.dn.parse_dn(text, strip=True)
    except ldap3.core.exceptions.LDAPException:
        raise ValueError(f"'{text}' is not a distinguished name") from None
    return "".join(f"{kind.lower()}={value.lower()}{end}" for kind, value, end in parts)


def _ask(
    ldap3: ModuleType, rules: DirectoryRules, url: str, name: str, password: str
) -> Found | None:
    server = _server(ldap3, rules, url)
    with _connected(ldap3, rules, server, rules.lookup_bind_dn, rules.lookup_bind_password) as own:
        dn = rules.user_dn_pattern.replace(USERNAME, ldap3.utils.dn.escape_rdn(name))
        entry = None
        if rules.lookup_attribute:
            _bind(ldap3, own, rules.lookup_bind_dn)
            entry = _find_user(ldap3, own, rules, name)
            if entry is None:
                return None
            dn = entry.dn
        with _connected(ldap3, rules, server, dn, password) as user:
            if not _is_bound(ldap3, user):
                return None
            if entry is None:
                entry = _read_user(ldap3, user, rules, dn)
            own_name = _own_name(ldap3, entry, name)
            if not rules.group_base:
                return Found(own_name, frozenset())
            if not rules.lookup_bind_dn:
                return Found(own_name, _groups(ldap3, user, rules, dn))
        if not rules.lookup_attribute:
            _bind(ldap3, own, rules.lookup_bind_dn)
        return Found(own_name, _groups(ldap3, own, rules, dn))


def _server(ldap3: ModuleType, rules: DirectoryRules, url: str) -> Any:
    tls = ldap3.Tls()
    # ldap3 compares host names by itself, with what Python has deprecated; OpenSSL does it here
    tls.wrap_socket = partial(_wrap, ssl.create_default_context(cafile=rules.ca_file))
    return ldap3.Server(url, tls=tls, get_info=ldap3.NONE, connect_timeout=rules.timeout_s)


def _wrap(context: ssl.SSLContext, connection: Any, do_handshake: bool = False) -> None:
    """Speak TLS on a connection from now on, with a server whose certificate has its name."""
    connection.socket = context.wrap_socket(
        connection.socket,
        server_hostname=connection.server.host,
        do_handshake_on_connect=do_handshake,
    )


def _connected(
    ldap3: ModuleType, rules: DirectoryRules, server: Any, dn: str, password: str
) -> Any:
    """A connection that unbinds at the end of the block; ``_bind`` and ``_is_bound`` open it."""
    return _Session(
        ldap3.Connection(
            server,
            dn or None,
            password or None,
            client_strategy=ldap3.SYNC,
            receive_timeout=math.ceil(rules.timeout_s),  # whole seconds
            auto_referrals=False,
            raise_exceptions=False,
        ),
        has_tls_to_start=rules.start_tls and not server.ssl,
    )


class _Session:
    """One connection to a server, opened when it is first needed."""

    def __init__(self, connection: Any, *, has_tls_to_start: bool) -> None:
        self.connection = connection
        self._has_tls_to_start = has_tls_to_start

    def bind(self) -> bool:
        """Open the connection and bind; False if the directory refuses."""
        self.connection.open()
        if self._has_tls_to_start:
            self.connection.start_tls()
        return bool(self.connection.bind())

    def __enter__(self) -> _Session:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.connection.closed:
            self.connection.unbind()
        elif self.connection.socket is not None:  # ldap3 leaves it when it cannot connect
            self.connection.socket.close()


def _bind(ldap3: ModuleType, session: _Session, dn: str) -> None:
    """Bind as the user for searches. Raises LDAPException if that is refused."""
    if not session.bind():
        result = session.connection.result
        who = dn or "an anonymous client"
        raise ldap3.core.exceptions.LDAPBindError(
            f"{who} may not search: {result.get('description')}"
        )


def _is_bound(ldap3: ModuleType, session: _Session) -> bool:
    """True if the directory takes the password. Raises LDAPException if it cannot say."""
    if session.bind():
        return True
    result = session.connection.result
    if result.get("result") in _DENIED:
        return False
    raise ldap3.core.exceptions.LDAPBindError(str(result.get("description")))


def _find_user(
    ldap3: ModuleType, session: _Session, rules: DirectoryRules, name: str
) -> _Entry | None:
    """The entry of a user; None unless there is exactly one."""
    value = rules.user_dn_pattern.replace(USERNAME, name)
    value = ldap3.utils.conv.escape_filter_chars(value)
    attribute = rules.lookup_attribute
    wanted = attribute if rules.user_dn_pattern == USERNAME else "1.1"
    found = _search(ldap3, session, rules.lookup_base, f"({attribute}={value})", 2, wanted)
    return found[0] if len(found) == 1 else None


def _read_user(
    ldap3: ModuleType, session: _Session, rules: DirectoryRules, dn: str
) -> _Entry | None:
    """The entry of a user that follows from a pattern; None if it does not show the name."""
    attribute = _NAMED_FIRST.match(rules.user_dn_pattern)
    if attribute is None:
        return None
    wanted = attribute[1]
    found = _search(ldap3, session, dn, f"({wanted}=*)", 1, wanted, scope="BASE")
    return found[0] if found else None


def _own_name(ldap3: ModuleType, entry: _Entry | None, name: str) -> str:
    """The directory's spelling of a name. Raises LDAPException if that cannot be told.

    Of several values only the one that was given counts: another may be of the user's own making.
    """
    if entry is None or not entry.values:
        return lowered(name)
    values = entry.values
    if len(values) > 1:
        equal = [each for each in values if lowered(each) == lowered(name)]
        values = [name] if name in values else equal
    if len(values) == 1:
        return values[0]
    raise ldap3.core.exceptions.LDAPOperationResult(f"{entry.dn} has other names than '{name}'")


def _groups(ldap3: ModuleType, session: _Session, rules: DirectoryRules, dn: str) -> frozenset[str]:
    value = ldap3.utils.conv.escape_filter_chars(dn)
    found = _search(
        ldap3, session, rules.group_base, f"({rules.group_attribute}={value})", GROUPS_MAX
    )
    return frozenset(same_dn(each.dn) for each in found)


def _search(
    ldap3: ModuleType,
    session: _Session,
    base: str,
    filter_text: str,
    limit: int,
    attribute: str = "1.1",
    *,
    scope: str = "SUBTREE",
) -> list[_Entry]:
    """Search, and return the entries. Raises LDAPException if that fails.

    ``attribute`` "1.1": none. An entry that may not be read is not there.
    """
    connection = session.connection
    connection.search(
        base, filter_text, search_scope=scope, attributes=[attribute], size_limit=limit
    )
    result = connection.result
    code = result.get("result")
    if code == _INSUFFICIENT_RIGHTS and scope == "BASE":
        return []
    if code not in (0, 4, _NO_SUCH_OBJECT):  # 4: more than the limit
        raise ldap3.core.exceptions.LDAPOperationResult(str(result.get("description")))
    return [
        _Entry(each["dn"], _values(each["raw_attributes"], attribute))
        for each in connection.response or ()
        if each["type"] == "searchResEntry"
    ]


def _values(raw: Mapping[str, list[bytes]], attribute: str) -> list[str]:
    """The values of an attribute, which a server may write in another case, that are text."""
    texts = (
        value.decode("utf-8", "replace")
        for name, values in raw.items()
        if name.lower() == attribute.lower()
        for value in values
    )
    return [text for text in texts if text]
