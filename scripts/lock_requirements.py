"""Pin what the container image and `make install` install, with hashes: ``make lock``.

``requirements/run.txt`` has what the broker needs at run time, ``build.txt`` what the build of its
compiled wheel needs as well, ``dev.txt`` what developing needs, and ``spark.txt`` what Spark needs
beside that. Each holds for every Python that the project runs on. Run it after a change of the
dependencies, and now and then for newer versions; ``tests/test_requirements.py`` holds the files to
``pyproject.toml``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "requirements"

#: Lock file -> what it is made of, and the lock file made before it whose versions it shares.
SOURCES: Final = {
    "build.txt": (["requirements/build.in"], None),
    "run.txt": ([], "build.txt"),
    "spark.txt": (["requirements/build.in", "--extra", "dev", "--extra", "spark"], None),
    "dev.txt": (["requirements/build.in", "--extra", "dev"], "spark.txt"),
}
OPTIONS: Final = [
    "--quiet",
    "--universal",
    "--python-version=3.11",
    "--generate-hashes",
    "--no-header",
    "--no-emit-index-url",
]


def compiled(sources: list[str], constraints: str | None) -> str:
    """The pins of the package and of ``sources``."""
    command = [sys.executable, "-m", "uv", "pip", "compile", *OPTIONS, "pyproject.toml", *sources]
    if constraints is not None:
        command += ["--constraint", str(FOLDER / constraints)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return re.sub(r"^ +# .*\n", "", done.stdout, flags=re.MULTILINE)  # names of files and paths


def entries(pins: str) -> list[str]:
    """One text for each package: its pin, and its hashes in the lines after it."""
    return re.split(r"^(?=[a-z0-9])", pins, flags=re.MULTILINE | re.IGNORECASE)[1:]


def main() -> int:
    """Write all files; the status of the first command that fails."""
    try:
        for name, (sources, constraints) in SOURCES.items():
            (FOLDER / name).write_text(compiled(sources, constraints), encoding="utf-8")
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    spark, developing = FOLDER / "spark.txt", set(entries((FOLDER / "dev.txt").read_text("utf-8")))
    kept = [each for each in entries(spark.read_text("utf-8")) if each not in developing]
    spark.write_text("".join(kept), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
