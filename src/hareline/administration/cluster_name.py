"""The name of the cluster, which clients and tools are told: of the settings, or set at run time.

``management.api`` sets it, and the import of definitions does, because it is the global parameter
``cluster_name``, as in RabbitMQ. The option ``identity.cluster_name`` decides where the settings
have it (docs/decisions/0016-settings-and-run-time.md).

Invariant: what ``context.identity`` has is the name in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from hareline.administration.checks import NAME_MAX_OCTETS, check_name
from hareline.administration.origins import Origins
from hareline.administration.parameters import Parameters
from hareline.amqp.context import Context

PARAMETER: Final = "cluster_name"


class ClusterName:
    """The name, kept as a global parameter."""

    def __init__(self, context: Context, parameters: Parameters, origins: Origins) -> None:
        self._context = context
        self._parameters = parameters
        self._origins = origins
        self._default = context.identity.cluster_name

    def put(self, name: str, *, by: str) -> None:
        """Name the cluster. Raises AdministrationError, also if the settings name it."""
        check_name("cluster", name)
        if self._origins.names_cluster:
            if name != self._default:
                raise self._origins.cluster_name_is_fixed()
            return
        self._parameters.put_global(PARAMETER, name, by=by)

    def apply(self) -> None:
        """Put the name in force that was set, or the default."""
        given = self._parameters.global_value(PARAMETER)
        is_set = isinstance(given, str) and 0 < len(given.encode("utf-8")) <= NAME_MAX_OCTETS
        name = str(given) if is_set and not self._origins.names_cluster else self._default
        if name != self._context.identity.cluster_name:
            self._context.identity = replace(self._context.identity, cluster_name=name)

    def on_event(self, event: str, fields: Mapping[str, Any]) -> None:
        """A parameter was set or deleted, perhaps this one."""
        if fields.get("component") == "global" and fields.get("name") == PARAMETER:
            self.apply()
