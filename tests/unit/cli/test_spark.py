"""``hareline spark``: what it hands to the pipelines, what it says, and with which exit status.

Neither Spark nor Java is needed: the session and the pipelines are stand-ins that note their
arguments. tests/spark/test_commands.py runs the commands for real.
"""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

import hareline.spark.pipelines
import hareline.spark.session
from hareline.cli.root import root
from hareline.spark.errors import EnvironmentMissing, LoginRefused, QueueGone

PROGRESS = SimpleNamespace(messages=1_234, batches=2, remaining=10, is_done=False)


class Stage:
    """What the commands were given, and what they are to find."""

    def __init__(self) -> None:
        self.session: dict[str, Any] = {}
        self.given: dict[str, Any] = {}
        self.is_stopped = False
        self.act: Callable[[], None] = lambda: None

    def make_session(self, name: str, **given: Any) -> Any:
        self.session = {"name": name, **given}
        return SimpleNamespace(stop=lambda: setattr(self, "is_stopped", True))

    def archive(self, session: Any, path: str, options: Any, **given: Any) -> Any:
        self.given = {"path": path, "options": options, **given}
        self.act()
        given["on_progress"](PROGRESS)
        return PROGRESS

    def replay(self, session: Any, path: str, broker: Any, **given: Any) -> Any:
        self.given = {"path": path, "options": broker, **given}
        self.act()
        moment = datetime.datetime(2026, 1, 5, tzinfo=datetime.UTC)
        count = SimpleNamespace(
            queue="q", exchange="e", messages=5, octets=50, first=moment, last=moment
        )
        given["on_progress"](SimpleNamespace(published=3, dropped=1, total=5))
        published = 0 if given["dry_run"] else 4
        return SimpleNamespace(counts=(count,), total=5, published=published, dropped=1)

    def report(self, session: Any, out: str, options: Any, **given: Any) -> Any:
        self.given = {"out": out, "options": options, **given}
        self.act()
        given["on_step"](0, 2, "reading the events")
        return SimpleNamespace(events=77)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage()
    monkeypatch.setattr(hareline.spark.session, "check_environment", lambda: None)
    monkeypatch.setattr(hareline.spark.session, "session", made.make_session)
    for name in ("archive", "replay", "report"):
        module: Any = ModuleType(f"hareline.spark.pipelines.{name}")
        setattr(module, name, getattr(made, name))
        module.PAGE = "report.html"
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(hareline.spark.pipelines, name, module, raising=False)
    for variable in [each for each in os.environ if each.startswith("HARELINE_")]:
        monkeypatch.delenv(variable)
    return made


def run(*arguments: str, **environ: str) -> Result:
    return CliRunner().invoke(root, ["spark", *arguments], env=environ)


def archive(*arguments: str, **environ: str) -> Result:
    return run("archive", "/data", "--queue", "q", *arguments, **environ)


# ------------------------------------------------------------------------------------- archive


def test_an_archive_of_one_stream(stage: Stage) -> None:
    result = archive()
    assert result.exit_code == 0
    assert result.stdout == "archived 1234 messages in 2 batches: /data\n"
    assert stage.given["path"] == "/data"
    assert stage.given["options"] == {
        "queue": "q",
        "url": "amqp://127.0.0.1:5672",
        "user": "guest",
    }
    assert stage.given["is_continuous"] is False
    assert stage.session == {
        "name": "hareline archive",
        "master": None,
        "driver_memory": "1g",
        "log_level": "OFF",
        "settings": {},
    }
    assert stage.is_stopped


def test_progress_is_lines_where_there_is_no_terminal(stage: Stage) -> None:
    lines = archive().stderr.splitlines()
    assert lines == [
        "hareline: starting Spark, which takes some seconds",
        "hareline: archiving",
        "hareline: archiving: 1,234 messages, 10 to come",
    ]


def test_all_that_an_archive_may_be_told(stage: Stage) -> None:
    result = archive(
        *("--queue", "r", "--continuous", "--trigger", "5", "--user", "ann"),
        *("--url", "amqp://h/shop", "--http-url", "http://h:1", "--master", "spark://h:7077"),
        *("--option", "minPartitions=4", "--option", "longPollMs=a=b", "--conf", "spark.x=1"),
        *("--driver-memory", "2g", "--log-level", "warn"),
        HARELINE_PASSWORD="secret",
    )
    assert result.exit_code == 0
    assert stage.given["options"] == {
        "queues": "q,r",
        "url": "amqp://h/shop",
        "httpUrl": "http://h:1",
        "user": "ann",
        "password": "secret",
        "minPartitions": "4",
        "longPollMs": "a=b",
    }
    assert (stage.given["is_continuous"], stage.given["trigger_s"]) == (True, 5)
    assert stage.session["master"] == "spark://h:7077"
    assert stage.session["driver_memory"] == "2g"
    assert stage.session["log_level"] == "WARN"
    assert stage.session["settings"] == {"spark.x": "1"}


def test_a_pattern_of_names(stage: Stage) -> None:
    assert run("archive", "/data", "--pattern", "orders-.*").exit_code == 0
    assert stage.given["options"]["queuePattern"] == "orders-.*"
    assert "queue" not in stage.given["options"]


def test_the_environment_says_where_the_broker_is(stage: Stage) -> None:
    archive(
        HARELINE_URL="amqp://h",
        HARELINE_HTTP_URL="http://h:2",
        HARELINE_USER="bob",
        HARELINE_PASSWORD="x",
    )
    options = stage.given["options"]
    assert (options["url"], options["httpUrl"], options["user"]) == (
        "amqp://h",
        "http://h:2",
        "bob",
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("archive", "/data"), "give --queue or --pattern"),
        (
            ("archive", "/data", "--queue", "q", "--pattern", "r"),
            "--queue or --pattern",
        ),
        (("archive", "--queue", "q"), "PATH"),
        (("archive", "/data", "--queue", "q", "--option", "x"), "'x' is not NAME=VALUE"),
        (("archive", "/data", "--queue", "q", "--conf", "=x"), "'=x' is not NAME=VALUE"),
        (("archive", "/data", "--queue", "q", "--trigger", "0"), "--trigger"),
        (("archive", "/data", "--queue", "q", "--log-level", "loud"), "'loud' is not off, error"),
        (("report", "/out", "--without-audit"), "needs --messages"),
        (("report", "/out", "--from", "yesterday"), "'yesterday' is not ISO 8601"),
        (("report", "/out", "--to", "2026-01-05T10:00:00"), "with a zone"),
    ],
)
def test_a_command_line_that_is_wrong(
    arguments: tuple[str, ...], problem: str, stage: Stage
) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert problem in " ".join(result.stderr.replace("│", " ").split())
    assert not stage.given
    assert not stage.session


# ------------------------------------------------------------------------------------ password


@pytest.mark.parametrize(
    "environ", [{"HARELINE_TOKEN": "t"}, {"HARELINE_PASSWORD_FILE": "/secret"}]
)
def test_another_secret_is_left_to_the_source(environ: dict[str, str], stage: Stage) -> None:
    assert archive("--user", "ann", **environ).exit_code == 0
    assert "password" not in stage.given["options"]


def test_a_password_among_the_options_is_enough(stage: Stage) -> None:
    archive("--user", "ann", "--option", "passwordFile=/x", HARELINE_PASSWORD="other")
    assert "password" not in stage.given["options"]


def test_without_a_terminal_no_password_is_asked_for(stage: Stage) -> None:
    result = archive("--user", "ann")
    assert result.exit_code == 1
    assert result.stderr == (
        "hareline: no password: set HARELINE_PASSWORD, or run this on a terminal\n"
    )
    assert not stage.session


def test_on_a_terminal_the_password_is_asked_for(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    import getpass

    from hareline.cli import target

    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return "typed"

    monkeypatch.setattr(target, "is_terminal", lambda: True)
    monkeypatch.setattr(getpass, "getpass", ask)
    assert archive("--user", "ann").exit_code == 0
    assert stage.given["options"]["password"] == "typed"
    assert asked == ["Password of ann: "]


# -------------------------------------------------------------------------------------- replay


def test_a_replay(stage: Stage) -> None:
    result = run("replay", "/a", "--option", "mandatory=false", HARELINE_PASSWORD="x")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "'q': 5 messages, 50 octets, exchange 'e', 2026-01-05T00:00:00+00:00 to "
        "2026-01-05T00:00:00+00:00",
        "replayed 4 of 5 messages; 1 were unroutable",
    ]
    assert "hareline: replaying: 4 messages, 1 to come" in result.stderr
    assert stage.given["options"] == {
        "url": "amqp://127.0.0.1:5672",
        "user": "guest",
        "password": "x",
        "mandatory": "false",
    }
    assert (stage.given["queues"], stage.given["keep"], stage.given["mark"]) == ((), (), True)
    assert (stage.given["start"], stage.given["end"], stage.given["dry_run"]) == (None, None, False)


def test_all_that_a_replay_may_be_told(stage: Stage) -> None:
    result = run(
        *("replay", "/a", "--queue", "q", "--queue", "r", "--from", "2026-01-05T01:00:00.25+01:00"),
        *("--to", "1767571200001", "--where", "priority > 5", "--to-exchange", "x"),
        *("--to-routing-key", "k", "--max-rate", "9", "--keep", "CC", "--no-mark"),
    )
    assert result.exit_code == 0
    assert "exchange 'x'" in result.stdout
    day = datetime.datetime(2026, 1, 5, tzinfo=datetime.UTC)
    wanted = {
        "queues": ("q", "r"),
        "start": day + datetime.timedelta(milliseconds=250),
        "end": day + datetime.timedelta(milliseconds=1),
        "where": "priority > 5",
        "to_exchange": "x",
        "to_routing_key": "k",
        "max_rate": 9,
        "keep": ("CC",),
        "mark": False,
    }
    assert {name: stage.given[name] for name in wanted} == wanted


def test_a_dry_run_needs_no_broker(stage: Stage) -> None:
    result = run("replay", "/a", "--dry-run", "--user", "ann")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "would replay 5 messages"
    assert stage.given["options"] == {}


# -------------------------------------------------------------------------------------- report


def test_a_report_from_the_broker(stage: Stage) -> None:
    result = run("report", "/out/")
    assert result.exit_code == 0
    assert result.stdout == "reported 77 events: /out/report.html\n"
    assert "hareline: 0/2 reading the events" in result.stderr
    assert stage.given["options"] == {"url": "amqp://127.0.0.1:5672", "user": "guest"}
    assert stage.given["audit_queue"] == "hareline.audit"
    assert (stage.given["share"], stage.given["since_us"], stage.given["until_us"]) == (
        1,
        None,
        None,
    )


def test_a_report_from_archives_needs_no_password(stage: Stage) -> None:
    result = run(
        *("report", "/out", "--audit-archive", "/a", "--messages", "/m", "--user", "ann"),
        *("--sample", "0.1", "--from", "2026-01-05T11:00:00.5+01:00", "--to", "1767607201000"),
    )
    assert result.exit_code == 0, result.stderr
    assert stage.given["options"] is None
    assert (stage.given["audit_path"], stage.given["messages_path"]) == ("/a", "/m")
    assert stage.given["share"] == 0.1
    assert stage.given["since_us"] == 1_767_607_200_500_000
    assert stage.given["until_us"] == 1_767_607_201_000_000


def test_a_report_on_an_archive_of_messages_alone(stage: Stage) -> None:
    assert run("report", "/out", "--messages", "/m", "--without-audit").exit_code == 0
    assert stage.given["options"] is None
    assert stage.given["audit_path"] is None


# -------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LoginRefused("user 'ann' was refused"), "[LOGIN_REFUSED] user 'ann' was refused"),
        (QueueGone("no queue [red]'q'"), "[QUEUE_GONE] no queue [red]'q'"),
        (OSError(28, "No space left on device", "/out/x"), "/out/x: No space left on device"),
        (
            RuntimeError("x\njava.io.IOException: no such bucket SQLSTATE: XXKST\n\tat java.io"),
            "no such bucket",
        ),
    ],
)
def test_what_goes_wrong_is_a_sentence(error: Exception, said: str, stage: Stage) -> None:
    def fail() -> None:
        raise error

    stage.act = fail
    result = archive()
    assert result.exit_code == 1
    assert result.stderr.splitlines()[2:] == [f"hareline: {said}"]
    assert result.stdout == ""
    assert stage.is_stopped


def test_what_is_missing_is_said_before_spark_is_started(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise EnvironmentMissing("Spark needs Java; install it")

    monkeypatch.setattr(hareline.spark.session, "check_environment", fail)
    result = archive()
    assert result.exit_code == 1
    assert result.stderr == "hareline: Spark needs Java; install it\n"
    assert not stage.session


def test_a_machine_without_java_gets_one_sentence(tmp_path: Any) -> None:
    environ = {**os.environ, "JAVA_HOME": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-m", "hareline", "spark", "archive", "/data", "--queue", "q"],
        capture_output=True,
        text=True,
        env=environ,
        check=False,
    )
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("hareline: ")
    assert "install" in line


@pytest.mark.parametrize(("continuous", "status"), [(("--continuous",), 0), ((), 1)])
def test_a_signal_ends_a_run_in_order(
    continuous: tuple[str, ...], status: int, stage: Stage
) -> None:
    def interrupt() -> None:
        assert not stage.given["should_stop"]()
        signal.raise_signal(signal.SIGTERM)
        assert stage.given["should_stop"]()

    before = signal.getsignal(signal.SIGTERM)
    stage.act = interrupt
    result = archive(*continuous)
    assert result.exit_code == status
    assert "archived 1234 messages" in result.stdout
    assert ("run it again to go on" in result.stderr) is bool(status)
    assert signal.getsignal(signal.SIGTERM) is before
    assert stage.is_stopped
