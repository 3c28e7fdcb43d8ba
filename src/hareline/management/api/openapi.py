"""What OpenAPI says of the routes: answers, arguments of lists, bodies, names in paths.

Resource modules give ``**one_route(Model)``, ``**list_route(Model)`` or ``**body_route(Model)`` to
the decorator of a route; ``management.api.app`` serves ``description_of`` as ``/openapi.json``.

Invariant: these say what a route does and change nothing in it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel

from hareline.management.api.answers import LIST_PARAMETERS, PROBLEMS, Page
from hareline.management.routes import document_of

_REFERENCE: Final = "#/components/schemas/{model}"
_PLACE: Final = re.compile(r"{(\w+)}")


def list_route(item: type[BaseModel]) -> dict[str, Any]:
    """Arguments of ``router.get`` for a list of such items: what OpenAPI says of it."""
    return {
        "response_model": None,
        "responses": {200: {"model": list[item] | Page[item]}, **PROBLEMS},  # type: ignore[valid-type]
        "openapi_extra": {"parameters": list(LIST_PARAMETERS)},
    }


def one_route(item: Any) -> dict[str, Any]:
    """Arguments of ``router.get`` for one object, or another single answer of this type."""
    return {"response_model": None, "responses": {200: {"model": item}, **PROBLEMS}}


def body_route(
    body: type[BaseModel], answers: dict[int | str, dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Arguments of a route that takes this body; ``answers``: status -> what FastAPI says of it."""
    schema = {"application/json": {"schema": body.model_json_schema(ref_template=_REFERENCE)}}
    return {
        "response_model": None,
        "responses": {**(answers or {}), **PROBLEMS},
        "openapi_extra": {"requestBody": {"content": schema}},
    }


def description_of(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the names in paths that routes read from the request."""
    described = FastAPI.openapi(app)
    schemas = described.setdefault("components", {}).setdefault("schemas", {})
    rows = document_of(app.routes, app.title, app.version)
    for path, operations in described["paths"].items():
        for operation in operations.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                schemas.update(content.get("schema", {}).pop("$defs", {}))
            parameters = operation.setdefault("parameters", [])
            known = {each["name"] for each in parameters if each["in"] == "path"}
            parameters[:0] = [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in _PLACE.findall(path)
                if name not in known
            ]
    for path, operations in rows["paths"].items():
        described["paths"].setdefault(path, {}).update(operations)
    schemas.update(rows["components"]["schemas"])
    return described
