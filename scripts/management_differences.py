"""Differences of the management API from RabbitMQ 3.10: the one list, with reasons.

tests/interop/rabbitmq/test_management_parity.py holds it both ways: a difference that is not here
fails, and so does an entry that nothing shows any more. ``write_reference`` writes it into
docs/http-api.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Difference:
    """``shown``: patterns of the lines that show it, in which ``*`` stands for any text.

    ``what`` and ``why`` are for the page. ``comes_and_goes``: it depends on when RabbitMQ has last
    sampled, so it need not show each time.
    """

    what: str
    why: str
    shown: tuple[str, ...]
    comes_and_goes: bool = False


def unlisted(lines: Iterable[str]) -> list[str]:
    """The lines that no pattern of the list fits."""
    patterns = [_compiled(each) for difference in DIFFERENCES for each in difference.shown]
    return [line for line in lines if not any(pattern.fullmatch(line) for pattern in patterns)]


def unshown(lines: Iterable[str]) -> Mapping[str, list[str]]:
    """By difference, the patterns that fit no line."""
    known = list(lines)
    found = {}
    for difference in DIFFERENCES:
        if difference.comes_and_goes:
            continue
        idle = [
            each
            for each in difference.shown
            if not any(_compiled(each).fullmatch(line) for line in known)
        ]
        if idle:
            found[difference.what] = idle
    return found


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def _theirs(*keys: str, at: str = "GET *") -> tuple[str, ...]:
    """Patterns for keys, wherever they stand in answers, that only RabbitMQ has."""
    return tuple(f"{at}: *{key}: only RabbitMQ" for key in keys)


def _ours(*keys: str, at: str = "GET *") -> tuple[str, ...]:
    """Patterns for keys that only this broker has."""
    return tuple(f"{at}: *{key}: only Hareline" for key in keys)


DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference(
        "lists of shovels and of links of a federation are there, and empty",
        "RabbitMQ has them with its plug-ins, which the one compared with does not run",
        (
            "GET /api/federation-links*: status 200, RabbitMQ 404",
            "GET /api/shovels: status 200, RabbitMQ 404",
        ),
    ),
    # ------------------------------------------------------------------------------- refusals
    Difference(
        "`reason` of a 400 for a body that is not valid, and where a name or a value is not",
        "names each field and what is wrong with it, where RabbitMQ has terms of Erlang "
        "(`[{key_missing,value}]`, `not_json`) or code points",
        (
            "*: reason 'body: not *', RabbitMQ *",
            "*: reason 'definitions: *', RabbitMQ 'failed_to_parse_json'",
            "*: reason '*: Field required', RabbitMQ '*key_missing*",
            "*: reason '*: Input should be *', RabbitMQ *",
            '*: reason "*: Input should be *", RabbitMQ *',
            "PUT /api/users/bad *: reason *password hash is not base64*",
            "PUT /api/permissions/walk/plain *: reason *is not a regular expression*",
            "PUT /api/policies/walk/p *: reason *should be regular expression*",
            "PUT /api/policies/walk/p *: reason *&lt;&lt;*",
            "PUT /api/policies/walk/p *\"nothing\"}: reason *apply-to 'nothing' unrecognised*",
            "PUT /api/queues/walk/bad *: reason 'arguments: should be an object', RabbitMQ *",
            "PUT /api/user-limits/manager/*: reason 'Validation failed*",
            "POST */publish *: reason 'payload: not valid base64', RabbitMQ *",
            "POST */publish *: reason 'properties: delivery_mode: not a whole number', RabbitMQ *",
            "POST */actions *: reason \"action: 'what' is not one of *",
            "GET /api/health/checks/certificate-expiration/1/eons: reason *",
        ),
    ),
    Difference(
        "`reason` of what AMQP would refuse begins with code and name, as "
        "`406 PRECONDITION_FAILED - `",
        "the same on all routes; RabbitMQ has both for publishes and gets, and neither elsewhere",
        (
            "PUT *: reason *406 PRECONDITION_FAILED - *",
            "POST /api/bindings/*: reason *406 PRECONDITION_FAILED - *",
            "DELETE *: reason *406 PRECONDITION_FAILED - *",
            "DELETE *: reason *405 RESOURCE_LOCKED - *",
            "DELETE *: reason *540 NOT_IMPLEMENTED - *",
            "POST /api/queues/walk/stream/get *: reason *540 NOT_IMPLEMENTED - *",
        ),
    ),
    Difference(
        "`reason` of a 401 for a missing right says which one",
        "RabbitMQ says `Access refused.`, and its log the rest",
        ("*: reason *ACCESS_REFUSED - *, RabbitMQ 'Access refused.'",),
    ),
    Difference(
        "404 where RabbitMQ answers 400 or 500, and one body for all that is missing",
        "what is not there is not found: RabbitMQ has `Object Not Found`, `vhost_not_found` and "
        "others, and fails for some; here `not_found` names a path or an end of a binding",
        (
            "*: body {'error': 'Object Not Found', *}, RabbitMQ {'error': 'not_found', *",
            "*: body {'error': 'not_found', *}, RabbitMQ {'error': 'Object Not Found', *",
            '*: reason "NOT_FOUND - no *',
            "GET /api/definitions/none: status 404, RabbitMQ 400",
            "GET /api/nodes/none: status 404, RabbitMQ 500",
            "GET /api/connections/none/channels: status 404, RabbitMQ 500",
            "*/user-limits/none/max-channels*: status 404, RabbitMQ *",
            "POST /api/queues/walk/none/actions *: status 404, RabbitMQ 500",
            "POST /api/vhosts/none/start/{node}: status 404, RabbitMQ 400",
            "POST /api/exchanges/none/t/publish *: status 404, RabbitMQ 401",
            "POST /api/queues/none/kept/get *: status 404, RabbitMQ 401",
        ),
    ),
    Difference(
        "404 for the bindings of a queue or an exchange that is not there",
        "RabbitMQ answers with an empty array, so that a misspelt name looks like a queue "
        "without bindings",
        (
            "GET /api/exchanges/walk/none/bindings/source: status 404, RabbitMQ 200",
            "GET /api/queues/walk/none/bindings: status 404, RabbitMQ 200",
        ),
    ),
    Difference(
        "400 for bodies that RabbitMQ fails on with 500, or takes without a word",
        "a value that is not valid is refused: unknown properties of messages, a count below 0, "
        "a hashing algorithm that does not exist, windows of samples that are no numbers, operator "
        "policies for exchanges (which RabbitMQ 4 refuses too)",
        (
            "*: status 400, RabbitMQ 500",
            "*lengths_age=x&lengths_incr=5: status 400, RabbitMQ 200",
            'POST */publish {"properties": {"what": 1}, *: status 400, RabbitMQ 200',
            'POST */get {"count": -1, *: status 400, RabbitMQ 200',
            'PUT /api/users/bad *"rot13"*: status 400, RabbitMQ 204',
            "PUT /api/operator-policies/walk/e *: status 400, RabbitMQ 201",
            "DELETE /api/operator-policies/walk/e: status 404, RabbitMQ 204",
        ),
    ),
    Difference(
        "`properties` of a message may be an empty array, and `ackmode` and `encoding` left out",
        "old clients send such bodies; RabbitMQ refuses them, or fails",
        (
            'POST */publish {"properties": [], *: status 200, RabbitMQ 500',
            'POST /api/queues/walk/kept/get {"count": 1*}: status 200, RabbitMQ 400',
        ),
    ),
    Difference(
        "`POST /api/users/bulk-delete` is done though one of the users is not there",
        "so that it can be repeated; RabbitMQ refuses it, and has deleted some",
        ("POST /api/users/bulk-delete *: status 204, RabbitMQ 400",),
    ),
    Difference(
        "`reason` for arguments of paging",
        "names the argument, its value and what it may be",
        ("GET /api/queues?page=*: *",),
    ),
    Difference(
        "401 says how to log in, for the realm `Hareline`; 405 says which methods there are",
        "RabbitMQ sends no body",
        (
            "* without login: *",
            "GET /api/overview as *: header www-authenticate *",
            "GET /api/overview as *: reason 'wrong user or password', RabbitMQ 'Login failed'",
            "PUT /api/overview: *",
            "PATCH /api/overview: *",
        ),
    ),
    Difference(
        "OPTIONS is answered with 405",
        "it is asked by browsers for pages of other sites, which get no answer here",
        ("OPTIONS *: status 405, RabbitMQ 200",),
    ),
    Difference(
        "`reason` of refusals for users without a tag",
        "also names the user and the tags that are enough, or that the virtual host is not theirs",
        (
            "* as *: reason \"Not * user: user '*' has no tag of *\", RabbitMQ 'Not * user'",
            "GET /api/parameters as manager: reason *",
            "GET /api/global-parameters as manager: reason *",
            "GET /api/vhosts/walk2 as manager: reason *",
        ),
    ),
    Difference(
        "a connection or channel of another user is not found, where RabbitMQ answers 401",
        "who may not see it is not told that it is there",
        ("*{*} as manager: status 404, RabbitMQ 401",),
    ),
    Difference(
        "monitoring users see single queues of all virtual hosts",
        "as they see the lists; RabbitMQ 3.10 shows them only the lists",
        ("GET /api/queues/walk/work as monitor: status 200, RabbitMQ 401",),
    ),
    Difference(
        "limits of users are for administrators",
        "RabbitMQ shows those of all users to each user with a tag",
        ("GET /api/user-limits as manager: status 401, RabbitMQ 200",),
    ),
    Difference(
        "no `POST /api/login`",
        "it sets a cookie with the password; here are [no cookies](management.md#safety)",
        ("POST /api/login: status 404, RabbitMQ 401",),
    ),
    Difference(
        "no `DELETE /api/reset`, `/api/reset/{node}`, `/api/auth/attempts/{node}`",
        "they empty RabbitMQ's database of statistics; here is none apart from the broker, and "
        "counters only grow, as metrics must",
        (
            "DELETE /api/reset*: status 404, RabbitMQ 204",
            "DELETE /api/auth/attempts/{node}*: status 405, RabbitMQ 204",
        ),
    ),
    Difference(
        "`reason` for a feature flag that is not known",
        "names it",
        ("PUT /api/feature-flags/none/enable *: reason *",),
    ),
    Difference(
        "health checks list the ports and protocols of this broker",
        "there is no port for a cluster; a check that one node always passes has no `reason`",
        (
            "GET /api/health/checks/port-listener/1: body *",
            "GET /api/health/checks/protocol-listener/*: body *",
            "GET /api/health/checks/protocol-listener/*: protocol: *",
            "GET /api/health/checks/node-is-*: reason: only RabbitMQ",
        ),
    ),
    # ----------------------------------------------------------------------------------- lists
    Difference(
        "bindings, consumers, nodes and users are paged too",
        "every list takes the same arguments; RabbitMQ answers with all items",
        (
            "GET *?page=1*: : object, RabbitMQ array",
            *_ours(
                *("filtered_count", "item_count", "items", "page", "page_count", "page_size"),
                *("total_count",),
                at="GET *?page=1*",
            ),
            *_theirs("each", at="GET *?page=1*"),
        ),
    ),
    Difference(
        "an empty object is `{}`",
        "RabbitMQ often has `[]`",
        (
            "GET *columns=*: each: object, RabbitMQ array",
            "POST */get *: each.properties: object, RabbitMQ array*",
            "GET /api/queues?columns=*: each.message_stats: object, RabbitMQ array object",
        ),
    ),
    # ------------------------------------------------------------------- keys of RabbitMQ alone
    Difference(
        "figures of Erlang: `garbage_collection`, `reductions`, `backing_queue_status`, `io_...`, "
        "`mnesia_...`, `msg_store_...`, `queue_index_...`, `context_switches` and others",
        "nothing here is that; the node has `loop_lag_us`, `turn_max_us` and `gc_max_us` instead, "
        "and `proc_used` and `run_queue` are 1 and 0",
        _theirs(
            *("garbage_collection", "reductions", "reductions_details", "backing_queue_status"),
            *("context_switches", "context_switches_details", "gc_bytes_reclaimed"),
            *(
                "gc_bytes_reclaimed_details",
                "metrics_gc_queue_length",
                "binary",
                "recoverable_slaves",
            ),
            *("pending_raft_commands", "config_files.each", "log_files.each"),
            *("ra_open_file_metrics.ra_log_segment_writer", "ra_open_file_metrics.ra_log_wal"),
        )
        + tuple(
            f"GET /api/nodes*: *{prefix}_*: only RabbitMQ"
            for prefix in ("io", "mnesia", "msg_store", "queue_index")
        )
        + ("GET /api/nodes/*memory*: memory.*: only RabbitMQ",),
    ),
    Difference(
        "the memory of a node has RabbitMQ 4's keys, most of which are 0",
        "queues are an estimate by type; the rest is not told apart, and is `other_system`",
        _ours("memory.metadata_store", "memory.metadata_store_ets", at="GET /api/nodes/*memory*"),
    ),
    Difference(
        "churn (`connection_created` ...) is in the overview, for monitoring users alone",
        "there is one node, so both would be the same",
        (
            *(
                f"GET /api/nodes*: *{what}*: only RabbitMQ"
                for what in ("channel_closed", "channel_created", "connection_closed")
            ),
            *(
                f"GET /api/nodes*: *{what}*: only RabbitMQ"
                for what in (
                    "connection_created",
                    "queue_created",
                    "queue_declared",
                    "queue_deleted",
                )
            ),
            "GET /api/overview as manager: churn_rates.*: only RabbitMQ",
        ),
    ),
    Difference(
        "`leader`, `members`, `online` of quorum queues and streams, `readers` of streams by node",
        "there is one node; `readers` of a stream is a number, and "
        "[readers](queue-operations.md#readers-of-a-stream) have a route",
        (
            *_theirs("leader", "members", "online", "readers.NODE"),
            "GET /api/queues*: readers: number, RabbitMQ object",
            "GET /api/queues*: each.readers: number, RabbitMQ object",
            "GET /api/queues*: items.each.readers: number, RabbitMQ object",
        ),
    ),
    Difference(
        "`peer_cert_...` and `ssl_...` of a connection without TLS are null",
        "there is nothing to tell; RabbitMQ has empty texts where one connection is asked for",
        tuple(
            f"GET /api/connections/{{connection}}: {prefix}_*: null, RabbitMQ text"
            for prefix in ("peer_cert", "ssl")
        ),
    ),
    Difference(
        "`hashing_algorithm` of users whose password was set here is "
        "`rabbit_password_hashing_argon2id`",
        "a stolen hash is harder to guess from; `auth.password_hashing` has it otherwise",
        (
            "GET /api/all-configuration: users.each.hashing_algorithm: *",
            "GET /api/definitions: users.each.hashing_algorithm: *",
            "GET /api/users*: *hashing_algorithm: *",
        ),
    ),
    Difference(
        "`recv_oct` and `send_oct` of virtual hosts",
        "octets are counted by connection",
        tuple(f"GET /api/vhosts*: *{name}*: only RabbitMQ" for name in ("recv_oct", "send_oct")),
    ),
    Difference(
        "`enable_uaa`, `uaa_...` of `/api/auth`",
        "RabbitMQ 4 has `oauth_enabled`",
        (*_theirs("enable_uaa", "uaa_client_id", "uaa_location"), *_ours("oauth_enabled")),
    ),
    Difference(
        "`internal_cluster_id` among the global parameters",
        "there is no cluster",
        (
            "GET *: *each.name: *RabbitMQ *internal_cluster_id*",
            "GET *: *each.value: 2, RabbitMQ *rabbitmq-cluster-id-*",
        ),
    ),
    # ------------------------------------------------------------------ keys of this broker alone
    Difference(
        "keys of RabbitMQ 4: `default_queue_type`, `being_drained`, `cluster_tags`, `node_tags`, "
        "`crypto_lib_version`, `is_op_policy_updating_enabled`, `is_internal_user`, "
        "`protected_from_deletion`, `metadata`, `consumer_timeout`, and the heads of definitions",
        "tools of today read them",
        _ours(
            *("default_queue_type", "being_drained", "cluster_tags", "node_tags"),
            *("crypto_lib_version", "is_op_policy_updating_enabled", "is_internal_user"),
            *("protected_from_deletion", "metadata", "consumer_timeout", "explanation"),
            *("original_cluster_name", "original_vhost_name", "rabbitmq_definition_format"),
            *("vhosts.each.description", "vhosts.each.tags", "vhosts.each.tracing", "tls"),
        ),
    ),
    Difference(
        "further keys: `set_by`, `is_slow`, `slow_reason`, `is_stopped`, `blocked_by`, "
        "`has_default_password`, `loopback_only`, `disk_free_alarm_reason`, "
        "`channel_details.user_provided_name`, "
        "`blocked_reason`, `credit`, `oldest_unacknowledged_age_s`, `messages_held`, "
        "`known_ids`, `duplicates`, `loop_lag_us`, `first_offset` and others",
        "what operators of this broker look at",
        _ours(
            *("set_by", "is_slow", "is_stopped", "credit", "oldest_unacknowledged_age_s"),
            *("oldest_unacknowledged_by", "slow_reason", "reader_lag_max"),
            *("blocked_reason", "blocked_since_ms", "blocked_by"),
            *("has_default_password", "loopback_only", "disk_free_alarm_reason"),
            "channel_details.user_provided_name",
            *("messages_held", "loop_lag_us", "loop_lag_max_us", "turn_max_us", "gc_max_us"),
            *("first_offset", "next_offset", "incarnation", "recv_cnt_details"),
            *("send_cnt_details", "owner_pid_details", "contexts.each.protocol"),
            *("contexts.each.node", "contexts.each.ssl_opts", "message_stats.disk_reads"),
            *("message_stats.disk_reads_details", "message_stats.disk_writes"),
            *("message_stats.disk_writes_details", "consumer_details.each.priority"),
            "consumer_details.each.messages_unacknowledged",
        )
        + _ours("each.priority", "each.messages_unacknowledged", at="GET /api/consumers*"),
    ),
    Difference(
        "`policy`, `operator_policy`, `effective_policy_definition`, `exclusive_consumer_tag`, "
        "`single_active_consumer_tag` are null, or empty, where there is none",
        "a key is always there; RabbitMQ leaves some out in some answers",
        (
            *_ours("policy", at="GET /api/exchanges*"),
            *_ours(
                *("effective_policy_definition", "exclusive_consumer_tag"),
                *("operator_policy", "single_active_consumer_tag"),
                at="GET /api/queues?disable_stats=true*",
            ),
            *_ours(
                *("exclusive_consumer_tag", "single_active_consumer_tag"),
                at="GET /api/queues/walk/quorum",
            ),
            *_ours(
                *("exclusive_consumer_tag", "single_active_consumer_tag"),
                at="GET /api/queues/walk/stream",
            ),
            "GET /api/queues?disable_stats=true*: each.policy: 'p' none, RabbitMQ 'p'",
        ),
    ),
    Difference(
        "streams have the numbers that classic queues have",
        "they are queues of the same kind here; RabbitMQ's have few",
        tuple(
            f"GET /api/queues/walk/stream: {prefix}*: only Hareline"
            for prefix in ("consumer_", "message", "idle_since", "head")
        ),
    ),
    Difference(
        "quorum queues have the numbers that classic queues have",
        "they are queues of the same kind here; RabbitMQ's have few, but `open_files`, "
        "`messages_dlx`, `message_bytes_dlx` and `single_active_consumer_ctag`",
        (
            *(
                f"GET /api/queues/walk/quorum: {prefix}*: only Hareline"
                for prefix in ("message", "head")
            ),
            *_theirs(
                *("open_files", "messages_dlx", "message_bytes_dlx", "single_active_consumer_ctag"),
                at="GET /api/queues*",
            ),
        ),
    ),
    Difference(
        "`disable_stats=true` leaves out what is counted and nothing else; with "
        "`enable_queue_totals=true` depths are there",
        "RabbitMQ has rows of other forms then (`totals`, `type_specific`, `state` `live`)",
        (
            "GET /api/queues?disable_stats=true*: each.exclusive: *",
            "GET /api/queues?disable_stats=true*: each.state: 'running', RabbitMQ 'live'",
            *_theirs("totals", "type_specific", at="GET /api/queues?disable_stats=true*"),
            *_ours(
                *("churn_rates", "contexts", "listeners", "message_stats", "queue_totals"),
                *("statistics_db_event_queue",),
                at="GET /api/overview?disable_stats=true",
            ),
            "GET /api/overview?disable_stats=true: object_totals.*: only RabbitMQ",
        ),
    ),
    Difference(
        "depths and samples are right at once",
        "RabbitMQ answers with what was sampled last: 0, or nothing, for some seconds; and has "
        "`idle_since` for what has been idle for some time",
        (
            "GET /api/overview?lengths_age=60*: queue_totals.*: *, RabbitMQ 0",
            "GET /api/vhosts*: *messages*: *",
            "GET /api/vhosts*: *message_stats*: only *",
            "GET /api/queues*: *idle_since: only *",
            "GET *channels*: *idle_since: only *",
        ),
        comes_and_goes=True,
    ),
    Difference(
        "`columns=queue_totals.messages` picks that number alone",
        "RabbitMQ picks the whole of `queue_totals`",
        ("GET /api/overview?columns=*: queue_totals.messages_*: only RabbitMQ",),
    ),
    Difference(
        "users without the tag monitoring see `node`, and empty `listeners` and `contexts`, in "
        "the overview; consumers are counted there",
        "tools take the keys for granted",
        (
            *_ours("contexts", "listeners", "node", at="GET /api/overview as manager"),
            "GET /api/overview as manager: object_totals.consumers: only Hareline",
        ),
    ),
    Difference(
        "users with the tag monitoring see queues of virtual hosts without permissions there",
        "as RabbitMQ 4; 3.10 shows none",
        (
            "GET /api/queues as monitor: each: only Hareline",
            "GET /api/policies as monitor: each: only Hareline",
        ),
    ),
    Difference(
        "`/api/connections/username/{user}` has whole connections",
        "as the other lists of connections; RabbitMQ has name, user, virtual host and node",
        ("GET /api/connections/username/guest: each.*: only Hareline",),
    ),
    Difference(
        "`user_who_performed_action` is empty for exchanges that a user has made",
        "the [event exchange](firehose-and-events.md) tells who has declared what; it is not kept",
        ("GET /api/exchanges*: *user_who_performed_action: *",),
    ),
    Difference(
        "`PUT /api/vhosts/{vhost}` changes description and tags of a virtual host that is there; "
        "`/` has no description",
        "as RabbitMQ 4; 3.10 ignores them",
        (
            "GET /api/vhosts*: *description: *, RabbitMQ *",
            "GET /api/vhosts*: *tags.each: only Hareline",
        ),
    ),
    Difference(
        "definitions of a virtual host have `limits`, description and the version, and items that "
        "do not name it",
        "as RabbitMQ 4 exports them; 3.10 has limits as parameters",
        (
            *_ours(
                *("description", "limits", "product_name", "product_version", "rabbitmq_version"),
                at="GET /api/definitions/walk",
            ),
            "GET /api/definitions/walk: parameters.*",
            "GET /api/definitions/walk: policies.each.vhost: only RabbitMQ",
        ),
    ),
    Difference(
        "types of exchanges, SASL mechanisms, feature flags, applications, extensions, ports and "
        "names are those of this broker",
        "each tells what it is",
        (
            "*: *exchange_types.each.*: *",
            "GET /api/nodes*: *auth_mechanisms.each.*: *",
            "GET /api/nodes*: *applications.each.*: *",
            "*: *contexts.each.description: *",
            "GET /api/feature-flags: each.name: *",
            "GET /api/extensions: each: only RabbitMQ",
            "GET /api/overview*: listeners.each.*",
            "GET /api/overview*: sample_retention_policies.detailed.each: only RabbitMQ",
            "GET /api/auth/attempts/{node}: each.protocol: *",
            "GET /api/cluster-name: name: *",
        ),
    ),
    Difference(
        "`properties_key` of a binding with arguments",
        "another digest, of the same form; read it from `Location` or from the list",
        (
            "GET /api/bindings*: each.properties_key: *",
            "POST /api/bindings/walk/e/h/q/kept *: header location *",
        ),
    ),
)

BEGIN: Final = "<!-- differences: written by `make reference` -->"
END: Final = "<!-- end of differences -->"


def with_table(page: str) -> str:
    """The page with the list as a table between its markers."""
    lines = [BEGIN, "", "| What | Why |", "|---|---|"]
    lines += [f"| {each.what} | {each.why} |" for each in DIFFERENCES]
    before, rest = page.split(BEGIN)
    return before + "\n".join([*lines, "", END]) + rest.partition(END)[2]
