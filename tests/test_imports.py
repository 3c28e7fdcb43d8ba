"""What is quick to start imports nothing that is slow to import.

Names of modules are compared, not times: what was imported by mistake is then named.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BROKER = {
    "hareline.amqp",
    "hareline.server.assemble",
    "hareline.broker",
    "hareline.server.daemon",
    "hareline.logs",
    "hareline.management",
    "hareline.net",
    "hareline.server.recovery",
    "hareline.reporting",
    "hareline.server.broker",
    "hareline.storage",
    "hareline.wire.decoder",
    "pamqp",
    "sqlite3",
    "starlette",
    "structlog",
    "uvicorn",
    "uvloop",
}
SETTINGS = {"hareline.settings", "pydantic", "pydantic_core"}
HELP = {"rich.console", "rich.markdown"}
SPARK = {"pyspark", "pyarrow", "py4j"}
#: What only some commands of the client need.
CLIENT = {"http.client", "pika", "ssl", "multiprocessing", "hareline.cli.spark"}
#: Modules that parsing a command line and printing help may import, the interpreter's own included.
MODULES_MAX = 330


def modules_after(code: str, *arguments: str) -> set[str]:
    """The modules of a new interpreter at its end, which must be one without an error."""
    code = f"""
import atexit, sys
atexit.register(lambda: print("", *sys.modules, sep="\\n", file=sys.stderr))
{code}
"""
    environ = {name: text for name, text in os.environ.items() if not name.startswith("HARELINE_")}
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environ,
    )
    assert run.returncode == 0, run.stderr
    return set(run.stderr.split())


def modules_of_command(*arguments: str) -> set[str]:
    return modules_after("from hareline.cli import main; main()", *arguments)


@pytest.mark.parametrize("argument", ["version", "--version"])
def test_the_version_is_printed_without_settings(argument: str) -> None:
    assert not modules_of_command(argument) & (BROKER | SETTINGS | HELP)


@pytest.mark.parametrize(
    "arguments",
    [
        *(("--help",), ("version", "--help"), ("journal", "--help"), ("replay", "--help")),
        *(("spark", "--help"), ("spark", "archive", "--help"), ("spark", "replay", "--help")),
    ],
)
def test_help_is_printed_without_the_broker_and_spark(arguments: tuple[str, ...]) -> None:
    assert not modules_of_command(*arguments) & (BROKER | SPARK)


@pytest.mark.parametrize("arguments", [("--help",), ("version", "--help")])
def test_help_that_names_no_option_is_printed_without_settings(arguments: tuple[str, ...]) -> None:
    assert not modules_of_command(*arguments) & SETTINGS


@pytest.mark.parametrize("arguments", [("check-config",), ("config-sample",), ("serve", "--help")])
def test_settings_are_read_without_the_broker(arguments: tuple[str, ...]) -> None:
    modules = modules_of_command(*arguments)
    assert "hareline.settings" in modules
    assert not modules & BROKER


@pytest.mark.parametrize("arguments", [("--help",), ("version",), ("queues", "list", "--help")])
def test_help_imports_no_client_and_not_much(arguments: tuple[str, ...]) -> None:
    modules = modules_of_command(*arguments)
    assert not modules & (CLIENT | SETTINGS | BROKER)
    assert len(modules) < MODULES_MAX, sorted(modules)


def test_a_list_is_asked_for_without_pydantic_pika_and_rich_tables() -> None:
    answer = b'{"items":[{"name":"q"}],"page_count":1}'
    code = f"""
import socket, sys, threading
listener = socket.create_server(("127.0.0.1", 0))
def serve():
    connection, _ = listener.accept()
    connection.recv(65536)
    head = b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len({answer!r})
    connection.sendall(head + {answer!r})
threading.Thread(target=serve, daemon=True).start()
sys.argv += ["--url", "http://127.0.0.1:%d" % listener.getsockname()[1]]
from hareline.cli import main; main()
"""
    modules = modules_after(code, "queues", "list")
    assert "http.client" in modules
    assert not modules & (SETTINGS | BROKER | {"pika", "rich.table", "rich.console"})


@pytest.mark.parametrize("module", ["hareline", "hareline.testing"])
def test_what_a_test_suite_imports_comes_without_the_broker(module: str) -> None:
    assert not modules_after(f"import {module}") & (BROKER | SETTINGS)


def test_the_pytest_plugin_imports_nothing_of_the_package() -> None:
    modules = modules_after("import hareline.pytest_plugin")
    assert {name for name in modules if name.startswith("hareline.")} == {"hareline.pytest_plugin"}
    assert not modules & (BROKER | SETTINGS)


def test_an_import_in_the_measured_program_is_seen() -> None:
    assert {"hareline.settings", "pydantic"} <= modules_after("import hareline.settings")


def test_the_first_requests_wait_for_no_import() -> None:
    """Those of the client's side are imported before."""
    code = """
import base64, encodings.idna, http.client, sys, urllib.request
from tests.support.api_broker import PASSWORD, api_broker, api_settings
key = base64.b64encode(f"admin:{PASSWORD}".encode()).decode()
with api_broker(api_settings()) as broker:
    url = broker.thread.ask(lambda inside: inside.management_url).rstrip("/")
    before = set(sys.modules)
    for path in ("/", "/metrics", "/api/overview", "/api/queues", "/api/definitions"):
        request = urllib.request.Request(url + path, headers={"Authorization": f"Basic {key}"})
        urllib.request.urlopen(request).read()
    print(*sorted(set(sys.modules) - before))
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (run.returncode, run.stdout) == (0, "\n"), run.stderr
