"""Audit events as rows, and what is worked out of them: Spark's side of a report.

Bodies of the stream ``hareline.audit`` are lines of JSON, an event each; (queue, offset) says which
events are of the same message. Invariant: counts are sums of ``weight``: 1 / share for an event of
the sample, the number of messages for an event that stands for many and is always recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation calls it

from hareline.spark.pipelines.report_data import (
    DELIVER_TO_ACK,
    PUBLISH_TO_ACK,
    PUBLISH_TO_DELIVER,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AUDIT_STREAM: Final = "hareline.audit"
#: What the broker writes in place of events that it could not write.
LOST: Final = "lost"
EVENT_SCHEMA: Final = (
    "ts_us bigint, event string, queue string, `offset` bigint, exchange string, "
    "routing_key string, consumer_tag string, size bigint, reason string, delivery_count int, "
    "`count` bigint"
)
#: Events by which a message leaves its consumer or its queue.
_LEAVING: Final = ("acked", "rejected", "requeued", "expired", "dropped", "dead-lettered")
_IN_TIME: Final = ("published", "routed", "delivered", "acked")
_PERCENTILES: Final = (0.5, 0.95, 0.99)
#: Of the ranks: one in so many messages, so p99 is exact to a hundredth of a percent.
_ACCURACY: Final = 10_000
_MINUTE_US: Final = 60_000_000


def parsed(bodies: DataFrame, share: float) -> DataFrame:
    """The events in the column ``body``, one row each; ``event`` is null for an unreadable line."""
    lines = F.explode(F.split(F.col("body").cast("string"), "\n"))
    events = (
        bodies.select(lines.alias("line"))
        .where(F.col("line") != "")
        .select(F.from_json("line", EVENT_SCHEMA).alias("event"))
        .select("event.*")
    )
    is_event = F.col("event").isNotNull() & F.col("ts_us").isNotNull()
    return events.withColumn("event", F.when(is_event, F.col("event"))).withColumn(
        "weight", F.coalesce(F.col("count").cast("double"), F.lit(1 / share))
    )


def in_span(events: DataFrame, since_us: int | None, until_us: int | None) -> DataFrame:
    """The events from one instant until before another; unreadable ones stay."""
    is_unreadable = F.col("event").isNull()
    if since_us is not None:
        events = events.where(is_unreadable | (F.col("ts_us") >= since_us))
    if until_us is not None:
        events = events.where(is_unreadable | (F.col("ts_us") < until_us))
    return events


def overview(events: DataFrame) -> DataFrame:
    """One row: how many events, from when to when, and how many are unreadable or lost."""
    return events.agg(
        F.count("event").alias("events"),
        F.min(F.when(F.col("event").isNotNull(), F.col("ts_us"))).alias("first_us"),
        F.max(F.when(F.col("event").isNotNull(), F.col("ts_us"))).alias("last_us"),
        F.count_if(F.col("event").isNull()).alias("unreadable"),
        F.coalesce(F.sum(F.when(_is(LOST), F.col("count"))), F.lit(0)).alias("lost"),
        _messages(_is("published")).alias("published"),
        _messages(_is("unroutable")).alias("unroutable"),
    )


def throughput(events: DataFrame) -> DataFrame:
    """Messages and octets for each minute, queue and event; published ones have no queue."""
    minute = F.timestamp_seconds((F.col("ts_us") - F.col("ts_us") % _MINUTE_US) / 1_000_000)
    return (
        events.where(F.col("event").isNotNull() & (F.col("event") != LOST))
        .groupBy(minute.alias("minute"), "queue", "event")
        .agg(_messages().alias("messages"), _octets().alias("octets"))
    )


def timeline(events: DataFrame, bin_s: int) -> DataFrame:
    """Messages and octets of all queues for each interval."""
    of_times = events.where(F.col("event").isin(*_IN_TIME))
    return of_times.groupBy(_bin("ts_us", bin_s)).agg(
        *(_messages(_is(name)).alias(name) for name in _IN_TIME),
        _octets(_is("routed")).alias("octets"),
    )


def queue_totals(events: DataFrame) -> DataFrame:
    """For each queue, how many messages each thing happened to."""
    is_again = _is("delivered") & (F.col("delivery_count") > 0)
    names = ("routed", "delivered", "acked", "rejected", "requeued", "expired", "dropped")
    return (
        events.where(F.col("event").isNotNull() & F.col("queue").isNotNull())
        .groupBy("queue")
        .agg(
            *(_messages(_is(name)).alias(name) for name in names),
            _octets(_is("routed")).alias("octets"),
            _messages(is_again).alias("redelivered"),
            _messages(_is("dead-lettered")).alias("dead_lettered"),
        )
    )


def dead_letters(events: DataFrame) -> DataFrame:
    """Dead letters by reason, queue and routing key."""
    keys = [F.coalesce(F.col(name), F.lit("")).alias(name) for name in ("reason", "routing_key")]
    return (
        events.where(_is("dead-lettered"))
        .groupBy("queue", *keys)
        .agg(_messages().alias("messages"))
    )


def messages(events: DataFrame) -> DataFrame:
    """The life of each message in a queue: when it came, was first delivered, and was acked."""
    return (
        events.where(F.col("offset").isNotNull() & F.col("count").isNull())
        .groupBy("queue", "offset")
        .agg(
            F.count_if(_is("routed")).alias("routed_count"),
            F.min(F.when(_is("routed"), F.col("ts_us"))).alias("routed_us"),
            F.min(F.when(_is("delivered"), F.col("ts_us"))).alias("delivered_us"),
            F.max(F.when(_is("acked"), F.col("ts_us"))).alias("acked_us"),
        )
    )


def stages(lives: DataFrame) -> DataFrame:
    """Duration and start of each stage of each message.

    Left out: stages that began before the first event there is, and messages of a queue that was
    declared again, whose offsets stand for two messages.
    """

    def stage(name: str, start: str, end: str) -> Column:
        return F.struct(
            F.lit(name).alias("stage"),
            F.col(start).alias("start_us"),
            (F.col(end) - F.col(start)).alias("us"),
        )

    each = F.array(
        stage(PUBLISH_TO_DELIVER, "routed_us", "delivered_us"),
        stage(DELIVER_TO_ACK, "delivered_us", "acked_us"),
        stage(PUBLISH_TO_ACK, "routed_us", "acked_us"),
    )
    return (
        lives.where(F.col("routed_count") <= 1)
        .select("queue", F.inline(each))
        .where(F.col("us") >= 0)
    )


def latency(of_stages: DataFrame, *keys: str | Column) -> DataFrame:
    """Percentiles of each stage by these keys, in microseconds."""
    return of_stages.groupBy("stage", *keys).agg(
        F.count("us").alias("messages"), *_percentiles(), F.max("us").alias("max_us")
    )


def latency_timeline(of_stages: DataFrame, bin_s: int) -> DataFrame:
    """Percentiles of each stage by the interval in which it began."""
    return latency(of_stages, _bin("start_us", bin_s))


def deliveries(events: DataFrame) -> DataFrame:
    """For each message and consumer: when it was last delivered, acked, and left the consumer."""
    ours = events.where(F.col("offset").isNotNull() & F.col("count").isNull())
    is_automatic = F.col("reason").eqNullSafe("automatic")
    tag = F.coalesce(F.col("consumer_tag"), F.lit(""))
    leaving = F.when(F.col("event").isin(*_LEAVING), F.col("ts_us"))
    of_consumers = (
        ours.where(_is("delivered") | (F.col("event").isin(*_LEAVING) & ~is_automatic))
        .groupBy("queue", "offset", tag.alias("tag"))
        .agg(
            F.sum(F.when(_is("delivered"), F.col("weight"))).alias("delivered"),
            F.max(F.when(_is("delivered"), F.col("ts_us"))).alias("delivered_us"),
            F.max(F.when(_is("acked"), F.col("ts_us"))).alias("acked_us"),
            F.max(leaving).alias("left_us"),
        )
        .where(F.col("delivered_us").isNotNull())
    )
    # An automatic ack, or a message dropped from under a consumer, names no consumer.
    of_messages = (
        ours.where(F.col("event").isin(*_LEAVING) & F.col("consumer_tag").isNull())
        .groupBy("queue", "offset")
        .agg(F.max("ts_us").alias("gone_us"))
    )
    ack_us = F.col("acked_us") - F.col("delivered_us")
    left_us = F.coalesce(F.greatest("left_us", "gone_us"), F.lit(-1))
    return of_consumers.join(of_messages, ["queue", "offset"], "left").select(
        "queue",
        "tag",
        "delivered",
        "delivered_us",
        F.when(ack_us >= 0, ack_us).alias("us"),
        (left_us < F.col("delivered_us")).alias("is_unacked"),
    )


def consumers(of_consumers: DataFrame, last_us: int, share: float) -> DataFrame:
    """For each consumer: deliveries, acks and their latency, and what it has not acked yet."""
    scale = F.lit(1 / share)
    medians = of_consumers.groupBy("queue").agg(
        F.percentile_approx("us", 0.5, _ACCURACY).alias("queue_p50_us")
    )
    unacked_since = F.min(F.when(F.col("is_unacked"), F.col("delivered_us")))
    return (
        of_consumers.groupBy("queue", "tag")
        .agg(
            F.round(F.sum("delivered")).cast("bigint").alias("delivered"),
            F.round(F.count("us") * scale).cast("bigint").alias("acked"),
            *_percentiles(),
            F.max("us").alias("max_us"),
            F.round(F.count_if("is_unacked") * scale).cast("bigint").alias("unacked"),
            (F.lit(last_us) - unacked_since).alias("oldest_unacked_us"),
        )
        .join(medians, "queue")
    )


def archived(rows: DataFrame) -> DataFrame:
    """Messages, octets, sizes and times of each queue in an archive."""
    arrived = F.unix_micros("timestamp")
    return rows.groupBy("queue").agg(
        F.count("*").alias("messages"),
        F.sum(F.col("size").cast("bigint")).alias("octets"),
        F.percentile_approx("size", 0.5, _ACCURACY).alias("size_p50"),
        F.max("size").alias("size_max"),
        F.min(arrived).alias("first_us"),
        F.max(arrived).alias("last_us"),
    )


def archived_throughput(rows: DataFrame) -> DataFrame:
    """Archived messages and octets for each minute of arrival and queue."""
    return rows.groupBy(F.date_trunc("minute", "timestamp").alias("minute"), "queue").agg(
        F.count("*").alias("messages"), F.sum(F.col("size").cast("bigint")).alias("octets")
    )


def _is(event: str) -> Column:
    return F.col("event") == event


def _bin(instant: str, bin_s: int) -> Column:
    """The start of the interval of an instant, in seconds."""
    width = bin_s * 1_000_000
    return ((F.col(instant) - F.col(instant) % width) / 1_000_000).cast("bigint").alias("start_s")


def _messages(condition: Column | None = None) -> Column:
    return _sum(F.col("weight"), condition)


def _octets(condition: Column | None = None) -> Column:
    return _sum(F.col("size") * F.col("weight"), condition)


def _sum(figure: Column, condition: Column | None) -> Column:
    of_these = figure if condition is None else F.when(condition, figure)
    return F.round(F.coalesce(F.sum(of_these), F.lit(0.0))).cast("bigint")


def _percentiles() -> list[Column]:
    return [
        F.percentile_approx("us", share, _ACCURACY).alias(f"p{round(share * 100)}_us")
        for share in _PERCENTILES
    ]
