"""The command in a process of its own: how it ends when a port or a directory cannot be had."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hareline import __version__
from hareline.compiled import build
from tests.support.command_line import CommandLine


def test_the_module_is_the_command() -> None:
    assert CommandLine()("version").text == f"hareline {__version__} (build: {build()})\n"


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("taken", "free"), [("--port", "--management-port"), ("--management-port", "--port")]
)
def test_a_port_in_use_ends_with_a_message(taken: str, free: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = str(occupied.getsockname()[1])
        done = CommandLine()("serve", taken, port, free, "0", "--data-dir", str(tmp_path))
    assert done.status == 1
    assert done.text == ""
    message = done.err.splitlines()[-1]
    assert message.startswith("hareline: ")
    assert "in use" in message.lower()


@pytest.mark.acceptance
def test_an_address_that_cannot_be_had_is_blamed_on_what_set_it(
    tmp_path: Path,
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        port, http_port = one.getsockname()[1], other.getsockname()[1]
        path = tmp_path / "hareline.toml"
        path.write_text(f"[listener]\nport = 0\n[[listeners]]\nport = {port}\n")
        command = CommandLine(HARELINE_MANAGEMENT__PORT=str(http_port), HARELINE_LOG__LEVEL="error")
        flags = ["--config", str(path), "--bind", "192.0.2.1", "--data-dir", str(tmp_path / "data")]
        by_flag = command("serve", *flags)
        by_variable = command("serve", *flags, "--bind", "127.0.0.1")
    assert (by_flag.status, by_variable.status) == (1, 1)
    in_file = f"hareline: {path}: listeners[0].port: cannot listen on 127.0.0.1:{port}: "
    assert by_flag.err.splitlines() == [
        "hareline: --bind: listener.bind: cannot listen on 192.0.2.1:0: "
        "not an address of this machine",
        f"{in_file}address already in use",
        f"hareline: --bind: management.bind: cannot listen on 192.0.2.1:{http_port}: "
        "not an address of this machine",
    ]
    assert by_variable.err.splitlines() == [
        f"{in_file}address already in use",
        "hareline: HARELINE_MANAGEMENT__PORT: management.port: "
        f"cannot listen on 127.0.0.1:{http_port}: address already in use",
    ]


@pytest.mark.acceptance
@pytest.mark.parametrize("within", ["", "data"], ids=["the file itself", "below a file"])
def test_a_data_directory_that_cannot_be_made_ends_with_a_message(
    tmp_path: Path, within: str
) -> None:
    file = tmp_path / "file"
    file.touch()
    place = file / within
    done = CommandLine().serve("--data-dir", str(place))
    assert done.status == 1
    assert done.err.splitlines()[-1] == f"hareline: {place}: not a directory"
