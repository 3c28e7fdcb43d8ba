"""How long `hareline` takes from the start of its process to its end.

``python -m benchmarks.cli_start``: runs some commands in turns, as whole processes of the Python
that runs this, with a server in a thread that answers lists at once. Prints one JSON object: for
each command the least and the median of the wall time and of the processor time, in milliseconds,
and whether the medians keep the limit. What the interpreter takes for nothing is there for
comparison, as `python`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

LIMIT_MS: Final = 250.0
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "version": ("version",),
    "help": ("--help",),
    "queues list --help": ("queues", "list", "--help"),
    "queues list": ("queues", "list"),
    "queue browse": ("queue", "browse", "q"),
    "status": ("status",),
    "completion": ("completion", "bash"),
}
_ANSWERS: Final = {
    "queues": {"items": [{"name": "q", "vhost": "/"}], "page_count": 1},
    "browse": {"messages": [], "position": None},
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        name = self.path.partition("?")[0].rpartition("/")[2]
        octets = json.dumps(_ANSWERS.get(name, {})).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(octets)))
        self.end_headers()
        self.wfile.write(octets)

    do_GET = do_POST = _answer  # noqa: N815 - the names are the library's

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


def run(arguments: tuple[str, ...], url: str) -> tuple[float, float]:
    """Wall and processor milliseconds of a process, which has to end well."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("HARELINE_")}
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        env={**kept, "HARELINE_URL": url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    wall_ms = (time.perf_counter() - began) * 1000
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)}: ended with {process.returncode}")
    return wall_ms, (used.ru_utime + used.ru_stime) * 1000


def measure(repetitions: int) -> dict[str, dict[str, float]]:
    """The figures of each command, which take turns."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    programs: dict[str, tuple[str, ...]] = {"python": ("-c", "")}
    programs |= {name: ("-m", "hareline", *words) for name, words in COMMANDS.items()}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    for number in range(repetitions + 1):
        for name, arguments in programs.items():
            taken = run(arguments, url)
            if number:  # the first one reads files for the others
                times[name].append(taken)
    server.shutdown()
    server.server_close()
    return {
        name: {
            "wall_min_ms": round(min(wall for wall, _ in taken), 1),
            "wall_median_ms": round(statistics.median(wall for wall, _ in taken), 1),
            "cpu_min_ms": round(min(cpu for _, cpu in taken), 1),
            "cpu_median_ms": round(statistics.median(cpu for _, cpu in taken), 1),
        }
        for name, taken in times.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=20)
    repetitions = parser.parse_args().repetitions
    if repetitions < 1:
        parser.error("--repetitions: should be at least 1")
    commands = measure(repetitions)
    is_kept = all(each["wall_median_ms"] < LIMIT_MS for each in commands.values())
    print(json.dumps({"limit_ms": LIMIT_MS, "is_kept": is_kept, "commands": commands}, indent=2))


if __name__ == "__main__":
    main()
