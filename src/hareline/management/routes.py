"""Routes of the HTTP port, names in their paths, and the OpenAPI document that is made of them.

Paths are matched as they came (``middleware.RawPaths``), so that names may hold a slash as ``%2F``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, unquote

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from starlette import routing
from starlette.requests import Request
from starlette.responses import Response

from hareline.auth.permissions import DEFAULT_EXCHANGE_NAME
from hareline.octets import readable, restored

Endpoint = Callable[[Request], Awaitable[Response]]

_REFERENCE: Final = "#/components/schemas/{model}"
_PLACE: Final = re.compile(r"{(\w+)}")


class Route(routing.Route):
    """A method of a path. ``request``: both, such as ``GET /api/users``.

    ``answers``: status -> what OpenAPI says of it; a ``model`` there becomes its schema. ``status``
    is the usual one, and ``gives`` the model of its answer. ``body``: a model, or the schema of
    each media type. ``group``: OpenAPI's tag. ``is_described`` False: not in the document.
    """

    def __init__(
        self,
        request: str,
        endpoint: Endpoint,
        *,
        name: str,
        text: str | None = None,
        group: str = "",
        status: int = 200,
        media_type: str = "application/json",
        gives: Any = None,
        answers: Mapping[int, Mapping[str, Any]] | None = None,
        parameters: Sequence[Mapping[str, Any]] = (),
        body: type[BaseModel] | Mapping[str, Any] | None = None,
        is_described: bool = True,
    ) -> None:
        methods, _, path = request.partition(" ")
        super().__init__(path, endpoint, name=name, include_in_schema=is_described)
        self.methods = set(methods.split(","))  # and no HEAD, about which ``paths`` decides
        self.method = methods.lower()
        self.text = text
        self.group = group
        self.status = status
        self.media_type = media_type
        self.gives = gives
        self.answers = answers or {}
        self.parameters = parameters
        self.body = body

    def models(self) -> dict[int, Any]:
        """Status -> model of each answer that has one."""
        found = {status: said["model"] for status, said in self.answers.items() if "model" in said}
        return found if self.gives is None else {**found, self.status: self.gives}

    def identifier(self) -> str:
        """The operation's name in the document, once each."""
        return re.sub(r"\W", "_", f"{self.name}{self.path_format}") + f"_{self.method}"


def parameter(
    name: str,
    schema: Mapping[str, Any] | str,
    description: str = "",
    *,
    required: bool = False,
    place: str = "query",
) -> dict[str, Any]:
    """An argument of a request for ``parameters`` of a route. ``schema``: or the type alone."""
    said = {"description": description} if description else {}
    described = {"type": schema} if isinstance(schema, str) else dict(schema)
    return {"name": name, "in": place, "required": required, **said, "schema": described}


def integer(minimum: int, maximum: int, default: int) -> dict[str, Any]:
    """The schema of a number, for ``parameter``."""
    return {"type": "integer", "minimum": minimum, "maximum": maximum, "default": default}


def document_of(routes: Iterable[Route], title: str, version: str) -> dict[str, Any]:
    """The OpenAPI document of all routes that are described."""
    described = [each for each in routes if each.include_in_schema]
    generator = GenerateJsonSchema(ref_template=_REFERENCE)
    models = [
        ((id(route), status), "serialization", TypeAdapter(model).core_schema)
        for route in described
        for status, model in route.models().items()
    ]
    made, definitions = generator.generate_definitions(models)  # type: ignore[arg-type]
    schemas: dict[str, Any] = {str(name): schema for name, schema in definitions.items()}
    paths: dict[str, dict[str, Any]] = {}
    for route in described:
        answers = {each: made[(id(route), each), "serialization"] for each in route.models()}
        operation = _operation(route, answers)
        if route.body is not None:
            operation["requestBody"] = _request_body(route.body, schemas)
        paths.setdefault(route.path_format, {})[route.method] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": _without_null(paths),
        "components": {"schemas": _without_null(schemas)},
    }


def _operation(route: Route, schemas: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    places = _PLACE.findall(route.path_format)
    identifier = route.identifier()
    operation: dict[str, Any] = {
        "summary": route.name.replace("_", " ").title(),
        "operationId": identifier,
        "parameters": [
            *(parameter(name, "string", required=True, place="path") for name in places),
            *route.parameters,
        ],
        "responses": {},
    }
    if route.group:
        operation["tags"] = [route.group]
    if route.text:
        operation["description"] = inspect.cleandoc(route.text)
    for status in (route.status, *(each for each in route.answers if each != route.status)):
        said = dict(route.answers.get(status, {}))
        said.pop("model", None)
        usual = "Successful Response" if status == route.status else HTTPStatus(status).phrase
        answer: dict[str, Any] = {"description": usual, **said}
        schema = dict(schemas.get(status, {}))
        if schema and "$ref" not in schema:
            schema["title"] = f"Response {status} {identifier}".replace("_", " ").title()
        if schema or (status == route.status != 204 and route.media_type):
            answer["content"] = {
                "application/json": {"schema": schema},
                **answer.get("content", {}),
            }
        operation["responses"][str(status)] = answer
    return operation


def _request_body(
    body: type[BaseModel] | Mapping[str, Any], schemas: dict[str, Any]
) -> dict[str, Any]:
    """Describe a body; models within its model are put among ``schemas``."""
    if isinstance(body, Mapping):
        return dict(body)
    schema = body.model_json_schema(ref_template=_REFERENCE)
    schemas.update(schema.pop("$defs", {}))
    return {"content": {"application/json": {"schema": schema}}}


def _without_null(value: Any) -> Any:
    """The value without defaults that are null."""
    if isinstance(value, dict):
        return {key: _without_null(each) for key, each in value.items() if each is not None}
    return [_without_null(each) for each in value] if isinstance(value, list) else value


# ----------------------------------------------------------------------------------- names in paths


def name_in_path(encoded: str) -> str:
    """The name of a virtual host, queue ...; octets that are not UTF-8 are surrogates.

    The name of such an object may also be given as answers show it.
    """
    given = unquote(encoded, errors="surrogateescape")
    name = restored(given)
    return name if readable(name) == given else given


def exchange_name(written: str) -> str:
    """The name of an exchange that users write; ``amq.default`` is the default exchange."""
    return "" if written == DEFAULT_EXCHANGE_NAME else written


def path_of_name(name: str) -> str:
    """The name as a segment of a path, such as ``%2F``; the inverse of ``name_in_path``."""
    return quote(name, safe="", errors="surrogateescape")
