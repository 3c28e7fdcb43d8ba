"""What two brokers answered to the same request, compared: statuses, key sets, kinds, errors.

Of a success the keys are compared recursively, with the kinds of their values; items of an array
are laid over each other. Values are compared of the keys in ``VALUES`` alone, since most numbers
and times are of the moment. A refusal is compared as a whole, and so are the headers that clients
read. Where statuses differ, that is all that is told.

Invariant: a key that one side lacks is told once, and not again for what is below it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

#: Keys whose values are the same for two brokers that were asked and told the same.
VALUES: Final = frozenset(
    {
        *("name", "vhost", "type", "durable", "auto_delete", "internal", "exclusive", "state"),
        *("source", "destination", "destination_type", "routing_key", "properties_key"),
        *("status", "tags", "pattern", "apply-to", "priority", "user", "configure", "write"),
        *("read", "component", "value", "messages", "messages_ready", "description", "tracing"),
        *("messages_unacknowledged", "consumers", "consumer_tag", "ack_required", "active"),
        *("activity_status", "prefetch_count", "global_prefetch_count", "number"),
        *("transactional", "payload", "payload_encoding", "payload_bytes", "redelivered"),
        *("message_count", "routed", "exchange", "page", "page_count", "page_size", "item_count"),
        *("filtered_count", "total_count", "protocol", "auth_mechanism", "peer_host", "channels"),
        *("policy", "operator_policy", "consumer_count", "messages_persistent", "message_bytes"),
        *("delivery_mode", "max-length", "x-max-length", "connections", "queues", "exchanges"),
        *("user_who_performed_action", "user_provided_name", "single_active_consumer_tag"),
        *("exclusive_consumer_tag", "message_bytes_ready", "mem_alarm", "disk_free_alarm"),
        *("hashing_algorithm", "enabled", "ssl", "running"),
    }
)


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer. ``body``: of JSON what it says, else the text; None if it is empty."""

    status: int
    body: Any
    headers: Mapping[str, str]


def differences(ours: Answered, theirs: Answered) -> Iterator[str]:
    """What differs between these answers, each in a line that is the same at each run."""
    if ours.status != theirs.status:
        yield f"status {ours.status}, RabbitMQ {theirs.status}"
        return
    for name in sorted(ours.headers.keys() | theirs.headers.keys()):
        mine, other = ours.headers.get(name), theirs.headers.get(name)
        if mine != other:
            yield f"header {name} {_shown(mine)}, RabbitMQ {_shown(other)}"
    if ours.status >= 400:
        yield from _of_refusals(ours.body, theirs.body)
    else:
        yield from _of_keys(_kinds(ours.body), _kinds(theirs.body))


def _of_refusals(ours: Any, theirs: Any) -> Iterator[str]:
    """What differs between two bodies: the reason alone, if all else is the same."""
    if ours == theirs:
        return
    if isinstance(ours, dict) and isinstance(theirs, dict):
        mine, other = ours.get("reason"), theirs.get("reason")
        if {**ours, "reason": None} == {**theirs, "reason": None}:
            yield f"reason {_shown(mine)}, RabbitMQ {_shown(other)}"
            return
    yield f"body {ours}, RabbitMQ {theirs}"


def _of_keys(ours: Mapping[str, set[str]], theirs: Mapping[str, set[str]]) -> Iterator[str]:
    told: set[str] = set()
    for path in sorted(ours.keys() | theirs.keys()):
        if path.rpartition(".")[0] in told:
            told.add(path)
        elif path not in theirs:
            told.add(path)
            yield f"{path}: only Hareline"
        elif path not in ours:
            told.add(path)
            yield f"{path}: only RabbitMQ"
        elif ours[path] != theirs[path]:
            mine, other = sorted(ours[path]), sorted(theirs[path])
            yield f"{path}: {' '.join(mine)}, RabbitMQ {' '.join(other)}"


def _kinds(body: object) -> Mapping[str, set[str]]:
    """From the place of each key and item to the kinds of values there, or the values."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    _gather(body, "", found)
    return found


def _gather(value: object, path: str, found: defaultdict[str, set[str]]) -> None:
    name = path.removesuffix(".each").rpartition(".")[2]
    if isinstance(value, dict):
        found[path].add("object")
        for key, each in value.items():
            _gather(each, f"{path}.{key}".removeprefix("."), found)
    elif isinstance(value, list):
        found[path].add("array")
        for each in value:
            _gather(each, f"{path}.each".removeprefix("."), found)
    elif name in VALUES:
        found[path].add(_shown(value))
    elif isinstance(value, bool):
        found[path].add("boolean")
    elif isinstance(value, int | float):
        found[path].add("number")
    else:
        found[path].add("null" if value is None else "text")


def _shown(value: object) -> str:
    return "none" if value is None else repr(value)
