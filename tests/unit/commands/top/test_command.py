"""``hareline top``: a live screen on a terminal, one snapshot elsewhere."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

from tests.support.scripted_api import ScriptedApi
from tests.support.waiting import wait_for

from ..conftest import Run

DEADLINE_S = 60.0
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


class Session:
    """``hareline top`` on a pseudo-terminal of 80 columns and 24 rows."""

    def __init__(self, url: str) -> None:
        import fcntl
        import struct
        import termios

        self._octets = b""
        self._terminal, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environ = {
            name: text for name, text in os.environ.items() if name not in {"COLUMNS", "LINES"}
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hareline", "top", "--interval", "0.2", "--url", url],
            stdin=end,
            stdout=end,
            stderr=subprocess.PIPE,
            env={**environ, "TERM": "xterm"},
        )
        os.close(end)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):
            while octets := os.read(self._terminal, 65536):
                self._octets += octets

    @property
    def octets(self) -> bytes:
        return self._octets

    def shows(self, text: str) -> None:
        def is_there() -> Any:
            return text in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._octets.decode())

        wait_for(is_there, DEADLINE_S, f"'{text}' on the screen")

    def press(self, key: str) -> None:
        os.write(self._terminal, key.encode())

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(DEADLINE_S)
        os.close(self._terminal)
        assert self.process.stderr is not None
        self.process.stderr.close()


def test_a_terminal_is_drawn_on_until_q(api: ScriptedApi) -> None:
    answering(api)
    session = Session(api.url)
    try:
        session.shows("orders")
        session.shows("queues by in")
        session.press("r")
        session.shows("queues by ready")
        session.press("\t")
        session.shows("somebody")
        session.press("q")
        assert session.process.wait(DEADLINE_S) == 0
    finally:
        session.end()
    # The screen of before is shown again.
    assert session.octets.rindex(b"\x1b[?1049l") > session.octets.rindex(b"somebody")


def test_ctrl_c_ends_with_130_and_no_traceback(api: ScriptedApi) -> None:
    answering(api)
    session = Session(api.url)
    try:
        session.shows("orders")
        session.process.send_signal(signal.SIGINT)
        assert session.process.wait(DEADLINE_S) == 130
        assert session.process.stderr is not None
        assert session.process.stderr.read() == b""
    finally:
        session.end()
