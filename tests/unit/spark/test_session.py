"""What a Spark session needs is checked before Java is started, and told in one sentence."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from urllib.parse import unquote

import pytest

from hareline.spark import session
from hareline.spark.errors import EnvironmentMissing

ROOT = Path(__file__).resolve().parents[3]

VERSIONS = [
    ('openjdk version "17.0.15" 2025-04-15', 17),
    ('openjdk version "21" 2023-09-19', 21),
    ('java version "1.8.0_312"', 8),
    ('openjdk version "25-ea" 2025-09-16', 25),
    ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2" 2019-01-15', 11),
]


def install_java(home: Path, said: str, status: int = 0) -> Path:
    """A ``bin/java`` below ``home`` that says this on standard error."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\nexit {status}\n", encoding="utf-8")
    java.chmod(0o755)
    return java


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the extra is installed and JAVA_HOME is not set."""
    pretend_installed(monkeypatch, "4.3.0")
    monkeypatch.delenv("JAVA_HOME", raising=False)


def pretend_installed(
    monkeypatch: pytest.MonkeyPatch, version: str, missing: frozenset[str] = frozenset()
) -> None:
    def find_spec(name: str) -> ModuleSpec | None:
        return None if name in missing else ModuleSpec(name, None)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)


@pytest.mark.parametrize(("said", "major"), VERSIONS)
def test_java_is_told_by_its_version(
    said: str, major: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = install_java(tmp_path, said)
    monkeypatch.setenv("PATH", f"{java.parent}{os.pathsep}{os.environ['PATH']}")
    if major >= session.JAVA_MIN:
        session.check_environment()
        return
    with pytest.raises(EnvironmentMissing, match=f"needs Java 17, and {java} is {major}; install"):
        session.check_environment()


@pytest.mark.parametrize(("said", "major"), VERSIONS)
def test_what_fetches_spark_agrees_about_java(said: str, major: int, tmp_path: Path) -> None:
    install_java(tmp_path, said)
    environ = {**os.environ, "JAVA_HOME": str(tmp_path)}
    script = ROOT / "scripts" / "has_java.sh"
    for wanted, status in ((major, 0), (major + 1, 1)):
        run = subprocess.run(["sh", script, str(wanted)], env=environ, check=False)
        assert run.returncode == status


def test_no_java_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentMissing, match="there is none on PATH; install Java 17 or newer"):
        session.check_environment()


def test_a_java_home_without_java_counts_although_there_is_one_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = install_java(tmp_path / "good", VERSIONS[0][0])
    monkeypatch.setenv("PATH", str(java.parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "bad"))
    with pytest.raises(EnvironmentMissing, match=r"there is none in JAVA_HOME \(.*bad\); install"):
        session.check_environment()


@pytest.mark.parametrize("said", ["Error: no JVM at here", ""])
def test_a_java_that_does_not_run(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_java(tmp_path, said, status=1)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentMissing, match="names no version; install Java 17"):
        session.check_environment()


def test_a_file_that_the_system_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = install_java(tmp_path, "")
    java.write_bytes(b"\x7fELF of another machine")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentMissing, match=r"does not run \(.*\); install Java 17"):
        session.check_environment()


def test_where_spark_was_submitted_java_is_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    session.check_environment(needs_java=False)


@pytest.mark.parametrize("name", ["pyspark", "pyarrow"])
def test_a_package_that_is_missing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_installed(monkeypatch, "4.3.0", frozenset({name}))
    with pytest.raises(
        EnvironmentMissing, match=rf"{name} is missing; .*pip install '\.\[spark\]'"
    ):
        session.check_environment()


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [("3.5.1", False), ("4.1.4", False), ("4.2.0.dev1", True), ("4.10.0", True)],
)
def test_the_version_of_pyspark(
    version: str, is_enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_installed(monkeypatch, version)
    if is_enough:
        session.check_environment(needs_java=False)
        return
    with pytest.raises(EnvironmentMissing, match=f"pyspark {version} is too old, 4.2 is needed"):
        session.check_environment()


def test_only_a_local_session_is_bound_to_the_loopback_interface() -> None:
    local = session.default_settings("1g", is_local=True)
    remote = session.default_settings("1g", is_local=False)
    assert local["spark.driver.bindAddress"] == "127.0.0.1"
    assert not {key for key in remote if key.startswith("spark.driver.")} - {"spark.driver.memory"}


def test_java_compiles_quickly_for_a_short_job_only() -> None:
    for is_short in (False, True):
        made = session.default_settings("1g", is_local=True, is_short=is_short)
        assert ("TieredStopAtLevel" in made["spark.driver.extraJavaOptions"]) is is_short


def test_tracebacks_are_in_the_log_of_a_debug_session_only() -> None:
    for is_debug in (False, True):
        made = session.default_settings("1g", is_local=True, is_debug=is_debug)
        assert ("traceback=full" in made["spark.driver.extraJavaOptions"]) is is_debug


def test_executors_elsewhere_start_their_workers_as_spark_does() -> None:
    assert session.default_settings("1g", is_local=True)["spark.python.daemon.module"]
    assert "spark.python.daemon.module" not in session.default_settings("1g", is_local=False)


def test_the_log_settings_are_beside_the_module() -> None:
    options = session.default_settings("1g", is_local=True)["spark.driver.extraJavaOptions"]
    _, _, file = options.partition("file://")
    assert "rootLogger.level" in Path(unquote(file)).read_text(encoding="utf-8")


def test_asking_for_what_is_missing_imports_no_spark() -> None:
    code = (
        "import sys\nfrom hareline.spark.session import check_environment\ncheck_environment()\n"
        "print({'pyspark', 'pyarrow'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "set()" or "EnvironmentMissing" in run.stderr
