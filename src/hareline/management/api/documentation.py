"""``GET /api/hareline/docs/{page}``: a page of the documentation, as the package has it.

The web UI explains arguments with it, so that nothing is asked of another host. Pages are those of
docs/ in a working copy of the repository; where the package has none, the answer says so.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from hareline.management.api.access import caller
from hareline.management.api.answers import answer
from hareline.management.api.openapi import one_route
from hareline.management.api.site import Site
from hareline.management.paths import name_in_path
from hareline.management.refusals import Refusal

_PACKAGE: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = _PACKAGE.parents[1] / "docs"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")


class Page(BaseModel):
    """A page in Markdown."""

    name: str
    text: str


def router(site: Site) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["hareline"])

    @router.get("/api/hareline/docs/{page}", **one_route(Page))
    async def documentation(request: Request) -> Response:
        """A page of the documentation, by the name of its file without ``.md``."""
        await caller(site, request)
        name = name_in_path(request.path_params["page"])
        text = text_of(name)
        if text is None:
            reason = f"there is no page '{name}' in the documentation of this installation"
            raise Refusal(404, "not_found", reason)
        return answer({"name": name, "text": text})

    return router


def text_of(name: str) -> str | None:
    """The page of this name; None if there is none."""
    if _NAME.fullmatch(name) is None:
        return None
    path = FOLDER / f"{name}.md"
    return path.read_text(encoding="utf-8") if path.is_file() else None
