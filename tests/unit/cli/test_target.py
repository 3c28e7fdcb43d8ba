"""Which broker and which login: flags over variables over the file, and never mixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.target import VARIABLES, Flags, Names, config_file, read_target
from hareline.settings.sources import CLIENT_VARIABLES


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def write(environ: dict[str, str], text: str, mode: int = 0o600) -> Path:
    path = config_file(environ)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_without_anything_it_is_the_broker_on_this_machine(environ: dict[str, str]) -> None:
    target = read_target(Flags(), environ)
    assert str(target.http) == "http://127.0.0.1:15672"
    assert str(target.amqp) == "amqp://127.0.0.1:5672"
    assert (target.user, target.password(), target.vhost, target.timeout_s) == (
        *("guest", "guest", None),
        30.0,
    )


@pytest.mark.parametrize(("port", "seen"), [("8080", "8080"), ("", "15672"), ("any", "15672")])
def test_the_broker_of_the_same_container_has_the_port_of_its_variable(
    environ: dict[str, str], port: str, seen: str
) -> None:
    environ["HARELINE_MANAGEMENT__PORT"] = port
    assert str(read_target(Flags(), environ).http) == f"http://127.0.0.1:{seen}"
    environ["HARELINE_URL"] = "amqp://elsewhere"
    assert str(read_target(Flags(), environ).http) == "http://elsewhere:15672"


@pytest.mark.parametrize(
    ("url", "http", "amqp", "vhost"),
    [
        ("http://b:1", "http://b:1", "amqp://b:5672", None),
        ("https://b", "https://b:15671", "amqps://b:5671", None),
        ("http://b/mq/api/", "http://b:15672/mq", "amqp://b:5672", None),
        ("amqp://b:1/shop", "http://b:15672", "amqp://b:1", "shop"),
        ("amqps://b/%2F", "https://b:15671", "amqps://b:5671", "/"),
        ("amqp://[::1]:7", "http://[::1]:15672", "amqp://[::1]:7", None),
    ],
)
def test_one_address_gives_the_other(
    environ: dict[str, str], url: str, http: str, amqp: str, vhost: str | None
) -> None:
    for target in (
        read_target(Flags(url=url), environ),
        read_target(Flags(), {**environ, "HARELINE_URL": url}),
    ):
        assert (str(target.http), str(target.amqp), target.vhost) == (http, amqp, vhost)


def test_an_address_of_a_flag_is_never_mixed_with_one_of_a_variable(
    environ: dict[str, str],
) -> None:
    environ |= {"HARELINE_AMQP_URL": "amqp://other:1", "HARELINE_HTTP_URL": "http://other:2"}
    target = read_target(Flags(url="http://mine:3"), environ)
    assert (str(target.http), str(target.amqp)) == ("http://mine:3", "amqp://mine:5672")
    target = read_target(Flags(url="http://mine:3", amqp_url="amqp://mine:4"), environ)
    assert str(target.amqp) == "amqp://mine:4"
    target = read_target(Flags(), environ)
    assert (str(target.http), str(target.amqp)) == ("http://other:2", "amqp://other:1")


def test_a_more_special_address_beside_the_general_one_counts(environ: dict[str, str]) -> None:
    environ |= {"HARELINE_URL": "amqp://ann:x@b:1/shop"}
    target = read_target(Flags(amqp_url="amqp://c:2"), environ)
    assert (str(target.amqp), str(target.http)) == ("amqp://c:2", "http://b:15672")
    assert (target.user, target.vhost) == ("ann", "shop")
    target = read_target(Flags(), {**environ, "HARELINE_HTTP_URL": "http://d"})
    assert (str(target.amqp), str(target.http)) == ("amqp://b:1", "http://d:15672")


def test_a_login_in_the_environment_s_address_is_taken(environ: dict[str, str]) -> None:
    target = read_target(Flags(), {**environ, "HARELINE_URL": "amqp://ann:s%40p@b"})
    assert (target.user, target.password()) == ("ann", "s@p")


@pytest.mark.parametrize("flags", [Flags(url="http://a:b@c"), Flags(amqp_url="amqp://a:b@c")])
def test_a_password_in_a_flag_is_refused(environ: dict[str, str], flags: Flags) -> None:
    with pytest.raises(CommandFailed, match="HARELINE_PASSWORD") as caught:
        read_target(flags, environ)
    assert caught.value.status is ExitStatus.USAGE


def test_a_target_of_the_file_is_the_default_or_named(environ: dict[str, str]) -> None:
    write(
        environ,
        """
default = "shop"
[targets.shop]
url = "https://b.example:1"
amqp_url = "amqps://b.example:2"
user = "ann"
password = "secret"
vhost = "shop"
timeout = 2
[targets.test]
url = "amqp://t"
""",
    )
    target = read_target(Flags(), environ)
    assert (str(target.http), str(target.amqp)) == ("https://b.example:1", "amqps://b.example:2")
    assert (target.user, target.password(), target.vhost) == ("ann", "secret", "shop")
    assert target.timeout_s == 2
    for other in (
        read_target(Flags(target="test"), environ),
        read_target(Flags(), {**environ, "HARELINE_TARGET": "test"}),
    ):
        assert (str(other.amqp), other.user) == ("amqp://t:5672", "guest")


def test_the_file_s_password_is_not_for_another_user(environ: dict[str, str]) -> None:
    write(environ, 'default = "a"\n[targets.a]\nuser = "ann"\npassword = "secret"\n')
    assert read_target(Flags(user="ann"), environ).password() == "secret"
    with pytest.raises(CommandFailed, match="no password for bob"):
        read_target(Flags(user="bob"), environ).password(may_ask=False)
    assert read_target(Flags(user="guest"), environ).password() == "guest"


def test_a_password_comes_from_a_file_or_a_variable(
    environ: dict[str, str], tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from file\nnot this\n")
    flags = Flags(user="ann", password_file=str(secret))
    assert read_target(flags, environ).password() == "from file"
    environ |= {"HARELINE_PASSWORD": "from variable"}
    assert read_target(flags, environ).password() == "from file"
    assert read_target(Flags(user="ann"), environ).password() == "from variable"
    with pytest.raises(CommandFailed, match="/nowhere: No such file"):
        read_target(Flags(user="ann", password_file="/nowhere"), environ).password()


def test_a_password_is_not_shown() -> None:
    target = read_target(Flags(user="ann"), {"HARELINE_PASSWORD": "hush", "HOME": "/"})
    assert "hush" not in repr(target)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x", "Expected"),
        ("colour = 1", "unknown key 'colour'"),
        ("targets = 1", "targets: should be tables"),
        ("default = 1", "default: should be the name"),
        ("[targets.a]\nurll = 'x'", "targets.a: unknown key 'urll'; known: url"),
        ("[targets.a]\nurl = 1", r"targets.a.url: should be text"),
        ("[targets.a]\ntimeout = true", "targets.a.timeout: should be a number"),
        ("default = 'b'\n[targets.a]", "no target 'b'; known: a"),
        ("default = 'a'\n[targets.a]\nurl = 'ftp://x'", r"targets.a.url: 'ftp://x' does not begin"),
        ("default = 'a'\n[targets.a]\ntimeout = 0", "targets.a.timeout: '0' is not a number of"),
    ],
)
def test_a_mistake_in_the_file_is_named(environ: dict[str, str], text: str, problem: str) -> None:
    path = write(environ, text)
    with pytest.raises(CommandFailed, match=problem) as caught:
        read_target(Flags(), environ)
    assert str(path) in str(caught.value)
    assert caught.value.status is ExitStatus.USAGE


def test_a_file_with_a_password_must_be_private(environ: dict[str, str]) -> None:
    path = write(environ, "[targets.a]\npassword = 'x'\n", 0o644)
    with pytest.raises(CommandFailed, match=f"chmod 600 {path}"):
        read_target(Flags(), environ)
    write(environ, "[targets.a]\nuser = 'x'\n", 0o644)
    read_target(Flags(), environ)


def test_a_file_that_is_named_must_be_there(environ: dict[str, str]) -> None:
    with pytest.raises(CommandFailed, match=r"/nope\.toml: No such file"):
        read_target(Flags(), {**environ, "HARELINE_CLIENT_CONFIG": "/nope.toml"})


@pytest.mark.parametrize(
    ("flags", "environ", "problem"),
    [
        (Flags(url="b:1"), {}, "--url: 'b:1' does not begin with http:// or https:// or amqp://"),
        (Flags(url="http://b:port"), {}, "--url: 'http://b:port'"),
        (Flags(), {"HARELINE_URL": "x://"}, "HARELINE_URL: 'x://'"),
        (Flags(amqp_url="http://b"), {}, "--amqp-url: 'http://b' does not begin with amqp://"),
        (Flags(), {"HARELINE_TIMEOUT": "soon"}, "HARELINE_TIMEOUT: 'soon' is not a number"),
        (Flags(target="x"), {}, "no target 'x'; known: none"),
    ],
)
def test_a_wrong_address_is_blamed_on_where_it_stands(
    flags: Flags, environ: dict[str, str], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(CommandFailed) as caught:
        read_target(flags, {"XDG_CONFIG_HOME": str(tmp_path), **environ})
    assert problem in str(caught.value)


def test_a_password_in_a_wrong_address_is_not_repeated() -> None:
    with pytest.raises(CommandFailed) as caught:
        read_target(Flags(), {"HARELINE_URL": "ftp://ann:hush@b", "HOME": "/"})
    assert "hush" not in str(caught.value)


def test_the_broker_s_settings_leave_the_client_s_variables_alone() -> None:
    assert set(VARIABLES) <= CLIENT_VARIABLES
    others = {each for each in CLIENT_VARIABLES - set(VARIABLES) if "_SOURCE_" not in each}
    assert others == {"HARELINE_TOKEN"}  # Spark's


def test_authorities_are_those_of_the_first_level_that_names_a_file(
    environ: dict[str, str],
) -> None:
    write(environ, '[targets.a]\nurl = "https://b"\nca_file = "/file.pem"\n')
    assert read_target(Flags(url="https://b"), environ).ca_file is None
    assert str(read_target(Flags(target="a"), environ).ca_file) == "/file.pem"
    environ["HARELINE_CA_FILE"] = "/variable.pem"
    assert str(read_target(Flags(target="a"), environ).ca_file) == "/variable.pem"
    found = read_target(Flags(target="a", ca_file="~/flag.pem"), environ)
    assert str(found.ca_file) == str(Path("~/flag.pem").expanduser())


def test_a_file_without_authorities_is_a_sentence(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "text").write_text("nothing")
    for name, said in (("none", "No such file or directory"), ("text", "no certificate in PEM")):
        target = read_target(Flags(url="https://b", ca_file=str(tmp_path / name)), environ)
        with pytest.raises(CommandFailed, match=said) as caught:
            target.tls_context()
        assert caught.value.status is ExitStatus.USAGE
        assert str(caught.value).startswith(f"--ca-file: {tmp_path}")


def test_a_second_broker_has_names_of_its_own(environ: dict[str, str]) -> None:
    names = Names(url="SOURCE", prefix="HARELINE_OLD_", has_default=False)
    write(environ, 'default = "a"\n[targets.a]\nuser = "ann"\n[targets.b]\nuser = "bob"\n')
    environ |= {"HARELINE_USER": "eve", "HARELINE_OLD_URL": "http://old"}
    found = read_target(Flags(), environ, names)
    assert (str(found.http), found.user) == ("http://old:15672", "guest")
    assert read_target(Flags(target="b"), environ, names).user == "bob"
    with pytest.raises(CommandFailed, match=r"SOURCE: .* set HARELINE_OLD_PASSWORD"):
        read_target(Flags(url="http://a:b@old"), environ, names)
    with pytest.raises(CommandFailed, match="set HARELINE_OLD_PASSWORD or HARELINE_OLD_PASSWORD_F"):
        read_target(Flags(user="x"), environ, names).password(may_ask=False)
