"""Logins that an LDAP directory decides; its groups give tags and permissions.

``auth.backends`` asks it. The directory is asked in threads, a few at a time, and what it said of a
login is remembered for some seconds. Users either have the rights of their groups, or those that
this broker gives to the user of their name.

Invariant: at most ``WAITING_MAX`` logins wait for a thread; a directory that is slow costs no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from hareline import events
from hareline.auth.backends import Answer, AuthBackend, Credentials, Done, Refusal
from hareline.auth.peer import Peer
from hareline.auth.permissions import Permissions
from hareline.auth.users import User, UserRegistry
from hareline.authorities.decisions import Decisions, LoginQuestions
from hareline.authorities.directory import DirectoryRules, look_up, same_dn
from hareline.authorities.http_client import AskingFailed
from hareline.events import Report

BACKEND: Final = "ldap"
WAITING_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class GroupRights:
    """What the members of a group get. ``permissions``: by virtual host."""

    dn: str
    tags: frozenset[str] = frozenset()
    permissions: Mapping[str, Permissions] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Reply:
    """``groups`` None: the directory has refused the login, or could not be asked (``reason``)."""

    groups: frozenset[str] | None
    reason: str = ""


def login_decisions(now_s: Callable[[], float], cache_s: float) -> Decisions[_Reply]:
    """What remembers for ``cache_s`` that a login was right."""
    return Decisions(now_s, lambda reply: 0.0 if reply.groups is None else cache_s)


class LdapBackend(AuthBackend):
    """``users``: those of this broker say what a user may do; None: ``groups`` do."""

    def __init__(
        self,
        rules: DirectoryRules,
        groups: Iterable[GroupRights],
        decisions: Decisions[_Reply],
        report: Report,
        users: UserRegistry | None = None,
        threads: int = 4,
    ) -> None:
        """Raises ImportError without ldap3, ValueError for the name of a group that is none."""
        self._rules = rules
        self._groups = {same_dn(group.dn): group for group in groups}
        self._decisions = decisions
        self._report = report
        self._users = users
        self._questions = LoginQuestions()
        self._threads = ThreadPoolExecutor(threads, "ldap")
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        return BACKEND

    def close(self) -> None:
        """Ask no more; a thread that waits for the directory is not waited for."""
        for task in self._tasks:
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def begin(self, credentials: Credentials, peer: Peer, done: Done) -> None:
        name, password = credentials
        if not name or not password:
            done(Refusal())
            return
        question = self._questions.question(name, password)
        reply = self._decisions.find(question)
        if reply is not None:
            done(self._answer(name, reply))
            return

        def on_reply() -> None:
            reply = self._decisions.find(question)
            assert reply is not None, "it was put when this was called"
            try:
                answer = self._answer(name, reply)
            except ValueError as problem:  # the patterns of several groups do not go together
                self._report(events.AUTHORITY_FAILED, user=name, problem=str(problem))
                answer = Refusal("ldap: its groups do not go together", is_guess=False)
            done(answer)

        if len(self._tasks) >= WAITING_MAX:
            waiting = f"ldap: {WAITING_MAX} logins wait for the directory already"
            done(Refusal(waiting, is_guess=False))
        elif self._decisions.wait(question, on_reply):
            task = asyncio.get_running_loop().create_task(self._ask(question, name, password))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _ask(self, question: tuple[str, str, str], name: str, password: str) -> None:
        reply = _Reply(None, "the directory was not asked")
        loop = asyncio.get_running_loop()
        try:
            reply = _Reply(
                await loop.run_in_executor(self._threads, look_up, self._rules, name, password)
            )
        except (AskingFailed, UnicodeEncodeError) as problem:
            text = "a name or password is not UTF-8"
            if isinstance(problem, AskingFailed):
                text = str(problem)
            self._report(events.AUTHORITY_FAILED, user=name, problem=text)
            reply = _Reply(None, "the directory gave no valid answer")
        finally:
            self._decisions.put(question, reply)

    def _answer(self, name: str, reply: _Reply) -> Answer:
        if reply.groups is None:
            return Refusal(f"ldap: {reply.reason or 'denied'}", is_guess=not reply.reason)
        if self._users is not None:
            user = self._users.lookup(name)
            return user or Refusal(f"ldap: no user '{name}' is known here, so it has no rights")
        groups = [self._groups[dn] for dn in sorted(reply.groups & self._groups.keys())]
        return User(
            name,
            "",
            tags=frozenset[str]().union(*(group.tags for group in groups)),
            permissions=_together(groups),
            backend=BACKEND,
        )


def _together(groups: Iterable[GroupRights]) -> dict[str, Permissions]:
    """The permissions of all groups: what one of them permits."""
    found: dict[str, list[Permissions]] = {}
    for group in groups:
        for vhost, permissions in group.permissions.items():
            found.setdefault(vhost, []).append(permissions)
    return {
        vhost: Permissions(
            _either(each.configure for each in given),
            _either(each.write for each in given),
            _either(each.read for each in given),
        )
        for vhost, given in found.items()
    }


def _either(patterns: Iterable[str]) -> str:
    """A pattern that is found where one of these is; the empty one permits nothing."""
    given = list(dict.fromkeys(filter(None, patterns)))
    return given[0] if len(given) == 1 else "|".join(f"(?:{pattern})" for pattern in given)
