"""The tables of rights in docs/security.md, and who may call a route in docs/http-api.md.

``write_reference`` writes the page; tests/test_reference.py fails while they are not up to date.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from hareline.management.api import TABLE
from scripts.rights_table import OPERATIONS, Need, Operation

RIGHTS = ("configure", "write", "read")
#: A row of a route, and what it says that its caller needs, where that is a tag and no more.
_NEEDS = re.compile(
    r"^(\| \[?`([A-Z]+ /\S+)`[^|]*\| )(management|policymaker|monitoring|administrator)(?= \|)",
    re.MULTILINE,
)


def with_tables(page: str) -> str:
    """The page with each table between its marks written again."""
    tables = {
        "rights over AMQP": _rights("AMQP", "Method"),
        "rights over HTTP": _rights("HTTP", "Route"),
    }
    for name, table in tables.items():
        begin, end = f"<!-- {name}: written by `make reference` -->", f"<!-- end of {name} -->"
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"docs/security.md has no place for the table of {name}")
        page = f"{before}{begin}\n\n{table}\n\n{end}{after}"
    return page


def with_needs(page: str) -> str:
    """The page of routes with the tag that the table of routes asks for."""
    needs = {row.request: row.needs for table in TABLE for row in table.rows if row.needs}
    return _NEEDS.sub(lambda found: found[1] + needs.get(found[2], found[3]), page)


def _rights(way: str, heading: str) -> str:
    """The operations of a way in, those with the same needs in one row."""
    rows = []
    by_needs: dict[tuple[Need, ...], list[Operation]] = {}
    for each in OPERATIONS:
        if each.way == way:
            by_needs.setdefault(each.needs, []).append(each)
    for needs, operations in by_needs.items():
        cells = ["; ".join(each.name for each in needs if each.right == right) for right in RIGHTS]
        rows.append((_titles(operations), *cells))
    return _table((heading, *RIGHTS), rows)


def _titles(operations: Iterable[Operation]) -> str:
    """The operations of a row: ``a, b``, or ``a with this; with that``.

    A route that differs from the one before it only in its end is shown by that: ``.../end``.
    """
    titles = []
    above = ""
    for name, found in groupby(operations, key=lambda each: each.name):
        folder, _, end = name.rpartition("/")
        shown = name if " " not in name else f"`.../{end}`" if folder == above else f"`{name}`"
        above = folder
        variants = "; ".join(each.variant for each in found if each.variant)
        titles.append(f"{shown} {variants}".strip())
    return ", ".join(titles)


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = tuple(heads)
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
