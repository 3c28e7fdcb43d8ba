"""``python -m tests.fuzz``: search for inputs that a target has not seen, and keep what they are.

Each target has a directory in ``.cache/fuzz`` in which its search goes on the next time. What fails
is written there, and the command that runs it again is printed. With ``--keep`` the smallest inputs
that reach as much as all of them become the target's corpus, which the suite runs
(``test_corpus``).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tests.fuzz.corpus import read_corpus, read_files, write_corpus, write_files
from tests.fuzz.targets import NAMES, target_of

ROOT: Final = Path(__file__).resolve().parents[2]
WORK: Final = ROOT / ".cache" / "fuzz"
#: A search whose process has grown beyond this has found a leak.
MEMORY_MIB: Final = 4096


def main() -> int:
    """Status 1 if a target failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("names", nargs="*", metavar="target", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--seconds", type=int, default=600, help="for each target (600); 0: none")
    parser.add_argument("--keep", action="store_true", help="write tests/fuzz/corpus")
    parser.add_argument("--run", type=Path, metavar="FILE", help="run this input, and no search")
    given = parser.parse_args()
    names = given.names or NAMES
    if unknown := set(names) - set(NAMES):
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    if given.run is None and find_spec("atheris") is None:
        parser.error("needs atheris (PyPI), which is not installed")
    if given.run is not None:
        if len(names) != 1:
            parser.error("--run needs one target")
        target_of(names[0]).run(given.run.read_bytes())
        return 0
    failed = [name for name in names if not search(name, given.seconds)]
    if given.keep:
        for name in names:
            keep(name)
    for name in failed:
        for path in sorted((WORK / name).glob("*-*")):
            print(f"{name} fails: {sys.executable} -m tests.fuzz {name} --run {path}")
    return 1 if failed else 0


def search(name: str, seconds: int) -> bool:
    """Search for so long; False if the target failed."""
    directory = WORK / name
    shutil.rmtree(directory / "seeds", ignore_errors=True)
    write_files(directory / "seeds", [*target_of(name).seeds(), *read_corpus(name)])
    (directory / "inputs").mkdir(exist_ok=True)
    if not seconds:  # which libFuzzer would take as no limit
        return True
    print(f"{name}: {seconds} s", flush=True)
    status = _libfuzzer(
        name,
        f"-max_total_time={seconds}",
        f"-artifact_prefix={directory}/",
        f"-rss_limit_mb={MEMORY_MIB}",
        "-print_final_stats=1",
        str(directory / "inputs"),
        str(directory / "seeds"),
    )
    return status == 0


def keep(name: str) -> None:
    """Make what has been found, with what was kept, the corpus: the smallest that reach as much."""
    directory = WORK / name
    merged = directory / "merged"
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir()
    status = _libfuzzer(
        name, "-set_cover_merge=1", str(merged), str(directory / "seeds"), str(directory / "inputs")
    )
    assert status == 0, f"libFuzzer ended with {status}"
    print(f"{name}: {write_corpus(name, read_files(merged))} inputs kept")


def _libfuzzer(name: str, *arguments: str) -> int:
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.fuzz.search", name, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
