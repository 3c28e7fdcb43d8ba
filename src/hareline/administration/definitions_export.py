"""Definitions in RabbitMQ's JSON: all that was declared and administered, and no messages.

They can be imported again, here and into RabbitMQ, without anything else being there, so they have
no predeclared exchange, no exclusive queue, no binding of either. See docs/definitions.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hareline.administration.administration import Administration
from hareline.administration.parameters import LIMITS_NAME, VHOST_LIMITS
from hareline.administration.users import algorithm_name
from hareline.amqp.context import Context
from hareline.auth.users import User
from hareline.broker.registry import RESERVED_PREFIX
from hareline.broker.vhost import VirtualHost
from hareline.queues.queue import Queue
from hareline.storage.administration import PolicyRecord, VhostRecord

OPERATOR_POLICY: Final = "operator_policy"
#: Of a queue, what RabbitMQ has no word for: changes by operators, and whether it is paused.
QUEUE_SETTINGS: Final = "x-hareline"

#: The lists of a file, in the order of RabbitMQ's; the last three may be long.
OF_BROKER: Final = ("users", "vhosts", "permissions", "topic_permissions")
OF_VHOST: Final = ("parameters", "policies", "queues", "exchanges", "bindings")

Item = Mapping[str, Any]


class Export:
    """The definitions of all virtual hosts, or of one, whose items then do not name it."""

    def __init__(
        self, context: Context, administration: Administration, vhost: VirtualHost | None = None
    ) -> None:
        self._context = context
        self._administration = administration
        self._vhost = vhost

    def head(self) -> dict[str, Any]:
        """Return the origin of the definitions, which stands in front of the lists."""
        identity = self._context.identity
        head = {
            "rabbit_version": identity.version,
            "rabbitmq_version": identity.version,
            "product_name": identity.product,
            "product_version": identity.version,
        }
        vhost = self._vhost
        if vhost is None:
            return {
                **head,
                "rabbitmq_definition_format": "cluster",
                "original_cluster_name": identity.cluster_name,
                "explanation": f"Definitions of cluster '{identity.cluster_name}'",
            }
        record = self._administration.vhosts.record(vhost.name)
        return {
            **head,
            "rabbitmq_definition_format": "single_virtual_host",
            "original_vhost_name": vhost.name,
            "explanation": f"Definitions of virtual host '{vhost.name}'",
            "metadata": _metadata(record),
            "description": record.description,
            "limits": dict(record.limits),
        }

    def lists(self) -> list[tuple[str, Iterator[Item]]]:
        """The lists by name; their items are made as they are asked for."""
        names = OF_VHOST if self._vhost else (*OF_BROKER, "global_parameters", *OF_VHOST)
        return [(name, getattr(self, f"_{name}")()) for name in names]

    # ---------------------------------------------------------------------- of the broker

    def _users(self) -> Iterator[Item]:
        for user in sorted(self._context.users, key=_name):
            yield {
                "name": user.name,
                "password_hash": user.password_hash,
                "hashing_algorithm": algorithm_name(user.hashing),
                "tags": list(user.tags),
                "limits": dict(self._administration.users.limits(user.name)),
            }

    def _vhosts(self) -> Iterator[Item]:
        vhosts = self._administration.vhosts
        for name in sorted(self._context.vhosts):
            metadata = _metadata(vhosts.record(name))
            is_traced = vhosts.is_traced(name)
            yield {"name": name, **metadata, "metadata": metadata, "tracing": is_traced}

    def _permissions(self) -> Iterator[Item]:
        for user in sorted(self._context.users, key=_name):
            for vhost, each in sorted(user.permissions.items(), key=lambda given: given[0]):
                if vhost in self._context.vhosts:
                    yield {
                        "user": user.name,
                        "vhost": vhost,
                        "configure": each.configure,
                        "write": each.write,
                        "read": each.read,
                    }

    def _topic_permissions(self) -> Iterator[Item]:
        for record in self._administration.users.topic_permissions():
            yield record._asdict()

    def _global_parameters(self) -> Iterator[Item]:
        for record in self._administration.parameters.all_global():
            yield record._asdict()

    # ------------------------------------------------------------------- of virtual hosts

    def _parameters(self) -> Iterator[Item]:
        administration = self._administration
        for vhost in self._served():
            limits = administration.vhosts.record(vhost.name).limits
            if limits and self._vhost is None:
                yield _parameter(VHOST_LIMITS, vhost.name, LIMITS_NAME, dict(limits))
        for record in administration.parameters.all():
            if self._concerns(record.vhost):
                yield self._shown(record._asdict())
        for policy in administration.policies.all(is_operator=True):
            if self._concerns(policy.vhost):
                value = policy_value(policy)
                yield self._shown(_parameter(OPERATOR_POLICY, policy.vhost, policy.name, value))

    def _policies(self) -> Iterator[Item]:
        for policy in self._administration.policies.all(is_operator=False):
            if self._concerns(policy.vhost):
                shown = {"vhost": policy.vhost, "name": policy.name, **policy_value(policy)}
                yield self._shown(shown)

    def _queues(self) -> Iterator[Item]:
        for vhost in self._served():
            for queue in list(vhost.queues.values()):
                if _is_exported(vhost, queue.name):
                    item = {
                        "name": queue.name,
                        "vhost": vhost.name,
                        "durable": queue.is_durable,
                        "auto_delete": queue.is_auto_delete,
                        "arguments": dict(queue.arguments),
                    }
                    settings = queue_settings(vhost, queue)
                    if settings:
                        item[QUEUE_SETTINGS] = settings
                    yield self._shown(item)

    def _exchanges(self) -> Iterator[Item]:
        for vhost in self._served():
            for exchange in list(vhost.exchanges.values()):
                if _is_own(exchange.name):
                    yield self._shown(
                        {
                            "name": exchange.name,
                            "vhost": vhost.name,
                            "type": exchange.type_name,
                            "durable": exchange.is_durable,
                            "auto_delete": exchange.is_auto_delete,
                            "internal": exchange.is_internal,
                            "arguments": dict(exchange.arguments),
                        }
                    )

    def _bindings(self) -> Iterator[Item]:
        for vhost in self._served():
            for name in list(vhost.exchanges):
                for binding in list(vhost.bindings.from_source(name)):
                    if binding.kind == "queue" and not _is_exported(vhost, binding.destination):
                        continue
                    yield self._shown(
                        {
                            "source": binding.source,
                            "vhost": vhost.name,
                            "destination": binding.destination,
                            "destination_type": binding.kind,
                            "routing_key": binding.routing_key,
                            "arguments": dict(binding.arguments),
                        }
                    )

    # ------------------------------------------------------------------------------ below

    def _served(self) -> list[VirtualHost]:
        if self._vhost is not None:
            return [self._vhost]
        return sorted(self._context.vhosts.values(), key=_name)

    def _concerns(self, vhost: str) -> bool:
        return self._vhost is None or self._vhost.name == vhost

    def _shown(self, item: dict[str, Any]) -> Item:
        if self._vhost is not None:
            del item["vhost"]
        return item


def _name(named: User | VirtualHost) -> str:
    return named.name


def _is_own(name: str) -> bool:
    """True for a name that is neither the default exchange's nor reserved."""
    return bool(name) and not name.startswith(RESERVED_PREFIX)


def _is_exported(vhost: VirtualHost, queue_name: str) -> bool:
    queue = vhost.queues.get(queue_name)
    return queue is not None and queue.owner is None and _is_own(queue_name)


def _metadata(record: VhostRecord) -> dict[str, Any]:
    metadata: dict[str, Any] = {"description": record.description, "tags": list(record.tags)}
    if record.default_queue_type:
        metadata["default_queue_type"] = record.default_queue_type
    if record.is_protected:
        metadata["protected_from_deletion"] = True
    return metadata


def queue_settings(vhost: VirtualHost, queue: Queue) -> dict[str, Any]:
    """Return the changes of operators to a queue, and that it is paused; empty if neither."""
    settings: dict[str, Any] = {}
    changes = vhost.live_arguments.changes_of(queue)
    if changes:
        settings["changes"] = dict(changes)
    if queue.is_paused:
        settings["paused"] = True
    return settings


def _parameter(component: str, vhost: str, name: str, value: Any) -> dict[str, Any]:
    return {"component": component, "vhost": vhost, "name": name, "value": value}


def policy_value(policy: PolicyRecord) -> dict[str, Any]:
    return {
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": dict(policy.definition),
        "priority": policy.priority,
    }
