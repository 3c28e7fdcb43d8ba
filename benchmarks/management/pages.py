"""What the pages of the web UI ask for, how often, and by what their lists can be sorted.

The requests are those that the modules in ``management/ui`` make; sorts are read from there.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, urlencode

from benchmarks.macro.machine import PROJECT_ROOT
from benchmarks.management.asking import Ask

UI: Final = PROJECT_ROOT / "src" / "hareline" / "management" / "ui"
REFRESH_S: Final = 5.0
SLOW_REFRESH_S: Final = 15.0
#: rows of a page: the UI's usual number, and the most that it offers
ROWS: Final = 50
ROWS_MAX: Final = 500

#: list -> the module that has its columns, and the text that they begin and end with
_COLUMNS: Final = {
    "queues": ("queues.js", "export function Queues", "\n}"),
    "consumers": ("consumers.js", "export function Consumers", "\n}"),
    "channels": ("channels.js", "export const CHANNEL_COLUMNS", "\n];"),
    "connections": ("connections.js", "const columns =", "\n];"),
    "exchanges": ("exchanges.js", "export function Exchanges", "\n}"),
}
_COLUMN: Final = re.compile(r'\{ key: "([^"]+)", label: "[^"]*"([^{]*)')
_SORT: Final = re.compile(r'sort: (?:"([^"]+)"|(false))')


def offered_sorts(name: str) -> list[str]:
    """The columns by which a list of the UI can be sorted."""
    module, begin, end = _COLUMNS[name]
    text = (UI / "pages" / module).read_text(encoding="utf-8")
    columns = text.partition(begin)[2].partition(end)[0]
    found = []
    for key, rest in _COLUMN.findall(columns):
        sort = _SORT.search(rest.partition("view:")[0])
        if sort is None:
            found.append(key)
        elif sort[1]:
            found.append(sort[1])
    return list(dict.fromkeys(found))


def list_path(name: str, sort: str, *, is_reversed: bool, rows: int = ROWS) -> str:
    """The first page of a list, as the UI asks for it."""
    query = {
        "page": 1,
        "page_size": rows,
        "pagination": "true",
        "sort": sort,
        "sort_reverse": str(is_reversed).lower(),
    }
    return f"/api/{name}?{urlencode(query)}"


def overview(node: str) -> list[Ask]:
    """The first page of the UI, and what is asked beside each page."""
    return [
        Ask("/api/overview", REFRESH_S),
        Ask(f"/api/nodes/{quote(node, safe='')}", REFRESH_S),
        _list("queues", "messages", rows=5),
        _list("queues", "messages_details.rate", rows=5),
        _FRAME,
    ]


def queues() -> list[Ask]:
    """The list of queues by their growth, with as many rows as can be chosen."""
    return [_list("queues", "messages_details.rate", rows=ROWS_MAX), _FRAME]


def consumers() -> list[Ask]:
    """The consumers that have not acknowledged for longest."""
    return [_list("consumers", "oldest_unacknowledged_age_s", rows=ROWS_MAX), _FRAME]


def one_queue(name: str) -> list[Ask]:
    """A queue, and its bindings."""
    return [
        Ask(f"/api/queues/%2F/{quote(name, safe='')}", REFRESH_S),
        Ask(f"/api/queues/%2F/{quote(name, safe='')}/bindings", 10.0),
        _FRAME,
    ]


def dead_letters() -> list[Ask]:
    """Dead letters by reason."""
    return [Ask("/api/hareline/dead-letters", 60.0), _FRAME]  # as ui/pages/dead_letters.js does


def near_limits() -> list[Ask]:
    """What is near a limit."""
    return [Ask("/api/hareline/near-limits?threshold=80", SLOW_REFRESH_S), _FRAME]


def _list(name: str, sort: str, *, rows: int) -> Ask:
    return Ask(list_path(name, sort, is_reversed=True, rows=rows), REFRESH_S)


#: every page has a choice of virtual hosts
_FRAME: Final = Ask("/api/vhosts?columns=name", 30.0)
