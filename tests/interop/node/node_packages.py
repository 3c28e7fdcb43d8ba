"""Packages of npm for the suites in JavaScript, installed once per version of their manifest."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ..suite_runs import CACHE, reason_line, run

INSTALL_TIMEOUT_S = 180
#: The first version whose runner takes a reporter of ours by path.
NODE_MINIMUM = (18, 15)


def installed_packages(sources: Path, name: str) -> Path:
    """The directory of what ``package.json`` there pins; skips the test where npm cannot."""
    version = run(["node", "--version"], cwd=sources, timeout_s=30).output.strip()
    if tuple(int(part) for part in version.lstrip("v").split(".")[:2]) < NODE_MINIMUM:
        pytest.skip(f"node {version} is older than {'.'.join(map(str, NODE_MINIMUM))}")
    manifest, place = sources / "package.json", CACHE / name
    stamp = place / "installed.json"
    if not stamp.exists() or stamp.read_text("utf-8") != manifest.read_text("utf-8"):
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(manifest, place)
        options = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
        installed = run(["npm", "install", *options], cwd=place, timeout_s=INSTALL_TIMEOUT_S)
        if installed.status != 0:
            pytest.skip(f"npm cannot install {name}: {reason_line(installed.output)}")
        shutil.copy(manifest, stamp)
    return place / "node_modules"
