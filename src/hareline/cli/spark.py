"""``hareline spark``: archive streams, replay archives, and report, by Spark here or on a cluster.

Invariant: pyspark is imported only when a command runs, so help and errors in arguments need
neither Spark nor Java. Whatever goes wrong is a sentence on standard error and exit status 1 (2 for
a command line that cannot be parsed), never a traceback. Standard output has only the result;
progress goes to standard error, as a bar on a terminal and as lines elsewhere.
"""

from __future__ import annotations

import datetime
import logging
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click
from click import argument, option

from hareline.cli.command import Group, Number, Whole, together
from hareline.cli.failures import errors_as_sentences, fail
from hareline.cli.output import Display, complain, console
from hareline.cli.target import asked_password
from hareline.spark.errors import EnvironmentMissing, SparkSideError
from hareline.spark.shared.options import INSTANT_FORMS, microseconds_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Stand in for a password, and are read by the source and the sink themselves.
_OTHER_SECRETS: Final = {"passwordfile": "HARELINE_PASSWORD_FILE", "token": "HARELINE_TOKEN"}
_DEFAULT_USER: Final = "guest"
_DEFAULT_URL: Final = "amqp://127.0.0.1:5672"

spark = Group(
    "spark",
    help="Archive streams, replay them, and report, by Spark.\n\n"
    "Needs Java 17 or newer and the extra: pip install '.[spark]' in a clone, or "
    "'./hareline-VERSION.whl[spark]' of a wheel. The password of --user comes from the variable "
    "HARELINE_PASSWORD, or is asked for on a terminal.",
)


def _pairs(texts: Iterable[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"'{text}' is not NAME=VALUE")
        pairs[name] = value
    return pairs


def _instant_us(text: str | None) -> int | None:
    """Microseconds since 1970, of ISO 8601 with a zone or of epoch milliseconds."""
    if text is None:
        return None
    try:
        return microseconds_of(text)
    except ValueError:
        raise click.BadParameter(f"'{text}' is not {INSTANT_FORMS}") from None


_from = option(
    "--from", "from_instant", metavar="TIME", help=f"From this instant on: {INSTANT_FORMS}."
)
_to = option("--to", "to_instant", metavar="TIME", help="Before this instant.")
_url = option(
    "--url",
    envvar="HARELINE_URL",
    show_envvar=True,
    metavar="URL",
    default=_DEFAULT_URL,
    help="Address of the broker and its virtual host: amqp://HOST:PORT/VHOST, percent-encoded.",
)
_http_url = option(
    "--http-url",
    envvar="HARELINE_HTTP_URL",
    show_envvar=True,
    metavar="URL",
    help="Address of the management port; by default port 15672 of the same host.",
)
_user = option(
    "--user",
    envvar="HARELINE_USER",
    show_envvar=True,
    metavar="NAME",
    default=_DEFAULT_USER,
    help="Who logs in.",
)
_option = option(
    "--option",
    multiple=True,
    metavar="NAME=VALUE",
    help='An option of format("amqp"), such as minPartitions=4; may be given again.',
)
_spark_options = together(
    option(
        "--master",
        metavar="URL",
        help="Where Spark runs (spark://HOST:7077, k8s://HOST); by default on this machine.",
    ),
    option("--driver-memory", metavar="SIZE", default="1g", help="Memory of Spark's Java process."),
    option(
        "--conf",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of Spark; may be given again.",
    ),
    option(
        "--log-level",
        metavar="LEVEL",
        default="off",
        help="What Spark logs to standard error: off, error, warn, info or debug.",
    ),
)


@spark.command()
@argument("path", help="Folder of the archive: here, or at s3a:// or hdfs://.")
@option("--queue", multiple=True, metavar="NAME", help="Stream to archive; may be given again.")
@option("--pattern", metavar="REGEX", help="All streams with such names, also new ones.")
@option("--continuous", is_flag=True, help="Go on until SIGINT or SIGTERM.")
@option(
    "--trigger",
    type=Number(0.1),
    default=60,
    help="With --continuous: seconds from batch to batch.",
)
@_url
@_http_url
@_user
@_option
@_spark_options
def archive(
    path: str,
    queue: tuple[str, ...],
    pattern: str | None,
    continuous: bool,
    trigger: float,
    url: str,
    http_url: str | None,
    user: str,
    option: tuple[str, ...],
    **spark: Any,
) -> None:
    """Write streams to Parquet, by queue and day, each message once.

    Takes what has come since the last run with the same PATH; the first run begins with the oldest
    message there is. A run that was killed is simply done again.
    """
    if bool(queue) == (pattern is not None):
        raise click.BadParameter("give --queue or --pattern")
    options = _broker(url, http_url, user, option)
    if pattern is not None:
        options["queuePattern"] = pattern
    else:
        options["queue" if len(queue) == 1 else "queues"] = ",".join(queue)
    with _spark("hareline archive", **spark) as session:
        from hareline.spark.pipelines import archive as pipeline

        with Display("archiving") as display, _stop_signal() as is_told_to_stop:
            done = pipeline.archive(
                session,
                path,
                options,
                is_continuous=continuous,
                trigger_s=trigger,
                on_progress=lambda each: display.show_count(
                    each.messages, each.messages + each.remaining
                ),
                should_stop=is_told_to_stop,
            )
            is_cut_short = is_told_to_stop() and not continuous
        batches = "batch" if done.batches == 1 else "batches"
        console().print(f"archived {done.messages} messages in {done.batches} {batches}: {path}")
        if is_cut_short:
            fail("hareline: stopped before the end; run it again to go on")


@spark.command()
@argument("path", help="Folder that `archive` wrote to.")
@option("--queue", multiple=True, metavar="NAME", help="Only messages of it; may be given again.")
@_from
@_to
@option("--where", metavar="SQL", help="Only messages for which it holds: priority > 5.")
@option("--to-exchange", metavar="NAME", help="Exchange that gets all; by default where they were.")
@option("--to-routing-key", metavar="KEY", help="Routing key of all; by default the one they had.")
@option("--max-rate", type=Whole(1), help="At most N messages a second.")
@option(
    "--keep",
    multiple=True,
    metavar="WORD",
    help="What is taken out otherwise: expiration, user_id, x-death, CC or BCC; may be "
    "given again.",
)
@option("--mark/--no-mark", default=True, help="Add the header x-replayed-from.")
@option("--dry-run", is_flag=True, help="Count the messages, and publish nothing.")
@_url
@_user
@_option
@_spark_options
def replay(
    path: str,
    queue: tuple[str, ...],
    from_instant: str | None,
    to_instant: str | None,
    where: str | None,
    to_exchange: str | None,
    to_routing_key: str | None,
    max_rate: int | None,
    keep: tuple[str, ...],
    mark: bool,
    dry_run: bool,
    url: str,
    user: str,
    option: tuple[str, ...],
    **spark: Any,
) -> None:
    """Publish messages of an archive again, in their order.

    Bodies and headers are the same octets. What is taken out of messages, and what happens when
    something fails, is in docs/spark-replay.md.
    """
    start, end = (_datetime(_instant_us(each)) for each in (from_instant, to_instant))
    broker = {} if dry_run else _broker(url, None, user, option)
    with _spark("hareline replay", **spark) as session:
        from hareline.spark.pipelines import replay as pipeline

        with Display("replaying") as display:
            done = pipeline.replay(
                session,
                path,
                broker,
                queues=queue,
                start=start,
                end=end,
                where=where,
                to_exchange=to_exchange,
                to_routing_key=to_routing_key,
                max_rate=max_rate,
                keep=keep,
                mark=mark,
                dry_run=dry_run,
                on_progress=lambda each: display.show_count(
                    each.published + each.dropped, each.total
                ),
            )
        for each in done.counts:
            console().print(
                f"'{each.queue}': {each.messages} messages, {each.octets} octets, exchange "
                f"'{each.exchange if to_exchange is None else to_exchange}', "
                f"{each.first.isoformat()} to {each.last.isoformat()}"
            )
        if dry_run:
            console().print(f"would replay {done.total} messages")
            return
        dropped = f"; {done.dropped} were unroutable" if done.dropped else ""
        console().print(f"replayed {done.published} of {done.total} messages{dropped}")


@spark.command()
@argument("out", metavar="FOLDER", help="Gets report.html, report.json, and Parquet tables.")
@option(
    "--audit-archive",
    metavar="PATH",
    help="Take the events from an archive of the audit stream, not from the broker.",
)
@option("--messages", metavar="PATH", help="An archive of messages, for a section of its own.")
@option("--without-audit", is_flag=True, help="With --messages: report on that archive alone.")
@_from
@_to
@option(
    "--sample",
    type=float,
    metavar="SHARE",
    default=1.0,
    help="The share of messages that the broker audits: 0.1 for `audit = sample:0.1`.",
)
@option("--audit-queue", metavar="NAME", default="hareline.audit", help="The audit stream.")
@_url
@_http_url
@_user
@_option
@_spark_options
def report(
    out: str,
    audit_archive: str | None,
    messages: str | None,
    without_audit: bool,
    from_instant: str | None,
    to_instant: str | None,
    sample: float,
    audit_queue: str,
    url: str,
    http_url: str | None,
    user: str,
    option: tuple[str, ...],
    **spark: Any,
) -> None:
    """Report on throughput, latency, dead letters and consumers.

    Reads the audit stream of a virtual host (its setting `audit`), and writes one HTML page that
    needs no network, the same figures as JSON, and all tables as Parquet.
    """
    since_us, until_us = _instant_us(from_instant), _instant_us(to_instant)
    if without_audit and messages is None:
        raise click.BadParameter("--without-audit needs --messages")
    is_from_broker = audit_archive is None and not without_audit
    options = _broker(url, http_url, user, option) if is_from_broker else None
    with _spark("hareline report", **spark) as session:
        from hareline.spark.pipelines import report as pipeline

        with Display("reporting") as display:
            made = pipeline.report(
                session,
                out,
                options,
                audit_path=audit_archive,
                messages_path=messages,
                audit_queue=audit_queue,
                share=sample,
                since_us=since_us,
                until_us=until_us,
                on_step=display.show_step,
            )
        console().print(f"reported {made.events} events: {out.rstrip('/')}/{pipeline.PAGE}")


def _datetime(us: int | None) -> datetime.datetime | None:
    if us is None:
        return None
    epoch = datetime.datetime.fromtimestamp(0, datetime.UTC)
    return epoch + datetime.timedelta(microseconds=us)


def _broker(url: str, http_url: str | None, user: str, option: Iterable[str]) -> dict[str, str]:
    """The options of the source that say where the broker is and who logs in."""
    options = _pairs(option)
    given = {name.lower() for name in options}
    for name, value in (("url", url), ("httpUrl", http_url), ("user", user)):
        if value is not None and name.lower() not in given:
            options[name] = value
    password = _password(user, given)
    if password is not None:
        options["password"] = password
    return options


def _password(user: str, given: set[str]) -> str | None:
    """The password, asked for if need be; None if another secret is given, or for `guest`."""
    others = _OTHER_SECRETS.items()
    if "password" in given or any(name in given for name, _ in others):
        return None
    if os.environ.get("HARELINE_PASSWORD") is None and (
        user == _DEFAULT_USER or any(os.environ.get(variable) for _, variable in others)
    ):
        return None
    with errors_as_sentences():
        return asked_password(user)


@contextmanager
def _spark(
    name: str, master: str | None, driver_memory: str, conf: Iterable[str], log_level: str
) -> Iterator[SparkSession]:
    """A session; every error while it is open becomes a sentence and exit status 1."""
    settings: Mapping[str, str] = _pairs(conf)
    level = log_level.upper()
    if level not in {"OFF", "ERROR", "WARN", "INFO", "DEBUG"}:
        raise click.BadParameter(
            f"--log-level: '{log_level}' is not off, error, warn, info or debug"
        )
    # It logs tracebacks of errors that are raised here as well.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        from hareline.spark.session import check_environment, session

        check_environment()
        complain("starting Spark, which takes some seconds", style=None)
        made = session(
            name, master=master, driver_memory=driver_memory, log_level=level, settings=settings
        )
        try:
            yield made
        finally:
            made.stop()
    except SparkSideError as error:
        fail(f"hareline: {_sentence(error)}")
    except (click.exceptions.Exit, KeyboardInterrupt):
        raise
    except OSError as error:
        text = error.strerror or str(error)
        fail(f"hareline: {error.filename}: {text}" if error.filename else f"hareline: {text}")
    except Exception as error:
        from hareline.spark.errors import error_of

        fail(f"hareline: {_sentence(error_of(error))}")


def _sentence(error: SparkSideError) -> str:
    """Text of an error; the code in front is for those who read Spark's logs."""
    if isinstance(error, EnvironmentMissing) or type(error) is SparkSideError:
        return str(error).partition("] ")[2]
    return str(error)


@contextmanager
def _stop_signal() -> Iterator[Any]:
    """A function that says whether SIGINT or SIGTERM has come; neither ends the process."""
    told: list[int] = []
    previous = {
        number: signal.signal(number, lambda got, _: told.append(got))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield lambda: bool(told)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
