"""Every name of ours that docs/architecture.md gives in backticks exists.

A dotted name (`amqp.connection`, `turn.finish()`) may leave out the leading packages, and may name
a method without its class or a class without its module, as people do: `turn.finish` and
`Turn.finish` are `hareline.turn.Turn.finish`. What is not
ours is recognised as such (the protocol's methods, options, files, other people's modules); every
other dotted name has to resolve, so a typing error cannot hide among them.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import importlib.metadata
import importlib.util
import inspect
import pkgutil
import re
import sys
from pathlib import Path
from types import ModuleType

import pamqp.commands
import pytest

import hareline
from hareline import events
from hareline.settings import leaf_options

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"

FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
BACKTICKED = re.compile(r"`([^`\n]+)`")
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_*]\w*)+(\(.*\))?")
FILE_SUFFIXES = {"py", "md", "toml", "json", "service", "yml", "cfg", "sh", "jsa"}

MODULES = [
    info.name
    for info in pkgutil.walk_packages(hareline.__path__, "hareline.")
    if not info.name.endswith("__main__")
]
#: Read and not imported, because its modules import pyspark.
SPARK = "hareline.spark."
AMQP_METHODS = {
    str(getattr(method, "name", "")).lower().replace("-", "_")
    for method in pamqp.commands.INDEX_MAPPING.values()
} | {"connection.blocked", "connection.unblocked", "connection.update_secret"}
OPTIONS = {name for name, _ in leaf_options()}
OTHERS = sys.stdlib_module_names | set(importlib.metadata.packages_distributions())


def _names_in(page: str) -> list[str]:
    """Dotted names in backticks outside fenced blocks, without brackets and arguments."""
    quoted = BACKTICKED.findall(FENCE.sub("", page))
    return [text.partition("(")[0] for text in quoted if DOTTED.fullmatch(text)]


def _is_of_others(name: str) -> bool:
    first, *rest = name.split(".")
    if rest[-1] in FILE_SUFFIXES or name in OPTIONS:
        return True
    if name.lower().replace("-", "_") in AMQP_METHODS:
        return True
    if first == "loop":
        return _has(asyncio.AbstractEventLoop, rest)
    return first in OTHERS and _has(importlib.import_module(first), rest)


def _modules_called(parts: list[str]) -> list[str]:
    """Modules whose dotted name ends with these parts."""
    tail = ".".join(parts)
    return [module for module in MODULES if module == tail or module.endswith(f".{tail}")]


def _has(holder: object, parts: list[str]) -> bool:
    for part in parts:
        if not hasattr(holder, part) and part not in _attributes_set_in(holder):
            return False
        holder = getattr(holder, part, None)
    return True


def _attributes_set_in(holder: object) -> set[str]:
    """Instance attributes of a class: its annotations, slots, and what `self.x = ` assigns."""
    if not inspect.isclass(holder):
        return set()
    names: set[str] = set()
    for each in holder.__mro__[:-1]:
        names |= set(inspect.get_annotations(each))
        slots = each.__dict__.get("__slots__", ())
        names |= {slots} if isinstance(slots, str) else set(slots)
        if each.__module__.startswith("hareline"):
            names |= set(re.findall(r"\bself\.(\w+)(?:: [^=\n]+)? = ", inspect.getsource(each)))
    return names


def _classes_of(module: ModuleType) -> list[type]:
    return [
        each
        for each in vars(module).values()
        if inspect.isclass(each) and each.__module__ == module.__name__
    ]


def _resolves(name: str) -> bool:
    parts = name.removeprefix("hareline.").split(".")
    if name == "hareline" or (parts == ["hareline"]):
        return True
    for length in range(len(parts), 0, -1):
        rest = parts[length:]
        for found in _modules_called(parts[:length]):
            if not rest or (found.startswith(SPARK) and rest[0] in _names_defined_in(found)):
                return True
            if found.startswith(SPARK):
                continue
            module = importlib.import_module(found)
            if _has(module, rest) or any(_has(each, rest) for each in _classes_of(module)):
                return True
    return _has(hareline, parts) or any(_has(each, parts[1:]) for each in _classes_called(parts[0]))


def _names_defined_in(module: str) -> set[str]:
    """Functions and classes at the top of a module that is not imported."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {each.name for each in tree.body if isinstance(each, defined)}


def _classes_called(name: str) -> list[type]:
    modules = [importlib.import_module(each) for each in MODULES if not each.startswith(SPARK)]
    return [each for module in modules for each in _classes_of(module) if each.__name__ == name]


def _page() -> str:
    assert PAGE.is_file(), "docs/architecture.md is missing"
    return PAGE.read_text(encoding="utf-8")


def test_every_name_in_the_architecture_exists() -> None:
    unknown = [
        name for name in _names_in(_page()) if not _resolves(name) and not _is_of_others(name)
    ]
    assert not unknown, f"docs/architecture.md names what is not there: {sorted(set(unknown))}"


def test_the_architecture_names_many_parts_of_the_package() -> None:
    ours = {name for name in _names_in(_page()) if _resolves(name)}
    assert len(ours) >= 10, sorted(ours)


@pytest.mark.parametrize(
    "name",
    [
        "hareline.errors",
        "errors.NotFound",
        "amqp.connection",
        "hareline.settings.load_settings",
        "settings.options",
        "turn.finish",
        "Turn.finish",
        "clock.refresh",
        "clock.now_ms",
        "wire.decoder",
        "spark.session",
        "spark.session.session",
    ],
)
def test_a_name_that_exists_resolves(name: str) -> None:
    assert _resolves(name)


@pytest.mark.parametrize(
    "name",
    [
        "hareline.eerrors",
        "errors.NotFuond",
        "amqp.conection",
        "turn.finsh",
        "Turn.finsh",
        "Trun.finish",
        "clock.now_s",
        "brokr.vhost",
        "queue.enqeue",
        "spark.session.sesion",
    ],
)
def test_a_name_that_does_not_exist_is_noticed(name: str) -> None:
    assert not _is_of_others(name)
    assert not _resolves(name)


@pytest.mark.parametrize(
    "name",
    [
        "basic.publish",
        "connection.close",
        "asyncio.Protocol",
        "listener.port",
        "cli.py",
        "sys.path",
    ],
)
def test_what_others_named_is_left_alone(name: str) -> None:
    assert _is_of_others(name)


def test_every_code_of_a_log_message_that_a_page_names_exists() -> None:
    codes = {event.code for event in events.ALL}
    for page in sorted((ROOT / "docs").glob("*.md")):
        named = set(re.findall(r"\b(?:BRK|CON|CHN|QUE|MEM|DSK|JRN|VHT|CFG)-\d+", page.read_text()))
        assert named <= codes, page.name


def test_links_between_the_pages_lead_somewhere() -> None:
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        text = page.read_text(encoding="utf-8")
        for target, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", text):
            path = (page.parent / target) if target else page
            assert path.exists(), f"{page.name}: {target}"
            if anchor and path.suffix == ".md":
                assert anchor in _anchors(path.read_text(encoding="utf-8")), (
                    f"{page.name}: {anchor}"
                )


def _anchors(page: str) -> set[str]:
    """Of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings}


def test_names_are_found_in_backticks_outside_code_blocks() -> None:
    page = "`turn.finish()` and `x` but\n```\n`a.b`\n```\nnot c.d, `net/shell.py`, `e.f g`"
    assert _names_in(page) == ["turn.finish"]
