"""The files of ``hareline tls self-signed``, and what it leaves alone."""

from __future__ import annotations

import ssl
import stat
import tomllib
from pathlib import Path

import pytest

from hareline.auth.certificates import read_pem
from hareline.settings import Settings

from ..conftest import Run


@pytest.fixture(autouse=True)
def _there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def names_of(path: str) -> tuple[str, ...]:
    (found,) = read_pem(Path(path).read_bytes())
    return (*found.dns_names, *found.addresses)


def made(text: str) -> list[str]:
    """The files that the command says it has made."""
    return text.partition("\n\n")[0].splitlines()


def test_all_that_a_broker_and_its_clients_need_is_made(run: Run) -> None:
    result = run("tls", "self-signed", "--host", "shop.example", "--client", "ann")
    assert result.exit_code == 0, result.stderr
    stems = ("ca", "server", "client-ann")
    assert made(result.stdout) == [
        f"tls/{stem}.{kind}" for stem in stems for kind in ("pem", "key")
    ]
    assert names_of("tls/server.pem") == ("shop.example",)
    assert names_of("tls/client-ann.pem") == ("ann",)
    for stem in stems:
        assert stat.S_IMODE(Path(f"tls/{stem}.key").stat().st_mode) == 0o600
    context = ssl.create_default_context(cafile="tls/ca.pem")
    context.load_cert_chain("tls/client-ann.pem", "tls/client-ann.key")
    assert sorted(each.name for each in Path("tls").iterdir()) == sorted(
        f"{stem}.{kind}" for stem in stems for kind in ("pem", "key")
    )


def test_the_settings_it_prints_are_settings(run: Run) -> None:
    text = run("tls", "self-signed", "--directory", "a/b").stdout
    tree = tomllib.loads(text.partition("\n\n")[2])
    tls = Settings.model_validate(tree).tls
    assert Path(tls.certificate).samefile("a/b/server.pem")
    assert Path(tls.key).samefile("a/b/server.key")


def test_the_authority_is_kept_for_further_clients(run: Run) -> None:
    run("tls", "self-signed")
    authority, server = Path("tls/ca.pem").read_bytes(), Path("tls/server.pem").read_bytes()
    assert "localhost" in names_of("tls/server.pem")
    result = run("tls", "self-signed", "--client", "bob")
    assert made(result.stdout) == ["tls/client-bob.pem", "tls/client-bob.key"]
    assert Path("tls/ca.pem").read_bytes() == authority
    assert Path("tls/server.pem").read_bytes() == server


def test_files_are_replaced_only_if_that_is_asked_for(run: Run) -> None:
    run("tls", "self-signed", "--client", "ann")
    before = Path("tls/client-ann.pem").read_bytes()
    for arguments in (("--client", "ann"), ("--host", "other")):
        result = run("tls", "self-signed", *arguments)
        assert result.exit_code == 1
        assert result.stderr.strip().endswith(".pem exists; --renew replaces it")
    assert Path("tls/client-ann.pem").read_bytes() == before
    result = run("tls", "self-signed", "--client", "ann", "--host", "other", "--renew")
    assert result.exit_code == 0
    assert Path("tls/client-ann.pem").read_bytes() != before
    assert names_of("tls/server.pem") == ("other",)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--client", "a/b"), "--client: 'a/b' cannot be a name"),
        (("--client", ""), "--client: '' cannot be a name"),
        (("--host", "a b"), "--host: 'a b' is not a host name or address"),
        (("--host", "x" * 65), "is not a host name or address of up to 64 characters"),
        (("--days", "0"), "--days"),
    ],
)
def test_names_that_cannot_be_are_refused(
    run: Run, arguments: tuple[str, ...], problem: str
) -> None:
    result = run("tls", "self-signed", *arguments)
    assert result.exit_code == 2
    assert problem in result.stderr
    assert not Path("tls").exists()


def test_an_authority_that_cannot_be_used_is_named(run: Run) -> None:
    Path("tls").mkdir()
    Path("tls/ca.pem").write_text("no certificate", encoding="utf-8")
    result = run("tls", "self-signed")
    assert result.exit_code == 1
    assert "tls/ca.key: No such file" in result.stderr
    Path("tls/ca.key").write_text("no key", encoding="utf-8")
    result = run("tls", "self-signed")
    assert "tls/ca.pem, tls/ca.key: no authority of ours" in result.stderr


def test_a_directory_that_cannot_be_made_is_named(run: Run) -> None:
    Path("tls").write_text("a file", encoding="utf-8")
    result = run("tls", "self-signed")
    assert result.exit_code == 1
    assert "tls: File exists" in result.stderr
