"""``hareline`` as users run it: a process, its output, its status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

DEADLINE_S = 120.0


@dataclass
class Done:
    """How a command ended."""

    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The lines that a script gets, by their tabs."""
        return [line.split("\t") for line in self.text.splitlines()]


class CommandLine:
    """Runs commands with some variables."""

    def __init__(self, **environ: str) -> None:
        kept = {name: text for name, text in os.environ.items() if not name.startswith("HARELINE_")}
        self.environ = {**kept, **environ}

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """A process that runs meanwhile."""
        return subprocess.Popen(
            [sys.executable, "-m", "hareline", *arguments],
            env=self.environ,
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )

    def __call__(self, *arguments: str, text: str | bytes | None = None) -> Done:
        process = self.start(*arguments, stdin=subprocess.PIPE)
        content = text.encode() if isinstance(text, str) else text
        try:
            out, err = process.communicate(content, timeout=DEADLINE_S)
        except BaseException:
            process.kill()
            process.communicate()
            raise
        done = Done(process.returncode, out, err.decode())
        assert "Traceback" not in done.err, done.err
        return done

    def serve(self, *flags: str) -> Done:
        """A daemon on free ports, where it is expected to end by itself."""
        return self("serve", "--port", "0", "--management-port", "0", *flags)

    def ok(self, *arguments: str, text: str | bytes | None = None) -> Done:
        """As a call, of a command that must end well and say nothing on standard error."""
        done = self(*arguments, text=text)
        assert (done.status, done.err) == (0, ""), (arguments, done)
        return done
