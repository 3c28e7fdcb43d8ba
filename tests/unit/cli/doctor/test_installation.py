"""Checks of settings, ports, files and the journal."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hareline.cli import doctor
from hareline.cli.doctor import Finding, Verdict
from hareline.cli.target import Flags, read_target
from hareline.settings import Settings
from hareline.storage.disk.directory import DataDirectory


def made(**tables: Any) -> Settings:
    return Settings.model_validate(tables)


def worst(found: Iterable[Finding]) -> Verdict:
    return max((each.verdict for each in found), key=list(Verdict).index)


def said(found: Iterable[Finding]) -> str:
    return "\n".join(f"{each.verdict}: {each.found} -> {each.remedy}" for each in found)


def test_problems_of_the_settings_are_findings(tmp_path: Path) -> None:
    file = tmp_path / "hareline.toml"
    file.write_text("[listener]\nprot = 1\n[log]\nlevel = 'loud'\n")
    reading, found = doctor.check_settings(file, {})
    assert reading is None
    assert len(found) == 2
    assert worst(found) is Verdict.error
    file.write_text("[listener]\nport = 1\n")
    reading, found = doctor.check_settings(file, {"HARELINE_LISTENER__PORT": "2"})
    assert reading is not None
    assert "HARELINE_LISTENER__PORT outweighs" in said(found)


def test_a_file_with_passwords_that_all_can_read_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "hareline.toml"
    file.write_text("[[users]]\nname = 'ann'\npassword = 'x'\n")
    for mode, verdict in ((0o644, Verdict.warning), (0o640, Verdict.ok)):
        file.chmod(mode)
        assert worst(doctor.check_settings(file, {})[1]) is verdict


def test_a_port_in_use_is_an_error_unless_the_broker_has_it() -> None:
    bind = "127.0.0.2"  # other processes take ports of 127.0.0.1
    with socket.create_server((bind, 0)) as taken:
        port = taken.getsockname()[1]
        settings = made(listener={"bind": bind, "port": port}, management={"enabled": False})
        found = list(doctor.check_ports(settings, is_broker_here=False))
        assert worst(found) is Verdict.error
        assert f"sport = :{port}" in said(found)
        assert worst(doctor.check_ports(settings, is_broker_here=True)) is Verdict.ok
    assert worst(doctor.check_ports(settings, is_broker_here=False)) is Verdict.ok


def test_an_address_that_is_not_here_is_an_error() -> None:
    settings = made(listener={"bind": "192.0.2.1", "port": 5672}, management={"enabled": False})
    found = list(doctor.check_ports(settings, is_broker_here=False))
    assert worst(found) is Verdict.error
    assert "listener.bind" in said(found)


def test_a_data_directory_that_will_be_made_is_fine(tmp_path: Path) -> None:
    settings = made(data_dir=str(tmp_path / "a" / "b"))
    assert "will be made" in said(doctor.check_data_directory(settings))


def test_a_data_directory_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.touch()
    found = doctor.check_data_directory(made(data_dir=str(file)))
    assert worst(found) is Verdict.error


def test_a_data_directory_for_all_users_is_a_warning(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert "chmod o=" in said(doctor.check_data_directory(made(data_dir=str(tmp_path))))
    tmp_path.chmod(0o750)
    assert "chmod" not in said(doctor.check_data_directory(made(data_dir=str(tmp_path))))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_data_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    found = doctor.check_data_directory(made(data_dir=str(tmp_path)))
    assert worst(found) is Verdict.error


def test_too_little_room_is_an_error(tmp_path: Path) -> None:
    settings = made(data_dir=str(tmp_path), disk={"free_watermark": 2**60})
    found = [each for each in doctor.check_data_directory(settings) if each.check == "disk"]
    assert worst(found) is Verdict.error


def test_memory_only_is_a_warning() -> None:
    found = doctor.check_data_directory(made(storage={"kind": "memory"}))
    assert worst(found) is Verdict.warning


def test_a_broker_that_has_the_directory_is_known_by_its_process(tmp_path: Path) -> None:
    settings = made(data_dir=str(tmp_path))
    assert doctor.broker_process(settings) is None
    held = DataDirectory(tmp_path)
    try:
        assert doctor.broker_process(settings) == os.getpid()
        found = list(doctor.check_journal(settings, is_broker_here=True))
        assert worst(found) is Verdict.note
    finally:
        held.close()
    assert doctor.broker_process(settings) is None


@pytest.mark.parametrize(
    ("host", "process", "is_it"),
    [("192.0.2.7", 7, True), ("192.0.2.7", 8, False), ("192.0.2.8", 7, False)],
)
def test_a_broker_at_the_address_of_the_settings_is_known_by_its_process(
    host: str, process: int, is_it: bool
) -> None:
    settings = made(management={"bind": "192.0.2.7"})
    target = read_target(Flags(url=f"http://{host}:15672"), {"HOME": "/"})
    assert doctor.is_broker_of(settings, target, process, {"os_pid": "7"}) is is_it


def test_no_journal_is_nothing_to_check(tmp_path: Path) -> None:
    settings = made(data_dir=str(tmp_path))
    assert list(doctor.check_journal(settings, is_broker_here=False)) == []
    assert doctor.newest_file_s(settings) is None


def test_a_journal_that_is_none_is_an_error_and_is_not_changed(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.mkdir()
    (journal / "readme").write_text("x")
    settings = made(data_dir=str(tmp_path))
    assert worst(doctor.check_journal(settings, is_broker_here=False)) is Verdict.error
    assert [each.name for each in journal.iterdir()] == ["readme"]
    assert doctor.newest_file_s(settings) is not None


@pytest.mark.parametrize(
    ("tables", "verdict"),
    [
        ({}, Verdict.ok),
        ({"listener": {"bind": "0.0.0.0"}}, Verdict.ok),
        ({"auth": {"loopback_users": []}}, Verdict.warning),
        ({"auth": {"loopback_users": []}, "listener": {"bind": "::"}}, Verdict.error),
        ({"management": {"bind": "0.0.0.0"}}, Verdict.warning),
        (
            {"users": [{"name": "ann", "password": "ann"}], "listener": {"bind": "0.0.0.0"}},
            Verdict.error,
        ),
    ],
)
def test_who_can_log_in_from_outside_with_a_known_password(
    tables: dict[str, Any], verdict: Verdict
) -> None:
    assert worst(doctor.check_exposure(made(**tables))) is verdict


def test_of_a_broker_that_runs_the_default_user_is_not_guessed() -> None:
    assert list(doctor.check_exposure(made(), is_broker_here=True)) == []
    assert "unless it was changed or deleted" in said(doctor.check_exposure(made()))


def test_ports_that_are_not_opened_are_not_checked() -> None:
    tables = {"listener": {"enabled": False}, "management": {"enabled": False}}
    settings = made(**tables, listeners=[{"port": 0}])
    assert [each.found for each in doctor.check_ports(settings, is_broker_here=False)] == [
        "listeners: the system chooses a port at each start"
    ]
    assert doctor.addresses_of(settings) == (None, None)


def test_a_user_with_a_password_of_its_own_is_no_finding() -> None:
    settings = made(users=[{"name": "ann", "password": "secret"}])
    assert list(doctor.check_exposure(settings)) == []
