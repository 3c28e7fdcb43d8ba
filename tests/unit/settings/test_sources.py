"""File < environment < flags, and a problem names the place it comes from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.errors import ConfigurationError
from hareline.settings import (
    Flag,
    Settings,
    config_path,
    leaf_options,
    load_settings,
    read_settings,
    variable_of,
)


def _file(directory: Path, text: str) -> Path:
    path = directory / "hareline.toml"
    path.write_text(text, encoding="utf-8")
    return path


def _refusal(
    path: Path | None, environ: dict[str, str] | None = None, flags: list[Flag] | None = None
) -> list[str]:
    """The problems, with the file's name instead of its path."""
    with pytest.raises(ConfigurationError) as caught:
        load_settings(path, environ or {}, flags or [])
    directory = f"{path.parent}{os.sep}" if path is not None else ""
    return [problem.removeprefix(directory) for problem in caught.value.problems]


def test_without_file_environment_and_flags_the_defaults_hold() -> None:
    assert load_settings(None, {}) == Settings()


@pytest.mark.row("E28")
def test_a_flag_outweighs_a_variable_which_outweighs_the_file(tmp_path: Path) -> None:
    path = _file(tmp_path, "[listener]\nport = 1\nbacklog = 1\nbind = '::1'\n")
    environ = {"HARELINE_LISTENER__PORT": "2", "HARELINE_LISTENER__BACKLOG": "2"}
    listener = load_settings(path, environ, [Flag("--port", "listener.port", 3)]).listener
    assert (listener.port, listener.backlog, listener.bind) == (3, 2, "::1")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "[listener]\nport = 70000",
            "hareline.toml: listener.port: Input should be less than or equal to 65535"
            " (given: 70000)",
        ),
        (
            '[listener]\nport = "5672"',
            'hareline.toml: listener.port: Input should be a valid integer (given: "5672")',
        ),
        (
            "[listener]\nport = true",
            "hareline.toml: listener.port: Input should be a valid integer (given: true)",
        ),
        (
            "[listener]\nprot = 1",
            "hareline.toml: listener.prot: unknown option; did you mean port?",
        ),
        ("colour = 1", "hareline.toml: colour: unknown option"),
        ("[listner]", "hareline.toml: listner: unknown option; did you mean listener?"),
        ("listener = 1", "hareline.toml: listener: Input should be a table (given: 1)"),
        ("users = 1", "hareline.toml: users: Input should be a list"),
        (
            "[[vhosts]]\nnmae = 'a'\nname = 'b'",
            "hareline.toml: vhosts[0].nmae: unknown option; did you mean name?",
        ),
        ("[[vhosts]]", "hareline.toml: vhosts[0].name: this option should be given"),
        (
            "[log]\nlevel = 2026-01-01",
            "hareline.toml: log.level: Input should be 'debug', 'info', 'warning', 'error' or"
            " 'critical' (given: \"2026-01-01\")",
        ),
    ],
)
def test_a_problem_names_file_and_option(tmp_path: Path, text: str, problem: str) -> None:
    assert _refusal(_file(tmp_path, text)) == [problem]


def test_every_problem_is_named(tmp_path: Path) -> None:
    path = _file(tmp_path, "[listener]\nport = -1\n[log]\nlevel = 'loud'\n")
    problems = _refusal(path, {"HARELINE_TYPO": "1", "HARELINE_MEMORY__WATERMARK": "0"})
    assert [problem.split(": ")[:2] for problem in problems] == [
        ["HARELINE_MEMORY__WATERMARK", "memory.watermark"],
        ["HARELINE_TYPO", "no option has this variable"],
        ["hareline.toml", "listener.port"],
        ["hareline.toml", "log.level"],
    ]


def test_what_does_not_fit_together_is_named_beside_what_is_wrong_in_itself(
    tmp_path: Path,
) -> None:
    path = _file(
        tmp_path,
        """
        [log]
        level = "loud"
        [management]
        port = 5672
        [[vhosts]]
        name = "a"
        max_queues = -1
        default_prefetch = 2
        prefetch_profile = "activemq"
        [[vhosts]]
        name = "a"
        [[users]]
        name = "ann"
        password = "x"
        password_hash = "no base64!"
        tags = "administrator"
        permissions = [{ vhost = "shop", configure = "(" }, { vhost = "a" }, { vhost = "a" }]
        [[users]]
        name = "ann"
        scram = "x"
        """,
    )
    assert [problem.split(": ")[1] for problem in _refusal(path)] == [
        "log.level",
        "vhosts[0].max_queues",
        "users[0].tags",
        "users[0].permissions[0].configure",
        "users[1].scram",
        "vhosts[0].default_prefetch",
        "users[0]",
        "users[0].password_hash",
        "vhosts[1].name",
        "users[1].name",
        "users[0].permissions[0].vhost",
        "users[0].permissions[2].vhost",
        "management.port",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[listener]\nport = 'x'\n[management]\nport = 5672",
        "[listener]\nprot = 1\n[management]\nport = 5672",
        "[[vhosts]]\nnmae = 'shop'\n[[users]]\nname = 'a'\npassword = 'x'\n"
        "permissions = [{ vhost = 'shop' }]",
        "vhosts = 1\n[[users]]\nname = 'a'\npassword = 'x'\npermissions = [{ vhost = 'shop' }]",
        "[[users]]\nname = 'a'\npasword = 'x'",
        "[auth]\nmechanisms = 1\n[[users]]\nname = 'a'\nscram = 1",
    ],
)
def test_what_follows_from_an_invalid_value_is_not_said(tmp_path: Path, text: str) -> None:
    """The second problem would go with the first."""
    places = {problem.split(": ")[1] for problem in _refusal(_file(tmp_path, text))}
    assert not places & {
        "management.port",
        "users[0]",
        "users[0].permissions[0].vhost",
        "users[0].password_hash",
    }


def test_what_is_wrong_with_a_user_is_said_without_its_password(tmp_path: Path) -> None:
    path = _file(tmp_path, "[[users]]\nname = 'ann'\npassword = 815\n[[users]]\nname = 's3cret'\n")
    problems = _refusal(path)
    assert [problem.split(": ")[1] for problem in problems] == ["users[0].password", "users[1]"]
    assert "815" not in "".join(problems)


def test_a_broken_variable_with_users_is_not_repeated() -> None:
    (problem,) = _refusal(None, {"HARELINE_USERS": '[{"name": "ann", "password": "s3cret"'})
    assert problem.startswith("HARELINE_USERS: users: Invalid JSON")
    assert "s3cret" not in problem


def test_a_file_that_is_not_toml_is_refused_with_the_position(tmp_path: Path) -> None:
    (problem,) = _refusal(_file(tmp_path, "[listener]\nport = = 1\n"))
    assert problem.startswith("hareline.toml: line 2, column 8: port: not TOML: ")


def test_every_faulty_line_is_named_and_the_others_are_looked_at(tmp_path: Path) -> None:
    text = (
        "[listener]\r\nbind = 0.0.0.0\r\nport = 70000\n\n[log]\nlevel = debug\n"
        "[[users]]\nname = \"ann\npassword = 'x'\n"
    )
    problems = _refusal(_file(tmp_path, text), {"HARELINE_TYPO": "1"})
    said = [problem.replace(", column", ":").split(": ") for problem in problems]
    assert [[words[1], *words[3:5]] for words in said[:3]] == [
        ["line 2", "bind", "not TOML"],
        ["line 6", "level", "not TOML"],
        ["line 8", "name", "not TOML"],
    ]
    assert [words[0] for words in said[3:]] == ["HARELINE_TYPO", "hareline.toml"]
    assert problems[-1].startswith("hareline.toml: listener.port: ")
    assert problems[1].endswith("; text needs quotes")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[auth]\nmechanisms = ['PLAIN'\n[log]\nlevel = 1\n", "line 3, column 1"),
        ("[log]\nlevel = 'debug'\nlevel = 'info'\n", "line 3, column 15"),
        ("[log\nlevel = 1\n", "line 1, column 5"),
    ],
)
def test_nothing_is_guessed_behind_a_fault_that_other_lines_depend_on(
    tmp_path: Path, text: str, place: str
) -> None:
    (problem,) = _refusal(_file(tmp_path, text))
    assert problem.startswith(f"hareline.toml: {place}: ")


def test_a_file_without_any_toml_is_refused_with_some_of_its_lines(tmp_path: Path) -> None:
    problems = _refusal(_file(tmp_path, "no toml\n" * 1000))
    assert 2 <= len(problems) <= 20


def test_an_unreadable_file_does_not_hide_the_other_problems(tmp_path: Path) -> None:
    flags = [Flag("--port", "listener.port", 70000)]
    problems = _refusal(tmp_path / "nope.toml", {"HARELINE_LOG__LEVEL": "loud"}, flags)
    assert [problem.split(": ")[0] for problem in problems] == [
        "nope.toml",
        "HARELINE_LOG__LEVEL",
        "--port",
    ]


def test_a_reading_says_where_each_option_comes_from(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        "[listener]\nport = 1\nbind = '::1'\nbacklog = 7\n[[listeners]]\nport = 9\n",
    )
    environ = {
        "HARELINE_LISTENER__PORT": "2",
        "HARELINE_LISTENER__BACKLOG": "7",
        "HARELINE_LOG__LEVEL": "error",
    }
    reading = read_settings(path, environ, [Flag("--bind", "listener.bind", "127.0.0.1")])
    assert reading.overridden == ["listener.bind", "listener.port"]
    assert reading.origin_of("listener.bind") == "--bind"
    assert reading.origin_of("listener.port") == "HARELINE_LISTENER__PORT"
    assert reading.origin_of("log.level") == "HARELINE_LOG__LEVEL"
    assert reading.origin_of("listeners[0].port") == str(path)
    assert reading.origin_of("management.port") == ""


def test_the_data_directory_is_the_one_systemd_made_unless_something_says_otherwise(
    tmp_path: Path,
) -> None:
    environ = {"STATE_DIRECTORY": "/var/lib/hareline:/var/lib/more"}
    reading = read_settings(None, environ)
    assert reading.settings.data_dir == Path("/var/lib/hareline")
    assert reading.origin_of("data_dir") == "STATE_DIRECTORY"
    in_file = read_settings(_file(tmp_path, "data_dir = '/srv/mq'"), environ)
    assert in_file.settings.data_dir == Path("/srv/mq")
    assert in_file.overridden == []
    variable = load_settings(None, {**environ, "HARELINE_DATA_DIR": "/srv/mq"})
    assert variable.data_dir == Path("/srv/mq")
    assert load_settings(None, {"STATE_DIRECTORY": ""}) == Settings()


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hareline.toml"
    path.write_bytes(b"# \xff\n")
    assert _refusal(path) == ["hareline.toml: not UTF-8 at octet 2"]


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert _refusal(tmp_path / "nope.toml") == [
        "nope.toml: cannot be read: No such file or directory"
    ]


def test_a_data_directory_without_a_name_is_refused() -> None:
    """An unset variable of a shell would else mean the directory one happens to be in."""
    with pytest.raises(ConfigurationError, match="a path should not be empty"):
        load_settings(None, {"HARELINE_DATA_DIR": ""})


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_settings(tmp_path, {})


@pytest.mark.parametrize(
    ("variable", "text", "option", "value"),
    [
        ("HARELINE_LISTENER__PORT", "5673", "listener.port", 5673),
        ("HARELINE_MANAGEMENT__ENABLED", "false", "management.enabled", False),
        ("HARELINE_MANAGEMENT__ENABLED", "1", "management.enabled", True),
        ("HARELINE_IDENTITY__VERSION", "3.13.7", "identity.version", "3.13.7"),
        ("HARELINE_IDENTITY__PRODUCT", "42", "identity.product", "42"),
        ("HARELINE_DATA_DIR", "/srv/mq", "data_dir", Path("/srv/mq")),
        ("HARELINE_LIMITS__FRAME_MAX_BYTES", "64KiB", "limits.frame_max_bytes", 65536),
        ("HARELINE_MEMORY__WATERMARK", "0.4", "memory.watermark", 0.4),
        ("HARELINE_MEMORY__WATERMARK", "2GiB", "memory.watermark", 2 * 1024**3),
        ("HARELINE_AUTH__LOOPBACK_USERS", "", "auth.loopback_users", ()),
        ("HARELINE_AUTH__LOOPBACK_USERS", "ann, bob", "auth.loopback_users", ("ann", "bob")),
        ("HARELINE_AUTH__MECHANISMS", '["AMQPLAIN"]', "auth.mechanisms", ("AMQPLAIN",)),
    ],
)
def test_a_variable_is_read_as_its_option_is_declared(
    variable: str, text: str, option: str, value: object
) -> None:
    settings = load_settings(None, {variable: text})
    section, _, key = option.rpartition(".")
    holder = getattr(settings, section) if section else settings
    assert getattr(holder, key) == value


def test_users_and_virtual_hosts_may_come_from_the_environment() -> None:
    settings = load_settings(
        None,
        {
            "HARELINE_VHOSTS": '[{"name": "shop"}]',
            "HARELINE_USERS": '[{"name": "ann", "password": "x", "permissions":'
            ' [{"vhost": "shop", "write": ".*"}]}]',
        },
    )
    assert settings.vhosts[0].name == "shop"
    assert settings.users[0].permissions[0].write == ".*"


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        (
            {"HARELINE_LISTENER__PORT": "amqp"},
            "HARELINE_LISTENER__PORT: listener.port: Input should be a valid integer, unable to"
            ' parse string as an integer (given: "amqp")',
        ),
        (
            {"HARELINE_LISTENER__PORT": "70000"},
            "HARELINE_LISTENER__PORT: listener.port: Input should be less than or equal to 65535"
            ' (given: "70000")',
        ),
        (
            {"HARELINE_LISTENER__PROT": "1"},
            "HARELINE_LISTENER__PROT: no option has this variable;"
            " did you mean HARELINE_LISTENER__PORT?",
        ),
        ({"HARELINE_PORT": "5673"}, "HARELINE_PORT: no option has this variable"),
        (
            {"HARELINE_AUTH__MECHANISMS": "PLAIN,MAGIC"},
            "HARELINE_AUTH__MECHANISMS: auth.mechanisms[1]: Input should be 'PLAIN', 'AMQPLAIN', "
            "'SCRAM-SHA-256', 'EXTERNAL' or 'ANONYMOUS'"
            ' (given: "MAGIC")',
        ),
        (
            {"HARELINE_USERS": '[{"name": "a", "password": "x", "permissions": [{"vhost": "z"}]}]'},
            "HARELINE_USERS: users[0].permissions[0].vhost: no virtual host 'z' is listed",
        ),
    ],
)
def test_a_problem_names_the_variable(environ: dict[str, str], problem: str) -> None:
    (said,) = _refusal(None, environ)
    assert said.replace(" (given: 70000)", ' (given: "70000")') == problem


def test_a_problem_names_the_flag() -> None:
    assert _refusal(None, {}, [Flag("--port", "listener.port", 70000)]) == [
        "--port: listener.port: Input should be less than or equal to 65535 (given: 70000)"
    ]


def test_what_kubernetes_says_about_a_service_of_our_name_is_passed_over() -> None:
    environ = {
        "HARELINE_SERVICE_HOST": "10.0.0.7",
        "HARELINE_SERVICE_PORT": "5672",
        "HARELINE_SERVICE_PORT_AMQP": "5672",
        "HARELINE_PORT": "tcp://10.0.0.7:5672",
        "HARELINE_PORT_5672_TCP": "tcp://10.0.0.7:5672",
        "HARELINE_PORT_5672_TCP_PROTO": "tcp",
        "HARELINE_PORT_5672_TCP_PORT": "5672",
        "HARELINE_PORT_5672_TCP_ADDR": "10.0.0.7",
        "HARELINE_MAIN_SERVICE_HOST": "10.0.0.8",
        "HARELINE_MAIN_PORT": "tcp://10.0.0.8:5672",
    }
    assert load_settings(None, environ) == Settings()


def test_other_programs_variables_are_not_ours() -> None:
    assert load_settings(None, {"PATH": "/bin", "HARELINES": "1"}) == Settings()


def test_every_option_has_a_variable_of_its_own() -> None:
    variables = [variable_of(name) for name, _ in leaf_options()]
    assert len(set(variables)) == len(variables)
    assert "HARELINE_LISTENER__PORT" in variables


def test_the_file_is_the_one_given_else_the_one_the_environment_names() -> None:
    environ = {"HARELINE_CONFIG": "/etc/hareline.toml"}
    assert config_path(Path("mine.toml"), environ) == Path("mine.toml")
    assert config_path(None, environ) == Path("/etc/hareline.toml")
    assert config_path(None, {"HARELINE_CONFIG": ""}) is None
    assert config_path(None, {}) is None
    assert load_settings(None, environ) == Settings()


_NAMES = st.sampled_from(
    ["listener", "port", "users", "vhosts", "name", "log", "level", "password", "x", "memory"]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=12,
)


def _attempt(environ: dict[str, str], flags: list[Flag]) -> list[str]:
    """The problems, if there are any; anything but `ConfigurationError` fails the test."""
    try:
        load_settings(None, environ, flags)
    except ConfigurationError as error:
        return error.problems or ["refused without a reason"]
    return []


@given(name=_NAMES | st.sampled_from([n for n, _ in leaf_options()]), value=_VALUES)
def test_any_value_anywhere_is_taken_or_refused_with_a_sentence(name: str, value: object) -> None:
    for problem in _attempt({}, [Flag("--flag", name, value)]):
        place, _, sentence = problem.partition(": ")
        assert place in {"--flag", "settings"}
        assert sentence


@given(
    option=st.sampled_from([name for name, _ in leaf_options()]),
    text=st.text(max_size=20) | st.sampled_from(["[]", "[1]", "[{}]", '["a"]', "{}", "null"]),
)
def test_any_text_in_a_variable_is_taken_or_refused_with_its_name(option: str, text: str) -> None:
    variable = variable_of(option)
    problems = _attempt({variable: text}, [])
    assert all(problem.startswith(f"{variable}: {option}") for problem in problems)


def test_variables_of_clients_on_the_same_machine_are_left_alone() -> None:
    environ = {"HARELINE_URL": "amqp://b", "HARELINE_PASSWORD": "x", "HARELINE_TARGET": "shop"}
    assert load_settings(None, environ) == load_settings(None, {})


# ------------------------------------------------------------------ values in files of their own


def test_a_variable_may_name_a_file_with_the_value(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text('[{"name": "ann", "password": "secret"}]\n', encoding="utf-8")
    port = tmp_path / "port"
    port.write_text("5673\r\n", encoding="utf-8")
    environ = {"HARELINE_USERS_FILE": str(users), "HARELINE_LISTENER__PORT_FILE": str(port)}
    reading = read_settings(None, environ)
    (user,) = reading.settings.users
    assert user.name == "ann"
    assert reading.settings.listener.port == 5673
    assert reading.origin_of("listener.port") == "HARELINE_LISTENER__PORT_FILE"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff")
    environ = {
        "HARELINE_USERS_FILE": str(tmp_path / "none"),
        "HARELINE_LOG__LEVEL_FILE": str(binary),
    }
    missing = f"HARELINE_USERS_FILE: cannot read {tmp_path / 'none'}: No such file or directory"
    assert set(_refusal(None, environ)) == {
        missing,
        f"HARELINE_LOG__LEVEL_FILE: {binary} is not UTF-8",
    }


def test_one_value_twice_is_refused(tmp_path: Path) -> None:
    port = tmp_path / "port"
    port.write_text("5673", encoding="utf-8")
    environ = {"HARELINE_LISTENER__PORT": "1", "HARELINE_LISTENER__PORT_FILE": str(port)}
    assert _refusal(None, environ) == [
        "HARELINE_LISTENER__PORT_FILE: HARELINE_LISTENER__PORT is given too; leave one of them out"
    ]


def test_a_secret_in_a_file_is_not_repeated_where_it_is_wrong(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text('[{"name": "ann", "password": {"it": "is very secret"}}]', encoding="utf-8")
    said = _refusal(None, {"HARELINE_USERS_FILE": str(users)})
    assert said
    assert "very secret" not in str(said)


def test_a_file_for_no_option_is_no_variable_of_ours() -> None:
    (said,) = _refusal(None, {"HARELINE_LISTENER__PROT_FILE": "/run/secrets/port"})
    assert "no option has this variable" in said
