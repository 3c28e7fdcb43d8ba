"""The kept inputs of every target, run once each, and proof that a target notices what is wrong.

``make fuzz`` searches for more, and ``python -m tests.fuzz --keep`` keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.fuzz import corpus, http_target
from tests.fuzz.corpus import read_corpus
from tests.fuzz.target import Reader
from tests.fuzz.targets import NAMES, target_of

#: A function that each target reaches, in a module of the broker or as the target has imported it.
REACHED = (
    ("decoder", "hareline.wire.decoder.frame_error"),
    ("tables", "tests.fuzz.tables_target.take_apart"),
    ("selectors", "hareline.selectors.lexer._name_token"),
    ("connection", "hareline.amqp.topology_methods._owner"),
    ("http", "hareline.management.api.listing._natural"),
)


class Broken(Exception):
    """What a broken part raises, and nothing in the broker expects."""


@pytest.fixture(scope="module", autouse=True)
def _brokers() -> Iterator[None]:
    """The targets keep a broker between inputs; it ends with the tests."""
    yield
    http_target.close()


def inputs_of(name: str) -> list[bytes]:
    return [*target_of(name).seeds(), *read_corpus(name)]


def run_all(name: str, inputs: Sequence[bytes]) -> None:
    """One after the other; what fails says for which input."""
    run = target_of(name).run
    for octets in inputs:
        try:
            run(octets)
        except BaseException as error:
            error.add_note(f"the input: {octets!r}")
            raise


@pytest.mark.parametrize("name", NAMES)
def test_the_kept_inputs_find_nothing(name: str) -> None:
    kept = read_corpus(name)
    assert len(kept) > 20
    run_all(name, inputs_of(name))


@pytest.mark.parametrize(("name", "function"), REACHED)
def test_what_a_part_raises_comes_out(
    name: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise Broken

    inputs = inputs_of(name)
    monkeypatch.setattr(function, fail)
    with pytest.raises(Broken):
        run_all(name, inputs)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("decoder", "tests.fuzz.decoder_target._Acks.ack"),
        ("tables", "tests.fuzz.tables_target.decode_field"),
        ("selectors", "hareline.selectors.selector.Selector.evaluate"),
        ("connection", "hareline.amqp.channels.Channels.end_all"),
    ],
)
def test_what_is_left_out_is_noticed(
    name: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = inputs_of(name)
    monkeypatch.setattr(function, lambda *_: None)
    with pytest.raises(AssertionError):
        run_all(name, inputs)


def test_a_script_has_an_end() -> None:
    reader = Reader(b"\2ab\xff")
    assert (reader.piece(), bool(reader)) == (b"ab", True)
    assert (reader.piece(), bool(reader)) == (b"", False)
    assert (reader.octet(), reader.number(), reader.rest()) == (0, 0, b"")


def test_a_corpus_is_written_as_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "DIRECTORY", tmp_path)
    assert corpus.read_corpus("new") == []
    assert corpus.write_corpus("new", [b"long\n\xff", b"b", b"a", b"b", b""]) == 3
    assert corpus.read_corpus("new") == [b"a", b"b", b"long\n\xff"]
