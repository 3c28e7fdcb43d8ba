"""What a test makes is freed by its reference counts; the collector has nothing to find."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def all_freed(*kinds: type) -> Iterator[None]:
    """Hold that no object of these types that was made inside is left at the end.

    The collector is off meanwhile. What other tests keep alive does not count.
    """
    gc.collect()
    before = [each for each in gc.get_objects() if isinstance(each, kinds)]
    known = set(map(id, before))
    gc.disable()
    try:
        yield
        left = [each for each in gc.get_objects() if isinstance(each, kinds)]
        assert Counter(type(each).__name__ for each in left if id(each) not in known) == {}
    finally:
        gc.enable()
