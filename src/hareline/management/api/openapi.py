"""What OpenAPI says of the routes: answers, arguments of lists, bodies, names in paths.

Resource modules give ``**one_route(Model)``, ``**list_route(Model)`` or ``**body_route(Model)`` to
the decorator of a route; ``management.api.app`` serves ``description_of`` as ``/openapi.json``.

Invariant: these say what a route does and change nothing in it.
"""

from __future__ import annotations

import re
from typing import Any, Final, Generic, TypeVar

from fastapi import FastAPI
from pydantic import BaseModel

from hareline.management.api.answers import PROBLEMS

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500
_REFERENCE: Final = "#/components/schemas/{model}"
_PLACE: Final = re.compile(r"{(\w+)}")

Item = TypeVar("Item", bound=BaseModel)


class Page(BaseModel, Generic[Item]):
    """The answer with ``page``: some of the items, and how many there are."""

    items: list[Item]
    page: int
    page_count: int
    page_size: int
    item_count: int
    filtered_count: int
    total_count: int


def _parameter(name: str, kind: str, description: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": description,
        "schema": {"type": kind},
    }


#: For ``openapi_extra=`` of a route that ends with ``listing``.
LIST_PARAMETERS: Final = (
    _parameter("page", "integer", "Which page, from 1. Without it all items come as an array."),
    _parameter("page_size", "integer", f"Items of a page, up to {PAGE_SIZE_MAX}."),
    _parameter("name", "string", "Only items whose name contains this, in any case."),
    _parameter("use_regex", "boolean", "Whether `name` is a regular expression."),
    _parameter("sort", "string", "Column to sort by; of nested ones with dots between."),
    _parameter("sort_reverse", "boolean", "Whether the order is reversed."),
    _parameter("columns", "string", "Columns to answer with, separated by commas."),
    _parameter("disable_stats", "boolean", "Whether rates and statistics are left out."),
)


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
    return described
