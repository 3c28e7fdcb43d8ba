"""Rules that keep the house light: a budget a room, abstract classes, clocks, docstrings.

A room is a folder of the package; the modules at its top are one room.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.support.sources import modules_of

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "hareline"
#: Lines of a room. Who needs more names in the same commit what goes.
BUDGETS: Final = {
    "": 2_350,
    "administration": 3_450,
    "amqp": 8_850,
    "auth": 2_850,
    "authorities": 1_300,
    "broker": 8_400,
    "cli": 9_200,
    "management": 13_100,
    "message": 1_100,
    "metrics": 1_200,
    "net": 3_350,
    "queues": 15_000,
    "ranges": 700,
    "selectors": 2_450,
    "server": 1_800,
    "settings": 2_900,
    "spark": 7_200,
    "statistics": 1_600,
    "storage": 11_800,
    "wire": 2_750,
}
#: Abstract classes with one implementation in their own folder, and what they are for.
REASONS: Final = {
    "LateFrames": "the output of a connection calls the confirms, which import it",
    "Paced": "pacing calls its connections, which import it",
}
#: Modules that look at a clock to stop, beside ``later`` and ``management.pace``.
CLOCKS: Final = {
    "management.api.listing": "a pattern of a user has so much time, in a thread of its own",
    "net.collector": "a full collection is made when so much time has gone since the last one",
    "queues.dispatch.placing": "hot: the share of one queue within its dispatch",
    "queues.dispatch.reading": "hot: the share of one queue within its dispatch",
    "ranges.answers": "a deadline for a client that reads nothing",
    "ranges.process": "a process of its own, which looks for stalled clients now and then",
    "server.broker": "the deadline of the stop",
    "server.recovery": "no turn runs before the broker has started",
}
CLIENTS: Final = frozenset({"cli", "spark"})  # programs beside the broker, with waits of their own
NO_BEGINNING: Final = {
    *("what", "which", "how", "who", "whom", "whose", "whatever", "whoever", "whichever"),
    *("whether", "where", "when", "why", "from"),
}


def room_of(module: str) -> str:
    """Name of the room that a module of the package is in."""
    return module.partition(".")[0] if "." in module or (PACKAGE / module).is_dir() else ""


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Every module of the package, parsed."""
    return {
        name: ast.parse(path.read_text(encoding="utf-8"))
        for name, path in modules_of(PACKAGE).items()
    }


def test_each_room_keeps_to_its_budget_of_lines() -> None:
    lines: Counter[str] = Counter()
    for module, path in modules_of(PACKAGE).items():
        lines[room_of(module)] += len(path.read_text(encoding="utf-8").splitlines())
    assert lines.keys() == BUDGETS.keys()
    assert {room: count for room, count in lines.items() if count > BUDGETS[room]} == {}
    loose = {room: count for room, count in lines.items() if count < 0.95 * BUDGETS[room] - 50}
    assert loose == {}, "a budget is lowered when its room has become smaller"


def test_an_abstract_class_has_two_implementations_or_is_a_seam(
    trees: dict[str, ast.Module],
) -> None:
    """A seam: the implementation stands in another folder, which the class keeps apart."""
    folder: dict[str, str] = {}
    derived: dict[str, list[str]] = {}
    abstract = set()
    for module, tree in trees.items():
        for each in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            folder[each.name] = module.rpartition(".")[0]
            for base in each.bases:
                name = ast.unparse(base).partition("[")[0].rpartition(".")[2]
                derived.setdefault(name, []).append(each.name)
            if any(_is_abstract(part) for part in each.body):
                abstract.add(each.name)

    lonely = set()
    for name in abstract:
        reached, waiting = {name}, [name]
        while waiting:  # names stand for classes, so two of one name may make a circle
            more = [each for each in derived.get(waiting.pop(), ()) if each not in reached]
            reached.update(more)
            waiting += more
        found = reached - abstract
        if len(found) < 2 and all(folder[each] == folder[name] for each in found):
            lonely.add(name)
    assert lonely == REASONS.keys()


def _is_abstract(part: ast.stmt) -> bool:
    return isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and any(
        "abstractmethod" in ast.unparse(each) for each in part.decorator_list
    )


def test_only_later_and_pace_look_at_a_clock_to_stop(trees: dict[str, ast.Module]) -> None:
    found = {
        module
        for module, tree in trees.items()
        if room_of(module) not in CLIENTS
        and any(isinstance(node, ast.Compare) and _asks_a_clock(node) for node in ast.walk(tree))
    }
    assert found - {"later", "management.pace"} == CLOCKS.keys()


def _asks_a_clock(node: ast.AST) -> bool:
    return any(
        isinstance(part, ast.Call)
        and re.search(r"\b(perf_counter|monotonic)(_ns)?$", ast.unparse(part.func))
        for part in ast.walk(node)
    )


def test_docstrings_begin_with_a_noun_or_a_verb(trees: dict[str, ast.Module]) -> None:
    found = []
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(
                node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            ) and (text := ast.get_docstring(node)):
                word = re.match(r"(\w*)", text)
                if word and word[1].lower() in NO_BEGINNING:
                    found.append(f"{module}: {text.splitlines()[0]}")
    assert found == []
