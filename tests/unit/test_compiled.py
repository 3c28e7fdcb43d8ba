"""Whether this is a compiled build, and decorators that change nothing where it is not."""

from __future__ import annotations

import inspect
from abc import ABCMeta
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from hareline import compiled
from hareline.broker.audit.queue import AuditedQueue
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from hareline.turn import Dispatching
from hareline.wire import decoder
from scripts.compiled_wheel import is_compiled
from tests.support.sources import modules_of
from tests.support.turns import ManualTurn


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("decoder.py", "pure"),
        ("decoder.pyc", "pure"),
        (f"decoder{EXTENSION_SUFFIXES[0]}", "compiled"),
        (f"decoder{EXTENSION_SUFFIXES[-1]}", "compiled"),
    ],
)
def test_the_file_of_a_module_says_which_build_it_is(
    file: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wire").mkdir()
    (tmp_path / "wire" / file).touch()
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    assert compiled.build() == expected


def test_an_extension_module_is_preferred_to_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wire").mkdir()
    (tmp_path / "wire" / "decoder.py").touch()
    (tmp_path / "wire" / f"decoder{EXTENSION_SUFFIXES[0]}").touch()
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    assert compiled.build() == "compiled"


def test_it_is_true_of_this_one() -> None:
    assert (compiled.build() == "pure") is str(decoder.__file__).endswith(".py")


def test_the_decorators_return_the_class() -> None:
    class Some:
        pass

    assert compiled.trait(Some) is Some
    assert compiled.mypyc_attr(allow_interpreted_subclasses=True)(Some) is Some


def test_a_check_of_one_class_of_queues_does_not_answer_for_another() -> None:
    queue = Queue("q", FifoOrder(), ManualTurn())
    assert issubclass(Queue, Queue)
    assert isinstance(queue, Dispatching)
    assert not isinstance(queue, AuditedQueue)
    assert not issubclass(Queue, AuditedQueue)
    assert isinstance(queue, Dispatching)
    assert not issubclass(FifoOrder, AuditedQueue)
    assert issubclass(AuditedQueue, Queue)


def test_no_compiled_class_inherits_the_cache_of_an_abc() -> None:
    """Protocols may: one that is not for use at run time refuses isinstance."""
    source = Path(__file__).parents[2] / "src" / "hareline"
    kinds = [
        kind
        for name in modules_of(source)
        if is_compiled(name)
        for _, kind in inspect.getmembers(import_module(f"hareline.{name}"), inspect.isclass)
        if kind.__module__ == f"hareline.{name}"
    ]
    assert AuditedQueue in kinds
    assert [kind for kind in kinds if type(kind) is ABCMeta and "_abc_impl" not in vars(kind)] == []
