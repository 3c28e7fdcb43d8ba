"""What glibc is told, and that nothing is told where there is no glibc."""

from __future__ import annotations

import ctypes
import platform

import pytest

from hareline.net.allocator import (
    GROWTH_BYTES,
    KEPT_BYTES,
    MAPPING_BYTES,
    keep_freed_memory,
    release_freed_memory,
)


class FakeLibrary:
    """A C library that remembers what it is asked; ``refused``: an option that it does not take."""

    def __init__(self, refused: int = 0) -> None:
        self._refused = refused
        self.options: dict[int, int] = {}
        self.trims: list[int] = []

    def gnu_get_libc_version(self) -> bytes:
        return b"2.36"

    def mallopt(self, option: int, value: int) -> int:
        self.options[option] = value
        return int(option != self._refused)

    def malloc_trim(self, kept_bytes: int) -> int:
        self.trims.append(kept_bytes)
        return 1


def pretend(monkeypatch: pytest.MonkeyPatch, library: object) -> None:
    def load(name: str | None) -> object:
        assert name is None
        if isinstance(library, Exception):
            raise library
        return library

    monkeypatch.setattr(ctypes, "CDLL", load)


def test_every_threshold_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeLibrary()
    pretend(monkeypatch, library)
    assert keep_freed_memory()
    # the numbers are those of malloc.h: M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD
    assert library.options == {-1: KEPT_BYTES, -2: GROWTH_BYTES, -3: MAPPING_BYTES}


def test_a_threshold_that_is_refused_is_told_and_the_others_are_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = FakeLibrary(refused=-1)
    pretend(monkeypatch, library)
    assert not keep_freed_memory()
    assert len(library.options) == 3


def test_all_free_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeLibrary()
    pretend(monkeypatch, library)
    release_freed_memory()
    assert library.trims == [0]


@pytest.mark.parametrize("library", [object(), OSError("no library"), TypeError("no None")])
def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch, library: object) -> None:
    pretend(monkeypatch, library)
    assert not keep_freed_memory()
    release_freed_memory()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_the_library_of_this_machine_has_the_functions() -> None:
    library = ctypes.CDLL(None)
    assert callable(library.mallopt)
    assert callable(library.malloc_trim)
    release_freed_memory()
