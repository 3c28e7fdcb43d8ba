"""Run all micro-benchmarks, or those that are named, each in a process of its own.

    python -m benchmarks.micro [NAME ...] [--json FILE] [--repetitions N] [--list]

NAME is a file without ``bench_`` and ``.py``. The JSON file holds what each of them would write,
under its name. Exit status 1 if one of them failed; the others still run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = "benchmarks.micro"
PREFIX = "bench_"


def names() -> list[str]:
    """The benchmarks there are, sorted."""
    return sorted(path.stem.removeprefix(PREFIX) for path in HERE.glob(f"{PREFIX}*.py"))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.list:
        print("\n".join(names()))
        return 0
    chosen: list[str] = options.names or names()
    flags = [] if options.repetitions is None else ["--repetitions", str(options.repetitions)]
    records: dict[str, object] = {}
    failed: list[str] = []
    for name in chosen:
        print(f"\n{name}", flush=True)
        record = run(name, flags)
        if record is None:
            failed.append(name)
        else:
            records[name] = record
    if options.json is not None:
        options.json.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def run(name: str, flags: Sequence[str]) -> object | None:
    """Run one benchmark, which prints its lines; returns its record, or None when it failed."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "record.json"
        command = [sys.executable, "-m", f"{PACKAGE}.{PREFIX}{name}", "--json", str(file), *flags]
        if subprocess.run(command, cwd=HERE.parent.parent, check=False).returncode != 0:
            return None
        record: object = json.loads(file.read_text(encoding="utf-8"))
        return record


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.micro")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these", type=_known)
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all results here")
    parser.add_argument("--repetitions", type=int, metavar="N", help="times each case is run")
    return parser


def _known(name: str) -> str:
    if name not in names():
        raise argparse.ArgumentTypeError(f"no benchmark {name!r}; there are {', '.join(names())}")
    return name


if __name__ == "__main__":
    sys.exit(main())
