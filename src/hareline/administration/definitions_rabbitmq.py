"""Definitions without what stops an import by RabbitMQ, which takes a file as a whole or not.

What RabbitMQ only passes over (arguments that it does not know) stays. What an item loses is named
in ``notes``, or has a line in docs/definitions.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from hareline.administration.checks import table_json
from hareline.administration.definitions_export import OPERATOR_POLICY, QUEUE_SETTINGS
from hareline.administration.parameters import COMPONENTS, VHOST_LIMITS
from hareline.administration.policy_keys import RABBITMQ_KEYS
from hareline.administration.users import algorithm_name
from hareline.auth.passwords import ALGORITHMS, DEFAULT_ALGORITHM
from hareline.queues.declare.table import (
    BY_NAME,
    DEFAULT_OVERFLOW,
    DEFAULT_QUEUE_TYPE,
    RABBITMQ_OVERFLOWS,
)

#: Limits of virtual hosts and of users; RabbitMQ refuses a file that has others.
_LIMITS: Final = ("max-connections", "max-queues", "max-channels")
#: Exchange types that RabbitMQ 4 has without a plugin.
CORE_EXCHANGE_TYPES: Final = ("direct", "fanout", "headers", "topic", "x-local-random")
_NAMED_MAX: Final = 10  # in a note
_NAME_MAX: Final = 60

Item = Mapping[str, Any]


class ForRabbitMQ:
    """One export. ``notes`` is complete once the items of all lists were taken."""

    def __init__(self) -> None:
        self._concerned: dict[str, list[str]] = {}

    def head(self, head: Item) -> Item:
        """The head as RabbitMQ takes it: what stands in front of the lists."""
        if "limits" not in head:
            return head
        return {**head, "limits": self._limits(head["original_vhost_name"], head["limits"])}

    def items(self, name: str, items: Iterable[Item]) -> Iterator[Item]:
        """The items of a list as RabbitMQ takes them."""
        change = getattr(self, f"_{name}", None)
        for item in items:
            changed = item if change is None else change(item)
            if changed is not None:
                yield changed

    def notes(self) -> list[str]:
        """A sentence for each kind of thing that was left out: what, how often, and of which."""
        notes = []
        for what, names in self._concerned.items():
            shown = ", ".join(f"'{each[:_NAME_MAX]}'" for each in names[:_NAMED_MAX])
            more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
            notes.append(f"{what}: {shown}{more}")
        return notes

    def _note(self, what: str, name: str) -> None:
        self._concerned.setdefault(what, []).append(name)

    def _users(self, item: Item) -> Item:
        changed = {**item, "limits": self._limits(item["name"], item["limits"])}
        if item["hashing_algorithm"] not in map(algorithm_name, ALGORITHMS):
            changed |= {"password_hash": "", "hashing_algorithm": algorithm_name(DEFAULT_ALGORITHM)}
            self._note("left out the password hash, which RabbitMQ cannot check, of", item["name"])
        return changed

    def _parameters(self, item: Item) -> Item | None:
        value, component = item["value"], item["component"]
        if component == VHOST_LIMITS:
            value = self._limits(item["vhost"], value)
        elif component == OPERATOR_POLICY:
            value = self._policy(item["name"], value)
        elif component in COMPONENTS:
            self._note(f"RabbitMQ needs a plugin for parameters of {component}", item["name"])
        return {**item, "value": value} if value else None

    def _policies(self, item: Item) -> Item | None:
        return self._policy(item["name"], item)

    def _policy(self, name: str, policy: Item) -> Item | None:
        given = policy["definition"]
        known = {key: value for key, value in given.items() if key in RABBITMQ_KEYS}
        for key in sorted(given.keys() - known.keys()):
            self._note(f"left out the key {key} of policies", name)
        for key in sorted(known):
            if key.startswith("federation-"):
                self._note(f"RabbitMQ needs a plugin for the key {key} of policies", name)
        return {**policy, "definition": known} if known else None

    def _queues(self, item: Item) -> Item:
        arguments = table_json(item["arguments"])
        unknown = set()
        if arguments.get("x-overflow", DEFAULT_OVERFLOW) not in RABBITMQ_OVERFLOWS:
            unknown.add("x-overflow")
        if arguments.get("x-queue-type", DEFAULT_QUEUE_TYPE) == DEFAULT_QUEUE_TYPE:
            unknown |= {
                name
                for name in arguments
                if name in BY_NAME and BY_NAME[name].is_for_quorum_in_rabbitmq
            }
        for name in sorted(unknown):
            del arguments[name]
            self._note(f"left out the argument {name} of queues", item["name"])
        if QUEUE_SETTINGS in item:
            self._note("left out what operators have changed, or paused, of queues", item["name"])
        changed = {**item, "arguments": arguments}
        changed.pop(QUEUE_SETTINGS, None)
        return changed

    def _exchanges(self, item: Item) -> Item:
        if item["type"] not in CORE_EXCHANGE_TYPES:
            self._note(
                f"RabbitMQ needs a plugin for type {item['type']} of exchanges", item["name"]
            )
        return {**item, "arguments": table_json(item["arguments"])}

    def _bindings(self, item: Item) -> Item:
        return {**item, "arguments": table_json(item["arguments"])}

    def _limits(self, name: str, limits: Mapping[str, int]) -> dict[str, int]:
        for limit in sorted(limits.keys() - set(_LIMITS)):
            self._note(f"left out the limit {limit} of", name)
        return {limit: value for limit, value in limits.items() if limit in _LIMITS}
