"""Parameters of components, and global ones: values that are kept and shown.

RabbitMQ keeps the settings of its plugins so (shovels, federation); clients keep what they like
under names of their own. Two take effect: the limits of virtual hosts, of the component
``vhost-limits``, and the name of the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from hareline.administration.changes import INTERNAL, Changes
from hareline.administration.checks import (
    AdministrationError,
    bad_request,
    check_name,
    invalid,
    term,
)
from hareline.administration.origins import Origins
from hareline.administration.vhosts import Vhosts
from hareline.amqp.context import Context
from hareline.storage.administration import GlobalParameterRecord, ParameterRecord
from hareline.wire.constants import SHORTSTR_MAX_OCTETS

VHOST_LIMITS: Final = "vhost-limits"
LIMITS_NAME: Final = "limits"
CLUSTER_NAME: Final = "cluster_name"

#: Components that RabbitMQ knows; the values of all but the last have no effect here.
COMPONENTS: Final = ("federation-upstream", "federation-upstream-set", "shovel", VHOST_LIMITS)
#: Where a component's value has to have addresses.
_ADDRESSES: Final = {"federation-upstream": ("uri",), "shovel": ("src-uri", "dest-uri")}
_POLICIES: Final = ("policy", "operator_policy")


def _check_value(component: str, name: str, value: Any) -> None:
    """Raise AdministrationError for a value that RabbitMQ's component would not take."""
    if component == "federation-upstream-set":
        if not isinstance(value, list) or not all(
            isinstance(each, dict) and isinstance(each.get("upstream"), str) for each in value
        ):
            raise invalid(f"{name} should be a list of objects with upstream, not {term(value)}")
        return
    if not isinstance(value, dict):
        raise invalid(f"{name} should be an object, not {term(value)}")
    for key in _ADDRESSES[component]:
        if key not in value:
            raise invalid(f'Key "{key}" not found in {name}')
        given = value[key] if isinstance(value[key], list) else [value[key]]
        if not given or not all(isinstance(each, str) for each in given):
            raise invalid(f"{key} should be a URI or a list of URIs, not {term(value[key])}")


class Parameters:
    """All values, by component, virtual host and name, and global ones by name."""

    def __init__(self, changes: Changes, vhosts: Vhosts) -> None:
        self._changes = changes
        self._vhosts = vhosts
        store = changes.store
        self._records = {
            (each.component, each.vhost, each.name): each for each in store.records(ParameterRecord)
        }
        self._globals = {each.name: each for each in store.records(GlobalParameterRecord)}

    # ---------------------------------------------------------------------- of virtual hosts

    def all(self) -> list[ParameterRecord]:
        """Parameters of virtual hosts, but their limits."""
        return list(self._records.values())

    def lookup(self, component: str, vhost: str, name: str) -> ParameterRecord:
        """Raises AdministrationError if there is no such parameter."""
        record = self._records.get((component, vhost, name))
        if record is None:
            raise AdministrationError("not_found", f"no parameter '{name}' of '{component}'")
        return record

    def put(self, component: str, vhost: str, name: str, value: Any, *, by: str = INTERNAL) -> bool:
        """Set a parameter; True if it is new. Raises AdministrationError."""
        self._vhosts.lookup(vhost)
        check_name("parameter", name)
        if component in _POLICIES:
            raise bad_request("policies may not be set using this method")
        if component not in COMPONENTS:
            raise invalid(f"component {component} not found")
        if component == VHOST_LIMITS:
            return self._put_limits(vhost, name, value, by)
        _check_value(component, name, value)
        key = (component, vhost, name)
        is_new = key not in self._records
        record = ParameterRecord(component, vhost, name, value)

        def apply() -> None:
            self._records[key] = record
            self._changes.tell("parameter.set", by, **record._asdict())

        self._changes.write(apply, put=[record])
        return is_new

    def _put_limits(self, vhost: str, name: str, value: Any, by: str) -> bool:
        if name != LIMITS_NAME or not isinstance(value, dict):
            raise invalid(f"{name} not a list {term(value)}")
        is_new = not self._vhosts.record(vhost).limits
        self._vhosts.set_limits(vhost, value, by=by)
        return is_new

    def delete(self, component: str, vhost: str, name: str, *, by: str = INTERNAL) -> None:
        """Delete a parameter. Raises AdministrationError if there is none."""
        if component in _POLICIES:
            raise bad_request("policies may not be cleared using this method")
        if component == VHOST_LIMITS and name == LIMITS_NAME:
            self._vhosts.set_limits(vhost, {}, by=by)
            return

        def apply() -> None:
            del self._records[component, vhost, name]
            self._changes.tell("parameter.cleared", by, component=component, vhost=vhost, name=name)

        self._changes.write(apply, delete=[self.lookup(component, vhost, name)])

    def forget_vhost(self, vhost: str) -> None:
        for key in [key for key in self._records if key[1] == vhost]:
            del self._records[key]

    # -------------------------------------------------------------------------------- global

    def all_global(self) -> list[GlobalParameterRecord]:
        return list(self._globals.values())

    def global_value(self, name: str) -> Any:
        """The value of a global parameter; None if there is none."""
        record = self._globals.get(name)
        return None if record is None else record.value

    def lookup_global(self, name: str) -> GlobalParameterRecord:
        """Raises AdministrationError if there is no such parameter."""
        record = self._globals.get(name)
        if record is None:
            raise AdministrationError("not_found", f"no global parameter '{name}'")
        return record

    def put_global(self, name: str, value: Any, *, by: str = INTERNAL) -> bool:
        """Set a global parameter; True if it is new. Raises AdministrationError."""
        check_name("global parameter", name)
        is_new = name not in self._globals
        record = GlobalParameterRecord(name, value)

        def apply() -> None:
            self._globals[name] = record
            self._changes.tell("parameter.set", by, component="global", name=name, value=value)

        self._changes.write(apply, put=[record])
        return is_new

    def delete_global(self, name: str, *, by: str = INTERNAL) -> None:

        def apply() -> None:
            del self._globals[name]
            self._changes.tell("parameter.cleared", by, component="global", name=name)

        self._changes.write(apply, delete=[self.lookup_global(name)])


class ClusterName:
    """The name that clients and tools are told: of the settings, or else a global parameter."""

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
        self._parameters.put_global(CLUSTER_NAME, name, by=by)

    def apply(self) -> None:
        """Put the name in ``context.identity`` that was set, or the default."""
        given = self._parameters.global_value(CLUSTER_NAME)
        is_set = isinstance(given, str) and 0 < len(given.encode("utf-8")) <= SHORTSTR_MAX_OCTETS
        name = str(given) if is_set and not self._origins.names_cluster else self._default
        if name != self._context.identity.cluster_name:
            self._context.identity = replace(self._context.identity, cluster_name=name)

    def on_event(self, event: str, fields: Mapping[str, Any]) -> None:
        if fields.get("component") == "global" and fields.get("name") == CLUSTER_NAME:
            self.apply()
