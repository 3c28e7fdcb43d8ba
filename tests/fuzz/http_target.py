"""The HTTP API: any request of an administrator is answered, and with 5xx only where that is meant.

An input is a request: a line with method and path, one with the type of the body, and the body. The
application is called in this process, of a broker without a disk. After a request that may have
changed something the broker is brought back to what it was.

Time that a request waits for does not pass: the loop jumps to the next timer.
"""

from __future__ import annotations

import asyncio
import base64
import json
import selectors
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from hareline.management.api.site import Site
from hareline.server.broker import Broker
from hareline.settings import Auth, Listener, Management, Settings, Storage
from hareline.settings.access import Permission, User
from hareline.settings.vhosts import VirtualHost
from tests.fuzz.target import Target

ADMIN: Final = ("admin", "secret")
ALL: Final = {"configure": ".*", "write": ".*", "read": ".*"}
#: What streams for ever is left after this time, which does not pass.
ANSWER_S: Final = 120.0
#: Their 503 says that a check has failed, and not that the broker has.
CHECKS: Final = (b"/api/health/checks/", b"/api/healthchecks/")
QUEUES: Final[Mapping[str, Mapping[str, object]]] = {
    "q": {},
    "stream": {"x-queue-type": "stream"},
    "sorted": {"x-sort-key": "n"},
}


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for no timer: instead ``jumped_s`` grows."""

    def __init__(self) -> None:
        super().__init__()
        self.jumped_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(0)
        if not ready:
            self.jumped_s += timeout
        return ready


class _JumpingLoop(asyncio.SelectorEventLoop):
    """What is meant for a thread is done at once: its time would not pass."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return super().time() + self._jumping.jumped_s

    def run_in_executor(  # type: ignore[override]
        self, _executor: object, function: Callable[..., Any], *arguments: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


async def _started() -> Broker:
    name, password = ADMIN
    user = User.model_validate(
        {
            "name": name,
            "password": password,
            "tags": ("administrator",),
            "permissions": [Permission(vhost="/", **ALL)],
        }
    )
    broker = Broker(
        Settings(
            users=(user,),
            vhosts=(VirtualHost(name="/"),),
            auth=Auth(failure_delay_s=0),
            listener=Listener(port=0),
            management=Management(port=0, sample_interval_s=60),
            storage=Storage(kind="memory"),
        )
    )
    await broker.start()
    return broker


class Api:
    """A broker, and requests to its application."""

    def __init__(self) -> None:
        self._loop = _JumpingLoop()
        self.broker = self._loop.run_until_complete(_started())
        side = self.broker._management
        assert side is not None
        self._site: Site = side.site
        self._app: Any = side._listeners[0]._server.config.app
        self._fill()
        self._before = self._definitions()

    def _fill(self) -> None:
        for name, arguments in QUEUES.items():
            path = f"/api/queues/%2F/{name}"
            self.done("PUT", path, {"durable": True, "arguments": arguments})
            self.done("POST", f"/api/bindings/%2F/e/amq.topic/q/{name}", {"routing_key": "a.#"})
        self._publish()

    def _publish(self) -> None:
        body = {
            "properties": {"headers": {"n": 1}, "priority": 3},
            "routing_key": "a.b",
            "payload": "body",
            "payload_encoding": "string",
        }
        for _ in range(3):
            self.done("POST", "/api/exchanges/%2F/amq.topic/publish", body)

    def done(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of an answer that has to be a success."""
        octets = b"" if body is None else json.dumps(body).encode()
        status, answer = self.ask(method.encode(), path.encode(), b"", octets)
        assert status < 300, (method, path, status, answer)
        return json.loads(answer) if answer else None

    def ask(self, method: bytes, target: bytes, kind: bytes, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer; whatever is raised comes out."""
        return self._loop.run_until_complete(self._ask(method, target, kind, body))

    async def _ask(
        self, method: bytes, target: bytes, kind: bytes, body: bytes
    ) -> tuple[int, bytes]:
        raw_path, _, query = target.partition(b"?")
        login = base64.b64encode(":".join(ADMIN).encode())
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method.decode("ascii"),
            "scheme": "http",
            "path": raw_path.decode("latin-1"),
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": [
                (b"host", b"127.0.0.1"),
                (b"authorization", b"Basic " + login),
                (b"content-type", kind),
                (b"content-length", b"%d" % len(body)),
            ],
            "client": ("127.0.0.1", 40_000),
            "server": ("127.0.0.1", 15_672),
            "state": {},
        }
        pieces = [body[start : start + 1000] for start in range(0, len(body), 1000)] or [b""]
        answer = bytearray()
        status = 0

        async def receive() -> dict[str, object]:
            if not pieces:
                await asyncio.sleep(ANSWER_S)
                return {"type": "http.disconnect"}
            piece = pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

        async def send(message: dict[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                answer.extend(message.get("body", b""))

        try:
            async with asyncio.timeout(ANSWER_S * 2):
                await self._app(scope, receive, send)
        except TimeoutError:
            assert status == 200, "no answer"
        return status, bytes(answer)

    def close(self) -> None:
        self._loop.run_until_complete(self.broker.stop(0))
        self._loop.close()

    # ------------------------------------------------------------- what a request has changed

    def _definitions(self) -> dict[str, Any]:
        found: dict[str, Any] = self.done("GET", "/api/definitions")
        return found

    def restore(self) -> None:
        """Undo what requests have changed."""
        now, before = self._definitions(), self._before
        if now == before and self._has_messages():
            return
        for vhost in self._names(now, "vhosts") - {"/"}:
            self.ask(b"DELETE", f"/api/vhosts/{vhost}".encode(), b"", b"")
        for user in self._names(now, "users") - {ADMIN[0]}:
            self.ask(b"DELETE", f"/api/users/{user}".encode(), b"", b"")
        for each in now.get("policies", []):
            self._delete("policies", each)
            self._delete("operator-policies", each)
        for each in now.get("parameters", []):
            component = quote(each["component"], safe="")
            self._delete(f"parameters/{component}", each)
        for each in now.get("global_parameters", []):
            name = quote(each["name"], safe="")
            self.ask(b"DELETE", f"/api/global-parameters/{name}".encode(), b"", b"")
        self._empty()
        self.done("POST", "/api/definitions", before)
        if not self._has_messages():
            self._publish()

    def _names(self, definitions: Mapping[str, Any], kind: str) -> set[str]:
        return {quote(each["name"], safe="") for each in definitions.get(kind, [])}

    def _delete(self, kind: str, each: Mapping[str, Any]) -> None:
        place = f"/api/{kind}/{quote(each['vhost'], safe='')}/{quote(each['name'], safe='')}"
        self.ask(b"DELETE", place.encode(), b"", b"")

    def _empty(self) -> None:
        """Queues and exchanges go, those of the beginning too: they may be others by now."""
        vhost = self.broker.context.vhosts["/"]
        for name in list(vhost.queues):
            self.ask(b"DELETE", f"/api/queues/%2F/{quote(name, safe='')}".encode(), b"", b"")
        for name in list(vhost.exchanges):
            if name and not name.startswith("amq."):
                place = f"/api/exchanges/%2F/{quote(name, safe='')}"
                self.ask(b"DELETE", place.encode(), b"", b"")

    def _has_messages(self) -> bool:
        queues = self.broker.context.vhosts["/"].queues
        return all(name in queues and queues[name].ready_count == 3 for name in QUEUES)

    def paths(self) -> list[tuple[str, str]]:
        """Method and path of each route, with names that there are in their places."""
        names = {"vhost": "%2F", "queue": "q", "exchange": "amq.topic", "source": "amq.topic"}
        names |= {"destination": "q", "user": ADMIN[0], "kind": "q", "props": "a.%23"}
        document = json.loads(self.ask(b"GET", b"/openapi.json", b"", b"")[1])
        found = []
        for path, operations in document["paths"].items():
            filled = path.format_map(_Names(names))
            found += [(method.upper(), filled) for method in operations]
        return found


class _Names(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return name


_api: Api | None = None


def api() -> Api:
    """The broker, made when it is first asked for."""
    global _api  # noqa: PLW0603 - a broker for each input would take a second
    if _api is None:
        _api = Api()
    return _api


def close() -> None:
    """End the broker, if there is one."""
    global _api  # noqa: PLW0603
    if _api is not None:
        _api.close()
        _api = None


def run(octets: bytes) -> None:
    line, _, rest = octets.partition(b"\n")
    kind, _, body = rest.partition(b"\n")
    method, _, target = line.partition(b" ")
    if not method.isalpha() or not target.startswith(b"/") or not _is_head(target + kind):
        return
    asked = api()
    status, answer = asked.ask(method.upper(), target, kind, body)
    if status >= 500 and status != 501 and not target.startswith(CHECKS):
        raise AssertionError(f"{line!r}: {status} {answer[:300]!r}")
    assert status >= 200, status
    if method.upper() not in (b"GET", b"HEAD"):
        asked.restore()


def _is_head(octets: bytes) -> bool:
    """Whether a server of HTTP would hand these on; it refuses others itself."""
    return all(32 < each < 127 or each == 32 for each in octets) and b"#" not in octets


def seeds() -> Sequence[bytes]:
    bodies: dict[str, object] = {
        "publish": {
            "properties": {"headers": {"n": 1}, "delivery_mode": 2, "expiration": "5"},
            "routing_key": "a.b",
            "payload": "Ym9keQ==",
            "payload_encoding": "base64",
        },
        "get": {"count": 2, "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 3},
        "definitions": {
            "rabbit_version": "3.10",
            "users": [{"name": "u", "password": "p", "tags": "management"}],
            "vhosts": [{"name": "v"}],
            "permissions": [{"user": "u", "vhost": "v", **ALL}],
            "queues": [{"name": "n", "vhost": "v", "durable": True, "arguments": {}}],
            "exchanges": [{"name": "x", "vhost": "v", "type": "topic", "durable": True}],
            "bindings": [
                {
                    "source": "x",
                    "vhost": "v",
                    "destination": "n",
                    "destination_type": "queue",
                    "routing_key": "a",
                    "arguments": {"x-match": "all"},
                }
            ],
            "policies": [{"name": "p", "vhost": "v", "pattern": "n", "definition": {}}],
        },
        "policies": {"pattern": "^q", "definition": {"max-length": 5}, "apply-to": "queues"},
        "permissions": dict(ALL),
        "users": {"password": "p", "tags": "management"},
        "queues": {"durable": True, "auto_delete": False, "arguments": {"x-max-length": 3}},
        "exchanges": {"type": "direct", "durable": True, "arguments": {}},
        "import": {"format": "hareline-messages", "version": 1},
        "parameters": {"value": {"max-queues": 5}},
        "limits": {"value": 5},
        "": {"offsets": [0, 1], "selector": "n = 1", "limit": 5, "destination": "q"},
    }
    found = []
    for method, path in api().paths():
        body = b""
        if method not in ("GET", "HEAD"):
            named = next(name for name in bodies if name in path)
            body = json.dumps(bodies[named]).encode()
        found.append(f"{method} {path}\napplication/json\n".encode() + body)
    form = json.dumps(bodies["definitions"]).encode()
    found.append(
        b"POST /api/definitions\nmultipart/form-data; boundary=b\n--b\r\nContent-Disposition: "
        b'form-data; name="file"; filename="f"\r\n\r\n' + form + b"\r\n--b--\r\n"
    )
    found.append(b"GET /api/queues?page=1&page_size=2&name=q&use_regex=true&sort=name\n\n")
    return found


WORDS: Final = (
    *(b'"name":', b'"vhost":"/"', b'"arguments":{', b'"definition":{', b'"pattern":"', b"null"),
    *(b"\\ud800", b"1e999", b"-1", b"9223372036854775808", b"true", b"[[[[", b"{}", b"%2F", b"%00"),
    *(b"?page=1&page_size=", b"&use_regex=true&name=", b"&columns=", b"&sort=", b"amq.default"),
    *(b"lengths_age=60&lengths_incr=5", b"/api/queues/%2F/q/", b"PUT ", b"POST ", b"DELETE "),
    *(b'"x-queue-type":"stream"', b'"max-length":', b'"count":', b'"payload":"'),
)
TARGET: Final = Target("http", run, seeds, WORDS, size_max=2048, timeout_s=30)
