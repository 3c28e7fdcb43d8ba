"""Pins of what the container image and `make install` install, and the image itself, without root.

The image itself is built where there is a Docker; what its file says is held here.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
INSTRUCTIONS = re.sub(r"\\\n\s*", "", DOCKERFILE)  # one line each
LOCKS = ["run.txt", "build.txt", "dev.txt", "spark.txt"]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(?: ; .+?)? \\$", re.MULTILINE)
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}\b")


def lock(name: str) -> str:
    return (ROOT / "requirements" / name).read_text(encoding="utf-8")


def pins(name: str) -> dict[str, list[str]]:
    """Package in its normal spelling -> versions, of which a Python installs one."""
    found: dict[str, list[str]] = {}
    for package, version in PIN.findall(lock(name)):
        found.setdefault(_normal(package), []).append(version)
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted(name: str) -> list[Requirement]:
    """What pyproject.toml asks for of what this file has to pin."""
    extras = PROJECT["project"]["optional-dependencies"]
    texts = list(extras["spark"] if name == "spark.txt" else PROJECT["project"]["dependencies"])
    if name in {"build.txt", "dev.txt"}:
        hook = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
        texts += [*PROJECT["build-system"]["requires"], *hook["dependencies"]]
    if name == "dev.txt":
        texts += extras["dev"]
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize("name", LOCKS)
def test_each_dependency_is_pinned_within_its_range(name: str) -> None:
    pinned = pins(name)
    for each in wanted(name):
        versions = pinned.get(_normal(each.name))
        assert versions, f"{each.name} is not in {name}: run `make lock`"
        for version in versions:
            assert each.specifier.contains(version), f"{each} is {version} in {name}: `make lock`"


@pytest.mark.parametrize("name", LOCKS)
def test_each_pin_has_hashes_and_none_comes_from_a_place_of_its_own(name: str) -> None:
    entries = re.split(r"^(?=[A-Za-z0-9])", lock(name), flags=re.MULTILINE)
    packages = [entry for entry in entries if PIN.match(entry)]
    assert len(packages) == sum(map(len, pins(name).values()))
    assert packages
    for entry in packages:
        assert HASH.search(entry), entry
    assert "://" not in lock(name)
    assert not re.search(r"^\s*(-i|-e|--(?!hash))", lock(name), re.MULTILINE)


def test_the_wheel_is_built_against_what_it_runs_with() -> None:
    running, building = pins("run.txt"), pins("build.txt")
    assert {name: building.get(name) for name in running} == running


def test_a_package_of_spark_is_pinned_in_one_place() -> None:
    assert pins("spark.txt").keys().isdisjoint(pins("dev.txt"))


def test_the_image_installs_pinned_packages_only() -> None:
    installs = re.findall(r"pip (?:install|wheel)[^&\n]*", INSTRUCTIONS)
    assert len(installs) == 4
    for each in installs:
        assert "--require-hashes" in each or "--no-index" in each or "--no-deps" in each, each


def test_the_image_runs_as_no_root_and_without_a_shell() -> None:
    instructions = INSTRUCTIONS.splitlines()
    users = [line.split()[1] for line in instructions if line.startswith("USER ")]
    assert users
    assert all(int(part) > 0 for part in users[-1].split(":"))
    entry = next(line for line in instructions if line.startswith("ENTRYPOINT "))
    health = next(line for line in instructions if line.startswith("HEALTHCHECK "))
    assert json.loads(entry.removeprefix("ENTRYPOINT "))[0] == "hareline"
    assert json.loads(health.partition(" CMD ")[2]) == ["hareline", "health", "--alive"]


def test_all_that_the_image_copies_is_let_through() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_through = {line[1:].split("/")[0] for line in ignored if line.startswith("!")}
    for line in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE):
        for source in line.split()[:-1]:
            assert source.removeprefix("./").split("/")[0] in let_through, source
