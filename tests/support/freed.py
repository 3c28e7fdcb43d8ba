"""Check that objects are freed by their reference counts, without the garbage collector."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def all_freed(*kinds: type) -> Iterator[Callable[[], Counter[str]]]:
    """Fail if an object of these types, or of a subclass, that was made inside is left at the end.

    The collector is off inside. What is called there counts, by the name of the type, what has been
    made inside and is alive. Objects that other tests have left do not count.
    """

    def alive() -> list[object]:
        # not isinstance: it asks some objects, as a proxy whose referent is gone, and that raises
        return [each for each in gc.get_objects() if issubclass(type(each), kinds)]

    gc.collect()
    before = alive()
    known = set(map(id, before))

    def made() -> Counter[str]:
        return Counter(type(each).__name__ for each in alive() if id(each) not in known)

    gc.disable()
    try:
        yield made
        assert made() == {}
    finally:
        gc.enable()
