"""The OpenAPI document: valid, with the names in paths, and with the models of bodies."""

from __future__ import annotations

from typing import Any

from openapi_spec_validator import validate
from pydantic import BaseModel
from starlette.responses import Response

from hareline.management.api.call import Call, Routes
from hareline.management.routes import document_of


class Part(BaseModel):
    size: int


class Thing(BaseModel):
    name: str
    parts: list[Part] = []


def described() -> dict[str, Any]:
    routes = Routes("things")

    @routes("GET /things", name="list", lists=Thing)
    @routes("GET /things/{shelf}/{thing}", name="one", gives=Thing)
    @routes("PUT /things/{shelf}/{thing}", name="put", body=Thing)
    async def nothing(_call: Call) -> Response:
        """Do nothing."""
        raise NotImplementedError

    site: Any = None
    return document_of([row.bound_to(site) for row in routes.rows], "Things", "1")


def test_the_document_is_valid() -> None:
    validate(described())


def test_names_in_paths_are_parameters() -> None:
    found = described()["paths"]["/things/{shelf}/{thing}"]["get"]["parameters"]
    assert [(each["name"], each["in"], each["required"]) for each in found] == [
        ("shelf", "path", True),
        ("thing", "path", True),
    ]


def test_models_within_a_body_are_found_where_it_refers_to_them() -> None:
    document = described()
    body = document["paths"]["/things/{shelf}/{thing}"]["put"]["requestBody"]
    schema = body["content"]["application/json"]["schema"]
    assert "$defs" not in schema
    assert schema["properties"]["parts"]["items"] == {"$ref": "#/components/schemas/Part"}
    assert "size" in document["components"]["schemas"]["Part"]["properties"]


def test_a_list_is_an_array_or_a_page() -> None:
    operation = described()["paths"]["/things"]["get"]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    kinds = [each.get("type") or each["$ref"].rpartition("/")[2] for each in schema["anyOf"]]
    assert kinds == ["array", "Page_Thing_"]
    assert {"page", "sort", "columns"} <= {each["name"] for each in operation["parameters"]}
    assert {"400", "401", "404", "429"} <= set(operation["responses"])
