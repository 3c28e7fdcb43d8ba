"""What somebody sees who starts the broker on a terminal."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pamqp import commands

from tests.support.broker_process import READY_LINE
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_for

DEADLINE_S = 60.0
ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
FIELD = r"\w+=(?:'[^']*'|\"[^\"]*\"|\S+)"
LINE = re.compile(rf"\S+ \S+ \[\w+ *\] ([A-Z]{{3}}-\d{{4}} .*?)((?: +{FIELD})*) *")


class TerminalSession:
    """``hareline serve`` on a pseudo-terminal of its own."""

    def __init__(self, directory: Path) -> None:
        self._written = b""
        self._terminal, end = pty.openpty()
        command = [sys.executable, "-m", "hareline", "serve", "--bind", "127.0.0.1"]
        command += ["--port", "0", "--management-port", "0", "--data-dir", str(directory)]
        self._process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end)
        os.close(end)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):  # the other end is closed
            while octets := os.read(self._terminal, 65536):
                self._written += octets

    @property
    def text(self) -> str:
        return ESCAPE_SEQUENCE.sub("", self._written.decode()).replace("\r", "")

    def port(self) -> int:
        wait_for(lambda: "BRK-1004" in self.text, DEADLINE_S, "the ready line")
        found = READY_LINE.search(self.text)
        assert found is not None
        return int(found[1])

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return status

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join(DEADLINE_S)
        os.close(self._terminal)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[TerminalSession]:
    started = TerminalSession(tmp_path)
    try:
        yield started
    finally:
        started.end()


def is_word_of(value: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


def test_each_line_says_things_once(session: TerminalSession) -> None:
    with RawClient(("127.0.0.1", session.port())) as client:
        client.open()
        client.send(commands.Queue.Declare(queue="nope", passive=True))
        client.expect(commands.Channel.Close)
    wait_for(lambda: "CON-1004" in session.text, DEADLINE_S, "the lost connection")
    assert session.stop() == 0
    codes = []
    for line in session.text.splitlines():
        found = LINE.fullmatch(line)
        assert found is not None, line
        text, fields = found.groups()
        codes.append(text.partition(" ")[0])
        values = [field.partition("=")[2].strip("'\"") for field in re.findall(FIELD, fields)]
        said = text.partition(" ")[2]
        assert not [each for each in values if len(each) > 1 and is_word_of(each, said)], line
        assert "None" not in fields
    assert codes == [
        *("BRK-1001", "JRN-1001", "JRN-1003", "BRK-1002", "BRK-1002", "BRK-1004"),
        *("CON-1001", "CHN-1003", "CON-1004", "BRK-1003", "BRK-1005"),
    ]
