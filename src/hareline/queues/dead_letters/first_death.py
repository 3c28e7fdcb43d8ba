"""Search for the table of the first death in a message's ``x-death``.

``operations.targets`` asks for a retry, and the management side for its page of dead letters. A
death that repeats an earlier one moves its table to the front of ``x-death`` (``history``), so in a
retry loop the last table is often that of another queue. The headers ``x-first-death-queue`` and
``x-first-death-reason`` say which table it is.

Invariant: nothing is assumed of the headers, which any publisher may have written.
"""

from __future__ import annotations

from collections.abc import Mapping

from hareline.queues.dead_letters.history import X_DEATH


def first_death(headers: Mapping[str, object]) -> Mapping[str, object] | None:
    """The table of the first death; None if the headers have none.

    That is the table of the queue and reason that the headers name, or else the last one: the
    oldest, in headers that name none.
    """
    deaths = headers.get(X_DEATH)
    if not isinstance(deaths, list):
        return None
    tables = [death for death in deaths if isinstance(death, Mapping)]
    named = (headers.get("x-first-death-queue"), headers.get("x-first-death-reason"))
    for table in tables:
        if (table.get("queue"), table.get("reason")) == named:
            return table
    return tables[-1] if tables else None
