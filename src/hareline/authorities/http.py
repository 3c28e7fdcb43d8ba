"""Logins and rights by an HTTP service, asked as RabbitMQ asks one.

Its four URLs (user, vhost, resource, topic) get ``username`` and the fields of the question. The
answer is ``allow``, for a user with its tags behind it, or ``deny``, maybe with a reason for the
log; anything else allows nothing. Answers are remembered (``authorities.decisions``).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from hareline import events
from hareline.auth.backends import Answer, AuthBackend, Credentials, Done, Refusal
from hareline.auth.peer import Peer
from hareline.auth.permissions import Grants, Resource, Right, RightsPending
from hareline.auth.users import User, UserRegistry
from hareline.authorities.decisions import Decisions, LoginQuestions
from hareline.authorities.http_client import AskingFailed, HttpClient
from hareline.events import Report

BACKEND: Final = "http"
_REASON_MAX: Final = 200  # characters of the service's text in the log

Question = tuple[str, ...]
#: Has the event loop run something beside all else.
Spawn = Callable[[Coroutine[object, object, None]], None]


@dataclass(frozen=True, slots=True)
class HttpUrls:
    """URLs of the service; an empty one is not asked, and allows nothing."""

    user: str
    vhost: str = ""
    resource: str = ""
    topic: str = ""


@dataclass(frozen=True, slots=True)
class _Reply:
    """Answer of the service. ``rest``: tags, or a reason."""

    is_allowed: bool
    rest: str = ""


_NO_ANSWER: Final = "the service gave no valid answer"


class HttpService:
    """Asks the service, and remembers what it said. ``is_post``: fields go into a form."""

    def __init__(
        self,
        client: HttpClient,
        urls: HttpUrls,
        decisions: Decisions[_Reply],
        report: Report,
        spawn: Spawn,
        *,
        is_post: bool = True,
    ) -> None:
        self._client = client
        self.urls = urls
        self._decisions = decisions
        self._report = report
        self._spawn = spawn
        self._is_post = is_post

    def find(self, question: Question) -> _Reply | None:
        """Remembered answer to this question, or None."""
        return self._decisions.find(question)

    def ask(
        self, question: Question, url: str, fields: Mapping[str, str], done: Callable[[], None]
    ) -> None:
        """Ask the service, and call back when ``find`` has the answer."""
        if self._decisions.wait(question, done):
            self._spawn(self._ask(question, url, fields))

    async def _ask(self, question: Question, url: str, fields: Mapping[str, str]) -> None:
        reply = _Reply(is_allowed=False)
        try:
            reply = await self._reply(url, fields)
        finally:
            self._decisions.put(question, reply)

    async def _reply(self, url: str, fields: Mapping[str, str]) -> _Reply:
        if not url:
            return _Reply(is_allowed=False)
        try:
            if any(not _is_sendable(text) for text in fields.values()):
                raise AskingFailed("not asked: a name or password is not UTF-8")
            if self._is_post:
                text = await self._client.post(url, fields)
            else:
                text = await self._client.get(url, fields)
            return _read(text, url)
        except AskingFailed as problem:
            user = fields["username"]
            self._report(events.AUTHORITY_FAILED, user=user, problem=str(problem))
            return _Reply(is_allowed=False, rest=_NO_ANSWER)


def service_decisions(
    now_s: Callable[[], float], cache_s: float, *, keeps_refusals: bool
) -> Decisions[_Reply]:
    """Memory of a service's answers for ``cache_s``; of refusals only if so told."""
    return Decisions(now_s, lambda reply: cache_s if reply.is_allowed or keeps_refusals else 0.0)


class HttpBackend(AuthBackend):
    """``users``: those of this broker decide what a user may do; None: the service does."""

    def __init__(self, service: HttpService, users: UserRegistry | None = None) -> None:
        self._service = service
        self._users = users
        self._questions = LoginQuestions()
        self.asks_for_rights = users is None

    @property
    def name(self) -> str:
        return BACKEND

    def begin(self, credentials: Credentials, peer: Peer, done: Done) -> None:
        name, password = credentials
        if not name or password == "":
            done(Refusal())
            return
        fields = {"username": name}
        if password is not None:
            fields["password"] = password
        question = self._questions.question(name, password)
        if (reply := self._service.find(question)) is not None:
            done(self._answer(name, peer, reply))
            return

        def on_reply() -> None:
            reply = self._service.find(question)
            assert reply is not None, "it was put when this was called"
            done(self._answer(name, peer, reply))

        self._service.ask(question, self._service.urls.user, fields, on_reply)

    def _answer(self, name: str, peer: Peer, reply: _Reply) -> Answer:
        if not reply.is_allowed:
            return Refusal(reply.rest or "denied", is_guess=reply.rest != _NO_ANSWER)
        if self._users is not None:
            user = self._users.lookup(name)
            return user or Refusal(f"no user '{name}' is known here, so it has no rights")
        tags = frozenset(reply.rest.split())
        grants = HttpGrants(self._service, name, " ".join(sorted(tags)), peer.host)
        return User(name, "", tags=tags, grants=grants, backend=BACKEND)


class HttpGrants(Grants):
    """Rights of one user, by the answers of the service."""

    __slots__ = ("_host", "_name", "_service", "_tags")

    def __init__(self, service: HttpService, name: str, tags: str, host: str) -> None:
        self._service = service
        self._name = name
        self._tags = tags
        self._host = host

    def enters(self, vhost_name: str) -> bool:
        return self._is_allowed(
            self._service.urls.vhost, {"vhost": vhost_name, "ip": self._host, "tags": self._tags}
        )

    def allows(self, vhost_name: str, right: Right, resource: Resource, name: str) -> bool:
        return self._is_allowed(
            self._service.urls.resource,
            {
                "vhost": vhost_name,
                "resource": resource,
                "name": name,
                "permission": right,
                "tags": self._tags,
            },
        )

    def allows_topic(self, vhost_name: str, right: Right, exchange: str, routing_key: str) -> bool:
        return self._is_allowed(
            self._service.urls.topic,
            {
                "vhost": vhost_name,
                "resource": "topic",
                "name": exchange,
                "permission": right,
                "tags": self._tags,
                "routing_key": routing_key,
                "variable_map.username": self._name,
                "variable_map.vhost": vhost_name,
            },
        )

    def _is_allowed(self, url: str, fields: dict[str, str]) -> bool:
        fields = {"username": self._name, **fields}
        question = (url, *fields.values())
        reply = self._service.find(question)
        if reply is None:
            raise RightsPending(partial(self._service.ask, question, url, fields))
        return reply.is_allowed


def _is_sendable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read(text: str, url: str) -> _Reply:
    """Read an answer. Raises AskingFailed if it is neither yes nor no."""
    word, _, rest = text.strip().partition(" ")
    if word.lower() == "allow":
        return _Reply(is_allowed=True, rest=rest.lower())
    if word.lower() == "deny":
        return _Reply(is_allowed=False, rest=rest[:_REASON_MAX])
    raise AskingFailed(f"{url} answered neither 'allow' nor 'deny'")
