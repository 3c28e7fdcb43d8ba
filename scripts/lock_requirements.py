"""Pin what the container image installs, each file with its hashes: ``make lock``.

``requirements/run.txt`` has what the broker needs at run time, ``requirements/build.txt`` what the
build of its compiled wheel needs as well. Run it after a change of the dependencies, and now and
then for newer versions; ``tests/test_requirements.py`` holds both files to ``pyproject.toml``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "requirements"

#: Lock file -> what it is made of.
SOURCES = {"run.txt": ["pyproject.toml"], "build.txt": ["pyproject.toml", "requirements/build.in"]}
OPTIONS = [
    "--quiet",
    "--upgrade",
    "--generate-hashes",
    "--allow-unsafe",  # setuptools
    "--strip-extras",
    "--no-header",
    "--no-emit-index-url",
    "--no-emit-trusted-host",
    "--no-emit-find-links",
]


def main() -> int:
    """Write both files; the status of the first command that fails."""
    # Wheels that lie about on this machine may be builds of its own, with other hashes.
    environment = {**os.environ, "PIP_FIND_LINKS": "", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    for name, sources in SOURCES.items():
        command = [sys.executable, "-m", "piptools", "compile", *OPTIONS]
        command += ["--output-file", str(FOLDER / name), *sources]
        status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
