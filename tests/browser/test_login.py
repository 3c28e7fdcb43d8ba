"""The login: errors that say what to do, no cookie, and an end that comes with the tab."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.api_broker import PASSWORD, ApiBroker
from tests.support.web_browser import WebUi

Open = Callable[..., WebUi]


def try_login(ui: WebUi, user: str, password: str) -> str:
    ui.page.goto(ui.url + "/")
    ui.page.get_by_label("User").fill(user)
    ui.page.get_by_label("Password").fill(password)
    ui.page.get_by_role("button", name="Log in").click()
    alert = ui.page.get_by_role("alert")
    alert.wait_for()
    return alert.inner_text()


def test_the_login_page_is_clean(open_ui: Open) -> None:
    ui = open_ui(user="")
    ui.page.goto(ui.url + "/")
    ui.page.get_by_role("button", name="Log in").wait_for()
    assert ui.violations() == []


def test_a_wrong_password_is_refused_with_a_reason(open_ui: Open) -> None:
    ui = open_ui(user="")
    assert "Check the name and the password" in try_login(ui, "admin", "wrong")


def test_a_user_without_tags_is_told_which_it_needs(open_ui: Open) -> None:
    ui = open_ui(user="")
    said = try_login(ui, "plain", PASSWORD)
    assert "Not management user: user 'plain' has no tag of management" in said
    assert "password" not in said


def test_there_is_no_cookie_and_the_tab_keeps_the_login(open_ui: Open) -> None:
    ui = open_ui()
    assert ui.context.cookies() == []
    ui.page.reload()
    ui.settle()
    other = ui.context.new_page()
    other.goto(ui.url + "/")
    other.get_by_role("button", name="Log in").wait_for()


def test_logging_out_forgets_the_login(open_ui: Open) -> None:
    ui = open_ui()
    ui.page.get_by_role("button", name="Log out").click()
    ui.page.get_by_role("button", name="Log in").wait_for()
    assert ui.page.evaluate("() => sessionStorage.length") == 0


def test_tags_decide_what_the_menu_offers(open_ui: Open) -> None:
    menu = open_ui(user="manager").page.get_by_role("navigation", name="Main")
    assert menu.get_by_role("link", name="Queues").count() == 1
    assert menu.get_by_role("link", name="Users").count() == 0
    assert menu.get_by_role("link", name="Policies").count() == 1


def test_the_files_carry_the_content_policy(broker: ApiBroker) -> None:
    answer = broker.http.ask("GET", "/")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Frame-Options"] == "DENY"
