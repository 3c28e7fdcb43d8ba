"""Client of the broker's HTTP API, on one connection that stays open.

Refusals become CommandFailed. Invariant: whatever the server answers, also if it is
no broker, ends in data or in a sentence with the right exit status.
"""

from __future__ import annotations

import base64
import json
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote, urlencode

from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.target import Target

PAGE_SIZE_MAX: Final = 500
_DENIED: Final = {401, 403, 429}  # the last: too many logins have failed
#: What RabbitMQ says where it only means that there is none.
_SAYS_NOTHING: Final = {"", "Not Found", "Object Not Found", "not_found"}


class Refused(CommandFailed):
    """The broker answered with an error: the HTTP status, and the JSON or None if it is none."""

    def __init__(self, problem: str, status: ExitStatus, code: int, answer: Any) -> None:
        super().__init__(problem, status)
        self.code = code
        self.answer = answer


class Unreachable(CommandFailed):
    """Nothing answers, or no broker does; ``said``: the reason without the advice."""

    def __init__(self, problem: str, said: str) -> None:
        super().__init__(problem, ExitStatus.UNREACHABLE)
        self.said = said


class _Gone(Unreachable):
    """The server closed the connection before it answered."""


def path_of(*parts: str) -> str:
    """A path below /api with each part percent-encoded, `/` too."""
    return "/" + "/".join(quote(part, safe="", errors="surrogateescape") for part in parts)


def _warnings_in(header: str) -> list[str]:
    """The texts of a header Warning (RFC 7234)."""
    texts = re.findall(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"', header)
    return [re.sub(r"\\(.)", r"\1", text) for text in texts]


class Api:
    """``/api`` of a broker."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._connection: Any = None
        self._authorization = ""
        #: What the last answer says in its header Warning.
        self.warnings: list[str] = []

    @property
    def url(self) -> str:
        return str(self._target.http)

    def get(self, path: str, query: Mapping[str, Any] | None = None, *, what: str = "") -> Any:
        """The answer's JSON. ``what``: the object, for the sentence if there is none."""
        return self.ask("GET", path, query=query, what=what)

    def put(self, path: str, body: Any, *, what: str = "") -> bool:
        """Create or replace; True if it is new."""
        return self._answered("PUT", path, body, what=what)[0] == 201

    def post(self, path: str, body: Any, *, what: str = "", is_long: bool = False) -> Any:
        return self.ask("POST", path, body=body, what=what, is_long=is_long)

    def delete(
        self,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        what: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.ask("DELETE", path, query=query, what=what, headers=headers)

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        what: str = "",
        is_long: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The answer's JSON, or None if it has no body. Raises CommandFailed.

        ``is_long``: wait without a limit, since the broker may work for long.
        """
        return self._answered(
            method, path, body, query=query, what=what, is_long=is_long, headers=headers
        )[1]

    def liveness(self) -> str:
        """State of the broker, told without a login: ok, stopping or failed."""
        with self._errors_of_sockets():
            response = self._sent("GET", "/health", None, {}, False)
            octets = response.read()
        answer = self._decoded(octets)
        if not isinstance(answer, dict) or not isinstance(answer.get("status"), str):
            raise self._not_a_broker()
        return str(answer["status"])

    def rows(
        self, path: str, query: Mapping[str, Any], page_size: int = PAGE_SIZE_MAX
    ) -> Iterator[dict[str, Any]]:
        """The objects of a list, fetched page by page as they are needed."""
        page = 1
        while True:
            answer = self.get(path, {**query, "page": page, "page_size": page_size})
            if isinstance(answer, list):  # a list that has no pages
                yield from answer
                return
            if not isinstance(answer, dict) or not isinstance(answer.get("items"), list):
                raise self._not_a_broker()
            yield from answer["items"]
            if page >= int(answer.get("page_count", 1)):
                return
            page += 1

    def nodes(self) -> list[Any] | None:
        """The nodes; None for a user who may not see them."""
        try:
            answer = self.get(path_of("nodes"))
        except CommandFailed as error:
            if error.status is not ExitStatus.DENIED:
                raise
            return None
        return answer if isinstance(answer, list) else []

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _answered(self, method: str, path: str, body: Any, **request: Any) -> tuple[int, Any]:
        is_kept = self._connection is not None
        octets = None if body is None else json.dumps(body).encode()
        try:
            with self._response(method, path, octets, **request) as response:
                answer = response.read()
                self.warnings = _warnings_in(response.getheader("Warning", ""))
        except _Gone:
            if not is_kept or method != "GET":
                raise
            # The server had closed the connection while it was idle.
            return self._answered(method, path, body, **request)
        return response.status, self._decoded(answer) if answer else None

    def lines(
        self, path: str, body: Any, query: Mapping[str, Any] | None = None, *, what: str = ""
    ) -> Iterator[bytes]:
        """The lines of a long answer to a POST, as they come. Raises CommandFailed."""
        octets = json.dumps(body).encode()
        with self._response("POST", path, octets, query=query, what=what, is_long=True) as response:
            yield from response

    def upload(self, path: str, content: Any, size: int, *, what: str = "") -> Any:
        """The answer to a POST of a file's octets. ``content``: has ``read``."""
        headers = {"Content-Type": "application/x-ndjson", "Content-Length": str(size)}
        with self._response(
            "POST", path, content, headers=headers, what=what, is_long=True
        ) as response:
            return self._decoded(response.read())

    @contextmanager
    def _response(
        self,
        method: str,
        path: str,
        body: Any,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        what: str = "",
        is_long: bool = False,
    ) -> Iterator[Any]:
        """A response that is no refusal, its body not yet read. Raises CommandFailed."""
        sent = {"Authorization": self._login()}
        if body is not None:
            sent["Content-Type"] = "application/json"
        if query:
            path = f"{path}?{urlencode(query)}"
        with self._errors_of_sockets():
            response = self._sent(method, path, body, {**sent, **(headers or {})}, is_long)
            if response.status >= 300:
                raise self._refusal(response.status, path, response.read(), what)
            yield response

    def _sent(
        self, method: str, path: str, body: Any, headers: dict[str, str], is_long: bool
    ) -> Any:
        """The response to a request, its body not yet read."""
        connection = self._connected(is_long)
        try:
            connection.request(method, f"{self._target.http.path}/api{path}", body, headers)
        except (BrokenPipeError, ConnectionResetError):
            if isinstance(body, bytes | None):
                raise
            # A server that refuses a file may answer before it has read all of it.
        return connection.getresponse()

    @contextmanager
    def _errors_of_sockets(self) -> Iterator[None]:
        from http.client import HTTPException, RemoteDisconnected

        try:
            yield
        except (RemoteDisconnected, ConnectionResetError, BrokenPipeError) as error:
            self.close()
            raise self._unreachable(error, _Gone) from None
        except TimeoutError:
            self.close()
            said = f"no answer within {self._target.timeout_s:g} s"
            raise Unreachable(f"{self.url}: {said}; --timeout waits longer", said) from None
        except (OSError, HTTPException) as error:
            self.close()
            raise self._unreachable(error) from None

    def _connected(self, is_long: bool) -> Any:
        from http.client import HTTPConnection, HTTPSConnection

        seconds = None if is_long else self._target.timeout_s
        if self._connection is None:
            address = self._target.http
            options: dict[str, Any] = {"timeout": self._target.timeout_s}
            kind: Any = HTTPConnection
            if address.is_secure:
                kind, options["context"] = HTTPSConnection, self._target.tls_context()
            self._connection = kind(address.host, address.port, **options)
            self._connection.connect()
        if self._connection.sock is not None:
            self._connection.sock.settimeout(seconds)
        return self._connection

    def _login(self) -> str:
        if not self._authorization:
            login = f"{self._target.user}:{self._target.password()}".encode()
            self._authorization = f"Basic {base64.b64encode(login).decode()}"
        return self._authorization

    def _refusal(self, code: int, path: str, octets: bytes, what: str) -> Refused:
        try:
            answer = json.loads(octets) if octets else {}
        except ValueError:
            answer = None
        fields = answer if isinstance(answer, dict) else {}
        reason = str(fields.get("reason") or fields.get("error") or "")
        if code in _DENIED:
            said = reason or f"status {code}"
            return Refused(f"{self._target.user}: {said}", ExitStatus.DENIED, code, answer)
        if code == 404:
            if reason in _SAYS_NOTHING:
                reason = f"no {what}" if what else f"{self.url} has no /api{path.partition('?')[0]}"
            return Refused(reason, ExitStatus.NOT_FOUND, code, answer)
        where = what or f"/api{path.partition('?')[0]}"
        return Refused(f"{where}: {reason or f'status {code}'}", ExitStatus.FAILED, code, answer)

    def _decoded(self, octets: bytes) -> Any:
        try:
            return json.loads(octets)
        except ValueError:
            raise self._not_a_broker() from None

    def _unreachable(self, error: Exception, kind: type[Unreachable] = Unreachable) -> Unreachable:
        names = self._target.names
        untrusted = getattr(error, "verify_message", None)
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        advice = (
            f"is the broker running, with its management port there? {names.url} names another one"
        )
        if untrusted:
            said = f"its certificate is not trusted: {untrusted}"
            advice = f"{names.ca_file} names the authorities that are"
        elif isinstance(error, socket.gaierror):
            said = "no such host"
        return kind(f"{self.url}: {said}; {advice}", said)

    def _not_a_broker(self) -> Unreachable:
        said = "the answer does not come from a broker"
        return Unreachable(f"{self.url}: {said}", said)
