"""``hareline queues``, ``exchanges``, ``bindings``, ``connections`` and so on: list and show.

One table of resources; every group has the same two commands. Invariant: they only read.
"""

from __future__ import annotations

from typing import Any, Final

from click import argument, option

from hareline.cli.command import Group, Session, Whole, client_command
from hareline.cli.completing import (
    Completer,
    complete_connection,
    complete_exchange,
    complete_queue,
)
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import Refused, path_of
from hareline.cli.listing import Query, Resource, chosen_columns, parse_condition
from hareline.cli.output import Column, Kind, value_at

_IN: Final = "message_stats.publish_details.rate"
_OUT: Final = "message_stats.deliver_get_details.rate"
_VHOST: Final = Column("vhost", "vhost")

# Fields that are no columns of their own; those of RabbitMQ alone are last.
_QUEUE_FIELDS: Final = (
    "durable auto_delete exclusive arguments node policy operator_policy "
    "effective_policy_definition exclusive_consumer_tag single_active_consumer_tag "
    "owner_pid_details messages_details messages_ready_details "
    "messages_unacknowledged_details consumer_capacity consumer_utilisation memory "
    "messages_persistent messages_ram messages_ready_ram messages_unacknowledged_ram "
    "messages_paged_out messages_held message_bytes message_bytes_ready "
    "message_bytes_unacknowledged message_bytes_persistent message_bytes_ram "
    "message_bytes_paged_out head_message_timestamp oldest_unacknowledged_age_s "
    "oldest_unacknowledged_by idle_since readers reader_lag_max known_ids duplicates "
    "leader members online delivery_limit garbage_collection reductions storage_version"
)
_EXCHANGE_FIELDS: Final = "arguments policy user_who_performed_action"
_CONNECTION_FIELDS: Final = (
    "node user_who_performed_action type protocol peer_host peer_port host port ssl "
    "ssl_protocol ssl_key_exchange ssl_cipher ssl_hash peer_cert_subject peer_cert_issuer "
    "peer_cert_validity auth_mechanism timeout frame_max channel_max client_properties "
    "blocked_reason blocked_since_ms blocked_by send_pend is_slow recv_oct recv_cnt "
    "recv_cnt_details send_oct send_cnt send_cnt_details reductions garbage_collection"
)
_CHANNEL_FIELDS: Final = (
    "number node user_who_performed_action connection_details global_prefetch_count "
    "messages_uncommitted acks_uncommitted is_stopped blocked_reason blocked_since_ms "
    "blocked_by message_stats idle_since pending_raft_commands cached_segments reductions "
    "garbage_collection"
)
_CONSUMER_FIELDS: Final = (
    "active consumer_timeout arguments priority messages_unacknowledged is_slow slow_reason credit"
)

QUEUES: Final = Resource(
    "queues",
    "queues",
    (
        _VHOST,
        Column("name", "name"),
        Column("type", "type"),
        Column("state", "state"),
        Column("messages_ready", "ready", "count"),
        Column("messages_unacknowledged", "unacked", "count"),
        Column("messages", "messages", "count"),
        Column("consumers", "consumers", "count"),
        Column(_IN, "in", "rate"),
        Column(_OUT, "out", "rate"),
    ),
    is_paged=True,
    fields=_QUEUE_FIELDS,
)
STREAMS: Final = Resource(
    "streams",
    "queues",
    (
        _VHOST,
        Column("name", "name"),
        Column("state", "state"),
        Column("messages", "messages", "count"),
        Column("message_bytes", "octets", "octets"),
        Column("consumers", "consumers", "count"),
        Column(_IN, "in", "rate"),
        Column(_OUT, "out", "rate"),
    ),
    is_paged=True,
    only="type=stream",
    fields=f"{_QUEUE_FIELDS} type messages_ready messages_unacknowledged",
)
EXCHANGES: Final = Resource(
    "exchanges",
    "exchanges",
    (
        _VHOST,
        Column("name", "name"),
        Column("type", "type"),
        Column("durable", "durable", "flag"),
        Column("auto_delete", "auto-delete", "flag"),
        Column("internal", "internal", "flag"),
        Column("message_stats.publish_in_details.rate", "in", "rate"),
        Column("message_stats.publish_out_details.rate", "out", "rate"),
    ),
    is_paged=True,
    fields=_EXCHANGE_FIELDS,
)
BINDINGS: Final = Resource(
    "bindings",
    "bindings",
    (
        _VHOST,
        Column("source", "source"),
        Column("destination", "destination"),
        Column("destination_type", "kind"),
        Column("routing_key", "routing-key"),
        Column("arguments", "arguments"),
    ),
    keys=("destination",),
    fields="properties_key",
)
CONNECTIONS: Final = Resource(
    "connections",
    "connections",
    (
        Column("name", "name"),
        Column("user_provided_name", "client"),
        Column("user", "user"),
        _VHOST,
        Column("state", "state"),
        Column("channels", "channels", "count"),
        Column("recv_oct_details.rate", "received", "octet_rate"),
        Column("send_oct_details.rate", "sent", "octet_rate"),
        Column("connected_at", "since", "time_ms"),
    ),
    is_paged=True,
    takes_vhost=False,
    fields=_CONNECTION_FIELDS,
)
CHANNELS: Final = Resource(
    "channels",
    "channels",
    (
        Column("name", "name"),
        Column("user", "user"),
        _VHOST,
        Column("state", "state"),
        Column("consumer_count", "consumers", "count"),
        Column("prefetch_count", "prefetch", "count"),
        Column("messages_unacknowledged", "unacked", "count"),
        Column("messages_unconfirmed", "unconfirmed", "count"),
        Column("confirm", "confirms", "flag"),
        Column("transactional", "transactional", "flag"),
    ),
    is_paged=True,
    takes_vhost=False,
    fields=_CHANNEL_FIELDS,
)
CONSUMERS: Final = Resource(
    "consumers",
    "consumers",
    (
        Column("queue.vhost", "vhost"),
        Column("queue.name", "queue"),
        Column("consumer_tag", "tag"),
        Column("channel_details.name", "channel"),
        Column("channel_details.user", "user"),
        Column("ack_required", "acks", "flag"),
        Column("prefetch_count", "prefetch", "count"),
        Column("activity_status", "status"),
        Column("exclusive", "exclusive", "flag"),
        Column("channel_details.user_provided_name", "client"),
    ),
    keys=("consumer_tag", "queue.name", "channel_details.user_provided_name"),
    fields=_CONSUMER_FIELDS,
)

_READER_COLUMNS: Final = (
    Column("name", "reader"),
    Column("offset", "offset", "count"),
    Column("lag", "lag", "count"),
    Column("age_s", "age-s"),
    Column("pin", "pin", "flag"),
)


def _kinds(resource: Resource) -> dict[str, Kind]:
    return {each.path: each.kind for each in resource.columns}


def _group(resource: Resource, kind: str | None = None, complete: Completer | None = None) -> Group:
    """The group of a resource. ``kind``: of what has its name in the path, which `show` shows."""
    group = Group(resource.name, help=f"See {resource.name}.")
    titles = ", ".join(each.title for each in resource.columns)

    @client_command(group, "list", help=f"List {resource.name}.\n\nColumns: {titles}.")
    @option("--name", metavar="REGEX", help="Only those whose name matches.")
    @option(
        "--where",
        multiple=True,
        metavar="CONDITION",
        help="Only those for which it holds: messages>100, state=running, name~^order. "
        "May be given again.",
    )
    @option(
        "--columns", metavar="NAMES", help="Columns, or paths in the JSON: name,ready,arguments."
    )
    @option("--sort", metavar="COLUMN", help="Order; -COLUMN has the largest first.")
    @option("--limit", type=Whole(0), help="At most this many.")
    def list_(session: Session, columns: str | None, where: tuple[str, ...], **asked: Any) -> None:
        chosen = chosen_columns(columns, resource)
        if columns is None and session.vhost is not None:
            chosen = [each for each in chosen if each.title != "vhost"]
        query = Query(
            resource,
            vhost=session.vhost,
            where=tuple(parse_condition(each, resource) for each in where),
            columns=tuple(chosen),
            is_narrow=columns is not None or not session.out.is_json,
            **asked,
        )
        session.out.table(chosen, query.rows(session.api))

    if kind is None:
        return group

    @client_command(group, "show", help=f"Show all that is known of one {kind}.")
    @argument("name", shell_complete=complete, help=f"The {kind}.")
    def show(session: Session, name: str) -> None:
        what = f"{kind} '{name}'"
        parts = [resource.path]
        if resource.takes_vhost:
            parts.append(session.one_vhost)
            what += f" in vhost '{session.one_vhost}'"
        answer = session.api.get(path_of(*parts, name), what=what)
        session.out.fields(answer, _kinds(resource))

    return group


queues = _group(QUEUES, "queue", complete_queue)
streams = _group(STREAMS)
exchanges = _group(EXCHANGES, "exchange", complete_exchange)
bindings = _group(BINDINGS)
connections = _group(CONNECTIONS, "connection", complete_connection)
channels = _group(CHANNELS, "channel")
consumers = _group(CONSUMERS)


@client_command(bindings, "show")
@argument(
    "source",
    metavar="EXCHANGE",
    shell_complete=complete_exchange,
    help='Where messages come from; "" is the default.',
)
@argument("destination", shell_complete=complete_queue, help="Queue or exchange.")
def show_bindings(session: Session, source: str, destination: str) -> None:
    """Show the bindings between an exchange and a queue or exchange."""
    rows: list[dict[str, Any]] = []
    for kind in ("q", "e"):
        path = path_of("bindings", session.one_vhost, "e", source, kind, destination)
        try:
            rows += session.api.get(path)
        except Refused as error:
            if error.status is not ExitStatus.NOT_FOUND:
                raise
    if not rows:
        raise CommandFailed(
            f"no binding from '{source}' to '{destination}' in vhost '{session.one_vhost}'",
            ExitStatus.NOT_FOUND,
        )
    columns = [*BINDINGS.columns[1:], Column("properties_key", "properties-key")]
    session.out.table(columns, rows)


@client_command(consumers, "show")
@argument("tag", help="The consumer tag.")
def show_consumer(session: Session, tag: str) -> None:
    """Show all that is known of the consumers with one tag."""
    parts = ["consumers"] if session.vhost is None else ["consumers", session.vhost]
    rows = session.api.get(path_of(*parts))
    found = [row for row in rows if value_at(row, "consumer_tag") == tag]
    if not found:
        raise CommandFailed(f"no consumer '{tag}'", ExitStatus.NOT_FOUND)
    if session.out.is_json:
        session.out.json(found)
        return
    for row in found:
        session.out.fields(row)


@client_command(streams, "show")
@argument("name", shell_complete=complete_queue, help="The stream.")
def show_stream(session: Session, name: str) -> None:
    """Show where a stream begins and ends, and its readers."""
    vhost = session.one_vhost
    what = f"stream '{name}' in vhost '{vhost}'"
    stream = session.api.get(path_of("stream", vhost, name, "tail"), what=what)
    readers = session.api.get(path_of("stream", vhost, name, "readers"), what=what)
    if session.out.is_json:
        session.out.json({**stream, "readers": readers})
        return
    session.out.fields(stream, {"bytes": "octets", "first_timestamp_ms": "time_ms"})
    session.out.table(_READER_COLUMNS, readers)
