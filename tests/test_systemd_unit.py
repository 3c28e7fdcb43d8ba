"""The sandbox of the systemd unit, as systemd itself counts what a service is exposed to."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).resolve().parent.parent / "config" / "hareline.service"
#: In tenths; 0 is nothing at all, 100 a service without a sandbox. It needs the network and files.
EXPOSURE_MAX = 12


def test_systemd_counts_the_unit_as_hardly_exposed() -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    finished = subprocess.run(
        [program, "security", "--offline=yes", f"--threshold={EXPOSURE_MAX}", "--no-pager", UNIT],
        capture_output=True,
        text=True,
        check=False,
    )
    if "--offline" in finished.stderr:
        pytest.skip("this systemd cannot look at a file")
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr


def test_the_unit_names_no_root_and_lets_it_write_its_own_directory_only() -> None:
    lines = UNIT.read_text(encoding="utf-8").splitlines()
    options = dict(line.split("=", 1) for line in lines if "=" in line and line[0] not in "#[")
    assert options["User"] == options["StateDirectory"] == "hareline"
    assert options["ProtectSystem"] == "strict"
    assert options["CapabilityBoundingSet"] == ""
    assert "ReadWritePaths" not in options
