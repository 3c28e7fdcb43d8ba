"""How many examples a property test looks at, where it is not as many as the profile says.

tests/conftest.py has the profiles. A test whose examples are long, or cheap, takes a share of them,
so that `make fuzz` deepens it, too.
"""

from __future__ import annotations

from hypothesis import settings


def examples(share: float) -> int:
    """``share`` of the profile's examples, at least one, for ``max_examples``; may be above 1."""
    assert settings.default is not None
    return max(1, round(settings.default.max_examples * share))
