"""Chromium on the web UI of a broker: pages as a user sees them, and what went wrong in them.

For tests/browser and scripts/screenshots. Needs playwright and a Chromium of the system.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

AXE = Path(__file__).resolve().parents[1] / "browser" / "vendor" / "axe.min.js"
DEADLINE_MS = 60_000
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1360, "height": 900}


def chromium_path() -> str | None:
    """Chromium or Chrome of the system; None if there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found is not None:
            return found
    return None


@contextmanager
def web_browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path(),
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
        )
        try:
            yield browser
        finally:
            browser.close()


class WebUi:
    """One tab on the UI at ``url``. ``problems``: errors of scripts, and what was not allowed."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.url = url.rstrip("/")
        options.setdefault("viewport", DESKTOP)
        self.context: BrowserContext = browser.new_context(**options)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(DEADLINE_MS)
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._on_console)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _on_console(self, message: Any) -> None:
        # a refusal of the API is told to the user; Chromium also writes it here
        if message.type == "error" and "the server responded with a status" not in message.text:
            self.problems.append(message.text)

    def login(self, user: str, password: str) -> None:
        self.page.goto(self.url + "/")
        self.page.get_by_label("User").fill(user)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in").click()
        self.page.locator(".shell main h1").first.wait_for(state="attached")

    def go(self, address: str) -> None:
        """Go to a view, such as ``queues``, and wait until it is there."""
        self.page.evaluate("address => { location.hash = address }", f"#/{address}")
        self.settle()

    def settle(self) -> None:
        """Wait until nothing on the page waits for its first answer."""
        self.page.locator("main h1").first.wait_for(state="attached")
        self.page.wait_for_function("() => !document.querySelector('main .waiting')")

    def heading(self) -> str:
        return self.page.locator("main h1").first.inner_text()

    def faults(self) -> list[str]:
        """Failures of scripts, what the content policy has stopped, and requests to other hosts."""
        ours = (self.url, "data:", "blob:")
        foreign = [url for url in self.requests if not url.startswith(ours)]
        return [*self.problems, *foreign]

    def reset(self) -> None:
        """Begin again on the overview, still logged in; what was chosen is forgotten."""
        self.page.evaluate(
            "() => { localStorage.clear(); history.replaceState(null, '', '#/overview') }"
        )
        self.page.reload()
        self.settle()
        self.problems.clear()
        self.requests.clear()

    def violations(self, rules: tuple[str, ...] = ()) -> list[str]:
        """What axe finds, a line for each rule with its first element; ``rules``: which, or all."""
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate(
            "rules => axe.run(document, {resultTypes: ['violations'],"
            " ...(rules.length ? {runOnly: {type: 'rule', values: rules}} : {})})"
            ".then(r => r.violations.map("
            "v => `${v.id}: ${v.nodes.length} x ${v.nodes[0].html.slice(0, 200)}`"
            " + ` ${v.nodes[0].failureSummary}`))",
            list(rules),
        )
        return [str(each) for each in found]

    def is_wider_than_screen(self) -> bool:
        """True if the page has to be moved sideways."""
        return bool(
            self.page.evaluate("() => document.documentElement.scrollWidth > window.innerWidth + 1")
        )

    def close(self) -> None:
        self.context.close()
