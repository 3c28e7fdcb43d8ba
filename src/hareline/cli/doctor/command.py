"""``hareline doctor``: runs all checks, on this machine and against the broker, and prints them.

Invariant: nothing is changed, and a check that fails itself does not keep the others from running.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click import option

from hareline.cli.command import PATH, Session, client_command
from hareline.cli.doctor.finding import Finding, Verdict, error, note
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.progress import visible

if TYPE_CHECKING:
    from hareline.cli.doctor.reaching import Seen
    from hareline.settings import Settings


_MARKS: Final = {
    Verdict.ok: ("ok", "green"),
    Verdict.note: ("note", "cyan"),
    Verdict.warning: ("warning", "yellow"),
    Verdict.error: ("error", "red"),
}


@client_command()
@option("--config", type=PATH, metavar="FILE", help="The broker's settings, as for `serve`.")
@option("--remote", is_flag=True, help="Only what can be seen of a broker elsewhere.")
def doctor(session: Session, config: Path | None, remote: bool) -> None:
    """Say what is wrong with this installation, and what to do.

    Changes nothing. Ends with status 1 if there is an error; warnings and notes do not count.
    """
    findings: list[Finding] = []
    settings = None
    if not remote:
        findings, settings = _of_settings(config)
    seen, of_broker = _of_broker(session, settings)
    if settings is not None:
        findings += _of_machine(settings, session, seen)
    findings += of_broker
    if session.out.is_json:
        session.out.json([each.as_dict() for each in findings])
    else:
        _print(session, findings)
    if any(each.verdict is Verdict.error for each in findings):
        raise click.exceptions.Exit(ExitStatus.FAILED)


def _of_settings(config: Path | None) -> tuple[list[Finding], Settings | None]:
    from hareline.cli.doctor import installation, machine

    found = _safely("python", machine.check_python)
    reading, of_settings = installation.check_settings(config, os.environ)
    return found + of_settings, None if reading is None else reading.settings


def _of_machine(settings: Settings, session: Session, seen: Seen) -> list[Finding]:
    """Findings about this machine, if the broker that was asked is that of these settings."""
    from hareline.cli.doctor import installation, machine

    process = installation.broker_process(settings)
    target = session.target
    if target.given and not installation.is_broker_of(settings, target, process, seen.node):
        said = f"{target.http} is not the broker of these settings, so this machine is not checked"
        return [note("settings", said, "--config FILE names the settings of a broker here")]
    is_here = process is not None
    found = _safely("ports", lambda: installation.check_ports(settings, is_broker_here=is_here))
    found += _safely("data directory", lambda: installation.check_data_directory(settings))
    found += _safely(
        "journal", lambda: installation.check_journal(settings, is_broker_here=is_here)
    )
    files, backlog = seen.node.get("fd_total"), settings.listener.backlog
    found += _safely("open files", lambda: machine.check_limits(backlog, files))
    newest = installation.newest_file_s(settings)
    found += _safely("clock", lambda: machine.check_clock(newest, None))
    found += _safely(
        "passwords", lambda: installation.check_exposure(settings, is_broker_here=is_here)
    )
    return found


def _of_broker(session: Session, settings: Settings | None) -> tuple[Seen, list[Finding]]:
    """Findings about the broker that is named; without a name, about that of the settings."""
    from hareline.cli.doctor import installation, reaching

    target = session.target
    if not target.given and settings is not None:
        http, amqp = installation.addresses_of(settings)
        if http is None or amqp is None:
            said = "the settings leave a port to the system, or do not open it"
            return reaching.Seen(), [note("api", said, "--url and --amqp-url name the broker")]
        session.target = target = replace(target, http=http, amqp=amqp)
    seen, found = reaching.check_api(session.api, is_named=bool(target.given))
    if "amqp" not in target.given and seen.amqp_port is not None:
        target = replace(target, amqp=replace(target.amqp, port=seen.amqp_port))
    return seen, found + _safely("amqp", lambda: reaching.check_amqp(target))


def _safely(name: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """The findings of a check; its own failure is one."""
    try:
        return list(check())
    except (OSError, CommandFailed) as problem:
        return [error(name, str(problem), "this check could not be done")]


def _print(session: Session, findings: list[Finding]) -> None:
    if not session.out.is_terminal:
        for each in findings:
            cells = (each.verdict.value, each.check, each.found, each.remedy)
            session.out.line_of(cells)
        return
    from rich.text import Text

    from hareline.cli.progress import console

    out = console()
    for each in findings:
        mark, style = _MARKS[each.verdict]
        line = Text(f"{mark:<8}", style=style)
        line.append(f"{each.check}: ", style="bold").append(visible(each.found), style="default")
        out.print(line)
        if each.remedy:
            out.print(Text(f"        -> {visible(each.remedy)}", style="dim"))
