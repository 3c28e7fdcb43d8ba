"""``hareline status`` and ``hareline health``: how the broker is, in one look or for a script."""

from __future__ import annotations

from typing import Any, Final

import click
from click import option

from hareline.cli.command import Session, Whole, client_command
from hareline.cli.failures import ExitStatus
from hareline.cli.http_client import Api, Refused, path_of
from hareline.cli.output import Column, Kind, value_at

#: Field of the result -> (where it is in the overview, kind).
_OVERVIEW: Final[dict[str, tuple[str, Kind]]] = {
    "product": ("product_name", "text"),
    "version": ("product_version", "text"),
    "node": ("node", "text"),
    "connections": ("object_totals.connections", "count"),
    "channels": ("object_totals.channels", "count"),
    "queues": ("object_totals.queues", "count"),
    "exchanges": ("object_totals.exchanges", "count"),
    "consumers": ("object_totals.consumers", "count"),
    "messages": ("queue_totals.messages", "count"),
    "ready": ("queue_totals.messages_ready", "count"),
    "unacked": ("queue_totals.messages_unacknowledged", "count"),
    "in": ("message_stats.publish_details.rate", "rate"),
    "out": ("message_stats.deliver_get_details.rate", "rate"),
}
_NODE: Final[dict[str, tuple[str, Kind]]] = {
    "uptime": ("uptime", "duration_ms"),
    "memory": ("mem_used", "octets"),
    "memory limit": ("mem_limit", "octets"),
    "memory alarm": ("mem_alarm", "flag"),
    "disk free": ("disk_free", "octets"),
    "disk limit": ("disk_free_limit", "octets"),
    "disk alarm": ("disk_free_alarm", "flag"),
    "disk alarm reason": ("disk_free_alarm_reason", "text"),
    "files": ("fd_used", "count"),
    "files limit": ("fd_total", "count"),
}
_HEALTH_COLUMNS: Final = (
    Column("check", "check"),
    Column("status", "status"),
    Column("reason", "reason"),
)


@client_command()
def status(session: Session) -> None:
    """Show version, counts, rates, memory and disk of the broker."""
    overview = session.api.get(path_of("overview"))
    nodes = session.api.nodes() or []
    if session.out.is_json:
        session.out.json({"overview": overview, "nodes": nodes})
        return
    values: dict[str, Any] = {}
    kinds: dict[str, Kind] = {}
    for source, names in ((overview, _OVERVIEW), (nodes[0] if nodes else {}, _NODE)):
        for name, (path, kind) in names.items():
            values[name] = value_at(source, path)
            kinds[name] = kind
    listeners = overview.get("listeners") or []
    values["listeners"] = ", ".join(
        f"{each.get('protocol')} {each.get('ip_address')}:{each.get('port')}" for each in listeners
    )
    session.out.fields(values, kinds, has_units=True)


@client_command()
@option(
    "--port",
    type=Whole(1, 65535),
    multiple=True,
    help="Also that this port is listened on.",
)
@option(
    "--alive",
    is_flag=True,
    help="Only whether it runs, without a login; for what restarts it otherwise.",
)
def health(session: Session, port: tuple[int, ...], alive: bool) -> None:
    """Check that the broker works; exit status 1 if it does not.

    An alarm is a failed check here, although a broker with an alarm still serves consumers.
    With --alive it is none: a restart would not help.
    """
    if alive:
        said = session.api.liveness()
        is_ok = said == "ok"
        row = {"check": "alive", "status": "ok" if is_ok else "failed"}
        _show(session, [{**row, "reason": "" if is_ok else said}])
        return
    rows = [_check(session.api, name) for name in ("alarms", "virtual-hosts")]
    rows += [_check(session.api, "port-listener", str(number)) for number in port]
    _show(session, rows)


def _show(session: Session, rows: list[dict[str, str]]) -> None:
    """Print the checks. Raises Exit if one has failed."""
    is_ok = all(row["status"] == "ok" for row in rows)
    if session.out.is_json:
        session.out.json({"status": "ok" if is_ok else "failed", "checks": rows})
    else:
        session.out.table(_HEALTH_COLUMNS, rows)
    if not is_ok:
        raise click.exceptions.Exit(ExitStatus.FAILED)


def _check(api: Api, *parts: str) -> dict[str, str]:
    """A row for one health check of the API, which answers 503 if it fails."""
    name = " ".join(parts)
    try:
        api.get(path_of("health", "checks", *parts))
    except Refused as error:
        if error.code != 503:
            raise
        answer = error.answer if isinstance(error.answer, dict) else {}
        return {"check": name, "status": "failed", "reason": _reason(answer)}
    return {"check": name, "status": "ok", "reason": ""}


def _reason(answer: dict[str, Any]) -> str:
    reason = str(answer.get("reason") or answer.get("missing") or "failed")
    alarms = [each.get("resource", "") for each in answer.get("alarms") or []]
    return f"{reason}: {', '.join(alarms)}" if alarms else reason
