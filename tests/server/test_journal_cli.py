"""``hareline journal`` as it is called: what it prints, its status, and what it leaves alone."""

from __future__ import annotations

import fcntl
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hareline.cli.root import root
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import BATCH_SIZE
from hareline.storage.journal.format.positions import segment_name
from tests.support.broker_process import StartDaemon
from tests.support.command_line import CommandLine
from tests.support.segments import SegmentWriter, clean, message, settle


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Two segments, a lock that nobody holds, and a queue's name."""
    with closing(sqlite3.connect(tmp_path / "definitions.sqlite")) as database:
        database.execute("CREATE TABLE queues (id INTEGER PRIMARY KEY, vhost, name)")
        database.execute("INSERT INTO queues VALUES (1, '/', 'work')")
        database.execute("CREATE TABLE journal (id INTEGER PRIMARY KEY, newest_segment INTEGER)")
        database.execute("INSERT INTO journal VALUES (1, 2)")
        database.commit()
    (tmp_path / "lock").touch()
    journal = SegmentWriter(Files(), str(tmp_path / "journal"))
    journal.begin(1)
    journal.batch(message((1, 0)), message((1, 1)))
    journal.batch(settle((1, 0, 1)))
    journal.begin(2)
    journal.batch(message((1, 2)), clean())
    journal.close()
    return tmp_path


def _run(*arguments: str, **environ: str) -> Result:
    return CliRunner().invoke(root, ["journal", *arguments], env=environ)


def _damage(data_dir: Path, number: int = 1) -> None:
    """The first message of a segment."""
    path = data_dir / "journal" / segment_name(number)
    octets = bytearray(path.read_bytes())
    start = octets.index(b"\xb1HLBATCH") - 9
    octets[start + BATCH_SIZE + 30] ^= 1
    path.write_bytes(bytes(octets))


def _note_newest(data_dir: Path, number: int) -> None:
    with closing(sqlite3.connect(data_dir / "definitions.sqlite")) as database:
        database.execute("UPDATE journal SET newest_segment = ?", (number,))
        database.commit()


def _tree(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_dump_prints_a_line_for_each_record(data_dir: Path) -> None:
    result = _run("dump", str(data_dir))
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split()[1] for line in result.stdout.splitlines()] == [
        *("BATCH", "MESSAGE", "MESSAGE", "BATCH", "SETTLE"),
        *("BATCH", "MESSAGE", "CLEAN"),
    ]


def test_dump_prints_objects(data_dir: Path) -> None:
    result = _run("dump", "--json", "--content", str(data_dir / "journal"))
    assert result.exit_code == 0
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines[1]["entries"] == [{"queue_id": 1, "offset": 0}]
    assert "content" in lines[1]


def test_content_is_for_objects_only(data_dir: Path) -> None:
    result = _run("dump", "--content", str(data_dir))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "--json" in result.stderr


def test_dump_says_what_it_cannot_read(data_dir: Path) -> None:
    _damage(data_dir)
    result = _run("dump", str(data_dir))
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 7
    assert "checksum does not match" in result.stderr


def test_verify_of_a_sound_journal(data_dir: Path) -> None:
    before = _tree(data_dir)
    result = _run("verify", str(data_dir))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-2:] == [
        "3 batches with 5 records: 3 MESSAGE, 1 SETTLE, 1 CLEAN",
        "no damage",
    ]
    assert _tree(data_dir) == before


def test_verify_of_a_damaged_one_names_file_offset_and_queue(data_dir: Path) -> None:
    _damage(data_dir)
    before = _tree(data_dir)
    result = _run("verify", str(data_dir))
    assert result.exit_code == 1
    path = data_dir / "journal" / segment_name(1)
    assert f"{path}, offset {48 + BATCH_SIZE}, " in result.stdout
    assert result.stdout.splitlines()[-1] == (
        "lost of queue id 1: 1 entries, offsets 0 (queue 'work' in vhost '/')"
    )
    assert _tree(data_dir) == before


def test_verify_takes_a_torn_tail_for_what_it_is(data_dir: Path) -> None:
    _note_newest(data_dir, 1)
    path = data_dir / "journal" / segment_name(2)
    octets = path.read_bytes()
    path.write_bytes(octets.rstrip(b"\0")[:-3])
    result = _run("verify", str(data_dir))
    assert result.exit_code == 0
    assert "torn tail" in result.stdout
    assert result.stdout.splitlines()[-1] == "no damage"


@pytest.mark.parametrize("way", ["skip", "truncate"])
def test_repair_says_what_it_would_do_and_does_it_when_told_to(data_dir: Path, way: str) -> None:
    _damage(data_dir)
    before = _tree(data_dir)
    result = _run("repair", "--way", way, str(data_dir))
    assert result.exit_code == 1
    assert "nothing was changed; --apply does it" in result.stdout
    assert "(queue 'work' in vhost '/')" in result.stdout
    assert _tree(data_dir) == before

    result = _run("repair", "--way", way, "--apply", str(data_dir))
    assert (result.exit_code, result.stderr) == (0, "")
    removed = data_dir / "journal" / "removed-1"
    assert result.stdout.splitlines()[-1] == f"done; the previous files are in {removed}"
    for name, octets in _tree(removed).items():
        assert octets == before[f"journal/{name}"]
    assert _run("verify", str(data_dir)).exit_code == 0
    kinds = [line.split()[1] for line in _run("dump", str(data_dir)).stdout.splitlines()]
    assert len(kinds) == 8 if way == "skip" else kinds == ["BATCH", "GAP"]


@pytest.mark.parametrize("takes_all", [False, True])
def test_the_newest_segment_is_missed_and_replaced(data_dir: Path, takes_all: bool) -> None:
    path = data_dir / "journal" / segment_name(2)
    path.unlink()
    if takes_all:
        shutil.rmtree(data_dir / "journal")
        result = _run("verify", str(data_dir))
        assert (result.exit_code, result.stdout) == (1, "")
        assert "no such directory; `repair --apply` makes an empty one" in result.stderr
    else:
        result = _run("verify", str(data_dir))
        assert result.exit_code == 1
        assert f"{path}: the file of the newest segment is missing\n" in result.stdout
        assert "what was in 1 of these places cannot be told: there may be more" in result.stdout
    result = _run("repair", "--apply", str(data_dir))
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"{path}: written again" in result.stdout
    assert _run("verify", str(data_dir)).exit_code == 0
    left = len(_run("dump", str(data_dir)).stdout.splitlines())
    assert left == (2 if takes_all else 5 + 2)


def test_repair_of_a_sound_journal_does_nothing(data_dir: Path) -> None:
    before = _tree(data_dir)
    result = _run("repair", "--apply", str(data_dir))
    assert (result.exit_code, result.stdout) == (0, "no damage, nothing to do\n")
    assert _tree(data_dir) == before


@pytest.mark.parametrize("command", [("dump",), ("verify",), ("repair",), ("repair", "--apply")])
def test_a_running_broker_s_journal_is_left_alone(data_dir: Path, command: tuple[str, ...]) -> None:
    with (data_dir / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = _run(*command, str(data_dir))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"hareline: {data_dir}: a running broker uses it; stop that first\n"


@pytest.mark.acceptance
@pytest.mark.parametrize("command", [("dump",), ("verify",), ("repair",), ("repair", "--apply")])
@pytest.mark.parametrize("way", ["lock removed", "by another path"])
def test_a_real_broker_s_journal_is_left_alone(
    start_daemon: StartDaemon, tmp_path: Path, command: tuple[str, ...], way: str
) -> None:
    data_dir = start_daemon().data_dir
    directory = data_dir
    if way == "lock removed":
        (data_dir / "lock").unlink()
    else:
        directory = tmp_path / "elsewhere"
        directory.symlink_to(data_dir / "journal")
    result = _run(*command, str(directory))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "a running broker uses it; stop that first" in result.stderr


@pytest.mark.parametrize("command", ["dump", "verify", "repair"])
def test_what_is_no_journal_is_a_sentence(tmp_path: Path, command: str) -> None:
    missing = tmp_path / "missing"
    result = _run(command, str(missing))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"hareline: {missing}: no such directory\n"

    result = _run(command, str(tmp_path))
    assert result.exit_code == 1
    assert result.stderr == f"hareline: {tmp_path}: not a journal: no file in it is a segment\n"

    file = tmp_path / "file"
    file.touch()
    result = _run(command, str(file))
    assert result.exit_code == 1
    assert result.stderr == f"hareline: {file}: not a directory\n"


def test_another_version_is_refused_by_its_name(data_dir: Path) -> None:
    fixtures = Path(__file__).parents[1] / "crash" / "fixtures" / "version-99"
    path = data_dir / "journal" / segment_name(3)
    path.write_bytes((fixtures / f"{1:016x}.segment").read_bytes())
    result = _run("verify", str(data_dir))
    assert result.exit_code == 1
    assert result.stderr == (
        f"hareline: {path}: journal format version 99; this build reads version 3\n"
    )


def test_a_file_that_may_not_be_read_is_a_sentence(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(files: Files, path: str) -> int:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(Files, "open_to_read", refuse)
    result = _run("verify", str(data_dir))
    path = data_dir / "journal" / segment_name(1)
    assert (result.exit_code, result.stderr) == (1, f"hareline: {path}: Permission denied\n")


def test_without_a_directory_the_settings_say_which(data_dir: Path) -> None:
    assert _run("verify", HARELINE_DATA_DIR=str(data_dir)).exit_code == 0
    result = _run("verify", HARELINE_DATA_DIR=str(data_dir / "none"))
    assert result.stderr == f"hareline: {data_dir / 'none'}: no such directory\n"


def test_a_definitions_file_that_is_none_does_no_harm(data_dir: Path) -> None:
    _damage(data_dir)
    (data_dir / "definitions.sqlite").write_bytes(b"no database at all")
    result = _run("verify", str(data_dir))
    assert result.exit_code == 1
    assert "queues are shown by their ids" in result.stderr
    assert result.stdout.splitlines()[-1] == "lost of queue id 1: 1 entries, offsets 0"


@pytest.mark.acceptance
def test_as_a_process(data_dir: Path) -> None:
    _damage(data_dir)
    done = CommandLine()("journal", "verify", str(data_dir))
    assert (done.status, done.err) == (1, "")
    assert "damaged in 1 place, " in done.text
