"""The body of a request: a JSON object, read in full and held against a model.

Called by the routes that take one. Invariant: a body that is refused names each field that is
wrong, and what is wrong with it.
"""

from __future__ import annotations

import json
from typing import Final, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from hareline.management.refusals import Refusal

BODY_MAX_BYTES: Final = 65_536

Model = TypeVar("Model", bound=BaseModel)


async def read_body(request: Request, max_bytes: int = BODY_MAX_BYTES) -> bytes:
    """The octets of the body. Raises Refusal if there are too many."""
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        pieces.append(piece)
        size += len(piece)
        if size > max_bytes:
            raise Refusal(400, "bad_request", f"body: longer than {max_bytes} octets")
    return b"".join(pieces)


def parse_body(model: type[Model], octets: bytes) -> Model:
    """The JSON object in these octets as this model. Raises Refusal."""
    try:
        fields = json.loads(octets)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "bad_request", f"body: not JSON: {error}") from None
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
