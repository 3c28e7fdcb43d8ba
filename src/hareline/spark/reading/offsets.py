"""The offset of a query: how far it has read each stream, as JSON that Spark keeps.

``{"v":1,"q":{"vhost/queue":{"i":"<incarnation>","o":123}}}``: ``o`` is the offset of the next
message to read. Spark compares the JSON as text, so it is always laid down in one way: streams in
the order of their names. Invariant: a stream that is in an offset is in all that come after it,
also when it is no longer read, so that it goes on from there if it returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hareline.spark.errors import InvalidOption

_VERSION: Final = 1


class Position(NamedTuple):
    """The next message to read of a stream, and which life of the stream its offset is of."""

    incarnation: str
    offset: int


def to_json(
    vhost: str,
    positions: Mapping[str, Position],
    amounts: Mapping[str, Mapping[str, int]] | None = None,
) -> dict[str, object]:
    """The offset as Spark is handed it; ``positions`` by the names of queues.

    ``amounts``: what is shown beside the position of a stream, where no query goes on from it.
    """
    return {
        "v": _VERSION,
        "q": {
            f"{vhost}/{queue}": {
                "i": positions[queue].incarnation,
                "o": positions[queue].offset,
                **((amounts or {}).get(queue, {})),
            }
            for queue in sorted(positions)
        },
    }


def from_json(vhost: str, offset: Mapping[str, object]) -> dict[str, Position]:
    """The positions in an offset that `to_json` made, by queue. Raises InvalidOption."""
    if offset.get("v") != _VERSION:
        raise InvalidOption(
            f"the checkpoint has offsets of version {offset.get('v')!r}; this source reads "
            f"version {_VERSION}: use another checkpointLocation"
        )
    positions = {}
    prefix = f"{vhost}/"
    try:
        for key, position in offset["q"].items():  # type: ignore[attr-defined]
            if not key.startswith(prefix):
                raise InvalidOption(
                    f"the checkpoint has {key!r} and the url has virtual host {vhost!r}: "
                    "use another checkpointLocation"
                )
            positions[key[len(prefix) :]] = Position(str(position["i"]), int(position["o"]))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidOption(
            "the checkpoint has offsets that this source did not write: "
            "use another checkpointLocation"
        ) from None
    return positions
