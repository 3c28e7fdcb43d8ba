"""Bodies of requests, read in full and held against a model, and large ones counted.

Bodies that may be large are counted, those of all requests together, so that no number of clients
fills the memory with them; so are answers with messages, until they are sent. One user has half of
the room at most, unless that is for one body, or small.

Invariant: a body that is refused names each field that is wrong, and what is wrong with it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, WithJsonSchema
from starlette.requests import ClientDisconnect, Request

from hareline.administration.checks import DEPTH_MAX, is_shallow
from hareline.management.answers import Refusal
from hareline.management.change_log import CALLER
from hareline.message import Table, encode_fields

BODY_MAX_BYTES: Final = 65_536

#: Octets of large bodies beside the largest one that there may be.
SPARE_BYTES: Final = 67_108_864
#: Octets of the bodies of messages that one answer may have, but one message in any case.
ANSWER_BYTES_MAX: Final = 67_108_864

OWN_REFUSAL: Final = "other requests of yours take half of the room for large ones; try again"

Model = TypeVar("Model", bound=BaseModel)


class BodiesInFlight:
    """The octets of large bodies that are in memory; one for an application.

    ``refusal``: the reason for a body that finds no room. Bodies of up to ``free_bytes`` are not
    counted, and always find room. ``held_by``: the octets of each user that has any.
    """

    __slots__ = ("_largest", "free_bytes", "held", "held_by", "refusal")

    def __init__(
        self,
        refusal: str = "other requests have bodies that are too large; try again",
        free_bytes: int = 0,
    ) -> None:
        self.held = 0
        self.held_by: dict[str, int] = {}
        self.refusal = refusal
        self.free_bytes = free_bytes
        self._largest = 0

    def hold(self, max_bytes: int) -> HeldBody:
        """A large body, of up to so many octets, of the user whose request this is.

        It is a context, in which the body is counted.
        """
        self._largest = max(self._largest, max_bytes)
        caller = CALLER.get()
        user = caller.user and f"{caller.backend} {caller.user}"
        return HeldBody(self, self._largest + SPARE_BYTES, user)


class HeldBody:
    """The part of a large body that one request holds. ``user``: who asks; empty: not known."""

    __slots__ = ("_bodies", "_limit", "_size", "_user")

    def __init__(self, bodies: BodiesInFlight, limit: int, user: str = "") -> None:
        self._bodies = bodies
        self._limit = limit
        self._size = 0
        self._user = user

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.resize(0)

    def resize(self, size: int) -> None:
        """So many octets are held now. Raises Refusal (503) if others leave no room for more.

        One that is the only one has room, however large it is; the only one of its user has what
        others leave, and so has a small one.
        """
        bodies, user = self._bodies, self._user
        if size <= bodies.free_bytes:
            size = 0
        more = size - self._size
        of_user = bodies.held_by.get(user, 0)
        if more > 0:
            if bodies.held > self._size and bodies.held + more > self._limit:
                raise Refusal(503, "busy", bodies.refusal, headers={"Retry-After": "1"})
            is_small = size <= BODY_MAX_BYTES
            if not is_small and of_user > self._size and user and of_user + more > self._limit // 2:
                raise Refusal(503, "busy", OWN_REFUSAL, headers={"Retry-After": "1"})
        bodies.held += more
        self._size = size
        if of_user + more:
            bodies.held_by[user] = of_user + more
        else:
            bodies.held_by.pop(user, None)

    def handed_over(self) -> HeldBody:
        """Hand what this one holds to another one, which outlives the context of this one."""
        other = HeldBody(self._bodies, self._limit, self._user)
        other._size, self._size = self._size, 0
        return other


def bodies_of(request: Request) -> BodiesInFlight:
    """The large bodies of the application that handles this request."""
    bodies = request.app.state.bodies
    assert isinstance(bodies, BodiesInFlight)
    return bodies


def answer_under_way(request: Request, message_max: int) -> HeldBody:
    """An answer with messages: a context, in which it and what it is made of are counted.

    ``message_max``: octets of the largest message that there may be.
    """
    answers = request.app.state.answers
    assert isinstance(answers, BodiesInFlight)
    return answers.hold(2 * max(ANSWER_BYTES_MAX, message_max))  # bodies, and their JSON


async def body_pieces(request: Request) -> AsyncGenerator[bytes, None]:
    """Yield the body as it comes. Raises Refusal if the client goes before its end."""
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        raise Refusal(499, "client_gone", "the client has gone") from None


async def read_body(
    request: Request, max_bytes: int = BODY_MAX_BYTES, held: HeldBody | None = None
) -> bytes:
    """The octets of the body. Raises Refusal if there are too many. ``held``: counts them."""
    return bytes(await read_long_body(request, max_bytes, held))


async def read_long_body(
    request: Request, max_bytes: int, held: HeldBody | None = None
) -> bytearray:
    """As ``read_body``; grown piece by piece, because it takes long to join or copy 100 MiB."""
    octets = bytearray()
    async with aclosing(body_pieces(request)) as coming:
        async for piece in coming:
            if len(octets) + len(piece) > max_bytes:
                raise Refusal(400, "bad_request", f"body: longer than {max_bytes} octets")
            if held is not None:
                held.resize(len(octets) + len(piece))
            octets += piece
    return octets


def parse_json(octets: bytes | bytearray, what: str = "body") -> Any:
    """The value of this JSON. Raises Refusal; ``what`` it is says what was not valid."""
    try:
        value = json.loads(octets)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "bad_request", f"{what}: not JSON: {error}") from None
    if octets.count(b"[") + octets.count(b"{") > DEPTH_MAX and not is_shallow(value):
        reason = f"{what}: more than {DEPTH_MAX} arrays and objects within one another"
        raise Refusal(400, "bad_request", reason)
    return value


def parse_body(model: type[Model], octets: bytes | bytearray) -> Model:
    """The JSON object in these octets as this model. Raises Refusal."""
    fields = parse_json(octets)
    if not isinstance(fields, dict):
        raise Refusal(400, "bad_request", "body: not a JSON object")
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, each['loc'])) or 'body'}: "
            f"{each['msg'].removeprefix('Value error, ')}"
            for each in error.errors()
        ]
        raise Refusal(400, "bad_request", "; ".join(problems)) from None


def _arguments(value: object) -> Table:
    """Arguments of a declaration as a field table; ValueError for what no table can hold."""
    if value is None or value in ([], ""):  # old clients send these for none
        return Table()
    if not isinstance(value, Mapping):
        raise ValueError("should be an object")
    table = table_of(value)
    try:
        encode_fields(table)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise ValueError(f"cannot be sent as arguments: {error}") from None
    return table


def table_of(fields: Mapping[str, Any]) -> Table:
    """A JSON object as a field table: numbers are 64 bit, as RabbitMQ's API has them."""
    return Table({str(name): _field(each) for name, each in fields.items()})


def _field(value: object) -> object:
    if isinstance(value, Mapping):
        return table_of(value)
    return [_field(each) for each in value] if isinstance(value, list) else value


#: A JSON object as arguments of a declaration or binding.
Arguments = Annotated[
    Any, BeforeValidator(_arguments), WithJsonSchema({"type": "object", "default": {}})
]


ArgumentsField: Final = Field(default_factory=Table)
