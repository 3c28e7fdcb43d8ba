"""Target of a replay: the sink, with headers changed on the way and a report at the end.

Headers are changed in the task, because only the octets of a table keep all its types.
Invariant: fields of a table that are not taken out stay the same octets in the same order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from struct import Struct
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, WriterCommitMessage
from pyspark.sql.types import StructType

from hareline.spark.shared.headers import text_field, without_fields
from hareline.spark.writing.sink import BatchWriter, WrittenPartition

FORMAT: Final = "hareline_replay"
#: The option that has a `Slice` as JSON.
SLICE: Final = "slice"
REPLAYED_FROM: Final = "x-replayed-from"

#: What may be kept -> the headers that belong to the first life of a message.
HEADERS: Final[dict[str, tuple[str, ...]]] = {
    "x-death": (
        *("x-death", "x-death-forgotten"),
        *(f"x-first-death-{each}" for each in ("reason", "queue", "exchange")),
        *(f"x-last-death-{each}" for each in ("reason", "queue", "exchange")),
    ),
    "CC": ("CC",),
    "BCC": ("BCC",),
}
#: The broker would take a replayed message for the one it has had, and drop it.
_NEVER_KEPT: Final = ("x-producer-id", "x-producer-seq")
_SIZE: Final = Struct(">I")


@dataclass(frozen=True)
class Slice:
    """One write of a replay, as it travels in an option."""

    #: Of the replay; with the number it makes the producer ids and sequences.
    replay: str
    number: int
    #: The words of `HEADERS` whose headers are kept.
    keep: list[str]
    #: Whether each message gets the header x-replayed-from.
    marks: bool
    #: A file on the driver's machine, for what became of the rows.
    report: str


class ReplayTarget(DataSource):
    """The data source of this name; it only writes."""

    @classmethod
    def name(cls) -> str:
        """``hareline_replay``."""
        return FORMAT

    def writer(self, schema: Any, overwrite: bool) -> ReplayWriter:
        """The writer of one slice; its columns are those of the sink, and ``queue``."""
        options = {name: value for name, value in self.options.items() if name != SLICE}
        columns = StructType([each for each in schema.fields if each.name != "queue"])
        return ReplayWriter(options, columns, Slice(**json.loads(self.options[SLICE])))


class ReplayWriter(BatchWriter):
    """Writes one slice."""

    def __init__(self, options: Mapping[str, str], schema: StructType, part: Slice) -> None:
        super().__init__(options, schema, part.replay, part.number)
        self._part = part

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenPartition:
        """Publish the rows of a partition with the headers of a replay; runs in a task."""
        headers = ReplayedHeaders(self._part.keep, marks=self._part.marks)
        return super().write(map(headers.changed, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Report to the driver; this runs on its machine."""
        super().commit(messages)
        written = [asdict(each) for each in messages if isinstance(each, WrittenPartition)]
        Path(self._part.report).write_text(json.dumps(written), encoding="utf-8")


class ReplayedHeaders:
    """Takes out headers of the first life of messages, and says where they come from."""

    def __init__(self, keep: list[str], *, marks: bool) -> None:
        dropped = [name for word, names in HEADERS.items() if word not in keep for name in names]
        dropped += _NEVER_KEPT
        if marks:
            dropped.append(REPLAYED_FROM)
        self._dropped = frozenset(name.encode() for name in dropped)
        # A table with none of these octets has none of these fields.
        self._suspect = re.compile(b"|".join(map(re.escape, sorted(self._dropped))))
        self._marks = marks

    def changed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows with other ``headers_raw``."""
        place = batch.schema.get_field_index("headers_raw")
        tables = batch.column(place).to_pylist()
        queues = batch.column("queue").to_pylist()
        known: dict[tuple[str, bytes | None], bytes | None] = {}
        changed = []
        for key in zip(queues, tables, strict=True):
            if key not in known:
                known[key] = self.table(*key)
            changed.append(known[key])
        column = pa.array(changed, batch.schema.field(place).type)
        return batch.set_column(place, batch.schema.field(place), column)

    def table(self, queue: str, table: bytes | None) -> bytes | None:
        """The octets of a headers table as they are published, None for no headers."""
        fields = b"" if table is None else table[4:]
        if self._suspect.search(fields):
            fields = without_fields(fields, self._dropped)
        if self._marks:
            fields += text_field(REPLAYED_FROM, queue)
        elif table is None:
            return None
        return _SIZE.pack(len(fields)) + fields
