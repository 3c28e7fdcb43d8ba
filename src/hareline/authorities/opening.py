"""Backends for logins, made from the settings, and the tasks that run for them.

``server`` opens the ``Authorities`` before clients can connect, and closes them at the end. Only
authorities that ``auth.backends`` names have their libraries imported, or any task, thread or
connection.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from hareline.auth.backends import AuthBackend, Workers
from hareline.auth.permissions import Permissions
from hareline.auth.signing_keys import ASYMMETRIC, load_libraries
from hareline.auth.tokens import TokenRules
from hareline.auth.users import UserRegistry
from hareline.authorities.http_client import HttpClient
from hareline.errors import ConfigurationError
from hareline.events import Report
from hareline.settings import HttpAuth, Ldap, OAuth, Settings


class Authorities:
    """``backends``: those that the settings name, in their order."""

    def __init__(
        self,
        settings: Settings,
        users: UserRegistry,
        internal: AuthBackend,
        report: Report,
        workers: Callable[[int, str], Workers],
    ) -> None:
        """``internal``: the backend of the broker's own users. ``workers``: makes so many threads,
        for what the text says; who makes them stops them.

        Needs a running event loop. Raises ConfigurationError for what cannot be used.
        """
        self._settings = settings
        self._users = users
        self._report = report
        self._workers = workers
        self._clients: list[HttpClient] = []
        self._closing: list[Callable[[], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        makers: dict[str, Callable[[], AuthBackend]] = {
            "internal": lambda: internal,
            "oauth2": lambda: self._oauth(settings.oauth),
            "http": lambda: self._http(settings.http_auth),
            "ldap": lambda: self._ldap(settings.ldap),
        }
        try:
            self.backends = [makers[name]() for name in settings.auth.backends]
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        for stop in self._closing:
            stop()

    async def close(self) -> None:
        """End all that runs for the backends."""
        self._stop()
        for task in self._tasks:
            task.cancel()
        for client in self._clients:
            await client.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _client(self, option: str, ca_file: str, timeout_s: float, connections: int) -> HttpClient:
        path = Path(ca_file).expanduser() if ca_file else None
        try:
            client = HttpClient(timeout_s, path, connections)
        except (OSError, ValueError) as problem:
            raise self._refused(option, problem) from None
        self._clients.append(client)
        return client

    def _refused(self, option: str, problem: Exception) -> ConfigurationError:
        text = getattr(problem, "strerror", None) or str(problem)
        return ConfigurationError([f"{self._settings.came_from}: {option}: {text}"])

    def _oauth(self, given: OAuth) -> AuthBackend:
        from hareline.authorities.oauth import OAuthBackend, TokenKeys

        load_libraries()
        client = None
        if not given.key_file:
            client = self._client("oauth.ca_file", given.ca_file, given.timeout_s, 2)
        keys = TokenKeys(
            client,
            self._report,
            time.monotonic,
            file=Path(given.key_file).expanduser() if given.key_file else None,
            jwks_url=given.jwks_url,
            issuer=given.issuer,
            refresh_s=given.key_refresh_s,
        )
        keys.start()
        self._closing.append(keys.stop)
        return OAuthBackend(keys, token_rules(given), lambda: int(time.time() * 1000))

    def _http(self, given: HttpAuth) -> AuthBackend:
        from hareline.authorities.http import HttpBackend, HttpService, HttpUrls, service_decisions

        urls = HttpUrls(given.user_url, given.vhost_url, given.resource_url, given.topic_url)
        service = HttpService(
            self._client(
                "http_auth.ca_file", given.ca_file, given.timeout_s, given.max_connections
            ),
            urls,
            service_decisions(time.monotonic, given.cache_s, keeps_refusals=given.cache_refusals),
            self._report,
            self._spawn,
            is_post=given.method == "post",
        )
        return HttpBackend(service, self._users if given.rights == "internal" else None)

    def _ldap(self, given: Ldap) -> AuthBackend:
        from hareline.authorities.directory import DirectoryRules
        from hareline.authorities.ldap import GroupRights, LdapBackend, login_decisions

        ca_file = str(Path(given.ca_file).expanduser()) if given.ca_file else None
        if ca_file is not None and not Path(ca_file).is_file():
            raise self._refused("ldap.ca_file", FileNotFoundError(f"there is no file {ca_file}"))
        rules = DirectoryRules(
            servers=given.servers,
            user_dn_pattern=given.user_dn_pattern,
            lookup_attribute=given.lookup_attribute,
            lookup_base=given.lookup_base,
            lookup_bind_dn=given.lookup_bind_dn,
            lookup_bind_password=given.lookup_bind_password.get_secret_value(),
            group_base=given.group_base,
            group_attribute=given.group_attribute,
            start_tls=given.start_tls,
            ca_file=ca_file,
            timeout_s=given.timeout_s,
        )
        groups = [
            GroupRights(
                group.dn,
                frozenset(group.tags),
                {
                    each.vhost: Permissions(each.configure, each.write, each.read)
                    for each in group.permissions
                },
            )
            for group in self._settings.ldap_groups
        ]
        try:
            return LdapBackend(
                rules,
                groups,
                login_decisions(time.monotonic, given.cache_s),
                self._report,
                self._workers(given.threads, "a question to the directory"),
                self._users if given.rights == "internal" else None,
            )
        except ValueError as problem:
            raise self._refused("ldap_groups", problem) from None


def token_rules(given: OAuth) -> TokenRules:
    """Requirements of a token, by the settings."""
    aliases: dict[str, tuple[str, ...]] = {}
    for text in given.scope_aliases:
        name, _, scopes = text.partition(" = ")
        aliases[name.strip()] = (*aliases.get(name.strip(), ()), *scopes.split())
    return TokenRules(
        resource_server_id=given.resource_server_id,
        scope_prefix=given.scope_prefix.replace("{resource_server_id}", given.resource_server_id),
        verify_aud=given.verify_aud,
        issuer=given.issuer,
        username_claims=given.preferred_username_claims,
        extra_scopes_source=given.extra_scopes_source,
        aliases=aliases,
        algorithms=frozenset(given.algorithms) or ASYMMETRIC,
        leeway_s=given.leeway_s,
    )
