"""Groups of tests: one for each folder of tests, and for each folder of ``tests/interop``.

A group is what `make acceptance` runs and reports at a time. A test belongs to the gate, which is
`make test`, unless it carries the marker ``acceptance``.
"""

from __future__ import annotations

from typing import Final

#: Group of the test files that lie in ``tests`` itself.
HOUSE: Final = "house"
#: Groups that meet nothing outside their own process. Every other one has 60 s of the gate.
INSIDE: Final = frozenset({HOUSE, "unit", "support", "transcripts", "conformance"})
#: Folder whose folders are groups, too.
_DIVIDED: Final = "interop"


def group_of(nodeid: str) -> str:
    """Group of a test, by the folder of its file: ``tests/interop/java/test_jms.py`` is "java"."""
    folders = nodeid.partition("::")[0].split("/")[1:-1]
    if not folders:
        return HOUSE
    return folders[1] if folders[0] == _DIVIDED and len(folders) > 1 else folders[0]
