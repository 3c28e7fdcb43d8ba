"""Run every test of the project, group by group: ``make acceptance``.

``acceptance.py java browser`` runs these groups; ``--continue`` leaves out those that are green on
this commit already. The results of each commit add up in ``.cache/acceptance/COMMIT.json``, and
beside it, as a table in Markdown, in ``COMMIT.md``. A group that fails does not stop the others.

The status is 0 if all groups that were asked for are green.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from tests.support.groups import HOUSE, group_of
from tests.support.results import FLAKY_MAX, counts

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / ".cache/acceptance"
#: pytest's statuses for a green run, and for a group of which all is skipped while collecting.
GREEN: Final = (0, 5)


def groups() -> dict[str, list[str]]:
    """Test files of each group, relative to the project."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        name = file.relative_to(ROOT).as_posix()
        if "node_modules" not in name:
            found.setdefault(group_of(name), []).append(name)
    found[HOUSE] = found.pop(HOUSE)  # it judges the seconds of the groups before it
    return found


def current_commit() -> str:
    """Digest of the commit, with "-changed" behind it where files differ from it."""
    asked = subprocess.run(
        ["git", "describe", "--always", "--abbrev=12", "--dirty=-changed", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return asked.stdout.strip()


def run_group(files: list[str], results: Path, log: Path) -> dict[str, Any]:
    """Run the tests of one group; its row, and what it printed in ``log``."""
    command = [sys.executable, "-m", "pytest", "-n", "auto", "--maxprocesses=8"]
    command += ["--dist", "loadscope", "--second-try", f"--results={results}", "--durations=15"]
    command += ["--hypothesis-profile=random", *files]
    results.unlink(missing_ok=True)
    begin = time.monotonic()
    with log.open("wb") as output:
        status = subprocess.run(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    row: dict[str, Any] = {"passed": 0, "failed": [], "flaky": {}, "skipped": {}}
    if results.exists():
        for read in json.loads(results.read_text("utf-8")).values():
            row |= read
    row["seconds"] = round(time.monotonic() - begin, 1)
    row["status"] = status
    row["green"] = status in GREEN and not row["failed"] and len(row["flaky"]) <= FLAKY_MAX
    return row


def table(rows: dict[str, dict[str, Any]]) -> str:
    """The rows in Markdown, with their sum, and then each failed and flaky test and skip."""
    lines = ["| group | passed | failed | flaky | skipped | seconds |", "|---|--:|--:|--:|--:|--:|"]
    cells = {group: (*counts(row), round(row["seconds"])) for group, row in rows.items()}
    cells["**all**"] = tuple(map(sum, zip(*cells.values(), strict=True)))  # type: ignore[assignment]
    lines += [f"| {group} | {' | '.join(map(str, row))} |" for group, row in cells.items()]
    lines.append("")
    for group, row in rows.items():
        if not row["green"] and not row["failed"]:
            lines.append(f"- {group}: pytest ended with {row['status']}")
        lines += [f"- failed: {nodeid}" for nodeid in row["failed"]]
        lines += [f"- flaky: {nodeid}: {error}" for nodeid, error in row["flaky"].items()]
        lines += [f"- {group}, {number} skipped: {why}" for why, number in row["skipped"].items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run what is asked for; argparse ends with 2 for a group that does not exist."""
    known = groups()
    parser = argparse.ArgumentParser(description="Run every test of the project, group by group.")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(known))
    parser.add_argument(
        "--continue", dest="continued", action="store_true", help="leave out what is green already"
    )
    options = parser.parse_args()
    unknown = [name for name in options.groups if name not in known]
    if unknown:
        parser.error(f"no group {' or '.join(unknown)}; the groups are {', '.join(known)}")
    chosen = options.groups or list(known)
    commit = current_commit()
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{commit}.json"
    rows: dict[str, dict[str, Any]] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    for number, group in enumerate(chosen, 1):
        if options.continued and rows.get(group, {}).get("green"):
            print(f"{group}: green already on {commit}", flush=True)
            continue
        print(f"{group} ({number} of {len(chosen)}) ...", end=" ", flush=True)
        log = FOLDER / f"{commit}-{group}.log"
        row = rows[group] = run_group(known[group], FOLDER / f"{group}.json", log)
        passed, failed, flaky, skipped = counts(row)
        print(
            f"{passed} passed, {failed} failed, {flaky} flaky, {skipped} skipped"
            f" in {row['seconds']:.0f} s" + ("" if row["green"] else f": RED, see {log}"),
            flush=True,
        )
        file.write_text(json.dumps(rows, indent=1), encoding="utf-8")
        file.with_suffix(".md").write_text(table(rows), encoding="utf-8")
    print("\n" + table({group: rows[group] for group in chosen}))
    return 0 if all(rows[group]["green"] for group in chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
