"""What somebody sees who starts the broker on a terminal."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands

from tests.support.broker_process import READY_LINE
from tests.support.raw_client import RawClient
from tests.support.terminal import TerminalProcess
from tests.support.waiting import wait_for

DEADLINE_S = 60.0
FIELD = r"\w+=(?:'[^']*'|\"[^\"]*\"|\S+)"
LINE = re.compile(rf"\S+ \S+ \[\w+ *\] ([A-Z]{{3}}-\d{{4}} .*?)((?: +{FIELD})*) *")


class TerminalSession(TerminalProcess):
    """``hareline serve`` on a pseudo-terminal of its own."""

    def __init__(self, directory: Path) -> None:
        ports = ["--bind", "127.0.0.1", "--port", "0", "--management-port", "0"]
        super().__init__("serve", *ports, "--data-dir", str(directory))

    def port(self) -> int:
        wait_for(lambda: "BRK-1004" in self.text, DEADLINE_S, "the ready line")
        found = READY_LINE.search(self.text)
        assert found is not None
        return int(found[1])

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.wait()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[TerminalSession]:
    with TerminalSession(tmp_path) as started:
        yield started


def is_word_of(value: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


@pytest.mark.acceptance
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
