"""What the scenarios share: one Spark session, and a stream that is filled once.

Each message differs from the others: a number in its body and its message id, one of a hundred
routing keys, and two headers, of which one counts.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from benchmarks.macro.client import BrokerUrl, Client
from benchmarks.macro.machine import data_directory
from benchmarks.macro.scenario import Bench, unique_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BODY_SIZE: Final = 200
ROUTING_KEYS: Final = 100
NARROW: Final = "offset bigint, timestamp timestamp, routing_key string, body binary"


class Stage:
    """``messages``: how many there are in the stream."""

    def __init__(self, messages: int) -> None:
        self.messages = messages
        self._session: SparkSession | None = None
        self._stream = ""
        self._folder: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            self._session.stop()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def session(self) -> SparkSession:
        """Spark on two cores, started on first use and warm."""
        if self._session is None:
            from hareline.spark.session import session

            self._session = session("benchmark", master="local[2,4]")
            self._session.range(1_000).groupBy("id").count().count()
        return self._session

    @property
    def folder(self) -> Path:
        """A directory on the disk that the brokers' data is on, gone at the end."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="bench-spark-", dir=data_directory()))
        return self._folder

    def broker_options(self, bench: Bench) -> dict[str, str]:
        """The options by which Spark finds the broker."""
        assert bench.broker is not None
        at = BrokerUrl.parse(bench.url)
        return {
            "url": f"amqp://{at.host}:{at.port}",
            "user": at.user,
            "password": at.password,
            "httpUrl": bench.broker.management_url,
        }

    def rows(self, count: int) -> DataFrame:
        """Rows for the sink: bodies of 200 octets, and the properties described above."""
        return self.session.range(count, numPartitions=2).selectExpr(
            f"rpad(cast(id as string), {BODY_SIZE}, 'x') as body",
            f"concat('orders.', id % {ROUTING_KEYS}) as routing_key",
            "cast(id as string) as message_id",
            "'application/json' as content_type",
            "map('kind', 'order', 'number', cast(id as string)) as headers",
        )

    def stream(self, bench: Bench) -> str:
        """The name of the stream, filled on first use."""
        if not self._stream:
            name = unique_name("spark")
            declare_stream(bench, name)
            self.write(bench, name, self.messages)
            self._stream = name
        return self._stream

    def write(self, bench: Bench, queue: str, count: int) -> float:
        """Write rows into a queue, confirmed; returns the seconds."""
        with bench.control() as control:
            exchange = f"{queue}.in"
            control.declare_exchange(exchange, "fanout", is_durable=True)
            control.bind(queue, exchange, "")
        begun = time.perf_counter()
        options = {**self.broker_options(bench), "exchange": exchange}
        writer = self.rows(count).write.format("amqp").options(**options)
        writer.mode("append").save()
        seconds = time.perf_counter() - begun
        with bench.control() as control:
            control.delete_exchange(exchange)
        return seconds

    def read(self, bench: Bench, schema: str | None = None, **options: str) -> DataFrame:
        """The whole stream as a batch, with the columns of ``schema`` or the default ones."""
        reader = self.session.read.format("amqp").options(
            **self.broker_options(bench), queue=self.stream(bench), **options
        )
        return (reader if schema is None else reader.schema(schema)).load()


def declare_stream(bench: Bench, name: str) -> None:
    """A durable stream."""
    with Client(bench.url) as client:
        client.declare_queue(name, {"x-queue-type": "stream"}, is_durable=True)
