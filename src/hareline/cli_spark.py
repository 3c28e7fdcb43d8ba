"""``hareline spark``: archive streams, and report on them, by Spark on this machine or a cluster.

Invariant: pyspark is imported only when a command runs, so help and errors in arguments need
neither Spark nor Java. Whatever goes wrong is a sentence on standard error and exit status 1 (2 for
a command line that cannot be parsed), never a traceback. Standard output has only the result;
progress goes to standard error, as a bar on a terminal and as lines elsewhere.
"""

from __future__ import annotations

import datetime
import getpass
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, Self

import typer

from hareline.spark.errors import EnvironmentMissing, SparkSideError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

    from hareline.spark.pipelines.archive import ArchiveProgress

EXIT_FAILURE: Final = 1
PASSWORD_VARIABLE: Final = "HARELINE_PASSWORD"
#: Stand in for a password, and are read by the source and the sink themselves.
_OTHER_SECRETS: Final = {"passwordfile": "HARELINE_PASSWORD_FILE", "token": "HARELINE_TOKEN"}
_DEFAULT_USER: Final = "guest"
_LINE_EVERY_S: Final = 5.0

app = typer.Typer(
    name="spark",
    help="Archive streams and report on a broker, by Spark.\n\n"
    "Needs Java 17 or newer and the extra: pip install 'hareline[spark]'. The password of --user "
    "comes from the variable HARELINE_PASSWORD, or is asked for on a terminal.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _pairs(texts: list[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"'{text}' is not NAME=VALUE")
        pairs[name] = value
    return pairs


def _instant_us(text: str | None) -> int | None:
    """Microseconds since 1970, of ISO 8601 with a zone or of epoch milliseconds."""
    if text is None:
        return None
    if text.isdecimal():
        return int(text) * 1_000
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise typer.BadParameter(
            f"'{text}' is neither ISO 8601 with a zone (2026-01-05T10:00:00Z) nor epoch "
            "milliseconds"
        )
    since = moment - datetime.datetime.fromtimestamp(0, datetime.UTC)
    return since // datetime.timedelta(microseconds=1)


_Url = Annotated[
    str,
    typer.Option(
        metavar="URL",
        envvar="HARELINE_URL",
        help="Address of the broker and its virtual host: amqp://HOST:PORT/VHOST, percent-encoded.",
    ),
]
_HttpUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="HARELINE_HTTP_URL",
        help="Address of the management port; by default port 15672 of the same host.",
        show_default=False,
    ),
]
_User = Annotated[str, typer.Option(metavar="NAME", envvar="HARELINE_USER", help="Who logs in.")]
_Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where Spark runs (spark://HOST:7077, k8s://HOST); by default on this machine.",
        show_default=False,
    ),
]
_Memory = Annotated[
    str, typer.Option("--driver-memory", metavar="SIZE", help="Memory of Spark's Java process.")
]
_Conf = Annotated[
    list[str],
    typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; may be given again."),
]
_Option = Annotated[
    list[str],
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help='An option of format("amqp"), such as minPartitions=4; may be given again.',
    ),
]
_LogLevel = Annotated[
    str,
    typer.Option(
        metavar="LEVEL", help="What Spark logs to standard error: off, error, warn or info."
    ),
]


@app.command()
def archive(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="Folder of the archive: here, or at s3a:// or hdfs://."
        ),
    ],
    queue: Annotated[
        list[str],
        typer.Option("--queue", metavar="NAME", help="Stream to archive; may be given again."),
    ] = [],  # noqa: B006 - Typer makes a new one for each run
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern", metavar="REGEX", help="All streams with such names, also new ones."
        ),
    ] = None,
    continuous: Annotated[
        bool, typer.Option("--continuous", help="Go on until SIGINT or SIGTERM.")
    ] = False,
    trigger: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0.1, help="With --continuous: seconds from batch to batch."
        ),
    ] = 60,
    url: _Url = "amqp://127.0.0.1:5672",
    http_url: _HttpUrl = None,
    user: _User = _DEFAULT_USER,
    option: _Option = [],  # noqa: B006
    master: _Master = None,
    driver_memory: _Memory = "1g",
    conf: _Conf = [],  # noqa: B006
    log_level: _LogLevel = "off",
) -> None:
    """Write streams to Parquet, by queue and day, each message once.

    Takes what has come since the last run with the same PATH; the first run begins with the oldest
    message there is. A run that was killed is simply done again.
    """
    if bool(queue) == (pattern is not None):
        raise typer.BadParameter("give --queue or --pattern")
    options = _broker(url, http_url, user, option)
    if pattern is not None:
        options["queuePattern"] = pattern
    else:
        options["queue" if len(queue) == 1 else "queues"] = ",".join(queue)
    with _spark("hareline archive", master, driver_memory, conf, log_level) as session:
        from hareline.spark.pipelines import archive as pipeline

        with _Display("archiving") as display, _stop_signal() as is_told_to_stop:
            done = pipeline.archive(
                session,
                path,
                options,
                is_continuous=continuous,
                trigger_s=trigger,
                on_progress=display.show_messages,
                should_stop=is_told_to_stop,
            )
            is_cut_short = is_told_to_stop() and not continuous
        batches = "batch" if done.batches == 1 else "batches"
        _console().print(f"archived {done.messages} messages in {done.batches} {batches}: {path}")
        if is_cut_short:
            _fail("stopped before the end; run it again to go on")


@app.command()
def report(
    out: Annotated[
        str,
        typer.Argument(metavar="FOLDER", help="Gets report.html, report.json, and Parquet tables."),
    ],
    audit_archive: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Take the events from an archive of the audit stream, not from the broker.",
        ),
    ] = None,
    messages: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="An archive of messages, for a section of its own."),
    ] = None,
    without_audit: Annotated[
        bool, typer.Option("--without-audit", help="With --messages: report on that archive alone.")
    ] = False,
    from_instant: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="First event: ISO 8601 with a zone (2026-01-05T10:00:00Z), or epoch milliseconds.",
        ),
    ] = None,
    to_instant: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Events before this instant.")
    ] = None,
    sample: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="The share of messages that the broker audits: 0.1 for `audit = sample:0.1`.",
        ),
    ] = 1.0,
    audit_queue: Annotated[
        str, typer.Option(metavar="NAME", help="The audit stream.")
    ] = "hareline.audit",
    url: _Url = "amqp://127.0.0.1:5672",
    http_url: _HttpUrl = None,
    user: _User = _DEFAULT_USER,
    option: _Option = [],  # noqa: B006
    master: _Master = None,
    driver_memory: _Memory = "1g",
    conf: _Conf = [],  # noqa: B006
    log_level: _LogLevel = "off",
) -> None:
    """Report on throughput, latency, dead letters and consumers.

    Reads the audit stream of a virtual host (its setting `audit`), and writes one HTML page that
    needs no network, the same figures as JSON, and all tables as Parquet.
    """
    since_us, until_us = _instant_us(from_instant), _instant_us(to_instant)
    if without_audit and messages is None:
        raise typer.BadParameter("--without-audit needs --messages")
    is_from_broker = audit_archive is None and not without_audit
    options = _broker(url, http_url, user, option) if is_from_broker else None
    with _spark("hareline report", master, driver_memory, conf, log_level) as session:
        from hareline.spark.pipelines import report as pipeline

        with _Display("reporting") as display:
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
        _console().print(f"reported {made.events} events: {out.rstrip('/')}/{pipeline.PAGE}")


def _broker(url: str, http_url: str | None, user: str, option: list[str]) -> dict[str, str]:
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
    password = os.environ.get(PASSWORD_VARIABLE)
    if password is not None:
        return password
    if user == _DEFAULT_USER or any(os.environ.get(variable) for _, variable in others):
        return None
    if not _is_terminal():
        _fail(f"no password: set {PASSWORD_VARIABLE}, or run this on a terminal")
    return getpass.getpass(f"Password of {user}: ")


def _is_terminal() -> bool:
    return sys.stdin.isatty()


@contextmanager
def _spark(
    name: str, master: str | None, driver_memory: str, conf: list[str], log_level: str
) -> Iterator[SparkSession]:
    """A session; every error while it is open becomes a sentence and exit status 1."""
    settings: Mapping[str, str] = _pairs(conf)
    level = log_level.upper()
    if level not in {"OFF", "ERROR", "WARN", "INFO", "DEBUG"}:
        raise typer.BadParameter(f"--log-level: '{log_level}' is not off, error, warn or info")
    # It logs tracebacks of errors that are raised here as well.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        from hareline.spark.session import check_environment, session

        check_environment()
        _complain("starting Spark, which takes some seconds", style=None)
        made = session(
            name, master=master, driver_memory=driver_memory, log_level=level, settings=settings
        )
        try:
            yield made
        finally:
            made.stop()
    except SparkSideError as error:
        _fail(_sentence(error))
    except (typer.Exit, KeyboardInterrupt):
        raise
    except OSError as error:
        text = error.strerror or str(error)
        _fail(f"{error.filename}: {text}" if error.filename else text)
    except Exception as error:
        from hareline.spark.failures import error_of

        _fail(_sentence(error_of(error)))


def _sentence(error: SparkSideError) -> str:
    """What an error says; the code in front is for those who read Spark's logs."""
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


class _Display:
    """Progress on standard error: a bar on a terminal, otherwise a line every few seconds."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._bar: Any = None
        self._task: Any = None
        self._next_line_s = 0.0

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[done]}", markup=False),
                TimeElapsedColumn(),
                console=_console(is_for_errors=True),
                transient=True,
            )
            self._task = self._bar.add_task(self._what, total=None, done="")
            self._bar.start()
        else:
            _complain(self._what, style=None)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show_messages(self, progress: ArchiveProgress) -> None:
        """Show how many messages are done, and how many are known to be left."""
        text = f"{progress.messages:,} messages"
        if self._bar is not None:
            total = progress.messages + progress.remaining
            self._bar.update(self._task, completed=progress.messages, total=total, done=text)
            return
        now_s = time.monotonic()
        if now_s >= self._next_line_s or progress.is_done:
            self._next_line_s = now_s + _LINE_EVERY_S
            left = f", {progress.remaining:,} to come" if progress.remaining else ""
            _complain(f"{self._what}: {text}{left}", style=None)

    def show_step(self, done: int, steps: int, what: str) -> None:
        """Show which step begins."""
        if self._bar is not None:
            fields: dict[str, Any] = {"description": what, "done": f"{done}/{steps}"}
            self._bar.update(self._task, completed=done, total=steps, **fields)
        else:
            _complain(f"{done}/{steps} {what}", style=None)


def _console(*, is_for_errors: bool = False) -> Console:
    from rich.console import Console

    # No markup: a queue may be called "[red]".
    return Console(stderr=is_for_errors, highlight=False, markup=False, emoji=False, soft_wrap=True)


def _complain(problem: str, *, style: str | None = "red") -> None:
    _console(is_for_errors=True).print(f"hareline: {problem}", style=style)


def _fail(problem: str) -> NoReturn:
    _complain(problem)
    raise typer.Exit(EXIT_FAILURE)
