"""The files of the web UI: what is served and with which headers, and what is vendored."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from hareline.management.api.documentation import pages
from hareline.management.web_ui import FILES
from tests.support.api_broker import ApiBroker
from tests.support.http_api import HttpApi

VENDORED = [FILES / "vendor", Path(__file__).resolve().parents[1] / "browser" / "vendor"]
MODULES = sorted(
    path.relative_to(FILES).as_posix() for path in FILES.rglob("*.js") if "vendor" not in path.parts
)


@pytest.fixture
def client(broker: ApiBroker) -> HttpApi:
    return broker.http


@pytest.mark.acceptance
def test_the_page_and_its_files_are_served_without_a_login(client: HttpApi) -> None:
    page = client.ask("GET", "/")
    assert page.status_code == 200
    assert page.headers["Content-Type"].startswith("text/html")
    for name in re.findall(r'(?:src|href)="(ui/[^"]+)"', page.text):
        assert client.ask("GET", f"/{name}").status_code == 200


def test_the_policy_allows_own_files_and_nothing_else(client: HttpApi) -> None:
    headers = client.ask("GET", "/").headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"


def test_a_file_that_did_not_change_is_not_sent_again(client: HttpApi) -> None:
    first = client.ask("GET", "/ui/app.js")
    again = client.ask("GET", "/ui/app.js", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_files_are_packed_for_those_who_unpack(client: HttpApi) -> None:
    packed = client.ask("GET", "/ui/style.css")
    plain = client.ask("GET", "/ui/style.css", headers={"Accept-Encoding": "identity"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert packed.text == plain.text


@pytest.mark.parametrize("name", ["../web_ui.py", "nothing.js", "", "vendor", "%2e%2e/app.py"])
def test_nothing_else_is_served(client: HttpApi, name: str) -> None:
    assert client.ask("GET", f"/ui/{name}").status_code == 404


@pytest.mark.parametrize("folder", VENDORED, ids=str)
def test_vendored_files_are_those_that_are_listed(folder: Path) -> None:
    listed = dict(
        re.findall(
            r"^\| `([^`]+)` \|.*`([0-9a-f]{64})` \|$", (folder / "README.md").read_text(), re.M
        )
    )
    there = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.name != "README.md"
    }
    assert there == listed
    assert sum(name.endswith("LICENSE.txt") for name in there) >= 1


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_what_is_there_and_makes_no_markup(name: str) -> None:
    text = (FILES / name).read_text(encoding="utf-8")
    for target in re.findall(r'(?:from|import) "([^"]+)"', text):
        assert ((FILES / name).parent / target).is_file(), target
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text)
    assert "https://" not in text
    assert "http://" not in text


def test_all_modules_are_reached_from_the_page() -> None:
    reached: set[Path] = set()
    waiting = [FILES / "app.js"]
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached.add(path)
            targets = re.findall(
                r'(?:from|import) ?"([^"\n]+\.js)"', path.read_text(encoding="utf-8")
            )
            waiting += [(path.parent / target).resolve() for target in targets]
    unreached = {path.name for path in FILES.rglob("*.js")} - {path.name for path in reached}
    assert unreached == {"theme.js"}


@pytest.mark.acceptance
def test_links_to_the_documentation_lead_to_pages_and_headings_that_are_there() -> None:
    links = {
        link
        for path in FILES.rglob("*.js")
        if "vendor" not in path.parts
        for link in re.findall(r' page="([^"]+)"', path.read_text(encoding="utf-8"))
    }
    assert len(links) > 5
    for link in links:
        page, _, anchor = link.partition("#")
        text = pages()[page].read_text(encoding="utf-8")
        headings = {
            re.sub(r"[^\w\s-]", "", head).strip().lower().replace(" ", "-")
            for head in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        }
        assert not anchor or anchor in headings, link
