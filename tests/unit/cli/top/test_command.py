"""``hareline top``: a live screen on a terminal, one snapshot elsewhere."""

from __future__ import annotations

import json
import signal

from tests.support.scripted_api import ScriptedApi
from tests.support.terminal import TerminalProcess

from ..conftest import Run

ROW = {"name": "orders", "messages_ready": 7}


def answering(api: ScriptedApi) -> None:
    api.will("GET", "/overview", {"product_name": "Hareline", "product_version": "9"})
    api.will("GET", "/nodes", [])
    api.will("GET", "/queues", {"items": [ROW], "page_count": 1})
    api.will("GET", "/connections", {"items": [{"name": "somebody"}], "page_count": 1})


def test_without_a_terminal_one_snapshot_is_printed(run: Run, api: ScriptedApi) -> None:
    answering(api)
    result = run("top", "--sort", "ready")
    assert result.exit_code == 0
    assert result.stdout.startswith("\torders\t")
    found = json.loads(run("top", "--json", "--connections").stdout)
    assert found["connections"] == [{"name": "somebody"}]


def test_an_order_that_does_not_exist_is_a_usage_error(run: Run) -> None:
    result = run("top", "--sort", "colour")
    assert result.exit_code == 2
    assert "'colour' is not one of in, out, ready" in result.stderr


def test_without_a_broker_it_ends_with_3(run: Run) -> None:
    assert run("top", HARELINE_URL="http://127.0.0.1:1").exit_code == 3


def watching(api: ScriptedApi) -> TerminalProcess:
    """The command on a terminal of 80 columns and 24 rows."""
    answering(api)
    return TerminalProcess("top", "--interval", "0.2", "--url", api.url)


def test_a_terminal_is_drawn_on_until_q(api: ScriptedApi) -> None:
    with watching(api) as session:
        session.wait_for_text("orders")
        session.wait_for_text("queues by in")
        session.press("r")
        session.wait_for_text("queues by ready")
        session.press("\t")
        session.wait_for_text("somebody")
        session.press("q")
        assert session.wait() == 0
        # The screen of before is shown again.
        assert session.raw.rindex("\x1b[?1049l") > session.raw.rindex("somebody")


def test_ctrl_c_ends_with_130_and_no_traceback(api: ScriptedApi) -> None:
    with watching(api) as session:
        session.wait_for_text("orders")
        session.process.send_signal(signal.SIGINT)
        assert session.wait() == 130
        assert "Traceback" not in session.text
        assert session.raw.endswith("\x1b[?1049l")  # the screen of before, and no word
