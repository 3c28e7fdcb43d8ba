"""The commands: what they print, where, and with which exit status; never a traceback."""

from __future__ import annotations

import errno
import os
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hareline import __version__, logs
from hareline.auth.passwords import verify_password
from hareline.auth.scram import ScramKeys, derive_keys
from hareline.cli.catalogue import ROWS
from hareline.cli.root import root
from hareline.compiled import build
from hareline.errors import ConfigurationError, StoreError
from hareline.settings import Settings
from hareline.settings.reference import option_help, sample
from tests.support.authority import Files

Serve = Callable[..., int]


@pytest.fixture(autouse=True)
def _only_the_environment_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in list(os.environ):
        if variable.startswith("HARELINE_"):
            monkeypatch.delenv(variable)


@pytest.fixture
def replace_server(monkeypatch: pytest.MonkeyPatch) -> Callable[[Serve], None]:
    """The broker itself is the server's; here it is enough to see what it is given."""
    monkeypatch.setattr(logs, "configure", lambda *_: None)

    def replace(serve: Serve) -> None:
        module = types.ModuleType("hareline.server.daemon")
        module.serve = serve  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "hareline.server.daemon", module)

    return replace


def _run(*arguments: str, text: str | None = None, **environ: str) -> Result:
    return CliRunner().invoke(root, arguments, input=text, env=environ)


def _file(directory: Path, text: str) -> str:
    path = directory / "hareline.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("argument", ["version", "--version"])
def test_version_is_the_package_s(argument: str) -> None:
    result = _run(argument)
    assert (result.exit_code, result.stdout) == (0, f"hareline {__version__} (build: {build()})\n")


@pytest.mark.parametrize(
    "option",
    ["listener.bind", "listener.port", "management.port", "data_dir", "log.level"],
)
def test_help_of_serve_says_what_the_option_behind_a_flag_means(option: str) -> None:
    result = _run("serve", "--help", COLUMNS="400")
    assert option_help(option) in " ".join(result.stdout.split())
    assert "{" not in result.stdout


def test_config_sample_prints_the_sample_and_nothing_else() -> None:
    result = _run("config-sample")
    assert (result.exit_code, result.stdout, result.stderr) == (0, sample(), "")


def test_check_config_says_ok_for_a_good_file(tmp_path: Path) -> None:
    path = _file(tmp_path, "[listener]\nport = 5673\n")
    result = _run("check-config", path)
    assert (result.exit_code, result.stdout) == (0, f"{path}: ok\n")


def test_check_config_without_a_file_checks_the_environment() -> None:
    assert _run("check-config").exit_code == 0
    result = _run("check-config", HARELINE_LISTENER__PORT="amqp")
    assert result.exit_code == 1
    assert result.stderr.startswith("HARELINE_LISTENER__PORT: listener.port: ")


def test_check_config_reads_the_file_that_the_environment_names(tmp_path: Path) -> None:
    path = _file(tmp_path, "")
    assert _run("check-config", HARELINE_CONFIG=path).stdout == f"{path}: ok\n"


def test_check_config_names_every_problem_with_file_and_key(tmp_path: Path) -> None:
    path = _file(tmp_path, "[listener]\nprot = 1\n[[users]]\nname = 'ann'\n")
    result = _run("check-config", path)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"{path}: listener.prot: unknown option; did you mean port?",
        f"{path}: users[0]: Exactly one of password and password_hash should be given",
    ]


def test_check_config_reads_the_certificates(tmp_path: Path) -> None:
    path = _file(tmp_path, f'[tls]\ncertificate = "{tmp_path}/server.pem"\n')
    result = _run("check-config", path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.strip() == (
        f"hareline: {path}: tls.certificate: {tmp_path}/server.pem: cannot be read: "
        "No such file or directory"
    )
    files = Files(tmp_path)
    certificate, key = files.server(), files.pair("server")[1]
    certificate.write_bytes(certificate.read_bytes() + Path(key).read_bytes())
    assert _run("check-config", path).exit_code == 0


def test_check_config_lists_what_the_environment_sets(tmp_path: Path) -> None:
    path = _file(tmp_path, "[listener]\nport = 5673\n")
    environ = {"HARELINE_LISTENER__PORT": "5674", "HARELINE_LOG__LEVEL": "error"}
    assert _run("check-config", path, **environ).stdout.splitlines() == [
        f"{path}: ok",
        f"listener.port: from HARELINE_LISTENER__PORT, which outweighs {path}",
        "log.level: from HARELINE_LOG__LEVEL",
    ]


def test_a_long_problem_stays_on_one_line(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 100)
    directory.mkdir()
    result = _run("check-config", _file(directory, "[log]\nlevel = 'loud'\n"), COLUMNS="40")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("algorithm", ["argon2id", "sha256", "sha512", "md5"])
def test_hash_password_reads_a_line_and_prints_what_verifies(algorithm: str) -> None:
    result = _run("hash-password", "--algorithm", algorithm, text="pässword \nnext line\n")
    assert result.exit_code == 0
    (stored,) = result.stdout.splitlines()
    assert verify_password("pässword ", stored, algorithm)


def test_hash_password_prints_scram_keys() -> None:
    result = _run("hash-password", "--scram", text="pässword \nnext line\n")
    assert result.exit_code == 0
    (line,) = result.stdout.splitlines()
    keys = ScramKeys.parse(line)
    assert keys == derive_keys("pässword ", keys.salt, keys.iterations)
    assert _run("hash-password", "--scram", text="pässword \n").stdout.strip() != line


def test_a_password_that_scram_cannot_use_is_refused() -> None:
    result = _run("hash-password", "--scram", text="a\tb\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "hareline: password cannot be used with SCRAM: U+0009 is prohibited by SASLprep\n"
    )


@pytest.mark.parametrize("scram", [(), ("--scram",)])
@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_password_is_refused(text: str, scram: tuple[str, ...]) -> None:
    result = _run("hash-password", *scram, text=text)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "empty" in result.stderr


def test_on_a_terminal_the_password_is_asked_for_twice_until_both_agree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter(["secret", "other", "", "secret", "secret"])
    monkeypatch.setattr("getpass.getpass", lambda _prompt: next(answers))
    monkeypatch.setattr("hareline.cli.root._is_terminal", lambda _stream: True)
    result = _run("hash-password")
    assert result.exit_code == 0
    assert verify_password("secret", result.stdout.strip(), "argon2id")
    assert result.stderr.splitlines() == [
        "hareline: the two passwords differ; try again",
        "hareline: the password must not be empty; try again",
    ]


def test_who_gives_no_password_on_a_terminal_is_not_asked_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nothing(_prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("getpass.getpass", nothing)
    monkeypatch.setattr("hareline.cli.root._is_terminal", lambda _stream: True)
    result = _run("hash-password")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Traceback" not in result.output


OWN = ["serve", "check-config", "config-sample", "hash-password", "version"]
COMMANDS = [
    *OWN,
    *ROWS,
    *("journal dump", "journal verify", "journal repair"),
    *("spark archive", "spark replay", "spark report"),
    *("queues list", "queues show", "bindings show", "queue declare", "policy set"),
    *("user permissions", "definitions import", "connection close"),
]


@pytest.mark.parametrize("width", ["80", "120"])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_room_for_its_texts(command: str, width: str) -> None:
    result = _run(*command.split(), "--help", COLUMNS=width)
    assert result.exit_code == 0
    assert "<bool>" not in result.stdout
    assert not re.search(r"\.\.\.$", result.stdout.partition("\n\n")[2], re.M)  # none is cut short
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= min(int(width), 100)
    rows = [
        re.match(r"  (-\S+( \S+)?|[a-z-]+|\[?[A-Z=]+\]?(\.{3})?)(  +)(?=\S)", line)
        for line in lines
    ]
    starts = [len(row[0]) for row in rows if row is not None]
    assert starts
    assert max(starts) <= 30  # where the explanations begin


def test_commands_and_flags_are_listed_in_the_order_in_which_people_meet_them() -> None:
    _, _, commands = _run("--help").stdout.partition("Run a broker:")
    listed = re.findall(r"^  ([a-z-]+)  ", commands, re.MULTILINE)
    assert listed == [*OWN, *ROWS]
    flags = re.findall(r"^  (--[a-z-]+)", _run("serve", "--help").stdout, re.MULTILINE)
    assert flags[:3] == ["--config", "--data-dir", "--bind"]


def test_serve_hands_the_settings_to_the_server_and_ends_with_its_status(
    replace_server: Callable[[Serve], None], tmp_path: Path
) -> None:
    seen: list[Settings] = []

    def serve(settings: Settings, _load: Callable[[], Settings]) -> int:
        seen.append(settings)
        return 3

    replace_server(serve)
    path = _file(tmp_path, "[listener]\nport = 1\nbacklog = 7\n[log]\nlevel = 'error'\n")
    flags = ["--bind", "::1", "--port", "2", "--management-port", "0", "--data-dir", "/srv/mq"]
    result = _run("serve", "--config", path, *flags, "--log-level", "debug")
    assert result.exit_code == 3
    (settings,) = seen
    assert settings.listener.bind == settings.management.bind == "::1"
    assert (settings.listener.port, settings.management.port) == (2, 0)
    assert settings.listener.backlog == 7
    assert settings.data_dir == Path("/srv/mq")
    assert settings.log.level == "debug"


def test_serve_needs_neither_file_nor_flags(replace_server: Callable[[Serve], None]) -> None:
    seen: list[Settings] = []

    def serve(settings: Settings, _load: Callable[[], Settings]) -> int:
        seen.append(settings)
        return 0

    replace_server(serve)
    assert _run("serve").exit_code == 0
    assert seen == [Settings()]


def test_a_reload_reads_the_file_again_under_the_same_flags(
    replace_server: Callable[[Serve], None], tmp_path: Path
) -> None:
    path = _file(tmp_path, "[limits]\nheartbeat_s = 1\n")
    seen: list[tuple[int, int]] = []

    def serve(settings: Settings, load: Callable[[], Settings]) -> int:
        seen.append((settings.limits.heartbeat_s, settings.listener.port))
        _file(tmp_path, "[limits]\nheartbeat_s = 2\n[listener]\nport = 1\n")
        again = load()
        seen.append((again.limits.heartbeat_s, again.listener.port))
        _file(tmp_path, "[limits]\nheartbeat_s = -1\n")
        with pytest.raises(ConfigurationError, match=r"limits\.heartbeat_s"):
            load()
        return 0

    replace_server(serve)
    assert _run("serve", "--config", path, "--port", "9").exit_code == 0
    assert seen == [(1, 9), (2, 9)]


def test_a_store_that_cannot_be_used_is_a_sentence_and_status_1(
    replace_server: Callable[[Serve], None],
) -> None:
    def serve(_settings: Settings, _load: Callable[[], Settings]) -> int:
        raise StoreError("/srv/mq: in use by another broker")

    replace_server(serve)
    result = _run("serve")
    assert result.exit_code == 1
    assert result.stderr == "hareline: /srv/mq: in use by another broker\n"


def test_on_a_terminal_a_bar_shows_how_far_the_journal_is_read(
    replace_server: Callable[[Serve], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def serve(
        _settings: Settings, _load: Callable[[], Settings], show: Callable[[int, int], None]
    ) -> int:
        show(0, 1000)
        show(500, 1000)
        show(1000, 1000)
        return 0

    replace_server(serve)
    monkeypatch.setattr("hareline.cli.root._is_terminal", lambda _: True)
    result = _run("serve", FORCE_COLOR="1")
    assert result.exit_code == 0
    assert "recovering" in result.stderr
    assert result.stdout == ""


def test_serve_refuses_bad_settings_before_it_starts(
    replace_server: Callable[[Serve], None],
) -> None:
    def serve(_settings: Settings, _load: Callable[[], Settings]) -> int:
        raise AssertionError("started in spite of bad settings")

    replace_server(serve)
    result = _run("serve", "--port", "70000")
    assert result.exit_code == 1
    assert result.stderr.startswith("--port: listener.port: ")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            OSError(errno.EADDRINUSE, "cannot listen on 127.0.0.1:5672: address already in use"),
            "hareline: cannot listen on 127.0.0.1:5672: address already in use\n",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/srv/mq"),
            "hareline: /srv/mq: Permission denied\n",
        ),
        (OSError("no reason given"), "hareline: no reason given\n"),
    ],
)
def test_what_the_system_refuses_is_said_in_a_line(
    replace_server: Callable[[Serve], None], error: OSError, message: str
) -> None:
    def serve(_settings: Settings, _load: Callable[[], Settings]) -> int:
        raise error

    replace_server(serve)
    result = _run("serve")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", message)


@pytest.mark.parametrize("arguments", [["serve", "--port", "amqp"], ["sreve"], ["serve", "x"]])
def test_a_command_line_that_cannot_be_parsed_ends_with_2(arguments: list[str]) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
