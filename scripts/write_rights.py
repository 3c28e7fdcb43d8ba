"""The tables of rights in docs/security.md, made from ``scripts.rights_table``.

``write_reference`` writes the page; tests/test_reference.py fails while it is not up to date.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from scripts.rights_table import OPERATIONS, TAG_ONLY, Operation

RIGHTS = ("configure", "write", "read")


def with_tables(page: str) -> str:
    """The page with each table between its marks written again."""
    tables = {
        "rights over AMQP": _rights("AMQP", "Method"),
        "rights over HTTP": _rights("HTTP", "Route"),
        "routes by tags": _tags(),
    }
    for name, table in tables.items():
        begin, end = f"<!-- {name}: written by `make reference` -->", f"<!-- end of {name} -->"
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"docs/security.md has no place for the table of {name}")
        page = f"{before}{begin}\n\n{table}\n\n{end}{after}"
    return page


def _rights(way: str, heading: str) -> str:
    """The operations of a way in, those with the same needs in one row."""
    rows = []
    of_way = [each for each in OPERATIONS if each.way == way]
    for needs, operations in groupby(of_way, key=lambda each: each.needs):
        cells = ["; ".join(each.name for each in needs if each.right == right) for right in RIGHTS]
        rows.append((_titles(operations), *cells))
    return _table((heading, *RIGHTS), rows)


def _titles(operations: Iterable[Operation]) -> str:
    """The operations of a row: ``a, b``, or ``a with this; with that``."""
    titles = []
    for name, found in groupby(operations, key=lambda each: each.name):
        shown = name if " " not in name else f"`{name}`"
        variants = "; ".join(each.variant for each in found if each.variant)
        titles.append(f"{shown} {variants}".strip())
    return ", ".join(titles)


def _tags() -> str:
    rows: dict[str, list[str]] = {}
    for route, tag in TAG_ONLY.items():
        rows.setdefault(tag, []).append(f"`{route}`")
    return _table(
        ("Tag", "Routes"), ((f"`{tag}`", ", ".join(found)) for tag, found in rows.items())
    )


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = tuple(heads)
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
