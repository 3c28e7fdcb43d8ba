"""Which messages of a queue a request is about, and what it answers when it is done.

Called by ``messages``, ``message_files`` and ``queue_operations``.

Invariant: a request that names no messages takes none.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from hareline.broker.operations.selecting import Selection
from hareline.management.api.changing import (
    Entered,
    bad_request,
    enter_with_body,
    queue_name_in,
)
from hareline.management.api.openapi import body_route
from hareline.management.api.site import Site
from hareline.management.bodies import parse_body
from hareline.queues.queue import Queue
from hareline.selectors.error import SelectorError
from hareline.selectors.selector import Selector, compile_selector

OFFSETS_MAX: Final = 10_000
BODY_MAX_BYTES: Final = 262_144  # room for ``OFFSETS_MAX`` of the largest offsets
NUMBER_MAX: Final = 2**63 - 1
SELECTOR_MAX: Final = 16_384  # characters, which are compiled in some ms

Offset = Annotated[int, Field(ge=0, le=NUMBER_MAX)]
Model = TypeVar("Model", bound=BaseModel)


class OperationBody(BaseModel):
    """A body that takes no field that it does not know."""

    model_config = ConfigDict(extra="forbid")


class SelectionBody(OperationBody):
    """Which messages: those of these offsets, for which the selector is true; the first of them.

    At least one of the fields has to be there, so that no slip takes all messages; ``all`` says
    that all are meant.
    """

    offsets: list[Offset] | None = Field(default=None, max_length=OFFSETS_MAX)
    selector: str | None = None
    limit: int | None = Field(default=None, ge=1, le=NUMBER_MAX)
    all: bool = False


class RefusedMessages(BaseModel):
    """Messages that stay where they are, and why."""

    count: int
    reason: str


class OperationResult(BaseModel):
    """``moved``, ``copied``, ``deleted``, ``retried`` or ``imported``: how many messages.

    ``offsets``: those of the first thousand of them. ``left``: had gone when it was their turn.
    """

    model_config = ConfigDict(extra="allow")

    bytes: int
    offsets: list[int]
    refused: dict[str, RefusedMessages]
    left: int


DONE: dict[int | str, dict[str, Any]] = {200: {"model": OperationResult}}
_PROGRESS: Final = {
    "name": "progress",
    "in": "query",
    "required": False,
    "description": "Whether to answer with lines of JSON while the operation goes on.",
    "schema": {"type": "boolean"},
}


def operation_route(body: type[BaseModel]) -> dict[str, Any]:
    """What OpenAPI says of an operation with this body."""
    route = body_route(body, DONE)
    route["openapi_extra"]["parameters"] = [_PROGRESS]
    return route


async def begin(site: Site, request: Request, model: type[Model]) -> tuple[Entered, Queue, Model]:
    """The user, the queue that it may read, and the body of the request. Raises Refusal."""
    entered, octets = await enter_with_body(site, request, BODY_MAX_BYTES)
    name = queue_name_in(request)
    return entered, entered.queue(name, "read"), parse_body(model, octets or b"{}")


def selection_of(asked: SelectionBody) -> Selection:
    """The messages that a request is about. Raises Refusal if it does not say which."""
    if asked.offsets is None and asked.selector is None and asked.limit is None and not asked.all:
        raise bad_request("say which messages: offsets, selector, limit, or all: true")
    return Selection(
        None if asked.offsets is None else frozenset(asked.offsets),
        selector_of(asked.selector),
        asked.limit,
    )


def selector_of(text: str | None) -> Selector | None:
    """The selector of a request; None for none. Raises Refusal for one that is not valid."""
    if text is None or not text.strip():  # JMS: an empty one selects everything
        return None
    if len(text) > SELECTOR_MAX:
        raise bad_request(f"selector: longer than {SELECTOR_MAX} characters")
    try:
        return compile_selector(text)
    except SelectorError as error:
        raise bad_request(f"selector: {error}") from None
