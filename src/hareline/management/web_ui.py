"""The web UI: its page at ``/`` and its files below ``/ui/``, from the package.

``http_side`` adds these routes. The files need no login and say nothing about the broker; the page
asks the API with the credentials that its user types. The content policy of the page allows its
own files and requests to this port, no script within a page, and no other host. docs/web-ui.md.

Invariant: only files that were there when the broker started are served, by their exact names.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from hareline.management.answers import Refusal
from hareline.management.routes import Route

FILES: Final = Path(__file__).parent / "ui"

MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
POLICY: Final = (
    "default-src 'none'; "
    "script-src 'self'; "
    "style-src 'self'; "
    "img-src 'self' data: blob:; "
    "connect-src 'self'; "
    "base-uri 'none'; "
    "form-action 'none'; "
    "frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # files have no version in their names: browsers ask each time, and get 304
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}
GZIP_FROM_BYTES: Final = 1_024


@dataclass(slots=True)
class _File:
    """``packed``: the same, compressed; made when it is first asked for."""

    path: Path
    media_type: str
    octets: bytes | None = None
    packed: bytes | None = None
    tag: str = ""

    def load(self) -> None:
        """Read the file, once."""
        if self.octets is None:
            octets = self.path.read_bytes()
            self.tag = f'"{hashlib.sha256(octets).hexdigest()[:24]}"'
            self.packed = gzip.compress(octets, 6, mtime=0)
            self.octets = octets


def routes() -> list[Route]:
    """The routes of the page and its files."""
    files = {name: _File(path, media_type) for name, path, media_type in _files(FILES)}

    async def page(request: Request) -> Response:
        return _answer(request, files["index.html"])

    async def file(request: Request) -> Response:
        found = files.get(request.path_params["name"])
        if found is None:
            raise Refusal(404, "not_found", f"there is no {request.url.path}")
        return _answer(request, found)

    return [
        Route("GET,HEAD /", page, name="page", is_described=False),
        Route("GET,HEAD /ui/{name:path}", file, name="file", is_described=False),
    ]


def _answer(request: Request, file: _File) -> Response:
    file.load()
    assert file.octets is not None
    assert file.packed is not None
    headers = {**HEADERS, "ETag": file.tag}
    if file.tag in request.headers.get("If-None-Match", ""):
        return Response(status_code=304, headers=headers)
    content = file.octets
    if len(content) >= GZIP_FROM_BYTES and "gzip" in request.headers.get("Accept-Encoding", ""):
        content = file.packed
        headers["Content-Encoding"] = "gzip"
    return Response(content, headers=headers, media_type=file.media_type)


def _files(folder: Path) -> Iterator[tuple[str, Path, str]]:
    """Name below ``/ui/``, path and media type of each file that is served."""
    for path in sorted(folder.rglob("*")):
        media_type = MEDIA_TYPES.get(path.suffix)
        if media_type is not None and path.is_file():
            yield path.relative_to(folder).as_posix(), path, media_type
