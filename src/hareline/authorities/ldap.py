"""Logins that an LDAP directory decides; its groups give tags and permissions.

The directory is asked in threads, a few at a time and one origin after the other, and its answers
are remembered for some seconds. Users have the rights of their groups, or those that this broker
gives to the user of their name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from hareline import events
from hareline.auth.backends import Answer, AuthBackend, Credentials, Done, Refusal, Workers
from hareline.auth.peer import Peer
from hareline.auth.permissions import Permissions
from hareline.auth.users import User, UserRegistry
from hareline.authorities.decisions import Decisions, LoginQuestions, call_all
from hareline.authorities.directory import DirectoryRules, Found, look_up, same_dn
from hareline.authorities.http_client import AskingFailed
from hareline.events import Report

BACKEND: Final = "ldap"
_TOO_MANY: Final = "too many logins wait for the directory"
_NOT_ASKED: Final = "the directory was not asked in time"
_NO_ANSWER: Final = "the directory gave no valid answer"

Question = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class GroupRights:
    """Rights of the members of a group. ``permissions``: by virtual host."""

    dn: str
    tags: frozenset[str] = frozenset()
    permissions: Mapping[str, Permissions] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Reply:
    """``found`` None: the directory has refused the login, or could not be asked (``problem``)."""

    found: Found | None
    problem: str = ""


def login_decisions(now_s: Callable[[], float], cache_s: float) -> Decisions[_Reply]:
    """Memory of accepted logins for ``cache_s``."""
    return Decisions(now_s, lambda reply: 0.0 if reply.found is None else cache_s)


class LdapBackend(AuthBackend):
    """``users``: those of this broker say what a user may do; None: ``groups`` do."""

    def __init__(
        self,
        rules: DirectoryRules,
        groups: Iterable[GroupRights],
        decisions: Decisions[_Reply],
        report: Report,
        workers: Workers,
        users: UserRegistry | None = None,
    ) -> None:
        """Raises ImportError without ldap3, ValueError for the name of a group that is none."""
        self._rules = rules
        self._groups = {same_dn(group.dn): group for group in groups}
        self._decisions = decisions
        self._report = report
        self._users = users
        self._questions = LoginQuestions()
        self._workers = workers
        self._waiting: dict[Question, list[tuple[Peer, Done]]] = {}

    @property
    def name(self) -> str:
        return BACKEND

    def begin(self, credentials: Credentials, peer: Peer, done: Done) -> None:
        name, password = credentials
        if not name or not password:
            done(Refusal())
            return
        question = self._questions.question(name, password)
        reply = self._decisions.find(question)
        if reply is not None:
            done(self._answer(reply))
            return
        if question in self._waiting:
            self._waiting[question].append((peer, done))
            return
        waiting = self._waiting[question] = [(peer, done)]
        if not self._workers.submit(
            peer.network,
            partial(_ask, self._rules, name, password),
            partial(self._on_reply, question),
            lambda: not all(each.is_gone() for each, _ in waiting),
        ):
            del self._waiting[question]
            done(Refusal(_TOO_MANY, is_guess=False))

    def _on_reply(self, question: Question, reply: _Reply | None) -> None:
        """The directory has answered; with None it was not asked, or that has failed."""
        waiting = self._waiting.pop(question)
        answer: Answer = Refusal(_NOT_ASKED, is_guess=False)
        if reply is not None:
            if reply.problem:
                self._report(events.AUTHORITY_FAILED, user=question[1], problem=reply.problem)
            self._decisions.put(question, reply)
            answer = self._answer(reply)
        call_all(partial(done, answer) for _, done in waiting)

    def _answer(self, reply: _Reply) -> Answer:
        if reply.found is None:
            return Refusal(_NO_ANSWER, is_guess=False) if reply.problem else Refusal("denied")
        name = reply.found.name
        if self._users is not None:
            user = self._users.lookup(name)
            return user or Refusal(f"no user '{name}' is known here, so it has no rights")
        groups = [self._groups[dn] for dn in sorted(reply.found.groups & self._groups.keys())]
        try:
            permissions = _together(groups)
        except ValueError as problem:  # the patterns of several groups do not go together
            self._report(events.AUTHORITY_FAILED, user=name, problem=str(problem))
            return Refusal("its groups do not go together", is_guess=False)
        return User(
            name,
            "",
            tags=frozenset[str]().union(*(group.tags for group in groups)),
            permissions=permissions,
            backend=BACKEND,
        )


def _ask(rules: DirectoryRules, name: str, password: str) -> _Reply:
    """Ask the directory about a login. Blocks."""
    try:
        return _Reply(look_up(rules, name, password))
    except AskingFailed as problem:
        return _Reply(None, str(problem))
    except UnicodeEncodeError:
        return _Reply(None, "a name or password is not UTF-8")


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
