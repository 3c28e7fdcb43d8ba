"""``GET /api/hareline/docs`` and ``/{page}``: the documentation for users, as the package has it.

The web UI explains arguments with it, so that nothing is asked of another host. A wheel has the
pages in ``management/docs``; in a working copy of the repository they are those of docs/. What is
for developers of the broker (``pyproject.toml`` names it) is in neither, and neither are pictures.

Invariant: only pages that were there when the broker started are served, by their exact names.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import BaseModel
from starlette.responses import Response

from hareline.management.answers import answer, not_found
from hareline.management.api.call import Call, Routes

routes = Routes("hareline")

_PACKAGE: Final = Path(__file__).resolve().parents[2]
PACKED: Final = _PACKAGE / "management" / "docs"
WORKING_COPY: Final = _PACKAGE.parents[1] / "docs"
#: For developers of the broker; not in a wheel.
FOR_DEVELOPERS: Final = frozenset(
    (
        "architecture",
        "benchmarks",
        "benchmarks-durable",
        "benchmarks-fairness",
        "benchmarks-jms",
        "benchmarks-management",
        "benchmarks-spark",
        "compiled-build",
        "data-model",
        "feature-tests",
        "fuzzing-and-faults",
        "journal-format",
        "modules",
        "reading-guide",
        "testing",
        "testing-the-project",
    )
)


class PageTitle(BaseModel):
    """A page by its name, the name of its file without ``.md``."""

    name: str
    title: str


class PageTitles(BaseModel):
    """All pages, by their titles."""

    items: list[PageTitle]


class Page(BaseModel):
    """A page in Markdown."""

    name: str
    text: str


@routes("GET /api/hareline/docs", gives=PageTitles)
async def titles(_call: Call) -> Response:
    """The pages of the documentation that this installation has."""
    return answer({"items": page_titles()})


@routes("GET /api/hareline/docs/{page}", gives=Page)
async def documentation(call: Call) -> Response:
    """A page of the documentation, by the name of its file without ``.md``."""
    name = call.name("page")
    path = pages().get(name)
    if path is None:
        raise not_found(f"there is no page '{name}' in the documentation of this installation")
    return answer({"name": name, "text": path.read_text(encoding="utf-8")})


@cache
def pages() -> Mapping[str, Path]:
    """Name -> file of each page."""
    folder = PACKED if PACKED.is_dir() else WORKING_COPY
    return {
        path.stem: path for path in sorted(folder.glob("*.md")) if path.stem not in FOR_DEVELOPERS
    }


@cache
def page_titles() -> list[dict[str, str]]:
    """Name and title of each page, by their titles."""
    found = []
    for name, path in pages().items():
        with path.open(encoding="utf-8") as file:
            head = file.readline()
        found.append({"name": name, "title": head.removeprefix("# ").strip()})
    return sorted(found, key=lambda each: each["title"].lower())
